"""The stability gap in numbers: depth, area and duration of the dip after a task switch.

Defined by perdure, for each switch to a new task and each older task: `depth` is the score at the
switch minus the lowest score while the new task is learned; `area` sums the score missing relative
to the switch over the iterations; `recovery` counts the iterations from the switch until the score,
after its minimum, is first back at 95% of its value at the switch.
"""

from __future__ import annotations

from math import isqrt
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from .common import UndefinedMetricError, Value, average, divide

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..stream import Stream

__all__ = ["Dip", "dips", "gap_area", "gap_depth", "gap_recovered", "gap_recovery"]

RECOVERED_FRACTION = 0.95  # of the score at the switch


class Dip(NamedTuple):
    """The dip of one older task while another one was learned."""

    switch: int
    task: str
    depth: float
    area: float
    recovery: float  # 0 if the score never fell below 95%, infinite if it never recovered


class _DipColumns(NamedTuple):
    """Dips as columns: `span` is the position of the task span, `task` that of the older task."""

    span: NDArray[np.int64]
    task: NDArray[np.int64]
    depth: NDArray[np.float64]
    area: NDArray[np.float64]
    recovery: NDArray[np.float64]


def dips(stream: Stream) -> list[Dip]:
    """Return the dip of every older task after every switch, in order.

    The score at the switch is the last one measured by then. A task that was not evaluated by the
    switch, or not while the new task was learned, has no dip.

    Example:
        >>> from perdure.metrics import Stream
        >>> stream = Stream({"a": ([1, 2, 3], [0.75, 0.25, 0.75]), "b": ([3], [0.5])},
        ...                 spans=[("a", 1), ("b", 3)])
        >>> dips(stream)
        [Dip(switch=1, task='a', depth=0.5, area=0.5, recovery=2.0)]
    """
    columns = _cached_dips(stream)
    switches = [stream.spans[span - 1].last for span in columns.span.tolist()]
    tasks = [stream.names[k] for k in columns.task.tolist()]
    numbers = (column.tolist() for column in (columns.depth, columns.area, columns.recovery))
    return [Dip(*row) for row in zip(switches, tasks, *numbers, strict=True)]


def gap_depth(stream: Stream) -> Value:
    """Return the mean depth of the dips over older tasks and switches.

    Example:
        >>> from perdure.metrics import Stream
        >>> gap_depth(Stream({"a": ([1, 2, 3], [0.75, 0.25, 0.75]), "b": ([3], [0.5])},
        ...                  spans=[("a", 1), ("b", 3)]))
        0.5
    """
    columns = _defined_dips(stream)
    return _mean_value(stream, columns, columns.depth)


def gap_area(stream: Stream) -> Value:
    """Return the mean area of the dips, in score times iterations.

    Example:
        >>> from perdure.metrics import Stream
        >>> gap_area(Stream({"a": ([1, 2, 3], [0.75, 0.25, 0.5]), "b": ([3], [0.5])},
        ...                 spans=[("a", 1), ("b", 3)]))
        0.75
    """
    columns = _defined_dips(stream)
    return _mean_value(stream, columns, columns.area)


def gap_recovery(stream: Stream) -> Value:
    """Return the median number of iterations to recover; never recovering counts as longest.

    Example:
        >>> from perdure.metrics import Stream
        >>> gap_recovery(Stream({"a": ([1, 2, 3], [0.75, 0.25, 0.75]), "b": ([3], [0.5])},
        ...                     spans=[("a", 1), ("b", 3)]))
        2.0
    """
    columns = _dips_with_recovery(stream)
    median = _median(columns.recovery)
    if np.isinf(median):
        never, total = int(np.isinf(columns.recovery).sum()), len(columns.recovery)
        raise UndefinedMetricError(
            f"{never} of {total} dips never recovered: the median is unknown"
        )
    per_task = np.array([_median(times) for times in _by_task(stream, columns, columns.recovery)])
    per_task[np.isinf(per_task)] = np.nan
    return Value(median, per_task, _medians_by_span(stream, columns))


def gap_recovered(stream: Stream) -> Value:
    """Return the fraction of dips that recovered to 95% while the new task was learned.

    Example:
        >>> from perdure.metrics import Stream
        >>> gap_recovered(Stream({"a": ([1, 2, 3], [0.75, 0.25, 0.5]), "b": ([3], [0.5])},
        ...                      spans=[("a", 1), ("b", 3)]))
        0.0
    """
    columns = _dips_with_recovery(stream)
    return _mean_value(stream, columns, np.isfinite(columns.recovery).astype(np.float64))


_CACHE: WeakKeyDictionary[Stream, _DipColumns] = WeakKeyDictionary()  # four metrics use them


def _cached_dips(stream: Stream) -> _DipColumns:
    """Return every dip, ordered by span and then by task; computed once per stream."""
    if stream not in _CACHE:
        _CACHE[stream] = _find_dips(stream)
    return _CACHE[stream]


