"""The order of the tasks: drawn at random, and applied to any scenario."""

from __future__ import annotations

from dataclasses import replace
from math import factorial
from typing import TYPE_CHECKING

import numpy as np

from .._random_streams import random_stream
from ..record import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .scenario import Images, Scenario

__all__ = ["draw_task_orders", "reorder_tasks"]

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
