"""One-sided confidence bounds of accuracies and of their differences on the same examples.

The true value lies below `low` with a probability of at most `alpha`, and above `high` likewise.
For two evaluations of the same examples only those whose result differs count: `lost` were right
first and wrong now, `gained` the other way round. The drop in accuracy is (lost - gained) / n.
"""

from __future__ import annotations

from functools import lru_cache
from math import ceil, sqrt
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .intervals import clopper_pearson_interval, normal_quantile, wilson_interval

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = [
    "MAX_EXACT_PAIRS",
    "DropBounds",
    "OneSidedBounds",
    "accuracy_bounds",
    "add_bounds",
    "drop_bounds",
    "exact_drop_p",
    "examples_to_decide",
    "mcnemar_p",
    "mean_accuracy_bounds",
    "mean_drop_bounds",
    "tango_bound",
    "tango_score",
]

MAX_EXACT_ANSWERS = 60  # right or wrong ones, up to which the bounds of an accuracy are exact
MAX_EXACT_PAIRS = 60  # discordant pairs up to which the bounds are exact
SURE = 0.02  # part of alpha that bounds the unknown share of discordant pairs
NUISANCE_VALUES = 21
MAX_CORRECTED = 4.0  # the score up to which its skewness is corrected
TOLERANCE = 1e-3  # of a bound, as a fraction of its distance from the estimate


class OneSidedBounds(NamedTuple):
    """A value with a lower and an upper bound."""

    value: float
    low: float
    high: float


def accuracy_bounds(right: int, n: int, *, alpha: float = 0.05) -> OneSidedBounds:
    """Return an accuracy with bounds: Clopper & Pearson's if few are right or wrong, else Wilson's.

    Example:
        >>> bounds = accuracy_bounds(100, 100)
        >>> round(bounds.low, 4), bounds.high  # .05 ** .01
        (0.9705, 1.0)
    """
    level = 1 - 2 * alpha
    if min(right, n - right) <= MAX_EXACT_ANSWERS:
        return OneSidedBounds(right / n, *clopper_pearson_interval(right, n, level=level))
    low, high = wilson_interval(right / n, n, level=level)
    return OneSidedBounds(right / n, float(low), float(high))


def mean_accuracy_bounds(
    counts: Sequence[tuple[int, int]], shares: Sequence[float], *, alpha: float = 0.05
) -> OneSidedBounds:
    """Return the sum over tasks of share times accuracy with bounds.

    Tasks whose examples weigh the same are pooled if few answers are right or wrong: accuracies
    that differ can only make the pooled bounds wider. Other bounds are joined (`add_bounds`).

    Args:
        counts: right answers and number of examples of each task.
        shares: the share of each task.
        alpha: the error of each bound.

    Example:
        >>> bounds = mean_accuracy_bounds([(99, 100), (98, 100)], [0.5, 0.5])
        >>> round(bounds.low, 4), round(bounds.high, 4)
        (0.9617, 0.9959)
    """
    right, n = (sum(column) for column in zip(*counts, strict=True))
    weights = [share / size for share, (_, size) in zip(shares, counts, strict=True)]
    if max(weights) <= 1.01 * min(weights) and min(right, n - right) <= MAX_EXACT_ANSWERS:
        total = sum(shares)
        return OneSidedBounds(*(total * part for part in accuracy_bounds(right, n, alpha=alpha)))
    return add_bounds([accuracy_bounds(*count, alpha=alpha) for count in counts], shares)


def add_bounds(parts: Sequence[OneSidedBounds], weights: Sequence[float]) -> OneSidedBounds:
    """Return the weighted sum of independent estimates; weights may be negative.

    The bounds are joined by the variances they imply (MOVER; Zou & Donner 2008). For the difference
    of two accuracies this is the interval of Newcombe (1998).

    Example:
        >>> old, new = OneSidedBounds(0.9, 0.8, 0.95), OneSidedBounds(0.7, 0.6, 0.8)
        >>> [round(end, 4) for end in add_bounds([old, new], [1, -1])]
        [0.2, 0.0586, 0.3118]
    """
    value = below = above = 0.0
    for part, weight in zip(parts, weights, strict=True):
        down, up = part.value - part.low, part.high - part.value
        down, up = (down, up) if weight > 0 else (up, down)
        value += weight * part.value
        below += (weight * down) ** 2
        above += (weight * up) ** 2
    return OneSidedBounds(value, value - sqrt(below), value + sqrt(above))


