"""A user's own data as a dataset: a folder of images, an .npz or a .parquet file.

From a path to the reader, the test set, and the classes.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np

from .._random_streams import random_stream
from ..record import InputError
from ..record.io.files import unreadable
from ..record.io.text import first_few
from ._decoding import freeze
from ._load import Dataset, Split
from ._own_arrays import InputKind, Part, Parts, arrange, find_layout, normalization_of, read_npz
from ._own_images import read_images
from ._own_parquet import read_parquet

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["INPUT_KINDS", "OwnData", "ReadOptions", "read_own_data", "safe_name"]

INPUT_KINDS: tuple[str, ...] = get_args(InputKind)
TEST_FRACTION = 0.2
SPLIT_SEED = 0  # the same test set for every seed of a run
MAX_CLASSES = 10_000


class ReadOptions(NamedTuple):
    """How to read data whose arrays may mean several things."""

    input: InputKind | None = None
    channels: Literal["first", "last"] | None = None
    image_size: int | None = None

    @classmethod
    def of(cls, values: Mapping[str, object]) -> ReadOptions:
        """Return these options among those of a run; wrong types are rejected with the others.

        Example:
            >>> ReadOptions.of({"epochs": 2, "channels": "last"}).channels
            'last'
        """
        chosen = (values.get(name) for name in cls._fields)
        return cls(*(v if isinstance(v, str | int) else None for v in chosen))  # type: ignore[arg-type]


class OwnData(NamedTuple):
    """A dataset and, if the data states tasks, their names and the task of each example."""

    dataset: Dataset
    kind: InputKind
    task_names: tuple[str, ...] = ()
    train_tasks: NDArray[np.int64] | None = None
    test_tasks: NDArray[np.int64] | None = None


def read_own_data(path: Path, options: ReadOptions | None = None) -> OwnData:
    """Return the data at a path: a folder of images, an .npz or a .parquet file.

    What was read is kept, as long as size and modification time of the files stay the same.
    """
    try:
        return _read(path, options or ReadOptions(), _fingerprint(path))
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(
            f"{path}: no such file or folder, expected a folder of images, an .npz or a .parquet "
            "file"
        ) from None
    except OSError as error:
        raise unreadable(path, error) from None


def _fingerprint(path: Path) -> tuple[int, ...]:
    status = path.stat()
    if not path.is_dir():
        return status.st_size, status.st_mtime_ns
    stats = [file.stat() for file in path.rglob("*") if file.is_file()]
    return len(stats), sum(s.st_size for s in stats), max([s.st_mtime_ns for s in stats] or [0])


@lru_cache(maxsize=2)  # data takes memory
def _read(path: Path, options: ReadOptions, _fingerprint: tuple[int, ...]) -> OwnData:
    parts = _read_parts(path, options)
    kind = options.input or parts.kind
    layout = find_layout(parts.train.x, str(path), kind=kind, channels=options.channels)
    notes = [*parts.notes] if path.is_dir() else [layout.note, *parts.notes]
    train = _check_tasks(parts.train, path)
    test = None if parts.test is None else _check_tasks(parts.test, path)
    if test is not None and test.x.shape[1:] != train.x.shape[1:]:
        raise InputError(
            f"{path}: training examples have shape {train.x.shape[1:]} and test examples "
            f"{test.x.shape[1:]}, expected the same"
        )
    written = None if test is None else test.y
    train_y, test_y, classes = _encode_labels(train.y, written, path, notes)
    if test is None:
        is_test = _draw_test_set(train_y, classes, train.task, path, notes)
        train, test = train.select(~is_test), train.select(is_test)
        train_y, test_y = train_y[~is_test], train_y[is_test]
    assert test_y is not None
    if layout.kind == "images" and layout.as_bytes:
        # The test part may be of another type.
        layout = layout._replace(as_bytes=find_layout(test.x, str(path), kind=kind,
                                 channels=options.channels).as_bytes)  # fmt: skip
    x, test_x = arrange(train.x, layout), arrange(test.x, layout)
    dataset = Dataset(
        name=safe_name(path.resolve().name, "data"),
        train=Split(freeze(x), freeze(train_y)),
        test=Split(freeze(test_x), freeze(test_y)),
        classes=classes,
        source="own",
        sha256=parts.sha256,
        notes=tuple(notes),
        normalization=normalization_of(x),
    )
    if train.task is None:
        return OwnData(dataset, layout.kind)
    return OwnData(dataset, layout.kind, *_encode_tasks(train, test, path))


def _read_parts(path: Path, options: ReadOptions) -> Parts:
    if path.is_dir():
        tables = {name: path / f"{name}.parquet" for name in ("train", "test", "validation")}
        if tables["train"].is_file():
            present = {name: table for name, table in tables.items() if table.is_file()}
            return read_parquet(present, options.image_size)
        if options.input not in (None, "images") or options.channels is not None:
            raise InputError(f"{path}: a folder of images; leave `input=` and `channels=` out")
        return read_images(path, options.image_size)
    path.stat()
    if path.suffix.lower() == ".parquet":
        return read_parquet({"train": path}, options.image_size)
    if path.suffix.lower() != ".npz":
        raise InputError(
            f"{path}: expected a folder of images, an .npz or a .parquet file; save arrays with "
            "np.savez('data.npz', x=x, y=y)"
        )
    if options.image_size is not None:
        raise InputError(f"{path}: arrays are not resized; leave `image_size=` out")
    return read_npz(path)


def _encode_labels(
    train: NDArray[Any], test: NDArray[Any] | None, path: Path, notes: list[str]
) -> tuple[NDArray[np.int64], NDArray[np.int64] | None, tuple[str, ...]]:
    """Return the labels as numbers from 0, and the name of each class."""
    train = _flatten_labels(train, path, notes)
    test = None if test is None else _flatten_labels(test, path, [])
    if not len(train) or (test is not None and not len(test)):
        raise InputError(f"{path}: no examples, expected some in every part")
    values, y = np.unique(train, return_inverse=True)
    if len(values) < 2:
        raise InputError(f"{path}: one class ({values[0]}), expected at least two")
    if len(values) > MAX_CLASSES or len(values) > len(train) / 2:
        raise InputError(
            f"{path}: {len(values):,} different labels in {len(train):,} examples, expected classes"
        )
    classes = tuple(str(value) for value in values)
    if values.dtype.kind in "iu" and classes != tuple(map(str, range(len(classes)))):
        listed = first_few(classes, 5)
        notes.append(f"the {len(classes)} labels {listed} are outputs 0 to {len(classes) - 1}")
    if test is None:
        return y.astype(np.int64), None, classes
    unknown = np.setdiff1d(test, values)
    if len(unknown):
        raise InputError(
            f"{path}: the test part has class {str(unknown[0])!r:.60}, which the training part "
            "does not have; expected the same classes"
        )
    missing = np.setdiff1d(values, test)
    if len(missing):
        raise InputError(
            f"{path}: the test part has no examples of class {str(missing[0])!r:.60}, expected "
            "some of every class; add them, or remove the class from the training part"
        )
    return y.astype(np.int64), np.searchsorted(values, test).astype(np.int64), classes


def _flatten_labels(y: NDArray[Any], path: Path, notes: list[str]) -> NDArray[Any]:
    """Return one label per example: from a column, from one-hot rows, or as it is."""
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim == 2 and y.dtype.kind in "fiub" and _is_one_hot(y):
        notes.append("labels are one-hot rows: the class is the column of the 1")
        y = y.argmax(axis=1)
    if y.ndim != 1:
        raise InputError(f"{path}: labels have shape {y.shape}, expected one label per example")
    if y.dtype.kind == "S":
        y = np.char.decode(y, "utf-8", "replace")
    if y.dtype.kind == "f":
        if not (np.isfinite(y).all() and (y == np.round(y)).all()):
            wrong = y[~(np.isfinite(y) & (y == np.round(y)))][0]
            raise InputError(f"{path}: a label is {wrong:g}, expected the number of a class")
        y = y.astype(np.int64)
    return y.astype(np.int64) if y.dtype.kind == "b" else y


def _is_one_hot(y: NDArray[Any]) -> bool:
    return bool(np.isin(y, (0, 1)).all() and (y.sum(axis=1) == 1).all())


def _draw_test_set(
    y: NDArray[np.int64],
    classes: tuple[str, ...],
    tasks: NDArray[Any] | None,
    path: Path,
    notes: list[str],
) -> NDArray[np.bool_]:
    """Return which examples become the test set: a fifth of each class of each task.

    It is at least one. The only example of a class in a task remains a training example.
    """
    rng = random_stream("own_test_split", SPLIT_SEED)
    is_test = np.zeros(len(y), dtype=bool)
    one_task = np.zeros(len(y), dtype=np.int64)
    numbers = one_task if tasks is None else np.unique(tasks, return_inverse=True)[1]
    for label, name in enumerate(classes):
        rows = np.flatnonzero(y == label)
        if len(rows) < 2:
            raise InputError(
                f"{path}: class {name!r:.60} has one example, and there is no test part to "
                "evaluate on; expected at least two per class"
            )
        for number in np.unique(numbers[rows]):
            group = rows[numbers[rows] == number]
            if len(group) > 1:
                count = max(1, round(TEST_FRACTION * len(group)))
                is_test[rng.choice(group, count, replace=False)] = True
    if tasks is not None and (
        missing := sorted(set(tasks.tolist()) - set(tasks[is_test].tolist()))
    ):
        raise InputError(
            f"{path}: task {str(missing[0])!r:.60} has one example of each of its classes, and "
            "there is no test part to evaluate on; expected at least two of a class"
        )
    each = "each class" if tasks is None else "each class of each task"
    notes.append(
        f"no test part: {TEST_FRACTION:.0%} of {each}, drawn with a fixed seed, are the test "
        f"set ({is_test.sum():,} of {len(y):,} examples)"
    )
    return is_test


def _check_tasks(part: Part, path: Path) -> Part:
    """Return a part with one task per example; whole numbers written as floats become integers."""
    task = part.task
    if task is None:
        return part
    if task.ndim != 1:
        raise InputError(f"{path}: tasks have shape {task.shape}, expected one per example")
    if task.dtype.kind != "f":
        return part
    if not np.isfinite(task).all():
        wrong = task[~np.isfinite(task)][0]
        raise InputError(f"{path}: a task is {wrong:g}, expected a number or a name; fill it in")
    return part._replace(task=task.astype(np.int64)) if (task == np.round(task)).all() else part


def _encode_tasks(
    train: Part, test: Part, path: Path
) -> tuple[tuple[str, ...], NDArray[np.int64], NDArray[np.int64]]:
    """Return the names of the tasks in order, and the task of each example."""
    assert train.task is not None
    if test.task is None:
        raise InputError(f"{path}: only the training part states tasks, expected both to")
    values, numbers = np.unique(train.task, return_inverse=True)
    if unknown := set(test.task.tolist()) - set(values.tolist()):
        raise InputError(f"{path}: task {str(min(unknown))!r:.60} is in the test part alone; "
                         "expected training examples of every task")  # fmt: skip
    if missing := set(values.tolist()) - set(test.task.tolist()):
        raise InputError(f"{path}: task {str(min(missing))!r:.60} has no test examples")
    names = tuple(str(value) for value in values)
    if all(re.fullmatch(r"-?\d+", name) for name in names):
        names = tuple(f"task {name}" for name in names)
    tested = np.searchsorted(values, test.task)
    return names, numbers.astype(np.int64), tested.astype(np.int64)


def safe_name(name: str, default: str) -> str:
    """Return a name that can be part of a folder's name."""
    return re.sub(r"[^\w.-]+", "-", name)[:40].strip(".-") or default
