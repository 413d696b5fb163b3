"""Learning along a stream: current task, start of each task, overall average, sliding windows.

A window of `w` evaluations contains the current one and the `w - 1` before it; `None` is the
window of all evaluations.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from .common import UndefinedMetricError, Value, average, divide

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from ..stream import Stream

__all__ = [
    "LiveWindow",
    "WindowState",
    "aaa",
    "current_accuracy",
    "current_accuracy_curve",
    "drops",
    "lca",
    "lca_curve",
    "rises",
    "windowed_drop",
    "windowed_rise",
]

Float = TypeVar("Float", np.float32, np.float64)
Entries = list[tuple[int, float]]
WindowState = tuple[float, float, int, Entries, Entries]


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


def windowed_drop(scores: ArrayLike, window: int | None) -> float:
    r"""Return $\max_{m \le n, n-m < w} A_m - A_n$, the largest drop inside a window; never below 0.

    Example:
        >>> windowed_drop([0.9, 0.1, 0.8], window=2)
        0.8
    """
    return float(drops(scores, window).max(initial=0.0))


def windowed_rise(scores: ArrayLike, window: int | None) -> float:
    r"""Return $\max_{m \le n, n-m < w} A_n - A_m$, the largest rise inside a window; never below 0.

    Example:
        >>> round(windowed_rise([0.9, 0.1, 0.8], window=3), 6)
        0.7
    """
    return float(rises(scores, window).max(initial=0.0))


def drops(scores: ArrayLike, window: int | None) -> NDArray[np.float64]:
    """Return how far each evaluation lies below the best of its window, in O(n log w).

    Example:
        >>> drops([0.5, 0.25, 0.75, 0.5], window=2)
        array([0.  , 0.25, 0.  , 0.25])
    """
    a = np.asarray(scores, dtype=np.float64)
    return trailing_max(a, check_window(window)) - a


def rises(scores: ArrayLike, window: int | None) -> NDArray[np.float64]:
    """Return how far each evaluation lies above the worst of its window, in O(n log w).

    Example:
        >>> rises([0.5, 0.25, 0.75, 0.5], window=2)
        array([0. , 0. , 0.5, 0. ])
    """
    return drops(-np.asarray(scores, dtype=np.float64), window)


class LiveWindow:
    """`windowed_drop` and `windowed_rise` of a stream that is still growing.

    Memory is O(window), and O(1) for the window of all evaluations; an update takes O(1) amortised.

    Example:
        >>> live = LiveWindow(window=3)
        >>> for score in [0.9, 0.1, 0.8]:
        ...     live.update(score)
        >>> round(live.drop, 6), round(live.rise, 6)
        (0.8, 0.7)
    """

    def __init__(self, window: int | None) -> None:
        self.window = check_window(window)
        self.drop = 0.0
        self.rise = 0.0
        self._count = 0
        self._highs: deque[tuple[int, float]] = deque()  # decreasing: the first is the maximum
        self._lows: deque[tuple[int, float]] = deque()  # increasing: the first is the minimum

    def state(self) -> WindowState:
        """Return the state as plain numbers and lists."""
        return self.drop, self.rise, self._count, list(self._highs), list(self._lows)

    def load(self, state: WindowState) -> None:
        """Restore what `state` returned."""
        self.drop, self.rise, self._count, highs, lows = state
        self._highs = deque((int(k), score) for k, score in highs)
        self._lows = deque((int(k), score) for k, score in lows)

    def update(self, score: float) -> None:
        """Add the next evaluation."""
        if score != score:
            raise ValueError("score is nan, expected a number")
        highs, lows, window = self._highs, self._lows, self.window
        while highs and highs[-1][1] <= score:
            highs.pop()
        while lows and lows[-1][1] >= score:
            lows.pop()
        entry = (self._count, score)
        if window is not None:
            highs.append(entry)
            lows.append(entry)
            oldest = self._count - window
            if highs[0][0] <= oldest:
                highs.popleft()
            if lows[0][0] <= oldest:
                lows.popleft()
        else:  # nothing leaves the window: the extremes are enough
            if not highs:
                highs.append(entry)
            if not lows:
                lows.append(entry)
        self._count += 1
        drop, rise = highs[0][1] - score, score - lows[0][1]
        if drop > self.drop:
            self.drop = drop
        if rise > self.rise:
            self.rise = rise


def trailing_max(a: NDArray[Float], window: int | None, *, axis: int = -1) -> NDArray[Float]:
    """Return the maximum of each entry and the `window - 1` before it, along one axis."""
    if window is None or window >= a.shape[axis]:
        result: NDArray[Float] = np.maximum.accumulate(a, axis=axis)
        return result
    # Each pass doubles the window. (`scipy.ndimage.maximum_filter1d` takes a third of a second to
    # import, longer than most streams take to compute.)
    result = np.moveaxis(a, axis, -1).copy()
    width = 1
    while width < window:
        shift = min(width, window - width)
        result[..., shift:] = np.maximum(result[..., shift:], result[..., :-shift])
        width += shift
    return np.moveaxis(result, -1, axis)


def check_window(window: int | None) -> int | None:
    """Return `window`, or raise if it is not a number of evaluations."""
    if window is not None and (isinstance(window, bool) or window != int(window) or window < 1):
        raise ValueError(f"window must be a whole number of at least 1, or None, got {window!r}")
    return window
