"""Tasks by dataset: one dataset after another, brought to one size."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..data import Dataset, Split, load
from ..record import InputError
from .scenario import Scenario, Setting, TaskRows, build_scenario, limited, normalised, provenance

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["DatasetTask", "resized", "sequence"]


class DatasetTask(NamedTuple):
    """A dataset as a task of a sequence.

    `classes` takes the first so many, `mean` and `std` normalise (one number for all channels).
    """

    dataset: str | Dataset
    classes: int | None = None
    mean: float | None = None
    std: float | None = None


def sequence(
    members: Sequence[str | Dataset | DatasetTask],
    *,
    size: tuple[int, int] = (64, 64),
    channels: int = 3,
    max_per_class: int | None = None,
    setting: Setting = "class",
    name: str | None = None,
) -> Scenario:
    """Return a scenario whose tasks are datasets.

    Args:
        members: datasets by name, loaded, or as a `DatasetTask`.
        size: height and width that all images get (bilinear, antialiased).
        channels: that all images get; grey is repeated.
        max_per_class: images a class, the first ones, in training and in testing; None for all.
        setting: what is incremental.
        name: for the record.

    Example:
        >>> scenario = sequence(["digits", "digits"], size=(4, 4), max_per_class=5)
        >>> scenario.outputs, scenario.train.x.shape
        (20, (100, 3, 4, 4))
    """
    if not members:
        raise InputError("sequence: no datasets, expected one a task")
    asked = [each if isinstance(each, DatasetTask) else DatasetTask(each) for each in members]
    found = [
        load(each.dataset) if isinstance(each.dataset, str) else each.dataset for each in asked
    ]
    parts: list[TaskRows] = []
    means, stds = [], []
    deviations: list[str] = []
    images: tuple[list[NDArray[np.uint8]], list[NDArray[np.uint8]]] = ([], [])
    taken = [0, 0]
    for member, data in zip(asked, found, strict=True):
        count = min(member.classes or len(data.classes), len(data.classes))
        rows: list[NDArray[np.int64]] = []
        labels = []
        for k, split in enumerate((data.train, data.test)):
            chosen = limited(split, range(count), max_per_class)
            images[k].append(_shown(split, chosen, size, channels, data.name))
            rows.append(np.arange(taken[k], taken[k] + len(chosen)))
            labels.append(split.y[chosen])
            taken[k] += len(chosen)
        again = sum(part.name.split(" (")[0] == data.name for part in parts)
        title = f"{data.name} ({again + 1})" if again else data.name
        parts.append(TaskRows(title, rows[0], rows[1], labels[0], labels[1], count))
        usual = normalised(data)
        means.append(_each(member.mean, usual["mean"][0], channels))
        stds.append(_each(member.std, usual["std"][0], channels))
        deviations += [*data.notes, *_short_of(data.name, labels, count, max_per_class)]
    return build_scenario(
        name or "sequence",
        parts,
        (np.concatenate(images[0]), np.concatenate(images[1])),
        setting,
        mean=tuple(means),
        std=tuple(stds),
        data=provenance(*found),
        deviations=tuple(dict.fromkeys(deviations)),
    )


def resized(x: NDArray[np.uint8], size: tuple[int, int]) -> NDArray[np.uint8]:
    """Return images of another size, bilinear and antialiased.

    Example:
        >>> resized(np.full((1, 1, 4, 4), 7, dtype=np.uint8), (2, 2)).tolist()
        [[[[7, 7], [7, 7]]]]
    """
    if x.shape[2:] == tuple(size):
        return x
    import torch  # here only: listing scenarios needs none of it
    from torch.nn.functional import interpolate

    parts = [
        interpolate(torch.tensor(part), size=size, mode="bilinear", antialias=True).numpy()
        for part in np.array_split(x, max(1, len(x) // 1000))
    ]
    return np.concatenate(parts)


def _shown(
    split: Split, rows: NDArray[np.int64], size: tuple[int, int], channels: int, name: str
) -> NDArray[np.uint8]:
    x = resized(split.x[rows], size)
    if x.shape[1] == channels:
        return x
    if x.shape[1] != 1:
        raise InputError(f"{name} has {x.shape[1]} channels, expected 1 or {channels}")
    return np.repeat(x, channels, axis=1)


def _each(given: float | None, usual: tuple[float, ...], channels: int) -> tuple[float, ...]:
    """Return one number a channel."""
    if given is not None:
        return (given,) * channels
    return usual if len(usual) == channels else (usual[0],) * channels


def _short_of(
    name: str, labels: Sequence[NDArray[np.int64]], count: int, max_per_class: int | None
) -> list[str]:
    """Return what there is less of than `max_per_class` images a class."""
    if max_per_class is None:
        return []
    said = []
    for which, mine in zip(("training", "test"), labels, strict=True):
        fewest = int(np.bincount(mine, minlength=count).min())
        if fewest < max_per_class:
            said.append(
                f"{name}: {fewest} {which} images a class, where up to {max_per_class} are taken"
            )
    return said
