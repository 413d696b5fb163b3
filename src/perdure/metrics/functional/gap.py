"""The stability gap as numbers: how deep, how large and how long the dip after a switch is.

Ours. For each switch to a new task and each older task: `depth` is the score at the switch minus
the lowest score while the new task is learned; `area` sums what is missing against the score at
the switch over the iterations; `recovery` counts the iterations from the switch until the score,
after its minimum, is first back at 95% of its value at the switch.
"""

from __future__ import annotations

from contextlib import suppress
from math import isqrt
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from ._value import UndefinedMetricError, Value, average, ratio

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from ..stream import Stream

__all__ = ["Dip", "dips", "gap_area", "gap_curve", "gap_depth", "gap_recovered", "gap_recovery"]

RECOVERED = 0.95


class Dip(NamedTuple):
    """What happened to one older task while another one was learned."""

    switch: int
    task: str
    depth: float
    area: float
    recovery: float  # 0 if the score never fell below 95%, infinity if it never came back


class _Dips(NamedTuple):
    """Dips as columns: the span during which each happened, the position of its task, the dip."""

    span: NDArray[np.int64]
    task: NDArray[np.int64]
    depth: NDArray[np.float64]
    area: NDArray[np.float64]
    recovery: NDArray[np.float64]


def dips(stream: Stream) -> list[Dip]:
    """Return the dip of every older task after every switch, in order.

    The score at the switch is the last one read by then. Left out: a task not tested by the
    switch, or not tested while the new task was learned.

    Example:
        >>> from perdure.metrics import Stream
        >>> stream = Stream({"a": ([1, 2, 3], [0.75, 0.25, 0.75]), "b": ([3], [0.5])},
        ...                 spans=[("a", 1), ("b", 3)])
        >>> dips(stream)
        [Dip(switch=1, task='a', depth=0.5, area=0.5, recovery=2.0)]
    """
    found = _dips(stream)
    switches = [stream.spans[span - 1].last for span in found.span.tolist()]
    tasks = [stream.names[at] for at in found.task.tolist()]
    numbers = (column.tolist() for column in (found.depth, found.area, found.recovery))
    return [Dip(*one) for one in zip(switches, tasks, *numbers, strict=True)]


def gap_depth(stream: Stream) -> Value:
    """Return the mean depth of the dips over older tasks and switches.

    Example:
        >>> from perdure.metrics import Stream
        >>> gap_depth(Stream({"a": ([1, 2, 3], [0.75, 0.25, 0.75]), "b": ([3], [0.5])},
        ...                  spans=[("a", 1), ("b", 3)]))
        0.5
    """
    found = _found(stream)
    return _mean(stream, found, found.depth)


def gap_area(stream: Stream) -> Value:
    """Return the mean area of the dips, in score times iterations.

    Example:
        >>> from perdure.metrics import Stream
        >>> gap_area(Stream({"a": ([1, 2, 3], [0.75, 0.25, 0.5]), "b": ([3], [0.5])},
        ...                 spans=[("a", 1), ("b", 3)]))
        0.75
    """
    found = _found(stream)
    return _mean(stream, found, found.area)


def gap_recovery(stream: Stream) -> Value:
    """Return the median iterations until recovery; dips that never recovered count as longest.

    Example:
        >>> from perdure.metrics import Stream
        >>> gap_recovery(Stream({"a": ([1, 2, 3], [0.75, 0.25, 0.75]), "b": ([3], [0.5])},
        ...                     spans=[("a", 1), ("b", 3)]))
        2.0
    """
    found = _with_recovery(stream)
    median = _median(found.recovery)
    if np.isinf(median):
        never, all_ = int(np.isinf(found.recovery).sum()), len(found.recovery)
        raise UndefinedMetricError(
            f"{never} of {all_} dips never recovered: the median is not known"
        )
    each = np.array([_median(mine) for mine in _by_task(stream, found, found.recovery)])
    return Value(median, np.where(np.isinf(each), np.nan, each), _medians(stream, found))


