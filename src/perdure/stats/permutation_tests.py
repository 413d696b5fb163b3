"""Permutation tests of a mean difference, and the intervals that come from inverting them.

An arrangement (a flip of signs, a relabelling of values) is at least as extreme as the observed one
for a whole interval of true differences, which contains the observed difference. So the p-value of
any true difference is the share of arrangements whose interval contains it, and the confidence
interval ends where that share falls below 1 - level.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations
from math import ceil, comb
from typing import TYPE_CHECKING

import numpy as np

from .t_tests import ROUNDING, DifferenceTest

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]
    Mask = NDArray[np.bool_]

__all__ = ["sign_flip_test", "two_sample_permutation"]

MAX_EXACT_ARRANGEMENTS = 200_000  # arrangements that are enumerated: 18 pairs, or 10 values and 10
SAMPLING_SEED = 0  # fixed, so that the same data always give the same p value
SAMPLED = 19_999  # arrangements that are sampled where there are more, next to the observed one


def sign_flip_test(differences: ArrayLike, *, level: float = 0.95) -> DifferenceTest:
    """Return the paired permutation test, which assumes differences symmetric about their mean.

    Exact for up to 18 differences; beyond, it uses the same 20,000 arrangements every time. An end
    of the interval is infinite where no arrangement can exclude anything at this level.

    Example:
        >>> sign_flip_test([0.1, 0.2, 0.3]).p
        0.25
        >>> [round(end, 3) for end in sign_flip_test([0.1, 0.2, 0.3], level=0.7)[1:3]]
        [0.1, 0.3]
    """
    d = np.asarray(differences, dtype=np.float64)
    flips = _sign_flips(len(d))
    count = flips.sum(axis=1)
    total = flips @ d
    with np.errstate(divide="ignore", invalid="ignore"):
        one, other = total / count, (d.sum() - total) / (len(d) - count)
    one[count == 0] = -np.inf  # the observed arrangement counts for any difference
    other[count == 0] = np.inf
    return _invert_test(float(d.mean()), one, other, float(np.abs(d).max()), level)


def two_sample_permutation(
    first: ArrayLike, second: ArrayLike, *, level: float = 0.95
) -> DifferenceTest:
    """Return the permutation test of two means, which assumes values exchangeable under the null.

    Exact for up to 10 values each; beyond, it uses the same 20,000 arrangements every time.

    Example:
        >>> two_sample_permutation([0.7, 0.8, 0.9], [0.1, 0.2, 0.3]).p
        0.1
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    labelled = _relabellings(len(a), len(b))
    swapped = labelled[:, len(a) :].sum(axis=1)  # how many values change sides
    removed = a.sum() - labelled[:, : len(a)] @ a
    added = labelled[:, len(a) :] @ b
    mean = float(a.mean() - b.mean())
    weight = swapped * (1 / len(a) + 1 / len(b))
    with np.errstate(divide="ignore", invalid="ignore"):
        one = (removed - added) / swapped
        other = (2 * mean - weight * one) / (2 - weight)
    always = (swapped == 0) | (weight > 2 - ROUNDING)  # all labels swapped is the mirror image
    one[always], other[always] = -np.inf, np.inf
    return _invert_test(mean, one, other, float(np.abs(np.r_[a, b]).max()), level)


def _invert_test(
    mean: float, one: Floats, other: Floats, size: float, level: float
) -> DifferenceTest:
    """Return p-value and interval, given the differences between which each arrangement counts."""
    tolerance = ROUNDING * size  # the same sum in another order is a tie
    low, high = np.minimum(one, other), np.maximum(one, other)
    p = float(((low <= tolerance) & (high >= -tolerance)).mean())
    needed = ceil(round((1 - level) * len(low), 6))
    ends = np.partition(low, needed - 1)[needed - 1], np.partition(high, -needed)[-needed]
    return DifferenceTest(mean, float(ends[0]), float(ends[1]), p)


def _sign_flips(n: int) -> Mask:
    """Return which differences change sign; the opposite of an arrangement is the same one."""
    if 2 ** (n - 1) <= MAX_EXACT_ARRANGEMENTS:
        return ((np.arange(2 ** (n - 1))[:, None] >> np.arange(n)) & 1).astype(bool)
    flips = np.random.default_rng(SAMPLING_SEED).random((SAMPLED + 1, n)) < 0.5
    flips[flips.all(axis=1)] = False
    flips[0] = False
    return flips


@lru_cache(maxsize=8)
def _relabellings(n: int, m: int) -> Mask:
    """Return which of n + m values get the first label."""
    if comb(n + m, n) <= MAX_EXACT_ARRANGEMENTS:
        labelled = np.zeros((comb(n + m, n), n + m), dtype=bool)
        positions = np.array(list(combinations(range(n + m), n)))
        np.put_along_axis(labelled, positions, values=True, axis=1)
        return labelled
    order = np.random.default_rng(SAMPLING_SEED).random((SAMPLED + 1, n + m)).argsort(axis=1)
    order[0] = np.arange(n + m)
    return order < n
