"""Where a dataset is, and whether its files are intact."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from ..record import read_json
from ._decoding import decoded_folder
from ._hashes import cached_sha256, compute_sha256, get_sha256, remove_sha256
from .paths import SPLITS, find_subset_files, read_source_info
from .registry import DATASETS, find_dataset

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["DatasetLocation", "FileCheck", "locate", "verify"]


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
    """Return checks of the arrays that were decoded from the files, if any."""
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
