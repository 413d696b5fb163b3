"""The worst case of continual evaluation (De Lange et al., 2023): minima and windowed drops.

Each takes a `Stream`; scores are larger-is-better inside. A "visit" is a stretch of training on
one task; its end is a switch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ._value import Undefined, Value, average, ratio
from .learning import current, current_curve
from .windows import check_window, drops, rises

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from .stream_data import Stream

__all__ = [
    "min_acc",
    "min_acc_curve",
    "minimum_after",
    "wc_acc",
    "wc_acc_curve",
    "wf",
    "wf_curve",
    "wp",
    "wp_curve",
]


def minimum_after(steps: NDArray[np.int64], scores: NDArray[np.float64], end: int) -> float:
    """Return the lowest score strictly after step `end`, or NaN if there is none.

    Example:
        >>> minimum_after(np.array([1, 2, 3]), np.array([0.1, 0.9, 0.7]), end=1)
        0.7
    """
    later = scores[np.searchsorted(steps, end, side="right") :]
    return float(later.min()) if len(later) else float("nan")


def min_acc(stream: Stream) -> Value:
    r"""Return the mean over tasks left behind of their lowest score since they were learned.

    $$\frac{1}{k-1} \sum_{i<k} \min_{t_i < n \le t} A(E_i, f_n)$$

    The score at $t_i$ itself does not count. A task that returns is left behind again when the
    next one starts; its minimum runs from the end of its first visit.

    Example:
        >>> from perdure.metrics import Stream
        >>> min_acc(Stream({"a": ([1, 2, 3], [0.9, 0.2, 0.6]), "b": ([2, 3], [0.5, 0.8])},
        ...                visits=[("a", 1), ("b", 3)]))
        0.2
    """
    current, learned = first_ends(stream)
    older = [name for name in learned if name != current]
    if not older:
        raise Undefined("no task has been left behind yet: needs at least 2 learned tasks")
    lows = np.full(len(stream.names), np.nan)
    for name in older:
        low = minimum_after(stream.tasks[name][0], stream.oriented(name), learned[name])
        if np.isnan(low):
            raise Undefined(f"task {name!r} was not tested after it was learned")
        lows[stream.names.index(name)] = low
    return average(lows)


def min_acc_curve(stream: Stream) -> NDArray[np.float64]:
    """Return `min_acc` at the end of each visit, NaN while no task was left behind.

    Example:
        >>> from perdure.metrics import Stream
        >>> tasks = {"a": ([1, 2], [0.9, 0.2]), "b": ([2], [0.5])}
        >>> min_acc_curve(Stream(tasks, [("a", 1), ("b", 2)]))
        array([nan, 0.2])
    """
    return _complete_means(_lows_by_visit(stream))


def wc_acc(stream: Stream) -> Value:
    r"""Return worst-case accuracy, $\frac1k A(E_k, f_t) + (1 - \frac1k)\,\text{min-ACC}$.

    Its `per_task` holds each older task's minimum and the current task's score.

    Example:
        >>> from perdure.metrics import Stream
        >>> wc_acc(Stream({"a": ([1, 2, 3], [0.9, 0.2, 0.6]), "b": ([2, 3], [0.5, 0.8])},
        ...               visits=[("a", 1), ("b", 3)]))
        0.5
    """
    task, learned = first_ends(stream)
    now = current(stream)
    parts = np.full(len(stream.names), np.nan)
    if len(learned) > 1:
        parts = min_acc(stream).per_task.copy()
    parts[stream.names.index(task)] = now
    return average(parts)


def wc_acc_curve(stream: Stream) -> NDArray[np.float64]:
    """Return `wc_acc` at the end of each visit.

    Example:
        >>> from perdure.metrics import Stream
        >>> tasks = {"a": ([1, 2], [0.9, 0.2]), "b": ([2], [0.5])}
        >>> wc_acc_curve(Stream(tasks, [("a", 1), ("b", 2)]))
        array([0.9 , 0.35])
    """
    lows = _lows_by_visit(stream)
    now = current_curve(stream)
    for k, (task, _) in enumerate(stream.visits):
        lows[k, stream.names.index(task)] = np.inf if np.isnan(now[k]) else now[k]
    return _complete_means(lows)


def wf(stream: Stream, window: int | None) -> Value:
    r"""Return windowed forgetting: the mean over tasks of the largest drop within w evaluations.

    Example:
        >>> from perdure.metrics import Stream
        >>> wf(Stream({"a": ([1, 2, 3, 4], [0.9, 0.8, 0.7, 0.9])}), window=2).per_task.round(6)
        array([0.1])
    """
    table = _largest(stream, window, drops)
    return Value(average(table[-1]), table[-1], _means(table))


def wf_curve(stream: Stream, window: int | None) -> NDArray[np.float64]:
    """Return `wf` as it stood at the end of each visit.

    Example:
        >>> from perdure.metrics import Stream
        >>> stream = Stream({"a": ([1, 2, 3], [0.5, 0.75, 0.25])}, [("a", 3)])
        >>> wf_curve(stream, window=2)
        array([0.5])
    """
    return _means(_largest(stream, window, drops))


def wp(stream: Stream, window: int | None) -> Value:
    r"""Return windowed plasticity: the mean over tasks of the largest rise within w evaluations.

    Example:
        >>> from perdure.metrics import Stream
        >>> wp(Stream({"a": ([1, 2, 3, 4], [0.9, 0.8, 0.7, 0.9])}), window=2).per_task.round(6)
        array([0.2])
    """
    table = _largest(stream, window, rises)
    return Value(average(table[-1]), table[-1], _means(table))


def wp_curve(stream: Stream, window: int | None) -> NDArray[np.float64]:
    """Return `wp` as it stood at the end of each visit.

    Example:
        >>> from perdure.metrics import Stream
        >>> stream = Stream({"a": ([1, 2, 3], [0.5, 0.75, 0.25])}, [("a", 3)])
        >>> wp_curve(stream, window=2)
        array([0.25])
    """
    return _means(_largest(stream, window, rises))


def _largest(
    stream: Stream,
    window: int | None,
    change: Callable[[NDArray[np.float64], int | None], NDArray[np.float64]],
) -> NDArray[np.float64]:
    """Return the largest `change` of each task (columns) by the end of each visit (rows).

    A stream without boundaries has one row. One pass over each task's scores.
    """
    check_window(window)
    ends = [visit.last for visit in stream.visits[:-1]] + [np.iinfo(np.int64).max]
    table = np.full((len(ends), len(stream.names)), np.nan)
    twice = np.zeros(len(ends), dtype=bool)  # by then, was any task tested twice?
    for at, name in enumerate(stream.names):
        changes = change(stream.oriented(name), window)
        tested = np.searchsorted(stream.tasks[name][0], ends, side="right")
        largest, start = np.nan, 0
        for k, end in enumerate(tested):
            if end > start:
                largest = np.fmax(largest, changes[start:end].max())
            table[k, at], start = largest, end
        twice[tested > 1] = True
    if not twice[-1]:
        raise Undefined("needs at least two evaluations of one task")
    table[~twice] = np.nan
    return table


def first_ends(stream: Stream) -> tuple[str, dict[str, int]]:
    """Return the current task, and for every task learned the end of its first visit."""
    stream.need_boundaries()
    ends: dict[str, int] = {}
    for task, last in stream.visits:
        ends.setdefault(task, last)
    return stream.visits[-1].task, ends


def _lows_by_visit(stream: Stream) -> NDArray[np.float64]:
    """Return each older task's minimum (columns) by the end of each visit (rows).

    NaN for tasks not left behind, infinity for one left behind but not tested since.
    """
    stream.need_boundaries()
    _, learned = first_ends(stream)
    ends = np.array([last for _, last in stream.visits])
    table = np.full((len(ends), len(stream.names)), np.nan)
    for at, name in enumerate(stream.names):
        if name not in learned:
            continue
        steps, scores = stream.tasks[name][0], stream.oriented(name)
        bounds = np.searchsorted(steps, np.append(learned[name], ends), side="right")
        low = np.inf
        for k, (task, last) in enumerate(stream.visits):
            if last > learned[name]:
                low = min(
                    low, scores[max(bounds[0], bounds[k]) : bounds[k + 1]].min(initial=np.inf)
                )
                table[k, at] = np.nan if task == name else low
    return table


def _complete_means(table: NDArray[np.float64]) -> NDArray[np.float64]:
    means = _means(table)
    return np.where(np.isinf(means), np.nan, means)


def _means(table: NDArray[np.float64]) -> NDArray[np.float64]:
    tested = ~np.isnan(table)
    return ratio(np.where(tested, table, 0.0).sum(axis=1), tested.sum(axis=1))
