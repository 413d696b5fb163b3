"""Pinned datasets: the commit of each repository, and the size and SHA-256 of its files.

`make pins` writes pins.json once, after the data have been reviewed. From then on other files are
rejected before anything is downloaded.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from ..record import InputError
from ._hub import RemoteDataset, RemoteFile, list_files
from .registry import DATASETS, DatasetInfo

__all__ = ["check_offer", "find_pin", "max_dataset_bytes"]

PINS_FILE = Path(__file__).with_name("pins.json")
MAX_FILES = 100  # per dataset


@cache
def _read_pins() -> dict[str, RemoteDataset]:
    pins = json.loads(PINS_FILE.read_bytes())
    return {
        repository: RemoteDataset(
            repository, pin["commit"], {n: RemoteFile(*file) for n, file in pin["files"].items()}
        )
        for repository, pin in pins.items()
    }


def find_pin(repository: str) -> RemoteDataset | None:
    """Return the pinned commit and files of a repository, or None if it is not pinned."""
    return _read_pins().get(repository)


def check_offer(remote: RemoteDataset, info: DatasetInfo) -> None:
    """Raise if the hub offers other files than pinned, or more bytes than the dataset can have."""
    pin = find_pin(remote.repository)
    if pin is not None and remote.commit == pin.commit:
        for name in sorted({*remote.files, *pin.files}):
            offered, expected = remote.files.get(name), pin.files.get(name)
            if offered != expected:
                raise InputError(
                    f"{remote.repository}: the hub offers {_describe(offered)} as {name}, expected "
                    f"{_describe(expected)}; nothing was downloaded, check HF_ENDPOINT"
                )
    total, limit = sum(file.size for file in remote.files.values()), max_dataset_bytes(info)
    count = len(remote.files)
    if total > limit or count > MAX_FILES:
        raise InputError(
            f"{remote.repository}: the hub offers {count} files of {total:,} bytes, expected at "
            f"most {MAX_FILES} of {limit:,}; nothing was downloaded, check HF_ENDPOINT"
        )


def max_dataset_bytes(info: DatasetInfo) -> int:
    """Return an upper bound of the size of a dataset's files.

    Example:
        >>> max_dataset_bytes(DATASETS["mnist"])
        181440000
    """
    channels, height, width = info.shape
    image_bytes = info.image_bytes or 2 * channels * height * width + 1024
    return ((info.train or 0) + (info.test or 0)) * image_bytes


def _describe(file: RemoteFile | None) -> str:
    return "nothing" if file is None else f"{file.size:,} bytes with sha256 {file.sha256[:16]}…"


def main() -> None:
    """Write pins.json with what the hub offers today for every named dataset."""
    pins = {}
    for info in DATASETS.values():
        if info.repository is not None and info.files is not None:
            remote = list_files(info.repository, info.files, None)
            check_offer(remote, info)
            pins[info.repository] = {"commit": remote.commit, "files": remote.files}
    PINS_FILE.write_text(json.dumps(pins, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
