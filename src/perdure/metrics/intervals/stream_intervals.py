"""Intervals of the extremes of a stream from per-example results, or bounds on their bias."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...stats import drop_bias, minimum_biases
from ..functional.value import UndefinedMetricError
from ..functional.worst_case import first_ends
from ..registry import parse_id
from .extremes import interval_of_drop, interval_of_minimum

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from ..per_example import PerExample
    from ..stream import Stream

__all__ = ["extreme_intervals", "selection_bias"]


def extreme_intervals(
    stream: Stream,
    per_example: Mapping[str, PerExample],
    ids: Sequence[str],
    *,
    level: float = 0.95,
) -> tuple[dict[str, tuple[float, float]], str | None]:
    """Return intervals of min_acc, wc_acc and wf among `ids`, and why one of them has none.

    An interval needs per-example results of every task that is part of the metric.

    Example:
        >>> from perdure.metrics import PerExample, Stream
        >>> results = PerExample.pack([1, 2], [[True] * 8, [True] * 4 + [False] * 4])
        >>> stream = Stream({"a": (results.steps, results.accuracy())})
        >>> intervals, _ = extreme_intervals(stream, {"a": results}, ["wf10"])
        >>> [round(end, 2) for end in intervals["wf10"]]
        [0.0, 1.0]
    """
    intervals: dict[str, tuple[float, float]] = {}
    reason = None
    for id_ in ids:
        base, arguments = parse_id(id_)
        try:
            if base == "wf":
                names = [task for task, (steps, _) in stream.tasks.items() if len(steps)]
                tasks = [_results_of(task, per_example) for task in names]
                intervals[id_] = interval_of_drop(tasks, arguments["window"], level=level)
            else:
                tasks = _results_after_learning(stream, per_example)
                if base == "wc_acc":
                    current = _results_of(stream.spans[-1].task, per_example)
                    tasks.append(current.after(int(current.steps[-1]) - 1))
                intervals[id_] = interval_of_minimum(tasks, level=level)
        except UndefinedMetricError as undefined:
            reason = str(undefined)
    return intervals, reason


def selection_bias(stream: Stream, ids: Sequence[str]) -> dict[str, float]:
    """Return a bound on the bias of each extreme in `ids`, from the numbers of examples.

    See `minimum_bias` and `drop_bias`. A metric with a task whose number of examples is unknown has
    none.

    Example:
        >>> from perdure.metrics import Stream
        >>> stream = Stream({"a": ([1, 2], [0.5, 0.5])}, sizes={"a": 100})
        >>> round(selection_bias(stream, ["wf10"])["wf10"], 3)
        0.083
    """
    bounds = {}
    minima = _minimum_biases(stream) if {"min_acc", "wc_acc"} & set(ids) else []
    for id_ in ids:
        base, arguments = parse_id(id_)
        biases, share = minima, 1.0
        if base == "wf":
            biases = [
                drop_bias(len(steps), stream.sizes.get(task), arguments["window"])
                for task, (steps, _) in stream.tasks.items()
                if len(steps)
            ]
        elif base == "wc_acc":
            share = len(minima) / (len(minima) + 1)
        known = [bias for bias in biases if bias is not None]
        if known and len(known) == len(biases):
            bounds[id_] = share * sum(known) / len(known)
    return bounds


def _minimum_biases(stream: Stream) -> list[float | None]:
    """Return `minimum_bias` of each task left behind, None where its size is unknown."""
    older = _tasks_left_behind(stream)
    biases: dict[str, float | None] = {task: None for task, _ in older}
    by_size: dict[int, dict[str, NDArray[np.float64]]] = {}
    for task, end in older:
        if task in stream.sizes:
            steps, scores = stream.tasks[task]
            later = scores[np.searchsorted(steps, end, side="right") :]
            by_size.setdefault(stream.sizes[task], {})[task] = later
    for n, tasks in by_size.items():
        lows = [float(later.min()) for later in tasks.values()]
        bounds = minimum_biases(lows, n, [len(later) for later in tasks.values()])
        biases |= dict(zip(tasks, bounds, strict=True))
    return list(biases.values())


def _tasks_left_behind(stream: Stream) -> list[tuple[str, int]]:
    """Return the tasks that are no longer learned, with the end of their first span."""
    current, ends = first_ends(stream)
    return [(task, end) for task, end in ends.items() if task != current]


def _results_after_learning(
    stream: Stream, per_example: Mapping[str, PerExample]
) -> list[PerExample]:
    tasks = [_results_of(task, per_example).after(end) for task, end in _tasks_left_behind(stream)]
    if not all(map(len, tasks)):
        raise UndefinedMetricError("no per-example results after a task was learned")
    return tasks


def _results_of(task: str, per_example: Mapping[str, PerExample]) -> PerExample:
    if task not in per_example:
        raise UndefinedMetricError(f"no per-example results of task {task!r}")
    return per_example[task]
