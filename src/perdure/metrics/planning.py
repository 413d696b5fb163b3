"""Before a run: what n examples a task, tested so often, will cost, and what they will show.

The number of evaluations and of examples is exact. The biases are bounds on expected values, the
half-widths are those to expect, both for a stream whose true accuracy stays where it is assumed.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import accumulate, pairwise
from math import ceil, isfinite, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from ..stats.wilson import mean_of_proportions
from .functional.windows import check_window
from .intervals.selection_bias import drop_bias_at, minimum_bias_at

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Burst = tuple[int, int] | tuple[int, int, float]

__all__ = ["Plan", "burst_steps", "plan", "schedule_steps"]

MAX_TASKS = 2000  # as for a matrix
MAX = 10**9  # iterations or examples, far beyond any run


@dataclass(frozen=True)
class Plan:
    """What to expect of a run with a given subset size and schedule.

    Attributes:
        iterations: of each task.
        n: examples of each task in an evaluation.
        every: iterations between evaluations, None for a burst.
        burst: `first` and `then` of `burst_steps`, None for an even schedule.
        evaluations: while each task is learned.
        ratios: of each task, how many evaluations stand for the one at its end without continual
            evaluation: iterations / every (De Lange et al. 2023, appendix A).
        ratio: the same over all tasks, where task k counts k times: so many tasks are tested.
        tests: of one task each: while task k is learned, k tasks are tested.
        examples: tested in all of them. Whole sets at the ends of tasks come on top.
        seconds_train: of the whole run; None if unknown, as the next two.
        seconds_eval: for `examples`.
        share: of evaluation in the seconds of both.
        bias_min_acc: a bound: min_acc is expected to read at most this much too low; None if no
            task is left behind.
        half_min_acc: half-width of its interval away from the bias; towards it, the interval
            reaches further, by the bias at most.
        bias_wf: a bound: the drop that windowed forgetting is expected to show at most where
            nothing drops; None if no task is tested twice.
        half_wf: half-width of its interval, as for min_acc.
        window: of wf, in evaluations; None is all of them.
        accuracy: the true one that was assumed.
        changed: share of changing answers that was assumed; None: fixed or redrawn subsets.
        level: of the intervals.
    """

    iterations: tuple[int, ...]
    n: int
    every: int | None
    burst: Burst | None
    evaluations: tuple[int, ...]
    ratios: tuple[float, ...]
    ratio: float
    tests: int
    examples: int
    seconds_train: float | None
    seconds_eval: float | None
    share: float | None
    bias_min_acc: float | None
    half_min_acc: float | None
    bias_wf: float | None
    half_wf: float | None
    window: int | None
    accuracy: float
    changed: float | None
    level: float

    def as_dict(self) -> dict[str, Any]:
        """Return plain lists and numbers, ready for JSON."""
        plain = asdict(self)
        return {k: list(v) if isinstance(v, tuple) else v for k, v in plain.items()}


def plan(
    iterations: int | Sequence[int],
    *,
    tasks: int | None = None,
    n: int,
    every: int | None = None,
    burst: Burst | None = None,
    accuracy: float = 0.9,
    window: int | None = 10,
    level: float = 0.95,
    changed: float | None = None,
    train_seconds: float | None = None,
    example_seconds: float | None = None,
) -> Plan:
    """Return what a run will cost in evaluations, and how far its extremes can then be trusted.

    The ends of tasks are tested too, on whole sets: counted in the biases, not in the cost. The
    bounds on the biases hold for subsets drawn afresh and for fixed ones; `changed` makes them
    smaller for fixed ones. See `minimum_bias_at` and `drop_bias_at` for what they assume.

    Args:
        iterations: of every task, or of each.
        tasks: how many, where `iterations` is one number.
        n: examples of each task seen so far that are tested at each evaluation.
        every: test after every so many iterations, counted on across tasks; or
        burst: test densely after each switch: `first` and `then` of `burst_steps`.
        accuracy: the true one; for min_acc it is enough that it never falls below.
        window: evaluations in the window of wf; None is all of them.
        level: of the intervals.
        changed: share of the examples whose answer differs between two evaluations, at most.
        train_seconds: of one training iteration.
        example_seconds: of one tested example.

    Example:
        >>> found = plan(500, tasks=5, n=1000, every=10, train_seconds=0.01, example_seconds=1e-5)
        >>> found.evaluations, found.ratio, found.examples
        ((50, 50, 50, 50, 50), 50.0, 750000)
        >>> found.seconds_train, round(found.seconds_eval, 6), round(found.bias_min_acc, 3)
        (25.0, 7.5, 0.03)
    """
    each = _iterations(iterations, tasks)
    _whole("n", n)
    for what, part in (("accuracy", accuracy), ("changed", changed)):
        if part is not None and not 0 <= part <= 1:
            raise ValueError(f"{what} is {part}, expected a fraction from 0 to 1")
    if not 0 < level < 1:
        raise ValueError(f"level is {level}, expected a fraction between 0 and 1")
    evaluations, in_stream = _counts(each, every, burst)
    ratios = tuple(k / every for k in each) if every else tuple(map(float, evaluations))
    seen = range(1, len(each) + 1)
    tests = sum(k * count for k, count in zip(seen, evaluations, strict=True))
    training = _seconds("train_seconds", train_seconds, sum(each))
    testing = _seconds("example_seconds", example_seconds, tests * n)
    share = None
    if training is not None and testing is not None and training + testing > 0:
        share = testing / (training + testing)
    return Plan(
        each, n, every, burst, evaluations, ratios,
        ratio=sum(k * ratio for k, ratio in zip(seen, ratios, strict=True)) / sum(seen),
        tests=tests, examples=tests * n,
        seconds_train=training, seconds_eval=testing, share=share,
        **_minimum(in_stream, n, accuracy, level, changed),
        **_drop(in_stream, n, accuracy, level, changed, check_window(window)),
        window=window, accuracy=accuracy, changed=changed, level=level,
    )  # fmt: skip


def burst_steps(iterations: int, first: int, then: int, growth: float = 2.0) -> NDArray[np.int64]:
    """Return the tested steps since a switch: dense at first, then ever further apart.

    Steps 1 to `first` are all tested. The gaps after them are `growth`, `growth` squared and so
    on, rounded up, until they reach `then`, where they stay.

    Example:
        >>> burst_steps(30, first=3, then=8)
        array([ 1,  2,  3,  5,  9, 17, 25])
    """
    dense, growing, even = _burst(iterations, first, then, growth)
    parts = [range(1, dense + 1), growing, even]
    return np.concatenate([np.array(part, dtype=np.int64) for part in parts])


def schedule_steps(
    iterations: Sequence[int], *, every: int | None = None, burst: Burst | None = None
) -> NDArray[np.int64]:
    """Return the steps, counted on across tasks, after which the model is tested.

    Example:
        >>> schedule_steps([10, 10], every=4)
        array([ 4,  8, 12, 16, 20])
        >>> schedule_steps([10, 10], burst=(2, 4))
        array([ 1,  2,  4,  8, 11, 12, 14, 18])
    """
    _schedule(every, burst)
    ends = [0, *accumulate(_iterations(iterations, None))]
    if burst is None:
        assert every is not None
        return np.arange(every, ends[-1] + 1, every, dtype=np.int64)
    parts = [start + burst_steps(end - start, *burst) for start, end in pairwise(ends)]
    return np.concatenate(parts)


def _counts(
    iterations: tuple[int, ...], every: int | None, burst: Burst | None
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the evaluations while each task is learned, and the same with the end of the task."""
    _schedule(every, burst)
    evaluations, in_stream = [], []
    for start, end in pairwise([0, *accumulate(iterations)]):
        if every is not None:
            count, ended = end // every - start // every, end % every == 0
        else:
            assert burst is not None
            first, then, *growth = burst
            dense, growing, even = _burst(end - start, first, then, *(growth or [2.0]))
            count = dense + len(growing) + len(even)
            ended = end - start in (dense, *growing[-1:], *even[-1:])
        evaluations.append(count)
        in_stream.append(count + (not ended))
    return tuple(evaluations), tuple(in_stream)


