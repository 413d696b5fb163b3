"""Where a dataset's files are: the cache, then a local mirror, both laid out alike."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ..record import InputError, read_json

__all__ = [
    "SPLITS",
    "DatasetFiles",
    "cache_folder",
    "find",
    "layout",
    "mirror_folder",
    "source_json",
]

SPLITS = ("train", "test")


class DatasetFiles(NamedTuple):
    """A dataset's folder and the files of each split, in order."""

    source: Literal["cache", "mirror"]
    folder: Path
    files: dict[str, tuple[Path, ...]]


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


def find(name: str) -> DatasetFiles | None:
    """Return where the files of a dataset are now, or None; nothing is downloaded."""
    places: list[tuple[Literal["cache", "mirror"], Path | None]]
    places = [("cache", cache_folder()), ("mirror", mirror_folder())]
    for source, place in places:
        if place is None:
            continue
        try:
            files = {split: _shards(place / name, split) for split in SPLITS}
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise InputError(f"{place / name}: cannot be read ({why:.80})") from None
        there = [split for split in SPLITS if files[split]]
        if len(there) == len(SPLITS):
            return DatasetFiles(source, place / name, files)
        if there:
            missing = next(split for split in SPLITS if split not in there)
            raise InputError(
                f"{place / name}: {there[0]} is there, {missing} is not; expected {layout(name)}"
            )
    return None


def layout(name: str) -> str:
    """Return in words how the files of a dataset lie in the cache or in a mirror."""
    return (
        f"{name}/train.parquet and {name}/test.parquet (or shards train-00000-of-00002.parquet …; "
        "columns image = struct of bytes (PNG or JPEG) and path, label = int64, class names in "
        "the huggingface metadata)"
    )


def source_json(folder: Path) -> dict[str, Any]:
    """Return what stands in source.json beside the files; nothing if there is none."""
    path = folder / "source.json"
    try:
        found = read_json(path)
        files = found["files"]
        if not all(isinstance(each["sha256"], str) for each in files.values()):
            raise TypeError
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise InputError(
            f"{path}: is not what `perdure data fetch` writes; remove it, or fetch with --force"
        ) from None
    return dict(found)


def _shards(folder: Path, split: str) -> tuple[Path, ...]:
    """Return the file of a split, or all its shards in order, or nothing."""
    whole = folder / f"{split}.parquet"
    if whole.is_file():
        return (whole,)
    shards = sorted(folder.glob(f"{split}-*-of-*.parquet"))
    if not shards:
        return ()
    found = [re.fullmatch(rf"{split}-(\d+)-of-(\d+)\.parquet", path.name) for path in shards]
    numbers = [(int(match[1]), int(match[2])) for match in found if match]
    if numbers != [(k, len(shards)) for k in range(len(shards))]:
        raise InputError(
            f"{folder}: the shards of {split} are {', '.join(path.name for path in shards):.200}; "
            f"expected {split}-00000-of-N.parquet up to the last of N, without gaps"
        )
    return tuple(shards)
