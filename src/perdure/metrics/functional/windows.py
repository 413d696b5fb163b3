"""The largest drop and rise of one task within a sliding window.

A window of `w` evaluations contains the current one and the `w - 1` before it; `None` is the
window of all evaluations.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

Float = TypeVar("Float", np.float32, np.float64)
Entries = list[tuple[int, float]]
WindowState = tuple[float, float, int, Entries, Entries]

__all__ = ["LiveWindow", "WindowState", "drops", "rises", "windowed_drop", "windowed_rise"]


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
