"""How learning goes along a stream: the current task, the start of each task, the whole average."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ._value import UndefinedMetricError, Value, average, ratio

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..stream import Stream

__all__ = ["aaa", "aaa_curve", "current_accuracy", "current_accuracy_curve", "lca", "lca_curve"]


def aaa(stream: Stream) -> Value:
    """Return the mean over evaluations of the mean score on the tasks seen so far.

    A task is seen from its first training iteration on; without boundaries, from its first test.

    Example:
        >>> from perdure.metrics import Stream
        >>> aaa(Stream({"a": ([1, 2], [0.9, 0.5]), "b": ([2], [0.7])}, [("a", 1), ("b", 2)]))
        0.75
    """
    means, each = _means_over_seen(stream)
    return Value(float(np.nanmean(means)), each, _past_means(stream, means))


def aaa_curve(stream: Stream) -> NDArray[np.float64]:
    """Return `aaa` as it stood at the end of each span.

    Example:
        >>> from perdure.metrics import Stream
        >>> aaa_curve(Stream({"a": ([1, 2], [0.9, 0.5]), "b": ([2], [0.7])}, [("a", 1), ("b", 2)]))
        array([0.9 , 0.75])
    """
    stream.need_boundaries()
    return _past_means(stream, _means_over_seen(stream)[0])


def current_accuracy(stream: Stream) -> Value:
    """Return the last score of the task being learned: plasticity, as De Lange et al. watch it.

    Its `per_task` holds each task's score at the end of its own span.

    Example:
        >>> from perdure.metrics import Stream
        >>> current_accuracy(Stream({"a": ([1], [0.9]), "b": ([2], [0.7])}, [("a", 1), ("b", 2)]))
        0.7
    """
    curve = current_accuracy_curve(stream)
    if np.isnan(curve[-1]):
        raise UndefinedMetricError(f"the current task {stream.spans[-1].task!r} was not tested")
    each = np.full(len(stream.names), np.nan)
    for (task, _), score in zip(stream.spans, curve, strict=True):
        each[stream.positions[task]] = score
    return Value(curve[-1], each)


def current_accuracy_curve(stream: Stream) -> NDArray[np.float64]:
    """Return the score of the task being learned at the end of each span (NaN if untested).

    Example:
        >>> from perdure.metrics import Stream
        >>> stream = Stream({"a": ([1], [0.9]), "b": ([2], [0.7])}, [("a", 1), ("b", 2)])
        >>> current_accuracy_curve(stream)
        array([0.9, 0.7])
    """
    stream.need_boundaries()
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
    # Names are in the order of learning: the furthest position tells how many are seen.
    seen = np.maximum.accumulate([stream.positions[task] for task, _ in stream.spans])
    curve: NDArray[np.float64] = means[seen]
    return curve


def _areas(stream: Stream, beta: int) -> list[tuple[str, float | UndefinedMetricError]]:
    """Return for each task learned the mean of its first scores, or why it is not known."""
    stream.need_boundaries()
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
    found = np.isin(wanted, steps)
    if not found.all():
        raise UndefinedMetricError(
            f"needs task {task!r} tested after iteration {wanted[~found][0]}"
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


def _starts(stream: Stream) -> dict[str, int]:
    starts: dict[str, int] = {}
    start = -1
    for task, last in stream.spans:
        starts.setdefault(task, start)
        start = last
    return starts


def _means_over_seen(stream: Stream) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the mean over seen tasks at each step of the grid, and over steps for each task."""
    grid, starts = stream.grid, _starts(stream)
    total, count = np.zeros(len(grid)), np.zeros(len(grid))
    each = np.full(len(stream.names), np.nan)
    for at, (name, (steps, _)) in enumerate(stream.tasks.items()):
        if stream.spans and name not in starts:
            continue
        first = int(np.searchsorted(steps, starts.get(name, -1), side="right"))
        scores = stream.higher_is_better(name)[first:]
        if len(scores):
            where = np.searchsorted(grid, steps[first:])
            total[where] += scores  # each step once, so no index repeats
            count[where] += 1
            each[at] = scores.mean()
    if not count.any():
        raise UndefinedMetricError("needs an evaluation of a task that has been learned")
    return ratio(total, count), each


def _past_means(stream: Stream, means: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean over all evaluations up to the end of each span."""
    tested = ~np.isnan(means)
    ends = np.searchsorted(stream.grid, [last for _, last in stream.spans], side="right")
    total = np.append(0.0, np.where(tested, means, 0.0).cumsum())[ends]
    count = np.append(0, tested.cumsum())[ends]
    return ratio(total, count)
