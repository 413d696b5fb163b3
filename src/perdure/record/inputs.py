"""Anything that can be scored, opened: a matrix file, a points.csv, a run folder, or a pipe."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

import numpy as np

from ..metrics import ACCURACY, ScoreMatrix, UndefinedMetricError, find_metric, summary
from .costs_file import read_costs
from .io.files import InputError, open_stream, read_file, read_json, read_limited, unreadable
from .io.text import decode
from .matrix_file import MAX_LINE, parse_matrix, parse_vector
from .per_example_folder import (
    check_per_example,
    check_whole_sets,
    per_example_at_ends,
    read_per_example,
    read_whole_sets,
)
from .points_file import looks_like_points, read_points
from .run_index import FAILED

if TYPE_CHECKING:
    from ..metrics import Costs, PerExample, ScoreScale, Setting, Stream, Summary, SummaryOptions
    from .points import Points

__all__ = ["FAILED", "InputOptions", "ScoreInput", "failure_of", "read_input", "read_vector"]

MAX_POINTS = 1 << 30  # bytes
MAX_MATRIX = 128 << 20


@dataclass(frozen=True)
class InputOptions:
    """What the user says about a file: fields of ScoreMatrix, None where nothing was said."""

    transposed: bool = False
    percent: bool = False
    scale: ScoreScale | None = None
    setting: Setting | None = None
    classes: list[float] | None = None
    initial: list[float] | None = None
    joint: list[float] | None = None
    single: list[float] | None = None
    sizes: list[float] | None = None
    thin: int = 1
    upper: Literal["measured"] | None = None

    def fields(self) -> dict[str, Any]:
        """Return what was said, as arguments of ScoreMatrix; percent become fractions."""
        said: dict[str, Any] = {
            name: getattr(self, name)
            for name in ("setting", "classes", "sizes", "initial", "joint", "single")
            if getattr(self, name) is not None
        }
        for name in ("initial", "joint", "single"):
            if name in said:
                said[name] = self.fraction(said[name])
        return said

    def fraction(self, scores: Any) -> Any:
        """Return scores as the formulas want them: divided by 100 if they are percent."""
        return np.asarray(scores, dtype=np.float64) / 100 if self.percent else scores


@dataclass
class ScoreInput:
    """What a file or folder holds. `no_matrix` says why there is none.

    `per_example` has the results of the evaluations during training, `per_example_at_ends` those
    behind the matrix, with its rows as steps; `evaluation_data` has a fingerprint per task.
    """

    matrix: ScoreMatrix | None = None
    stream: Stream | None = None
    costs: Costs | None = None
    per_example: dict[str, PerExample] = field(default_factory=dict)
    per_example_at_ends: dict[str, PerExample] = field(default_factory=dict)
    evaluation_data: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    no_matrix: str = ""
    points: Points | None = None

    def summary(self, options: SummaryOptions | None = None) -> Summary:
        """Return every metric that this supports and, for the rest, why not."""
        found = summary(
            self.matrix, stream=self.stream, costs=self.costs, per_example=self.per_example,
            per_example_at_ends=self.per_example_at_ends, options=options,
        )  # fmt: skip
        if self.no_matrix:
            for id_ in found.undefined:
                if find_metric(id_).input == "matrix":
                    found.undefined[id_] = self.no_matrix
        found.notes = list(dict.fromkeys([*self.notes, *found.notes]))
        return found

    def show_percent(self) -> None:
        """Have figures and pages show the scores in percent."""
        for name in ("matrix", "stream", "points"):
            if (held := getattr(self, name)) is not None:
                setattr(self, name, replace(held, scale=replace(held.scale, percent=True)))

    def _repr_html_(self) -> str:
        shown = [each._repr_html_() for each in (self.matrix, self.stream) if each is not None]
        return "\n".join(shown) or escape(repr(self))


def read_input(
    path: str,
    given: InputOptions | None = None,
    *,
    pipe: BinaryIO | None = None,
    costs: Path | None = None,
    per_example: Path | Literal[False] | None = None,
) -> ScoreInput:
    r"""Return what the file or run folder at `path` holds; `-` reads `pipe`.

    `per_example` is a folder of per-example results; False skips the run's own, which only
    intervals need.

    Raises InputError with one line that names the file, the place, the value and what was expected.

    Example:
        >>> import io
        >>> read_input("-", pipe=io.BytesIO(b"0.9,0.1\n0.6,0.8\n")).matrix.scores[1, 0]
        np.float64(0.6)
    """
    given = given or InputOptions()
    try:
        if path != "-" and os.path.isdir(path):  # noqa: PTH112 - Path raises for odd names
            found = _read_run(Path(path), given, per_example=per_example is not False)
        else:
            found = _read_file(path, given, pipe)
        if costs is not None:
            _add_costs(found, costs, ours=False)
        if isinstance(per_example, Path):
            _add_per_example(found, per_example)
    except OSError as error:
        raise unreadable(path, error) from None
    return found


def failure_of(folder: Path) -> str | None:
    """Return why the run in a folder has failed, None if it has not."""
    if not os.path.lexists(folder / FAILED):
        return None
    try:
        return str(read_json(folder / FAILED)["error"])
    except (OSError, ValueError, KeyError, TypeError):
        return "it failed, and the reason cannot be read"


def read_vector(path: str) -> list[float]:
    """Return one number a task from a small file."""
    try:
        with open_stream(path) as file:
            return parse_vector(read_limited(file, path, MAX_MATRIX), path)
    except OSError as error:
        raise unreadable(path, error) from None


def _read_file(path: str, given: InputOptions, pipe: BinaryIO | None) -> ScoreInput:
    name = "standard input" if path == "-" else path
    if path == "-":
        if pipe is None:
            raise InputError("standard input: nothing to read")
        data = _bytes(pipe, name)
    else:
        ended = (Path(path).parent / "done.json").exists()
        with open_stream(path) as file:
            data = _bytes(file, name)
    if _is_points(data):
        folder = Path(path).parent
        if path != "-" and (folder / "run.json").exists():
            return _of_run(data, given, folder, name, ended=ended)
        return _from_points(_points(data, name, given, ours=False), given, {}, name)
    fields = parse_matrix(data, name, percent=given.percent, transposed=given.transposed)
    if given.percent and 0 < np.nanmax(np.append(fields["matrix"], 0)) <= 1:
        raise InputError(f"{name}: no score is above 1 percent, expected percent; drop --percent?")
    r = given.fraction(fields.pop("matrix"))
    for field_ in ("initial", "joint", "single"):
        if field_ in fields:
            fields[field_] = given.fraction(fields[field_])
    try:
        matrix = ScoreMatrix(
            r,
            transposed=given.transposed,
            scale=given.scale or ACCURACY,
            upper=given.upper,
            **(fields | given.fields()),
        )
    except (ValueError, TypeError) as error:
        raise InputError(f"{name}: {error}") from None
    return ScoreInput(matrix)


def _is_points(data: bytes) -> bool:
    first = data[:1000].decode("utf-8", errors="replace").lstrip("\ufeff").splitlines()[:1]
    return bool(first) and looks_like_points(first[0])


def _bytes(file: BinaryIO, name: str) -> bytes:
    """Return all of a file, read no further than anything that can be scored may reach."""
    head = file.read(2 * MAX_LINE)
    points = _is_points(head)
    text = head.lstrip()[:1] not in (b"[", b"{") and head[:2] not in (b"\x93N", b"PK")
    if text and not points and len(head) == 2 * MAX_LINE and not {10, 13} & set(head):
        raise InputError(
            f"{name} line 1: more than {MAX_LINE} characters, expected a row of scores"
        )
    return read_limited(file, name, MAX_POINTS if points else MAX_MATRIX, head)


def _points(data: bytes, name: str, given: InputOptions, *, ours: bool) -> Points:
    text = decode(data, name, growing=True)
    return read_points(text, name, scale=given.scale, percent=given.percent, ours=ours)


def _from_points(
    points: Points, given: InputOptions, described: dict[str, Any], name: str
) -> ScoreInput:
    found = ScoreInput(
        stream=points.stream(thin=given.thin), notes=list(points.notes), points=points
    )
    try:
        found.matrix = points.matrix(**(described | given.fields()))
    except UndefinedMetricError as reason:
        found.no_matrix = str(reason)
    except ValueError as error:
        raise InputError(f"{name}: {error}") from None
    return found


def _of_run(
    data: bytes, given: InputOptions, folder: Path, name: str, *, ended: bool
) -> ScoreInput:
    """Return what the points of our run in `folder` hold, with what it says of itself.

    A log of another tool is whole; only our runs say that they ended. Whether a run had `ended`
    must be asked before its points are read: a writer goes on in between.
    """
    from .run_json import described, read_description, scale_of  # a matrix needs no msgspec

    path = folder / "run.json"
    run = read_description(path)
    given = replace(given, scale=given.scale or scale_of(run, path))
    # A run's scores are on its own scale: percent is for files that state none.
    points = _points(data, name, replace(given, percent=False), ours=True)
    said = described(run, path, len({task for task, _ in points.spans()}))
    if ended:
        found = _from_points(points, given, said, name)
    else:
        why = failure_of(folder)
        state = "is unfinished" if why is None else f"failed ({' '.join(why.split()):.200})"
        found = _unfinished(points, given, said, name, state)
    found.notes += run.notes
    found.evaluation_data = run.evaluation_data
    return found


def _unfinished(
    points: Points, given: InputOptions, described: dict[str, Any], name: str, state: str
) -> ScoreInput:
    """Return what is known of a run that goes on or has failed: the tasks that have ended."""
    last = points.finished()
    if last is not None:
        points = points.until(last)
        count = len({task for task, _ in points.spans()})
        if "classes" in described:
            described = described | {"classes": described["classes"][:count]}
        found = _from_points(points, given, described, name)
        found.notes.append(f"the run {state}: scored over {count} finished task(s)")
        return found
    found = _from_points(points, given, described, name)
    if points.spans():
        found.notes.append(f"the run {state} and no task has ended yet")
        found.matrix, found.no_matrix = None, found.notes[-1]
    else:
        found.notes.append(f"the run {state}")
    return found


def _read_run(folder: Path, given: InputOptions, *, per_example: bool) -> ScoreInput:
    """Return what a run folder holds; of an unfinished run, the tasks finished so far."""
    path = folder / "points.csv"
    ours = os.path.lexists(folder / "run.json")  # a link to nowhere is named when it is read
    ended = (folder / "done.json").exists()
    try:
        data = read_file(path, MAX_POINTS)
    except FileNotFoundError:
        what = "no evaluation was recorded" if ours else "expected a run folder or a file"
        raise InputError(f"{folder}: no points.csv in it, {what}") from None
    if ours:
        found = _of_run(data, given, folder, str(path), ended=ended)
    else:
        found = _from_points(_points(data, str(path), given, ours=False), given, {}, str(path))
    if os.path.lexists(folder / "costs.csv"):
        _add_costs(found, folder / "costs.csv", ours=True)
    if per_example and any(folder.glob("per_example/*.bin")):
        _add_per_example(found, folder / "per_example")
    return found


def _add_costs(found: ScoreInput, path: Path, *, ours: bool) -> None:
    text = decode(read_file(path, MAX_MATRIX), str(path), growing=True)
    costs, warning = read_costs(text, str(path), ours=ours)
    found.notes += [warning] if warning else []
    if found.points is not None:
        learned = tuple(dict.fromkeys(task for task, _ in found.points.spans()))
        common = learned[: len(costs.tasks)]
        if learned and costs.tasks[: len(common)] != common:
            raise InputError(f"{path}: costs of {list(costs.tasks)}, expected of {list(learned)}")
        if learned and len(costs.tasks) < len(learned):
            what = f"{path}: costs of {len(costs.tasks)} task(s), expected {len(learned)}"
            if not ours:
                raise InputError(what)
            found.notes.append(f"{what}: not used")
            return
        costs = costs.first(len(learned)) if learned else costs
    elif found.matrix is not None and len(costs.tasks) != len(found.matrix.tasks):
        raise InputError(
            f"{path}: costs of {len(costs.tasks)} tasks, expected {len(found.matrix.tasks)}"
        )
    found.costs = costs if costs.tasks else None


def _add_per_example(found: ScoreInput, folder: Path) -> None:
    if found.points is None or found.stream is None:
        raise InputError(
            f"{folder}: per-example results belong to evaluations, expected a points.csv"
        )
    hits, warnings = read_per_example(folder, found.stream.names)
    whole, more = read_whole_sets(folder, found.stream.names)
    check_per_example(hits, found.points.stream(), folder)
    check_whole_sets(whole, found.points, folder)
    if found.matrix is not None:
        _add_per_example_at_ends(found, hits, whole)
    # The same evaluations as the stream has: fewer of them if it was thinned or cut.
    kept = {task: mine.at(found.stream.tasks[task][0]) for task, mine in hits.items()}
    # An interval of other evaluations than the estimate's could lie beside it.
    partial = []
    for task, mine in kept.items():
        steps = found.stream.tasks[task][0]
        if len(mine) and np.count_nonzero(steps >= mine.steps[0]) > len(mine):
            partial.append(task)
    if partial:
        named = ", ".join(partial[:3]) + (", …" if len(partial) > 3 else "")
        found.notes.append(
            f"no intervals from examples on extremes: some evaluations of {named} are of whole "
            "sets, not of the fixed subset; test at every task's last step as well (every=1, or a "
            "divisor of it)"
        )
        kept = {}
    found.per_example = {task: mine for task, mine in kept.items() if len(mine)}
    found.notes += warnings + more


def _add_per_example_at_ends(
    found: ScoreInput, hits: dict[str, PerExample], whole: dict[str, PerExample]
) -> None:
    assert found.points is not None
    ends, missing = per_example_at_ends(found.points, hits, whole)
    found.per_example_at_ends = {
        task: replace(mine, data=found.evaluation_data.get(task)) for task, mine in ends.items()
    }
    if missing:
        found.notes.append(f"not all metrics have an interval from examples: {missing}")
