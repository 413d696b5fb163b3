"""Permutation tests of a mean difference, and the intervals that come from inverting them.

An arrangement (a flip of signs, a relabelling of values) is at least as extreme as the one observed
for a whole interval of true differences, and the observed difference lies in it. So the p-value of
any true difference is the share of arrangements whose interval holds it, and where that share
falls below 1 - level the confidence interval ends.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations
from math import ceil, comb
from typing import TYPE_CHECKING

import numpy as np

from .t_tests import TINY, DifferenceTest

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]
    Mask = NDArray[np.bool_]

__all__ = ["sign_flip_test", "two_sample_permutation"]

EXACT = 200_000  # so many arrangements are all looked at: 18 pairs, or 10 values and 10
DRAWN = 19_999  # of more there are, and the one observed


def sign_flip_test(differences: ArrayLike, *, level: float = 0.95) -> DifferenceTest:
    """Return the paired permutation test: signs of differences that are symmetric about 0 flip.

    Exact up to 18 differences, 20,000 arrangements beyond, the same ones every time. An end of
    the interval is infinite where no arrangement could exclude anything at this level.

    Example:
        >>> sign_flip_test([0.1, 0.2, 0.3]).p
        0.25
        >>> [round(end, 3) for end in sign_flip_test([0.1, 0.2, 0.3], level=0.7)[1:3]]
        [0.1, 0.3]
    """
    d = np.asarray(differences, dtype=np.float64)
    flips = _flips(len(d))
    count = flips.sum(axis=1)
    total = flips @ d
    with np.errstate(divide="ignore", invalid="ignore"):
        one, other = total / count, (d.sum() - total) / (len(d) - count)
    one[count == 0] = -np.inf  # the arrangement observed counts for any difference
    other[count == 0] = np.inf
    return _inverted(float(d.mean()), one, other, float(np.abs(d).max()), level)


def two_sample_permutation(
    first: ArrayLike, second: ArrayLike, *, level: float = 0.95
) -> DifferenceTest:
    """Return the permutation test of two means: without a difference, labels could be swapped.

    Exact up to 10 values each, 20,000 arrangements beyond, the same ones every time.

    Example:
        >>> two_sample_permutation([0.7, 0.8, 0.9], [0.1, 0.2, 0.3]).p
        0.1
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    chosen = _relabelled(len(a), len(b))
    swapped = chosen[:, len(a) :].sum(axis=1)  # so many values change places
    gone = a.sum() - chosen[:, : len(a)] @ a
    come = chosen[:, len(a) :] @ b
    mean = float(a.mean() - b.mean())
    weight = swapped * (1 / len(a) + 1 / len(b))
    with np.errstate(divide="ignore", invalid="ignore"):
        one = (gone - come) / swapped
        other = (2 * mean - weight * one) / (2 - weight)
    always = (swapped == 0) | (weight > 2 - TINY)  # all labels swapped is the mirror image
    one[always], other[always] = -np.inf, np.inf
    return _inverted(mean, one, other, float(np.ptp(np.r_[a, b])), level)


def _inverted(mean: float, one: Floats, other: Floats, size: float, level: float) -> DifferenceTest:
    """Return p and interval, given between which differences each arrangement is as extreme."""
    slack = TINY * size  # the same sum in another order is a tie
    low, high = np.minimum(one, other), np.maximum(one, other)
    p = float(((low <= slack) & (high >= -slack)).mean())
    needed = ceil(round((1 - level) * len(low), 6))
    ends = np.partition(low, needed - 1)[needed - 1], np.partition(high, -needed)[-needed]
    return DifferenceTest(mean, float(ends[0]), float(ends[1]), p)


def _flips(n: int) -> Mask:
    """Return which differences change sign; the opposite of an arrangement is the same one."""
    if 2 ** (n - 1) <= EXACT:
        return ((np.arange(2 ** (n - 1))[:, None] >> np.arange(n)) & 1).astype(bool)
    drawn = np.random.default_rng(0).random((DRAWN + 1, n)) < 0.5
    drawn[drawn.all(axis=1)] = False
    drawn[0] = False
    return drawn


@lru_cache(maxsize=8)
def _relabelled(n: int, m: int) -> Mask:
    """Return which of n + m values get the first label."""
    if comb(n + m, n) <= EXACT:
        chosen = np.zeros((comb(n + m, n), n + m), dtype=bool)
        places = np.array(list(combinations(range(n + m), n)))
        np.put_along_axis(chosen, places, values=True, axis=1)
        return chosen
    order = np.random.default_rng(0).random((DRAWN + 1, n + m)).argsort(axis=1)
    order[0] = np.arange(n + m)
    return order < n
