"""Finding run folders, a glance at their files, and our own readers: all of `many` but DuckDB."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..metrics import ACCURACY
from .costs_file import COST_COLUMNS, read_costs
from .gradients_file import read_gradients
from .inputs import MAX_POINTS
from .io.files import MAX_JSON, InputError, find_matches, open_regular, parse_json, read_file
from .io.text import decode
from .points import KINDS
from .points_file import read_points
from .run_json import description_of, scale_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from ..metrics import ScoreScale

    Pattern = str | os.PathLike[str]
    Columns = dict[str, NDArray[Any]]

__all__ = ["Look", "Run", "find", "look", "read", "texts"]

HEADER = 4096  # bytes; no header that we know is longer
ODD = (b"\r", b"\0", b' "', b'" ', b",\n")  # DuckDB reads these, but not as csv.reader does


class Look(NamedTuple):
    """What a glance at a file shows; `plain` if it is whole and DuckDB reads it as we do."""

    header: tuple[str, ...]
    plain: bool
    has_lines: bool


class Run(NamedTuple):
    """A run folder; `finished` is None where no run.json says that the run is ours."""

    folder: Path
    points: Look
    finished: bool | None = None
    description: str | None = None
    scale: ScoreScale = ACCURACY


def find(pattern: Pattern | Iterable[Pattern]) -> tuple[list[Run], dict[str, str]]:
    """Return the runs among all that matches, and why the other matches are none."""
    runs: dict[Path, Run] = {}
    skipped: dict[str, str] = {}
    for match in _matches(pattern):
        folder = match.parent if match.name == "points.csv" and match.is_file() else match
        if folder.absolute() in runs:
            continue
        found = _open(folder)
        if isinstance(found, Run):
            runs[folder.absolute()] = found
        else:
            skipped[str(match)] = found
    if not runs:
        path, reason = next(iter(skipped.items()))
        others = f" (nor a run in {len(skipped) - 1} other matches)" if len(skipped) > 1 else ""
        raise InputError(
            f"{path}: {reason}{others}, expected run folders with a points.csv; name them by a "
            "pattern such as 'runs/*'"
        )
    return list(runs.values()), skipped


def _matches(pattern: Pattern | Iterable[Pattern]) -> Iterator[Path]:
    """Yield what is there under each name, or what it matches as a pattern."""
    several = [pattern] if isinstance(pattern, str | os.PathLike) else list(pattern)
    if not several:
        raise InputError("no run folders given, expected paths or a pattern such as 'runs/*'")
    for one in several:
        name = os.fspath(one)
        if name and Path(name).exists():  # a folder may be called a[1]
            yield Path(name)
            continue
        found = find_matches(name)
        if not found:
            raise InputError(
                f"{name!r}: matches nothing, expected run folders; check the path, or name them "
                "by a pattern such as 'runs/*'"
            )
        yield from map(Path, found)


def _open(folder: Path) -> Run | str:
    """Return the run in a folder, or why there is none."""
    points, described = folder / "points.csv", folder / "run.json"
    if not folder.is_dir():
        return "not a folder"
    if not points.is_file():
        return "no points.csv in it"
    try:
        str(folder.absolute()).encode()
    except UnicodeEncodeError:
        return "its name is not UTF-8 text"
    finished = (folder / "done.json").exists()  # asked first: from then on nothing grows
    glance = look(points)
    if not glance.has_lines:
        return "no evaluations in its points.csv yet"
    if not described.exists():
        return Run(folder, glance, finished or None)
    text = decode(read_file(described, MAX_JSON), str(described))
    said = description_of(parse_json(text, str(described)), described)
    scale = scale_of(said, described) or ACCURACY
    return Run(folder, glance, finished, text, scale)


def look(path: Path) -> Look:
    """Return what the bytes of a file say, without taking it apart."""
    with open_regular(path, MAX_POINTS) as file:
        head = last = file.readline(HEADER)
        plain = head.isascii() and b'"' not in head and not any(mark in head for mark in ODD)
        has_lines = b"\r" in head or len(head) == HEADER  # our reader says what that is
        begun = False
        while part := file.read(1 << 20):
            seam, last = last[-1:] + part, part
            plain = plain and not any(mark in seam for mark in ODD)
            line = part if begun else part.lstrip(b"\n")
            begun = bool(line)
            has_lines = has_lines or b"\n" in line or b"\r" in line
    header = tuple(name.strip() for name in head.decode(errors="replace").split(","))
    return Look(header, plain and last.endswith(b"\n"), has_lines)


def read(table: str, path: Path, run: Run) -> tuple[Columns, str | None]:
    """Return the columns of a run's file by our own reader, and a warning if it was cut off.

    Nothing is None in text and NaN or -1 in numbers. Raises InputError naming file and line.
    """
    name = str(run.folder / path.name)
    text = decode(read_file(path, MAX_POINTS), name, growing=True)
    if table == "points":
        return _points(text, name, run.scale, ours=run.description is not None)
    return (_costs if table == "costs" else _gradients)(text, name)


def texts(values: Iterable[object]) -> NDArray[np.object_]:
    """Return text as DuckDB takes it from NumPy, None for nothing."""
    return np.array(list(values), dtype=object)


def _points(text: str, name: str, scale: ScoreScale, *, ours: bool) -> tuple[Columns, str | None]:
    points = read_points(text, name, scale=scale, ours=ours)
    names = texts([*points.names, None])  # the last one serves -1, no task
    columns = {
        "step": points.step,
        "trained": names[points.trained],
        "tested": names[points.tested],
        "kind": texts(KINDS)[points.kind],
        "score": points.score,
        "n": np.where(points.n > 0, points.n, -1),
    }
    return columns, next(iter(points.notes), None)


def _costs(text: str, name: str) -> tuple[Columns, str | None]:
    costs, warning = read_costs(text, name, ours=True)
    nothing = np.full(len(costs.tasks), np.nan)
    found = {column: costs.columns.get(column, nothing) for column in COST_COLUMNS}
    return {"task": texts(costs.tasks), **found}, warning


def _gradients(text: str, name: str) -> tuple[Columns, str | None]:
    norms, warning = read_gradients(text, name)
    columns = {**vars(norms), "trained": texts(task or None for task in norms.trained)}
    return columns, warning
