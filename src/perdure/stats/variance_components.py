"""How much of the variance of a metric is due to the task order and how much to the seed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import ArrayLike, NDArray

__all__ = ["VarianceComponents", "variance_components"]


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
    from scipy.special import stdtrit  # imported here: reading a matrix does not need it

    return float(stdtrit(max(freedom, 1.0), (1 + level) / 2))
