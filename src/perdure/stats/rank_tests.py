"""Wilcoxon's signed-rank test and the Mann-Whitney test, with Hodges-Lehmann intervals.

SciPy's tests have no such intervals, and no exact p-values where there are ties.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .ranks import average_ranks
from .t_tests import ROUNDING, DifferenceTest

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]

__all__ = ["mann_whitney", "signed_rank_test"]

MAX_EXACT_VALUES = 100  # values; beyond, the normal approximation of rank sums is accurate


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
