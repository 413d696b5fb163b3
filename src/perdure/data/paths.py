"""Where the files of a dataset are, in the cache or in a local mirror, and their SHA-256."""

from __future__ import annotations

import hashlib
import json
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from ..record import InputError, RecordError, open_regular, read_json, replace_file
from .registry import DATASETS

__all__ = [
    "SPLITS",
    "DatasetFiles",
    "cache_folder",
    "cached_sha256",
    "compute_sha256",
    "describe_layout",
    "find_files",
    "find_subset_files",
    "get_sha256",
    "mirror_folder",
    "missing_dataset",
    "read_source_info",
    "remove_sha256",
    "store_sha256",
]

SPLITS = ("train", "test")

MAX_FILE_BYTES = 64 << 30


class DatasetFiles(NamedTuple):
    """The folder of a dataset and the files of each split, in order."""

    source: Literal["cache", "mirror"]
    folder: Path
    files: dict[str, tuple[Path, ...]]


class SourceFile(msgspec.Struct):
    """A file as it was downloaded."""

    sha256: str
    path: str | None = None
    size: int | None = None


class SourceInfo(msgspec.Struct):
    """The contents of source.json: where the files were downloaded from."""

    files: dict[str, SourceFile]
    repository: str | None = None
    commit: str | None = None
    endpoint: str | None = None


def cache_folder() -> Path:
    """Return the folder of the cache: $PERDURE_CACHE, or perdure in the user's cache folder."""
    own = os.environ.get("PERDURE_CACHE")
    if own:
        return Path(own).expanduser().absolute()
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache").absolute() / "perdure"


def mirror_folder() -> Path | None:
    """Return the folder of the local mirror, $PERDURE_DATA, or None."""
    mirror = os.environ.get("PERDURE_DATA")
    return Path(mirror).expanduser().absolute() if mirror else None


def find_files(name: str) -> DatasetFiles | None:
    """Return the local files of a dataset, or None; nothing is downloaded."""
    roots: list[tuple[Literal["cache", "mirror"], Path | None]]
    roots = [("cache", cache_folder()), ("mirror", mirror_folder())]
    for source, root in roots:
        if root is None:
            continue
        folder = root / name
        try:
            files = {split: _find_shards(folder, split) for split in SPLITS}
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise InputError(f"{folder}: cannot be read ({reason:.80})") from None
        present = [split for split in SPLITS if files[split]]
        if len(present) == len(SPLITS):
            return DatasetFiles(source, folder, files)
        if present:
            missing = next(split for split in SPLITS if split not in present)
            raise InputError(
                f"{folder}: has {present[0]} but not {missing}; expected {describe_layout(name)}"
            )
    return None


def find_subset_files(name: str) -> tuple[str, DatasetFiles | None]:
    """Return a dataset's name and local files, or those of the dataset that it is a subset of."""
    files, subset = find_files(name), DATASETS[name].subset
    if files is None and subset is not None:
        return subset.of, find_files(subset.of)
    return name, files


def describe_layout(name: str) -> str:
    """Return how the files of a dataset are laid out in the cache or in a mirror."""
    return (
        f"{name}/train.parquet and {name}/test.parquet (or shards train-00000-of-00002.parquet …; "
        "columns image = struct of bytes (PNG or JPEG) and path, label = int64, class names in "
        "the huggingface metadata)"
    )


def missing_dataset(name: str) -> InputError:
    """Return the error for a dataset that is neither in the cache nor in a mirror."""
    info = DATASETS[name]
    mirror = mirror_folder()
    roots = f"{cache_folder()} or {'PERDURE_DATA (not set)' if mirror is None else mirror}"
    own = f"a folder, named by PERDURE_DATA, with {describe_layout(name)}"
    whole = info if info.subset is None else DATASETS[info.subset.of]
    if whole.repository is None:
        return InputError(
            f"{name}: not in {roots}, and not on the hub; provide {own}: {info.provide}"
        )
    return InputError(f"{name}: not in {roots}; run `perdure data fetch {name}`, or provide {own}")


def read_source_info(folder: Path) -> SourceInfo:
    """Return the contents of source.json next to the files; empty if there is none."""
    path = folder / "source.json"
    try:
        return msgspec.convert(read_json(path), SourceInfo)
    except FileNotFoundError:
        return SourceInfo(files={})
    except (OSError, ValueError, msgspec.ValidationError):
        raise InputError(
            f"{path}: was not written by `perdure data fetch`; remove it, or call `perdure "
            f"data fetch {path.parent.name}` with `force=True`"
        ) from None


def _find_shards(folder: Path, split: str) -> tuple[Path, ...]:
    """Return the file of a split, or all its shards in order, or nothing."""
    whole = folder / f"{split}.parquet"
    if whole.is_file():
        return (whole,)
    shards = sorted(folder.glob(f"{split}-*-of-*.parquet"))
    if not shards:
        return ()
    matches = [re.fullmatch(rf"{split}-(\d+)-of-(\d+)\.parquet", path.name) for path in shards]
    numbers = [(int(match[1]), int(match[2])) for match in matches if match]
    if numbers != [(k, len(shards)) for k in range(len(shards))]:
        raise InputError(
            f"{folder}: the shards of {split} are {', '.join(path.name for path in shards):.200}; "
            f"expected {split}-00000-of-N.parquet up to the last of N, without gaps"
        )
    return tuple(shards)


def compute_sha256(path: Path) -> str:
    """Return the SHA-256 of a file's current bytes."""
    with open_regular(path, MAX_FILE_BYTES) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def get_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, cached if its size and modification time have not changed."""
    known = cached_sha256(path)
    if known is not None:
        return known
    before = path.stat()
    sha256 = compute_sha256(path)
    now = path.stat()
    if (before.st_size, before.st_mtime_ns) == (now.st_size, now.st_mtime_ns):
        store_sha256(path, sha256)
    return sha256


def store_sha256(path: Path, sha256: str) -> None:
    """Cache the SHA-256 of a file together with its size and modification time."""
    stat = path.stat()
    entry = {"path": str(path), "size": stat.st_size, "mtime_ns": stat.st_mtime_ns}
    with suppress(OSError, RecordError):  # without a cache, hashing takes longer
        file = _cache_file(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_file(file, json.dumps({**entry, "sha256": sha256}))


def remove_sha256(path: Path) -> None:
    """Remove the cached SHA-256 of a file."""
    with suppress(OSError):
        _cache_file(path).unlink(missing_ok=True)


def cached_sha256(path: Path) -> str | None:
    """Return the cached SHA-256 of a file that has not changed since, or None."""
    try:
        entry = read_json(_cache_file(path))
        stat = path.stat()
        key = (entry["path"], entry["size"], entry["mtime_ns"])
        if key == (str(path), stat.st_size, stat.st_mtime_ns) and len(entry["sha256"]) == 64:
            return str(entry["sha256"])
    except (OSError, ValueError, KeyError, TypeError):
        pass  # missing or damaged
    return None


def _cache_file(path: Path) -> Path:
    key = hashlib.sha256(str(path).encode()).hexdigest()[:32]
    return cache_folder() / "hashes" / f"{key}.json"
