"""What a summary computes: options, ids from what people type, the criteria of CLscore."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

from .._suggestions import normalize_name
from .functional.common import UndefinedMetricError
from .functional.costs import check_weights, clscore, clstability
from .registry import (
    FAMILIES,
    METRIC_ALIASES,
    METRICS,
    family_members,
    find_metric,
    format_id,
    parse_id,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .score_matrix import ScoreScale

__all__ = [
    "CRITERIA",
    "MetricSelection",
    "SummaryOptions",
    "clscore_of",
    "clstability_of",
    "criteria_weights",
    "options_for",
    "resolve_metric",
    "select_metric_ids",
]

CRITERIA = {
    "A": "acc.lower",
    "REM": "rem",
    "BWT+": "bwt.positive",
    "FWT": "fwt.upper",
    "MS": "ms",
    "SSS": "sss",
    "CE": "ce",
}


@dataclass(frozen=True)
class SummaryOptions:
    """How to summarise a run.

    Args:
        windows: windows of wf and wp in evaluations; None is the window of all evaluations.
        beta: number of batches per task in lca.
        epsilon: the factor of ce.
        weights: weights of the criteria of clscore, by the paper's names or by id.
        level: confidence level of the intervals.
        only: ids to compute; None for all of them.
        intervals: whether to compute intervals and biases, which take most of the time. A
            comparison of several runs does not need them.
        curves: whether to compute the value of each metric after each task too.
    """

    windows: tuple[int | None, ...] = (10, 100, None)
    beta: int = 10
    epsilon: float = 1.0
    weights: Mapping[str, float] | None = None
    level: float = 0.95
    only: frozenset[str] | None = None
    intervals: bool = True
    curves: bool = True

    def __post_init__(self) -> None:
        if not 0 < self.level < 1:
            raise ValueError(f"confidence level must lie between 0 and 1, got {self.level}")

    def ids_of(self, base: str) -> list[str]:
        """Return the ids under which the metric of one row is computed.

        Example:
            >>> SummaryOptions().ids_of("wf"), SummaryOptions().ids_of("acc")
            (['wf10', 'wf100', 'wfall'], ['acc'])
        """
        match METRICS[base].parameter:
            case "window":
                return [format_id(base, window) for window in self.windows]
            case "beta":
                return [format_id(base, self.beta)]
        return [base]


def options_for(ids: Iterable[str]) -> SummaryOptions:
    """Return the options that compute the given ids only, without intervals.

    `wf5` adds a window of 5 evaluations, `lca5` sets `beta` to 5.

    Example:
        >>> options = options_for(["acc", "wf5", "lca3"])
        >>> options.windows, options.beta
        ((5, 10, 100, None), 3)
    """
    arguments = [parse_id(id_).arguments for id_ in ids]
    windows = [given["window"] for given in arguments if given.get("window")]
    betas = [given["beta"] for given in arguments if "beta" in given]
    return SummaryOptions(
        windows=tuple(dict.fromkeys((*windows, *SummaryOptions.windows))),
        beta=SummaryOptions.beta if not betas or betas[0] is None else betas[0],
        only=frozenset(ids),
        intervals=False,
    )


class MetricSelection(NamedTuple):
    """The ids that names stand for, those named one by one, and a note per alias."""

    ids: list[str]
    named: list[str]
    notes: list[str]


def select_metric_ids(names: Iterable[str]) -> MetricSelection:
    """Return the ids that names stand for: ids, aliases such as `aa`, patterns such as `acc.*`.

    Raises ValueError for an unknown name, and for one that stands for several metrics.

    Example:
        >>> select_metric_ids(["AA", "omega.*"])
        MetricSelection(ids=['acc', 'omega.base', 'omega.new', 'omega.all', 'omega.offline'], \
named=['acc'], notes=['AA means acc'])
    """
    ids: list[str] = []
    named: list[str] = []
    notes: list[str] = []
    for name in names:
        if "*" in name or "?" in name:
            ids += _match_pattern(name)
            continue
        try:
            id_ = resolve_metric(name)
        except ValueError as error:
            word = name.casefold()
            every = f"{word}.*" if word in FAMILIES else f"{word}*" if word in METRICS else ""
            raise ValueError(f"{error}{f', or {every!r} for all' if every else ''}") from None
        named.append(id_)
        ids.append(id_)
        notes += [f"{name} means {id_}"] if id_ != name else []
    return MetricSelection(list(dict.fromkeys(ids)), named, notes)


def resolve_metric(name: str) -> str:
    """Return the id that a name stands for.

    Raises ValueError if there is none, or if several metrics have the name.

    Example:
        >>> resolve_metric("LA"), resolve_metric("wf10"), resolve_metric("WC-ACC")
        ('acc.learning', 'wf10', 'wc_acc')
    """
    word = name.casefold()
    if name in METRICS and METRICS[name].parameter is None:
        return name
    candidates = METRIC_ALIASES.get(normalize_name(name), ())
    if not candidates and word in FAMILIES and word not in METRICS:
        candidates = tuple(family_members(word))
    if len(candidates) > 1:
        raise ValueError(
            f"{name!r:.60} stands for several metrics; name one of {', '.join(candidates)}"
        )
    if candidates:
        return candidates[0]
    try:
        parse_id(name)
    except ValueError:
        if word in METRICS:
            return word
        raise
    return name


def _match_pattern(pattern: str) -> list[str]:
    computed = [id_ for base in METRICS for id_ in SummaryOptions().ids_of(base)]
    # acc.* is the family of acc, which is part of it
    matches = [id_ for id_ in computed if any(fnmatchcase(i, pattern) for i in (id_, f"{id_}."))]
    if not matches:
        raise ValueError(f"no id of a metric matches {pattern!r:.60}; see `perdure list metrics`")
    return matches


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
