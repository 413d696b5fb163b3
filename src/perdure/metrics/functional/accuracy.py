"""Seven averages that the literature calls accuracy.

`matrix[i][j]` is the score on task j after learning task i; higher is better.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .checks import counts, read, read_diagonal, read_final, row_blocks, square
from .value import UndefinedMetricError, Value, average

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = [
    "aa_curve",
    "acc",
    "acc_all",
    "acc_below",
    "acc_incremental",
    "acc_learning",
    "acc_lower",
    "acc_pooled",
    "fixed_curve",
]


def acc(matrix: ArrayLike) -> Value:
    r"""Return the mean score over all tasks after the last one: $\frac1T \sum_j R_{T,j}$.

    Example:
        >>> round(acc([[0.9, 0.1], [0.6, 0.8]]), 6)
        0.7
    """
    return average(read_final(matrix))


def acc_pooled(matrix: ArrayLike, sizes: ArrayLike) -> Value:
    r"""Return `acc` with each task weighted by its number of test examples.

    Example:
        >>> round(acc_pooled([[0.9, 0.1], [0.6, 0.8]], sizes=[300, 100]), 6)
        0.65
    """
    final = read_final(matrix)
    n = counts(sizes, len(final), "test-set size")
    return average(final, weights=n)


def acc_lower(matrix: ArrayLike) -> Value:
    r"""Return the mean of $R_{i,j}$ over $i \ge j$: every task at every step from learning on.

    Example:
        >>> round(acc_lower([[0.9, 0.1], [0.6, 0.8]]), 6)
        0.766667
    """
    return average(read(matrix, "lower"))


def acc_below(matrix: ArrayLike) -> Value:
    r"""Return the mean of $R_{i,j}$ over $i > j$: older tasks only.

    Example:
        >>> acc_below([[0.9, 0.1], [0.6, 0.8]])
        0.6
    """
    return average(read(matrix, "below", min_tasks=2))


def acc_incremental(matrix: ArrayLike) -> Value:
    r"""Return the mean over steps k of $AA_k$, the mean score on the tasks seen so far.

    Its `per_task[k]` is $AA_k$, the value after task k.

    Example:
        >>> round(acc_incremental([[0.9, 0.1], [0.6, 0.8]]), 6)
        0.8
    """
    return average(aa_curve(read(matrix, "lower")))


def acc_learning(matrix: ArrayLike) -> Value:
    r"""Return the mean score on each task right after learning it: $\frac1T \sum_i R_{i,i}$.

    Example:
        >>> round(acc_learning([[0.9, 0.1], [0.6, 0.8]]), 6)
        0.85
    """
    return average(read_diagonal(matrix))


def acc_all(matrix: ArrayLike) -> Value:
    r"""Return the mean of the whole matrix, including tasks that are not yet learned.

    Example:
        >>> round(acc_all([[0.9, 0.1], [0.6, 0.8]]), 6)
        0.6
    """
    return average(read(matrix, "all"))


def fixed_curve(matrix: ArrayLike) -> NDArray[np.float64]:
    r"""Return the mean score over all T tasks, learned or not, after each task.

    NaN where a row was not measured completely.

    Example:
        >>> fixed_curve([[0.9, 0.1], [0.6, 0.8]])
        array([0.5, 0.7])
    """
    r = np.asarray(matrix, dtype=np.float64)
    curve: NDArray[np.float64] = r.mean(axis=1)
    if np.isnan(curve).all():
        raise UndefinedMetricError(
            "needs a row with scores on all tasks, including those not yet learned"
        )
    return curve


def aa_curve(matrix: ArrayLike) -> NDArray[np.float64]:
    r"""Return $AA_k$, the mean score on the tasks seen so far, after each task.

    NaN where one of them was not measured.

    Example:
        >>> aa_curve([[0.9, 0.1], [0.6, 0.8]])
        array([0.9, 0.7])
    """
    r = square(matrix)
    sums = [np.tril(r[rows], rows.start).sum(axis=1) for rows in row_blocks(len(r))]
    curve: NDArray[np.float64] = np.concatenate(sums) / np.arange(1, len(r) + 1)
    return curve
