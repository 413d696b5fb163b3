"""Pairwise comparison of methods over seeds, corrected for the number of comparisons."""

from __future__ import annotations

from itertools import combinations
from math import isfinite, nan
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .difference_tests import DifferenceTest
from .pair_tests import find_pair_test, seeds_needed
from .ranks import round_values

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike, NDArray

    from .pair_tests import PairTest, PairTestName

__all__ = ["Comparison", "compare_pair", "compare_pairs", "holm"]


class Comparison(NamedTuple):
    """The comparison of two methods; `verdict` states the result in words.

    `difference` is first minus second; `low` and `high` are the ends of its interval, for this pair
    alone. `effect` is the standardised effect size. `p` is two-sided and, for several pairs,
    corrected by Holm's method. A number that does not exist is None: p without a test, the effect
    size of two seeds, infinite ends. `remark` states what is special about the data.
    """

    difference: float
    low: float | None
    high: float | None
    effect: float | None
    p: float | None
    distinguishable: bool
    verdict: str
    test: str
    remark: str = ""


class _TestedPair(NamedTuple):
    """Two samples, or their differences, and the result of the test before correction."""

    samples: list[NDArray[np.float64]]
    sizes: tuple[int, int]
    result: DifferenceTest | None

    @property
    def informative_seeds(self) -> tuple[int, int]:
        """Number of seeds of each method that favour one of the two methods."""
        if len(self.samples) == 2:
            return self.sizes
        count = int(np.count_nonzero(self.samples[0]))
        return count, count

    @property
    def seeds_text(self) -> str:
        """The numbers of seeds, in words."""
        (first, second), (informative, _) = self.sizes, self.informative_seeds
        if first != second:
            return f"{first} and {second} seeds"
        suffix = " each" if len(self.samples) == 2 else ""
        if informative != first:
            return f"{informative} differing seeds of {first}"
        return f"{first} seeds{suffix}" if first > 1 else f"1 seed{suffix}"


def compare_pair(
    first: ArrayLike,
    second: ArrayLike,
    *,
    alpha: float = 0.05,
    test: PairTestName = "t",
    unpaired: bool = False,
    level: float = 0.95,
) -> Comparison:
    """Return whether two methods differ (two-sided); if paired, entry k of both is from one seed.

    Example:
        >>> better = [0.80, 0.82, 0.81, 0.83, 0.84]
        >>> worse = [0.70, 0.71, 0.72, 0.70, 0.71]
        >>> compare_pair(better, worse).verdict
        'distinguishable (p = 0.000151)'
        >>> compare_pair(better, worse, test="permutation").verdict
        'not distinguishable: 5 seeds cannot go below p = 0.0625; it takes at least 6'
    """
    both = {"first": first, "second": second}
    pairs = compare_pairs(both, alpha=alpha, test=test, unpaired=unpaired, level=level)
    return pairs["first", "second"]


def compare_pairs(
    methods: Mapping[str, ArrayLike],
    *,
    alpha: float = 0.05,
    test: PairTestName = "t",
    unpaired: bool = False,
    against: str | None = None,
    level: float = 0.95,
) -> dict[tuple[str, str], Comparison]:
    """Return the comparison of every two methods, with p-values corrected by Holm's method.

    Args:
        methods: for each method its value on every seed, in the same order if paired.
        alpha: methods are distinguishable where p is below it.
        test: t, permutation, welch or wilcoxon, see `find_pair_test`.
        unpaired: whether entry k of two methods has nothing in common.
        against: compare all others with this method only, and correct for that many comparisons.
        level: confidence level of the interval of each difference by itself.

    Example:
        >>> pairs = compare_pairs({"er": [0.8, 0.9], "ewc": [0.7, 0.8], "naive": [0.2, 0.4]})
        >>> pairs["er", "naive"].verdict
        'not distinguishable (p = 0.1154)'
        >>> pairs["er", "ewc"].verdict
        'distinguishable (p = 0: identical difference on all 2 seeds)'
    """
    pair_test = find_pair_test(test, unpaired=unpaired)
    pairs = {
        (first, second): _test_pair(pair_test, methods[first], methods[second], level)
        for first, second in _pair_names(list(methods), against)
    }
    tested = {names: pair.result.p for names, pair in pairs.items() if pair.result is not None}
    corrected = dict(zip(tested, holm(list(tested.values())).tolist(), strict=True))
    reachable = _HolmWithOneReplaced(list(tested.values()))
    needed = seeds_needed(alpha, comparisons=len(tested) or 1, test=test, unpaired=unpaired)
    comparisons = {}
    for names, pair in pairs.items():
        if pair.result is None:
            verdict = (
                f"not tested: {pair.seeds_text}, and the {pair_test.name} needs "
                f"{pair_test.min_seeds} or more"
            )
            comparisons[names] = _make_comparison(pair_test, pair, None, alpha, verdict)
            continue
        # Holm multiplies by less where other pairs are clearer: what this pair could have reached.
        least = min(1.0, pair_test.min_p(*pair.informative_seeds))
        min_p = reachable.correct(pair.result.p, least)
        verdict = _verdict(pair, pair.result, corrected[names], alpha, min_p, needed)
        comparisons[names] = _make_comparison(pair_test, pair, corrected[names], alpha, verdict)
    return comparisons


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """Return p-values corrected for their number (Holm 1979), in the given order.

    Example:
        >>> holm([0.01, 0.04, 0.03])
        array([0.03, 0.06, 0.06])
    """
    p = np.array(p_values, dtype=np.float64)
    if p.ndim != 1 or not ((p >= 0) & (p <= 1)).all():
        raise ValueError(f"p-values must lie between 0 and 1, got {p.tolist()}")
    order = np.argsort(p, kind="stable")
    steps = np.maximum.accumulate((len(p) - np.arange(len(p))) * p[order])
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(steps, 1.0)
    return corrected


