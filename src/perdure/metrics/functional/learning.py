"""Learning along a stream: the current task, the start of each task and the overall average."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .value import UndefinedMetricError, Value, average, divide

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..stream import Stream

__all__ = ["aaa", "current_accuracy", "current_accuracy_curve", "lca", "lca_curve"]


def aaa(stream: Stream) -> Value:
    """Return the mean over evaluations of the mean score on the tasks seen so far.

    A task is seen from its first training iteration, or, without boundaries, from its first
    evaluation.

    Example:
        >>> from perdure.metrics import Stream
        >>> aaa(Stream({"a": ([1, 2], [0.9, 0.5]), "b": ([2], [0.7])}, [("a", 1), ("b", 2)]))
        0.75
    """
    means, per_task = _means_over_seen(stream)
    return Value(float(np.nanmean(means)), per_task, _means_by_span(stream, means))


def current_accuracy(stream: Stream) -> Value:
    """Return the last score of the task being learned: the plasticity of De Lange et al. 2023.

    Its `per_task` holds the score of each task at the end of its own span.

    Example:
        >>> from perdure.metrics import Stream
        >>> current_accuracy(Stream({"a": ([1], [0.9]), "b": ([2], [0.7])}, [("a", 1), ("b", 2)]))
        0.7
    """
    curve = current_accuracy_curve(stream)
    if np.isnan(curve[-1]):
        raise UndefinedMetricError(f"the current task {stream.spans[-1].task!r} was not evaluated")
    per_task = np.full(len(stream.names), np.nan)
    for (task, _), score in zip(stream.spans, curve, strict=True):
        per_task[stream.positions[task]] = score
    return Value(curve[-1], per_task)


def current_accuracy_curve(stream: Stream) -> NDArray[np.float64]:
    """Return the score of the task being learned at the end of each span (NaN if not evaluated).

    Example:
        >>> from perdure.metrics import Stream
        >>> stream = Stream({"a": ([1], [0.9]), "b": ([2], [0.7])}, [("a", 1), ("b", 2)])
        >>> current_accuracy_curve(stream)
        array([0.9, 0.7])
    """
    stream.require_boundaries()
    curve = np.full(len(stream.spans), np.nan)
    start = -1
    for k, (task, last) in enumerate(stream.spans):
        steps, scores = stream.tasks[task]
        at = int(np.searchsorted(steps, last, side="right")) - 1
        if at >= 0 and steps[at] > start:
            curve[k] = scores[at]
        start = last
    return stream.scale.higher_is_better(curve)


def lca(stream: Stream, beta: int) -> Value:
    r"""Return the learning-curve area of the first `beta` batches of each task.

    $$\frac{1}{\beta+1} \sum_{b=0}^{\beta} \frac1T \sum_k A(E_k, f \text{ after } b \text{ batches
    of task } k)$$

    b = 0 is the score before the task's first update. Needs an evaluation at every iteration.

    Example:
        >>> from perdure.metrics import Stream
        >>> stream = Stream({"a": ([1, 2], [0.5, 0.7])}, [("a", 2)], before={"a": 0.3})
        >>> lca(stream, beta=2)
        0.5
    """
    areas = np.full(len(stream.names), np.nan)
    for task, area in _areas(stream, beta):
        if isinstance(area, UndefinedMetricError):
            raise area
        areas[stream.positions[task]] = area
    return average(areas)


def lca_curve(stream: Stream, beta: int) -> NDArray[np.float64]:
    """Return `lca` over the tasks learned by the end of each span, NaN where undefined.

    Example:
        >>> from perdure.metrics import Stream
        >>> lca_curve(Stream({"a": ([1, 2], [0.5, 0.7])}, [("a", 2)], before={"a": 0.3}), beta=2)
        array([0.5])
    """
    areas = [
        np.nan if isinstance(area, UndefinedMetricError) else area
        for _, area in _areas(stream, beta)
    ]
    means = np.cumsum(areas) / np.arange(1, len(areas) + 1)
    # Names are in the order of learning: the last position is the number of tasks seen.
    seen = np.maximum.accumulate([stream.positions[task] for task, _ in stream.spans])
    curve: NDArray[np.float64] = means[seen]
    return curve


def _areas(stream: Stream, beta: int) -> list[tuple[str, float | UndefinedMetricError]]:
    """Return for each learned task the mean of its first scores, or why it is unknown."""
    stream.require_boundaries()
    if beta < 0 or beta != int(beta):
        raise ValueError(f"beta must be a whole number of at least 0 batches, got {beta}")
    areas: dict[str, float | UndefinedMetricError] = {}
    start = 0
    for task, last in stream.spans:
        if task not in areas:  # a task that returns counts once
            try:
                areas[task] = float(_learning_curve(stream, task, start, last, beta).mean())
            except UndefinedMetricError as reason:
                areas[task] = reason
        start = last
    return list(areas.items())


def _learning_curve(
    stream: Stream, task: str, start: int, last: int, beta: int
) -> NDArray[np.float64]:
    steps, scores = stream.tasks[task][0], stream.higher_is_better(task)
    if start + beta > last:
        raise UndefinedMetricError(
            f"task {task!r} has {last - start} iterations, fewer than beta = {beta}"
        )
    wanted = np.arange(start + 1, start + beta + 1)
    evaluated = np.isin(wanted, steps)
    if not evaluated.all():
        raise UndefinedMetricError(
            f"needs an evaluation of task {task!r} after iteration {wanted[~evaluated][0]}"
        )
    before = stream.before.get(task)
    if before is not None:
        first = float(stream.scale.higher_is_better(np.array(before)))
    elif start in steps:
        first = float(scores[np.searchsorted(steps, start)])  # no update in between: same model
    else:
        raise UndefinedMetricError(
            f"needs the score of task {task!r} before its first update (kind initial)"
        )
    return np.concatenate([[first], scores[np.searchsorted(steps, wanted)]])


def _first_starts(stream: Stream) -> dict[str, int]:
    """Return the last iteration before the first span of each learned task."""
    starts: dict[str, int] = {}
    start = -1
    for task, last in stream.spans:
        starts.setdefault(task, start)
        start = last
    return starts


def _means_over_seen(stream: Stream) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the mean over seen tasks at each step of the grid, and each task's mean over steps."""
    grid, starts = stream.grid, _first_starts(stream)
    total, count = np.zeros(len(grid)), np.zeros(len(grid))
    per_task = np.full(len(stream.names), np.nan)
    for position, (name, (steps, _)) in enumerate(stream.tasks.items()):
        if stream.spans and name not in starts:
            continue
        first = int(np.searchsorted(steps, starts.get(name, -1), side="right"))
        scores = stream.higher_is_better(name)[first:]
        if len(scores):
            rows = np.searchsorted(grid, steps[first:])
            total[rows] += scores  # each step once, so no index repeats
            count[rows] += 1
            per_task[position] = scores.mean()
    if not count.any():
        raise UndefinedMetricError("needs an evaluation of a task that has been learned")
    return divide(total, count), per_task


def _means_by_span(stream: Stream, means: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean over all evaluations up to the end of each span."""
    measured = ~np.isnan(means)
    ends = np.searchsorted(stream.grid, [last for _, last in stream.spans], side="right")
    total = np.append(0.0, np.where(measured, means, 0.0).cumsum())[ends]
    count = np.append(0, measured.cumsum())[ends]
    return divide(total, count)
