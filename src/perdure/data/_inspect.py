"""What is where, and whether it still is what it was."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from ..record import read_json
from ._decoded import decoded_folder
from ._files import forget, hash_of, remembered, sha256_of
from ._known import checked
from ._table import DATASETS
from .paths import SPLITS, find, source_json

if TYPE_CHECKING:
    from pathlib import Path

    from .paths import DatasetFiles

__all__ = ["DatasetLocation", "FileCheck", "locate", "verify"]


@dataclass(frozen=True)
class DatasetLocation:
    """Where a dataset is now: its files with their SHA-256, and what was decoded from them."""

    name: str
    source: Literal["bundled", "cache", "mirror", "hub", "nowhere"]  # hub: to be fetched
    folder: Path | None = None
    of: str | None = None  # the whole dataset that this one is cut from
    repository: str | None = None
    commit: str | None = None
    sha256: dict[str, str] = field(default_factory=dict)
    decoded: tuple[Path, ...] = ()


class FileCheck(NamedTuple):
    """A file and how it is: right, differs, or unknown where there is nothing to compare with."""

    path: Path
    state: Literal["right", "differs", "unknown"]
    why: str


def locate(name: str, *, hashed: bool = True) -> DatasetLocation:
    """Return where a dataset is now, without fetching or decoding anything.

    Example:
        >>> locate("digits").source
        'bundled'
    """
    if name == "digits":
        return DatasetLocation(name, "bundled")
    whole, found = _found(name)
    repository = DATASETS[whole].repository
    of = None if whole == name else whole
    if found is None:
        return DatasetLocation(
            name, "hub" if repository else "nowhere", of=of, repository=repository
        )
    hashes = {
        split: [sha256_of(path) for path in found.files[split]] if hashed else []
        for split in SPLITS
    }
    folders = [decoded_folder(whole, split, DATASETS[whole], hashes[split]) for split in SPLITS]
    said = source_json(found.folder)
    return DatasetLocation(
        name, found.source, found.folder, of, said.get("repository"), said.get("commit"),
        {
            path.name: value
            for split in SPLITS
            for path, value in zip(found.files[split], hashes[split], strict=False)
        },
        tuple(path for folder in folders if folder.is_dir() for path in sorted(folder.iterdir())),
    )  # fmt: skip


def verify(name: str) -> list[FileCheck]:
    """Return a check of every file of a dataset, each read anew; none if it is not on disk."""
    if name == "digits":
        return []
    whole, found = _found(name)
    if found is None:
        return []
    known = source_json(found.folder).get("files", {})
    checks = []
    for split in SPLITS:
        now = []
        for path in found.files[split]:
            now.append(hash_of(path))
            said = known.get(path.name, {}).get("sha256")
            checks.append(_compared(path, now[-1], said, "source.json"))
        checks += _decoded(decoded_folder(whole, split, DATASETS[whole], now))
    missing = set(known) - {path.name for split in SPLITS for path in found.files[split]}
    checks += [FileCheck(found.folder / file, "differs", "is missing") for file in sorted(missing)]
    return checks


def _found(name: str) -> tuple[str, DatasetFiles | None]:
    """Return the name and place of a dataset or, where it is not here, of the whole of it."""
    cut, found = checked(name).cut, find(name)
    if found is None and cut is not None:
        return cut.of, find(cut.of)
    return name, found


def _compared(path: Path, now: str, said: str | None, by: str) -> FileCheck:
    before = remembered(path)
    if said is None:
        said, by = before, "when it was last read, at the same size and time"
    if before not in (None, now):
        forget(path)  # what is decoded from it next is then decoded from what it is now
    if said is None:
        return FileCheck(path, "unknown", f"nothing to compare with; sha256 is {now}")
    if said != now:
        return FileCheck(path, "differs", f"sha256 is {now[:16]}…, expected {said[:16]}… ({by})")
    return FileCheck(path, "right", f"sha256 {now}")


def _decoded(folder: Path) -> list[FileCheck]:
    """Return checks of the arrays that were decoded from files with these hashes, if any."""
    if not folder.is_dir():
        return []
    try:
        hashes = read_json(folder / "about.json")["sha256"]
        known = {file: str(hashes[file]) for file in ("x.npy", "y.npy")}
        now = {file: hash_of(folder / file) for file in known}
    except (OSError, ValueError, KeyError, TypeError) as error:
        return [FileCheck(folder, "differs", f"is not whole ({error}); remove it")]
    return [
        FileCheck(folder / file, "right", f"sha256 {now[file]}")
        if now[file] == known[file]
        else FileCheck(
            folder / file, "differs",
            f"sha256 is {now[file][:16]}…, expected {known[file][:16]}… (about.json); remove "
            f"{folder}, it is then decoded anew",
        )
        for file in known
    ]  # fmt: skip
