"""Reading anything that can be scored: a matrix file, a points.csv, a run folder, or a pipe."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal

import numpy as np

from ..metrics import ACCURACY, ScoreMatrix
from .formats.matrix import parse_matrix, parse_vector
from .formats.matrix_text import MAX_LINE
from .formats.per_example import add_per_example
from .formats.points import looks_like_points
from .io.files import InputError, open_stream, read_limited, unreadable
from .points import MatrixFields
from .run import add_costs, parse_points, read_points_of_run, read_run, score_points
from .run_folder import MAX_TABLE, RunFolder
from .score_input import InputOptions, ScoreInput

if TYPE_CHECKING:
    from .formats.matrix_text import MatrixFile

__all__ = ["read_input", "read_vector"]

MAX_MATRIX = 128 << 20  # bytes


def read_input(
    path: str,
    options: InputOptions | None = None,
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
    options = options or InputOptions()
    try:
        if path != "-" and os.path.isdir(path):  # noqa: PTH112 - Path raises for odd names
            result = read_run(RunFolder(path), options, per_example=per_example is not False)
        else:
            result = _read_file(path, options, pipe)
        if costs is not None:
            add_costs(result, costs, ours=False)
        if isinstance(per_example, Path):
            add_per_example(result, per_example)
    except OSError as error:
        raise unreadable(path, error) from None
    return result


def read_vector(path: str) -> list[float]:
    """Return one number per task from a small file."""
    try:
        with open_stream(path) as file:
            return parse_vector(read_limited(file, path, MAX_MATRIX), path)
    except OSError as error:
        raise unreadable(path, error) from None


def _read_file(path: str, options: InputOptions, pipe: BinaryIO | None) -> ScoreInput:
    name = "standard input" if path == "-" else path
    folder = RunFolder(Path(path).parent)
    if path == "-":
        if pipe is None:
            raise InputError("standard input: nothing to read")
        data = _read_bytes(pipe, name)
    else:
        finished = folder.is_finished()
        with open_stream(path) as file:
            data = _read_bytes(file, name)
    if _is_points(data):
        if path != "-" and folder.has_metadata():
            return read_points_of_run(data, options, folder, name, finished=finished)
        points = parse_points(data, name, options, ours=False)
        return score_points(points, options, MatrixFields(), name)
    fields = parse_matrix(data, name, percent=options.percent, transposed=options.transposed)
    return ScoreInput(_make_matrix(fields, options, name))


def _make_matrix(file: MatrixFile, options: InputOptions, name: str) -> ScoreMatrix:
    """Return the matrix in a file; options override what the file states."""
    scores, tasks = file["matrix"], file.get("tasks", ())
    if options.percent and 0 < np.nanmax(np.append(scores, 0)) <= 1:
        raise InputError(
            f"{name}: no score is above 1 percent, expected percent; omit `percent=True`?"
        )
    fields = MatrixFields(**{k: v for k, v in file.items() if k not in ("matrix", "tasks")})  # type: ignore[typeddict-item]
    for key in ("initial", "joint", "single"):
        if key in fields:
            fields[key] = options.to_fractions(fields[key])
    try:
        return ScoreMatrix(
            options.to_fractions(scores),
            tasks,
            transposed=options.transposed,
            scale=options.scale or ACCURACY,
            upper=options.upper,
            **(fields | options.matrix_fields()),
        )
    except (ValueError, TypeError) as error:
        raise InputError(f"{name}: {error}") from None


def _is_points(data: bytes) -> bool:
    first = data[:1000].decode("utf-8", errors="replace").lstrip("\ufeff").splitlines()[:1]
    return bool(first) and looks_like_points(first[0])


def _read_bytes(file: BinaryIO, name: str) -> bytes:
    """Return all of a file, up to the limit for what its first bytes show it to be."""
    head = file.read(2 * MAX_LINE)
    points = _is_points(head)
    text = head.lstrip()[:1] not in (b"[", b"{") and head[:2] not in (b"\x93N", b"PK")
    if text and not points and len(head) == 2 * MAX_LINE and not {10, 13} & set(head):
        raise InputError(
            f"{name} line 1: more than {MAX_LINE} characters, expected a row of scores"
        )
    return read_limited(file, name, MAX_TABLE if points else MAX_MATRIX, head)
