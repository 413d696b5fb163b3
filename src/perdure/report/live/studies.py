"""The progress of the studies in a store, from the runs they list."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from ...record.io.safe_folder import open_folder, read_file
from .list_row import escape_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .list_row import ListRow

__all__ = ["StudyProgress", "StudyRuns", "count_progress", "find_studies"]

MAX_JSON = 16 << 20
MAX_STUDIES = 50
STUDY = ".study.json"


class StudyRuns(msgspec.Struct, frozen=True):
    """The runs of a study that are known so far, and how many more will follow."""

    name: str
    runs: tuple[str, ...]
    later: int = 0


class StudyProgress(msgspec.Struct, frozen=True):
    """The number of runs of a study by status."""

    name: str
    done: int
    running: int
    failed: int
    waiting: int


class _StudyFile(msgspec.Struct):
    runs: list[str] = []
    later: int = 0


def find_studies(path: str, prefix: str = "") -> list[StudyRuns]:
    """Return the studies in a folder; `prefix` is put before the names of its runs."""
    studies: dict[str, StudyRuns] = {}
    try:
        with open_folder(path) as folder, os.scandir(folder) as entries:
            names = [entry.name for entry in entries if entry.name.endswith(STUDY)]
            for file in sorted(names)[: 2 * MAX_STUDIES]:
                name = prefix + escape_name(file.removesuffix(STUDY))
                study = _read_study(folder, file, name, prefix)
                if study.runs or study.later:
                    studies[name] = study
    except OSError:
        return []
    return list(studies.values())[:MAX_STUDIES]


def _read_study(folder: int, file: str, name: str, prefix: str) -> StudyRuns:
    try:
        contents = msgspec.json.decode(read_file(folder, file, MAX_JSON), type=_StudyFile)
    except (OSError, ValueError, RecursionError):
        return StudyRuns(name, ())
    runs = tuple(dict.fromkeys(prefix + escape_name(run) for run in contents.runs))
    return StudyRuns(name, runs, min(max(contents.later, 0), 10**6))


def count_progress(study: StudyRuns, listing: Mapping[str, ListRow]) -> StudyProgress:
    """Return the number of a study's runs by status.

    Example:
        >>> from perdure.report.live.list_row import ListRow
        >>> listing = {"a": ListRow("a", state="finished")}
        >>> count_progress(StudyRuns("s", ("a", "b"), later=3), listing)
        StudyProgress(name='s', done=1, running=0, failed=0, waiting=4)
    """
    rows = [listing.get(run) for run in study.runs]
    count = Counter("interrupted" if row is None else row.state for row in rows)
    return StudyProgress(
        study.name, count["finished"], count["running"], count["failed"],
        count["interrupted"] + study.later,
    )  # fmt: skip
