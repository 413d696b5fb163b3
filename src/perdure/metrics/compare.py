"""Several methods on the same seeds: who differs, and what the seeds can tell at all."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike, NDArray

__all__ = [
    "Comparison",
    "compare_pair",
    "compare_pairs",
    "holm",
    "least_p",
    "ranks",
    "seeds_needed",
]

EXACT_SEEDS = 12


class Comparison(NamedTuple):
    """A paired comparison of two methods on the same seeds.

    `difference` is the mean of first minus second; `p` is two-sided; `verdict` says it in words.
    """

    difference: float
    p: float
    distinguishable: bool
    verdict: str
    test: str


def compare_pair(first: ArrayLike, second: ArrayLike, *, alpha: float = 0.05) -> Comparison:
    """Return whether two methods differ on the same seeds, entry k of both from seed k.

    Exact sign-flip permutation of the mean difference up to 12 seeds, Wilcoxon's signed-rank
    test beyond. Two-sided.

    Example:
        >>> better = [0.80, 0.82, 0.81, 0.83, 0.84]
        >>> worse = [0.70, 0.71, 0.72, 0.70, 0.71]
        >>> compare_pair(better, worse).verdict
        'not distinguishable: 5 seeds cannot go below p = 0.0625; it takes at least 6'
    """
    d = _differences(first, second)
    return _judged(d, _p_value(d), least_p(int(np.count_nonzero(d))), alpha, family=1)


def compare_pairs(
    methods: Mapping[str, ArrayLike], *, alpha: float = 0.05
) -> dict[tuple[str, str], Comparison]:
    """Return the comparison of every two methods, p-values corrected after Holm.

    Example:
        >>> found = compare_pairs({"er": [0.8, 0.9], "ewc": [0.7, 0.8], "naive": [0.2, 0.3]})
        >>> found["er", "naive"].verdict
        'not distinguishable: 2 seeds cannot go below p = 1; it takes at least 7'
    """
    pairs = list(combinations(methods, 2))
    differences = [_differences(methods[one], methods[other]) for one, other in pairs]
    p_values = [_p_value(d) for d in differences]
    found = {}
    for k, (pair, d, p) in enumerate(zip(pairs, differences, holm(p_values), strict=True)):
        # Holm multiplies by less where other pairs are clearer: what this one could have reached.
        clearest = [*p_values[:k], least_p(int(np.count_nonzero(d))), *p_values[k + 1 :]]
        found[pair] = _judged(d, float(p), float(holm(clearest)[k]), alpha, len(pairs))
    return found


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


def seeds_needed(alpha: float = 0.05, *, comparisons: int = 1) -> int:
    """Return the least number of seeds with which a paired test can go below `alpha` at all.

    With `comparisons` of them, the smallest p-value must survive Holm's correction.

    Example:
        >>> seeds_needed(0.05), seeds_needed(0.05, comparisons=10)
        (6, 9)
    """
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must lie between 0 and 1, got {alpha}")
    return next(n for n in range(1, 1000) if least_p(n, comparisons=comparisons) < alpha)


def least_p(seeds: int, *, comparisons: int = 1) -> float:
    """Return the smallest two-sided p-value that a paired test of so many seeds can have.

    Of a sign-flip or signed-rank test; with `comparisons` of them, after Holm's correction.

    Example:
        >>> least_p(5), least_p(6, comparisons=3)
        (0.0625, 0.09375)
    """
    return min(1.0, comparisons * 2.0 ** (1 - seeds)) if seeds else 1.0


def _p_value(d: NDArray[np.float64]) -> float:
    d = d[d != 0]  # a seed on which both agree says nothing about which is better
    if not len(d):
        return 1.0
    if len(d) <= EXACT_SEEDS:
        signs = 1 - 2 * ((np.arange(2 ** len(d))[:, None] >> np.arange(len(d))) & 1)
        flipped = np.abs(signs @ d)
        slack = 1e-9 * np.abs(d).sum()  # the same sum in another order is a tie
        return float((flipped >= abs(d.sum()) - slack).mean())
    from scipy.stats import wilcoxon  # imported here: a second

    ties = len(np.unique(np.abs(d))) < len(d)
    return float(wilcoxon(d, method="approx" if ties else "auto").pvalue)


def _judged(
    d: NDArray[np.float64], p: float, least: float, alpha: float, family: int
) -> Comparison:
    needed = seeds_needed(alpha, comparisons=family)
    differ = int(np.count_nonzero(d))
    test = "exact permutation" if differ <= EXACT_SEEDS else "Wilcoxon signed-rank"
    if p < alpha:
        words = f"distinguishable (p = {p:.4g})"
    elif least >= alpha:
        seeds = f"{len(d)} seeds" if differ == len(d) else f"{differ} differing seeds of {len(d)}"
        words = (
            f"not distinguishable: {seeds} cannot go below p = {least:.4g}; "
            f"it takes at least {needed}"
        )
    else:
        words = f"not distinguishable (p = {p:.4g})"
    return Comparison(float(d.mean()), p, p < alpha, words, test)


def _differences(first: ArrayLike, second: ArrayLike) -> NDArray[np.float64]:
    """Return first minus second for each seed; what is left of rounding is no difference."""
    a, b = np.array(first, dtype=np.float64), np.array(second, dtype=np.float64)
    if a.ndim != 1 or a.shape != b.shape or not len(a):
        raise ValueError(f"methods must have the same seeds, got {a.shape} and {b.shape} values")
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise ValueError("paired comparison needs finite numbers for every seed")
    noise = 1e-12 * np.maximum(np.abs(a), np.abs(b))
    return np.where(np.abs(a - b) <= noise, 0.0, a - b)
