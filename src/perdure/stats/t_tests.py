"""Student's t-test of paired differences, Welch's of two samples, and effect sizes."""

from __future__ import annotations

from math import exp, inf, lgamma, nan, sqrt
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["DifferenceTest", "effect_of_differences", "effect_of_samples", "paired_t", "welch_t"]

ROUNDING = 1e-9  # relative to the largest value: smaller differences are rounding errors


class DifferenceTest(NamedTuple):
    """An estimated difference, its confidence interval and the two-sided p-value of no difference.

    `remark` states what is special about the data, if anything.
    """

    difference: float
    low: float
    high: float
    p: float
    remark: str = ""


def paired_t(differences: ArrayLike, *, level: float = 0.95) -> DifferenceTest:
    """Return the paired t-test, which assumes independent and roughly normal differences.

    Where all differences are equal there is no variance to test against: p is 0 and the interval
    a point, or p is 1 if all differences are 0.

    Example:
        >>> round(paired_t([0.1, 0.2, 0.3]).p, 4)
        0.0742
        >>> equal = paired_t([0.5, 0.5, 0.5])
        >>> equal.low, equal.high, equal.p, equal.remark
        (0.5, 0.5, 0.0, 'identical difference on all 3 seeds')
    """
    d = np.asarray(differences, dtype=np.float64)
    n, mean = len(d), float(np.mean(d))
    variance = _variance(d)
    if variance == 0:
        remark = f"identical difference on all {n} seeds" if mean else ""
        return DifferenceTest(mean, mean, mean, 0.0 if mean else 1.0, remark)
    return _student_test(mean, sqrt(variance / n), n - 1, level)


def welch_t(first: ArrayLike, second: ArrayLike, *, level: float = 0.95) -> DifferenceTest:
    """Return Welch's t-test of two independent, roughly normal samples; variances may differ.

    Example:
        >>> round(welch_t([0.6, 0.7, 0.8], [0.2, 0.3, 0.4]).p, 4)
        0.008
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    mean = _mean_difference(a, b)
    variances = [_variance(a) / len(a), _variance(b) / len(b)]
    if not any(variances):
        remark = "no variance between the seeds of either method" if mean else ""
        return DifferenceTest(mean, mean, mean, 0.0 if mean else 1.0, remark)
    degrees = sum(variances) ** 2 / (
        variances[0] ** 2 / (len(a) - 1) + variances[1] ** 2 / (len(b) - 1)
    )
    return _student_test(mean, sqrt(sum(variances)), degrees, level)


def effect_of_differences(differences: ArrayLike) -> float:
    """Return the mean difference in standard deviations of the differences, Hedges-corrected.

    Cohen's d_z times the small-sample correction of Hedges (1981), called g_z here. NaN for fewer
    than three differences, infinite where all are equal and not 0.

    Example:
        >>> round(effect_of_differences([0.1, 0.2, 0.3]), 4)
        1.1284
    """
    d = np.asarray(differences, dtype=np.float64)
    return _effect(float(d.mean()), _variance(d) if len(d) > 1 else nan, len(d) - 1)


def effect_of_samples(first: ArrayLike, second: ArrayLike) -> float:
    """Return Hedges' g: the difference of means in pooled standard deviations, corrected.

    NaN for fewer than four values in total, infinite where neither sample has any variance.

    Example:
        >>> round(effect_of_samples([0.1, 0.2, 0.3], [0.3, 0.4, 0.5]), 4)
        -1.5958
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    degrees = len(a) + len(b) - 2
    if degrees < 2:
        return nan
    squares = sum((len(x) - 1) * _variance(x) for x in (a, b) if len(x) > 1)
    return _effect(_mean_difference(a, b), squares / degrees, degrees)


def _student_test(mean: float, error: float, degrees: float, level: float) -> DifferenceTest:
    from scipy.special import stdtr, stdtrit  # imported here: it takes a third of a second

    half = float(stdtrit(degrees, (1 + level) / 2)) * error
    p = 2 * float(stdtr(degrees, -abs(mean) / error))
    return DifferenceTest(mean, mean - half, mean + half, p)


def _effect(mean: float, variance: float, degrees: int) -> float:
    if degrees < 2:
        return nan  # the correction for a single degree of freedom is 0
    if variance == 0:
        return float(np.copysign(inf, mean)) if mean else 0.0
    correction = exp(lgamma(degrees / 2) - lgamma((degrees - 1) / 2)) / sqrt(degrees / 2)
    return correction * mean / sqrt(variance)


def _variance(x: NDArray[np.float64]) -> float:
    return 0.0 if np.ptp(x) <= ROUNDING * np.abs(x).max() else float(x.var(ddof=1))


def _mean_difference(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    difference = float(a.mean() - b.mean())
    return difference if abs(difference) > ROUNDING * max(np.abs(a).max(), np.abs(b).max()) else 0.0
