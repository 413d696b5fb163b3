"""Runs in one ZIP file: nothing in it is trusted when it is extracted."""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import time
import zipfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, BinaryIO

from ..io.files import InputError, open_regular
from ..run_folder import RunFolder
from .run_archive import check_name, list_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["extract_archive", "write_archive"]

MAX_FILES = 1_000_000
CHUNK = 1 << 20
COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


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
