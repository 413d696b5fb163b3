"""How far the studies of a store are, by the runs that they name."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import msgspec

from .list_row import shown
from .safe_paths import opened, read_small

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .list_row import Row

__all__ = ["Progress", "Wanted", "progress_of", "studies_in"]

MAX_JSON = 16 << 20
MOST = 50
STUDY, KNOWN = ".study.json", ".known.json"


class Wanted(msgspec.Struct, frozen=True):
    """The runs of a study that can be named by now, and how many more there will be."""

    name: str
    runs: tuple[str, ...]
    later: int = 0


class Progress(msgspec.Struct, frozen=True):
    """A study's runs by how they stand."""

    name: str
    done: int
    running: int
    failed: int
    waiting: int


class _File(msgspec.Struct):
    runs: list[str] = []
    later: int = 0


def studies_in(path: str, before: str = "") -> list[Wanted]:
    """Return the studies of a folder; `before` comes before the names of its runs."""
    found: dict[str, Wanted] = {}
    try:
        with opened(path) as folder, os.scandir(folder) as entries:
            names = [e.name for e in entries if e.name.endswith((STUDY, KNOWN))]
            for file in sorted(names)[: 2 * MOST]:  # known, then study, which says more
                name = before + shown(file.removesuffix(STUDY).removesuffix(KNOWN))
                wanted = _wanted(folder, file, name, before)
                if wanted.runs or wanted.later:
                    found[name] = wanted
    except OSError:
        return []
    return list(found.values())[:MOST]


def _wanted(folder: int, file: str, name: str, before: str) -> Wanted:
    try:
        said = msgspec.json.decode(read_small(folder, file, MAX_JSON), type=_File)
    except (OSError, ValueError, RecursionError):
        return Wanted(name, ())
    runs = tuple(dict.fromkeys(before + shown(run) for run in said.runs))
    return Wanted(name, runs, min(max(said.later, 0), 10**6))


def progress_of(study: Wanted, listing: Mapping[str, Row]) -> Progress:
    """Return how a study's runs stand.

    Example:
        >>> from perdure.report.live.list_row import Row
        >>> progress_of(Wanted("s", ("a", "b"), later=3), {"a": Row("a", state="finished")})
        Progress(name='s', done=1, running=0, failed=0, waiting=4)
    """
    count: dict[str, Any] = dict.fromkeys(("finished", "running", "failed", "interrupted"), 0)
    for run in study.runs:
        row = listing.get(run)
        count["interrupted" if row is None else row.state] += 1
    return Progress(
        study.name, count["finished"], count["running"], count["failed"],
        count["interrupted"] + study.later,
    )  # fmt: skip
