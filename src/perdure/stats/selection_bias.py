"""How far noise alone can move the minimum, or the largest drop, of many noisy accuracies.

The lowest of many noisy estimates lies below the lowest true value. These are bounds on the
expected difference, from the number of examples and of evaluations alone.
"""

from __future__ import annotations

from functools import lru_cache
from math import log, log1p, sqrt
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["drop_bias", "drop_bias_at", "minimum_bias", "minimum_bias_at", "minimum_biases"]


def minimum_bias(low: float, n: int, evaluations: int) -> float:
    r"""Return a bound on how far the expected minimum lies below the lowest true accuracy.

    `low` is the observed minimum. The p that explains it as $p - b(p)$, see `minimum_bias_at`, is
    solved for, so the true minimum is expected to lie between `low` and `low` plus the result.

    Example:
        >>> round(minimum_bias(0.868, 1000, 1000), 3)  # a constant .9 reads about .868
        0.036
    """
    return minimum_biases([low], n, [evaluations])[0]


def minimum_biases(lows: Sequence[float], n: int, evaluations: Sequence[int]) -> list[float]:
    """Return `minimum_bias` of several tasks that have `n` examples each."""
    low, logs = np.array(lows), np.array([log(count) for count in evaluations])
    below, above = low, np.ones(len(low))
    for _ in range(50):  # bisection: p - b(p) grows with p
        p = (below + above) / 2
        fits = p - _chernoff_bounds(p, n, logs) <= low
        below, above = np.where(fits, p, below), np.where(fits, above, p)
    biases: list[float] = np.where(logs > 0, above - low, 0.0).tolist()
    return biases


def minimum_bias_at(
    accuracy: float, n: int, evaluations: int, *, changed: float | None = None
) -> float:
    r"""Return a bound on how far the expected minimum lies below a known lowest true accuracy p.

    For any dependence between evaluations, and true accuracies of at least p, the expected
    minimum of N accuracies over n examples is at least $p - b(p)$ with

    $$b(p) = \min_\lambda (\log N + n \log(1 - p + p e^{-\lambda/n}) + \lambda p) / \lambda$$

    (a Chernoff bound). It covers fixed subsets and subsets resampled at every evaluation.

    `changed` tightens it for a fixed subset: the largest fraction of examples whose answer
    changes between two evaluations. Examples whose answer never changes add no bias.

    Example:
        >>> round(minimum_bias_at(0.9, 1000, 1000), 3)
        0.037
        >>> round(minimum_bias_at(0.9, 1000, 1000, changed=0.02), 3)
        0.017
    """
    if evaluations < 2:
        return 0.0
    bound = float(_chernoff_bounds(np.array([accuracy]), n, np.array([log(evaluations)]))[0])
    if changed is None:
        return bound
    # The others against the lowest one, whose own error is 0 on average.
    return min(bound, _largest_difference(changed / 2, n, evaluations - 1))


def drop_bias(evaluations: int, n: int | None, window: int | None) -> float | None:
    r"""Return a bound on the expected largest drop where the true accuracy never falls.

    $\sqrt{\log(1 + \text{pairs}) / n}$, from the sub-Gaussian maximal inequality over all pairs of
    evaluations in a window. It holds for independent and for positively dependent evaluations.

    Example:
        >>> round(drop_bias(1000, 1000, 10), 3)
        0.095
    """
    if n is None:
        return None
    return sqrt(log1p(_count_pairs(evaluations, window)) / n)  # 1 more: a drop is at least 0


def drop_bias_at(
    accuracy: float,
    n: int,
    evaluations: int,
    window: int | None,
    *,
    changed: float | None = None,
) -> float:
    r"""Return a bound on the expected largest drop where the true accuracy stays at `accuracy`.

    $\min_\lambda \log(1 + \text{pairs} (1 + 2 q (\cosh(\lambda/n) - 1))^n) / \lambda$ over the
    pairs in a window, where q is the probability that an example is right in one evaluation and
    wrong in the other: $p (1 - p)$ for resampled subsets, and at most that for a fixed subset,
    as long as a right answer makes another right answer no less likely. `changed`, at most 2 q,
    tightens the bound as in `minimum_bias_at`.

    Example:
        >>> round(drop_bias_at(0.9, 1000, 1000, 10), 3)
        0.057
    """
    q = accuracy * (1 - accuracy)
    if changed is not None:
        q = min(q, changed / 2)
    return _largest_difference(q, n, _count_pairs(evaluations, window))


def _chernoff_bounds(
    p: NDArray[np.float64], n: int, logs: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return b(p) of `minimum_bias_at` for each p, given the logarithm of its evaluations."""
    scale, shrunk = _chernoff_grid(n)
    bounds = np.zeros(len(p))  # 0 for a single evaluation, or accuracies of 0 or 1
    varies = np.flatnonzero((logs > 0) & (p > 0) & (p < 1))
    for start in range(0, len(varies), 256):  # in pieces that fit the cache
        rows = varies[start : start + 256]
        column = p[rows, None]
        log_mean = n * np.log1p(column * shrunk)
        candidates = (logs[rows, None] + log_mean + scale * column) / scale
        bounds[rows] = np.minimum(candidates.min(axis=1), p[rows])
    return bounds


@lru_cache(maxsize=64)  # a bisection asks for it 50 times, and seeds have tests of the same size
def _chernoff_grid(n: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the lambdas to choose from, and exp(-lambda / n) - 1; every lambda is valid."""
    scale = np.geomspace(sqrt(n) / 100, 1e4 * n, 400)
    return scale, np.expm1(-scale / n)


def _largest_difference(q: float, n: int, pairs: float) -> float:
    """Return a bound on the expected maximum of 0 and `pairs` differences of two accuracies.

    Over n examples, each of which gains with probability q and loses with probability q.
    """
    if pairs < 1 or q <= 0:
        return 0.0
    scale = np.geomspace(sqrt(n) / 100, 50 * n, 400)  # every lambda gives a valid bound
    log_mean = n * np.log1p(4 * q * np.sinh(scale / (2 * n)) ** 2)  # 2 cosh x - 2 = 4 sinh² x/2
    return min(float((np.logaddexp(0, log(pairs) + log_mean) / scale).min()), 1.0)


def _count_pairs(evaluations: int, window: int | None) -> float:
    """Return the number of pairs of evaluations within a window of each other."""
    width = min(window or evaluations, evaluations)
    return evaluations * (width - 1) - width * (width - 1) / 2
