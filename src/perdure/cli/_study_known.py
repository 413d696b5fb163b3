"""A study that is finished is known by its runs' names, so that asking needs no PyTorch."""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..record import RecordError, read_file, read_json, replace_file

if TYPE_CHECKING:
    from pathlib import Path

    from ..studies import Study, StudyStatus

__all__ = ["recall", "remember"]

MAX_STUDY = 1 << 20  # bytes, as `studies.read_study` has it, which takes PyTorch


def remember(file: Path, store: Path, study: Study, found: StudyStatus) -> None:
    """Write down which runs make up a study that is finished, in its store."""
    own = any(":" in name for name in (*study.strategies, *study.models))  # their code may change
    if not found.successful or own:
        return
    runs = sorted(folder.name for folders in found.done.values() for folder in folders)
    said = {
        "of": _of(file), "runs": runs, "finished": found.finished,
        "searched": found.searched,
    }  # fmt: skip
    with suppress(RecordError):  # a store that may only be read
        replace_file(store / f"{study.name}.known.json", json.dumps(said) + "\n")


def recall(file: Path, store: Path) -> dict[str, Any] | None:
    """Return what `remember` wrote if it is of this file and all the runs are there; else None."""
    try:
        said: dict[str, Any] = read_json(store / f"{file.stem}.known.json")
        if said["of"] != _of(file):
            return None
        if not all(isinstance(said[name], int) for name in ("finished", "searched")):
            return None
        there = all(os.path.exists(f"{store}/{name}/done.json") for name in said["runs"])  # noqa: PTH110 - ten thousand
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return said if there else None


def _of(file: Path) -> list[str]:
    return [__version__, hashlib.sha256(read_file(file, MAX_STUDY)).hexdigest()]
