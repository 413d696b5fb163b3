"""The worst case of continual evaluation (De Lange et al. 2023): minima and windowed drops.

Each takes a `Stream`; inside, scores are turned so that higher is better. A span is a period of
training on one task; it ends with a switch.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import numpy as np

from .common import UndefinedMetricError, Value, average, divide
from .learning import check_window, current_accuracy, current_accuracy_curve, drops, rises

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from ..score_matrix import ScoreMatrix
    from ..stream import Stream

    Change = Callable[[NDArray[np.float64], int | None], NDArray[np.float64]]

__all__ = [
    "forgetting_pairs",
    "min_acc",
    "min_acc_curve",
    "minimum_after",
    "wc_acc",
    "wc_acc_curve",
    "wf",
    "wp",
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
    next one starts; its minimum is taken from the end of its first span on.

    Example:
        >>> from perdure.metrics import Stream
        >>> min_acc(Stream({"a": ([1, 2, 3], [0.9, 0.2, 0.6]), "b": ([2, 3], [0.5, 0.8])},
        ...                spans=[("a", 1), ("b", 3)]))
        0.2
    """
    current, learned = first_ends(stream)
    older = [name for name in learned if name != current]
    if not older:
        raise UndefinedMetricError(
            "no task has been left behind yet: needs at least 2 learned tasks"
        )
    lows = np.full(len(stream.names), np.nan)
    for name in older:
        low = minimum_after(stream.tasks[name][0], stream.higher_is_better(name), learned[name])
        if np.isnan(low):
            raise UndefinedMetricError(f"task {name!r} was not evaluated after it was learned")
        lows[stream.positions[name]] = low
    return average(lows)


def min_acc_curve(stream: Stream) -> NDArray[np.float64]:
    """Return `min_acc` at the end of each span, NaN while no task was left behind.

    Example:
        >>> from perdure.metrics import Stream
        >>> tasks = {"a": ([1, 2], [0.9, 0.2]), "b": ([2], [0.5])}
        >>> min_acc_curve(Stream(tasks, [("a", 1), ("b", 2)]))
        array([nan, 0.2])
    """
    return _mean_lows(stream, np.zeros(len(stream.spans)), current=0)


def wc_acc(stream: Stream) -> Value:
    r"""Return worst-case accuracy, $\frac1k A(E_k, f_t) + (1 - \frac1k)\,\text{min-ACC}$.

    Its `per_task` holds the minimum of each older task and the score on the current task.

    Example:
        >>> from perdure.metrics import Stream
        >>> wc_acc(Stream({"a": ([1, 2, 3], [0.9, 0.2, 0.6]), "b": ([2, 3], [0.5, 0.8])},
        ...               spans=[("a", 1), ("b", 3)]))
        0.5
    """
    task, learned = first_ends(stream)
    now = current_accuracy(stream)
    parts = np.full(len(stream.names), np.nan)
    if len(learned) > 1:
        parts = min_acc(stream).per_task.copy()
    parts[stream.positions[task]] = now
    return average(parts)


def wc_acc_curve(stream: Stream) -> NDArray[np.float64]:
    """Return `wc_acc` at the end of each span.

    Example:
        >>> from perdure.metrics import Stream
        >>> tasks = {"a": ([1, 2], [0.9, 0.2]), "b": ([2], [0.5])}
        >>> wc_acc_curve(Stream(tasks, [("a", 1), ("b", 2)]))
        array([0.9 , 0.35])
    """
    return _mean_lows(stream, current_accuracy_curve(stream), current=1)


def wf(stream: Stream, window: int | None) -> Value:
    r"""Return windowed forgetting: the mean over tasks of the largest drop within w evaluations.

    Example:
        >>> from perdure.metrics import Stream
        >>> wf(Stream({"a": ([1, 2, 3, 4], [0.9, 0.8, 0.7, 0.9])}), window=2).per_task.round(6)
        array([0.1])
    """
    return _mean_of_largest(stream, window, drops)


def wp(stream: Stream, window: int | None) -> Value:
    r"""Return windowed plasticity: the mean over tasks of the largest rise within w evaluations.

    Example:
        >>> from perdure.metrics import Stream
        >>> wp(Stream({"a": ([1, 2, 3, 4], [0.9, 0.8, 0.7, 0.9])}), window=2).per_task.round(6)
        array([0.2])
    """
    return _mean_of_largest(stream, window, rises)


def _mean_of_largest(stream: Stream, window: int | None, change: Change) -> Value:
    """Return the mean over tasks of their largest `change`, with its curve over spans.

    A stream without boundaries counts as one span.
    """
    curve = []
    for largest in largest_by_span(stream, window, change):
        evaluated = ~np.isnan(largest)
        curve.append(divide(np.where(evaluated, largest, 0.0).sum(), evaluated.sum()))
    return Value(average(largest), largest.copy(), np.array(curve))