def gap_recovered(stream: Stream) -> Value:
    """Return the share of dips that came back to 95% while the new task was learned.

    Example:
        >>> from perdure.metrics import Stream
        >>> gap_recovered(Stream({"a": ([1, 2, 3], [0.75, 0.25, 0.5]), "b": ([3], [0.5])},
        ...                      spans=[("a", 1), ("b", 3)]))
        0.0
    """
    found = _with_recovery(stream)
    return _mean(stream, found, np.isfinite(found.recovery).astype(np.float64))


def gap_curve(stream: Stream, metric: Callable[[Stream], Value]) -> NDArray[np.float64]:
    """Return one of the gap metrics by the end of each span, NaN where undefined.

    Example:
        >>> from perdure.metrics import Stream
        >>> stream = Stream({"a": ([1, 2, 3], [0.75, 0.25, 0.75]), "b": ([3], [0.5])},
        ...                 spans=[("a", 1), ("b", 3)])
        >>> gap_curve(stream, gap_depth)
        array([nan, 0.5])
    """
    if metric is gap_recovery:  # may be known at first and not at the end
        with suppress(UndefinedMetricError):
            return _medians(stream, _with_recovery(stream))
    else:
        with suppress(UndefinedMetricError):
            curve = metric(stream).curve
            assert curve is not None
            return curve
    return np.full(len(stream.spans), np.nan)


_KNOWN: WeakKeyDictionary[Stream, _Dips] = WeakKeyDictionary()  # four metrics are made of them


def _dips(stream: Stream) -> _Dips:
    """Return every dip, by span and then by task."""
    if stream not in _KNOWN:
        _KNOWN[stream] = _all_dips(stream)
    return _KNOWN[stream]


def _all_dips(stream: Stream) -> _Dips:
    """Return the same, found in one pass over each task's scores."""
    stream.need_boundaries()
    ends = np.array([last for _, last in stream.spans])
    trained = np.array([stream.positions[task] for task, _ in stream.spans])
    first = np.full(len(stream.names), len(ends))
    np.minimum.at(first, trained, np.arange(len(ends)))
    parts = [_Dips(*np.empty((2, 0), np.int64), *np.empty((3, 0)))]
    for at, name in enumerate(stream.names):
        steps, scores = stream.tasks[name][0], stream.higher_is_better(name)
        span = np.searchsorted(ends, steps)
        starts = np.append(0, np.flatnonzero(span[1:] != span[:-1]) + 1)[: len(span)]
        during = span[starts]
        older = (during > first[at]) & (trained[during] != at) & (starts > 0)
        if older.any():
            lengths = np.diff(starts, append=len(steps))
            during, inside = during[older], np.repeat(older, lengths)
            values = scores[starts[older] - 1]
            found = _each_dip(
                steps[inside], scores[inside], lengths[older], ends[during - 1], values
            )
            parts.append(_Dips(during, np.full(len(during), at), *found))
    columns = list(map(np.concatenate, zip(*parts, strict=True)))
    by_visit = np.argsort(columns[0], kind="stable")
    return _Dips(*(column[by_visit] for column in columns))


