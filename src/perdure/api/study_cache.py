"""The status of a finished study, stored with its runs, so that reading it needs no PyTorch."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from .. import __version__
from ..record import RecordError, RunFolder, read_file, read_json, replace_file

if TYPE_CHECKING:
    from pathlib import Path

    from ..studies import Study, StudyStatus

__all__ = ["FinishedStudy", "load_finished_study", "save_finished_study"]

MAX_STUDY_BYTES = 1 << 20  # as in `studies.read_study`, which needs PyTorch


class FinishedStudy(NamedTuple):
    """The number of finished runs of a study, and how many of them belong to searches."""

    finished: int
    searched: int


def save_finished_study(file: Path, store: Path, study: Study, status: StudyStatus) -> None:
    """Write which runs make up a finished study into its store."""
    from ..scenarios import SCENARIOS, is_own

    named = (*study.strategies, *study.models)
    is_own_work = any(":" in name for name in named) or any(
        is_own(name, SCENARIOS) for name in study.scenarios
    )
    if not status.successful or is_own_work:  # it may change
        return
    runs = sorted(folder.name for folders in status.done.values() for folder in folders)
    plain = {
        "of": _fingerprint(file), "runs": runs, "finished": status.finished,
        "searched": status.searched,
    }  # fmt: skip
    with suppress(RecordError):  # the store may be read-only
        replace_file(store / f"{study.name}.known.json", json.dumps(plain) + "\n")


def load_finished_study(file: Path, store: Path) -> FinishedStudy | None:
    """Return what `save_finished_study` wrote if it is of this file and all runs are there."""
    try:
        plain = read_json(store / f"{file.stem}.known.json")
        if plain["of"] != _fingerprint(file):
            return None
        finished, searched = plain["finished"], plain["searched"]
        if not (isinstance(finished, int) and isinstance(searched, int)):
            return None
        complete = all(RunFolder(f"{store}/{name}").is_finished() for name in plain["runs"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return FinishedStudy(finished, searched) if complete else None


def _fingerprint(file: Path) -> list[str]:
    return [__version__, hashlib.sha256(read_file(file, MAX_STUDY_BYTES)).hexdigest()]
