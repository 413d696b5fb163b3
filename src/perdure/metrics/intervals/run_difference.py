"""The difference of two trained models on the same examples, with intervals."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from ..functional.value import UndefinedMetricError
from ..registry import find_metric
from .end_statistics import end_statistics
from .matrix_intervals import compute_intervals

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..per_example import PerExample

__all__ = ["RunDifference", "align_examples", "difference_of_runs"]


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
        result.intervals[id_] = _clip(interval, limit)
        result.per_task_intervals[id_] = [
            None if ends is None else _clip(ends, limit) for ends in computed.per_task[id_]
        ]
    return result


def _clip(ends: tuple[float, float], limit: float) -> tuple[float, float]:
    return max(ends[0], -limit), min(ends[1], limit)


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
