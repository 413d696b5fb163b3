"""Confidence intervals of proportions and of means over seeds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = [
    "IntervalMethod",
    "MeanOverSeeds",
    "bca_interval",
    "clopper_pearson_interval",
    "mean_over_seeds",
    "mean_proportion_interval",
    "normal_quantile",
    "t_interval",
    "wilson_interval",
]

IntervalMethod = Literal["t", "bca"]


class MeanOverSeeds(NamedTuple):
    """Mean, sample standard deviation (NaN for one seed) and an interval for the mean."""

    mean: float
    sd: float
    low: float
    high: float
    seeds: int


def normal_quantile(level: float) -> float:
    """Return the z for which a standard normal lies within ±z with probability `level`.

    Example:
        >>> round(normal_quantile(0.95), 3)
        1.96
    """
    from statistics import NormalDist  # imported here: it loads decimal and random

    return NormalDist().inv_cdf((1 + level) / 2)


def wilson_interval(
    scores: ArrayLike, sizes: ArrayLike, *, level: float = 0.95
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the low and high ends of Wilson's interval for each accuracy.

    Args:
        scores: accuracies from 0 to 1.
        sizes: number of examples behind each accuracy.
        level: confidence level.

    Example:
        >>> low, high = wilson_interval([0.9], [100])
        >>> low.round(4), high.round(4)
        (array([0.8256]), array([0.9448]))
    """
    p, n = np.asarray(scores, dtype=np.float64), np.asarray(sizes, dtype=np.float64)
    if not (((p >= 0) & (p <= 1)).all() and (n >= 1).all()):
        raise ValueError(f"accuracies must be 0 to 1 over at least 1 example, got {p} over {n}")
    z2 = normal_quantile(level) ** 2
    centre = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = np.sqrt(z2 * (p * (1 - p) / n + z2 / (4 * n**2))) / (1 + z2 / n)
    return np.maximum(centre - half, 0.0), np.minimum(centre + half, 1.0)


def mean_proportion_interval(
    scores: ArrayLike, sizes: ArrayLike, *, level: float = 0.95
) -> tuple[float, float]:
    """Return an interval for the mean of accuracies on different test sets.

    Wilson's intervals, joined by the variances they imply (MOVER; Zou & Donner 2008).

    Example:
        >>> low, high = mean_proportion_interval([0.9, 0.7], [100, 100])
        >>> round(low, 4), round(high, 4)
        (0.7393, 0.8463)
    """
    p = np.asarray(scores, dtype=np.float64)
    low, high = wilson_interval(p, sizes, level=level)
    mean = float(p.mean())
    below, above = np.sum((p - low) ** 2) ** 0.5, np.sum((high - p) ** 2) ** 0.5
    return mean - float(below) / len(p), mean + float(above) / len(p)


def clopper_pearson_interval(successes: int, n: int, *, level: float = 0.95) -> tuple[float, float]:
    """Return the exact interval for a proportion (Clopper & Pearson 1934).

    Example:
        >>> [round(end, 4) for end in clopper_pearson_interval(9, 10)]
        [0.555, 0.9975]
    """
    from scipy.special import betaincinv  # imported here: it takes a third of a second

    tail = (1 - level) / 2
    low = float(betaincinv(successes, n - successes + 1, tail)) if successes else 0.0
    high = float(betaincinv(successes + 1, n - successes, 1 - tail)) if successes < n else 1.0
    return low, high


def mean_over_seeds(
    values: ArrayLike, *, method: IntervalMethod = "t", level: float = 0.95
) -> MeanOverSeeds:
    """Return the mean, sample SD and interval of one metric over the seeds of a method.

    Example:
        >>> mean_over_seeds([0.5, 0.75, 1.0]).sd
        0.25
    """
    x = _check_values(values)
    if method not in get_args(IntervalMethod):
        raise ValueError(f"interval method is {method!r}, expected t or bca")
    if len(x) < 2:
        nan = float("nan")
        return MeanOverSeeds(float(x.mean()), nan, nan, nan, len(x))
    low, high = (t_interval if method == "t" else bca_interval)(x, level=level)
    return MeanOverSeeds(float(x.mean()), float(x.std(ddof=1)), low, high, len(x))


def t_interval(values: ArrayLike, *, level: float = 0.95) -> tuple[float, float]:
    """Return Student's interval for the mean, which assumes normally distributed values.

    Example:
        >>> [round(end, 4) for end in t_interval([0.5, 0.75, 1.0])]
        [0.129, 1.371]
    """
    x = _check_values(values, min_seeds=2)
    from scipy.special import stdtrit  # imported here: it takes a third of a second

    t = float(stdtrit(len(x) - 1, (1 + _check_level(level)) / 2))
    half = t * float(x.std(ddof=1)) / len(x) ** 0.5
    return float(x.mean()) - half, float(x.mean()) + half


def bca_interval(
    values: ArrayLike, *, level: float = 0.95, resamples: int = 9999, seed: int = 0
) -> tuple[float, float]:
    """Return the bias-corrected and accelerated bootstrap interval for the mean (Efron 1987).

    It assumes no distribution, but is too narrow for fewer than about ten seeds, and never
    exceeds the range of the values. The same `seed` gives the same interval.

    Example:
        >>> low, high = bca_interval([0.5, 0.75, 1.0, 0.75])
        >>> 0.5 <= low < 0.75 < high <= 1.0
        True
    """
    x = _check_values(values, min_seeds=2)
    if np.ptp(x) == 0:
        return float(x[0]), float(x[0])
    rng = np.random.default_rng(seed)
    means = np.sort(x[rng.integers(len(x), size=(resamples, len(x)))].mean(axis=1))
    from statistics import NormalDist  # imported here: it loads decimal and random

    normal = NormalDist()
    below = ((means < x.mean()).sum() + (means <= x.mean()).sum()) / (2 * resamples)
    bias = normal.inv_cdf(min(max(below, 0.5 / resamples), 1 - 0.5 / resamples))
    influence = x - x.mean()  # how far leaving a seed out moves the mean, up to a factor
    acceleration = float((influence**3).sum() / (6 * (influence**2).sum() ** 1.5))
    quantiles = []
    for tail in ((1 - _check_level(level)) / 2, (1 + level) / 2):
        z = bias + normal.inv_cdf(tail)
        quantiles.append(normal.cdf(bias + z / (1 - acceleration * z)))
    low, high = np.quantile(means, quantiles)
    return float(low), float(high)


def _check_values(values: ArrayLike, *, min_seeds: int = 1) -> NDArray[np.float64]:
    x = np.array(values, dtype=np.float64)
    if x.ndim != 1 or not np.isfinite(x).all():
        raise ValueError(f"values over seeds must be finite numbers, got {x.tolist()}")
    if len(x) < min_seeds:
        raise ValueError(f"needs at least {min_seeds} seeds, got {len(x)}")
    return x


def _check_level(level: float) -> float:
    if not 0 < level < 1:
        raise ValueError(f"confidence level must lie between 0 and 1, got {level}")
    return level
