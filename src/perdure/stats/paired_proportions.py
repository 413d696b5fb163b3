"""Confidence bounds for the difference of two accuracies measured on the same examples.

Only the examples whose result differs count: `lost` were right first and wrong now, `gained` the
other way round. The drop in accuracy is (lost - gained) / n. Every bound is one-sided: the true
drop lies beyond it with a probability of at most `alpha`.
"""

from __future__ import annotations

from functools import lru_cache
from math import sqrt
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .intervals import clopper_pearson_interval, normal_quantile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = [
    "MAX_EXACT_PAIRS",
    "DropBounds",
    "drop_bounds",
    "exact_drop_p",
    "mcnemar_p",
    "mean_drop_bounds",
    "tango_bound",
    "tango_score",
]

MAX_EXACT_PAIRS = 60  # discordant pairs up to which the bounds are exact
SURE = 0.02  # part of alpha that bounds the unknown share of discordant pairs
NUISANCE_VALUES = 21
MAX_CORRECTED = 4.0  # the score up to which its skewness is corrected
TOLERANCE = 1e-3  # of a bound, as a fraction of its distance from the estimate


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
