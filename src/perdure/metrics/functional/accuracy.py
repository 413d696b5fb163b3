"""Averages of the score matrix: seven that the literature calls accuracy, and transfer.

Backward and forward transfer are the effect of learning one task on the others. `matrix[i][j]` is
the score on task j after learning task i; higher is better.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .common import (
    UNTRAINED,
    UndefinedMetricError,
    Value,
    average,
    check_unit_range,
    counts,
    pad_tasks,
    read,
    read_diagonal,
    read_final,
    read_next,
    row_blocks,
    square,
    vector,
)

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
    "bwt",
    "bwt_all",
    "bwt_consecutive",
    "bwt_curve",
    "bwt_positive",
    "fixed_curve",
    "fwt_gem",
    "fwt_learned",
    "fwt_next",
    "fwt_upper",
    "rem",
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


def bwt(matrix: ArrayLike) -> Value:
    r"""Return the mean change of older tasks from learning to the end, as GEM defines it.

    $$\frac{1}{T-1} \sum_{j<T} (R_{T,j} - R_{j,j})$$

    Example:
        >>> round(bwt([[0.9, 0.1], [0.6, 0.8]]), 6)
        -0.3
    """
    learned = read_diagonal(matrix, old=True, min_tasks=2)
    return average(pad_tasks(read_final(matrix, old=True) - learned, len(learned) + 1))


def bwt_curve(matrix: ArrayLike) -> NDArray[np.float64]:
    r"""Return `bwt` over the tasks so far after each task, NaN after the first.

    Example:
        >>> bwt_curve([[0.5, 0.1], [0.25, 0.25]])
        array([  nan, -0.25])
    """
    r = square(matrix)
    k, learned = np.arange(len(r)), r.diagonal()
    total = [np.tril(r[rows] - learned, rows.start - 1).sum(axis=1) for rows in row_blocks(len(r))]
    return np.where(k > 0, np.concatenate(total) / np.maximum(k, 1), np.nan)


def bwt_all(matrix: ArrayLike) -> Value:
    r"""Return the mean over $i > j$ of $R_{i,j} - R_{j,j}$: the change after every later task.

    Example:
        >>> round(bwt_all([[0.9, 0.1], [0.6, 0.8]]), 6)
        -0.3
    """
    r = read(matrix, "lower", min_tasks=2, old=True)
    return average(_below(r - r.diagonal()))


def bwt_consecutive(matrix: ArrayLike) -> Value:
    r"""Return the mean over $i > j$ of $R_{i,j} - R_{i-1,j}$: the change between consecutive tasks.

    The sum telescopes, so it is exactly `2 * bwt / T`.

    Example:
        >>> round(bwt_consecutive([[0.9, 0.1], [0.6, 0.8]]), 6)
        -0.3
    """
    r = read(matrix, "lower", min_tasks=2, old=True)
    change = np.vstack([np.full(len(r), np.nan), np.diff(r, axis=0)])
    return average(_below(change))


def rem(matrix: ArrayLike) -> Value:
    r"""Return remembering, $1 - |\min(\mathrm{bwt.all}, 0)|$: 1 if nothing was lost.

    Example:
        >>> round(rem([[0.9, 0.1], [0.6, 0.8]]), 6)
        0.7
    """
    change = _checked_bwt_all(matrix)
    return Value(1 + min(change, 0.0), 1 + np.minimum(change.per_task, 0.0))


def bwt_positive(matrix: ArrayLike) -> Value:
    r"""Return the positive part of `bwt_all`: 0 if older tasks did not improve.

    Example:
        >>> round(bwt_positive([[0.6, 0.1], [0.9, 0.8]]), 6)
        0.3
    """
    change = _checked_bwt_all(matrix)
    return Value(max(change, 0.0), np.maximum(change.per_task, 0.0))


def fwt_upper(matrix: ArrayLike) -> Value:
    r"""Return the mean of $R_{i,j}$ over $i < j$: the score on tasks not yet learned.

    Example:
        >>> fwt_upper([[0.9, 0.1], [0.6, 0.8]])
        0.1
    """
    return average(read(matrix, "upper", min_tasks=2))


def fwt_next(matrix: ArrayLike) -> Value:
    r"""Return the mean score on each task just before learning it: mean of $R_{j-1,j}$.

    Example:
        >>> fwt_next([[0.9, 0.1], [0.6, 0.8]])
        0.1
    """
    unseen = read_next(matrix)
    return average(pad_tasks(unseen, len(unseen) + 1, first=1))


def fwt_gem(matrix: ArrayLike, initial: ArrayLike) -> Value:
    r"""Return the mean over $j \ge 2$ of $R_{j-1,j} - b_j$, b the untrained model's scores.

    Example:
        >>> round(fwt_gem([[0.9, 0.3], [0.6, 0.8]], initial=[0.1, 0.1]), 6)
        0.2
    """
    unseen = read_next(matrix)
    tasks = len(unseen) + 1
    b = vector(initial, tasks, UNTRAINED, first=1)
    return average(pad_tasks(unseen - b[1:], tasks, first=1))


def fwt_learned(matrix: ArrayLike, initial: ArrayLike) -> Value:
    r"""Return the mean over $j \ge 2$ of $R_{j,j} - b_j$: the gain over the untrained model.

    Example:
        >>> round(fwt_learned([[0.9, 0.3], [0.6, 0.8]], initial=[0.1, 0.1]), 6)
        0.7
    """
    learned = read_diagonal(matrix, later=True, min_tasks=2)
    tasks = len(learned) + 1
    b = vector(initial, tasks, UNTRAINED, first=1)
    return average(pad_tasks(learned - b[1:], tasks, first=1))


def _checked_bwt_all(matrix: ArrayLike) -> Value:
    check_unit_range(read(matrix, "lower", min_tasks=2, old=True))
    return bwt_all(matrix)


def _below(terms: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(np.tri(len(terms), k=-1, dtype=bool), terms, np.nan)
