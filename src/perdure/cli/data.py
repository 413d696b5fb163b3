"""`perdure data`: which datasets there are, where they are, and whether they are whole."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from cyclopts import App

from ..data import DATASETS, locate, verify
from ..data import fetch as fetch_one
from ..record import InputError
from ..report.tables import TextTable
from ._options import Flag, TextFormat
from ._output import print_json, print_lines, print_stderr

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..data import DatasetInfo, DatasetLocation, FetchResult

__all__ = ["data_app"]

data_app = App(name="data", help="List, fetch, find and verify datasets.")


@data_app.command(name="list")
def list_(*, format_: TextFormat = "text") -> None:
    """List every dataset: what it is, its size, licence, and where it is now.

    Args:
        format_: how to print the result.
    """
    states = {name: _state(name) for name in DATASETS}
    if format_ == "json":
        print_json({name: _described(name, states[name]) for name in DATASETS})
        return
    rows = [
        [name, info.about, _counts(info), str(info.classes), info.licence, states[name]]
        for name, info in DATASETS.items()
    ]
    header = ["name", "what", "train / test", "classes", "licence", "where"]
    TextTable(header, rows, right={"train / test", "classes"}).show(sys.stdout)


@data_app.command
def fetch(
    *names: str, revision: str | None = None, force: Flag = False, format_: TextFormat = "text"
) -> int:
    """Download datasets into the cache, unless they are here. Goes on where it was interrupted.

    Args:
        names: of datasets, as `perdure data list` has them.
        revision: a branch, tag or commit of the repository; without it the newest.
        force: download again even if it is here.
        format_: how to print the result.
    """
    if not names:
        raise InputError("fetch which dataset? Give a name; `perdure data list` has them")
    if revision is not None and len(names) > 1:
        raise InputError("--revision is of one repository: give one name")
    found = []
    try:
        for name in names:
            found.append(fetch_one(name, revision=revision, force=force))
            if format_ != "json":
                print_lines(_told(name, found[-1]))
    except KeyboardInterrupt:
        print_stderr("interrupted; what has come is kept, the next fetch goes on")
        return 130
    if format_ == "json":
        print_json([one._asdict() for one in found])
    return 0


@data_app.command(name="where")
def where_(*names: str, format_: TextFormat = "text") -> None:
    """Say where datasets are: source, folder, files with their sha256, and decoded arrays.

    Args:
        names: of datasets; without any, those that are here.
        format_: how to print the result.
    """
    places = [locate(name) for name in _asked(names)]
    if format_ == "json":
        print_json([vars(place) for place in places])
        return
    for place in places:
        print_lines(f"{place.name}: {_place(place)}")
        for file, sha256 in place.sha256.items():
            print_lines(f"  {file}  sha256 {sha256}")
        for folder in dict.fromkeys(path.parent for path in place.decoded):
            print_lines(f"  decoded: {folder}")


@data_app.command(name="verify")
def verify_(*names: str, format_: TextFormat = "text") -> int:
    """Read every file anew and compare it with what was fetched and decoded; 1 if one differs.

    Args:
        names: of datasets; without any, those that are here.
        format_: how to print the result.
    """
    checks = {name: verify(name) for name in _asked(names)}
    if format_ == "json":
        print_json({name: [one._asdict() for one in found] for name, found in checks.items()})
    else:
        for name, found in checks.items():
            for one in found:
                print_lines(f"{name}: {one.state}: {one.path}: {one.why}")
            if not found:
                print_lines(f"{name}: no files to verify: {_place(locate(name))}")
    return int(any(one.state == "differs" for found in checks.values() for one in found))


def _asked(names: Sequence[str]) -> list[str]:
    return list(names) or [name for name in DATASETS if _state(name) in ("cache", "mirror")]


def _state(name: str) -> str:
    try:
        place = locate(name, hashed=False)
    except InputError:
        return "incomplete"
    return {"hub": "to fetch", "nowhere": "to provide"}.get(place.source, place.source)


def _place(place: DatasetLocation) -> str:
    if place.source == "bundled":
        return "bundled with scikit-learn"
    if place.source == "nowhere":
        return "not here; " + (DATASETS[place.name].provide or f"see {place.of}")
    if place.source == "hub":
        return f"not here; run `perdure data fetch {place.name}` (from {place.repository})"
    cut = f", cut from {place.of}" if place.of else ""
    commit = f", {place.repository} at {place.commit}" if place.commit else ""
    return f"{place.source}, {place.folder}{cut}{commit}"


def _told(name: str, found: FetchResult) -> str:
    if found.source == "bundled":
        return f"{name}: bundled with scikit-learn, nothing to fetch"
    cut = "" if found.name == name else f" as {found.name}"
    at = f" ({found.repository} at {found.commit})" if found.commit else ""
    if found.source == "hub":
        files = f"{len(found.files)} files, {found.fetched:,} bytes"
        return f"{name}: fetched{cut}, {files}, into {found.folder}{at}"
    return f"{name}: here already{cut}, in {found.folder}{at}; --force downloads it again"


def _counts(info: DatasetInfo) -> str:
    return " / ".join("?" if n is None else f"{n:,}" for n in (info.train, info.test))


def _described(name: str, state: str) -> dict[str, Any]:
    info = DATASETS[name]
    keys = ("about", "licence", "shape", "classes", "train", "test", "repository", "provide")
    return {key: getattr(info, key) for key in keys} | {"where": state}
