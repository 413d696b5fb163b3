"""A run's folder as bytes: sent from one machine to another, and put back there."""

from __future__ import annotations

import time
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from ..record import InputError, RecordError, replace_file
from ..record.io.append import Lock, check_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["alone", "emptied", "packed", "unpacked"]

# What says how far a run is, or that it is finished, comes after what it says that of.
LAST = ("checkpoint/state.safetensors", "done.json")


def packed(folder: Path) -> dict[str, bytes]:
    """Return every file of a run by its path in the folder, without locks and half-written ones.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> unpacked({"run.json": b"{}", "per_example/0.bin": b"12"}, folder)
        >>> packed(folder)
        {'per_example/0.bin': b'12', 'run.json': b'{}'}
    """
    return {name: (folder / name).read_bytes() for name in _names(folder)}


def unpacked(files: Mapping[str, bytes], folder: Path) -> None:
    """Write the files of a run into `folder`; killed at any moment, the run there can go on.

    Each file replaces its older one whole. What a finished run no longer has is removed.

    Args:
        files: as `packed` returned them, of the run that is there or of none.
        folder: of the run; nothing outside of it is written.
    """
    for name in files:
        _check(name, folder)
    for name in sorted(files, key=lambda name: LAST.index(name) if name in LAST else -1):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, files[name])
    if "done.json" in files:
        _remove(folder, [name for name in _names(folder) if name not in files])


def emptied(folder: Path) -> None:
    """Remove a run from its folder; what says that it is finished or can go on goes first."""
    names = _names(folder)
    _remove(folder, [name for name in reversed(LAST) if name in names])
    _remove(folder, [name for name in names if name not in LAST])


@contextmanager
def alone(folder: Path, patience: float = 0.0) -> Iterator[None]:
    """Be the only one who writes into a folder, or raise RecordError.

    Args:
        folder: of a run; made if it is not there.
        patience: seconds to wait for another one, who may be about to end.
    """
    check_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + patience
    while True:
        try:
            lock = Lock(folder)
            break
        except RecordError:
            if time.monotonic() >= end:
                raise
            time.sleep(0.2)
    try:
        yield
    finally:
        lock.release()


def _names(folder: Path) -> list[str]:
    found = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    names = sorted(path.relative_to(folder).as_posix() for path in found)
    return [name for name in names if name != "lock" and "/." not in f"/{name}"]


def _remove(folder: Path, names: Sequence[str]) -> None:
    for name in names:
        (folder / name).unlink(missing_ok=True)
    for parent in {(folder / name).parent for name in names} - {folder}:
        if not any(parent.iterdir()):
            parent.rmdir()


def _check(name: str, folder: Path) -> None:
    """Raise unless a name that was sent is that of a file inside the run's folder."""
    path = PurePosixPath(name)
    plain = name == str(path) and not path.is_absolute() and not {"..", "."} & set(path.parts)
    odd = set(name) & set("\\\0:")
    if not plain or odd or folder.resolve() not in (folder / name).resolve().parents:
        raise InputError(f"a run sent the file {name!r:.80}, expected a path inside its folder")
