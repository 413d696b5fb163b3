"""Loading a dataset by name: from the cache, a local mirror, or the Hugging Face hub."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from .._display import format_block, list_some
from ..record import InputError
from ._decoding import decode, freeze
from ._location import fetch as download
from ._parquet import missing_package
from .paths import (
    SPLITS,
    describe_layout,
    find_subset_files,
    get_sha256,
    mirror_folder,
    missing_dataset,
    read_source_info,
)
from .registry import DATASETS, find_dataset

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .paths import DatasetFiles

__all__ = ["Dataset", "Inputs", "PerChannel", "Split", "load"]

INPUTS = (("uint8", 4), ("float32", 4), ("float32", 2), ("int64", 2))  # types and dimensions
DataSource = Literal["bundled", "cache", "mirror", "hub", "own"]


Inputs: TypeAlias = "NDArray[Any]"  # uint8, float32 or int64
PerChannel = tuple[float, ...]


class Split(NamedTuple):
    """Examples and labels (N,), read-only and memory-mapped if possible.

    The examples are images (N, C, H, W) as bytes from 0 to 255 or as float32, features (N, F) as
    float32, or tokens (N, L) as int64.
    """

    x: Inputs
    y: NDArray[np.int64]


@dataclass(frozen=True)
class Dataset:
    """A training and a test split, the class names, and where the data come from."""

    name: str
    train: Split
    test: Split
    classes: tuple[str, ...]
    source: DataSource = "own"
    revision: str | None = None
    sha256: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    normalization: tuple[PerChannel, PerChannel] | None = None  # mean and std of each channel

    def __repr__(self) -> str:
        splits = [
            (name, f"{len(y)} examples", f"{x.dtype} {x.shape[1:]}")
            for name, (x, y) in (("train", self.train), ("test", self.test))
        ]
        classes = f"{len(self.classes)} classes: {list_some(self.classes, 10)}"
        return format_block(f"Dataset {self.name} ({self.source})", splits, [classes])

    def __post_init__(self) -> None:
        for split, (x, y) in (("train", self.train), ("test", self.test)):
            if x.dtype != self.train.x.dtype:
                raise InputError(
                    f"{self.name}: train examples are {self.train.x.dtype} and test examples are "
                    f"{x.dtype}, expected the same type"
                )
            if (x.dtype.name, x.ndim) not in INPUTS:
                raise InputError(
                    f"{self.name}: {split} examples are {x.dtype} {x.shape}, expected images as "
                    "uint8 from 0 to 255 or float32 of shape (N, C, H, W), features as float32 "
                    "(N, F), or tokens as int64 (N, L)"
                )
            if y.shape != (len(x),) or y.dtype != np.int64:
                raise InputError(
                    f"{self.name}: {split} labels are {y.dtype} {y.shape}, expected int64 "
                    f"({len(x)},)"
                )
            if len(y) and not 0 <= y.min() <= y.max() < len(self.classes):
                raise InputError(
                    f"{self.name}: {split} labels go from {y.min()} to {y.max()}, expected 0 to "
                    f"{len(self.classes) - 1}"
                )


def load(name: str, *, fetch: bool = True, progress: bool | None = None) -> Dataset:
    """Return a dataset by its name: from the cache, else a mirror, else the hub.

    Args:
        name: one of `DATASETS`.
        fetch: download it from the hub if it is not available locally.
        progress: show bars on standard error; None for on a terminal only.

    Example:
        >>> digits = load("digits")
        >>> digits.train.x.shape, digits.train.x.dtype, digits.test.y[:5]
        ((1442, 1, 8, 8), dtype('uint8'), array([5, 0, 9, 8, 7]))
        >>> digits.source, digits.classes[:3]
        ('bundled', ('0', '1', '2'))
    """
    find_dataset(name)
    if name == "digits":
        return _load_digits()
    whole, files = find_subset_files(name)
    source: DataSource = "hub" if files is None else files.source
    if files is None:
        mirror = mirror_folder()
        if mirror is not None and not mirror.is_dir():  # rather an error than a download
            raise InputError(
                f"PERDURE_DATA is {str(mirror)!r}, expected a folder; correct or unset it"
            )
        if not fetch or DATASETS[whole].repository is None:
            raise missing_dataset(name)
        download(name, progress=progress)
        whole, files = find_subset_files(name)
        assert files is not None
    dataset = _load_files(whole, files, source, progress)
    return dataset if whole == name else _select_subset(name, dataset)


def _load_files(
    name: str, files: DatasetFiles, source: DataSource, progress: bool | None
) -> Dataset:
    info = DATASETS[name]
    try:
        hashes = _verify_hashes(files)
    except OSError as error:
        raise InputError(f"{error.filename}: {(error.strerror or 'unreadable').lower()}") from None
    train, test = (decode(name, split, info, hashes[split], progress=progress) for split in SPLITS)
    if train.classes != test.classes:
        raise InputError(
            f"{files.folder}: train and test have different class names, expected the same"
        )
    return Dataset(
        name=name,
        train=Split(train.x, train.y),
        test=Split(test.x, test.y),
        classes=train.classes,
        source=source,
        revision=read_source_info(files.folder).commit,
        sha256={path.name: sha256 for part in hashes.values() for path, sha256 in part.items()},
        notes=(*_note_missing(name, len(train.y), len(test.y)), *train.notes, *test.notes),
    )


def _verify_hashes(files: DatasetFiles) -> dict[str, dict[Path, str]]:
    """Return path -> SHA-256 per split; raise InputError if a file changed since its download."""
    known = read_source_info(files.folder).files
    hashes = {split: {path: get_sha256(path) for path in files.files[split]} for split in SPLITS}
    for path, sha256 in (pair for part in hashes.values() for pair in part.items()):
        expected = known[path.name].sha256 if path.name in known else sha256
        if sha256 != expected:
            raise InputError(
                f"{path}: sha256 is {sha256[:16]}…, expected {expected[:16]}… as in source.json; "
                f"fetch it again: `perdure data fetch {files.folder.name}` with `force=True`"
            )
    return hashes


def _note_missing(name: str, train: int, test: int) -> tuple[str, ...]:
    """Return a note if the number of images differs from that of the complete dataset."""
    info = DATASETS[name]
    parts = [
        f"{count:,} of {complete:,} {kind} images"
        for kind, count, complete in (("training", train, info.train), ("test", test, info.test))
        if complete is not None and count != complete
    ]
    return (f"{name}: {', '.join(parts)}",) if parts else ()


def _select_subset(name: str, whole: Dataset) -> Dataset:
    """Return some classes of a dataset, numbered in the order of the subset."""
    subset = DATASETS[name].subset
    assert subset is not None
    missing = [label for label in subset.classes if label not in whole.classes]
    if missing:
        raise InputError(
            f"{name}: {subset.of} has no class {missing[0]!r}, which is part of {name}; "
            f"provide {describe_layout(name)} in a folder named by PERDURE_DATA"
        )
    numbers = np.full(len(whole.classes), -1, dtype=np.int64)
    numbers[[whole.classes.index(label) for label in subset.classes]] = range(len(subset.classes))

    def select(split: Split) -> Split:
        y = numbers[split.y]
        return Split(freeze(split.x[y >= 0]), freeze(y[y >= 0]))

    train, test = select(whole.train), select(whole.test)
    notes = (
        f"{name}: a subset of {subset.of}, whose files may be compressed differently",
        *_note_missing(name, len(train.y), len(test.y)),
        *whole.notes,
    )
    return replace(whole, name=name, train=train, test=test, classes=subset.names, notes=notes)


def _load_digits() -> Dataset:
    """Return the digits of scikit-learn; every fifth image of a class is a test image."""
    table = _read_digits()
    x = (table[:, :-1].reshape(-1, 1, 8, 8) * 255 / 16).round().astype(np.uint8)
    y = table[:, -1].astype(np.int64)
    is_test = np.zeros(len(y), dtype=bool)
    for label in range(10):
        is_test[np.flatnonzero(y == label)[4::5]] = True
    return Dataset(
        name="digits",
        train=Split(freeze(x[~is_test]), freeze(y[~is_test])),
        test=Split(freeze(x[is_test]), freeze(y[is_test])),
        classes=tuple("0123456789"),
        source="bundled",
        revision=f"scikit-learn {version('scikit-learn')}",
        sha256={"digits": hashlib.sha256(x.tobytes() + y.tobytes()).hexdigest()},
    )


def _read_digits() -> NDArray[np.float64]:
    """Return 64 pixels and the label per row, from scikit-learn's file.

    Importing scikit-learn would take a second.
    """
    try:
        spec = find_spec("sklearn")
    except ValueError:  # it was replaced in `sys.modules`
        spec = None
    if spec is None or spec.origin is None:
        raise missing_package("scikit-learn")
    file = Path(spec.origin).parent / "datasets" / "data" / "digits.csv.gz"
    try:
        with gzip.open(file, "rt", encoding="ascii") as lines:
            return np.loadtxt(lines, delimiter=",")
    except (OSError, EOFError) as error:
        raise InputError(f"{file}: cannot be read ({error}); install scikit-learn again") from None
