"""Each split decoded once: one uint8 array, kept in the cache and mapped into memory."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..record import InputError, open_regular, read_json
from ._files import hash_of
from ._parquet import batches, open_table
from ._progress import bar
from .paths import cache_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from ._parquet import Batch, ParquetFile
    from ._table import DatasetInfo

__all__ = ["Decoded", "decode", "decoded_folder"]

DAMAGED = (OSError, EOFError, ValueError, KeyError, TypeError)  # what opening rubbish raises
FORM = 1  # a change in how images are decoded gets another number, and so other files


class Decoded(NamedTuple):
    """Images (N, C, H, W) and labels of a split, its class names, and what to know."""

    x: NDArray[np.uint8]
    y: NDArray[np.int64]
    classes: tuple[str, ...]
    notes: tuple[str, ...] = ()


def decoded_folder(name: str, split: str, info: DatasetInfo, hashes: Sequence[str]) -> Path:
    """Return the folder of a decoded split; other bytes, or another size, have another one."""
    what = json.dumps([FORM, info.shape, info.fit, list(hashes)])
    key = hashlib.sha256(what.encode()).hexdigest()[:32]
    return cache_folder() / "decoded" / f"{name}-{split}-{key}"


def decode(
    name: str, split: str, info: DatasetInfo, files: dict[Path, str], *, progress: bool | None
) -> Decoded:
    """Return a split from the decoded cache, or from its files (path -> SHA-256) into it."""
    folder = decoded_folder(name, split, info, list(files.values()))
    with suppress(*DAMAGED):
        return _open(folder)
    tables = [open_table(path) for path in files]
    classes = _classes(tables, info)
    count = sum(table.rows for table in tables)

    def images() -> Iterator[Batch]:
        with bar(f"decoding {name} {split}", count, shown=progress) as advance:
            for table in tables:
                for x, y in batches(table, info, len(classes)):
                    yield x, y
                    advance(len(y))

    try:
        return _keep(folder, images, (count, *info.shape), classes)
    except OSError as error:
        with suppress(*DAMAGED):
            return _open(folder)  # another process has written it meanwhile
        why = (error.strerror or str(error)).lower()
        note = f"{name}: {cache_folder()} cannot be written ({why}): {split} decoded in memory"
        pairs = list(images())
        x, y = (np.concatenate(part) for part in zip(*pairs, strict=True))
        return Decoded(_fixed(x), _fixed(y), classes, (note,))


def _open(folder: Path) -> Decoded:
    """Return what a folder holds; an error if it is not whole."""
    about = read_json(folder / "about.json")
    for name in ("x.npy", "y.npy"):
        open_regular(folder / name).close()  # NumPy would wait for a pipe
    x = np.load(folder / "x.npy", mmap_mode="r", allow_pickle=False)
    y = np.load(folder / "y.npy", mmap_mode="r", allow_pickle=False)
    if [list(x.shape), [len(x)]] != [about["shape"], list(y.shape)]:
        raise ValueError(f"{folder}: of another shape than it says")
    if (x.dtype, y.dtype) != (np.uint8, np.int64):
        raise ValueError(f"{folder}: of another type than it says")
    return Decoded(x, y, tuple(about["classes"]))


def _keep(
    folder: Path,
    images: Callable[[], Iterable[Batch]],
    shape: tuple[int, ...],
    classes: tuple[str, ...],
) -> Decoded:
    """Write a decoded split by rename, and open it. Whoever is first wins; all have the same."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-{os.getpid()}-"))
    try:
        _write(beside, images(), shape, classes)
        with suppress(*DAMAGED):
            return _open(folder)
        shutil.rmtree(folder, ignore_errors=True)  # there, but not whole
        with suppress(FileExistsError, FileNotFoundError):  # another process was first
            beside.rename(folder)
        return _open(folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
        for left in folder.parent.glob(f".{folder.name}-*"):
            if not _is_alive(left.name.rsplit("-", 2)[1]):  # of one that was killed
                shutil.rmtree(left, ignore_errors=True)


def _is_alive(process: str) -> bool:
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except (ValueError, OSError):
        return True
    return True


def _write(
    folder: Path, images: Iterable[Batch], shape: tuple[int, ...], classes: tuple[str, ...]
) -> None:
    # Plain writes, not a writable map: a full disk is then an error and not a dead process.
    labels = []
    with (folder / "x.npy").open("wb") as file:
        header = {"descr": "|u1", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        for x, y in images:
            file.write(x.tobytes())
            labels.append(y)
    np.save(folder / "y.npy", np.concatenate(labels), allow_pickle=False)
    hashes = {part: hash_of(folder / part) for part in ("x.npy", "y.npy")}
    about: dict[str, Any] = {"shape": list(shape), "classes": list(classes), "sha256": hashes}
    (folder / "about.json").write_text(json.dumps(about), encoding="utf-8")


def _classes(tables: Sequence[ParquetFile], info: DatasetInfo) -> tuple[str, ...]:
    """Return the class names of a split, by number where its files have none."""
    names = tables[0].classes
    for table in tables[1:]:
        if table.classes != names:
            raise InputError(
                f"{table.path}: names other classes than {tables[0].path.name}, expected the same"
            )
    return tuple(map(str, range(info.classes))) if names is None else names


def _fixed(array: Any) -> Any:
    array.flags.writeable = False
    return array
