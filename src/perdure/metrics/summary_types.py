"""The result of a summary and the options it is computed with."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING

from .._display import count_of, format_block, make_frame, make_polars
from .._html import render_table
from .registry import METRICS, better_direction, display_name, find_metric, format_id, parse_id
from .score_matrix import ACCURACY, ScoreScale

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    import numpy as np
    import polars as pl
    from numpy.typing import NDArray
    from pandas import DataFrame

__all__ = ["Summary", "SummaryOptions", "options_for"]

PRINTED_IDS = (
    "acc", "acc.learning", "bwt", "forgetting.best", "fwt.gem", "retention",
    "retention.worst", "min_acc", "wc_acc", "wf10", "gap.depth",
)  # fmt: skip
MAX_PRINTED = 10  # metrics
RECORD_COLUMNS = ("id", "value", "low", "high", "name")
MAX_NOTES = 3
CURVE_NAMES = {"acc": "aa", "forgetting.best": "af"}  # the names that the papers give them


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


@dataclass
class Summary:
    """The metrics of one run: every id is in `metrics` or, with the reason, in `undefined`.

    `curves` hold the value after each task and `per_task` the value of each task, both with None
    where undefined. `intervals` and `per_task_intervals` state how precise the test examples make
    the numbers of this run, with None for a task that is not part of a metric. `bias` bounds the
    bias of an extreme where only the number of examples is known. `control` names the tasks that
    are evaluated but never trained: the values per task of retention are theirs.
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
    control: tuple[str, ...] = ()

    def tasks_of(self, id_: str) -> tuple[str, ...]:
        """Return the tasks that the values per task of a metric belong to."""
        return self.control if find_metric(id_).input == "control" else self.tasks

    def curve(self, id_: str) -> list[float | None] | None:
        """Return a metric after each task, None if it has no such curve."""
        return self.curves.get(CURVE_NAMES.get(id_, id_))

    def keep_only(self, ids: Sequence[str]) -> None:
        """Drop everything that does not belong to the given ids."""
        drop_other_ids(self, ids)
        self.forgetting_matrix = None
        self.notes = notes_about(self.notes, ids)

    def __repr__(self) -> str:
        control = f" and {count_of(len(self.control), 'control task')}" if self.control else ""
        title = f"Summary of {count_of(len(self.tasks), 'task')}{control}"
        ends = {id_: f"{low:.4f} to {high:.4f}" for id_, (low, high) in self.intervals.items()}
        return render_text(title, self.metrics, self.scale, ends, self.undefined, self.notes)

    def _repr_html_(self) -> str:
        ends = {id_: f"{low:.4f} to {high:.4f}" for id_, (low, high) in self.intervals.items()}
        return render_html(self.metrics, self.scale, ends, self.undefined, self.notes)

    def to_dict(self) -> dict[str, object]:
        """Return plain lists and numbers, ready for JSON."""
        plain = {name: value for name, value in vars(self).items() if name != "scale"}
        plain |= {"tasks": list(self.tasks), "control": list(self.control)}
        plain["intervals"] = {id_: list(ends) for id_, ends in self.intervals.items()}
        return plain

    def to_records(self) -> list[dict[str, object]]:
        """Return a row per metric: its id, value, interval and name."""
        return [
            {
                "id": id_,
                "value": value,
                "low": self.intervals[id_][0] if id_ in self.intervals else None,
                "high": self.intervals[id_][1] if id_ in self.intervals else None,
                "name": display_name(find_metric(id_), self.scale),
            }
            for id_, value in self.metrics.items()
        ]

    def to_pandas(self) -> DataFrame:
        """Return the metrics as a pandas table with a row per id."""
        return make_frame(self.to_records(), RECORD_COLUMNS, ["id"])

    def to_polars(self) -> pl.DataFrame:
        """Return the metrics as a polars table with a row per id."""
        return make_polars(self.to_records(), RECORD_COLUMNS)


def render_text(
    title: str,
    metrics: Mapping[str, float],
    scale: ScoreScale,
    details: Mapping[str, str],
    undefined: Mapping[str, str],
    notes: Sequence[str],
) -> str:
    """Return the metrics that papers report as aligned lines, and how many others there are."""
    ids = list(metrics)
    if len(ids) > MAX_PRINTED:
        ids = [id_ for id_ in PRINTED_IDS if id_ in metrics] or ids[:MAX_PRINTED]
    arrows = {"higher": "↑", "lower": "↓"}
    rows = [
        [
            id_, arrows[better_direction(id_, scale)], f"{metrics[id_]:.4f}", details.get(id_, ""),
            display_name(find_metric(id_), scale),
        ]
        for id_ in ids
    ]  # fmt: skip
    if not any(row[3] for row in rows):
        rows = [[*row[:3], row[4]] for row in rows]
    footer = [f"note: {note}" for note in notes[:MAX_NOTES]]
    if len(notes) > MAX_NOTES:
        footer.append(f"{len(notes) - MAX_NOTES} more in .notes")
    others = [f"{len(metrics) - len(ids)} more in .metrics"] if len(ids) < len(metrics) else []
    others += [f"{len(undefined)} undefined, with reasons in .undefined"] if undefined else []
    return format_block(title, rows, [*(["; ".join(others)] if others else []), *footer])


def render_html(
    metrics: Mapping[str, float],
    scale: ScoreScale,
    ends: Mapping[str, str],
    undefined: Mapping[str, str],
    notes: Sequence[str],
) -> str:
    """Return a table of the metrics for a notebook, with the undefined ones folded away."""
    rows = [
        [
            id_,
            {"higher": "↑", "lower": "↓"}[better_direction(id_, scale)],
            f"{value:.4f}",
            ends.get(id_, ""),
            display_name(find_metric(id_), scale),
        ]
        for id_, value in metrics.items()
    ]
    parts = [render_table(["id", "", "value", "95% interval", "name"], rows, right={2, 3})]
    if undefined:
        reasons = render_table(["undefined", "because"], [*map(list, undefined.items())])
        parts.append(f"<details><summary>{len(undefined)} undefined</summary>{reasons}</details>")
    parts += [f"<p>{escape(note)}</p>" for note in notes]
    return "\n".join(parts)


def drop_other_ids(summary: object, ids: Collection[str]) -> None:
    """Drop from the dictionaries of a summary what does not belong to the given ids."""
    for name, values in vars(summary).items():
        if isinstance(values, dict):
            keys = [CURVE_NAMES.get(id_, id_) for id_ in ids] if name == "curves" else ids
            setattr(summary, name, {id_: values[id_] for id_ in values if id_ in keys})


def notes_about(notes: Iterable[str], ids: Iterable[str]) -> list[str]:
    """Return the notes that concern any of the ids: `wf, wp: …` names its ids, others have none."""
    bases = {parse_id(id_).base for id_ in ids}
    kept = []
    for note in notes:
        named = set(note.partition(": ")[0].split(", "))
        if not named <= METRICS.keys() or named & bases:
            kept.append(note)
    return kept


def to_list(values: NDArray[np.float64]) -> list[float | None]:
    """Return `values` as a list, with None for NaN."""
    return [None if value != value else value for value in values.tolist()]
