"""Scenarios of one dataset: its classes divided into tasks, or its pixels mapped for each task."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .._random_streams import random_stream
from ..data import Dataset, load
from ..record import InputError
from .scenario import Scenario, Setting, TaskRows, build_scenario

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

__all__ = [
    "apply_pixel_map",
    "divide_classes",
    "make_permutations",
    "make_rotations",
    "map_domains",
    "order_classes",
    "split",
]


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
    parts = divide_classes(data, tasks, order)
    images = (data.train.x, data.test.x)
    return build_scenario(name or f"split-{data.name}", parts, images, setting, [data])


def divide_classes(data: Dataset, tasks: int, order: Sequence[int] | int | None) -> list[TaskRows]:
    """Return one task per group of classes; the first ones have one class more if need be."""
    count = len(data.classes)
    parts = []
    for group in np.array_split(np.array(order_classes(order, count)), tasks):
        chosen = group.tolist()
        local = np.full(count, -1, dtype=np.int64)
        local[chosen] = np.arange(len(chosen))
        train, test = (np.flatnonzero(local[part.y] >= 0) for part in (data.train, data.test))
        labels = local[data.train.y[train]], local[data.test.y[test]]
        names = [data.classes[k] for k in chosen]
        parts.append(TaskRows(_name_task(names, chosen), train, test, *labels, tuple(names)))
    return parts


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


def _name_task(names: list[str], numbers: Sequence[int]) -> str:
    """Return the name of a task: `4-5` for consecutive numbers, else its class names."""
    consecutive = list(range(numbers[0], numbers[0] + len(numbers)))
    if list(numbers) == consecutive and names == [str(k) for k in numbers]:
        return f"{numbers[0]}-{numbers[-1]}" if len(numbers) > 1 else str(numbers[0])
    if len(names) > 3:
        return f"{names[0]} … {names[-1]}"
    return ", ".join(names)


def map_domains(
    dataset: str | Dataset,
    maps: Mapping[str, NDArray[np.int64]],
    *,
    setting: Setting = "domain",
    name: str | None = None,
) -> Scenario:
    """Return a scenario whose tasks show a whole dataset, each with its pixels mapped differently.

    Args:
        dataset: the name of a dataset, or a loaded one.
        maps: per task the source of every pixel, as an array (H, W) of indices; -1 for black.
        setting: what is incremental.
        name: the name in the run's record.

    Example:
        >>> scenario = map_domains("digits", make_permutations((8, 8), 3))
        >>> len(scenario.tasks), scenario.outputs, len(scenario.train.x)
        (3, 10, 4326)
    """
    data = load(dataset) if isinstance(dataset, str) else dataset
    if not maps:
        raise InputError("map_domains: maps is empty, expected one per task")
    images, rows = [], []
    for part in (data.train, data.test):
        images.append(np.concatenate([apply_pixel_map(part.x, pixels) for pixels in maps.values()]))
        rows.append(np.arange(len(images[-1])).reshape(len(maps), -1))
    parts = [
        TaskRows(task, rows[0][k], rows[1][k], data.train.y, data.test.y, data.classes)
        for k, task in enumerate(maps)
    ]
    return build_scenario(
        name or f"domains-{data.name}",
        parts,
        (images[0], images[1]),
        setting,
        [data],
    )


def apply_pixel_map(x: NDArray[np.uint8], pixels: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return images whose pixels are taken from the indices in `pixels`; -1 gives black.

    Example:
        >>> x = np.array([[[[1, 2], [3, 4]]]], dtype=np.uint8)
        >>> apply_pixel_map(x, np.array([[3, -1], [0, 0]]))[0, 0].tolist()
        [[4, 0], [1, 1]]
    """
    if pixels.shape != x.shape[2:]:
        raise InputError(
            f"a pixel map has shape {pixels.shape}, expected {x.shape[2:]} like the images"
        )
    flat = x.reshape(*x.shape[:2], -1)
    moved = flat[:, :, pixels.ravel()]
    moved[:, :, pixels.ravel() < 0] = 0
    return moved.reshape(x.shape)


def make_rotations(size: tuple[int, int], degrees: Sequence[float]) -> dict[str, NDArray[np.int64]]:
    """Return a pixel map per angle, counter-clockwise, with nearest-neighbour interpolation.

    Example:
        >>> make_rotations((2, 2), [90])["90°"].tolist()
        [[1, 3], [0, 2]]
    """
    from PIL import Image

    numbers = np.arange(1, size[0] * size[1] + 1, dtype=np.int32).reshape(size)
    return {
        f"{angle:g}°": np.asarray(Image.fromarray(numbers).rotate(angle)).astype(np.int64) - 1
        for angle in degrees
    }


def make_permutations(
    size: tuple[int, int], tasks: int, seed: int = 0
) -> dict[str, NDArray[np.int64]]:
    """Return a pixel map per task: the identity for the first, random permutations for the others.

    Example:
        >>> maps = make_permutations((2, 2), 2)
        >>> list(maps), maps["permutation 0"].tolist()
        (['permutation 0', 'permutation 1'], [[0, 1], [2, 3]])
    """
    count = size[0] * size[1]
    rng = random_stream("pixel_permutations", seed)
    maps = [np.arange(count), *(rng.permutation(count) for _ in range(tasks - 1))]
    return {f"permutation {k}": pixels.reshape(size) for k, pixels in enumerate(maps)}
