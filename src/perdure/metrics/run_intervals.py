"""Intervals of the summary of a run, and of the difference of two runs, from test examples.

Of control tasks the same examples are evaluated before and after training, so a change is a mean
over examples of paired results, as for bwt (`matrix_intervals`). A ratio is linearised at the
observed scores. For the smallest change, the low end is the lowest of the tasks' own low ends; the
high end is the lowest of their high ends, each at the level at which all of them hold together
(Šidák), because the smallest of several noisy changes lies below the true one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from ..stats import mean_proportion_interval, normal_quantile, wilson_interval
from .functional.common import UndefinedMetricError
from .matrix_weights import LARGEST, LINEAR
from .registry import METRICS, find_metric, parse_id
from .stream_extremes import extreme_intervals, selection_bias
from .task_end_intervals import (
    Interval,
    PairedTerms,
    compute_intervals,
    end_statistics,
    estimate,
    matrix_intervals,
    paired_terms,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from .score_matrix import ControlScores, ScoreMatrix
    from .stream import PerExample, Stream
    from .summary_types import Summary
    from .task_end_intervals import EndStatistics

__all__ = ["RunDifference", "align_examples", "control_intervals", "difference_of_runs"]

# Metrics that increase with another one and take their intervals from it.
MONOTONE = {
    "rem": "bwt.all",
    "bwt.positive": "bwt.all",
    "raa": "acc",
    "uraa": "acc",
    "raf": "forgetting.best",
    "uraf": "forgetting.best",
}
Intervals = tuple[Interval, list[Interval]]  # of the metric, and of each task


def add_accuracy_intervals(summary: Summary, matrix: ScoreMatrix, level: float) -> None:
    """Add the intervals of accuracies, which need the sizes of the test sets only."""
    if matrix.sizes is None:
        return
    learned_sizes = matrix.sizes if matrix.learned_sizes is None else matrix.learned_sizes
    for id_, scores, sizes in (
        ("acc", matrix.scores[-1], matrix.sizes),
        ("acc.learning", matrix.scores.diagonal(), learned_sizes),
    ):
        if id_ in summary.metrics:
            summary.intervals[id_] = mean_proportion_interval(scores, sizes, level=level)
            lows, highs = wilson_interval(scores, sizes, level=level)
            summary.per_task_intervals[id_] = list(zip(lows.tolist(), highs.tolist(), strict=True))
    if "acc.pooled" in summary.metrics:
        pooled = summary.metrics["acc.pooled"]
        low, high = wilson_interval(pooled, matrix.sizes.sum(), level=level)
        summary.intervals["acc.pooled"] = (float(low), float(high))


def add_example_intervals(
    summary: Summary,
    matrix: ScoreMatrix,
    per_example: Mapping[str, PerExample],
    level: float,
    arguments_of: Callable[[str], dict[str, object]],
) -> None:
    """Add the intervals of matrix metrics that per-example results at task ends support.

    `arguments_of` returns the arguments of a metric's function besides the scores.
    """
    wanted = {MONOTONE.get(id_, id_) for id_ in summary.metrics}
    if not wanted & {"acc.pooled", *LINEAR, *LARGEST}:
        return
    by_examples = matrix_intervals(per_example, matrix.tasks, level=level)
    for id_ in summary.metrics:
        base = MONOTONE.get(id_, id_)
        if base not in by_examples.intervals:
            continue
        transform = _transform_from(base, id_, matrix, arguments_of)
        summary.intervals[id_] = transform(by_examples.intervals[base])
        summary.per_task_intervals[id_] = [
            None if ends is None else transform(ends) for ends in by_examples.per_task[base]
        ]


def _transform_from(
    base: str, id_: str, matrix: ScoreMatrix, arguments_of: Callable[[str], dict[str, object]]
) -> Callable[[Interval], Interval]:
    """Return the function from an interval of `base` to that of a metric that increases with it."""
    metric, source = METRICS[id_], METRICS[base]
    factor = 1.0
    if "classes" in metric.needs:
        one = np.ones_like(matrix.scores)  # a matrix whose acc, or forgetting, is 1
        one[-1] = base == "acc"
        factor = metric.function(one, **arguments_of(id_))
    offset = 1.0 if id_ == "rem" else 0.0

    def transform(ends: Interval) -> Interval:
        inside = (min(max(end, source.low), source.high) for end in ends)
        low, high = (min(max(factor * end + offset, metric.low), metric.high) for end in inside)
        return low, high

    return transform


def add_control_intervals(summary: Summary, control: ControlScores, level: float) -> None:
    """Add the intervals of retention that per-example results before and after support."""
    for id_, (total, per_task) in control_intervals(control, summary.metrics, level=level).items():
        low, high = METRICS[id_].low, METRICS[id_].high
        summary.intervals[id_] = _clip(total, low, high)
        summary.per_task_intervals[id_] = [_clip(ends, low, high) for ends in per_task]


def add_stream_intervals(
    summary: Summary, stream: Stream, per_example: Mapping[str, PerExample], level: float
) -> None:
    """Add intervals of the extremes of a stream or, without per-example results, their biases."""
    extremes = ("min_acc", "wc_acc", "wf")
    wanted = [id_ for id_ in summary.metrics if parse_id(id_).base in extremes]
    if per_example:
        intervals, reason = extreme_intervals(stream, per_example, wanted, level=level)
        summary.intervals |= intervals
        if reason:
            summary.notes.append(f"extremes without an interval: {reason}")
    summary.bias = selection_bias(stream, [id_ for id_ in wanted if id_ not in summary.intervals])


def control_intervals(
    control: ControlScores, ids: Collection[str], *, level: float = 0.95
) -> dict[str, Intervals]:
    """Return the intervals of those of `ids` that the per-example results support.

    Example:
        >>> from perdure.metrics import ControlScores, PerExample
        >>> right = np.arange(400) < [[380], [300]]  # 80 of 400 examples are lost
        >>> results = {"a": PerExample.pack([0, 1], right)}
        >>> control = ControlScores(["a"], [0.95], [[0.75]], results)
        >>> total, per_task = control_intervals(control, ["retention"])["retention"]
        >>> [round(end, 3) for end in total], total == per_task[0]
        ([-0.243, -0.155], True)
    """
    last = len(control.scores)
    pairs = {}
    for task in control.tasks:
        results = control.per_example.get(task)
        if results is None or not np.isin((0, last), results.steps).all():
            return {}
        pairs[task] = results.at(np.array([0, last]))
    statistics = end_statistics([pairs], control.tasks, ends=[0, last])
    found = {}
    if "retention" in ids or "retention.worst" in ids:
        found = _of_changes(statistics, level)
    if "retention.relative" in ids:
        found["retention.relative"] = _of_ratios(statistics, level)
    return {id_: ends for id_, ends in found.items() if id_ in ids}


def _of_changes(statistics: EndStatistics, level: float) -> dict[str, Intervals]:
    count = len(statistics.mean)
    terms = paired_terms(np.tile([-1.0, 1.0], (count, 1)), statistics)
    total, per_task = _of_mean(terms, level)
    together = 2 * ((1 + level) / 2) ** (1 / count) - 1
    highs = [estimate(terms.of(j), normal_quantile(together))[2] for j in range(count)]
    worst = (min(low for low, _ in per_task), min(highs))
    return {"retention": (total, per_task), "retention.worst": (worst, per_task)}


def _of_ratios(statistics: EndStatistics, level: float) -> Intervals:
    before, after = statistics.mean.T
    ratio = after / before
    terms = paired_terms(np.stack([-ratio / before, 1 / before], axis=1), statistics)
    terms = terms._replace(value=ratio)  # of the linearised ratio it is 0
    total, per_task = _of_mean(terms, level)
    return _clip(total, 0.0, inf), [_clip(ends, 0.0, inf) for ends in per_task]


def _of_mean(terms: PairedTerms, level: float) -> Intervals:
    count, z = len(terms.value), normal_quantile(level)
    total = estimate(terms.shared(np.full(count, 1 / count)), z)
    return total[1:], [estimate(terms.of(j), z)[1:] for j in range(count)]


@dataclass
class RunDifference:
    """First run minus second, per metric and per task, with None for tasks not part of a metric.

    The intervals cover how these two trained models would differ on other examples of the same
    tasks. They do not cover other seeds: see `compare_methods` for that.
    """

    tasks: tuple[str, ...]
    metrics: dict[str, float] = field(default_factory=dict)
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)
    per_task: dict[str, list[float | None]] = field(default_factory=dict)
    per_task_intervals: dict[str, list[tuple[float, float] | None]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, object]:
        """Return plain lists and numbers, ready for JSON."""
        return vars(self) | {"tasks": list(self.tasks)}


def difference_of_runs(
    first: Mapping[str, PerExample],
    second: Mapping[str, PerExample],
    tasks: Sequence[str] | None = None,
    *,
    level: float = 0.95,
    seed: int = 0,
) -> RunDifference:
    """Return how two runs differ in every matrix metric, paired by example.

    Args:
        first: per-example results of the first run at task ends.
        second: those of the second run.
        tasks: all tasks in the order of learning; those of `first` by default.
        level: confidence level of each interval by itself.
        seed: seed of the normal errors that largest scores need.

    Raises UndefinedMetricError with the reason if the runs were not evaluated on the same examples.

    Example:
        >>> from perdure.metrics import PerExample
        >>> right = np.arange(100) < [[90], [60]]
        >>> one = {"a": PerExample.pack([0], right[:1])}
        >>> other = {"a": PerExample.pack([0], right[1:])}
        >>> difference = difference_of_runs(one, other)
        >>> round(difference.metrics["acc"], 6)
        0.3
        >>> [round(end, 3) for end in difference.intervals["acc"]]
        [0.182, 0.404]
    """
    names = tuple(first if tasks is None else tasks)
    if list(first) != list(second):
        raise UndefinedMetricError(
            f"the tasks are {list(first)} and {list(second)}, expected the same"
        )
    for task in names:
        if task not in first:
            raise UndefinedMetricError(f"no per-example results of task {task!r} were recorded")
    aligned = {task: align_examples(task, first[task], second[task]) for task in names}
    computed = compute_intervals(end_statistics([first, aligned], names), level=level, seed=seed)
    result = RunDifference(names, computed.values, {}, computed.per_task_values)
    for id_, interval in computed.intervals.items():
        metric = find_metric(id_)
        limit = metric.high - metric.low
        result.intervals[id_] = _clip(interval, -limit, limit)
        result.per_task_intervals[id_] = [
            None if ends is None else _clip(ends, -limit, limit) for ends in computed.per_task[id_]
        ]
    return result


def _clip(ends: Interval, low: float, high: float) -> Interval:
    return max(ends[0], low), min(ends[1], high)


def align_examples(task: str, first: PerExample, second: PerExample) -> PerExample:
    """Return the results of the second run in the order of examples of the first.

    Raises UndefinedMetricError with the reason if they are results of other examples.
    """
    if None not in (first.data, second.data) and first.data != second.data:
        raise UndefinedMetricError(
            f"the evaluation data of task {task!r} differs (fingerprints {first.data} and "
            f"{second.data})"
        )
    if first.examples != second.examples:
        raise UndefinedMetricError(
            f"task {task!r} was evaluated on {first.examples} and on {second.examples} examples"
        )
    if (first.ids is None) != (second.ids is None):
        raise UndefinedMetricError(f"only one of the runs has ids of the examples of task {task!r}")
    if first.ids is None or second.ids is None or np.array_equal(first.ids, second.ids):
        return second
    common = np.intersect1d(first.ids, second.ids)
    if len(common) < first.examples:
        raise UndefinedMetricError(
            f"task {task!r} was evaluated on different examples: the runs share {len(common)} of "
            f"{first.examples} ids"
        )
    order = np.empty(first.examples, dtype=np.intp)
    order[np.argsort(first.ids)] = np.argsort(second.ids)
    packed = np.packbits(second[:][:, order], axis=1)
    return replace(second, packed=packed, ids=first.ids)
