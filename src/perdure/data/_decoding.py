"""Decoded datasets: one uint8 array per split, kept in the cache and memory-mapped."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from ..record import InputError, open_regular, read_json
from ._parquet import open_parquet, read_images
from .paths import cache_folder, compute_sha256

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from ._parquet import ImageBatch, ParquetFile
    from .registry import DatasetInfo

__all__ = [
    "decode",
    "decode_into_cache",
    "decoded_folder",
    "decoded_name",
    "freeze",
    "progress_bar",
]

DELAY_SECONDS = 1.0  # before the bar appears

DAMAGE_ERRORS = (OSError, EOFError, ValueError, KeyError, TypeError)  # of reading a damaged file
FORMAT_VERSION = 1  # raise it if images are decoded differently: they then get other files
Scalar = TypeVar("Scalar", bound=np.generic)


@contextmanager
def progress_bar(
    title: str, total: int, *, show: bool | None, unit: str = "images"
) -> Iterator[Callable[[int], None]]:
    """Yield a function to call with the progress made; None shows the bar on a terminal only."""
    if not (sys.stderr.isatty() if show is None else show):
        yield lambda _: None
        return
    from rich import progress
    from rich.console import Console

    count = progress.DownloadColumn() if unit == "bytes" else progress.MofNCompleteColumn()
    description = progress.TextColumn("{task.description}", markup=False)
    columns = (description, progress.BarColumn(), count, progress.TimeRemainingColumn())
    bar = progress.Progress(*columns, console=Console(file=sys.stderr))
    task = bar.add_task(title, total=total)
    start, running = time.monotonic(), False

    def advance(by: int) -> None:
        nonlocal running
        bar.advance(task, by)
        if not running and time.monotonic() - start > DELAY_SECONDS:
            bar.start()
            running = True

    try:
        yield advance
    finally:
        if running:
            bar.stop()


class DecodedSplit(NamedTuple):
    """Images (N, C, H, W) and labels of a split, its class names, and notes for the user."""

    x: NDArray[np.uint8]
    y: NDArray[np.int64]
    classes: tuple[str, ...]
    notes: tuple[str, ...] = ()


def decoded_folder(name: str, split: str, info: DatasetInfo, hashes: Sequence[str]) -> Path:
    """Return the folder of a decoded split, named after its files' hashes and image size."""
    return decoded_name(f"{name}-{split}", [info.shape, info.fit, list(hashes)])


def decoded_name(title: str, key: Sequence[object]) -> Path:
    """Return the folder of decoded images that depend on `key` alone."""
    identity = json.dumps([FORMAT_VERSION, *key])
    digest = hashlib.sha256(identity.encode()).hexdigest()[:32]
    return cache_folder() / "decoded" / f"{title}-{digest}"


def decode(
    name: str, split: str, info: DatasetInfo, hashes: dict[Path, str], *, progress: bool | None
) -> DecodedSplit:
    """Return a split from the cache, or decode its files (path -> SHA-256) into the cache."""
    folder = decoded_folder(name, split, info, list(hashes.values()))
    with suppress(*DAMAGE_ERRORS):
        return _open(folder)
    files = [open_parquet(path) for path in hashes]
    classes = _class_names(files, info)
    count = sum(file.rows for file in files)

    def decode_batches() -> Iterator[ImageBatch]:
        with progress_bar(f"decoding {name} {split}", count, show=progress) as advance:
            for file in files:
                for x, y in read_images(file, info, len(classes)):
                    yield x, y
                    advance(len(y))

    return decode_into_cache(folder, decode_batches, (count, *info.shape), classes, (name, split))


