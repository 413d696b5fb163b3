"""A name in, a dataset out: from the cache, a local mirror, or the Hugging Face hub."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from ..record import InputError
from ._decoded import decode
from ._digits import digits
from ._fetch import fetch as download
from ._files import sha256_of
from ._known import checked, nowhere
from ._table import DATASETS
from .paths import SPLITS, find, layout, mirror_folder, source_json

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from ._table import ClassSubset, DatasetInfo
    from .paths import DatasetFiles

__all__ = ["Dataset", "Split", "load"]

DataSource = Literal["bundled", "cache", "mirror", "hub", "own"]


class Split(NamedTuple):
    """Images (N, C, H, W) and labels (N,); read-only, and mapped from disk where they can be."""

    x: NDArray[np.uint8]
    y: NDArray[np.int64]


@dataclass(frozen=True)
class Dataset:
    """Two splits, the names of the classes, and where all that comes from."""

    name: str
    train: Split
    test: Split
    classes: tuple[str, ...]
    source: DataSource = "own"
    revision: str | None = None
    sha256: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for which, (x, y) in (("train", self.train), ("test", self.test)):
            if x.dtype != np.uint8 or x.ndim != 4:
                raise InputError(
                    f"{self.name}: {which} images are {x.dtype} {x.shape}, expected uint8 from 0 "
                    "to 255 of shape (N, C, H, W)"
                )
            if y.shape != (len(x),) or y.dtype != np.int64:
                raise InputError(
                    f"{self.name}: {which} labels are {y.dtype} {y.shape}, expected int64 "
                    f"({len(x)},)"
                )
            if len(y) and not 0 <= y.min() <= y.max() < len(self.classes):
                raise InputError(
                    f"{self.name}: {which} labels go from {y.min()} to {y.max()}, expected 0 to "
                    f"{len(self.classes) - 1}"
                )


def load(name: str, *, fetch: bool = True, progress: bool | None = None) -> Dataset:
    """Return a dataset by its name: from the cache, else a mirror, else downloaded (`fetch`).

    Args:
        name: one of `DATASETS`.
        fetch: download it from the hub if it is nowhere here.
        progress: show bars on standard error; None means on a terminal only.

    Example:
        >>> digits = load("digits")
        >>> digits.train.x.shape, digits.train.x.dtype, digits.test.y[:5]
        ((1442, 1, 8, 8), dtype('uint8'), array([5, 0, 9, 8, 7]))
        >>> digits.source, digits.classes[:3]
        ('bundled', ('0', '1', '2'))
    """
    info = checked(name)
    if name == "digits":
        return _bundled()
    found, cut = find(name), info.cut
    if found is None and cut is not None and find(cut.of) is not None:
        return _cut(name, cut, load(cut.of, fetch=False, progress=progress))
    source: DataSource = "hub" if found is None else found.source
    if found is None:
        mirror = mirror_folder()
        if mirror is not None and not mirror.is_dir():  # better said than downloaded instead
            raise InputError(
                f"PERDURE_DATA is {str(mirror)!r}, expected a folder; correct or unset it"
            )
        if not fetch or (cut is None and info.repository is None):
            raise nowhere(name)
        download(name, progress=progress)
        if cut is not None:
            whole = load(cut.of, fetch=False, progress=progress)
            return _cut(name, cut, replace(whole, source="hub"))
        found = find(name)
        assert found is not None
    return _read(name, info, found, source, progress)


def _hashes(found: DatasetFiles) -> dict[str, dict[Path, str]]:
    """Return path -> SHA-256 of each split, or raise InputError if one is not as it was fetched."""
    known = source_json(found.folder).get("files", {})
    result: dict[str, dict[Path, str]] = {}
    for split in SPLITS:
        result[split] = {path: sha256_of(path) for path in found.files[split]}
        for path, is_now in result[split].items():
            was = known.get(path.name, {}).get("sha256", is_now)
            if was != is_now:
                raise InputError(
                    f"{path}: sha256 is {is_now[:16]}…, expected {was[:16]}… as in source.json; "
                    f"run `perdure data fetch {found.folder.name} --force`"
                )
    return result


def _read(
    name: str, info: DatasetInfo, found: DatasetFiles, source: DataSource, progress: bool | None
) -> Dataset:
    try:
        files = _hashes(found)
    except OSError as error:
        raise InputError(f"{error.filename}: {(error.strerror or 'unreadable').lower()}") from None
    train, test = (decode(name, split, info, files[split], progress=progress) for split in SPLITS)
    if train.classes != test.classes:
        raise InputError(f"{found.folder}: train and test name other classes, expected the same")
    return Dataset(
        name=name,
        train=Split(train.x, train.y),
        test=Split(test.x, test.y),
        classes=train.classes,
        source=source,
        revision=source_json(found.folder).get("commit"),
        sha256={path.name: value for part in files.values() for path, value in part.items()},
        notes=(*_incomplete(name, info, len(train.y), len(test.y)), *train.notes, *test.notes),
    )


def _incomplete(name: str, info: DatasetInfo, train: int, test: int) -> tuple[str, ...]:
    """Return a note where there are other counts of images than in the complete dataset."""
    parts = [
        f"{count:,} of {whole:,} {kind} images"
        for kind, count, whole in (("training", train, info.train), ("test", test, info.test))
        if whole is not None and count != whole
    ]
    return (f"{name}: {', '.join(parts)}",) if parts else ()


def _cut(name: str, cut: ClassSubset, whole: Dataset) -> Dataset:
    """Return some classes of a whole dataset, numbered in the order of the cut."""
    missing = [label for label in cut.classes if label not in whole.classes]
    if missing:
        raise InputError(
            f"{name}: {cut.of} has no class {missing[0]!r}, which it is cut from; "
            f"provide {layout(name)} in a folder named by PERDURE_DATA"
        )
    numbers = np.full(len(whole.classes), -1, dtype=np.int64)
    numbers[[whole.classes.index(label) for label in cut.classes]] = range(len(cut.classes))

    def part(split: Split) -> Split:
        y = numbers[split.y]
        return Split(_fixed(split.x[y >= 0]), _fixed(y[y >= 0]))

    train, test = part(whole.train), part(whole.test)
    notes = (
        f"{name}: cut from {cut.of}, whose files may be compressed otherwise",
        *_incomplete(name, DATASETS[name], len(train.y), len(test.y)),
        *whole.notes,
    )
    return replace(whole, name=name, train=train, test=test, classes=cut.names, notes=notes)


def _bundled() -> Dataset:
    x, y, test, version, hashed = digits()
    return Dataset(
        name="digits",
        train=Split(_fixed(x[~test]), _fixed(y[~test])),
        test=Split(_fixed(x[test]), _fixed(y[test])),
        classes=tuple("0123456789"),
        source="bundled",
        revision=version,
        sha256={"digits": hashed},
    )


def _fixed(array: NDArray[Any]) -> NDArray[Any]:
    array = np.ascontiguousarray(array)
    array.flags.writeable = False
    return array
