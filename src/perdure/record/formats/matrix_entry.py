"""One score matrix of a source: its numbers, what the source says about it, unit and orientation.

Unit and orientation are decided for all matrices of a group together where the user does not say,
and only where nothing else is plausible: scores up to 100 of which every one on the diagonal is
above 1 are percent, and a matrix without a score below the diagonal has its trained tasks in
columns.
"""

from __future__ import annotations

import math
import re
from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple, Required

import numpy as np

from ..._display import count_of
from ...metrics.functional.common import fill_triangle, is_triangle
from ..io.files import InputError
from ..points import MatrixFields

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

__all__ = [
    "MAX_MATRICES",
    "MIN_TOP_PERCENT",
    "MatrixEntry",
    "MatrixFile",
    "are_fractions",
    "depth_of",
    "detect_percent",
    "detect_transposed",
    "fractions_note",
    "is_lower_triangle",
    "looks_like_percent",
    "parse_seed",
    "percent_note",
    "refuse_fractions",
    "suspect_transposed",
    "to_array",
    "to_matrix",
    "triangle_note",
]

MAX_MATRICES = 10_000  # in one source
SEED_NAME = re.compile(r"(?:(?:seed|run|s)[ _-]?)?(\d{1,18})", re.IGNORECASE)

MIN_TOP_PERCENT = 10  # a highest score below it may be a loss as well


class MatrixFile(MatrixFields, total=False):
    """What a source states about one matrix."""

    matrix: Required[NDArray[np.float64]]
    tasks: Sequence[str]


class MatrixEntry(NamedTuple):
    """One matrix of a source: its fields, and whose it is.

    `part` names it among several, for errors; `row_tasks` are the names of the tasks if rows turn
    out to be the evaluated tasks; `percent` says that every score has a percent sign, `oriented`
    that the source says which tasks were trained.
    """

    fields: MatrixFile
    method: str | None = None
    seed: int | str | None = None
    part: str = ""
    row_tasks: Sequence[str] = ()
    percent: bool = False
    oriented: bool = False
    notes: tuple[str, ...] = ()


def parse_seed(name: object) -> int | None:
    """Return the number of a seed, as in 3, "3" or "seed 3"; None for the name of a method.

    Example:
        >>> parse_seed("seed 3"), parse_seed("ewc")
        (3, None)
    """
    match = SEED_NAME.fullmatch(str(name).strip())
    return int(match[1]) if match else None


def depth_of(values: object) -> int:
    """Return the number of dimensions of nested lists or of an array; 0 for anything else.

    Example:
        >>> depth_of([[0.9, None], [0.6, 0.8]]), depth_of(0.9)
        (2, 0)
    """
    depth = 0
    while isinstance(values, list | tuple):
        depth += 1
        values = values[0] if values else None
    return depth + (values.ndim if isinstance(values, np.ndarray) else 0)


def to_matrix(values: object, source: str) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """Return rows of scores as an array, and a note if they had growing lengths."""
    first = values[0] if isinstance(values, list | tuple) and values else values
    if isinstance(first, str | PurePath):
        raise InputError(
            f"{source}: {str(first)!r:.60} is text, expected a list of rows; files are read as "
            "'NAME=PATH,PATH' by `perdure.compare` and `perdure.score_groups`"
        )
    if isinstance(values, list | tuple):
        values = [row.tolist() if isinstance(row, np.ndarray) else row for row in values]
        if is_triangle(values):
            return to_array(fill_triangle(values, None), source), (triangle_note(len(values)),)
    return to_array(values, source), ()


def triangle_note(tasks: int) -> str:
    """Return the note on rows of growing length."""
    return f"rows of growing length are read as the lower triangle of {tasks} tasks"


