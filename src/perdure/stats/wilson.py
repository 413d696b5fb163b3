"""Intervals of accuracies that were measured once, from the number of test examples."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["mean_of_proportions", "wilson"]


def wilson(
    scores: ArrayLike, sizes: ArrayLike, *, level: float = 0.95
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return low and high ends of Wilson's interval of each accuracy over so many examples.

    Example:
        >>> low, high = wilson([0.9], [100])
        >>> low.round(4), high.round(4)
        (array([0.8256]), array([0.9448]))
    """
    p, n = np.asarray(scores, dtype=np.float64), np.asarray(sizes, dtype=np.float64)
    if not (((p >= 0) & (p <= 1)).all() and (n >= 1).all()):
        raise ValueError(f"accuracies must be 0 to 1 over at least 1 example, got {p} over {n}")
    from statistics import NormalDist  # imported here: it brings decimal and random

    z2 = NormalDist().inv_cdf((1 + level) / 2) ** 2
    centre = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = np.sqrt(z2 * (p * (1 - p) / n + z2 / (4 * n**2))) / (1 + z2 / n)
    return np.maximum(centre - half, 0.0), np.minimum(centre + half, 1.0)


def mean_of_proportions(
    scores: ArrayLike, sizes: ArrayLike, *, level: float = 0.95
) -> tuple[float, float]:
    """Return an interval of the mean of accuracies on different test sets.

    Wilson's for each, joined by the variance they imply (MOVER; Zou & Donner, 2008).

    Example:
        >>> low, high = mean_of_proportions([0.9, 0.7], [100, 100])
        >>> round(low, 4), round(high, 4)
        (0.7393, 0.8463)
    """
    p = np.asarray(scores, dtype=np.float64)
    low, high = wilson(p, sizes, level=level)
    mean = float(p.mean())
    below, above = np.sum((p - low) ** 2) ** 0.5, np.sum((high - p) ** 2) ** 0.5
    return mean - float(below) / len(p), mean + float(above) / len(p)