def examples_to_decide(
    n: int, half_width: float, distance: float, *, alpha: float = 0.05, power: float = 0.8
) -> int | None:
    """Return how many examples would decide with probability `power` if the estimate were true.

    Args:
        n: number of examples now.
        half_width: distance from the estimate to its bound now.
        distance: distance from the estimate to the limit; 0 is never decided (None).
        alpha: the error of the bound.
        power: probability with which the bound lies on the same side of the limit.

    Example:
        >>> examples_to_decide(100, 0.04, 0.02), examples_to_decide(100, 0.04, 0.0)
        (915, None)
    """
    z, more = normal_quantile(1 - 2 * alpha), normal_quantile(2 * power - 1)
    if distance <= 0:
        return None
    needed = n * (half_width / distance * (z + more) / z) ** 2
    return max(n + 1, ceil(needed)) if needed < 1e12 else None


class DropBounds(NamedTuple):
    """A drop in accuracy, a lower and an upper bound for it, and whether the bounds are exact."""

    drop: float
    low: float
    high: float
    exact: bool


def drop_bounds(lost: int, gained: int, n: int, *, alpha: float = 0.05) -> DropBounds:
    """Return the drop (lost - gained) / n with one-sided bounds, each with error `alpha`.

    Up to 60 discordant pairs the bounds invert an exact unconditional test, beyond that
    Tango's score test (Tango 1998), corrected for skewness.

    Example:
        >>> bounds = drop_bounds(0, 0, 100)
        >>> round(bounds.low, 3), round(bounds.high, 3), bounds.exact
        (-0.03, 0.03, True)
        >>> bounds = drop_bounds(90, 60, 1000)
        >>> round(bounds.low, 3), round(bounds.high, 3), bounds.exact
        (0.01, 0.05, False)
    """
    if min(lost, gained) < 0 or lost + gained > n or n < 1:
        raise ValueError(f"{lost} lost and {gained} gained of {n} examples are not possible")
    exact = lost + gained <= MAX_EXACT_PAIRS
    bound = _exact_bound if exact else tango_bound
    low, high = -bound(gained, lost, n, alpha), bound(lost, gained, n, alpha)
    return DropBounds((lost - gained) / n, low, high, exact)


def tango_score(
    lost: Floats, gained: Floats, n: float, drop: float, *, skewness: bool = False
) -> Floats:
    """Return the score statistic of Tango (1998) for a true drop; positive if more was lost.

    With `skewness`, its distribution is closer to the normal one: if most discordant pairs are
    lost, or most gained, it is skewed, which matters for small errors (Laud 2017).

    Example:
        >>> float(tango_score(np.array([10.0]), np.array([2.0]), 100, 0.0).round(4)[0])
        2.3094
    """
    b = -lost - gained + (2 * n - lost + gained) * drop
    c = -gained * drop * (1 - drop)
    gaining = (np.sqrt(np.maximum(b * b - 8 * n * c, 0.0)) - b) / (4 * n)
    variance = np.maximum(n * (2 * gaining + drop * (1 - drop)), 0.0)
    distance = lost - gained - n * drop
    score: Floats = distance / np.sqrt(np.maximum(variance, 1e-200))
    if not skewness:
        return score
    losing = gaining + drop
    third = losing * (1 - drop) ** 3 - gaining * (1 + drop) ** 3
    third -= (1 - losing - gaining) * drop**3
    skew = n * third / np.maximum(variance, 1e-200) ** 1.5
    corrected: Floats = score - skew * (np.minimum(score**2, MAX_CORRECTED**2) - 1) / 6
    return corrected


def tango_bound(lost: float, gained: float, n: int, alpha: float) -> float:
    """Return the upper bound of the drop by Tango's score test, corrected for skewness."""
    z = normal_quantile(1 - 2 * alpha)
    b, c = np.array([float(lost)]), np.array([float(gained)])
    low, high = (lost - gained) / n, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        if tango_score(b, c, n, middle, skewness=True)[0] > -z:
            low = middle
        else:
            high = middle
    return high


