"""A user's own data as a scenario: a path, or a function of theirs that returns one."""

from __future__ import annotations

import hashlib
import os
import re
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .._display import count_of
from .._extras import import_user_attribute
from ..data import Dataset
from ..data.own import OwnData, ReadOptions, read_own_data, safe_name
from ..record import InputError
from .one_dataset import divide_classes
from .scenario import Scenario, TaskRows, build_scenario, get_provenance

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .scenario import Provenance, Setting

__all__ = ["OwnScenario", "is_own", "locate_own", "make_own_scenario", "read_own"]

SUFFIXES = (".npz", ".npy", ".parquet")
MAX_DEFAULT_TASKS = 5
EXPECTED = "./images, data.npz, data.parquet, or module:function"


class OwnScenario(NamedTuple):
    """What is known about a user's own data after reading it.

    Attributes:
        name: For the record and the run's folder.
        setting: What is incremental by default.
        classes: Number of classes; 0 if the user's function has divided them into tasks.
        tasks: Number of tasks by default.
        examples: Number of training examples.
        kind: What the examples are: images, features or tokens.
        shape: Shape of an example.
        vocabulary: One more than the largest token.
        has_tasks: Whether the data states its tasks.
        data: Digests, for the record.
        notes: What the user should know.
    """

    name: str
    setting: Setting
    classes: int
    tasks: int
    examples: int
    kind: str
    shape: tuple[int, ...]
    vocabulary: int
    has_tasks: bool
    data: Mapping[str, Provenance]
    notes: tuple[str, ...]

    @property
    def digest(self) -> str:
        """The SHA-256 of the data."""
        hashes = sorted((name, *sorted(d["sha256"].items())) for name, d in self.data.items())
        return hashlib.sha256(repr(hashes).encode()).hexdigest()


def is_own(name: str, known: Sequence[str] | Mapping[str, object] = ()) -> bool:
    """Return whether a scenario is a path or module:function, not a name.

    Example:
        >>> is_own("./images"), is_own("data.npz"), is_own("mine:stream"), is_own("split-mnist")
        (True, True, True, False)
    """
    if name in known:
        return False
    if ":" in name or name.lower().endswith(SUFFIXES) or name.startswith((".", "~")):
        return True
    return bool({"/", os.sep} & set(name)) or Path(name).exists()


def locate_own(name: str) -> str:
    """Return the absolute path that a name stands for, or module:function as it is."""
    if ":" in name and not re.match(r"[A-Za-z]:[\\/]", name) and not Path(name).exists():
        return name
    return str(Path(name).expanduser().absolute())


