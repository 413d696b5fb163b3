"""Wilcoxon's signed-rank test and the Mann-Whitney test, with Hodges-Lehmann intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .t_tests import TINY, DifferenceTest

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]
    Whole = NDArray[np.int64]

__all__ = ["mann_whitney", "signed_rank_test"]

EXACT = 100  # values; beyond, sums of ranks are as good as normal


def signed_rank_test(differences: ArrayLike, *, level: float = 0.95) -> DifferenceTest:
    """Return Wilcoxon's signed-rank test: it assumes symmetric, independent differences.

    Differences of 0 are left out of the p-value, ties share their ranks. The estimate is the
    median of the means of all pairs (Hodges and Lehmann, 1963).

    Example:
        >>> signed_rank_test([0.1, 0.2, 0.3, 0.4, 0.5, 0.6]).p
        0.03125
    """
    d = np.asarray(differences, dtype=np.float64)
    walsh = ((d[:, None] + d) / 2)[np.triu_indices(len(d))]
    differ = d[d != 0]
    doubled = _doubled_ranks(np.abs(differ))
    p = _two_sided(_signed_sums(doubled), int(doubled[differ > 0].sum()))
    return _hodges_lehmann(walsh, p, _signed_sums(np.arange(1, len(d) + 1)), level)


def mann_whitney(first: ArrayLike, second: ArrayLike, *, level: float = 0.95) -> DifferenceTest:
    """Return Mann and Whitney's test of two samples; its interval assumes that they only shift.

    Ties share their ranks. The estimate is the median of all differences of a value in the
    first sample and one in the second (Hodges and Lehmann, 1963).

    Example:
        >>> mann_whitney([0.7, 0.8, 0.9, 1.0], [0.1, 0.2, 0.3, 0.4]).p
        0.02857142857142857
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    n, m = len(a), len(b)
    doubled = _doubled_ranks(np.r_[a, b])
    p = _two_sided(_chosen_sums(doubled, n), int(doubled[:n].sum()))
    untied = _chosen_sums(np.arange(1, n + m + 1), n)[n * (n + 1) // 2 :]
    return _hodges_lehmann((a[:, None] - b).ravel(), p, untied, level)


def _hodges_lehmann(values: Floats, p: float, chances: Floats, level: float) -> DifferenceTest:
    """Return the median of values and its interval, given the chance that so many are below it."""
    ordered = np.sort(values)
    rejected = int((2 * np.cumsum(chances) < round(1 - level, 12)).sum())
    low, high = -np.inf, np.inf
    if rejected:
        low, high = ordered[rejected - 1], ordered[-rejected]
    return DifferenceTest(float(np.median(ordered)), float(low), float(high), p)


def _two_sided(chances: Floats, observed: int) -> float:
    tails = chances[: observed + 1].sum(), chances[observed:].sum()
    return min(1.0, 2 * float(min(tails)))


def _doubled_ranks(values: Floats) -> Whole:
    """Return twice the rank of each value, a whole number also where ties share theirs."""
    if not len(values):
        return np.zeros(0, dtype=np.int64)
    steps = np.round(values / (TINY * max(np.abs(values).max(), 1e-300)))  # rounding is no order
    below = (steps[:, None] > steps).sum(axis=1)
    doubled: Whole = 2 * below + (steps[:, None] == steps).sum(axis=1) + 1
    return doubled


def _signed_sums(ranks: Whole) -> Floats:
    """Return the chance of every sum of ranks, each in it with chance one half."""
    total = int(ranks.sum())
    if len(ranks) > EXACT:
        return _normal(total, total / 2, float((ranks**2).sum()) / 4)
    chances = np.zeros(total + 1)
    chances[0] = 1.0
    for rank in ranks:
        chances[rank:] = (chances[rank:] + chances[: len(chances) - rank]) / 2
        chances[:rank] /= 2
    return chances


def _chosen_sums(ranks: Whole, n: int) -> Floats:
    """Return the chance of every sum of n ranks, all choices alike."""
    total, count = int(ranks.sum()), len(ranks)
    if count > EXACT:
        spread = n * (count - n) / (count - 1) * float(ranks.var())
        return _normal(total, n * float(ranks.mean()), spread)
    ways = np.zeros((n + 1, total + 1))
    ways[0, 0] = 1.0
    for rank in ranks:
        ways[1:, rank:] += ways[:-1, : total + 1 - rank].copy()
    chances: Floats = ways[n] / ways[n].sum()
    return chances


def _normal(total: int, mean: float, variance: float) -> Floats:
    heights = np.exp(-((np.arange(total + 1) - mean) ** 2) / (2 * variance))
    chances: Floats = heights / heights.sum()
    return chances
