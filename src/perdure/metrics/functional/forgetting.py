"""Forgetting, intransigence, retention relative to joint training and retention of control tasks.

`matrix[i][j]` is the score on task j after learning task i; higher is better. Control tasks are
evaluated but never trained: `scores[k][c]` is the score on control task c after training on task k,
`initial[c]` the score before any training.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .accuracy import aa_curve
from .common import (
    UNTRAINED,
    UndefinedMetricError,
    Value,
    average,
    pad_tasks,
    read,
    read_diagonal,
    read_final,
    read_first,
    square,
    vector,
)

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = [
    "af_curve",
    "forgetting_any",
    "forgetting_best",
    "forgetting_learned",
    "forgetting_matrix",
    "forgetting_peak",
    "forgetting_ratio",
    "intransigence",
    "intransigence_single",
    "memory_stability",
    "omega_all",
    "omega_base",
    "omega_new",
    "omega_offline",
    "retention",
    "retention_relative",
    "retention_worst",
]


def forgetting_best(matrix: ArrayLike) -> Value:
    r"""Return the mean drop of older tasks from their best score before the end.

    $$\frac{1}{T-1} \sum_{j<T} \Big( \max_{j \le l < T} R_{l,j} - R_{T,j} \Big)$$

    Negative where older tasks end above all their earlier scores.

    Example:
        >>> round(forgetting_best([[0.9, 0.1], [0.6, 0.8]]), 6)
        0.3
    """
    r = read(matrix, "lower", min_tasks=2, old=True)
    return average(pad_tasks(np.nanmax(r[:-1, :-1], axis=0) - r[-1, :-1], len(r)))


def forgetting_learned(matrix: ArrayLike) -> Value:
    r"""Return the mean drop of older tasks since they were learned: minus `bwt`.

    Example:
        >>> round(forgetting_learned([[0.9, 0.1], [0.6, 0.8]]), 6)
        0.3
    """
    learned = read_diagonal(matrix, old=True, min_tasks=2)
    return average(pad_tasks(learned - read_final(matrix, old=True), len(learned) + 1))


def forgetting_peak(matrix: ArrayLike) -> Value:
    r"""Return `forgetting_best` with the final score among the candidates, so never negative.

    Example:
        >>> forgetting_peak([[0.6, 0.1], [0.9, 0.8]])
        0.0
    """
    r = read(matrix, "lower", min_tasks=2, old=True)
    return average(pad_tasks(np.nanmax(r[:, :-1], axis=0) - r[-1, :-1], len(r)))


def forgetting_any(matrix: ArrayLike) -> Value:
    r"""Return `forgetting_best` with the maximum over all steps before the last.

    Scores before a task was learned count too, as in the formula of RWalk taken literally.

    Example:
        >>> r = [[0.9, 0.7, 0.1], [0.6, 0.5, 0.1], [0.6, 0.5, 0.8]]
        >>> round(forgetting_any(r), 6), round(forgetting_best(r), 6)
        (0.25, 0.15)
    """
    r = read(matrix, "all", min_tasks=2, old=True)
    return average(pad_tasks(r[:-1, :-1].max(axis=0) - r[-1, :-1], len(r)))


def forgetting_ratio(matrix: ArrayLike, initial: ArrayLike, joint: ArrayLike) -> Value:
    r"""Return the forgetting ratio of Serrà et al.: 0 for joint training, -1 for no training.

    $$\frac1T \sum_j \left( \frac{R_{T,j} - b_j}{\mathrm{joint}_j - b_j} - 1 \right)$$

    Example:
        >>> round(forgetting_ratio([[0.9, 0.1], [0.5, 0.9]], [0.1, 0.1], [0.9, 0.9]), 6)
        -0.25
    """
    final = read_final(matrix)
    b = vector(initial, len(final), UNTRAINED)
    upper = vector(joint, len(final), "joint model's score")
    equal = np.flatnonzero(upper == b)
    if len(equal):
        raise UndefinedMetricError(
            f"divides by zero: joint and untrained scores of task {equal[0]} are equal"
        )
    return average((final - b) / (upper - b) - 1)


def forgetting_matrix(matrix: ArrayLike) -> NDArray[np.float64]:
    r"""Return $f_{k,j} = \max_{j \le l < k} R_{l,j} - R_{k,j}$ for $j < k$.

    NaN elsewhere, and where a score that it needs was not measured.

    Example:
        >>> forgetting_matrix([[0.5, 0.1], [0.25, 0.25]])
        array([[ nan,  nan],
               [0.25,  nan]])
    """
    r = square(matrix)
    below = np.tri(len(r), k=-1, dtype=bool)
    best = np.maximum.accumulate(np.where(np.tri(len(r), dtype=bool), r, -np.inf), axis=0)
    f = np.full_like(r, np.nan)
    f[1:] = best[:-1] - r[1:]
    return np.where(below, f, np.nan)


def af_curve(matrix: ArrayLike) -> NDArray[np.float64]:
    r"""Return `forgetting_best` over the tasks so far after each task, NaN after the first.

    Example:
        >>> af_curve([[0.5, 0.1], [0.25, 0.25]])
        array([ nan, 0.25])
    """
    f = forgetting_matrix(matrix)
    k = np.arange(len(f))
    return np.where(k > 0, np.tril(f, -1).sum(axis=1) / np.maximum(k, 1), np.nan)


def memory_stability(matrix: ArrayLike) -> Value:
    r"""Return the mean over older tasks of the population variance of $R_{j,j}, …, R_{T,j}$.

    Example:
        >>> round(memory_stability([[0.9, 0.1], [0.5, 0.8]]), 6)
        0.04
    """
    r = read(matrix, "lower", min_tasks=2, old=True)
    return average(pad_tasks(np.nanvar(r[:, :-1], axis=0), len(r)))


def intransigence(matrix: ArrayLike, joint: ArrayLike) -> Value:
    r"""Return the mean over $j \ge 2$ of $\mathrm{joint}_j - R_{j,j}$: the cost of learning later.

    Example:
        >>> round(intransigence([[0.9, 0.1], [0.6, 0.8]], joint=[0.9, 0.95]), 6)
        0.15
    """
    return _intransigence(matrix, joint, "joint model's score")


def intransigence_single(matrix: ArrayLike, single: ArrayLike) -> Value:
    r"""Return `intransigence` relative to models trained on one task alone.

    Example:
        >>> round(intransigence_single([[0.9, 0.1], [0.6, 0.8]], single=[0.9, 0.9]), 6)
        0.1
    """
    return _intransigence(matrix, single, "single-task model's score")


def omega_base(matrix: ArrayLike, joint: ArrayLike) -> Value:
    r"""Return the mean over $i \ge 2$ of $R_{i,1} / \mathrm{joint}_1$: the first task retained.

    Its `per_task[i]` is the value after task i.

    Example:
        >>> round(omega_base([[0.9, 0.1], [0.6, 0.8]], joint=[0.8, 0.9]), 6)
        0.75
    """
    retained = read_first(matrix)
    tasks = len(retained) + 1
    ideal = _check_positive(vector(joint, tasks, "joint model's score", until=1)[:1])
    return average(pad_tasks(retained / ideal, tasks, first=1))


def omega_new(matrix: ArrayLike) -> Value:
    r"""Return the mean over $i \ge 2$ of $R_{i,i}$: the score on new tasks.

    Example:
        >>> omega_new([[0.9, 0.1], [0.6, 0.8]])
        0.8
    """
    learned = read_diagonal(matrix, later=True, min_tasks=2)
    return average(pad_tasks(learned, len(learned) + 1, first=1))


def omega_all(matrix: ArrayLike, joint: ArrayLike) -> Value:
    r"""Return the mean over $i \ge 2$ of $AA_i$ over the joint model's mean on the same tasks.

    Its `per_task[i]` is the value after task i.

    Example:
        >>> round(omega_all([[0.9, 0.1], [0.6, 0.8]], joint=[0.8, 0.8]), 6)
        0.875
    """
    r = read(matrix, "lower", min_tasks=2, later=True)
    ideal = _check_positive(vector(joint, len(r), "joint model's score"))
    by_step = aa_curve(r) / (np.cumsum(ideal) / np.arange(1, len(r) + 1))
    return average(pad_tasks(by_step[1:], len(r), first=1))


def omega_offline(matrix: ArrayLike, offline: ArrayLike) -> Value:
    r"""Return the mean over $i$ of $AA_i / O_i$: relative to offline training after each task.

    $O_i$ is the mean score on tasks 1 to i of a model trained offline on these tasks, which is
    what the strategy `cumulative` trains. Its `per_task[i]` is the value after task i.

    Example:
        >>> round(omega_offline([[0.9, 0.1], [0.6, 0.8]], offline=[0.9, 0.8]), 6)
        0.9375
    """
    r = read(matrix, "lower")
    ideal = vector(offline, len(r), "offline model's score")
    return average(aa_curve(r) / _check_positive(ideal, "offline"))


def _intransigence(matrix: ArrayLike, reference: ArrayLike, name: str) -> Value:
    learned = read_diagonal(matrix, later=True, min_tasks=2)
    tasks = len(learned) + 1
    ideal = vector(reference, tasks, name, first=1)
    return average(pad_tasks(ideal[1:] - learned, tasks, first=1))


def _check_positive(scores: NDArray[np.float64], model: str = "joint") -> NDArray[np.float64]:
    if not (scores > 0).all():
        raise UndefinedMetricError(f"divides by the {model} model's scores, got {scores.tolist()}")
    return scores


def retention(scores: ArrayLike, initial: ArrayLike) -> Value:
    r"""Return the mean change of the control tasks from before training to the end.

    $$\frac1C \sum_c (F_c - b_c)$$

    Example:
        >>> round(retention([[0.7, 0.5], [0.6, 0.5]], initial=[0.8, 0.4]), 6)
        -0.05
    """
    return average(_change(scores, initial))


def retention_worst(scores: ArrayLike, initial: ArrayLike) -> Value:
    """Return the change of the control task that lost most, or gained least.

    Example:
        >>> round(retention_worst([[0.7, 0.5], [0.6, 0.5]], initial=[0.8, 0.4]), 6)
        -0.2
    """
    change = _change(scores, initial)
    return Value(float(change.min()), change)


def retention_relative(scores: ArrayLike, initial: ArrayLike) -> Value:
    r"""Return the mean over control tasks of final over initial score: 1 if nothing was lost.

    $$\frac1C \sum_c F_c / b_c$$

    Example:
        >>> retention_relative([[0.7, 0.5], [0.6, 0.5]], initial=[0.8, 0.4])
        1.0
    """
    final, before = _final_and_initial(scores, initial)
    if not before.all():
        task = int(np.flatnonzero(before == 0)[0])
        raise UndefinedMetricError(
            f"task {task} has an initial score of 0, by which no score can be divided", task=task
        )
    return average(final / before)


def _change(scores: ArrayLike, initial: ArrayLike) -> NDArray[np.float64]:
    final, before = _final_and_initial(scores, initial)
    return final - before


def _final_and_initial(
    scores: ArrayLike, initial: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return both scores of each control task, or raise if one was not measured."""
    table, before = np.asarray(scores, np.float64), np.asarray(initial, np.float64)
    if table.ndim != 2 or not table.size or before.shape != table.shape[1:]:
        raise ValueError(
            f"scores of control tasks have shape {table.shape}, initial scores {before.shape}; "
            "expected a row per task that was trained and a column per control task"
        )
    final = table[-1]
    for values, when in ((before, "before training"), (final, "at the end of training")):
        if np.isnan(values).any():
            task = int(np.flatnonzero(np.isnan(values))[0])
            raise UndefinedMetricError(f"task {task} was not evaluated {when}", task=task)
    return final, before
