"""Two trained models on the same examples: how far apart they are, and how sure that is."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..functional.value import UndefinedMetricError
from ..registry import find_metric
from .matrix_intervals import intervals_of, statistics_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..per_example import PerExample

__all__ = ["RunDifference", "difference_of_runs"]


@dataclass
class RunDifference:
    """First run minus second, per metric and per task, None for a task that takes no part.

    The intervals say what these two trained models would differ by on other examples of the same
    tasks. They say nothing about other seeds: see `compare_methods` for that.
    """

    tasks: tuple[str, ...]
    metrics: dict[str, float] = field(default_factory=dict)
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)
    per_task: dict[str, list[float | None]] = field(default_factory=dict)
    per_task_intervals: dict[str, list[tuple[float, float] | None]] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
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
    """Return how two runs differ in every matrix metric, paired on examples.

    Args:
        first: `per_example_at_ends` of a run: which examples were right after learning which task.
        second: the same of the other run.
        tasks: all tasks in the order of learning; those of `first` if not given.
        level: confidence of each interval by itself.
        seed: of the normal errors that largest scores need.

    Raises UndefinedMetricError with the reason if the runs were not tested on the same examples.

    Example:
        >>> from perdure.metrics import PerExample
        >>> right = np.arange(100) < [[90], [60]]
        >>> one = {"a": PerExample.pack([0], right[:1])}
        >>> other = {"a": PerExample.pack([0], right[1:])}
        >>> found = difference_of_runs(one, other)
        >>> round(found.metrics["acc"], 6), [round(end, 3) for end in found.intervals["acc"]]
        (0.3, [0.182, 0.404])
    """
    names = tuple(first if tasks is None else tasks)
    if list(first) != list(second):
        raise UndefinedMetricError(
            f"the tasks are {list(first)} and {list(second)}, expected the same"
        )
    for task in names:
        if task not in first:
            raise UndefinedMetricError(
                f"it is not recorded which examples of task {task!r} were right"
            )
    paired = {task: _aligned(task, first[task], second[task]) for task in names}
    found = intervals_of(statistics_of([first, paired], names), level=level, seed=seed)
    result = RunDifference(names, found.values, {}, found.per_task_values)
    for id_, ends in found.intervals.items():
        metric = find_metric(id_)
        most = metric.high - metric.low
        result.intervals[id_] = _clipped(ends, most)
        result.per_task_intervals[id_] = [
            None if each is None else _clipped(each, most) for each in found.per_task[id_]
        ]
    return result


def _clipped(ends: tuple[float, float], most: float) -> tuple[float, float]:
    return max(ends[0], -most), min(ends[1], most)


def _aligned(task: str, first: PerExample, second: PerExample) -> PerExample:
    """Return the second run's hits with its examples in the order of the first's, or raise."""
    if None not in (first.data, second.data) and first.data != second.data:
        raise UndefinedMetricError(
            f"the evaluation data of task {task!r} differs (fingerprints {first.data} and "
            f"{second.data})"
        )
    if first.examples != second.examples:
        raise UndefinedMetricError(
            f"task {task!r} was tested on {first.examples} and on {second.examples} examples"
        )
    if (first.ids is None) != (second.ids is None):
        raise UndefinedMetricError(f"only one of the runs has ids of the examples of task {task!r}")
    if first.ids is None or second.ids is None or np.array_equal(first.ids, second.ids):
        return second
    common = np.intersect1d(first.ids, second.ids)
    if len(common) < first.examples:
        raise UndefinedMetricError(
            f"task {task!r} was tested on other examples: the runs share {len(common)} of "
            f"{first.examples} ids"
        )
    order = np.empty(first.examples, dtype=np.intp)
    order[np.argsort(first.ids)] = np.argsort(second.ids)
    packed = np.packbits(second[:][:, order], axis=1)
    return replace(second, packed=packed, ids=first.ids)