def to_array(values: object, source: str) -> NDArray[np.float64]:
    """Return a list of numbers, or of rows of numbers, as an array."""
    if isinstance(values, np.ndarray):
        return _check_numbers(values, source)
    if not isinstance(values, list | tuple) or not values:
        got = type(values).__name__ if "\n" in repr(values) else f"{values!r:.40}"
        raise InputError(
            f"{source}: got {got}, expected a list of numbers" + "; write a table to a CSV file "
            "and score that" * hasattr(values, "to_csv")
        )
    sizes = [len(row) if isinstance(row, list | tuple) else -1 for row in values]  # -1: no row
    lengths = set(sizes)
    if len(lengths) > 1:
        at = next(k for k, size in enumerate(sizes) if size != sizes[0])
        got = count_of(sizes[at], "number") if sizes[at] >= 0 else f"{values[at]!r:.40}"
        expected = count_of(sizes[0], "number") if sizes[0] >= 0 else "a number"
        raise InputError(
            f"{source} row {at}: {got}, expected {expected} as in row 0 (null, in Python None, for "
            "what was not measured)"
        )
    entries = [
        entry for row in values for entry in (row if isinstance(row, list | tuple) else [row])
    ]
    for at, entry in enumerate(entries):
        if entry is not None and not _is_float(entry):
            place = (
                f"row {at // max(lengths)} entry {at % max(lengths)}" if -1 not in lengths else at
            )
            raise InputError(f"{source} {place}: {entry!r:.40}, expected a number or null")
    numbers = np.array([math.nan if entry is None else float(entry) for entry in entries])
    return numbers if -1 in lengths else numbers.reshape(len(values), -1)


def _is_float(entry: object) -> bool:
    try:
        return not isinstance(entry, bool) and math.isfinite(entry) in (True, False)  # type: ignore[arg-type]
    except (TypeError, OverflowError):  # not a number, or too large for a float
        return False


def _check_numbers(array: NDArray[np.generic], source: str) -> NDArray[np.float64]:
    if not np.issubdtype(array.dtype, np.number) or np.iscomplexobj(array):
        raise InputError(f"{source}: holds {array.dtype}, expected numbers")
    return array.astype(np.float64)


def looks_like_percent(scores: NDArray[np.float64], decisive: NDArray[np.float64]) -> bool:
    """Return whether scores can only be percent; `decisive` are those that are never tiny.

    Example:
        >>> matrix = np.array([[90.0, 0.5], [60.0, 80.0]])
        >>> looks_like_percent(matrix, matrix.diagonal())
        True
        >>> looks_like_percent(matrix / 30, matrix.diagonal() / 30)  # perhaps losses
        False
    """
    measured = scores[~np.isnan(scores)]
    if not measured.size or measured.min() < 0 or measured.max() > 100:
        return False
    known = decisive[~np.isnan(decisive)]
    tiny = (known > 0) & (known <= 1)
    return bool(known.max(initial=0.0) > MIN_TOP_PERCENT and not tiny.any())


def percent_note(scores: NDArray[np.float64], source: str) -> str:
    """Return the note on scores that are read as percent."""
    return (
        f"{source}: scores up to {np.nanmax(scores):g} are read as percent (losses need "
        "`lower_is_better=True`, other scores their `range=`)"
    )


def are_fractions(scores: ArrayLike) -> bool:
    """Return whether scores are fractions rather than percent; zeros may be either."""
    return bool(0 < np.nanmax(np.append(scores, 0)) <= 1)


def refuse_fractions(source: str) -> InputError:
    """Return the error for scores that are fractions although percent was asked for."""
    return InputError(
        f"{source}: no score is above 1 percent, expected percent; omit `percent=True`?"
    )


def fractions_note(source: str) -> str:
    """Return the note on scores that are read as fractions although percent was asked for."""
    return f"{source}: no score is above 1, so scores are read as fractions"