class _HolmWithOneReplaced:
    """Corrects p-values of which one is replaced, mostly by a smaller one, without sorting all."""

    def __init__(self, p_values: list[float]) -> None:
        self._sorted = np.sort(np.array(p_values, dtype=np.float64))
        steps = (len(p_values) - np.arange(len(p_values))) * self._sorted
        self._largest_before = np.append(0.0, np.maximum.accumulate(steps))

    def correct(self, old: float, new: float) -> float:
        """Return what `holm` makes of `new` in the place of `old`."""
        if old < new:  # a sample of the permutations may give less than all of them can
            others = np.delete(self._sorted, np.searchsorted(self._sorted, old))
            return float(holm([new, *others])[0])
        rank = int(np.searchsorted(self._sorted, new))  # of equal ones the first decides
        return min(1.0, max(float(self._largest_before[rank]), (len(self._sorted) - rank) * new))


def _pair_names(names: list[str], against: str | None) -> list[tuple[str, str]]:
    if against is None:
        return list(combinations(names, 2))
    if against not in names:
        raise ValueError(f"against is {against!r:.60}, expected one of {', '.join(names)}")
    return [(name, against) for name in names if name != against]


def _test_pair(
    pair_test: PairTest, first: ArrayLike, second: ArrayLike, level: float
) -> _TestedPair:
    a, b = _check_finite(first), _check_finite(second)
    if pair_test.paired and a.shape != b.shape:
        raise ValueError(f"methods must have the same seeds, got {a.shape} and {b.shape} values")
    samples = [_differences(a, b)] if pair_test.paired else [round_values(a), round_values(b)]
    sizes = len(a), len(b)
    enough = min(sizes) >= pair_test.min_seeds
    return _TestedPair(samples, sizes, pair_test.compute(*samples, level=level) if enough else None)


def _verdict(
    pair: _TestedPair, result: DifferenceTest, p: float, alpha: float, min_p: float, needed: int
) -> str:
    if p < alpha:
        reason = f": {result.remark}" if result.remark else ""
        return f"distinguishable (p = {p:.4g}{reason})"
    if min_p >= alpha:
        return (
            f"not distinguishable: {pair.seeds_text} cannot go below p = {min_p:.4g}; "
            f"it takes at least {needed}"
        )
    return f"not distinguishable (p = {p:.4g})"


def _make_comparison(
    pair_test: PairTest, pair: _TestedPair, p: float | None, alpha: float, verdict: str
) -> Comparison:
    means = [float(sample.mean()) for sample in pair.samples]
    result = pair.result or DifferenceTest(means[0] - sum(means[1:]), nan, nan, nan)
    effect = pair_test.effect(*pair.samples)
    low, high, effect_size = (
        value if isfinite(value) else None for value in (result.low, result.high, effect)
    )
    return Comparison(
        result.difference, low, high, effect_size, p, p is not None and p < alpha, verdict,
        pair_test.name, result.remark,
    )  # fmt: skip


def _check_finite(values: ArrayLike) -> NDArray[np.float64]:
    x = np.array(values, dtype=np.float64)
    if x.ndim != 1 or not len(x) or not np.isfinite(x).all():
        raise ValueError(f"methods need finite numbers for every seed, got {x.tolist()}")
    return x


def _differences(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return first minus second for each seed; rounding errors are no differences."""
    rounding = 1e-12 * np.maximum(np.abs(a), np.abs(b))
    return np.where(np.abs(a - b) <= rounding, 0.0, a - b)
