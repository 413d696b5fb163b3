"""Scenarios changed: tasks in another order, blurred boundaries, a part held out for validation."""

from __future__ import annotations

from dataclasses import replace
from math import factorial
from typing import TYPE_CHECKING

import numpy as np

from .._random_streams import random_stream
from ..record import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from .scenario import Images, Scenario, Task

__all__ = [
    "blur_boundaries",
    "draw_task_orders",
    "hold_out_validation",
    "order_drifting_stream",
    "reorder_tasks",
]

MAX_ORDERS = 1000


def draw_task_orders(tasks: int, count: int) -> list[list[int] | None]:
    """Return different orders of the tasks, None for the scenario's own; more begin with the same.

    The k-th permutation of the random stream `task_order` does not depend on the seed of a run;
    one that was drawn before is skipped.

    Example:
        >>> draw_task_orders(5, 3)[:2] == draw_task_orders(5, 2)
        True
    """
    if not 1 <= count <= MAX_ORDERS:
        raise InputError(f"`orders=` is {count}, expected 1 to {MAX_ORDERS}")
    if tasks < 7 and count > factorial(tasks):
        raise InputError(
            f"`orders=` is {count}, and {tasks} tasks have {factorial(tasks)} different orders"
        )
    orders: list[list[int]] = []
    draw = 0
    while len(orders) < count:
        order = [int(k) for k in random_stream("task_order", draw).permutation(tasks)]
        draw += 1
        if order not in orders:
            orders.append(order)
    return [None if order == sorted(order) else order for order in orders]


def reorder_tasks(scenario: Scenario, order: Sequence[int]) -> Scenario:
    """Return a scenario with its tasks in another order; outputs are numbered in that order.

    Example:
        >>> from perdure.scenarios import make_scenario
        >>> changed = reorder_tasks(make_scenario("split-digits"), [4, 3, 2, 1, 0])
        >>> changed.tasks[0].name, changed.tasks[0].classes
        ('8-9', (0, 1))
    """
    count = len(scenario.tasks)
    if sorted(order) != list(range(count)):
        raise InputError(f"task_order is {list(order)}, expected each task from 0 to {count - 1}")
    outputs = np.arange(scenario.outputs)
    tasks, start = [], 0
    for number in order:
        task = scenario.tasks[number]
        if scenario.setting != "domain":  # where all tasks share their outputs
            outputs[list(task.classes)] = range(start, start + len(task.classes))
            start += len(task.classes)
            task = task._replace(classes=tuple(outputs[list(task.classes)].tolist()))
        tasks.append(task)
    places = np.empty(count, dtype=np.int64)
    places[list(order)] = range(count)

    def renumber(images: Images) -> Images:
        y = np.where(images.y < 0, images.y, outputs[images.y])
        task = np.where(images.task < 0, images.task, places[images.task])
        return images._replace(y=y, task=task)

    names = dict(zip(outputs.tolist(), scenario.class_names, strict=False))
    per_task = len(scenario.mean) > 1
    return replace(
        scenario,
        tasks=tuple(tasks),
        train=renumber(scenario.train),
        test=renumber(scenario.test),
        mean=tuple(scenario.mean[k] for k in order) if per_task else scenario.mean,
        std=tuple(scenario.std[k] for k in order) if per_task else scenario.std,
        class_names=tuple(names[k] for k in sorted(names)),
    )


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