def _burst(iterations: int, first: int, then: int, growth: float) -> tuple[int, list[int], range]:
    """Return the three parts of `burst_steps`: how many dense ones, growing gaps, even gaps."""
    for what, value in (("iterations", iterations), ("first", first), ("then", then)):
        _whole(what, value)
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


def _minimum(
    in_stream: tuple[int, ...], n: int, accuracy: float, level: float, changed: float | None
) -> dict[str, float | None]:
    later = _from_each_on(in_stream)[1:]  # a task's minimum starts with the task after it
    if not later:
        return {"bias_min_acc": None, "half_min_acc": None}
    bias = [minimum_bias_at(accuracy, n, count, changed=changed) for count in later]
    low, _ = mean_of_proportions([accuracy] * len(later), [n] * len(later), level=level)
    return {"bias_min_acc": sum(bias) / len(bias), "half_min_acc": accuracy - low}


def _drop(
    in_stream: tuple[int, ...],
    n: int,
    accuracy: float,
    level: float,
    changed: float | None,
    window: int | None,
) -> dict[str, float | None]:
    from statistics import NormalDist  # imported here: it brings decimal and random

    own = _from_each_on(in_stream)
    if max(own) < 2:
        return {"bias_wf": None, "half_wf": None}
    bias = [drop_bias_at(accuracy, n, count, window, changed=changed) for count in own]
    z = NormalDist().inv_cdf((1 + level) / 2)
    differ = 2 * accuracy * (1 - accuracy)  # the variance of one example's change
    differ = differ if changed is None else min(differ, changed)
    squares = [z**2 * ((differ if count > 1 else 0) / n + (z / n) ** 2) for count in own]
    return {"bias_wf": sum(bias) / len(own), "half_wf": sqrt(sum(squares)) / len(own)}


def _from_each_on(counts: tuple[int, ...]) -> list[int]:
    return list(accumulate(reversed(counts)))[::-1]


def _iterations(given: int | Sequence[int], tasks: int | None) -> tuple[int, ...]:
    if tasks is not None:
        _whole("tasks", tasks, MAX_TASKS)
    if isinstance(given, int | np.integer):
        if tasks is None:
            raise ValueError(f"iterations is {given}, for how many tasks? Give tasks, or one each")
        each = [int(given)] * tasks
    else:
        each = list(given)
        if tasks not in (None, len(each)):
            raise ValueError(f"iterations of {len(each)} task(s), expected {tasks}, one a task")
        _whole("number of tasks", len(each), MAX_TASKS)
    return tuple(_whole("iterations", count) for count in each)


def _schedule(every: int | None, burst: Burst | None) -> None:
    if (every is None) == (burst is None):
        raise ValueError(f"every is {every} and burst is {burst}, expected one of the two")
    if every is not None:
        _whole("every", every)


def _whole(what: str, value: Any, most: int = MAX) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{what} is {value!r}, expected a whole number of at least 1")
    if value > most:
        raise ValueError(f"{what} is {value}, expected at most {most}")
    return int(value)


def _seconds(what: str, one: float | None, count: int) -> float | None:
    if one is None:
        return None
    if not (one >= 0 and isfinite(one * count)):
        raise ValueError(f"{what} is {one}, expected seconds, at least 0")
    return one * count
