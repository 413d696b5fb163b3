"""Several seeds of one method: mean, spread, and an interval for the mean."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import numpy as np

from .functional._value import UndefinedMetricError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["IntervalMethod", "MeanOverSeeds", "bca_interval", "over_seeds", "t_interval"]

IntervalMethod = Literal["t", "bca"]


class MeanOverSeeds(NamedTuple):
    """Mean, sample standard deviation (NaN for one seed) and an interval for the mean."""

    mean: float
    sd: float
    low: float
    high: float
    seeds: int


def over_seeds(
    values: ArrayLike, *, method: IntervalMethod = "t", level: float = 0.95
) -> MeanOverSeeds:
    """Return mean, sample SD and interval of one metric over the seeds of a method.

    Example:
        >>> over_seeds([0.5, 0.75, 1.0])._asdict()["sd"]
        0.25
    """
    x = _seeds(values)
    if method not in get_args(IntervalMethod):
        raise ValueError(f"interval method is {method!r}, expected t or bca")
    if len(x) < 2:
        nan = float("nan")
        return MeanOverSeeds(float(x.mean()), nan, nan, nan, len(x))
    low, high = (t_interval if method == "t" else bca_interval)(x, level=level)
    return MeanOverSeeds(float(x.mean()), float(x.std(ddof=1)), low, high, len(x))


def t_interval(values: ArrayLike, *, level: float = 0.95) -> tuple[float, float]:
    """Return Student's interval for the mean: right when seeds vary normally.

    Example:
        >>> [round(end, 4) for end in t_interval([0.5, 0.75, 1.0])]
        [0.129, 1.371]
    """
    x = _seeds(values, least=2)
    from scipy.special import stdtrit  # imported here: a third of a second

    t = float(stdtrit(len(x) - 1, (1 + _level(level)) / 2))
    half = t * float(x.std(ddof=1)) / len(x) ** 0.5
    return float(x.mean()) - half, float(x.mean()) + half


def bca_interval(
    values: ArrayLike, *, level: float = 0.95, resamples: int = 9999, seed: int = 0
) -> tuple[float, float]:
    """Return the bias-corrected and accelerated bootstrap interval for the mean (Efron, 1987).

    It assumes no shape, but with fewer than about ten seeds it is too narrow; never wider than
    the values themselves. The same seed gives the same interval.

    Example:
        >>> low, high = bca_interval([0.5, 0.75, 1.0, 0.75])
        >>> 0.5 <= low < 0.75 < high <= 1.0
        True
    """
    x = _seeds(values, least=2)
    if np.ptp(x) == 0:
        return float(x[0]), float(x[0])
    rng = np.random.default_rng(seed)
    means = np.sort(x[rng.integers(len(x), size=(resamples, len(x)))].mean(axis=1))
    from statistics import NormalDist  # imported here: it brings decimal and random

    normal = NormalDist()
    below = ((means < x.mean()).sum() + (means <= x.mean()).sum()) / (2 * resamples)
    bias = normal.inv_cdf(min(max(below, 0.5 / resamples), 1 - 0.5 / resamples))
    pull = x - x.mean()  # what leaving a seed out takes off the mean, up to a factor
    acceleration = float((pull**3).sum() / (6 * (pull**2).sum() ** 1.5))
    ends = []
    for share in ((1 - _level(level)) / 2, (1 + level) / 2):
        z = bias + normal.inv_cdf(share)
        ends.append(normal.cdf(bias + z / (1 - acceleration * z)))
    low, high = np.quantile(means, ends)
    return float(low), float(high)


def _seeds(values: ArrayLike, *, least: int = 1) -> NDArray[np.float64]:
    x = np.array(values, dtype=np.float64)
    if x.ndim != 1 or not np.isfinite(x).all():
        raise ValueError(f"values over seeds must be finite numbers, got {x.tolist()}")
    if len(x) < least:
        raise UndefinedMetricError(f"needs at least {least} seeds, got {len(x)}")
    return x


def _level(level: float) -> float:
    if not 0 < level < 1:
        raise ValueError(f"confidence level must lie between 0 and 1, got {level}")
    return level
