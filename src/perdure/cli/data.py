"""`perdure data`: lists, downloads, locates and verifies datasets."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from cyclopts import App

from ..data import DATASETS, locate, verify
from ..data import fetch as fetch_one
from ..record import InputError
from ..report.tables import TextTable
from ._options import DatasetName, Flag, TextFormat
from ._output import print_json, print_lines, print_stderr, print_wrapped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..data import DatasetInfo, DatasetLocation, FetchResult

__all__ = ["data_app"]

data_app = App(name="data", help="List, download, locate and verify datasets.")


@data_app.command(name="list")
def list_(*, format_: TextFormat = "text") -> None:
    """List the datasets with their sizes, licences and current locations.

    Args:
        format_: Output format.
    """
    states = {name: _state(name) for name in DATASETS}
    if format_ == "json":
        print_json({name: _as_dict(name, states[name]) for name in DATASETS})
        return
    rows = [
        [name, info.about, _counts(info), str(info.classes), info.licence, states[name]]
        for name, info in DATASETS.items()
    ]
    header = ["name", "what", "train / test", "classes", "licence", "where"]
    TextTable(header, rows, right={"train / test", "classes"}).show(sys.stdout)
    print_lines("")
    print_wrapped("train / test: of the complete dataset; a mirror may hold a part of it", "  ")


@data_app.command
def fetch(
    *names: DatasetName,
    revision: str | None = None,
    force: Flag = False,
    format_: TextFormat = "text",
) -> int:
    """Download datasets into the cache unless they are present; an interrupted download resumes.

    Args:
        names: Names of datasets; see `perdure data list`.
        revision: Branch, tag or commit of the repository. Defaults to the newest.
        force: Download again even if the dataset is present.
        format_: Output format.
    """
    if not names:
        raise InputError("fetch which dataset? Give a name; see `perdure data list`")
    if revision is not None and len(names) > 1:
        raise InputError("--revision belongs to one repository, expected one name")
    results = []
    try:
        for name in names:
            results.append(fetch_one(name, revision=revision, force=force))
            if format_ != "json":
                print_lines(_describe_result(name, results[-1]))
    except KeyboardInterrupt:
        print_stderr("interrupted; the same command resumes the download")
        return 130
    if format_ == "json":
        print_json([result._asdict() for result in results])
    return 0


@data_app.command(name="where")
def where_(*names: DatasetName, format_: TextFormat = "text") -> None:
    """Print where datasets are: source, folder, files with their sha256, and decoded arrays.

    Args:
        names: Names of datasets. Defaults to all that are present.
        format_: Output format.
    """
    locations = [locate(name) for name in _selected(names)]
    if format_ == "json":
        print_json([vars(location) for location in locations])
        return
    for location in locations:
        print_lines(f"{location.name}: {_describe_location(location)}")
        for file, sha256 in location.sha256.items():
            print_lines(f"  {file}  sha256 {sha256}")
        for folder in dict.fromkeys(path.parent for path in location.decoded):
            print_lines(f"  decoded: {folder}")


@data_app.command(name="verify")
def verify_(*names: DatasetName, format_: TextFormat = "text") -> int:
    """Compare every file with its recorded sha256, and exit with code 1 if one differs.

    Args:
        names: Names of datasets. Defaults to all that are present.
        format_: Output format.
    """
    checks = {name: verify(name) for name in _selected(names)}
    if format_ == "json":
        print_json({name: [check._asdict() for check in files] for name, files in checks.items()})
    else:
        for name, files in checks.items():
            for check in files:
                print_lines(f"{name}: {check.state}: {check.path}: {check.why}")
            if not files:
                print_lines(f"{name}: no files to verify: {_describe_location(locate(name))}")
    return int(any(check.state == "differs" for files in checks.values() for check in files))


def _selected(names: Sequence[str]) -> list[str]:
    return list(names) or [name for name in DATASETS if _state(name) in ("cache", "mirror")]


def _state(name: str) -> str:
    try:
        location = locate(name, hashed=False)
    except InputError:
        return "incomplete"
    return {"hub": "to fetch", "nowhere": "to provide"}.get(location.source, location.source)


def _describe_location(location: DatasetLocation) -> str:
    if location.source == "bundled":
        return "bundled with scikit-learn"
    if location.source == "nowhere":
        return "not here; " + (DATASETS[location.name].provide or f"see {location.of}")
    if location.source == "hub":
        return f"not here; run `perdure data fetch {location.name}` (from {location.repository})"
    part = f", part of {location.of}" if location.of else ""
    commit = f", {location.repository} at {location.commit}" if location.commit else ""
    return f"{location.source}, {location.folder}{part}{commit}"


def _describe_result(name: str, result: FetchResult) -> str:
    if result.source == "bundled":
        return f"{name}: bundled with scikit-learn, nothing to fetch"
    part = "" if result.name == name else f" as {result.name}"
    at = f" ({result.repository} at {result.commit})" if result.commit else ""
    if result.source == "hub":
        files = f"{len(result.files)} files, {result.fetched:,} bytes"
        return f"{name}: fetched{part}, {files}, into {result.folder}{at}"
    return f"{name}: here already{part}, in {result.folder}{at}; --force downloads it again"


def _counts(info: DatasetInfo) -> str:
    return " / ".join("?" if n is None else f"{n:,}" for n in (info.train, info.test))


def _as_dict(name: str, state: str) -> dict[str, object]:
    info = DATASETS[name]
    keys = ("about", "licence", "shape", "classes", "train", "test", "repository", "provide")
    return {key: getattr(info, key) for key in keys} | {"where": state}