def read_own(source: str, options: ReadOptions) -> OwnScenario:
    """Return what is known about the data of a path or of module:function."""
    found = _load(source, options)
    if isinstance(found, Scenario):
        x = found.train.x
        return OwnScenario(
            name=safe_name(found.name, "scenario"), setting=found.setting, classes=0,
            tasks=len(found.tasks), examples=len(x), kind=_kind(x), shape=x.shape[1:],
            vocabulary=_vocabulary(found), has_tasks=True, data=found.data, notes=(),
        )  # fmt: skip
    data = found.dataset
    setting: Setting = "class"
    tasks, notes = max(2, min(MAX_DEFAULT_TASKS, len(data.classes) // 2)), list(data.notes)
    if found.task_names:
        tasks = len(found.task_names)
        setting = "class" if _has_disjoint_classes(found) else "domain"
        why = "have classes of their own" if setting == "class" else "share classes"
        notes.append(
            f"{count_of(tasks, 'task')} as the data states, which {why}: {setting}-incremental, "
            "see `setting=`"
        )
    x = data.train.x
    return OwnScenario(
        name=data.name, setting=setting, classes=len(data.classes), tasks=tasks, examples=len(x),
        kind=found.kind, shape=x.shape[1:], vocabulary=_vocabulary(data),
        has_tasks=bool(found.task_names), data=get_provenance(data), notes=tuple(notes),
    )  # fmt: skip


def make_own_scenario(
    source: str,
    options: ReadOptions,
    *,
    name: str,
    tasks: int | None = None,
    setting: Setting | None = None,
    order: Sequence[int] | int | None = None,
) -> Scenario:
    """Return the scenario of a path or of module:function, called `name` in the run's record.

    Its classes are divided into `tasks` as evenly as possible, unless the data states tasks.
    """
    found = _load(source, options)
    if isinstance(found, Scenario):
        if setting not in (None, found.setting) or order is not None or tasks is not None:
            raise InputError(
                f"{source} returns a scenario with tasks, so `num_tasks=`, `setting=` and `order=` "
                "do not apply; leave them out"
            )
        return found
    about = read_own(source, options)
    setting = setting or about.setting
    data, tasks = found.dataset, tasks or about.tasks
    if found.task_names:
        parts = _divide_by_task(found, setting)
    elif 1 <= tasks <= len(data.classes):
        parts = divide_classes(data, tasks, order)
    else:
        count = len(data.classes)
        raise InputError(
            f"{data.name} has {count} classes and num_tasks is {tasks}, expected 1 to {count}"
        )
    images = (data.train.x, data.test.x)
    return build_scenario(name, parts, images, setting, [data], deviations=())


def _divide_by_task(own: OwnData, setting: Setting) -> list[TaskRows]:
    assert own.train_tasks is not None
    assert own.test_tasks is not None
    data, parts = own.dataset, []
    for number, name in enumerate(own.task_names):
        train, test = (np.flatnonzero(t == number) for t in (own.train_tasks, own.test_tasks))
        train_y, test_y = data.train.y[train], data.test.y[test]
        classes = np.arange(len(data.classes)) if setting == "domain" else np.unique(train_y)
        if unknown := set(test_y.tolist()) - set(classes.tolist()):
            raise InputError(
                f"{data.name}: task {name!r} is tested on class "
                f"{data.classes[min(unknown)]!r}, which it does not train; use `setting='domain'`"
            )
        labels = np.searchsorted(classes, train_y), np.searchsorted(classes, test_y)
        names = tuple(data.classes[k] for k in classes)
        parts.append(TaskRows(name, train, test, *labels, names))
    return parts


def _has_disjoint_classes(own: OwnData) -> bool:
    assert own.train_tasks is not None
    pairs = np.unique(np.stack([own.dataset.train.y, own.train_tasks]), axis=1)
    return bool(len(np.unique(pairs[0])) == pairs.shape[1])


def _load(source: str, options: ReadOptions) -> OwnData | Scenario:
    """Return the data at a path, or what the user's function returns."""
    if source == locate_own(source) and ":" in source and not Path(source).exists():
        if options != ReadOptions():
            raise InputError(
                f"{source} is a function; leave `input=`, `channels=` and `image_size=` out"
            )
        return _call(source)
    return read_own_data(Path(source), options)


@lru_cache(maxsize=1)  # called once per process
def _call(source: str) -> OwnData | Scenario:
    function = import_user_attribute(source, "scenario")
    try:
        value = function() if callable(function) else function
    except InputError:
        raise
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        what = f"scenario {source!r}: calling it without arguments"
        raise InputError(f"{what} failed: {reason}") from error
    if isinstance(value, Dataset):
        digest = {value.name: _digest(value.train.x, value.train.y, value.test.x, value.test.y)}
        changed = {"name": safe_name(value.name, "scenario"), "sha256": value.sha256 or digest}
        named = Dataset(**{**vars(value), **changed})
        return OwnData(named, _kind(value.train.x))  # type: ignore[arg-type]
    if not isinstance(value, Scenario):
        raise InputError(
            f"scenario {source!r} returns {type(value).__name__}, expected a "
            "perdure.scenarios.Scenario or a perdure.data.Dataset"
        )
    if value.data:
        return value
    arrays = [*value.train, *value.test, *(rows for t in value.tasks for rows in (t.train, t.test))]
    provenance: Provenance = {"source": "own", "revision": None,
                              "sha256": {value.name: _digest(*arrays)}}  # fmt: skip
    return Scenario(**{**vars(value), "data": {value.name: provenance}})


def _digest(*arrays: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _kind(x: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> str:
    return "tokens" if x.dtype == np.int64 else "images" if x.ndim == 4 else "features"


def _vocabulary(data: Dataset | Scenario) -> int:
    parts = [part.x for part in (data.train, data.test)]
    tokens = [x for x in parts if x.dtype == np.int64 and x.size]
    return max((int(x.max()) for x in tokens), default=-1) + 1
