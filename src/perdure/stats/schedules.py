"""Evaluation schedules: after which iterations a model is evaluated."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import ceil, isfinite
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    BurstSchedule = tuple[int, int] | tuple[int, int, float]

__all__ = ["BudgetUse", "burst_steps", "describe_budget", "parse_share", "schedule_steps"]

ENOUGH_EVALUATIONS = 10  # of a task: the shortest window, and more of a drop than one point
MAX_PLANNED_TASKS = 2000  # the limit of a score matrix
MAX_COUNT = 10**9  # iterations or examples, far beyond any run


def burst_steps(iterations: int, first: int, then: int, growth: float = 2.0) -> NDArray[np.int64]:
    """Return the evaluated steps since a task switch: dense at first, then further apart.

    Steps 1 to `first` are all evaluated. The gaps after them are `growth`, `growth` squared and so
    on, rounded up, until they reach `then`, where they stay.

    Example:
        >>> burst_steps(30, first=3, then=8)
        array([ 1,  2,  3,  5,  9, 17, 25])
    """
    dense, growing, even = _burst_parts(iterations, first, then, growth)
    parts = [range(1, dense + 1), growing, even]
    return np.concatenate([np.array(part, dtype=np.int64) for part in parts])


def parse_share(text: str) -> float:
    """Return the share of the time that a text like "10%" stands for.

    Example:
        >>> parse_share("10%")
        0.1
    """
    number = text.strip().removesuffix("%")
    try:
        share = float(number) / 100
    except ValueError:
        share = 0.0
    if not text.strip().endswith("%") or not 0 < share < 1:
        raise ValueError(
            f"every is {text!r:.40}, expected a number of steps, or a share of the time above 0% "
            "and below 100%, like '10%'"
        )
    return share


@dataclass(frozen=True)
class BudgetUse:
    """What a share of the time was used for, as run.json states it."""

    share: float
    reached: float
    evaluations: int
    steps: int
    spacing: tuple[int, float, int] | None  # least, median and greatest, in steps
    fewest: int | None = None  # evaluations of a task while it was learned
    steps_depend_on_time: bool = True


def describe_budget(uses: Sequence[BudgetUse]) -> str:
    """Return the share that each of several runs reached, and how far apart evaluations were.

    Example:
        >>> describe_budget([BudgetUse(0.1, 0.12, 5, 80, (1, 6.5, 30))])
        '12% of the time (requested: 10%), 5 of 80 steps, 1 to 30 steps apart (median 6.5)'
    """
    text = (
        f"{_range([f'{use.reached:.0%}' for use in uses])} of the time (requested: "
        f"{100 * uses[0].share:g}%), {_range([use.evaluations for use in uses])} of "
        f"{_range([use.steps for use in uses])} steps"
    )
    known = [use.spacing for use in uses if use.spacing is not None]
    if not known:
        return text
    ends = _range([gap for low, _, high in known for gap in (low, high)])
    middle = _range([f"{median:g}" for _, median, _ in known])
    return f"{text}, {ends} steps apart (median {middle})"


def _range(values: Sequence[object]) -> str:
    """Return one value, or the first and the last of several in order."""
    ordered = sorted(set(values), key=lambda value: float(str(value).rstrip("%")))
    return f"{ordered[0]}" if len(ordered) == 1 else f"{ordered[0]} to {ordered[-1]}"


def schedule_steps(
    iterations: Sequence[int], *, every: int | None = None, burst: BurstSchedule | None = None
) -> NDArray[np.int64]:
    """Return the steps, counted across tasks, after which the model is evaluated.

    Example:
        >>> schedule_steps([10, 10], every=4)
        array([ 4,  8, 12, 16, 20])
        >>> schedule_steps([10, 10], burst=(2, 4))
        array([ 1,  2,  4,  8, 11, 12, 14, 18])
    """
    _check_schedule(every, burst)
    ends = [0, *accumulate(task_lengths(iterations, None))]
    if burst is None:
        assert every is not None
        return np.arange(every, ends[-1] + 1, every, dtype=np.int64)
    parts = [start + burst_steps(end - start, *burst) for start, end in pairwise(ends)]
    return np.concatenate(parts)


def count_evaluations(
    iterations: tuple[int, ...], every: int | None, burst: BurstSchedule | None
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the evaluations while each task is learned, without and with the one at its end."""
    _check_schedule(every, burst)
    evaluations, in_stream = [], []
    for start, end in pairwise([0, *accumulate(iterations)]):
        if every is not None:
            count, at_end = end // every - start // every, end % every == 0
        else:
            assert burst is not None
            first, then, *growth = burst
            dense, growing, even = _burst_parts(end - start, first, then, *(growth or [2.0]))
            count = dense + len(growing) + len(even)
            at_end = end - start in (dense, *growing[-1:], *even[-1:])
        evaluations.append(count)
        in_stream.append(count + (not at_end))
    return tuple(evaluations), tuple(in_stream)


def _burst_parts(
    iterations: int, first: int, then: int, growth: float
) -> tuple[int, list[int], range]:
    """Return the number of dense steps, the steps with growing gaps and those with even gaps."""
    for name, value in (("iterations", iterations), ("first", first), ("then", then)):
        check_count(name, value)
    if not (growth > 1 and isfinite(growth)):
        raise ValueError(f"growth is {growth}, expected a number above 1")
    growing: list[int] = []
    step, gap = first, 1
    while step <= iterations and gap < then:
        gap = min(then, ceil(growth ** (len(growing) + 1)))
        step += gap
        growing.append(step)
    even = range(step + then, iterations + 1, then)
    return min(first, iterations), [step for step in growing if step <= iterations], even


def task_lengths(iterations: int | Sequence[int], tasks: int | None) -> tuple[int, ...]:
    """Return the iterations of each task, or raise if they are not one count per task."""
    if tasks is not None:
        check_count("tasks", tasks, MAX_PLANNED_TASKS)
    if isinstance(iterations, int | np.integer):
        if tasks is None:
            raise ValueError(
                f"iterations is {iterations}, expected `tasks=` with it or a sequence, one per task"
            )
        lengths = [int(iterations)] * tasks
    else:
        lengths = list(iterations)
        if tasks not in (None, len(lengths)):
            raise ValueError(
                f"iterations has length {len(lengths)}, expected {tasks}: one entry per task"
            )
        check_count("number of tasks", len(lengths), MAX_PLANNED_TASKS)
    return tuple(check_count("iterations", count) for count in lengths)


def _check_schedule(every: int | None, burst: BurstSchedule | None) -> None:
    if (every is None) == (burst is None):
        raise ValueError(f"every is {every} and burst is {burst}, expected one of the two")
    if every is not None:
        check_count("every", every)


def check_count(name: str, value: object, maximum: int = MAX_COUNT) -> int:
    """Return `value`, or raise if it is not a whole number from 1 to `maximum`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{name} is {value!r}, expected a whole number of at least 1")
    if value > maximum:
        raise ValueError(f"{name} is {value}, expected at most {maximum}")
    return int(value)