def mean_drop_bounds(
    counts: Sequence[tuple[int, int, int]], shares: Sequence[float], *, alpha: float = 0.05
) -> DropBounds:
    """Return the sum over tasks of share times drop, with one-sided bounds as in `drop_bounds`.

    Few discordant pairs of tasks whose examples weigh the same are pooled: the drops of tasks that
    differ can only make the pooled bounds wider. Otherwise the bounds of the tasks are joined by
    the variances they imply (MOVER; Zou & Donner 2008).

    Args:
        counts: examples lost and gained, and the number of examples, of each task.
        shares: the share of each task.
        alpha: the error of each bound.

    Example:
        >>> bounds = mean_drop_bounds([(0, 0, 100)] * 2, [0.5, 0.5])
        >>> round(bounds.high, 3), round(drop_bounds(0, 0, 200).high, 3)
        (0.015, 0.015)
    """
    lost, gained, n = (sum(column) for column in zip(*counts, strict=True))
    weights = [share / size for share, (_, _, size) in zip(shares, counts, strict=True)]
    if max(weights) <= 1.01 * min(weights) and lost + gained <= MAX_EXACT_PAIRS:
        drop, low, high, exact = drop_bounds(lost, gained, n, alpha=alpha)
        total = sum(shares)
        return DropBounds(total * drop, total * low, total * high, exact)
    tasks = [drop_bounds(*count, alpha=alpha) for count in counts]
    drop = sum(share * task.drop for share, task in zip(shares, tasks, strict=True))
    below = sqrt(sum((s * (t.drop - t.low)) ** 2 for s, t in zip(shares, tasks, strict=True)))
    above = sqrt(sum((s * (t.high - t.drop)) ** 2 for s, t in zip(shares, tasks, strict=True)))
    return DropBounds(drop, drop - below, drop + above, all(task.exact for task in tasks))


def exact_drop_p(lost: int, gained: int, n: int, drop: float, *, sure: float = 0.001) -> float:
    """Return an exact p-value of the hypothesis that the true drop is at least `drop`.

    Results as far below the hypothesis as this one, by Tango's score, are added up, and the
    largest sum over the unknown share of discordant pairs counts. That share is bounded first
    with error `sure`, which is part of the p-value (Berger & Boos 1994).

    Example:
        >>> round(exact_drop_p(0, 0, 100, 0.03, sure=0), 4)  # (1 - .03)**100
        0.0476
    """
    low, high = 0.0, 1.0
    if sure > 0:
        low, high = clopper_pearson_interval(lost + gained, n, level=1 - sure)
    low = max(low, abs(drop))
    if low > high:
        return sure
    table = _outcomes(n, _most_pairs(n, high))
    observed = tango_score(np.array([float(lost)]), np.array([float(gained)]), n, drop)[0]
    below = table[:, tango_score(table[0], table[1], n, drop) <= observed + 1e-9]
    shares = np.linspace(low, high, NUISANCE_VALUES)
    chances = np.array([(shares + drop) / 2, (shares - drop) / 2, 1 - shares])
    logs = np.log(np.maximum(chances, 1e-300))  # of what cannot happen, and 0 times that is 0
    counts = np.array([below[0], below[1], n - below[0] - below[1]])
    sums = np.exp(counts.T @ logs + below[2][:, None]).sum(axis=0)
    return min(1.0, float(sums.max()) + sure)


def mcnemar_p(lost: int, gained: int) -> float:
    """Return the exact two-sided p-value of McNemar's test: as many are lost as gained.

    Example:
        >>> mcnemar_p(5, 0), mcnemar_p(3, 3), round(mcnemar_p(500, 400), 5)
        (0.0625, 1.0, 0.00096)
    """
    from scipy.special import bdtr  # imported here: it takes a third of a second

    return min(1.0, 2 * float(bdtr(min(lost, gained), lost + gained, 0.5)))


@lru_cache(maxsize=1 << 14)
def _exact_bound(lost: int, gained: int, n: int, alpha: float) -> float:
    """Return the upper bound of the drop by the exact test."""
    drop = (lost - gained) / n
    start = tango_bound(lost, gained, n, alpha)
    sure = SURE * alpha
    low, width = drop, max(start - drop, 1 / n)
    high = min(start, 1.0)
    while high < 1 and exact_drop_p(lost, gained, n, high, sure=sure) > alpha:
        low, high = high, min(1.0, high + width / 4)
    while high - low > max(TOLERANCE * width, 1e-9):
        middle = (low + high) / 2
        if exact_drop_p(lost, gained, n, middle, sure=sure) > alpha:
            low = middle
        else:
            high = middle
    return high


def _most_pairs(n: int, share: float) -> int:
    """Return a number of discordant pairs that is exceeded with a probability below 1e-8."""
    return min(n, int(n * share + 6.5 * sqrt(n * share * (1 - share)) + 20))


@lru_cache(maxsize=64)
def _outcomes(n: int, pairs: int) -> Floats:
    """Return columns of lost, gained and the logarithm of the number of ways to get them."""
    from scipy.special import gammaln  # imported here: it takes a third of a second

    lost, gained = np.nonzero(np.add.outer(np.arange(pairs + 1), np.arange(pairs + 1)) <= pairs)
    ways = gammaln(n + 1) - gammaln(lost + 1) - gammaln(gained + 1) - gammaln(n - lost - gained + 1)
    return np.array([lost, gained, ways], dtype=np.float64)
