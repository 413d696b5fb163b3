"""Streams whose tasks overlap, or that have no task boundaries at all."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from .._random_streams import random_stream
from ..record import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .scenario import Scenario

__all__ = ["blur_boundaries", "order_drifting_stream"]


def blur_boundaries(scenario: Scenario, blur: float, seed: int = 0) -> Scenario:
    """Return the scenario with a fraction of every task's training examples exchanged.

    The exchanged examples are distributed at random over all tasks. The number of examples per
    task and the test sets stay the same.

    Args:
        scenario: the scenario to change.
        blur: the fraction of each task's examples to exchange.
        seed: the seed of the exchange.

    Example:
        >>> from perdure.scenarios import split
        >>> sharp = split("digits", 5)
        >>> blurred = blur_boundaries(sharp, 0.3)
        >>> own = np.isin(blurred.tasks[0].train, sharp.tasks[0].train).mean()
        >>> len(blurred.tasks[0].train) == len(sharp.tasks[0].train), bool(0.7 <= own < 0.85)
        (True, True)
    """
    _check(blur)
    rng = random_stream("blur", seed)
    rows = [task.train.copy() for task in scenario.tasks]
    positions = [rng.choice(len(mine), round(blur * len(mine)), replace=False) for mine in rows]
    pool = rng.permutation(np.concatenate([r[at] for r, at in zip(rows, positions, strict=True)]))
    start = 0
    for mine, at in zip(rows, positions, strict=True):
        mine[at] = pool[start : start + len(at)]
        start += len(at)
    tasks = [task._replace(train=mine) for task, mine in zip(scenario.tasks, rows, strict=True)]
    return replace(scenario, tasks=tuple(tasks))


def order_drifting_stream(
    scenario: Scenario, blur: float, *, passes: int, seed: int = 0
) -> NDArray[np.int64]:
    """Return the rows of all tasks in an order that drifts from task to task.

    An example of task k is placed uniformly between k and k + 1, shifted by a normal deviate with a
    standard deviation of `blur` tasks. With 0 the tasks follow each other without overlap, but
    without announced boundaries.

    Args:
        scenario: the scenario whose tasks are merged.
        blur: how far tasks overlap, in lengths of a task.
        passes: how often each example occurs.
        seed: the seed of the order.

    Example:
        >>> from perdure.scenarios import split
        >>> order = order_drifting_stream(split("digits", 5), 0.1, passes=2)
        >>> len(order), len(np.unique(order))
        (2884, 1442)
    """
    _check(blur)
    rng = random_stream("drift", seed)
    rows = np.concatenate([np.tile(task.train, passes) for task in scenario.tasks])
    task = np.repeat(
        np.arange(len(scenario.tasks)), [passes * len(task.train) for task in scenario.tasks]
    )
    position = task + rng.random(len(rows)) + blur * rng.standard_normal(len(rows))
    return rows[np.argsort(position, kind="stable")]


def _check(blur: float) -> None:
    if not 0 <= blur <= 1:
        raise InputError(f"blur is {blur:g}, expected a fraction from 0 to 1")
