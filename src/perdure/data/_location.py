"""Where a dataset is: downloaded into the cache if necessary, all files or none, and verified."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from ..record import InputError, read_json
from ..record.io.folder import open_file
from ._decoding import decoded_folder, progress_bar
from ._hub import check_offer, download, find_pin, get_endpoint, list_files
from .paths import (
    SPLITS,
    cache_folder,
    cached_sha256,
    compute_sha256,
    find_files,
    find_subset_files,
    get_sha256,
    missing_dataset,
    read_source_info,
    remove_sha256,
    store_sha256,
)
from .registry import DATASETS, find_dataset

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ._hub import RemoteDataset, RemoteFile

__all__ = ["DatasetLocation", "FetchResult", "FileCheck", "fetch", "locate", "verify"]


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


@dataclass(frozen=True)
class DatasetLocation:
    """Where a dataset is: its files with their SHA-256, and the arrays decoded from them."""

    name: str
    source: Literal["bundled", "cache", "mirror", "hub", "nowhere"]  # hub: not downloaded yet
    folder: Path | None = None
    of: str | None = None  # the dataset that this one is a subset of
    repository: str | None = None
    commit: str | None = None
    sha256: dict[str, str] = field(default_factory=dict)
    decoded: tuple[Path, ...] = ()


class FileCheck(NamedTuple):
    """A file and its state; `unknown` if there is no hash to compare with."""

    path: Path
    state: Literal["right", "differs", "unknown"]
    why: str


def locate(name: str, *, hashed: bool = True) -> DatasetLocation:
    """Return where a dataset is, without downloading or decoding anything.

    Args:
        name: one of `DATASETS`.
        hashed: compute the SHA-256 of its files and look for decoded arrays.

    Example:
        >>> locate("digits").source
        'bundled'
    """
    find_dataset(name)
    if name == "digits":
        return DatasetLocation(name, "bundled")
    whole, files = find_subset_files(name)
    repository = DATASETS[whole].repository
    of = None if whole == name else whole
    if files is None:
        source: Literal["hub", "nowhere"] = "hub" if repository else "nowhere"
        return DatasetLocation(name, source, of=of, repository=repository)
    hashes = {
        split: {path.name: get_sha256(path) for path in files.files[split]} if hashed else {}
        for split in SPLITS
    }
    folders = [
        decoded_folder(whole, split, DATASETS[whole], list(hashes[split].values()))
        for split in SPLITS
    ]
    info = read_source_info(files.folder)
    return DatasetLocation(
        name, files.source, files.folder, of, info.repository, info.commit,
        {file: sha256 for split in SPLITS for file, sha256 in hashes[split].items()},
        tuple(path for folder in folders if folder.is_dir() for path in sorted(folder.iterdir())),
    )  # fmt: skip


def verify(name: str) -> list[FileCheck]:
    """Return a check of every local file of a dataset, each read again; empty if there are none."""
    find_dataset(name)
    if name == "digits":
        return []
    whole, files = find_subset_files(name)
    if files is None:
        return []
    known = read_source_info(files.folder).files
    checks = []
    for split in SPLITS:
        hashes = {path: compute_sha256(path) for path in files.files[split]}
        for path, sha256 in hashes.items():
            expected = known[path.name].sha256 if path.name in known else None
            checks.append(_check_file(path, sha256, expected))
        folder = decoded_folder(whole, split, DATASETS[whole], list(hashes.values()))
        checks += _check_decoded(folder)
    present = {path.name for split in SPLITS for path in files.files[split]}
    missing = sorted(set(known) - present)
    return checks + [FileCheck(files.folder / file, "differs", "is missing") for file in missing]


def _check_file(path: Path, sha256: str, expected: str | None) -> FileCheck:
    """Return how a file's hash compares with that of source.json, or else with the cached one."""
    cached, origin = cached_sha256(path), "source.json"
    if expected is None:
        expected, origin = cached, "when it was last read, with the same size and time"
    if cached not in (None, sha256):
        remove_sha256(path)  # the next load then decodes the file as it is now
    if expected is None:
        return FileCheck(path, "unknown", f"nothing to compare with; sha256 is {sha256}")
    return _compare(path, sha256, expected, f"({origin})")


def _check_decoded(folder: Path) -> list[FileCheck]:
    if not folder.is_dir():
        return []
    advice = f"(about.json); remove {folder} to decode it again"
    try:
        expected = read_json(folder / "about.json")["sha256"]
        return [
            _compare(folder / file, compute_sha256(folder / file), str(expected[file]), advice)
            for file in ("x.npy", "y.npy")
        ]
    except (OSError, ValueError, KeyError, TypeError) as error:
        return [FileCheck(folder, "differs", f"is incomplete ({error}); remove it")]


def _compare(path: Path, sha256: str, expected: str, remark: str) -> FileCheck:
    if sha256 == expected:
        return FileCheck(path, "right", f"sha256 {sha256}")
    return FileCheck(
        path, "differs", f"sha256 is {sha256[:16]}…, expected {expected[:16]}… {remark}"
    )
