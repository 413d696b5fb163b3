"""Student's t-test of paired differences, Welch's of two samples, and effect sizes."""

from __future__ import annotations

from math import exp, inf, lgamma, nan, sqrt
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["DifferenceTest", "effect_of_differences", "effect_of_samples", "paired_t", "welch_t"]

TINY = 1e-9  # of the largest value: a smaller spread is rounding


class DifferenceTest(NamedTuple):
    """An estimated difference, its confidence interval and the two-sided p-value of no difference.

    `remark` says what is special about the data, if anything.
    """

    difference: float
    low: float
    high: float
    p: float
    remark: str = ""


def paired_t(differences: ArrayLike, *, level: float = 0.95) -> DifferenceTest:
    """Return the paired t-test: it assumes roughly normal, independent differences.

    Differences that are all the same leave no spread to test against: the limit of t is infinite,
    p is 0 and the interval is a point. Where they are all 0, p is 1.

    Example:
        >>> round(paired_t([0.1, 0.2, 0.3]).p, 4)
        0.0742
        >>> same = paired_t([0.5, 0.5, 0.5])
        >>> same.low, same.high, same.p, same.remark
        (0.5, 0.5, 0.0, 'identical difference on all 3 seeds')
    """
    d = np.asarray(differences, dtype=np.float64)
    n, mean = len(d), float(np.mean(d))
    variance = _variance(d)
    if variance == 0:
        same = f"identical difference on all {n} seeds" if mean else ""
        return DifferenceTest(mean, mean, mean, 0.0 if mean else 1.0, same)
    return _student(mean, sqrt(variance / n), n - 1, level)


def welch_t(first: ArrayLike, second: ArrayLike, *, level: float = 0.95) -> DifferenceTest:
    """Return Welch's t-test: roughly normal, independent values; the spreads may differ.

    Example:
        >>> round(welch_t([0.6, 0.7, 0.8], [0.2, 0.3, 0.4]).p, 4)
        0.008
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    mean = _difference(a, b)
    parts = [_variance(a) / len(a), _variance(b) / len(b)]
    if not any(parts):
        same = "no spread between the seeds of either method" if mean else ""
        return DifferenceTest(mean, mean, mean, 0.0 if mean else 1.0, same)
    degrees = sum(parts) ** 2 / (parts[0] ** 2 / (len(a) - 1) + parts[1] ** 2 / (len(b) - 1))
    return _student(mean, sqrt(sum(parts)), degrees, level)


def effect_of_differences(differences: ArrayLike) -> float:
    """Return the mean difference in standard deviations of the differences, Hedges-corrected.

    Cohen's d_z times the small-sample correction of Hedges (1981), which we call g_z. NaN below
    three differences, infinite where all are the same and not 0.

    Example:
        >>> round(effect_of_differences([0.1, 0.2, 0.3]), 4)
        1.1284
    """
    d = np.asarray(differences, dtype=np.float64)
    return _effect(float(d.mean()), _variance(d) if len(d) > 1 else nan, len(d) - 1)


def effect_of_samples(first: ArrayLike, second: ArrayLike) -> float:
    """Return Hedges' g: the difference of means in pooled standard deviations, corrected.

    NaN below four values in all, infinite where neither sample has any spread.

    Example:
        >>> round(effect_of_samples([0.1, 0.2, 0.3], [0.3, 0.4, 0.5]), 4)
        -1.5958
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    degrees = len(a) + len(b) - 2
    if degrees < 2:
        return nan
    squares = sum((len(x) - 1) * _variance(x) for x in (a, b) if len(x) > 1)
    return _effect(_difference(a, b), squares / degrees, degrees)


def _student(mean: float, error: float, degrees: float, level: float) -> DifferenceTest:
    from scipy.special import stdtr, stdtrit  # imported here: a third of a second

    half = float(stdtrit(degrees, (1 + level) / 2)) * error
    p = 2 * float(stdtr(degrees, -abs(mean) / error))
    return DifferenceTest(mean, mean - half, mean + half, p)


def _effect(mean: float, variance: float, degrees: int) -> float:
    if degrees < 2:
        return nan  # the correction of a single degree of freedom is 0
    if variance == 0:
        return float(np.copysign(inf, mean)) if mean else 0.0
    corrected = exp(lgamma(degrees / 2) - lgamma((degrees - 1) / 2)) / sqrt(degrees / 2)
    return corrected * mean / sqrt(variance)


def _variance(x: NDArray[np.float64]) -> float:
    return 0.0 if np.ptp(x) <= TINY * np.abs(x).max() else float(x.var(ddof=1))


def _difference(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    difference = float(a.mean() - b.mean())
    return difference if abs(difference) > TINY * max(np.abs(a).max(), np.abs(b).max()) else 0.0
