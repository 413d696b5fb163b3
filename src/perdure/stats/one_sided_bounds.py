"""One-sided confidence bounds of accuracies and of sums of estimates, and sample sizes.

The true value lies below `low` with a probability of at most `alpha`, and above `high` likewise.
"""

from __future__ import annotations

from math import ceil, sqrt
from typing import TYPE_CHECKING, NamedTuple

from .intervals import clopper_pearson_interval, normal_quantile, wilson_interval

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "OneSidedBounds",
    "accuracy_bounds",
    "add_bounds",
    "examples_to_decide",
    "mean_accuracy_bounds",
]

MAX_EXACT_ANSWERS = 60  # right or wrong ones, up to which the bounds of an accuracy are exact


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
