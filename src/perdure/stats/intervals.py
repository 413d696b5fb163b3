"""Confidence intervals of proportions and of means over seeds and task orders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import ArrayLike, NDArray

__all__ = [
    "IntervalMethod",
    "MeanOverSeeds",
    "VarianceComponents",
    "bca_interval",
    "clopper_pearson_interval",
    "mean_over_seeds",
    "mean_proportion_interval",
    "normal_quantile",
    "t_interval",
    "variance_components",
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
    half = _t_quantile(_check_level(level), len(x) - 1) * float(x.std(ddof=1)) / len(x) ** 0.5
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


class VarianceComponents(NamedTuple):
    """The mean of a metric over orders and seeds, and where its variance comes from.

    Attributes:
        mean: Mean over all runs.
        order_sd: Standard deviation over orders, of the expected value of an order; NaN if there
            is one seed per order, which cannot be told from it.
        seed_sd: Standard deviation over seeds within an order; NaN if there is one seed per order.
        low: Low end of the interval of the mean over new orders and new seeds.
        high: High end.
        orders: Number of orders.
        runs: Number of runs.
        crossed: Whether every order was run with the same seeds.
    """

    mean: float
    order_sd: float
    seed_sd: float
    low: float
    high: float
    orders: int
    runs: int
    crossed: bool


def variance_components(
    values: ArrayLike,
    orders: Sequence[Hashable],
    seeds: Sequence[Hashable],
    *,
    level: float = 0.95,
) -> VarianceComponents:
    """Return the variance components of a random-effects model, by the method of moments.

    If every order was run with the same seeds, the model is y = mean + order + seed + rest, with
    the mean squares of a two-way analysis of variance; otherwise y = mean + order + rest, with
    those of a one-way analysis. An estimate below 0 becomes 0. The interval of the mean has
    Satterthwaite's degrees of freedom (two-way) or those of the orders (one-way).

    Args:
        values: One value per run.
        orders: The order of each run; at least two different ones.
        seeds: The seed of each run.
        level: Confidence level of the interval.

    Example:
        >>> result = variance_components([1, 3, 5, 7], ["a", "a", "b", "b"], [0, 1, 0, 1])
        >>> result.mean, round(result.order_sd, 3), round(result.seed_sd, 3)
        (4.0, 2.828, 1.414)
    """
    y = np.asarray(values, dtype=np.float64)
    rows = {order: k for k, order in enumerate(dict.fromkeys(orders))}
    columns = {seed: k for k, seed in enumerate(dict.fromkeys(seeds))}
    if len(rows) < 2 or not len(y) == len(orders) == len(seeds):
        raise ValueError(f"expected values of at least two orders, got {len(y)} of {len(rows)}")
    table = np.full((len(rows), len(columns)), np.nan)
    for value, order, seed in zip(y, orders, seeds, strict=True):
        table[rows[order], columns[seed]] = value
    crossed = table.size == len(y) and not np.isnan(table).any()
    if crossed and len(columns) > 1:
        order_sd, seed_sd, error, freedom = _two_way(table)
    else:
        order_sd, seed_sd, error, freedom = _one_way([row[~np.isnan(row)] for row in table])
    mean = float(y.mean())
    half = _t_quantile(level, freedom) * error
    return VarianceComponents(
        mean, order_sd, seed_sd, mean - half, mean + half, len(rows), len(y), crossed
    )


def _two_way(table: NDArray[np.float64]) -> tuple[float, float, float, float]:
    """Return the SDs over orders and seeds, the standard error of the mean and its freedom."""
    a, b = table.shape
    mean = table.mean()
    by_order = b * ((table.mean(axis=1) - mean) ** 2).sum() / (a - 1)
    by_seed = a * ((table.mean(axis=0) - mean) ** 2).sum() / (b - 1)
    rest = table - table.mean(axis=1, keepdims=True) - table.mean(axis=0) + mean
    residual = (rest**2).sum() / ((a - 1) * (b - 1))
    order_sd = np.sqrt(max(by_order - residual, 0.0) / b)
    seed_sd = np.sqrt(table.var(axis=1, ddof=1).mean())
    # The variance of the mean is that of orders / a + of seeds / b + of the rest / (a b).
    total, freedom = by_order + by_seed - residual, float(min(a, b) - 1)
    if total > max(by_order, by_seed, residual) > 0:  # else one alone, which is not smaller
        squares = by_order**2 / (a - 1) + by_seed**2 / (b - 1) + residual**2 / ((a - 1) * (b - 1))
        freedom = float(total**2 / squares)
    error = np.sqrt(max(total, by_order, by_seed, residual) / (a * b))
    return float(order_sd), float(seed_sd), float(error), freedom


def _one_way(groups: list[NDArray[np.float64]]) -> tuple[float, float, float, float]:
    """Return the same if seeds differ between orders, or are missing, or there is one each."""
    sizes = np.array([len(group) for group in groups], dtype=np.float64)
    count, a = sizes.sum(), len(groups)
    means = np.array([group.mean() for group in groups])
    mean = (sizes * means).sum() / count
    between = (sizes * (means - mean) ** 2).sum() / (a - 1)
    error = float(np.sqrt(between / count))
    if count == a:
        return float("nan"), float("nan"), error, float(a - 1)
    within = sum(((g - g.mean()) ** 2).sum() for g in groups) / (count - a)
    typical = (count - (sizes**2).sum() / count) / (a - 1)
    order_sd = float(np.sqrt(max(between - within, 0.0) / typical))
    return order_sd, float(np.sqrt(within)), error, float(a - 1)


def _t_quantile(level: float, freedom: float) -> float:
    from scipy.special import stdtrit  # imported here: it takes a third of a second

    return float(stdtrit(max(freedom, 1.0), (1 + level) / 2))
