"""Streams whose tasks run into each other, or that have no boundaries at all."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from .._random_streams import random_stream
from ..record import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .scenario import Scenario

__all__ = ["blurred", "drifting"]


def blurred(scenario: Scenario, share: float, seed: int = 0) -> Scenario:
    """Return the scenario with a share of every task's training examples dealt out to all tasks.

    Each task keeps its number of examples; tests stay as they are.

    Example:
        >>> from perdure.scenarios import split
        >>> sharp = split("digits", 5)
        >>> soft = blurred(sharp, 0.3)
        >>> own = np.isin(soft.tasks[0].train, sharp.tasks[0].train).mean()
        >>> len(soft.tasks[0].train) == len(sharp.tasks[0].train), bool(0.7 <= own < 0.85)
        (True, True)
    """
    _check(share)
    rng = random_stream("blur", seed)
    rows = [task.train.copy() for task in scenario.tasks]
    places = [rng.choice(len(mine), round(share * len(mine)), replace=False) for mine in rows]
    pool = rng.permutation(np.concatenate([r[at] for r, at in zip(rows, places, strict=True)]))
    start = 0
    for mine, at in zip(rows, places, strict=True):
        mine[at] = pool[start : start + len(at)]
        start += len(at)
    tasks = [task._replace(train=mine) for task, mine in zip(scenario.tasks, rows, strict=True)]
    return replace(scenario, tasks=tuple(tasks))


def drifting(scenario: Scenario, blur: float, *, passes: int, seed: int = 0) -> NDArray[np.int64]:
    """Return the rows of all tasks in one order that drifts from task to task.

    An example of task k comes at a place drawn from k to k + 1, moved by a normal deviate of
    `blur` tasks; with 0 the tasks follow each other sharply, but nobody is told where.

    Args:
        scenario: whose tasks are merged.
        blur: how far tasks reach into each other, in lengths of a task.
        passes: how often each example comes.
        seed: of the order.

    Example:
        >>> from perdure.scenarios import split
        >>> order = drifting(split("digits", 5), 0.1, passes=2)
        >>> len(order), len(np.unique(order))
        (2884, 1442)
    """
    _check(blur)
    rng = random_stream("drift", seed)
    rows = np.concatenate([np.tile(task.train, passes) for task in scenario.tasks])
    number = np.repeat(
        np.arange(len(scenario.tasks)), [passes * len(task.train) for task in scenario.tasks]
    )
    place = number + rng.random(len(rows)) + blur * rng.standard_normal(len(rows))
    return rows[np.argsort(place, kind="stable")]


def _check(blur: float) -> None:
    if not 0 <= blur <= 1:
        raise InputError(f"blur is {blur:g}, expected a share from 0 to 1")
