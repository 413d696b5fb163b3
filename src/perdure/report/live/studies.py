"""How far the studies of a store are, by the runs that they name."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import msgspec

from ...record.io.safe_folder import open_folder, read_file
from .list_row import escape_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .list_row import ListRow

__all__ = ["StudyProgress", "StudyRuns", "count_progress", "find_studies"]

MAX_JSON = 16 << 20
MAX_STUDIES = 50
STUDY, KNOWN = ".study.json", ".known.json"


class StudyRuns(msgspec.Struct, frozen=True):
    """The runs of a study that can be named by now, and how many more there will be."""

    name: str
    runs: tuple[str, ...]
    later: int = 0


class StudyProgress(msgspec.Struct, frozen=True):
    """A study's runs by how they stand."""

    name: str
    done: int
    running: int
    failed: int
    waiting: int


class _File(msgspec.Struct):
    runs: list[str] = []
    later: int = 0


def find_studies(path: str, before: str = "") -> list[StudyRuns]:
    """Return the studies of a folder; `before` comes before the names of its runs."""
    found: dict[str, StudyRuns] = {}
    try:
        with open_folder(path) as folder, os.scandir(folder) as entries:
            names = [e.name for e in entries if e.name.endswith((STUDY, KNOWN))]
            for file in sorted(names)[: 2 * MAX_STUDIES]:  # known, then study, which says more
                name = before + escape_name(file.removesuffix(STUDY).removesuffix(KNOWN))
                wanted = _wanted(folder, file, name, before)
                if wanted.runs or wanted.later:
                    found[name] = wanted
    except OSError:
        return []
    return list(found.values())[:MAX_STUDIES]


def _wanted(folder: int, file: str, name: str, before: str) -> StudyRuns:
    try:
        said = msgspec.json.decode(read_file(folder, file, MAX_JSON), type=_File)
    except (OSError, ValueError, RecursionError):
        return StudyRuns(name, ())
    runs = tuple(dict.fromkeys(before + escape_name(run) for run in said.runs))
    return StudyRuns(name, runs, min(max(said.later, 0), 10**6))


def count_progress(study: StudyRuns, listing: Mapping[str, ListRow]) -> StudyProgress:
    """Return how a study's runs stand.

    Example:
        >>> from perdure.report.live.list_row import ListRow
        >>> listing = {"a": ListRow("a", state="finished")}
        >>> count_progress(StudyRuns("s", ("a", "b"), later=3), listing)
        StudyProgress(name='s', done=1, running=0, failed=0, waiting=4)
    """
    count: dict[str, Any] = dict.fromkeys(("finished", "running", "failed", "interrupted"), 0)
    for run in study.runs:
        row = listing.get(run)
        count["interrupted" if row is None else row.state] += 1
    return StudyProgress(
        study.name, count["finished"], count["running"], count["failed"],
        count["interrupted"] + study.later,
    )  # fmt: skip
