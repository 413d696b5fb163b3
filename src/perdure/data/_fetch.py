"""Downloads into the cache: all of a dataset's files, checked, or nothing."""

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
from ._files import remember
from ._hub import download, endpoint, look
from ._known import checked, nowhere
from ._pins import check, pinned
from ._progress import bar
from ._table import DATASETS
from .paths import cache_folder, find, source_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ._hub import Remote, RemoteFile

__all__ = ["FetchResult", "fetch"]


class FetchResult(NamedTuple):
    """Where a dataset is now; `fetched` counts bytes that were downloaded just now."""

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
    """Return where a dataset is, after downloading it into the cache if it is nowhere.

    Args:
        name: one of `DATASETS`.
        revision: a branch, tag or commit of its repository; None means what is here or, if
            nothing is, the pinned one, or the newest where none is pinned.
        force: download it even if it is here.
        progress: show a bar on standard error; None means on a terminal only.

    Example:
        >>> fetch("digits").source
        'bundled'
    """
    info = checked(name)
    if name == "digits":
        return FetchResult(name, "bundled")
    here = None if force or revision is not None else _here(name)
    if here is not None:
        return here
    whole = name if info.cut is None else info.cut.of
    repository, patterns = DATASETS[whole].repository, DATASETS[whole].files
    if repository is None or patterns is None:
        raise nowhere(name)
    with _alone(whole):
        here = None if force or revision is not None else _here(whole)  # another was faster
        if here is not None:
            return here
        pin = pinned(repository)
        remote = look(repository, patterns, revision or (pin and pin.commit))
        check(remote, DATASETS[whole])
        target = cache_folder() / whole
        if not force and source_json(target).get("commit") == remote.commit:
            return _fetched(whole, "cache", target)
        done = _download(whole, remote, progress=progress)
        return _fetched(whole, "hub", target)._replace(fetched=done)


def _here(name: str) -> FetchResult | None:
    found = find(name)
    return None if found is None else _fetched(name, found.source, found.folder)


def _fetched(name: str, source: Literal["cache", "mirror", "hub"], folder: Path) -> FetchResult:
    said = source_json(folder)
    files = tuple(sorted(path.name for path in folder.glob("*.parquet")))
    return FetchResult(name, source, folder, said.get("repository"), said.get("commit"), files)


def _download(name: str, remote: Remote, *, progress: bool | None) -> int:
    """Put a repository's files into the cache, all at once, and return how many bytes came."""
    stage = cache_folder() / "partial" / name / remote.commit
    total, came = sum(file.size for file in remote.files.values()), 0
    try:
        stage.mkdir(parents=True, exist_ok=True)
        with bar(f"fetching {name}", total, shown=progress, unit="bytes") as advance:
            for file in remote.files.values():
                part = _part(stage, file)
                before = part.stat().st_size if part.exists() else 0
                download(remote, file, part, advance)
                came += file.size - before
        _install(name, remote, stage)
    except OSError as error:
        raise _unwritable(error) from None
    return came


def _install(name: str, remote: Remote, stage: Path) -> None:
    """Make the folder of a dataset from its parts, and put it in place by rename."""
    target = cache_folder() / name
    ready = Path(tempfile.mkdtemp(dir=stage.parent))
    for here, file in remote.files.items():
        _part(stage, file).rename(ready / here)
    said = {
        "repository": remote.repository,
        "commit": remote.commit,
        "endpoint": endpoint(),
        "files": {
            here: {"path": file.path, "size": file.size, "sha256": file.sha256}
            for here, file in remote.files.items()
        },
    }
    (ready / "source.json").write_text(json.dumps(said, indent=1), encoding="utf-8")
    ready.chmod(0o755)
    if target.exists():
        target.rename(Path(tempfile.mkdtemp(dir=stage.parent)) / "old")
    ready.rename(target)
    shutil.rmtree(stage.parent, ignore_errors=True)
    for here, file in remote.files.items():
        remember(target / here, file.sha256)  # loading need not hash it again


def _part(stage: Path, file: RemoteFile) -> Path:
    return stage / f"{hashlib.sha256(file.path.encode()).hexdigest()[:16]}.part"


@contextmanager
def _alone(name: str) -> Iterator[None]:
    """Wait until no other process fetches this dataset; the system frees a dead one's lock."""
    path = cache_folder() / "partial" / f"{name}.lock"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = os.fdopen(open_file(path, os.O_WRONLY | os.O_CREAT), "w")
    except OSError as error:
        raise _unwritable(error) from None
    with file:
        if os.name == "posix":
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _unwritable(error: OSError) -> InputError:
    why = (error.strerror or str(error)).lower()
    return InputError(
        f"{error.filename or cache_folder()}: {why}; make room or rights, or set PERDURE_CACHE to "
        "another folder"
    )
