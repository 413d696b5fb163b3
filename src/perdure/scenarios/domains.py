"""Tasks by domain: the same classes, seen through another map of the pixels each time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .._random_streams import random_stream
from ..data import Dataset, load
from ..record import InputError
from .scenario import Scenario, Setting, TaskRows, build_scenario, normalised, provenance

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

__all__ = ["apply_pixel_map", "domains", "permutations", "rotations"]


def domains(
    dataset: str | Dataset,
    maps: Mapping[str, NDArray[np.int64]],
    *,
    setting: Setting = "domain",
    name: str | None = None,
) -> Scenario:
    """Return a scenario that shows a whole dataset once a task, each time through another map.

    Args:
        dataset: its name, or a dataset that is loaded.
        maps: for each task, which pixel each pixel is taken from, (H, W); -1 for black.
        setting: what is incremental.
        name: for the record.

    Example:
        >>> scenario = domains("digits", permutations((8, 8), 3))
        >>> len(scenario.tasks), scenario.outputs, len(scenario.train.x)
        (3, 10, 4326)
    """
    found = load(dataset) if isinstance(dataset, str) else dataset
    if not maps:
        raise InputError("domains: no maps, expected one a task")
    images, rows = [], []
    for part in (found.train, found.test):
        images.append(np.concatenate([apply_pixel_map(part.x, pixels) for pixels in maps.values()]))
        rows.append(np.arange(len(images[-1])).reshape(len(maps), -1))
    parts = [
        TaskRows(task, rows[0][k], rows[1][k], found.train.y, found.test.y, len(found.classes))
        for k, task in enumerate(maps)
    ]
    return build_scenario(
        name or f"domains-{found.name}",
        parts,
        (images[0], images[1]),
        setting,
        **normalised(found),
        data=provenance(found),
        deviations=found.notes,
    )


def apply_pixel_map(x: NDArray[np.uint8], pixels: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return images whose pixels are taken from where `pixels` says; -1 gives black.

    Example:
        >>> x = np.array([[[[1, 2], [3, 4]]]], dtype=np.uint8)
        >>> apply_pixel_map(x, np.array([[3, -1], [0, 0]]))[0, 0].tolist()
        [[4, 0], [1, 1]]
    """
    if pixels.shape != x.shape[2:]:
        raise InputError(f"a map has shape {pixels.shape}, expected {x.shape[2:]} as the images")
    flat = x.reshape(*x.shape[:2], -1)
    moved = flat[:, :, pixels.ravel()]
    moved[:, :, pixels.ravel() < 0] = 0
    return moved.reshape(x.shape)


def rotations(size: tuple[int, int], degrees: Sequence[float]) -> dict[str, NDArray[np.int64]]:
    """Return a map for each angle, counter-clockwise, each pixel from the nearest one.

    Example:
        >>> rotations((2, 2), [90])["90°"].tolist()
        [[1, 3], [0, 2]]
    """
    from PIL import Image

    numbers = np.arange(1, size[0] * size[1] + 1, dtype=np.int32).reshape(size)
    return {
        f"{angle:g}°": np.asarray(Image.fromarray(numbers).rotate(angle)).astype(np.int64) - 1
        for angle in degrees
    }


def permutations(size: tuple[int, int], tasks: int, seed: int = 0) -> dict[str, NDArray[np.int64]]:
    """Return a map for each task: the first as it is, the others random permutations.

    Example:
        >>> list(permutations((2, 2), 2)), permutations((2, 2), 2)["permutation 0"].tolist()
        (['permutation 0', 'permutation 1'], [[0, 1], [2, 3]])
    """
    count = size[0] * size[1]
    rng = random_stream("pixel_permutations", seed)
    maps = [np.arange(count), *(rng.permutation(count) for _ in range(tasks - 1))]
    return {f"permutation {k}": each.reshape(size) for k, each in enumerate(maps)}
