"""Several methods by their seeds: who differs, and what the seeds can tell at all."""

from __future__ import annotations

from itertools import combinations
from math import isfinite, nan
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .pair_tests import find_pair_test, seeds_needed
from .t_tests import DifferenceTest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike, NDArray

    from .pair_tests import PairTest, PairTestName

__all__ = ["Comparison", "compare_pair", "compare_pairs", "holm", "ranks"]


class Comparison(NamedTuple):
    """A comparison of two methods; `verdict` says it in words.

    `difference` is of first minus second, with the interval from `low` to `high` for this pair
    alone; `effect` is standardised; `p` is two-sided and, of several pairs, corrected after Holm.
    What there is no number for is None: p without a test, effects of two seeds, infinite ends.
    `remark` says what is special about the data.
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


class _Pair(NamedTuple):
    """Two samples, or their differences, and what the test makes of them before correction."""

    samples: list[NDArray[np.float64]]
    sizes: tuple[int, int]
    found: DifferenceTest | None

    @property
    def differing(self) -> tuple[int, int]:
        """How many seeds there are that say which method is better."""
        if len(self.samples) == 2:
            return self.sizes
        count = int(np.count_nonzero(self.samples[0]))
        return count, count


def compare_pair(
    first: ArrayLike,
    second: ArrayLike,
    *,
    alpha: float = 0.05,
    test: PairTestName = "t",
    unpaired: bool = False,
    level: float = 0.95,
) -> Comparison:
    """Return whether two methods differ, two-sided; entry k of both is from seed k if paired.

    Example:
        >>> better = [0.80, 0.82, 0.81, 0.83, 0.84]
        >>> worse = [0.70, 0.71, 0.72, 0.70, 0.71]
        >>> compare_pair(better, worse).verdict
        'distinguishable (p = 0.000151)'
        >>> compare_pair(better, worse, test="permutation").verdict
        'not distinguishable: 5 seeds cannot go below p = 0.0625; it takes at least 6'
    """
    both = {"first": first, "second": second}
    (found,) = compare_pairs(both, alpha=alpha, test=test, unpaired=unpaired, level=level).values()
    return found


def compare_pairs(
    methods: Mapping[str, ArrayLike],
    *,
    alpha: float = 0.05,
    test: PairTestName = "t",
    unpaired: bool = False,
    against: str | None = None,
    level: float = 0.95,
) -> dict[tuple[str, str], Comparison]:
    """Return the comparison of every two methods, p-values corrected after Holm.

    Args:
        methods: for each its value on every seed, in the same order if paired.
        alpha: methods are distinguishable where p is below it.
        test: t, permutation, welch or wilcoxon, see `find_pair_test`.
        unpaired: entry k of two methods has nothing in common.
        against: compare the others with this method only, and correct for so many comparisons.
        level: of the intervals of the differences, each for itself.

    Example:
        >>> found = compare_pairs({"er": [0.8, 0.9], "ewc": [0.7, 0.8], "naive": [0.2, 0.4]})
        >>> found["er", "naive"].verdict
        'not distinguishable (p = 0.1154)'
        >>> found["er", "ewc"].verdict
        'distinguishable (p = 0: identical difference on all 2 seeds)'
    """
    chosen = find_pair_test(test, unpaired=unpaired)
    named = _named_pairs(list(methods), against)
    pairs = {
        (first, second): _computed(chosen, methods[first], methods[second], level)
        for first, second in named
    }
    tested = {pair: found.p for pair, (*_, found) in pairs.items() if found is not None}
    corrected = dict(zip(tested, holm(list(tested.values())).tolist(), strict=True))
    compared = {}
    for pair, mine in pairs.items():
        if mine.found is None:
            compared[pair] = _untested(chosen, mine)
            continue
        # Holm multiplies by less where other pairs are clearer: what this one could have reached.
        smallest = tested | {pair: min(1.0, chosen.smallest(*mine.differing))}
        least = float(holm(list(smallest.values()))[list(smallest).index(pair)])
        needed = seeds_needed(alpha, comparisons=len(tested), test=test, unpaired=unpaired)
        words = _verdict(mine, corrected[pair], alpha, least, needed)
        compared[pair] = _comparison(chosen, mine, corrected[pair], alpha, words)
    return compared


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """Return p-values corrected for their number (Holm, 1979), in the order given.

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


