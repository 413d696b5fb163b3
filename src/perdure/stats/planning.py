"""Cost and precision of an evaluation schedule, before anything is run, and the bias of extremes.

The numbers of evaluations and examples are exact. The half-widths are expected ones, for a stream
whose true accuracy stays at an assumed value. The lowest of many noisy estimates lies below the
lowest true value: the biases are bounds on the expected difference, from the number of examples and
of evaluations alone.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import accumulate
from math import isfinite, log, log1p, sqrt
from typing import TYPE_CHECKING

import numpy as np

from .intervals import mean_proportion_interval, normal_quantile
from .schedules import check_count, count_evaluations, task_lengths

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from .schedules import BurstSchedule

__all__ = [
    "EvaluationPlan",
    "drop_bias",
    "drop_bias_at",
    "minimum_bias",
    "minimum_bias_at",
    "minimum_biases",
    "plan",
]


def minimum_bias(low: float, n: int, evaluations: int) -> float:
    r"""Return a bound on how far the expected minimum lies below the lowest true accuracy.

    `low` is the observed minimum. The p that explains it as $p - b(p)$, see `minimum_bias_at`, is
    solved for, so the true minimum is expected to lie between `low` and `low` plus the result.

    Example:
        >>> round(minimum_bias(0.868, 1000, 1000), 3)  # a constant .9 reads about .868
        0.036
    """
    return minimum_biases([low], n, [evaluations])[0]


def minimum_biases(lows: Sequence[float], n: int, evaluations: Sequence[int]) -> list[float]:
    """Return `minimum_bias` of several tasks that have `n` examples each."""
    low, logs = np.array(lows), np.array([log(count) for count in evaluations])
    below, above = low, np.ones(len(low))
    for _ in range(50):  # bisection: p - b(p) grows with p
        p = (below + above) / 2
        fits = p - _chernoff_bounds(p, n, logs) <= low
        below, above = np.where(fits, p, below), np.where(fits, above, p)
    biases: list[float] = np.where(logs > 0, above - low, 0.0).tolist()
    return biases


def minimum_bias_at(
    accuracy: float, n: int, evaluations: int, *, changed: float | None = None
) -> float:
    r"""Return a bound on how far the expected minimum lies below a known lowest true accuracy p.

    For any dependence between evaluations, and true accuracies of at least p, the expected
    minimum of N accuracies over n examples is at least $p - b(p)$ with

    $$b(p) = \min_\lambda (\log N + n \log(1 - p + p e^{-\lambda/n}) + \lambda p) / \lambda$$

    (a Chernoff bound). It covers fixed subsets and subsets resampled at every evaluation.

    `changed` tightens it for a fixed subset: the largest fraction of examples whose answer
    changes between two evaluations. Examples whose answer never changes add no bias.

    Example:
        >>> round(minimum_bias_at(0.9, 1000, 1000), 3)
        0.037
        >>> round(minimum_bias_at(0.9, 1000, 1000, changed=0.02), 3)
        0.017
    """
    if evaluations < 2:
        return 0.0
    bound = float(_chernoff_bounds(np.array([accuracy]), n, np.array([log(evaluations)]))[0])
    if changed is None:
        return bound
    # The others against the lowest one, whose own error is 0 on average.
    return min(bound, _largest_difference(changed / 2, n, evaluations - 1))


def drop_bias(evaluations: int, n: int | None, window: int | None) -> float | None:
    r"""Return a bound on the expected largest drop where the true accuracy never falls.

    $\sqrt{\log(1 + \text{pairs}) / n}$, from the sub-Gaussian maximal inequality over all pairs of
    evaluations in a window. It holds for independent and for positively dependent evaluations.

    Example:
        >>> round(drop_bias(1000, 1000, 10), 3)
        0.095
    """
    if n is None:
        return None
    return sqrt(log1p(_count_pairs(evaluations, window)) / n)  # 1 more: a drop is at least 0


def drop_bias_at(
    accuracy: float,
    n: int,
    evaluations: int,
    window: int | None,
    *,
    changed: float | None = None,
) -> float:
    r"""Return a bound on the expected largest drop where the true accuracy stays at `accuracy`.

    $\min_\lambda \log(1 + \text{pairs} (1 + 2 q (\cosh(\lambda/n) - 1))^n) / \lambda$ over the
    pairs in a window, where q is the probability that an example is right in one evaluation and
    wrong in the other: $p (1 - p)$ for resampled subsets, and at most that for a fixed subset,
    as long as a right answer makes another right answer no less likely. `changed`, at most 2 q,
    tightens the bound as in `minimum_bias_at`.

    Example:
        >>> round(drop_bias_at(0.9, 1000, 1000, 10), 3)
        0.057
    """
    q = accuracy * (1 - accuracy)
    if changed is not None:
        q = min(q, changed / 2)
    return _largest_difference(q, n, _count_pairs(evaluations, window))


def _chernoff_bounds(
    p: NDArray[np.float64], n: int, logs: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return b(p) of `minimum_bias_at` for each p, given the logarithm of its evaluations."""
    scale, shrunk = _chernoff_grid(n)
    bounds = np.zeros(len(p))  # 0 for a single evaluation, or accuracies of 0 or 1
    varies = np.flatnonzero((logs > 0) & (p > 0) & (p < 1))
    for start in range(0, len(varies), 256):  # in pieces that fit the cache
        rows = varies[start : start + 256]
        column = p[rows, None]
        log_mean = n * np.log1p(column * shrunk)
        candidates = (logs[rows, None] + log_mean + scale * column) / scale
        bounds[rows] = np.minimum(candidates.min(axis=1), p[rows])
    return bounds


