"""Several datasets resized to the same shape: one per task, or merged into one."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..data import Dataset, Split, load
from ..record import InputError
from .scenario import Scenario, Setting, TaskRows, build_scenario, get_normalization

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["DatasetTask", "chain_datasets", "merge_datasets"]


class DatasetTask(NamedTuple):
    """A dataset as a task of a sequence.

    Only the first `classes` classes are used (None for all); `mean` and `std` normalize all
    channels (None for the published values).
    """

    dataset: str | Dataset
    classes: int | None = None
    mean: float | None = None
    std: float | None = None


def chain_datasets(
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
        members: datasets, by name, loaded, or as a `DatasetTask`.
        size: height and width to which all images are resized (bilinear, antialiased).
        channels: the number of channels; grey images are repeated.
        max_per_class: use only the first N training and test images per class; None for all.
        setting: what is incremental.
        name: the name in the run's record.

    Example:
        >>> scenario = chain_datasets(["digits", "digits"], size=(4, 4), max_per_class=5)
        >>> scenario.outputs, scenario.train.x.shape
        (20, (100, 3, 4, 4))
    """
    if not members:
        raise InputError("chain_datasets: no datasets, expected one per task")
    parts: list[TaskRows] = []
    means, stds, datasets, deviations = [], [], [], list[str]()
    images: tuple[list[NDArray[np.uint8]], list[NDArray[np.uint8]]] = ([], [])
    offsets = [0, 0]
    for entry in members:
        member = entry if isinstance(entry, DatasetTask) else DatasetTask(entry)
        data = load(member.dataset) if isinstance(member.dataset, str) else member.dataset
        datasets.append(data)
        count = min(member.classes or len(data.classes), len(data.classes))
        rows: list[NDArray[np.int64]] = []
        labels = []
        for k, split in enumerate((data.train, data.test)):
            chosen = _first_per_class(split.y, count, max_per_class)
            images[k].append(_resize_images(split, chosen, size, channels, data.name))
            rows.append(np.arange(offsets[k], offsets[k] + len(chosen)))
            labels.append(split.y[chosen])
            offsets[k] += len(chosen)
        repeated = sum(part.name.split(" (")[0] == data.name for part in parts)
        title = f"{data.name} ({repeated + 1})" if repeated else data.name
        parts.append(TaskRows(title, rows[0], rows[1], labels[0], labels[1], data.classes[:count]))
        mean, std = get_normalization(data)
        means.append(_per_channel(member.mean, mean[0], channels))
        stds.append(_per_channel(member.std, std[0], channels))
        deviations += [*data.notes, *_note_shortage(data.name, labels, count, max_per_class)]
    return build_scenario(
        name or "sequence",
        parts,
        (np.concatenate(images[0]), np.concatenate(images[1])),
        setting,
        datasets,
        normalization=(tuple(means), tuple(stds)),
        deviations=deviations,
    )


def merge_datasets(
    datasets: Sequence[Dataset],
    *,
    size: tuple[int, int] = (32, 32),
    channels: int = 3,
    max_per_class: int | None = None,
    name: str,
) -> Dataset:
    """Return one dataset with the classes of all of them.

    A class name that occurs more than once is preceded by the name of its dataset. Images are
    resized as in `chain_datasets`, and normalized with mean .5 and SD .5.

    Args:
        datasets: the datasets, in the order of their classes.
        size: height and width to which all images are resized.
        channels: the number of channels; grey images are repeated.
        max_per_class: use only the first N training and test images per class; None for all.
        name: the name of the merged dataset.

    Example:
        >>> digits = load("digits")
        >>> both = merge_datasets([digits, digits], size=(4, 4), max_per_class=5, name="twice")
        >>> len(both.classes), both.train.x.shape, both.classes[13]
        (20, (100, 3, 4, 4), 'digits 3')
    """
    notes: list[str] = []
    splits: tuple[list[Split], list[Split]] = ([], [])
    first = 0
    for data in datasets:
        count = len(data.classes)
        labels = []
        for split, merged in zip((data.train, data.test), splits, strict=True):
            rows = _first_per_class(split.y, count, max_per_class)
            images = _resize_images(split, rows, size, channels, data.name)
            merged.append(Split(images, split.y[rows] + first))
            labels.append(split.y[rows])
        notes += [*data.notes, *_note_shortage(data.name, labels, count, max_per_class)]
        first += count
    train, test = (Split(*map(np.concatenate, zip(*parts, strict=True))) for parts in splits)
    half = (0.5,) * channels
    return Dataset(
        name=name,
        train=train,
        test=test,
        classes=_tell_apart(datasets),
        notes=tuple(notes),
        normalization=(half, half),
    )


def _tell_apart(datasets: Sequence[Dataset]) -> tuple[str, ...]:
    """Return the class names of all datasets; with the dataset where a name is not unique."""
    counts = Counter(label for data in datasets for label in data.classes)
    return tuple(
        label if counts[label] == 1 else f"{data.name} {label}"
        for data in datasets
        for label in data.classes
    )


def _first_per_class(
    labels: NDArray[np.int64], classes: int, max_per_class: int | None
) -> NDArray[np.int64]:
    """Return the rows of the first images of each class, in the order of the dataset."""
    rows = [np.flatnonzero(labels == label)[:max_per_class] for label in range(classes)]
    return np.sort(np.concatenate([np.empty(0, dtype=np.int64), *rows]))


def _resize_images(
    split: Split, rows: NDArray[np.int64], size: tuple[int, int], channels: int, name: str
) -> NDArray[np.uint8]:
    x = split.x[rows]
    if x.shape[2:] != tuple(size):
        import torch  # imported here because listing scenarios does not need it
        from torch.nn.functional import interpolate

        batches = np.array_split(x, max(1, len(x) // 1000))
        resized = (
            interpolate(torch.tensor(batch), size=size, mode="bilinear", antialias=True)
            for batch in batches
        )
        x = np.concatenate([batch.numpy() for batch in resized])
    if x.shape[1] == channels:
        return x
    if x.shape[1] != 1:
        raise InputError(f"{name} has {x.shape[1]} channels, expected 1 or {channels}")
    return np.repeat(x, channels, axis=1)


def _per_channel(
    value: float | None, published: tuple[float, ...], channels: int
) -> tuple[float, ...]:
    """Return one number per channel: the given one, or the published ones."""
    if value is not None:
        return (value,) * channels
    return published if len(published) == channels else (published[0],) * channels


def _note_shortage(
    name: str, labels: Sequence[NDArray[np.int64]], classes: int, max_per_class: int | None
) -> list[str]:
    """Return notes about splits that have fewer than `max_per_class` images of some class."""
    notes = []
    for kind, split_labels in zip(("training", "test"), labels, strict=True):
        fewest = int(np.bincount(split_labels, minlength=classes).min())
        if max_per_class is not None and fewest < max_per_class:
            notes.append(
                f"{name}: only {fewest} {kind} images per class, up to {max_per_class} were asked"
            )
    return notes
