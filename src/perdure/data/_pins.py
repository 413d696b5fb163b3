"""Which bytes each named dataset is: a commit of its repository, size and SHA-256 of its files.

They stand in pins.json, written by `make pins` from the hub, once, by whoever has judged the data;
everybody else is refused other bytes before anything is downloaded.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from ..record import InputError
from ._hub import Remote, RemoteFile, look
from ._table import DATASETS, DatasetInfo

__all__ = ["check", "most_bytes", "pinned"]

FILE = Path(__file__).with_name("pins.json")
MOST_FILES = 100  # of a dataset


@cache
def _pins() -> dict[str, Remote]:
    said = json.loads(FILE.read_bytes())
    return {
        repository: Remote(
            repository, pin["commit"], {n: RemoteFile(*file) for n, file in pin["files"].items()}
        )
        for repository, pin in said.items()
    }


def pinned(repository: str) -> Remote | None:
    """Return what a repository was when it was pinned, None where it was not."""
    return _pins().get(repository)


def check(remote: Remote, info: DatasetInfo) -> None:
    """Raise unless a hub offers what was pinned, or at least no more than the dataset can be."""
    pin = pinned(remote.repository)
    if pin is not None and remote.commit == pin.commit:
        for name in sorted({*remote.files, *pin.files}):
            offered, expected = remote.files.get(name), pin.files.get(name)
            if offered != expected:
                raise InputError(
                    f"{remote.repository}: the hub offers {_shown(offered)} as {name}, expected "
                    f"{_shown(expected)}; nothing was downloaded, check HF_ENDPOINT"
                )
    total, most = sum(file.size for file in remote.files.values()), most_bytes(info)
    count = len(remote.files)
    if total > most or count > MOST_FILES:
        raise InputError(
            f"{remote.repository}: the hub offers {count} files of {total:,} bytes, expected at "
            f"most {MOST_FILES} of {most:,}; nothing was downloaded, check HF_ENDPOINT"
        )


def most_bytes(info: DatasetInfo) -> int:
    """Return more bytes than a dataset's files can have.

    Example:
        >>> most_bytes(DATASETS["mnist"])
        181440000
    """
    channels, height, width = info.shape
    each = info.image_bytes or 2 * channels * height * width + 1024
    return ((info.train or 0) + (info.test or 0)) * each


def _shown(file: RemoteFile | None) -> str:
    return "nothing" if file is None else f"{file.size:,} bytes with sha256 {file.sha256[:16]}…"


def main() -> None:
    """Write pins.json: what the hub offers today, for every named dataset."""
    pins = {}
    for info in DATASETS.values():
        if info.repository is not None and info.files is not None:
            remote = look(info.repository, info.files, None)
            check(remote, info)
            pins[info.repository] = {"commit": remote.commit, "files": remote.files}
    FILE.write_text(json.dumps(pins, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
