"""A run folder as bytes, to send a run from one machine to another."""

from __future__ import annotations

import time
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from ..io.append import RecordError, check_folder
from ..io.append import replace as replace_file
from ..io.files import InputError
from ..io.lock import Lock
from ..run_folder import CHECKPOINT_FILE, DONE_FILE, LOCK_FILE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["check_name", "list_files", "lock_run", "pack_run", "remove_run", "unpack_run"]

# Written last and removed first: they say how far the other files are.
STATE_FILES = (CHECKPOINT_FILE, DONE_FILE)


def pack_run(folder: Path) -> dict[str, bytes]:
    """Return the files of a run by their paths in its folder, without locks and partial files.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> unpack_run({"run.json": b"{}", "per_example/0.bin": b"12"}, folder)
        >>> pack_run(folder)
        {'per_example/0.bin': b'12', 'run.json': b'{}'}
    """
    return {name: (folder / name).read_bytes() for name in list_files(folder)}


def unpack_run(files: Mapping[str, bytes], folder: Path) -> None:
    """Write the files of a run into `folder`; after a kill at any moment it can be resumed.

    Each file replaces its older version as a whole. Files that a finished run no longer has are
    removed.

    Args:
        files: As returned by `pack_run`, for the same run as in the folder if there is one.
        folder: Of the run; nothing outside of it is written.
    """
    for name in files:
        check_name(name, folder)
    for name in sorted(files, key=lambda n: STATE_FILES.index(n) if n in STATE_FILES else -1):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, files[name])
    if DONE_FILE in files:
        _remove(folder, [name for name in list_files(folder) if name not in files])


def remove_run(folder: Path) -> None:
    """Remove the files of a run from its folder."""
    names = list_files(folder)
    _remove(folder, [name for name in reversed(STATE_FILES) if name in names])
    _remove(folder, [name for name in names if name not in STATE_FILES])


@contextmanager
def lock_run(folder: Path, timeout: float = 0.0) -> Iterator[None]:
    """Hold the lock of a run folder, or raise RecordError.

    Args:
        folder: Of a run; created if it does not exist.
        timeout: Seconds to wait for another process to release it.
    """
    check_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + timeout
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


def list_files(folder: Path) -> list[str]:
    """Return the paths of the files of a run in its folder, without locks and partial files."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    names = sorted(path.relative_to(folder).as_posix() for path in files)
    return [name for name in names if name != LOCK_FILE and "/." not in f"/{name}"]


def _remove(folder: Path, names: Sequence[str]) -> None:
    for name in names:
        (folder / name).unlink(missing_ok=True)
    for parent in {(folder / name).parent for name in names} - {folder}:
        if not any(parent.iterdir()):
            parent.rmdir()


def check_name(name: str, folder: Path) -> None:
    """Raise unless a name that was received is that of a file inside the run's folder."""
    path = PurePosixPath(name)
    plain = name == str(path) and not path.is_absolute() and not {"..", "."} & set(path.parts)
    odd = set(name) & set("\\\0:")
    if not plain or odd or folder.resolve() not in (folder / name).resolve().parents:
        raise InputError(f"a run sent the file {name!r:.80}, expected a path inside its folder")
