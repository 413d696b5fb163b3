"""Scenarios by class: the classes of a dataset divided into tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .._random_streams import random_stream
from ..data import Dataset, load
from ..record import InputError
from .scenario import Scenario, Setting, TaskRows, build_scenario, get_normalization

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["name_task", "order_classes", "split"]


def split(
    dataset: str | Dataset,
    tasks: int,
    *,
    order: Sequence[int] | int | None = None,
    setting: Setting = "class",
    name: str | None = None,
) -> Scenario:
    """Return a scenario whose tasks are groups of classes.

    Args:
        dataset: the name of a dataset, or a loaded one.
        tasks: the number of tasks; it must divide the number of classes.
        order: the order of the classes: None for their numbers, a list, or a seed to shuffle by.
        setting: what is incremental.
        name: the name in the run's record.

    Example:
        >>> scenario = split("digits", 5)
        >>> [task.name for task in scenario.tasks][:2], scenario.outputs
        (['0-1', '2-3'], 10)
        >>> split("digits", 5, setting="domain").outputs
        2
    """
    data = load(dataset) if isinstance(dataset, str) else dataset
    count = len(data.classes)
    if not 1 <= tasks <= count or count % tasks:
        divisors = [k for k in range(1, count + 1) if count % k == 0]
        raise InputError(
            f"{data.name} has {count} classes and tasks is {tasks}, expected one of {divisors}"
        )
    classes_per_task = count // tasks
    classes = order_classes(order, count)
    parts = []
    for start in range(0, count, classes_per_task):
        chosen = classes[start : start + classes_per_task]
        local = np.full(count, -1, dtype=np.int64)
        local[chosen] = np.arange(classes_per_task)
        train, test = (np.flatnonzero(local[part.y] >= 0) for part in (data.train, data.test))
        labels = local[data.train.y[train]], local[data.test.y[test]]
        names = [data.classes[k] for k in chosen]
        parts.append(TaskRows(name_task(names, chosen), train, test, *labels, tuple(names)))
    return build_scenario(
        name or f"split-{data.name}",
        parts,
        (data.train.x, data.test.x),
        setting,
        normalization=get_normalization(data),
        datasets=[data],
        deviations=data.notes,
    )


def order_classes(order: Sequence[int] | int | None, count: int) -> list[int]:
    """Return the classes in the order in which they are learned.

    Example:
        >>> order_classes(None, 3), order_classes([2, 0, 1], 3), sorted(order_classes(7, 3))
        ([0, 1, 2], [2, 0, 1], [0, 1, 2])
    """
    if order is None:
        return list(range(count))
    if isinstance(order, int):
        return [int(k) for k in random_stream("class_order", order).permutation(count)]
    if sorted(order) != list(range(count)):
        raise InputError(f"order is {list(order)}, expected each class from 0 to {count - 1} once")
    return [int(k) for k in order]


def name_task(names: list[str], numbers: Sequence[int]) -> str:
    """Return the name of a task: `4-5` for consecutive numbers, else its class names."""
    consecutive = list(range(numbers[0], numbers[0] + len(numbers)))
    if list(numbers) == consecutive and names == [str(k) for k in numbers]:
        return f"{numbers[0]}-{numbers[-1]}" if len(numbers) > 1 else str(numbers[0])
    if len(names) > 3:
        return f"{names[0]} … {names[-1]}"
    return ", ".join(names)