@lru_cache(maxsize=64)  # a bisection asks for it 50 times, and seeds have tests of the same size
def _chernoff_grid(n: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the lambdas to choose from, and exp(-lambda / n) - 1; every lambda is valid."""
    scale = np.geomspace(sqrt(n) / 100, 1e4 * n, 400)
    return scale, np.expm1(-scale / n)


def _largest_difference(q: float, n: int, pairs: float) -> float:
    """Return a bound on the expected maximum of 0 and `pairs` differences of two accuracies.

    Over n examples, each of which gains with probability q and loses with probability q.
    """
    if pairs < 1 or q <= 0:
        return 0.0
    scale = np.geomspace(sqrt(n) / 100, 50 * n, 400)  # every lambda gives a valid bound
    log_mean = n * np.log1p(4 * q * np.sinh(scale / (2 * n)) ** 2)  # 2 cosh x - 2 = 4 sinh² x/2
    return min(float((np.logaddexp(0, log(pairs) + log_mean) / scale).min()), 1.0)


def _count_pairs(evaluations: int, window: int | None) -> float:
    """Return the number of pairs of evaluations within a window of each other."""
    width = min(window or evaluations, evaluations)
    return evaluations * (width - 1) - width * (width - 1) / 2


@dataclass(frozen=True)
class EvaluationPlan:
    """What to expect of a run with a given subset size and evaluation schedule.

    Attributes:
        iterations: training iterations per task.
        n: examples per task in each evaluation.
        every: iterations between evaluations; None for a burst schedule.
        burst: arguments `first`, `then` and `growth` of `burst_steps`; None for an even schedule.
        evaluations: evaluations while each task is learned.
        ratios: evaluations per task relative to a single evaluation at its end: iterations / every
            (De Lange et al. 2023, appendix A).
        ratio: mean of `ratios`, weighted by the number of tasks evaluated.
        tests: evaluations of single tasks: k tasks are evaluated while task k is learned.
        examples: examples evaluated in total, without the whole test sets at task ends.
        seconds_train: training time of the whole run; None if unknown, as are the next two.
        seconds_eval: time spent on evaluating `examples`.
        share: fraction of the total time that is spent on evaluation.
        bias_min_acc: bound on how far min_acc is expected to read too low; None if no task is
            left behind.
        half_min_acc: half-width of the interval of min_acc on the side away from the bias; on the
            other side the interval is wider by the bias at most.
        bias_wf: bound on the windowed forgetting expected where accuracy never drops; None if no
            task is evaluated twice.
        half_wf: half-width of the interval of wf, as for min_acc.
        window: window of wf in evaluations; None for all evaluations.
        accuracy: assumed true accuracy.
        changed: assumed fraction of changing answers; None covers fixed and resampled subsets.
        level: confidence level of the intervals.
    """

    iterations: tuple[int, ...]
    n: int
    every: int | None
    burst: BurstSchedule | None
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

    def to_dict(self) -> dict[str, object]:
        """Return plain lists and numbers, ready for JSON."""
        fields = asdict(self)
        return {k: list(v) if isinstance(v, tuple) else v for k, v in fields.items()}


def plan(
    iterations: int | Sequence[int],
    *,
    tasks: int | None = None,
    n: int,
    every: int | None = None,
    burst: BurstSchedule | None = None,
    accuracy: float = 0.9,
    window: int | None = 10,
    level: float = 0.95,
    changed: float | None = None,
    train_seconds: float | None = None,
    example_seconds: float | None = None,
) -> EvaluationPlan:
    """Return what an evaluation schedule costs and how precise its extremes will be.

    Evaluations of whole test sets at task ends count in the biases, not in the cost. The bounds on
    the biases hold for fixed and for resampled subsets; `changed` tightens them for fixed ones.
    `minimum_bias_at` and `drop_bias_at` state their assumptions.

    Args:
        iterations: training iterations per task, one number for all tasks or one per task.
        tasks: number of tasks, where `iterations` is one number.
        n: examples of each task seen so far in each evaluation.
        every: evaluate every `every` iterations, counted across tasks.
        burst: evaluate densely after each switch instead: the arguments of `burst_steps`.
        accuracy: assumed true accuracy; for min_acc, a lower bound on it is enough.
        window: evaluations in the window of wf; None for all of them.
        level: confidence level of the intervals.
        changed: largest fraction of examples whose answer differs between two evaluations.
        train_seconds: seconds per training iteration.
        example_seconds: seconds per evaluated example.

    Example:
        >>> seconds = {"train_seconds": 0.01, "example_seconds": 1e-5}
        >>> expected = plan(500, tasks=5, n=1000, every=10, **seconds)
        >>> expected.evaluations, expected.ratio, expected.examples
        ((50, 50, 50, 50, 50), 50.0, 750000)
        >>> expected.seconds_train, round(expected.seconds_eval, 6), round(expected.bias_min_acc, 3)
        (25.0, 7.5, 0.03)
    """
    lengths = task_lengths(iterations, tasks)
    check_count("n", n)
    for name, fraction in (("accuracy", accuracy), ("changed", changed)):
        if fraction is not None and not 0 <= fraction <= 1:
            raise ValueError(f"{name} is {fraction}, expected a fraction from 0 to 1")
    if not 0 < level < 1:
        raise ValueError(f"level is {level}, expected a fraction between 0 and 1")
    if window is not None:
        check_count("window", window)
    evaluations, in_stream = count_evaluations(lengths, every, burst)
    ratios = tuple(k / every for k in lengths) if every else tuple(map(float, evaluations))
    seen = range(1, len(lengths) + 1)
    tests = sum(k * count for k, count in zip(seen, evaluations, strict=True))
    training = _total_seconds("train_seconds", train_seconds, sum(lengths))
    evaluating = _total_seconds("example_seconds", example_seconds, tests * n)
    share = None
    if training is not None and evaluating is not None and training + evaluating > 0:
        share = evaluating / (training + evaluating)
    bias_min_acc, half_min_acc = _expect_minimum(in_stream, n, accuracy, level, changed)
    bias_wf, half_wf = _expect_drop(in_stream, n, accuracy, level, changed, window)
    return EvaluationPlan(
        lengths, n, every, burst, evaluations, ratios,
        ratio=sum(k * ratio for k, ratio in zip(seen, ratios, strict=True)) / sum(seen),
        tests=tests, examples=tests * n,
        seconds_train=training, seconds_eval=evaluating, share=share,
        bias_min_acc=bias_min_acc, half_min_acc=half_min_acc, bias_wf=bias_wf, half_wf=half_wf,
        window=window, accuracy=accuracy, changed=changed, level=level,
    )  # fmt: skip


def _expect_minimum(
    in_stream: tuple[int, ...], n: int, accuracy: float, level: float, changed: float | None
) -> tuple[float | None, float | None]:
    """Return the bias and half-width of min_acc."""
    later = _evaluations_from_each(in_stream)[1:]  # a task's minimum starts with the next task
    if not later:
        return None, None
    biases = [minimum_bias_at(accuracy, n, count, changed=changed) for count in later]
    low, _ = mean_proportion_interval([accuracy] * len(later), [n] * len(later), level=level)
    return sum(biases) / len(biases), accuracy - low


def _expect_drop(
    in_stream: tuple[int, ...],
    n: int,
    accuracy: float,
    level: float,
    changed: float | None,
    window: int | None,
) -> tuple[float | None, float | None]:
    """Return the bias and half-width of wf."""
    counts = _evaluations_from_each(in_stream)
    if max(counts) < 2:
        return None, None
    biases = [drop_bias_at(accuracy, n, count, window, changed=changed) for count in counts]
    z = normal_quantile(level)
    variance = 2 * accuracy * (1 - accuracy)  # of the change of one example
    variance = variance if changed is None else min(variance, changed)
    squares = [z**2 * ((variance if count > 1 else 0) / n + (z / n) ** 2) for count in counts]
    return sum(biases) / len(counts), sqrt(sum(squares)) / len(counts)


def _evaluations_from_each(counts: tuple[int, ...]) -> list[int]:
    """Return for each task the evaluations from its start to the end of the run."""
    return list(accumulate(reversed(counts)))[::-1]


def _total_seconds(name: str, seconds: float | None, count: int) -> float | None:
    if seconds is None:
        return None
    if not (seconds >= 0 and isfinite(seconds * count)):
        raise ValueError(f"{name} is {seconds}, expected a number of seconds of at least 0")
    return seconds * count