def _find_dips(stream: Stream) -> _DipColumns:
    """Return every dip, in one pass over the scores of each task."""
    stream.require_boundaries()
    ends = np.array([last for _, last in stream.spans])
    trained = np.array([stream.positions[task] for task, _ in stream.spans])
    first = np.full(len(stream.names), len(ends))
    np.minimum.at(first, trained, np.arange(len(ends)))
    parts = [_DipColumns(*np.empty((2, 0), np.int64), *np.empty((3, 0)))]
    for position, name in enumerate(stream.names):
        steps, scores = stream.tasks[name][0], stream.higher_is_better(name)
        span = np.searchsorted(ends, steps)
        starts = np.append(0, np.flatnonzero(span[1:] != span[:-1]) + 1)[: len(span)]
        during = span[starts]
        older = (during > first[position]) & (trained[during] != position) & (starts > 0)
        if older.any():
            lengths = np.diff(starts, append=len(steps))
            during, inside = during[older], np.repeat(older, lengths)
            values = scores[starts[older] - 1]
            measures = _measure_dips(
                steps[inside], scores[inside], lengths[older], ends[during - 1], values
            )
            parts.append(_DipColumns(during, np.full(len(during), position), *measures))
    columns = list(map(np.concatenate, zip(*parts, strict=True)))
    order = np.argsort(columns[0], kind="stable")
    return _DipColumns(*(column[order] for column in columns))


def _measure_dips(
    steps: NDArray[np.int64],
    scores: NDArray[np.float64],
    lengths: NDArray[np.intp],
    switches: NDArray[np.int64],
    values: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return the depth, area and recovery of the dips of one task.

    Args:
        steps: steps of the evaluations of all dips, one dip after the other.
        scores: scores of these evaluations.
        lengths: number of evaluations of each dip.
        switches: step of the switch before each dip.
        values: score at that switch.

    Example:
        >>> steps, scores = np.array([11, 12, 13, 14]), np.array([0.75, 0.5, 0.75, 1.0])
        >>> [x.tolist() for x in _measure_dips(steps, scores, np.array([4]), [10], np.ones(1))]
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
    target = RECOVERED_FRACTION * values
    recovered = np.append(np.flatnonzero(scores >= np.repeat(target, lengths)), len(steps))
    recovered = recovered[np.searchsorted(recovered, lowest)]
    times = np.append(steps, 0)[recovered] - switches
    recovery = np.where(lows >= target, 0.0, np.where(recovered < ends, times, np.inf))
    return values - lows, np.add.reduceat(missing * widths, starts), recovery


def _defined_dips(stream: Stream) -> _DipColumns:
    columns = _cached_dips(stream)
    if not len(columns.span):
        raise UndefinedMetricError("no older task was evaluated both at a switch and after it")
    return columns


def _dips_with_recovery(stream: Stream) -> _DipColumns:
    if stream.scale.lower_is_better or stream.scale.low < 0:
        raise UndefinedMetricError("95% of a score has a meaning only if scores are never negative")
    return _defined_dips(stream)


def _mean_value(stream: Stream, columns: _DipColumns, values: NDArray[np.float64]) -> Value:
    per_task = [np.mean(x) if len(x) else np.nan for x in _by_task(stream, columns, values)]
    counts = _counts_by_span(stream, columns)
    curve = divide(np.append(0.0, np.cumsum(values))[counts], counts)
    return Value(average(values), np.array(per_task), curve)


def _by_task(
    stream: Stream, columns: _DipColumns, values: NDArray[np.float64]
) -> list[NDArray[np.float64]]:
    """Return the values of the dips of each task."""
    order = np.argsort(columns.task, kind="stable")
    ends = np.cumsum(np.bincount(columns.task, minlength=len(stream.names)))
    return np.split(values[order], ends[:-1])


def _counts_by_span(stream: Stream, columns: _DipColumns) -> NDArray[np.intp]:
    """Return the number of dips by the end of each span."""
    return np.searchsorted(columns.span, np.arange(len(stream.spans)), side="right")


def _median(times: NDArray[np.float64]) -> float:
    if not len(times):
        return float("nan")
    lower, upper = np.sort(times)[[(len(times) - 1) // 2, len(times) // 2]]
    return float(lower + upper) / 2  # infinite if either is: unknown


def _medians_by_span(stream: Stream, columns: _DipColumns) -> NDArray[np.float64]:
    """Return the median recovery of the dips by the end of each span, NaN where unknown.

    Sorting at every span would take time proportional to spans times dips. Instead all dips are
    sorted once, those known so far are marked, and counts per block locate the median.
    """
    count, curve = len(columns.recovery), np.full(len(stream.spans), np.nan)
    order = np.argsort(columns.recovery, kind="stable")
    times, width = columns.recovery[order], isqrt(count) + 1
    ranks = np.empty(count, dtype=np.intp)
    ranks[order] = np.arange(count)
    marked, blocks = np.zeros(count, dtype=bool), np.zeros(count // width + 1, dtype=np.intp)
    start = 0
    for k, end in enumerate(_counts_by_span(stream, columns).tolist()):
        marked[ranks[start:end]] = True
        blocks += np.bincount(ranks[start:end] // width, minlength=len(blocks))
        start = end
        if end:
            before = np.cumsum(blocks)
            middle = 0.0
            for rank in ((end - 1) // 2, end // 2):
                block = int(np.searchsorted(before, rank, side="right"))
                inside = rank - int(before[block] - blocks[block])
                known = np.flatnonzero(marked[block * width : (block + 1) * width])
                middle += times[block * width + known[inside]] / 2
            curve[k] = middle
    return np.where(np.isinf(curve), np.nan, curve)
