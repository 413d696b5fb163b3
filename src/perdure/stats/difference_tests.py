"""Tests of a difference, with effect sizes and intervals: t-tests, permutations, ranks.

An arrangement (a flip of signs, a relabelling of values) is at least as extreme as the observed one
for a whole interval of true differences, which contains the observed difference. So the p-value of
any true difference is the share of arrangements whose interval contains it, and the confidence
interval ends where that share falls below 1 - level.

SciPy's rank tests have no Hodges-Lehmann intervals, and no exact p-values where there are ties.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations
from math import ceil, comb, exp, inf, lgamma, nan, sqrt
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .ranks import average_ranks

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]
    Mask = NDArray[np.bool_]
    Integers = NDArray[np.int64]

__all__ = [
    "DifferenceTest",
    "effect_of_differences",
    "effect_of_samples",
    "mann_whitney",
    "paired_t",
    "sign_flip_test",
    "signed_rank_test",
    "two_sample_permutation",
    "welch_t",
]

ROUNDING = 1e-9  # relative to the largest value: smaller differences are rounding errors
MAX_EXACT_ARRANGEMENTS = 200_000  # arrangements that are enumerated: 18 pairs, or 10 values and 10
SAMPLING_SEED = 0  # fixed, so that the same data always give the same p value
SAMPLED = 19_999  # arrangements that are sampled where there are more, next to the observed one
MAX_EXACT_VALUES = 100  # values; beyond, the normal approximation of rank sums is accurate


class DifferenceTest(NamedTuple):
    """An estimated difference, its confidence interval and the two-sided p-value of no difference.

    `remark` states what is special about the data, if anything.
    """

    difference: float
    low: float
    high: float
    p: float
    remark: str = ""


def paired_t(differences: ArrayLike, *, level: float = 0.95) -> DifferenceTest:
    """Return the paired t-test, which assumes independent and roughly normal differences.

    Where all differences are equal there is no variance to test against: p is 0 and the interval
    a point, or p is 1 if all differences are 0.

    Example:
        >>> round(paired_t([0.1, 0.2, 0.3]).p, 4)
        0.0742
        >>> equal = paired_t([0.5, 0.5, 0.5])
        >>> equal.low, equal.high, equal.p, equal.remark
        (0.5, 0.5, 0.0, 'identical difference on all 3 seeds')
    """
    d = np.asarray(differences, dtype=np.float64)
    n, mean = len(d), float(np.mean(d))
    variance = _variance(d)
    if variance == 0:
        remark = f"identical difference on all {n} seeds" if mean else ""
        return DifferenceTest(mean, mean, mean, 0.0 if mean else 1.0, remark)
    return _student_test(mean, sqrt(variance / n), n - 1, level)


def welch_t(first: ArrayLike, second: ArrayLike, *, level: float = 0.95) -> DifferenceTest:
    """Return Welch's t-test of two independent, roughly normal samples; variances may differ.

    Example:
        >>> round(welch_t([0.6, 0.7, 0.8], [0.2, 0.3, 0.4]).p, 4)
        0.008
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    mean = _mean_difference(a, b)
    variances = [_variance(a) / len(a), _variance(b) / len(b)]
    if not any(variances):
        remark = "no variance between the seeds of either method" if mean else ""
        return DifferenceTest(mean, mean, mean, 0.0 if mean else 1.0, remark)
    degrees = sum(variances) ** 2 / (
        variances[0] ** 2 / (len(a) - 1) + variances[1] ** 2 / (len(b) - 1)
    )
    return _student_test(mean, sqrt(sum(variances)), degrees, level)


def effect_of_differences(differences: ArrayLike) -> float:
    """Return the mean difference in standard deviations of the differences, Hedges-corrected.

    Cohen's d_z times the small-sample correction of Hedges (1981), called g_z here. NaN for fewer
    than three differences, infinite where all are equal and not 0.

    Example:
        >>> round(effect_of_differences([0.1, 0.2, 0.3]), 4)
        1.1284
    """
    d = np.asarray(differences, dtype=np.float64)
    return _effect(float(d.mean()), _variance(d) if len(d) > 1 else nan, len(d) - 1)


