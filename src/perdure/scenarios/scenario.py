"""A scenario: an ordered stream of tasks over one array of images."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Literal, NamedTuple, TypedDict

import numpy as np

from .._display import count_of, format_block
from ..data import DATASETS
from ..record import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from ..data import Dataset
    from ..data._load import Inputs, PerChannel

__all__ = [
    "SETTINGS",
    "Images",
    "Provenance",
    "Scenario",
    "Setting",
    "Task",
    "TaskRows",
    "build_scenario",
    "get_normalization",
    "get_provenance",
]

Setting = Literal["class", "task", "domain"]
SETTINGS: tuple[Setting, ...] = ("class", "task", "domain")


class Task(NamedTuple):
    """One task: its examples as rows of the scenario's images, and the outputs of its classes."""

    name: str
    train: NDArray[np.int64]
    test: NDArray[np.int64]
    classes: tuple[int, ...]


class Images(NamedTuple):
    """All examples of a split, with the correct output and the task of each."""

    x: Inputs
    y: NDArray[np.int64]
    task: NDArray[np.int64]


class Provenance(TypedDict):
    """Which version of a dataset was used."""

    source: str
    revision: str | None
    sha256: dict[str, str]


@dataclass(frozen=True)
class Scenario:
    """Tasks in the order in which they are learned, and what a run needs to know about them.

    Args:
        name: the name in the run's record.
        tasks: the tasks in order.
        train: the training images of all tasks.
        test: the test images of all tasks.
        setting: what is incremental: `class` (one head, classes are added), `task` (one head per
            task), `domain` (one head, all tasks share their classes).
        outputs: the number of outputs of the network.
        mean: the mean of x / 255 per channel, one tuple for all tasks or one per task.
        std: the standard deviation, likewise.
        data: which data were used, by dataset.
        deviations: how the scenario differs from what its name promises.
        class_names: the class that each output stands for; empty if that differs between tasks.
    """

    name: str
    tasks: tuple[Task, ...]
    train: Images
    test: Images
    setting: Setting
    outputs: int
    mean: tuple[PerChannel, ...]
    std: tuple[PerChannel, ...]
    data: Mapping[str, Provenance] = field(default_factory=dict)
    deviations: tuple[str, ...] = ()
    class_names: tuple[str, ...] = ()

    def __repr__(self) -> str:
        tasks = count_of(len(self.tasks), "task")
        title = f"Scenario {self.name}: {tasks}, {self.setting}-incremental"
        rows = [
            (task.name, f"{len(task.train)} train", f"{len(task.test)} test",
             count_of(len(task.classes), "class"))
            for task in self.tasks
        ]  # fmt: skip
        return format_block(title, rows)

    def __post_init__(self) -> None:
        for split, images in (("training", self.train), ("test", self.test)):
            if len(images.y) and images.y.max() >= self.outputs:
                raise InputError(
                    f"{self.name}: a {split} label is {images.y.max()} and the network has "
                    f"{self.outputs} outputs, expected labels from 0 to {self.outputs - 1}; number "
                    "the labels from 0, or state more outputs"
                )

    @property
    def shape(self) -> tuple[int, ...]:
        """Channels, height and width of an image, or the number of features or tokens."""
        return self.train.x.shape[1:]

    @property
    def tokens(self) -> bool:
        """Whether the examples are tokens: whole numbers to look up, not to compute with."""
        return self.train.x.dtype == np.int64

    @property
    def heads(self) -> list[int] | None:
        """The number of classes of each task's head; None if there is one head for all tasks."""
        return [len(task.classes) for task in self.tasks] if self.setting == "task" else None


class TaskRows(NamedTuple):
    """The examples of one task: rows of the images, their labels counted from 0, class names."""

    name: str
    train: NDArray[np.int64]
    test: NDArray[np.int64]
    train_labels: NDArray[np.int64]
    test_labels: NDArray[np.int64]
    classes: tuple[str, ...]


def build_scenario(
    name: str,
    parts: Sequence[TaskRows],
    images: tuple[Inputs, Inputs],
    setting: Setting,
    datasets: Sequence[Dataset],
    *,
    normalization: tuple[tuple[PerChannel, ...], tuple[PerChannel, ...]] | None = None,
    deviations: Sequence[str] | None = None,
) -> Scenario:
    """Return the scenario of some tasks; the setting decides which outputs their classes have.

    Args:
        name: the name in the run's record.
        parts: the examples of each task, in order.
        images: the training and the test images.
        setting: what is incremental.
        datasets: the datasets that the images come from.
        normalization: mean and standard deviation, as in `Scenario`; None for those of the first
            dataset.
        deviations: as in `Scenario`, None for the notes of the first dataset; duplicates are
            removed.
    """
    if setting not in SETTINGS:
        raise InputError(f"setting is {setting!r}, expected class, task or domain")
    has_own_classes = setting != "domain"
    tasks, start = [], 0
    labels = [np.full(len(x), -1, dtype=np.int64) for x in images]
    task_numbers = [np.full(len(x), -1, dtype=np.int64) for x in images]
    for number, part in enumerate(parts):
        classes = tuple(range(start, start + len(part.classes)))
        tasks.append(Task(part.name, part.train, part.test, classes))
        splits = ((part.train, part.train_labels), (part.test, part.test_labels))
        for split, (rows, local_labels) in enumerate(splits):
            if not len(rows):
                kind = ("training", "test")[split]
                raise InputError(f"{name}: task {part.name!r} has no {kind} images, expected some")
            labels[split][rows] = local_labels + start
            task_numbers[split][rows] = number
        if has_own_classes:
            start += len(part.classes)
    names = [part.classes for part in parts]
    if not has_own_classes:  # those that all tasks share
        names = names[:1] if len(set(names)) == 1 else []
    mean, std = normalization or get_normalization(datasets[0])
    return Scenario(
        name=name,
        tasks=tuple(tasks),
        train=Images(images[0], labels[0], task_numbers[0]),
        test=Images(images[1], labels[1], task_numbers[1]),
        setting=setting,
        outputs=start if has_own_classes else max(len(part.classes) for part in parts),
        mean=mean,
        std=std,
        data=get_provenance(*datasets),
        deviations=tuple(dict.fromkeys(datasets[0].notes if deviations is None else deviations)),
        class_names=tuple(chain.from_iterable(names)),
    )


def get_provenance(*datasets: Dataset) -> dict[str, Provenance]:
    """Return which version of each dataset was used, by its name."""
    return {
        dataset.name: {
            "source": dataset.source,
            "revision": dataset.revision,
            "sha256": dataset.sha256,
        }
        for dataset in datasets
    }


def get_normalization(dataset: Dataset) -> tuple[tuple[PerChannel, ...], tuple[PerChannel, ...]]:
    """Return mean and standard deviation per channel: stated, published, or 0 and 1."""
    if dataset.normalization is not None:
        mean, std = dataset.normalization
        return (mean,), (std,)
    if info := DATASETS.get(dataset.name):
        return (info.mean,), (info.std,)
    channels = dataset.train.x.shape[1]
    return ((0.0,) * channels,), ((1.0,) * channels,)
