"""The criteria of CLscore and CLstability: which metrics, and with what weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .functional.costs import check_weights, clscore, clstability
from .functional.value import UndefinedMetricError
from .registry import find_metric

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .score_matrix import ScoreScale

__all__ = ["CRITERIA", "clscore_of", "clstability_of", "criteria_weights"]

CRITERIA = {
    "A": "acc.lower",
    "REM": "rem",
    "BWT+": "bwt.positive",
    "FWT": "fwt.upper",
    "MS": "ms",
    "SSS": "sss",
    "CE": "ce",
}


def criteria_weights(weights: Mapping[str, float] | None = None) -> dict[str, float]:
    """Return the weight of each metric id; seven equal weights by default.

    Names are those of Díaz-Rodríguez et al. 2018 (A, REM, BWT+, FWT, MS, SSS, CE) or ids of metrics
    in [0, 1].

    Example:
        >>> criteria_weights({"A": 0.75, "forgetting.peak": 0.25})
        {'acc.lower': 0.75, 'forgetting.peak': 0.25}
    """
    if weights is None:
        return check_weights(None, dict.fromkeys(CRITERIA.values()))
    check_weights(weights, weights)
    by_id: dict[str, float] = {}
    for name, weight in weights.items():
        id_ = CRITERIA.get(name.upper(), name)
        metric = find_metric(id_)
        if metric.low < 0 or metric.high > 1:
            raise ValueError(
                f"criterion {name!r} ranges from {metric.low:g} to {metric.high:g}, expected 0 to 1"
            )
        if id_ in by_id:
            raise ValueError(f"criterion {name!r} is given twice")
        by_id[id_] = weight
    return {id_: weight for id_, weight in by_id.items() if weight > 0}


def check_criteria_scale(weights: Mapping[str, float], scale: ScoreScale) -> None:
    """Raise UndefinedMetricError if a criterion is computed from scores other than accuracies."""
    if not scale.is_accuracy and any(
        find_metric(id_).input in ("matrix", "stream", "control") for id_ in weights
    ):
        raise UndefinedMetricError("is defined for accuracies from 0 to 1; these are other scores")


def clscore_of(metrics: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """Return the CLscore of the metrics of one run, or raise UndefinedMetricError.

    Example:
        >>> clscore_of({"rem": 0.5, "forgetting.peak": 0.1}, {"rem": 0.5, "forgetting.peak": 0.5})
        0.7
    """
    return clscore(_criteria(weights, metrics), weights)


def clstability_of(runs: Sequence[Mapping[str, float]], weights: Mapping[str, float]) -> float:
    """Return the CLstability of the metrics of several runs, or raise UndefinedMetricError.

    Example:
        >>> clstability_of([{"rem": 0.5}, {"rem": 0.5}], {"rem": 1.0})
        1.0
    """
    criteria = [_criteria(weights, run) for run in runs]
    return clstability({id_: [run[id_] for run in criteria] for id_ in weights}, weights)


def _criteria(weights: Mapping[str, float], metrics: Mapping[str, float]) -> dict[str, float]:
    """Return the criteria of one run, turned so that higher is better."""
    missing = [id_ for id_ in weights if id_ not in metrics]
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        raise UndefinedMetricError(
            f"needs {', '.join(missing)}, which {verb} undefined here"
            f"{_hint_without(missing, weights)}"
        )
    return {
        id_: 1 - metrics[id_] if find_metric(id_).better == "lower" else metrics[id_]
        for id_ in weights
    }


def _hint_without(missing: Sequence[str], weights: Mapping[str, float]) -> str:
    """Return a hint with weights that leave out the missing criteria and keep the proportions."""
    from fractions import Fraction  # imported here: it loads decimal

    rest = {id_: weight for id_, weight in weights.items() if id_ not in missing}
    total = sum(rest.values())
    if not total:
        return ""
    names = {id_: name for name, id_ in CRITERIA.items()}
    shares = {id_: Fraction(w / total).limit_denominator(10_000) for id_, w in rest.items()}
    listed = ",".join(f"{names.get(id_, id_)}={share}" for id_, share in shares.items())
    return f"; to leave {'it' if len(missing) == 1 else 'them'} out, use the weights {listed}"
