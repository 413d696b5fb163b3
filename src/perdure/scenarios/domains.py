"""Scenarios by domain: the same classes, with the pixels mapped differently in each task."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .._random_streams import random_stream
from ..data import Dataset, load
from ..record import InputError
from .scenario import Scenario, Setting, TaskRows, build_scenario, get_normalization

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

__all__ = ["apply_pixel_map", "make_permutations", "make_rotations", "map_domains"]


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
        normalization=get_normalization(data),
        datasets=[data],
        deviations=data.notes,
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
