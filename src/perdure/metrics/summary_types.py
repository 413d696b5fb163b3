"""What a summary holds, and how it was asked for."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

from .._html import table
from .registry import METRICS, better_of, find_metric
from .score_matrix import ACCURACY, ScoreScale

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from .registry import Metric

__all__ = ["Summary", "SummaryOptions", "options_for"]

CURVE_NAMES = {"acc": "aa", "forgetting.best": "af"}  # the names the papers give them


@dataclass(frozen=True)
class SummaryOptions:
    """How to summarise.

    Args:
        windows: evaluations in a window of wf and wp; None is all of them.
        beta: batches of each task that lca looks at.
        epsilon: the factor of ce.
        weights: of the criteria of clscore, by the paper's names or by id.
        level: confidence of the intervals.
        only: compute these ids alone.
        intervals: also compute the intervals and biases of one run, which take most of the time:
            where runs are compared, the seeds say how sure a number is.
    """

    windows: tuple[int | None, ...] = (10, 100, None)
    beta: int = 10
    epsilon: float = 1.0
    weights: Mapping[str, float] | None = None
    level: float = 0.95
    only: frozenset[str] | None = None
    intervals: bool = True

    def __post_init__(self) -> None:
        if not 0 < self.level < 1:
            raise ValueError(f"confidence level must lie between 0 and 1, got {self.level}")


def options_for(ids: Sequence[str]) -> SummaryOptions:
    """Return how to summarise one of several runs for these ids alone.

    wf5 asks for windows of 5, lca5 for 5 batches.

    Example:
        >>> asked = options_for(["acc", "wf5", "lca3"])
        >>> asked.windows, asked.beta
        ((5, 10, 100, None), 3)
    """
    windows = [int(id_[2:]) for id_ in ids if re.fullmatch(r"w[fp]\d+", id_)]
    batches = [int(id_[3:]) for id_ in ids if re.fullmatch(r"lca\d+", id_)]
    return SummaryOptions(
        windows=tuple(dict.fromkeys((*windows, *SummaryOptions.windows))),
        beta=batches[0] if batches else SummaryOptions.beta,
        only=frozenset(ids),
        intervals=False,
    )


@dataclass
class Summary:
    """What was computed: every id stands in `metrics` or, with a reason, in `undefined`.

    `curves` hold the value after each task, `per_task` the value of each task, both with None
    where undefined. `intervals` and `per_task_intervals` say how sure one run's test examples make
    its numbers, None for a task that takes no part. `bias` bounds how far an extreme may be off
    where only the number of examples is known.
    """

    tasks: tuple[str, ...]
    scale: ScoreScale = ACCURACY
    metrics: dict[str, float] = field(default_factory=dict)
    undefined: dict[str, str] = field(default_factory=dict)
    curves: dict[str, list[float | None]] = field(default_factory=dict)
    per_task: dict[str, list[float | None]] = field(default_factory=dict)
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)
    per_task_intervals: dict[str, list[tuple[float, float] | None]] = field(default_factory=dict)
    forgetting_matrix: list[list[float | None]] | None = None
    bias: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def keep_only(self, ids: Sequence[str]) -> None:
        """Drop everything but what belongs to the given ids."""
        drop_others(self, ids)
        self.forgetting_matrix = None
        self.notes = notes_about(self.notes, ids)

    def _repr_html_(self) -> str:
        ends = {id_: f"{low:.4f} to {high:.4f}" for id_, (low, high) in self.intervals.items()}
        return as_html(self.metrics, self.scale, ends, self.undefined, self.notes)

    def as_dict(self) -> dict[str, Any]:
        """Return plain lists and numbers, ready for JSON."""
        plain = {name: value for name, value in vars(self).items() if name != "scale"}
        plain["tasks"] = list(self.tasks)
        plain["intervals"] = {id_: list(ends) for id_, ends in self.intervals.items()}
        return plain


def as_html(
    metrics: Mapping[str, float],
    scale: ScoreScale,
    ends: Mapping[str, str],
    undefined: Mapping[str, str],
    notes: Sequence[str],
) -> str:
    """Return the metrics as a table for a notebook, and what is undefined to be unfolded."""
    rows = [
        [
            id_,
            {"higher": "↑", "lower": "↓"}[better_of(id_, scale)],
            f"{value:.4f}",
            ends.get(id_, ""),
            name_of(find_metric(id_), scale),
        ]
        for id_, value in metrics.items()
    ]
    parts = [table(["id", "", "value", "interval", "name"], rows, right={2, 3})]
    if undefined:
        why = table(["undefined", "because"], [*map(list, undefined.items())])
        parts.append(f"<details><summary>{len(undefined)} undefined</summary>{why}</details>")
    parts += [f"<p>{escape(note)}</p>" for note in notes]
    return "\n".join(parts)


def name_of(metric: Metric, scale: ScoreScale) -> str:
    """Return a metric's name in the words of the score: a loss has a maximum, no accuracy.

    Example:
        >>> name_of(METRICS["min_acc"], ScoreScale(0, 9, lower_is_better=True, name="loss"))
        'average maximum loss'
    """
    if scale.label == "accuracy":
        return metric.name
    name = re.sub(r"\b(accuracy|score)\b", lambda _: scale.label, metric.name)
    return name.replace("minimum", "maximum") if scale.lower_is_better else name


def drop_others(found: Any, ids: Sequence[str]) -> None:
    """Drop from the dictionaries of a summary what does not belong to the given ids."""
    for name, values in vars(found).items():
        if isinstance(values, dict):
            kept = [CURVE_NAMES.get(id_, id_) for id_ in ids] if name == "curves" else ids
            setattr(found, name, {id_: values[id_] for id_ in values if id_ in kept})


def notes_about(notes: Sequence[str], ids: Sequence[str]) -> list[str]:
    """Return the notes that concern any of the ids: `wf, wp: …` names some, others concern all."""
    wanted = {re.sub(r"(?<=^wf|^wp)(\d+|all)$", "", id_) for id_ in ids}
    kept = []
    for note in notes:
        about = set(note.partition(": ")[0].split(", "))
        if not about <= METRICS.keys() or about & wanted:
            kept.append(note)
    return kept


def listed(values: NDArray[np.float64]) -> list[float | None]:
    """Return `values` as a list with None for NaN."""
    return [None if value != value else value for value in values.tolist()]
