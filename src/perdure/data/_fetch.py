"""Downloads into the cache: all files of a dataset, verified, or none."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from ..record import InputError
from ..record.io.append import open_file
from ._hashes import store_sha256
from ._hub import download, get_endpoint, list_files
from ._pins import check_offer, find_pin
from ._progress import progress_bar
from .paths import cache_folder, find_files, missing_dataset, read_source_info
from .registry import DATASETS, find_dataset

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ._hub import RemoteDataset, RemoteFile

__all__ = ["FetchResult", "fetch"]


class FetchResult(NamedTuple):
    """Where a dataset is now; `fetched` is the number of bytes that were downloaded."""

    name: str
    source: Literal["bundled", "cache", "mirror", "hub"]
    folder: Path | None = None
    repository: str | None = None
    commit: str | None = None
    files: tuple[str, ...] = ()
    fetched: int = 0


def fetch(
    name: str, *, revision: str | None = None, force: bool = False, progress: bool | None = None
) -> FetchResult:
    """Return where a dataset is, after downloading it into the cache if necessary.

    Args:
        name: one of `DATASETS`.
        revision: a branch, tag or commit of its repository; None for the local version or else the
            pinned one, or the newest one if none is pinned.
        force: download it even if it is present.
        progress: show a bar on standard error; None for on a terminal only.

    Example:
        >>> fetch("digits").source
        'bundled'
    """
    info = find_dataset(name)
    if name == "digits":
        return FetchResult(name, "bundled")
    accept_local = not force and revision is None
    if accept_local and (local := _find_local(name)):
        return local
    whole = name if info.subset is None else info.subset.of
    repository, patterns = DATASETS[whole].repository, DATASETS[whole].files
    if repository is None or patterns is None:
        raise missing_dataset(name)
    with _lock(whole):
        if accept_local and (local := _find_local(whole)):  # another process has downloaded it
            return local
        pin = find_pin(repository)
        remote = list_files(repository, patterns, revision or (pin and pin.commit))
        check_offer(remote, DATASETS[whole])
        target = cache_folder() / whole
        if not force and read_source_info(target).commit == remote.commit:
            return _make_result(whole, "cache", target)
        received = _download_all(whole, remote, progress=progress)
        return _make_result(whole, "hub", target)._replace(fetched=received)


def _find_local(name: str) -> FetchResult | None:
    files = find_files(name)
    return None if files is None else _make_result(name, files.source, files.folder)


def _make_result(name: str, source: Literal["cache", "mirror", "hub"], folder: Path) -> FetchResult:
    info = read_source_info(folder)
    files = tuple(sorted(path.name for path in folder.glob("*.parquet")))
    return FetchResult(name, source, folder, info.repository, info.commit, files)


def _download_all(name: str, remote: RemoteDataset, *, progress: bool | None) -> int:
    """Install a repository's files in the cache and return the number of bytes received."""
    stage = cache_folder() / "partial" / name / remote.commit
    total, received = sum(file.size for file in remote.files.values()), 0
    try:
        stage.mkdir(parents=True, exist_ok=True)
        with progress_bar(f"fetching {name}", total, show=progress, unit="bytes") as advance:
            for file in remote.files.values():
                part = _partial_file(stage, file)
                before = part.stat().st_size if part.exists() else 0
                download(remote, file, part, advance)
                received += file.size - before
        _install(name, remote, stage)
    except OSError as error:
        raise _not_writable(error) from None
    return received


def _install(name: str, remote: RemoteDataset, stage: Path) -> None:
    """Assemble the folder of a dataset from its parts, and rename it into place."""
    target = cache_folder() / name
    ready = Path(tempfile.mkdtemp(dir=stage.parent))
    for local_name, file in remote.files.items():
        _partial_file(stage, file).rename(ready / local_name)
    source = {
        "repository": remote.repository,
        "commit": remote.commit,
        "endpoint": get_endpoint(),
        "files": {local_name: file._asdict() for local_name, file in remote.files.items()},
    }
    (ready / "source.json").write_text(json.dumps(source, indent=1), encoding="utf-8")
    ready.chmod(0o755)
    if target.exists():
        target.rename(Path(tempfile.mkdtemp(dir=stage.parent)) / "old")
    ready.rename(target)
    shutil.rmtree(stage.parent, ignore_errors=True)
    for local_name, file in remote.files.items():
        store_sha256(target / local_name, file.sha256)  # so that loading need not compute it


def _partial_file(stage: Path, file: RemoteFile) -> Path:
    return stage / f"{hashlib.sha256(file.path.encode()).hexdigest()[:16]}.part"


@contextmanager
def _lock(name: str) -> Iterator[None]:
    """Wait until no other process fetches this dataset; the lock of a dead process is released.

    Not `filelock`, for the reasons given in `perdure.record.io.lock`.
    """
    path = cache_folder() / "partial" / f"{name}.lock"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = os.fdopen(open_file(path, os.O_WRONLY | os.O_CREAT), "w")
    except OSError as error:
        raise _not_writable(error) from None
    with file:
        if os.name == "posix":
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _not_writable(error: OSError) -> InputError:
    reason = (error.strerror or str(error)).lower()
    return InputError(
        f"{error.filename or cache_folder()}: {reason}; free disk space or fix permissions, or set "
        "PERDURE_CACHE to another folder"
    )