def effect_of_samples(first: ArrayLike, second: ArrayLike) -> float:
    """Return Hedges' g: the difference of means in pooled standard deviations, corrected.

    NaN for fewer than four values in total, infinite where neither sample has any variance.

    Example:
        >>> round(effect_of_samples([0.1, 0.2, 0.3], [0.3, 0.4, 0.5]), 4)
        -1.5958
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    degrees = len(a) + len(b) - 2
    if degrees < 2:
        return nan
    squares = sum((len(x) - 1) * _variance(x) for x in (a, b) if len(x) > 1)
    return _effect(_mean_difference(a, b), squares / degrees, degrees)


def _student_test(mean: float, error: float, degrees: float, level: float) -> DifferenceTest:
    from scipy.special import stdtr, stdtrit  # imported here: it takes a third of a second

    half = float(stdtrit(degrees, (1 + level) / 2)) * error
    p = 2 * float(stdtr(degrees, -abs(mean) / error))
    return DifferenceTest(mean, mean - half, mean + half, p)


def _effect(mean: float, variance: float, degrees: int) -> float:
    if degrees < 2:
        return nan  # the correction for a single degree of freedom is 0
    if variance == 0:
        return float(np.copysign(inf, mean)) if mean else 0.0
    correction = exp(lgamma(degrees / 2) - lgamma((degrees - 1) / 2)) / sqrt(degrees / 2)
    return correction * mean / sqrt(variance)


def _variance(x: NDArray[np.float64]) -> float:
    return 0.0 if np.ptp(x) <= ROUNDING * np.abs(x).max() else float(x.var(ddof=1))


def _mean_difference(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    difference = float(a.mean() - b.mean())
    return difference if abs(difference) > ROUNDING * max(np.abs(a).max(), np.abs(b).max()) else 0.0


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


def signed_rank_test(differences: ArrayLike, *, level: float = 0.95) -> DifferenceTest:
    """Return Wilcoxon's signed-rank test, which assumes independent and symmetric differences.

    The p-value ignores differences of 0; ties share their ranks. The estimate is the median of the
    means of all pairs (Hodges & Lehmann 1963).

    Example:
        >>> signed_rank_test([0.1, 0.2, 0.3, 0.4, 0.5, 0.6]).p
        0.03125
    """
    d = np.asarray(differences, dtype=np.float64)
    walsh = ((d[:, None] + d) / 2)[np.triu_indices(len(d))]
    nonzero = d[d != 0]
    doubled = _doubled_ranks(np.abs(nonzero))
    p = _two_sided_p(_signed_rank_sums(doubled), int(doubled[nonzero > 0].sum()))
    return _hodges_lehmann(walsh, p, _signed_rank_sums(np.arange(1, len(d) + 1)), level)


def mann_whitney(first: ArrayLike, second: ArrayLike, *, level: float = 0.95) -> DifferenceTest:
    """Return the Mann-Whitney test of two samples; its interval assumes that one is shifted.

    Ties share their ranks. The estimate is the median of all differences between a value of the
    first sample and one of the second (Hodges & Lehmann 1963).

    Example:
        >>> mann_whitney([0.7, 0.8, 0.9, 1.0], [0.1, 0.2, 0.3, 0.4]).p
        0.02857142857142857
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    n, m = len(a), len(b)
    doubled = _doubled_ranks(np.r_[a, b])
    p = _two_sided_p(_rank_sums(doubled, n), int(doubled[:n].sum()))
    untied = _rank_sums(np.arange(1, n + m + 1), n)[n * (n + 1) // 2 :]
    return _hodges_lehmann((a[:, None] - b).ravel(), p, untied, level)


def _hodges_lehmann(
    values: Floats, p: float, probabilities: Floats, level: float
) -> DifferenceTest:
    """Return the median of the values and its interval.

    `probabilities[k]` is the probability that k of the values lie below the true median.
    """
    ordered = np.sort(values)
    rejected = int((2 * np.cumsum(probabilities) < round(1 - level, 12)).sum())
    low, high = -np.inf, np.inf
    if rejected:
        low, high = ordered[rejected - 1], ordered[-rejected]
    return DifferenceTest(float(np.median(ordered)), float(low), float(high), p)


def _two_sided_p(probabilities: Floats, observed: int) -> float:
    tails = probabilities[: observed + 1].sum(), probabilities[observed:].sum()
    return min(1.0, 2 * float(min(tails)))


def _doubled_ranks(values: Floats) -> Integers:
    """Return twice the rank of each value: whole numbers even where ties share their ranks."""
    if not len(values):
        return np.zeros(0, dtype=np.int64)
    tolerance = ROUNDING * max(np.abs(values).max(), 1e-300)
    return np.asarray(2 * average_ranks(np.round(values / tolerance)), dtype=np.int64)


def _signed_rank_sums(ranks: Integers) -> Floats:
    """Return the probability of every sum of ranks, each included with probability one half."""
    total = int(ranks.sum())
    if len(ranks) > MAX_EXACT_VALUES:
        return _normal_probabilities(total, total / 2, float((ranks**2).sum()) / 4)
    probabilities = np.zeros(total + 1)
    probabilities[0] = 1.0
    for rank in ranks:
        probabilities[rank:] = (
            probabilities[rank:] + probabilities[: len(probabilities) - rank]
        ) / 2
        probabilities[:rank] /= 2
    return probabilities


def _rank_sums(ranks: Integers, n: int) -> Floats:
    """Return the probability of every sum of n ranks, all choices of n being equally likely."""
    total, count = int(ranks.sum()), len(ranks)
    if count > MAX_EXACT_VALUES:
        variance = n * (count - n) / (count - 1) * float(ranks.var())
        return _normal_probabilities(total, n * float(ranks.mean()), variance)
    ways = np.zeros((n + 1, total + 1))
    ways[0, 0] = 1.0
    for rank in ranks:
        ways[1:, rank:] += ways[:-1, : total + 1 - rank].copy()
    probabilities: Floats = ways[n] / ways[n].sum()
    return probabilities


def _normal_probabilities(total: int, mean: float, variance: float) -> Floats:
    densities = np.exp(-((np.arange(total + 1) - mean) ** 2) / (2 * variance))
    probabilities: Floats = densities / densities.sum()
    return probabilities