def _each_dip(
    steps: NDArray[np.int64],
    scores: NDArray[np.float64],
    lengths: NDArray[np.intp],
    switches: NDArray[np.int64],
    values: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return depth, area and recovery of one task's dips, whose evaluations follow each other.

    Args:
        steps: of the evaluations of all dips.
        scores: likewise.
        lengths: how many evaluations each dip has.
        switches: the step before each dip.
        values: the score there.

    Example:
        >>> steps, scores = np.array([11, 12, 13, 14]), np.array([0.75, 0.5, 0.75, 1.0])
        >>> [each.tolist() for each in _each_dip(steps, scores, np.array([4]), [10], np.ones(1))]
        [[0.5], [1.0], [4.0]]
    """
    ends = np.cumsum(lengths)
    starts = ends - lengths
    widths = np.diff(steps, prepend=0)
    widths[starts] = steps[starts] - switches
    missing = np.maximum(np.repeat(values, lengths) - scores, 0.0)
    lows = np.minimum.reduceat(scores, starts)
    lowest = np.flatnonzero(scores == np.repeat(lows, lengths))
    lowest = lowest[np.searchsorted(lowest, starts)]
    wanted = RECOVERED * values
    back = np.append(np.flatnonzero(scores >= np.repeat(wanted, lengths)), len(steps))
    back = back[np.searchsorted(back, lowest)]
    times = np.append(steps, 0)[back] - switches
    recovery = np.where(lows >= wanted, 0.0, np.where(back < ends, times, np.inf))
    return values - lows, np.add.reduceat(missing * widths, starts), recovery


def _found(stream: Stream) -> _Dips:
    found = _dips(stream)
    if not len(found.span):
        raise UndefinedMetricError("no older task was tested both at a switch and after it")
    return found


def _with_recovery(stream: Stream) -> _Dips:
    if stream.scale.lower_is_better or stream.scale.low < 0:
        raise UndefinedMetricError("95% of a score makes sense only where scores are never below 0")
    return _found(stream)


def _mean(stream: Stream, found: _Dips, values: NDArray[np.float64]) -> Value:
    each = [np.mean(mine) if len(mine) else np.nan for mine in _by_task(stream, found, values)]
    known = _by_visit(stream, found)
    curve = ratio(np.append(0.0, np.cumsum(values))[known], known)
    return Value(average(values), np.array(each), curve)


def _by_task(
    stream: Stream, found: _Dips, values: NDArray[np.float64]
) -> list[NDArray[np.float64]]:
    """Return the values of each task's dips."""
    order = np.argsort(found.task, kind="stable")
    ends = np.cumsum(np.bincount(found.task, minlength=len(stream.names)))
    return np.split(values[order], ends[:-1])


def _by_visit(stream: Stream, found: _Dips) -> NDArray[np.intp]:
    """Return how many dips are known by the end of each span."""
    return np.searchsorted(found.span, np.arange(len(stream.spans)), side="right")


def _median(times: NDArray[np.float64]) -> float:
    if not len(times):
        return float("nan")
    lower, upper = np.sort(times)[[(len(times) - 1) // 2, len(times) // 2]]
    return float(lower + upper) / 2  # infinity if either is: not known


def _medians(stream: Stream, found: _Dips) -> NDArray[np.float64]:
    """Return the median of the recoveries known by the end of each span, NaN where unknown.

    Sorting them anew at every span would take spans times dips. Here all are sorted once, those
    known by then are marked, and counts per block of the order lead to the middle of the marked.
    """
    count, curve = len(found.recovery), np.full(len(stream.spans), np.nan)
    order = np.argsort(found.recovery, kind="stable")
    times, width = found.recovery[order], isqrt(count) + 1
    ranks = np.empty(count, dtype=np.intp)
    ranks[order] = np.arange(count)
    marked, blocks = np.zeros(count, dtype=bool), np.zeros(count // width + 1, dtype=np.intp)
    start = 0
    for k, end in enumerate(_by_visit(stream, found).tolist()):
        marked[ranks[start:end]] = True
        blocks += np.bincount(ranks[start:end] // width, minlength=len(blocks))
        start = end
        if end:
            before = np.cumsum(blocks)
            middle = 0.0
            for place in ((end - 1) // 2, end // 2):
                block = int(np.searchsorted(before, place, side="right"))
                inside = place - int(before[block] - blocks[block])
                here = np.flatnonzero(marked[block * width : (block + 1) * width])
                middle += times[block * width + here[inside]] / 2
            curve[k] = middle
    return np.where(np.isinf(curve), np.nan, curve)
