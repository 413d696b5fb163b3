"""The stability gap as numbers: how deep, how large and how long the dip after a switch is.

Ours. For each switch to a new task and each older task: `depth` is the score at the switch minus
the lowest score while the new task is learned; `area` sums what is missing against the score at
the switch over the iterations; `recovery` counts the iterations from the switch until the score,
after its minimum, is first back at 95% of its value at the switch.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ._value import Undefined, Value, average

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from .stream_data import Stream

__all__ = ["Dip", "dips", "gap_area", "gap_curve", "gap_depth", "gap_recovered", "gap_recovery"]

RECOVERED = 0.95


class Dip(NamedTuple):
    """What happened to one older task while another one was learned."""

    switch: int
    task: str
    depth: float
    area: float
    recovery: float  # 0 if the score never fell below 95%, infinity if it never came back


def one_dip(
    steps: NDArray[np.int64], scores: NDArray[np.float64], switch: int, value: float
) -> tuple[float, float, float]:
    """Return depth, area and recovery of scores measured after `switch`, where `value` held.

    Example:
        >>> steps, scores = np.array([11, 12, 13, 14]), np.array([0.75, 0.5, 0.75, 1.0])
        >>> one_dip(steps, scores, switch=10, value=1.0)
        (0.5, 1.0, 4.0)
    """
    low = int(scores.argmin())
    widths = np.diff(steps, prepend=switch)
    area = float((np.maximum(value - scores, 0.0) * widths).sum())
    recovery = 0.0
    if scores[low] < RECOVERED * value:
        back = np.flatnonzero(scores[low:] >= RECOVERED * value)
        recovery = float(steps[low + back[0]] - switch) if len(back) else float("inf")
    return float(value - scores[low]), area, recovery


def dips(stream: Stream) -> list[Dip]:
    """Return the dip of every older task after every switch, in order.

    The score at the switch is the last one read by then. Left out: a task not tested by the
    switch, or not tested while the new task was learned.

    Example:
        >>> from perdure.metrics import Stream
        >>> stream = Stream({"a": ([1, 2, 3], [0.75, 0.25, 0.75]), "b": ([3], [0.5])},
        ...                 visits=[("a", 1), ("b", 3)])
        >>> dips(stream)
        [Dip(switch=1, task='a', depth=0.5, area=0.5, recovery=2.0)]
    """
    stream.need_boundaries()
    found = []
    for k in range(1, len(stream.visits)):
        switch, (new, last) = stream.visits[k - 1].last, stream.visits[k]
        older = dict.fromkeys(task for task, _ in stream.visits[:k] if task != new)
        for task in older:
            steps, scores = stream.tasks[task][0], stream.oriented(task)
            start, end = np.searchsorted(steps, [switch, last], side="right")
            if start > 0 and end > start:
                value = float(scores[start - 1])
                dip = one_dip(steps[start:end], scores[start:end], switch, value)
                found.append(Dip(switch, task, *dip))
    return found


def gap_depth(stream: Stream, among: Sequence[Dip] | None = None) -> Value:
    """Return the mean depth of the dips over older tasks and switches.

    Example:
        >>> from perdure.metrics import Stream
        >>> gap_depth(Stream({"a": ([1, 2, 3], [0.75, 0.25, 0.75]), "b": ([3], [0.5])},
        ...                  visits=[("a", 1), ("b", 3)]))
        0.5
    """
    return _mean(stream, [(dip.task, dip.depth) for dip in _found(stream, among)])


def gap_area(stream: Stream, among: Sequence[Dip] | None = None) -> Value:
    """Return the mean area of the dips, in score times iterations.

    Example:
        >>> from perdure.metrics import Stream
        >>> gap_area(Stream({"a": ([1, 2, 3], [0.75, 0.25, 0.5]), "b": ([3], [0.5])},
        ...                 visits=[("a", 1), ("b", 3)]))
        0.75
    """
    return _mean(stream, [(dip.task, dip.area) for dip in _found(stream, among)])


def gap_recovery(stream: Stream, among: Sequence[Dip] | None = None) -> Value:
    """Return the median iterations until recovery; dips that never recovered count as longest.

    Example:
        >>> from perdure.metrics import Stream
        >>> gap_recovery(Stream({"a": ([1, 2, 3], [0.75, 0.25, 0.75]), "b": ([3], [0.5])},
        ...                     visits=[("a", 1), ("b", 3)]))
        2.0
    """
    found = _with_recovery(stream, among)
    times = np.array([dip.recovery for dip in found])
    median = _median(times)
    if np.isinf(median):
        never = int(np.isinf(times).sum())
        raise Undefined(f"{never} of {len(times)} dips never recovered: the median is not known")
    each = [
        _median(np.array([dip.recovery for dip in found if dip.task == name]))
        for name in stream.names
    ]
    return Value(median, np.where(np.isinf(each), np.nan, each))


def gap_recovered(stream: Stream, among: Sequence[Dip] | None = None) -> Value:
    """Return the share of dips that came back to 95% while the new task was learned.

    Example:
        >>> from perdure.metrics import Stream
        >>> gap_recovered(Stream({"a": ([1, 2, 3], [0.75, 0.25, 0.5]), "b": ([3], [0.5])},
        ...                      visits=[("a", 1), ("b", 3)]))
        0.0
    """
    found = _with_recovery(stream, among)
    return _mean(stream, [(dip.task, float(np.isfinite(dip.recovery))) for dip in found])


def gap_curve(
    stream: Stream, metric: Callable[[Stream, Sequence[Dip]], Value]
) -> NDArray[np.float64]:
    """Return one of the gap metrics by the end of each visit, NaN where undefined.

    Example:
        >>> from perdure.metrics import Stream
        >>> stream = Stream({"a": ([1, 2, 3], [0.75, 0.25, 0.75]), "b": ([3], [0.5])},
        ...                 visits=[("a", 1), ("b", 3)])
        >>> gap_curve(stream, gap_depth)
        array([nan, 0.5])
    """
    found = dips(stream)
    curve = np.full(len(stream.visits), np.nan)
    for k, (_, last) in enumerate(stream.visits):
        with suppress(Undefined):
            curve[k] = metric(stream, [dip for dip in found if dip.switch < last])
    return curve


def _found(stream: Stream, among: Sequence[Dip] | None) -> Sequence[Dip]:
    found = dips(stream) if among is None else among
    if not found:
        raise Undefined("no older task was tested both at a switch and after it")
    return found


def _with_recovery(stream: Stream, among: Sequence[Dip] | None) -> Sequence[Dip]:
    if stream.scale.lower_is_better or stream.scale.low < 0:
        raise Undefined("95% of a score makes sense only where scores are never below 0")
    return _found(stream, among)


def _median(times: NDArray[np.float64]) -> float:
    if not len(times):
        return float("nan")
    lower, upper = np.sort(times)[[(len(times) - 1) // 2, len(times) // 2]]
    return float(lower + upper) / 2  # infinity if either is: not known


def _mean(stream: Stream, found: list[tuple[str, float]]) -> Value:
    by_task = np.full(len(stream.names), np.nan)
    for at, name in enumerate(stream.names):
        mine = [value for task, value in found if task == name]
        if mine:
            by_task[at] = np.mean(mine)
    return Value(average(np.array([value for _, value in found])), by_task)