def ranks(methods: Mapping[str, float], *, lower_is_better: bool = False) -> dict[str, float]:
    """Return the rank of each method, 1 the best; ties share the mean of their ranks.

    Example:
        >>> ranks({"er": 0.8, "ewc": 0.5, "lwf": 0.8})
        {'er': 1.5, 'ewc': 3.0, 'lwf': 1.5}
    """
    scores = np.array(list(methods.values()), dtype=np.float64)
    if not np.isfinite(scores).all():
        raise ValueError(f"ranks need finite numbers, got {dict(methods)}")
    order = scores if lower_is_better else -scores
    better = (order[:, None] > order[None, :]).sum(axis=1)
    tied = (order[:, None] == order[None, :]).sum(axis=1)
    return dict(zip(methods, (better + (tied + 1) / 2).tolist(), strict=True))


def _named_pairs(names: list[str], against: str | None) -> list[tuple[str, str]]:
    if against is None:
        return list(combinations(names, 2))
    if against not in names:
        raise ValueError(f"against is {against!r:.60}, expected one of {', '.join(names)}")
    return [(name, against) for name in names if name != against]


def _computed(chosen: PairTest, first: ArrayLike, second: ArrayLike, level: float) -> _Pair:
    a, b = _finite(first), _finite(second)
    if chosen.paired and a.shape != b.shape:
        raise ValueError(f"methods must have the same seeds, got {a.shape} and {b.shape} values")
    samples = [_differences(a, b)] if chosen.paired else [rounded(a), rounded(b)]
    enough = min(len(a), len(b)) >= chosen.fewest
    return _Pair(
        samples, (len(a), len(b)), chosen.compute(*samples, level=level) if enough else None
    )


def _verdict(pair: _Pair, p: float, alpha: float, least: float, needed: int) -> str:
    assert pair.found is not None
    if p < alpha:
        because = f": {pair.found.remark}" if pair.found.remark else ""
        return f"distinguishable (p = {p:.4g}{because})"
    if least >= alpha:
        return (
            f"not distinguishable: {_of_seeds(pair)} cannot go below p = {least:.4g}; "
            f"it takes at least {needed}"
        )
    return f"not distinguishable (p = {p:.4g})"


def _of_seeds(pair: _Pair) -> str:
    (first, second), (differ, _) = pair.sizes, pair.differing
    if first != second:
        return f"{first} and {second} seeds"
    each = " each" if len(pair.samples) == 2 else ""
    some = f"{first} seeds{each}" if first > 1 else f"1 seed{each}"
    return some if differ == first else f"{differ} differing seeds of {first}"


def _untested(chosen: PairTest, pair: _Pair) -> Comparison:
    words = f"not tested: {_of_seeds(pair)}, and the {chosen.name} needs {chosen.fewest} or more"
    return _comparison(chosen, pair, None, 0.0, words)


def _comparison(
    chosen: PairTest, pair: _Pair, p: float | None, alpha: float, verdict: str
) -> Comparison:
    means = [float(sample.mean()) for sample in pair.samples]
    found = pair.found or DifferenceTest(means[0] - sum(means[1:]), nan, nan, nan)
    effect = chosen.effect(*pair.samples)
    low, high, effect_ = (_or_none(value) for value in (found.low, found.high, effect))
    apart = p is not None and p < alpha
    return Comparison(
        found.difference, low, high, effect_, p, apart, verdict, chosen.name, found.remark
    )


def _or_none(value: float) -> float | None:
    return value if isfinite(value) else None


def _finite(values: ArrayLike) -> NDArray[np.float64]:
    x = np.array(values, dtype=np.float64)
    if x.ndim != 1 or not len(x) or not np.isfinite(x).all():
        raise ValueError(f"methods need finite numbers for every seed, got {x.tolist()}")
    return x


def rounded(values: ArrayLike) -> NDArray[np.float64]:
    """Return the values with twelve digits: what is left of rounding is no difference."""
    return np.array([float(f"{value:.12g}") for value in np.asarray(values).tolist()])


def _differences(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return first minus second for each seed; what is left of rounding is no difference."""
    noise = 1e-12 * np.maximum(np.abs(a), np.abs(b))
    return np.where(np.abs(a - b) <= noise, 0.0, a - b)
