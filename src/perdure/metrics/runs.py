"""The summary of several runs of one method: means over seeds, with SDs and intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from .._display import make_frame
from ..stats import VarianceComponents, mean_over_seeds, variance_components
from .criteria import check_criteria_scale, clstability_of, criteria_weights
from .functional.value import UndefinedMetricError
from .registry import display_name, find_metric
from .summary_types import drop_other_ids, notes_about, render_html, render_text, to_list

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from pandas import DataFrame

    from ..stats import IntervalMethod, MeanOverSeeds
    from .score_matrix import ScoreScale
    from .summary_types import Summary

__all__ = [
    "RunsSummary",
    "describe_components",
    "mean_of_metric",
    "note_equal_runs",
    "summary_of_runs",
]

MAIN_METRICS = ("acc", "bwt", "forgetting.best", "min_acc")


@dataclass
class RunsSummary:
    """Means over runs; `sd` is the sample SD, `intervals` are those of the mean over seeds.

    A metric is defined here if it is defined in every run. If the runs are in several task orders,
    `components` tells the variance over orders from that over seeds, and the intervals are those of
    the mean over new orders and seeds. `seeds` has the seed of each run if all are known.
    """

    tasks: tuple[str, ...]
    runs: list[Summary]
    metrics: dict[str, float] = field(default_factory=dict)
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
        details = {
            id_: f"SD {self.sd[id_]:.4f}  {low:.4f} to {high:.4f}"
            for id_, (low, high) in self.intervals.items()
        }
        scale = self.runs[0].scale
        return render_text(title, self.metrics, scale, details, self.undefined, self.notes)

    def _repr_html_(self) -> str:
        ends = {
            id_: f"{low:.4f} to {high:.4f}, SD {self.sd[id_]:.4f}"
            for id_, (low, high) in self.intervals.items()
        }
        return render_html(self.metrics, self.runs[0].scale, ends, self.undefined, self.notes)

    def to_dict(self) -> dict[str, object]:
        """Return plain lists and numbers, ready for JSON."""
        plain = dict(vars(self))
        plain |= {"tasks": list(self.tasks), "control": list(self.control)}
        plain["runs"] = [run.to_dict() for run in self.runs]
        plain["intervals"] = {id_: list(ends) for id_, ends in self.intervals.items()}
        plain["components"] = {id_: _plain(parts) for id_, parts in self.components.items()}
        return plain

    def to_records(self) -> list[dict[str, object]]:
        """Return a row per metric: its id, mean, SD, interval over seeds and name."""
        return [
            {
                "id": id_,
                "mean": mean,
                "sd": self.sd.get(id_),
                "low": self.intervals[id_][0] if id_ in self.intervals else None,
                "high": self.intervals[id_][1] if id_ in self.intervals else None,
                "runs": len(self.runs),
                "name": display_name(find_metric(id_), self.runs[0].scale),
            }
            for id_, mean in self.metrics.items()
        ]

    def to_pandas(self) -> DataFrame:
        """Return the means over seeds as a pandas table with a row per id."""
        columns = ("id", "mean", "sd", "low", "high", "runs", "name")
        return make_frame(self.to_records(), columns, ["id"])


def summary_of_runs(
    runs: Sequence[Summary],
    *,
    weights: Mapping[str, float] | None = None,
    method: IntervalMethod = "t",
    level: float = 0.95,
    replicates: Sequence[tuple[Hashable, Hashable]] | None = None,
) -> RunsSummary:
    """Return the means over the seeds of one method of everything that all runs have.

    Args:
        runs: The summaries of the runs.
        weights: Weights of the criteria of clstability.
        method: Interval over seeds.
        level: Confidence level.
        replicates: Task order and seed of each run, to tell their variances apart.

    Example:
        >>> from perdure.metrics import summary
        >>> result = summary_of_runs([summary([[0.5]]), summary([[0.75]])])
        >>> result.metrics["acc"], round(result.sd["acc"], 6)
        (0.625, 0.176777)
    """
    if len(runs) < 2:
        raise ValueError(f"several runs are needed, got {len(runs)}")
    counts = [len(run.tasks) for run in runs]
    if len(set(counts)) > 1:
        raise ValueError(f"runs of one method must have the same number of tasks, got {counts}")
    result = RunsSummary(tasks=runs[0].tasks, runs=list(runs))
    for id_ in dict.fromkeys(id_ for run in runs for id_ in (*run.metrics, *run.undefined)):
        missing = [k for k, run in enumerate(runs) if id_ not in run.metrics]
        if missing:
            reason = runs[missing[0]].undefined.get(id_, "not computed")
            prefix = "" if len(missing) == len(runs) else f"in run {missing[0]}: "
            result.undefined[id_] = prefix + reason
            continue
        values = [run.metrics[id_] for run in runs]
        over = mean_of_metric(id_, values, runs[0].scale, method=method, level=level)
        result.metrics[id_], result.sd[id_] = over.mean, over.sd
        result.intervals[id_] = (over.low, over.high)
        if replicates is not None and len({order for order, _ in replicates}) > 1:
            _add_components(result, id_, values, replicates, level)
    try:
        by_id = criteria_weights(weights)
        check_criteria_scale(by_id, runs[0].scale)
        result.metrics["clstability"] = clstability_of([run.metrics for run in runs], by_id)
        result.undefined.pop("clstability", None)
    except UndefinedMetricError as undefined:
        result.undefined["clstability"] = str(undefined)
    result.curves = _means([run.curves for run in runs])
    result.per_task = _means([run.per_task for run in runs])
    result.notes = list(dict.fromkeys(note for run in runs for note in run.notes))
    result.notes += note_equal_runs(runs)
    if method == "bca" and len(runs) < 10:
        result.notes.append(f"BCa intervals of {len(runs)} seeds are too narrow; use about ten")
    if result.components:
        if any(run.tasks != result.tasks for run in runs):
            result.tasks = tuple(f"position {k}" for k in range(len(result.tasks)))
        result.notes.append(describe_components(result))
    elif any(run.tasks != result.tasks for run in runs):
        result.notes.append("task names or orders differ between runs; tasks match by position")
    if any(run.control != result.control for run in runs):
        result.notes.append("retention: the control tasks differ between runs")
    return result


def _add_components(
    result: RunsSummary,
    id_: str,
    values: Sequence[float],
    replicates: Sequence[tuple[Hashable, Hashable]],
    level: float,
) -> None:
    orders, seeds = zip(*replicates, strict=True)
    parts = variance_components(values, orders, seeds, level=level)
    if result.runs[0].scale.is_accuracy:
        metric = find_metric(id_)
        parts = parts._replace(low=max(parts.low, metric.low), high=min(parts.high, metric.high))
    result.components[id_] = parts
    result.intervals[id_] = (parts.low, parts.high)


def note_equal_runs(runs: Sequence[Summary]) -> list[str]:
    """Return a note on main metrics that are equal in all runs: their intervals have no width."""
    first = runs[0].metrics
    equal = [
        id_
        for id_ in MAIN_METRICS
        if id_ in first and all(run.metrics.get(id_) == first[id_] for run in runs[1:])
    ]
    if len(runs) < 2 or not equal:
        return []
    trust = "so intervals over them have no width and cannot be trusted; do their seeds differ?"
    return [f"{', '.join(equal)}: equal in all {len(runs)} runs, {trust}"]


def describe_components(summary: RunsSummary) -> str:
    """Return in one line how much the main metrics vary over task orders and over seeds."""
    ids = [id_ for id_ in MAIN_METRICS if id_ in summary.components][:2]
    ids = ids or list(summary.components)[:1]
    first = summary.components[ids[0]]
    if math.isnan(first.order_sd):
        return (
            f"{first.orders} task orders with one seed each: SD over both "
            + ", ".join(f"{summary.sd[id_]:.3g} ({id_})" for id_ in ids)
            + "; more seeds would tell them apart"
        )
    told = (
        f"SD over orders {parts.order_sd:.3g}, over seeds {parts.seed_sd:.3g} ({id_})"
        for id_, parts in ((id_, summary.components[id_]) for id_ in ids)
    )
    return f"{first.orders} task orders: {'; '.join(told)}"


def _plain(parts: VarianceComponents) -> dict[str, float | int | bool | None]:
    return {k: None if v != v else v for k, v in parts._asdict().items()}


def mean_of_metric(
    id_: str,
    values: Sequence[float],
    scale: ScoreScale,
    *,
    method: IntervalMethod = "t",
    level: float = 0.95,
) -> MeanOverSeeds:
    """Return a metric over seeds; for accuracies the interval stays in the metric's range.

    Example:
        >>> from perdure.metrics import ACCURACY
        >>> mean_of_metric("acc", [0.5, 0.75, 1.0], ACCURACY).high
        1.0
    """
    over = mean_over_seeds(values, method=method, level=level)
    if not scale.is_accuracy or over.seeds < 2:
        return over
    metric = find_metric(id_)
    return over._replace(low=max(over.low, metric.low), high=min(over.high, metric.high))


def _means(per_run: list[dict[str, list[float | None]]]) -> dict[str, list[float | None]]:
    """Return the mean of every list that all runs have, None where any of them is."""
    means = {}
    for name, first in per_run[0].items():
        if all(name in run and len(run[name]) == len(first) for run in per_run):
            values = np.array([run[name] for run in per_run], dtype=np.float64)  # None becomes NaN
            means[name] = to_list(values.mean(axis=0))
    return means