def largest_by_span(
    stream: Stream, window: int | None, change: Change = drops
) -> Iterator[NDArray[np.float64]]:
    """Yield the largest `change` of each task by the end of each span, NaN where not evaluated.

    All are NaN before any task was evaluated twice. The same array is yielded each time. Takes one
    pass over the scores of each task.
    """
    check_window(window)
    ends = np.array([*(span.last for span in stream.spans[:-1]), np.iinfo(np.int64).max])
    changes = []
    first_defined = len(ends)  # the first span by which a task was evaluated twice
    for position, (name, (steps, _)) in enumerate(stream.tasks.items()):
        if len(steps):
            span = np.searchsorted(ends, steps)
            highest = np.maximum.accumulate(change(stream.higher_is_better(name), window))
            changes.append((position, span, highest))
            first_defined = min([first_defined, *span[1:2].tolist()])
    if first_defined == len(ends):
        raise UndefinedMetricError("needs at least two evaluations of one task")
    largest = np.full(len(stream.names), np.nan)
    for k, (tasks, highest) in enumerate(_last_by_span(changes, len(ends))):
        largest[tasks] = highest
        yield largest if k >= first_defined else np.full(len(largest), np.nan)


def _last_by_span(
    updates: Iterable[tuple[int, NDArray[np.intp], NDArray[np.float64]]], spans: int
) -> Iterator[tuple[NDArray[np.intp], NDArray[np.float64]]]:
    """Yield for each span the positions of the tasks evaluated in it, and their last values.

    `updates` has the position of each task, and its values ordered by the spans they belong to.
    """
    parts = [(np.empty(0, np.intp), np.empty(0, np.intp), np.empty(0))]
    for position, span, values in updates:
        last = np.flatnonzero(np.append(span[1:] != span[:-1], True)[: len(span)])
        parts.append((span[last], np.full(len(last), position), values[last]))
    span, task, value = map(np.concatenate, zip(*parts, strict=True))
    order = np.argsort(span, kind="stable")
    ends = np.searchsorted(span[order], np.arange(spans), side="right")
    task, value = task[order], value[order]
    for start, end in pairwise([0, *ends.tolist()]):
        yield task[start:end], value[start:end]


def first_ends(stream: Stream) -> tuple[str, dict[str, int]]:
    """Return the current task, and for every learned task the end of its first span."""
    stream.require_boundaries()
    ends: dict[str, int] = {}
    for task, last in stream.spans:
        ends.setdefault(task, last)
    return stream.spans[-1].task, ends


def _mean_lows(
    stream: Stream, now: NDArray[np.float64], *, current: Literal[0, 1]
) -> NDArray[np.float64]:
    """Return the mean over older tasks of their minimum by the end of each span.

    `now` is the score of the task being learned, which counts `current` times. NaN where there is
    no older task, and where one was not evaluated since it was learned.
    """
    _, learned = first_ends(stream)
    ends = np.array([last for _, last in stream.spans])
    updates = []
    for name, end in learned.items():
        steps, scores = stream.tasks[name][0], stream.higher_is_better(name)
        start = int(np.searchsorted(steps, end, side="right"))
        lows = np.minimum.accumulate(scores[start:])
        updates.append((stream.positions[name], np.searchsorted(ends, steps[start:]), lows))
    curve = np.full(len(ends), np.nan)
    values, seen = np.zeros(len(stream.names)), 0
    for k, (tasks, lowest) in enumerate(_last_by_span(updates, len(ends))):
        before, task = stream.spans[k - 1].task, stream.spans[k].task
        if k and learned[before] == ends[k - 1]:  # left behind for the first time
            values[stream.positions[before]], seen = np.inf, seen + 1
        values[tasks] = lowest
        position = stream.positions[task]
        minimum, values[position] = values[position], now[k]
        count = seen - (learned[task] < ends[k]) + current
        curve[k] = values.sum() / count if count else np.nan
        values[position] = minimum
    return np.where(np.isinf(curve), np.nan, curve)


def forgetting_pairs(
    matrix: ScoreMatrix, stream: Stream, window: int | None = 10
) -> dict[tuple[int, int], tuple[float, float]]:
    """Return FORG and WF of every older task after each task (De Lange et al. 2023).

    The keys are the positions of the task just learned and of the older one. FORG is the score when
    the task was learned minus the score now; WF is the largest drop within `window` evaluations.

    Example:
        >>> from perdure.metrics import ScoreMatrix, Stream
        >>> stream = Stream({"a": ([1, 2, 3], [1.0, 0.25, 0.75]), "b": ([3], [0.5])},
        ...                 spans=[("a", 1), ("b", 3)])
        >>> forgetting_pairs(ScoreMatrix([[1.0, 0.0], [0.75, 0.5]]), stream)
        {(1, 0): (0.25, 0.75)}
    """
    scores = matrix.higher_is_better
    pairs: dict[tuple[int, int], tuple[float, float]] = {}
    with suppress(UndefinedMetricError):  # no task was evaluated twice
        for k, drops in enumerate(largest_by_span(stream, window)):
            if np.isnan(drops).all():  # none was by then
                continue
            forgetting = (scores.diagonal() - scores[k])[:k]
            both = zip(forgetting.tolist(), drops.tolist(), strict=False)
            pairs |= {(k, j): pair for j, pair in enumerate(both)}
    return pairs
