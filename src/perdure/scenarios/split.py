"""Tasks by class: a dataset's classes dealt out in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .._random_streams import random_stream
from ..data import Dataset, load
from ..record import InputError
from .scenario import Scenario, Setting, TaskRows, build_scenario, normalised, provenance

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["class_order", "split"]


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
        dataset: its name, or a dataset that is loaded.
        tasks: how many; the classes must go into them evenly.
        order: of the classes: as they are numbered, or as listed, or shuffled by a seed.
        setting: what is incremental.
        name: for the record.

    Example:
        >>> scenario = split("digits", 5)
        >>> [task.name for task in scenario.tasks][:2], scenario.outputs
        (['0-1', '2-3'], 10)
        >>> split("digits", 5, setting="domain").outputs
        2
    """
    found = load(dataset) if isinstance(dataset, str) else dataset
    count = len(found.classes)
    if not 1 <= tasks <= count or count % tasks:
        fits = [k for k in range(1, count + 1) if count % k == 0]
        raise InputError(
            f"{found.name} has {count} classes and tasks is {tasks}, expected one of {fits}"
        )
    each = count // tasks
    listed = class_order(order, count)
    parts = []
    for start in range(0, count, each):
        mine = listed[start : start + each]
        local = np.full(count, -1, dtype=np.int64)
        local[mine] = np.arange(each)
        rows = [np.flatnonzero(local[part.y] >= 0) for part in (found.train, found.test)]
        parts.append(
            TaskRows(
                _named([found.classes[k] for k in mine], mine),
                rows[0],
                rows[1],
                local[found.train.y[rows[0]]],
                local[found.test.y[rows[1]]],
                each,
            )
        )
    return build_scenario(
        name or f"split-{found.name}",
        parts,
        (found.train.x, found.test.x),
        setting,
        **normalised(found),
        data=provenance(found),
        deviations=found.notes,
    )


def class_order(order: Sequence[int] | int | None, count: int) -> list[int]:
    """Return the classes in the order in which they are learned.

    Example:
        >>> class_order(None, 3), class_order([2, 0, 1], 3), sorted(class_order(7, 3))
        ([0, 1, 2], [2, 0, 1], [0, 1, 2])
    """
    if order is None:
        return list(range(count))
    if isinstance(order, int):
        return [int(k) for k in random_stream("class_order", order).permutation(count)]
    if sorted(order) != list(range(count)):
        raise InputError(f"order is {list(order)}, expected each class from 0 to {count - 1} once")
    return [int(k) for k in order]


def _named(names: list[str], numbers: Sequence[int]) -> str:
    """Return a task's name: `4-5` for digits that follow each other, else the classes."""
    if list(names) == [str(k) for k in numbers] and list(numbers) == list(
        range(numbers[0], numbers[0] + len(numbers))
    ):
        return f"{numbers[0]}-{numbers[-1]}" if len(numbers) > 1 else str(numbers[0])
    if len(names) > 3:
        return f"{names[0]} … {names[-1]}"
    return ", ".join(names)