def detect_percent(entries: Sequence[tuple[str, MatrixEntry]], group: str) -> str | None:
    """Return a note if the matrices of `group`, each with its source, are percent; else None.

    Raises InputError if some are percent and others are fractions.
    """
    matrices = [entry.fields["matrix"] for _, entry in entries]
    if not all(_is_square(matrix) for matrix in matrices):
        return None  # refused when it is read
    stated = [entry.percent for _, entry in entries]
    if all(stated):
        return f"{group}: scores with percent signs are read as percent"
    diagonals = [matrix.diagonal() for matrix in matrices]
    percent = [
        mark or looks_like_percent(*pair)
        for mark, *pair in zip(stated, matrices, diagonals, strict=True)
    ]
    small = [are_fractions(matrix) for matrix in matrices]
    if any(percent) and any(small):
        one, other = entries[percent.index(True)][0], entries[small.index(True)][0]
        raise InputError(
            f"{other}: no score is above 1, and {one} is in percent, expected one unit for the "
            "seeds of a method; convert one of them"
        )
    together = np.concatenate([matrix.ravel() for matrix in matrices])
    if not looks_like_percent(together, np.concatenate(diagonals)):
        return None
    return percent_note(together, group)


def detect_transposed(entries: Sequence[tuple[str, MatrixEntry]], group: str) -> str | None:
    """Return a note if columns are the trained tasks in all matrices of `group`; else None.

    Raises InputError if that is so in some only, or cannot be told from zeros.
    """
    verdicts = {}
    for source, entry in entries:
        matrix = entry.fields["matrix"]
        if _is_square(matrix) and len(matrix) > 1 and not entry.oriented:
            verdicts[source] = _orientation(matrix)
    if "zeros" in verdicts.values():
        source = next(source for source, verdict in verdicts.items() if verdict == "zeros")
        raise InputError(
            f"{source}: all scores below the diagonal are 0 and those above are not, expected a "
            "row per trained task; use `transposed=True` if rows are evaluated tasks, or "
            "`transposed=False` if everything was forgotten"
        )
    if "columns" not in verdicts.values():
        return None
    source = next(source for source, verdict in verdicts.items() if verdict == "columns")
    for other, verdict in verdicts.items():
        if verdict == "rows":
            raise InputError(
                f"{source}: no score is below the diagonal, and {other} has some, expected one "
                "orientation for the seeds of a method; transpose one of them"
            )
    return (
        f"{group}: no score is below the diagonal, so columns are read as the trained tasks "
        "(`transposed=True`)"
    )


def suspect_transposed(
    entries: Sequence[tuple[str, MatrixEntry]], group: str, *, lower_is_better: bool
) -> str | None:
    """Return a note if every score above the diagonal is better than its mirror image below it.

    A model is then better at each task before it learns it than after it has learned others.
    """
    for _, entry in entries:
        matrix = entry.fields["matrix"]
        if not _is_square(matrix) or len(matrix) < 3:
            return None
        lower = np.tri(len(matrix), k=-1, dtype=bool)
        gains = matrix.T[lower] - matrix[lower]
        if not ((-gains if lower_is_better else gains) > 0).all():
            return None
    return (
        f"{group}: every score above the diagonal is better than the one mirrored below it; if "
        "rows are evaluated tasks, use `transposed=True`"
    )


def _orientation(matrix: NDArray[np.float64]) -> str:
    """Return what the blank half of a matrix says: rows, columns or zeros (either)."""
    lower = matrix[np.tri(len(matrix), k=-1, dtype=bool)]
    upper = matrix.T[np.tri(len(matrix), k=-1, dtype=bool)]
    if np.isnan(lower).all():
        return "any" if np.isnan(upper).all() else "columns"
    if not np.nan_to_num(lower).any() and np.nan_to_num(upper).all():
        return "zeros"
    return "rows"


def is_lower_triangle(matrix: NDArray[np.float64]) -> bool:
    """Return whether scores are measured below the diagonal and none above it.

    Example:
        >>> is_lower_triangle(np.array([[0.9, np.nan], [0.6, 0.8]]))
        True
    """
    return _is_square(matrix) and len(matrix) > 1 and _orientation(matrix.T) == "columns"


def _is_square(matrix: NDArray[np.float64]) -> bool:
    return matrix.ndim == 2 and 0 < len(matrix) == matrix.shape[1]
