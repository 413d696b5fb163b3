"""Validation: a scenario evaluated on a part of its training data, to select hyperparameters."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from .._random_streams import random_stream
from ..record import InputError

if TYPE_CHECKING:
    from .scenario import Scenario, Task

__all__ = ["hold_out_validation"]


def hold_out_validation(scenario: Scenario, fraction: float, seed: int) -> Scenario:
    """Return the scenario with its test set replaced by a fraction of the training data.

    Args:
        scenario: the scenario whose training data are divided.
        fraction: the fraction of a task's examples of each class that is held out, at least one.
        seed: the seed of the selection.

    Example:
        >>> from perdure.scenarios import make_scenario
        >>> whole = make_scenario("split-digits")
        >>> part = hold_out_validation(whole, 0.1, seed=0)
        >>> len(whole.tasks[0].train), len(part.tasks[0].train), len(part.tasks[0].test)
        (289, 260, 29)
    """
    tasks = []
    for task in scenario.tasks:
        # Every task draws alike: if tasks show the same images, rotated for example, an image that
        # is held out of one task must be held out of all, or it would be trained on after all.
        held_out = _select(scenario, task, fraction, random_stream("validation_split", seed))
        tasks.append(task._replace(train=task.train[~held_out], test=task.train[held_out]))
    note = f"evaluated on {fraction:.3g} of the training data, not on the test set"
    return replace(
        scenario,
        tasks=tuple(tasks),
        test=scenario.train,
        deviations=(note, *scenario.deviations),
    )


def _select(
    scenario: Scenario, task: Task, fraction: float, rng: np.random.Generator
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return which of a task's training examples are held out."""
    labels = scenario.train.y[task.train]
    held_out = np.zeros(len(labels), dtype=bool)
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        if len(members) < 2:
            raise InputError(
                f"task {task.name!r} has one example of class {label}, but holding out a part "
                "needs at least two; leave out `validation_split=`"
            )
        count = min(max(1, round(fraction * len(members))), len(members) - 1)
        held_out[rng.choice(members, count, replace=False)] = True
    return held_out