def decode_into_cache(
    folder: Path,
    decode_batches: Callable[[], Iterable[ImageBatch]],
    shape: tuple[int, ...],
    classes: tuple[str, ...],
    title: tuple[str, str],
) -> DecodedSplit:
    """Return the split in a folder of the cache, written if necessary; or from memory if not."""
    with suppress(*DAMAGE_ERRORS):
        return _open(folder)
    try:
        return _store(folder, decode_batches, shape, classes)
    except OSError as error:
        with suppress(*DAMAGE_ERRORS):
            return _open(folder)  # another process has written it in the meantime
        reason = (error.strerror or str(error)).lower()
        name, split = title
        note = f"{name}: {cache_folder()} cannot be written ({reason}): {split} decoded in memory"
        batches = list(decode_batches())
        x, y = np.concatenate([x for x, _ in batches]), np.concatenate([y for _, y in batches])
        return DecodedSplit(freeze(x), freeze(y), classes, (note,))


def freeze(array: NDArray[Scalar]) -> NDArray[Scalar]:
    """Return a contiguous array that cannot be written to."""
    array = np.ascontiguousarray(array)
    array.flags.writeable = False
    return array


def _open(folder: Path) -> DecodedSplit:
    """Return the split in a folder; raise one of DAMAGE_ERRORS if it is incomplete."""
    about = read_json(folder / "about.json")
    for name in ("x.npy", "y.npy"):
        open_regular(folder / name).close()  # NumPy would block on a pipe
    x = np.load(folder / "x.npy", mmap_mode="r", allow_pickle=False)
    y = np.load(folder / "y.npy", mmap_mode="r", allow_pickle=False)
    if [list(x.shape), [len(x)]] != [about["shape"], list(y.shape)]:
        raise ValueError(f"{folder}: the shape differs from that in about.json")
    if (x.dtype, y.dtype) != (np.uint8, np.int64):
        raise ValueError(f"{folder}: the arrays have other types than uint8 and int64")
    return DecodedSplit(x, y, tuple(about["classes"]))


def _store(
    folder: Path,
    decode_batches: Callable[[], Iterable[ImageBatch]],
    shape: tuple[int, ...],
    classes: tuple[str, ...],
) -> DecodedSplit:
    """Write a split by renaming, and open it. The first of several processes wins."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-{os.getpid()}-"))
    try:
        _write(temporary, decode_batches(), shape, classes)
        with suppress(*DAMAGE_ERRORS):
            return _open(folder)
        shutil.rmtree(folder, ignore_errors=True)  # present, but incomplete
        with suppress(FileExistsError, FileNotFoundError):  # another process was first
            temporary.rename(folder)
        return _open(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        for leftover in folder.parent.glob(f".{folder.name}-*"):
            if not _is_alive(leftover.name.rsplit("-", 2)[1]):  # of a process that was killed
                shutil.rmtree(leftover, ignore_errors=True)


def _is_alive(process: str) -> bool:
    if os.name == "nt":  # where signal 0 would interrupt the process
        return True
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except (ValueError, OSError):  # not a number, or the process of another user
        pass
    return True


def _write(
    folder: Path, batches: Iterable[ImageBatch], shape: tuple[int, ...], classes: tuple[str, ...]
) -> None:
    # Not a writable memory map: with a full disk, writing to it would kill the process.
    labels = []
    with (folder / "x.npy").open("wb") as file:
        header = {"descr": "|u1", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        for x, y in batches:
            file.write(x.tobytes())
            labels.append(y)
    np.save(folder / "y.npy", np.concatenate(labels), allow_pickle=False)
    hashes = {name: compute_sha256(folder / name) for name in ("x.npy", "y.npy")}
    about = {"shape": list(shape), "classes": list(classes), "sha256": hashes}
    (folder / "about.json").write_text(json.dumps(about), encoding="utf-8")


def _class_names(files: Sequence[ParquetFile], info: DatasetInfo) -> tuple[str, ...]:
    """Return the class names of a split; their numbers if its files have no names."""
    names = files[0].classes
    for file in files[1:]:
        if file.classes != names:
            raise InputError(
                f"{file.path}: has other class names than {files[0].path.name}, expected the same"
            )
    return tuple(map(str, range(info.classes))) if names is None else names
