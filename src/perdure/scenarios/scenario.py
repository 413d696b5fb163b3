"""A scenario: an ordered stream of tasks over one array of examples."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from ..data import DATASETS
from ..record import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ..data import Dataset, Split

__all__ = [
    "SETTINGS",
    "Images",
    "Scenario",
    "Setting",
    "Task",
    "TaskRows",
    "build_scenario",
    "limited",
    "normalised",
    "provenance",
]

Setting = Literal["class", "task", "domain"]
SETTINGS: tuple[Setting, ...] = ("class", "task", "domain")


class Task(NamedTuple):
    """One task: its examples as rows of the scenario's images, and the outputs it uses."""

    name: str
    train: NDArray[np.int64]
    test: NDArray[np.int64]
    classes: tuple[int, ...]


class Images(NamedTuple):
    """All images of a split, with the output that is right and the task of each."""

    x: NDArray[np.uint8]
    y: NDArray[np.int64]
    task: NDArray[np.int64]


@dataclass(frozen=True)
class Scenario:
    """Tasks in the order in which they are learned, and everything a run has to know of them.

    Args:
        name: for the record.
        tasks: in order.
        train: images to learn from.
        test: images to test on.
        setting: what is incremental: `class` (one head, classes are added), `task` (a head a
            task), `domain` (one head, all tasks share their classes).
        outputs: of the network.
        mean: of x / 255 a channel, one for all tasks or one a task.
        std: likewise.
        data: which bytes were used: source, revision and hashes by dataset.
        deviations: where this is not what the name promises.
    """

    name: str
    tasks: tuple[Task, ...]
    train: Images
    test: Images
    setting: Setting
    outputs: int
    mean: tuple[tuple[float, ...], ...]
    std: tuple[tuple[float, ...], ...]
    data: dict[str, Any] = field(default_factory=dict)
    deviations: tuple[str, ...] = ()

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of an image."""
        _, channels, height, width = self.train.x.shape
        return channels, height, width

    @property
    def heads(self) -> list[int] | None:
        """How many classes each task's head has; None where there is one head for all."""
        return [len(task.classes) for task in self.tasks] if self.setting == "task" else None


class TaskRows(NamedTuple):
    """What one task is made of: rows of the images, and their labels counted from 0."""

    name: str
    train: NDArray[np.int64]
    test: NDArray[np.int64]
    train_labels: NDArray[np.int64]
    test_labels: NDArray[np.int64]
    classes: int


def build_scenario(
    name: str,
    parts: Sequence[TaskRows],
    images: tuple[NDArray[np.uint8], NDArray[np.uint8]],
    setting: Setting,
    **more: Any,
) -> Scenario:
    """Return the scenario of some parts: the setting decides which outputs their classes have."""
    if setting not in SETTINGS:
        raise InputError(f"setting is {setting!r}, expected class, task or domain")
    own = setting != "domain"
    counts = [part.classes for part in parts]
    first = np.cumsum([0, *counts]) if own else np.zeros(len(parts) + 1, dtype=np.int64)
    tasks = []
    labels = [np.full(len(x), -1, dtype=np.int64) for x in images]
    of_task = [np.full(len(x), -1, dtype=np.int64) for x in images]
    for number, part in enumerate(parts):
        start = int(first[number])
        tasks.append(
            Task(part.name, part.train, part.test, tuple(range(start, start + part.classes)))
        )
        for split, (rows, mine) in enumerate(
            ((part.train, part.train_labels), (part.test, part.test_labels))
        ):
            if not len(rows):
                which = ("training", "test")[split]
                raise InputError(f"{name}: task {part.name!r} has no {which} images, expected some")
            labels[split][rows] = mine + start
            of_task[split][rows] = number
    return Scenario(
        name=name,
        tasks=tuple(tasks),
        train=Images(images[0], labels[0], of_task[0]),
        test=Images(images[1], labels[1], of_task[1]),
        setting=setting,
        outputs=sum(counts) if own else max(counts),
        **more,
    )


def provenance(*datasets: Dataset) -> dict[str, Any]:
    """Return which bytes a scenario is made of, by dataset."""
    return {
        each.name: {"source": each.source, "revision": each.revision, "sha256": each.sha256}
        for each in datasets
    }


def normalised(dataset: Dataset) -> dict[str, tuple[tuple[float, ...], ...]]:
    """Return mean and deviation a channel: as published, or none for data of one's own."""
    info = DATASETS.get(dataset.name)
    if info is not None:
        return {"mean": (info.mean,), "std": (info.std,)}
    channels = dataset.train.x.shape[1]
    return {"mean": ((0.0,) * channels,), "std": ((1.0,) * channels,)}


def limited(split: Split, classes: Sequence[int], max_per_class: int | None) -> NDArray[np.int64]:
    """Return the rows of the first `max_per_class` images of each class, class by class.

    Example:
        >>> from perdure.data import Split
        >>> limited(Split(np.zeros((4, 1, 1, 1), np.uint8), np.array([1, 0, 1, 1])), [0, 1], 2)
        array([1, 0, 2])
    """
    found = [np.flatnonzero(split.y == label)[:max_per_class] for label in classes]
    return np.concatenate(found).astype(np.int64) if found else np.empty(0, dtype=np.int64)
