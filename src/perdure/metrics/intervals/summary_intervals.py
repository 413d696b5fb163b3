"""Intervals and biases that a summary of one run states, from its test examples."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...stats import mean_proportion_interval, wilson_interval
from ..registry import METRICS, parse_id
from .control_intervals import control_intervals
from .matrix_intervals import matrix_intervals
from .matrix_weights import LARGEST, LINEAR
from .stream_intervals import extreme_intervals, selection_bias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..control_scores import ControlScores
    from ..per_example import PerExample
    from ..score_matrix import ScoreMatrix
    from ..stream import Stream
    from ..summary_types import Summary

    Interval = tuple[float, float]

# Metrics that increase with another one and take their intervals from it.
MONOTONE = {
    "rem": "bwt.all",
    "bwt.positive": "bwt.all",
    "raa": "acc",
    "uraa": "acc",
    "raf": "forgetting.best",
    "uraf": "forgetting.best",
}


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
        clipped = [(max(ends[0], low), min(ends[1], high)) for ends in (total, *per_task)]
        summary.intervals[id_] = clipped[0]
        summary.per_task_intervals[id_] = [*clipped[1:]]


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
