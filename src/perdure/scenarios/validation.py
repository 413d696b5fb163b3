"""A scenario tested on a part of its training data, to choose hyperparameters by."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from .._random_streams import random_stream
from ..record import InputError

if TYPE_CHECKING:
    from .scenario import Scenario, Task

__all__ = ["validation"]


def validation(scenario: Scenario, share: float, seed: int) -> Scenario:
    """Return the scenario without its test set: a share of every class is tested on instead.

    Args:
        scenario: whose training data is divided.
        share: of each task's examples of a class that is held out, at least one.
        seed: of the choice.

    Example:
        >>> from perdure.scenarios import make
        >>> whole = make("split-digits")
        >>> part = validation(whole, 0.1, seed=0)
        >>> len(whole.tasks[0].train), len(part.tasks[0].train), len(part.tasks[0].test)
        (289, 260, 29)
    """
    tasks = []
    for task in scenario.tasks:
        # Drawn alike in each: where tasks show the same images, turned say, what is held out of one
        # is held out of all, or it would be learned after all.
        chosen = _chosen(scenario, task, share, random_stream("validation_split", seed))
        tasks.append(task._replace(train=task.train[~chosen], test=task.train[chosen]))
    said = f"tested on {share:.3g} of the training data, not on the test set"
    return replace(
        scenario,
        tasks=tuple(tasks),
        test=scenario.train,
        deviations=(said, *scenario.deviations),
    )


def _chosen(
    scenario: Scenario, task: Task, share: float, rng: np.random.Generator
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return which of a task's training examples are held out."""
    labels = scenario.train.y[task.train]
    chosen = np.zeros(len(labels), dtype=bool)
    for label in np.unique(labels):
        mine = np.flatnonzero(labels == label)
        if len(mine) < 2:
            raise InputError(
                f"task {task.name!r} has one example of class {label}, and holding some out needs "
                "two; leave validation_split out"
            )
        count = min(max(1, round(share * len(mine))), len(mine) - 1)
        chosen[rng.choice(mine, count, replace=False)] = True
    return chosen
