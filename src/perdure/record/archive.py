"""Runs as bytes to send to another machine, and in one ZIP file; nothing received is trusted."""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import time
import zipfile
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, BinaryIO

from .io.files import InputError, open_regular
from .io.folder import RecordError, check_folder
from .io.folder import replace as replace_file
from .io.lock import Lock
from .run_folder import CHECKPOINT_FILE, DONE_FILE, LOCK_FILE, RunFolder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

__all__ = ["extract_archive", "lock_run", "pack_run", "remove_run", "unpack_run", "write_archive"]

# Written last and removed first: they say how far the other files are.
STATE_FILES = (CHECKPOINT_FILE, DONE_FILE)

MAX_FILES = 1_000_000
CHUNK = 1 << 20
COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


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
    removed. Nothing outside of the folder is written.
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
    """Hold the lock of a run folder, which may be new, or raise RecordError after `timeout` s."""
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


def write_archive(
    folders: Sequence[Path],
    file: Path,
    *,
    overwrite: bool = False,
    on_bytes: Callable[[int], None] = lambda _: None,
) -> None:
    """Write run folders into a ZIP file, which appears when it is complete.

    Args:
        folders: The run folders. Links in them, locks and partial files are left out.
        file: The file to write.
        overwrite: Replace the file if it exists.
        on_bytes: Called with the number of bytes that were just read.
    """
    names = [folder.name for folder in folders]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"two runs are called {twice!r:.80}, expected each name once")
    if os.path.lexists(file) and not overwrite:
        raise InputError(
            f"{file}: exists already; choose another file, or `force=True` to replace it"
        )
    with _new_file(file) as new, zipfile.ZipFile(
        new, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False
    ) as archive:  # fmt: skip
        for folder in folders:
            for name in list_files(folder):
                info = zipfile.ZipInfo.from_file(
                    folder / name, f"{folder.name}/{name}", strict_timestamps=False
                )
                info.compress_type = zipfile.ZIP_DEFLATED
                with open_regular(folder / name) as source, archive.open(info, "w") as target:
                    _copy(source, target, None, on_bytes)


def extract_archive(
    file: Path, store: Path, *, on_bytes: Callable[[int], None] = lambda _: None
) -> list[Path]:
    """Return the folders of the runs of a ZIP file, extracted into a store.

    A run appears in the store when it is complete. Nothing is written outside of the store.

    Raises InputError if the file is not an archive of runs, or if a run is in the store already.
    """
    with open_regular(file) as opened, _open_zip(opened, file) as archive:
        runs = _check_entries(archive, file)
        store.mkdir(parents=True, exist_ok=True)
        present = [name for name in runs if os.path.lexists(store / name)]
        if present:
            raise InputError(f"{store / present[0]}: exists already; extract into another store")
        size = sum(entry.file_size for entries in runs.values() for entry in entries.values())
        if size > shutil.disk_usage(store).free:
            raise InputError(
                f"{file}: holds {size >> 20} MiB, more than there is room for in {store}"
            )
        return [
            _extract_run(archive, entries, store / name, file, on_bytes)
            for name, entries in runs.items()
        ]


def _extract_run(
    archive: zipfile.ZipFile,
    entries: dict[str, zipfile.ZipInfo],
    folder: Path,
    file: Path,
    on_bytes: Callable[[int], None],
) -> Path:
    """Return the folder of a run, extracted under a hidden name and renamed when complete."""
    partial = folder.with_name(f".extracting-{secrets.token_hex(6)}")
    partial.mkdir()
    try:
        for name, entry in entries.items():
            check_name(name, partial)
            path = partial / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(entry) as source, path.open("xb") as target:
                _copy(source, target, entry.file_size, on_bytes)
            _set_time(path, entry)
        if not RunFolder(partial).is_run():
            raise InputError(f"{file}: {folder.name!r:.80} in it is not a run")
        os.rename(partial, folder)  # noqa: PTH104
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as error:
        raise InputError(f"{file}: broken archive ({error})") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder


def _set_time(path: Path, entry: zipfile.ZipInfo) -> None:
    """Give a file the time it had: a log that has just been written would count as running."""
    with suppress(ValueError, OverflowError, OSError):
        changed = time.mktime((*entry.date_time, 0, 0, -1))
        os.utime(path, (changed, changed))


def _check_entries(archive: zipfile.ZipFile, file: Path) -> dict[str, dict[str, zipfile.ZipInfo]]:
    """Return the files of each run by name, after checking all of them; nothing is written yet."""
    entries = [entry for entry in archive.infolist() if not entry.is_dir()]
    if not entries or len(entries) > MAX_FILES:
        raise InputError(f"{file}: {len(entries)} files, expected 1 to {MAX_FILES} of runs")
    runs: dict[str, dict[str, zipfile.ZipInfo]] = {}
    for entry in entries:
        run, _, name = entry.filename.partition("/")
        odd = not run or not name or run.startswith(".") or set(run) & set("\\\0:")
        if odd or stat.S_ISLNK(entry.external_attr >> 16) or name in runs.get(run, {}):
            raise InputError(
                f"{file}: has {entry.filename!r:.80}, expected files of run folders, each once"
            )
        if entry.compress_type not in COMPRESSIONS or entry.flag_bits & 1:
            raise InputError(
                f"{file}: {entry.filename!r:.80} is encrypted or compressed in an unknown way"
            )
        check_name(name, Path(run))
        runs.setdefault(run, {})[name] = entry
    return runs


def _open_zip(opened: BinaryIO, file: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(opened)
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError) as error:
        raise InputError(f"{file}: not an archive of runs ({error}), expected a ZIP file") from None


def _copy(
    source: IO[bytes], target: IO[bytes], limit: int | None, on_bytes: Callable[[int], None]
) -> None:
    """Copy a file in parts; more than `limit` bytes are refused, whatever the archive states."""
    size = 0
    while part := source.read(CHUNK):
        size += len(part)
        if limit is not None and size > limit:
            raise zipfile.BadZipFile("a file is longer than the archive states")
        target.write(part)
        on_bytes(len(part))


@contextmanager
def _new_file(file: Path) -> Iterator[BinaryIO]:
    """Open a new file under a hidden name, and give it its own name when it is complete."""
    partial = file.with_name(f".{secrets.token_hex(6)}.new")
    try:
        with partial.open("xb") as new:
            yield new
        os.replace(partial, file)  # noqa: PTH105
    finally:
        partial.unlink(missing_ok=True)
