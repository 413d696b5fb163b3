"""The results of summaries: of one run, and of several runs of one method."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING

from .._display import count_of, format_block, make_frame, make_polars, render_table
from .registry import METRICS, better_direction, display_name, find_metric, parse_id
from .score_matrix import ACCURACY, ScoreScale

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    import numpy as np
    import polars as pl
    from numpy.typing import NDArray
    from pandas import DataFrame

    from ..stats import VarianceComponents

__all__ = ["RunsSummary", "Summary"]

PRINTED_IDS = (
    "acc", "acc.learning", "bwt", "forgetting.best", "fwt.gem", "retention",
    "retention.worst", "min_acc", "wc_acc", "wf10", "gap.depth",
)  # fmt: skip
MAX_PRINTED = 10  # metrics
RECORD_COLUMNS = ("id", "value", "low", "high", "name")
RUNS_COLUMNS = ("id", "mean", "sd", "low", "high", "runs", "name")
MAX_NOTES = 3
CURVE_NAMES = {"acc": "aa", "forgetting.best": "af"}  # the names that the papers give them


class MetricValues(dict[str, float]):
    """Values by id, with a KeyError that says why there is none.

    Example:
        >>> MetricValues(bwt=-0.3)["btw"]
        Traceback (most recent call last):
        KeyError: "no metric has the id 'btw'; did you mean bwt?"
    """

    def __missing__(self, id_: object) -> float:
        if not isinstance(id_, str):
            raise KeyError(id_)
        try:
            parse_id(id_)
        except ValueError as error:
            raise KeyError(str(error)) from None
        raise KeyError(f"{id_} has no value; `undefined` has the reason if it was asked for")


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
    metrics: dict[str, float] = field(default_factory=MetricValues)
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
        return _render_text(title, self, self.scale, _ends(self))

    def _repr_html_(self) -> str:
        return _render_html(self, self.scale, _ends(self))

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
                "id": id_, "value": value, "low": low, "high": high,
                "name": display_name(find_metric(id_), self.scale),
            }
            for id_, value in self.metrics.items()
            for low, high in [self.intervals.get(id_, (None, None))]
        ]  # fmt: skip

    def to_pandas(self) -> DataFrame:
        """Return the metrics as a pandas table with a row per id."""
        return make_frame(self.to_records(), RECORD_COLUMNS, ["id"])

    def to_polars(self) -> pl.DataFrame:
        """Return the metrics as a polars table with a row per id."""
        return make_polars(self.to_records(), RECORD_COLUMNS)


@dataclass
class RunsSummary:
    """Means over runs; `sd` is the sample SD, `intervals` are those of the mean over seeds.

    A metric is defined here if it is defined in every run. If the runs are in several task orders,
    `components` tells the variance over orders from that over seeds, and the intervals are those of
    the mean over new orders and seeds. `seeds` has the seed of each run if all are known.
    """

    tasks: tuple[str, ...]
    runs: list[Summary]
    metrics: dict[str, float] = field(default_factory=MetricValues)
    sd: dict[str, float] = field(default_factory=dict)
    undefined: dict[str, str] = field(default_factory=dict)
    curves: dict[str, list[float | None]] = field(default_factory=dict)
    per_task: dict[str, list[float | None]] = field(default_factory=dict)
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)
    components: dict[str, VarianceComponents] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    seeds: list[int | str] = field(default_factory=list)

    @property
    def control(self) -> tuple[str, ...]:
        """The names of the tasks that are evaluated but never trained."""
        return self.runs[0].control

    def tasks_of(self, id_: str) -> tuple[str, ...]:
        """Return the tasks that the values per task of a metric belong to."""
        return self.control if find_metric(id_).input == "control" else self.tasks

    def keep_only(self, ids: Sequence[str]) -> None:
        """Drop everything that does not belong to the given ids, in each run too."""
        drop_other_ids(self, ids)
        for run in self.runs:
            run.keep_only(ids)
        self.notes = notes_about(self.notes, ids)

    def __repr__(self) -> str:
        title = f"Mean over {len(self.runs)} runs of {len(self.tasks)} tasks"
        details = {id_: f"SD {self.sd[id_]:.4f}  {ends}" for id_, ends in _ends(self).items()}
        return _render_text(title, self, self.runs[0].scale, details)

    def _repr_html_(self) -> str:
        details = {id_: f"{ends}, SD {self.sd[id_]:.4f}" for id_, ends in _ends(self).items()}
        return _render_html(self, self.runs[0].scale, details)

    def to_dict(self) -> dict[str, object]:
        """Return plain lists and numbers, ready for JSON."""
        plain = dict(vars(self))
        plain |= {"tasks": list(self.tasks), "control": list(self.control)}
        plain["runs"] = [run.to_dict() for run in self.runs]
        plain["intervals"] = {id_: list(ends) for id_, ends in self.intervals.items()}
        plain["components"] = {
            id_: {
                name: None if value != value else value for name, value in parts._asdict().items()
            }
            for id_, parts in self.components.items()
        }
        return plain

    def to_records(self) -> list[dict[str, object]]:
        """Return a row per metric: its id, mean, SD, interval over seeds and name."""
        return [
            {
                "id": id_, "mean": mean, "sd": self.sd.get(id_), "low": low, "high": high,
                "runs": len(self.runs), "name": display_name(find_metric(id_), self.runs[0].scale),
            }
            for id_, mean in self.metrics.items()
            for low, high in [self.intervals.get(id_, (None, None))]
        ]  # fmt: skip

    def to_pandas(self) -> DataFrame:
        """Return the means over seeds as a pandas table with a row per id."""
        return make_frame(self.to_records(), RUNS_COLUMNS, ["id"])

    def to_polars(self) -> pl.DataFrame:
        """Return the means over seeds as a polars table with a row per id."""
        return make_polars(self.to_records(), RUNS_COLUMNS)


def _ends(summary: Summary | RunsSummary) -> dict[str, str]:
    return {id_: f"{low:.4f} to {high:.4f}" for id_, (low, high) in summary.intervals.items()}


def _render_text(
    title: str, summary: Summary | RunsSummary, scale: ScoreScale, details: Mapping[str, str]
) -> str:
    """Return the metrics that papers report as aligned lines, and how many others there are."""
    metrics, undefined, notes = summary.metrics, summary.undefined, summary.notes
    ids = list(metrics)
    if len(ids) > MAX_PRINTED:
        ids = [id_ for id_ in PRINTED_IDS if id_ in metrics] or ids[:MAX_PRINTED]
    rows = _rows(metrics, ids, scale, details)
    if not any(row[3] for row in rows):
        rows = [[*row[:3], row[4]] for row in rows]
    footer = [f"note: {note}" for note in notes[:MAX_NOTES]]
    if len(notes) > MAX_NOTES:
        footer.append(f"{len(notes) - MAX_NOTES} more in .notes")
    others = [f"{len(metrics) - len(ids)} more in .metrics"] if len(ids) < len(metrics) else []
    others += [f"{len(undefined)} undefined, with reasons in .undefined"] if undefined else []
    return format_block(title, rows, [*(["; ".join(others)] if others else []), *footer])


def _render_html(
    summary: Summary | RunsSummary, scale: ScoreScale, details: Mapping[str, str]
) -> str:
    """Return a table of the metrics for a notebook, with the undefined ones folded away."""
    rows = _rows(summary.metrics, summary.metrics, scale, details)
    parts = [render_table(["id", "", "value", "95% interval", "name"], rows, right={2, 3})]
    if undefined := summary.undefined:
        reasons = render_table(["undefined", "because"], [*map(list, undefined.items())])
        parts.append(f"<details><summary>{len(undefined)} undefined</summary>{reasons}</details>")
    parts += [f"<p>{escape(note)}</p>" for note in summary.notes]
    return "\n".join(parts)


def _rows(
    metrics: Mapping[str, float], ids: Iterable[str], scale: ScoreScale, details: Mapping[str, str]
) -> list[list[str]]:
    arrows = {"higher": "↑", "lower": "↓"}
    return [
        [
            id_, arrows[better_direction(id_, scale)], f"{metrics[id_]:.4f}", details.get(id_, ""),
            display_name(find_metric(id_), scale),
        ]
        for id_ in ids
    ]  # fmt: skip


def drop_other_ids(summary: object, ids: Collection[str]) -> None:
    """Drop from the dictionaries of a summary what does not belong to the given ids."""
    for name, values in vars(summary).items():
        if isinstance(values, dict):
            keys = [CURVE_NAMES.get(id_, id_) for id_ in ids] if name == "curves" else ids
            kept = {id_: values[id_] for id_ in values if id_ in keys}
            setattr(summary, name, type(values)(kept))


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
