"""Retention: what control tasks, which are evaluated but never trained, lose or gain.

`scores[k][c]` is the score on control task c after training on task k, `initial[c]` the score
before any training; higher is better.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .value import UndefinedMetricError, Value, average

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["retention", "retention_relative", "retention_worst"]


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
