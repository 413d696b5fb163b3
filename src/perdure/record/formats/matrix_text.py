"""A score matrix from text: cells between commas, semicolons, tabs or blanks."""

from __future__ import annotations

import csv
import math
import re
from itertools import islice
from typing import TYPE_CHECKING, Required

import numpy as np

from ..io.arrays import MAX_TASKS
from ..io.files import InputError
from ..points import MatrixFields

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["MAX_LINE", "MatrixFile", "parse_number", "parse_table", "split_rows"]

MAX_LINE = 64 * MAX_TASKS  # characters
UNMEASURED = frozenset({"", "-", "–", "—", "nan", "na", "n/a", "null", "none"})
LOG_COLUMNS = frozenset({
    "step", "_step", "epoch", "iteration", "tested", "trained", "accuracy", "loss", "eval_exp",
    "training_exp", "task_id",
})  # fmt: skip


class MatrixFile(MatrixFields, total=False):
    """What a file of a matrix states."""

    matrix: Required[NDArray[np.float64]]
    tasks: Sequence[str]


def parse_table(text: str, source: str, *, percent: bool, transposed: bool) -> MatrixFile:
    """Return the matrix in a table of text, and the names of its tasks where it has them."""
    rows = _drop_last_delimiter(split_rows(text, source), source)
    width = len(rows[0][1])
    for line, row in rows:
        if len(row) != width:
            raise InputError(
                f"{source} line {line}: {len(row)} entries, expected {width} as in line "
                f"{rows[0][0]} (leave blank what was not measured)"
            )
    header = _find_header(rows)
    if header is not None and LOG_COLUMNS & {name.lower() for name in header}:
        raise InputError(
            f"{source} line {rows[0][0]}: columns {','.join(header):.60} look like a log, expected "
            "a matrix, or a log with columns step,tested,score (and trained,kind,n)"
        )
    body = rows[1:] if header is not None else rows
    named = _has_names(body, header)
    if not body:
        raise InputError(f"{source}: only a header, expected rows of scores under it")
    if header is not None and len(body) < width - named:
        raise InputError(
            f"{source}: {len(body)} row(s) of scores under a header of {width - named} tasks, "
            f"expected {width - named}; is the file cut off?"
        )
    row_names = [row[0] for _, row in body] if named else []
    column_names = header[named:] if header is not None else []
    if row_names and column_names != row_names and set(column_names) == set(row_names):
        raise InputError(
            f"{source}: rows are named {row_names}, expected the columns' order {column_names}"
        )
    matrix = np.array(
        [_parse_scores(row[named:], f"{source} line {line}", percent) for line, row in body]
    )
    fields: MatrixFile = {"matrix": matrix}
    for names in (row_names, column_names) if transposed else (column_names, row_names):
        if len(names) == len(matrix) and not _is_counting(names):
            fields["tasks"] = names
            break
    return fields


def split_rows(text: str, source: str) -> list[tuple[int, list[str]]]:
    """Return the lines that are not blank or comments, each with its number and its cells."""
    rows = []
    if text.count("\n") > 2 * MAX_TASKS:
        raise InputError(f"{source}: too large, expected a matrix of at most {MAX_TASKS} tasks")
    lines = text.split("\n")
    contents = (line for line in lines if line.strip() and not line.startswith("#"))
    first = list(islice(contents, 2))
    delimiter = next((d for d in "\t;," if any(d in line for line in first)), None)
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith("#"):
            continue
        if len(line) > MAX_LINE:
            raise InputError(
                f"{source} line {number}: more than {MAX_LINE} characters, expected a row of scores"
            )
        cells = (
            line.split()
            if delimiter is None
            else _split_cells(line, delimiter, f"{source} line {number}")
        )
        if len(cells) > MAX_TASKS + 1:
            raise InputError(
                f"{source} line {number}: {len(cells)} columns, expected at most {MAX_TASKS} tasks"
            )
        rows.append((number, [cell.strip() for cell in cells]))
    if not rows:
        raise InputError(f"{source}: the file is empty, expected a matrix of scores")
    return rows


def _drop_last_delimiter(
    rows: list[tuple[int, list[str]]], source: str
) -> list[tuple[int, list[str]]]:
    """Return the rows without a blank last column, if every line ends with a delimiter.

    Without a header and a score above the diagonal, they might as well be the first rows of a
    larger, truncated matrix.
    """
    even = len({len(row) for _, row in rows}) == 1 and len(rows[0][1]) > len(rows)
    if not even or any(row[-1] for _, row in rows):
        return rows
    body = [row[_has_names(rows, None) :] for _, row in rows]
    above = any(cell for k, row in enumerate(body) for cell in row[k + 1 :])
    if len(body[0]) > len(rows) and not above and _find_header(rows) is None:
        raise InputError(
            f"{source}: {len(rows)} row(s) of {len(body[0])} entries, the last ones blank, "
            "expected as many rows as columns; is the file cut off? If not, end no line with a "
            "delimiter"
        )
    return [(line, row[:-1]) for line, row in rows]


def _split_cells(line: str, delimiter: str, where: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=delimiter))
    except csv.Error as error:
        raise InputError(f"{where}: {error}, expected numbers") from None


def _find_header(rows: list[tuple[int, list[str]]]) -> list[str] | None:
    """Return the first row if it names tasks, else None.

    It does if it is all text, if it counts up, or if a blank corner is above numbers that name
    the rows as well. A blank corner alone might as well be a score that was not measured.
    """
    first = rows[0][1]
    if not any(_is_number(cell) for cell in (first[1:] if not first[0] else first)):
        return first
    if _is_counting(first) and len(rows) == len(first) + 1:
        return first
    column = [row[0] for _, row in rows[1:]]
    no_score = not first[0] or not _is_number(first[0])
    named = _is_counting(first[1:] or [""]) or (not first[0] and column == first[1:])
    return first if no_score and named and len(rows) == len(first) else None


def _has_names(body: list[tuple[int, list[str]]], header: list[str] | None) -> bool:
    first = [row[0] for _, row in body]
    if body and not any(_is_number(cell) for cell in first):
        return True
    if header is None or len(body) + 1 != len(header):
        return False
    # Else a whole column of scores would be taken for names, where the last row is missing.
    return not header[0] or first == header[1:] or (len(first) > 1 and _is_counting(first))


def _is_counting(cells: list[str]) -> bool:
    """Return whether the cells (after a blank corner) count up from 0 or 1."""
    cells = cells[1:] if not cells[0] else cells
    return any(cells == [str(k + start) for k in range(len(cells))] for start in (0, 1))


def _is_number(cell: str) -> bool:
    try:
        parse_number(cell, "", percent=True)
    except InputError:
        return False
    return True


def _parse_scores(cells: list[str], where: str, percent: bool) -> list[float]:
    """Return a row of scores; plain numbers are read at once, because there may be millions."""
    try:
        scores = list(map(float, cells))
    except ValueError:
        scores = [math.nan]
    if "_" not in "".join(cells) and all(map(math.isfinite, scores)):
        return scores
    return [parse_number(cell, where, percent) for cell in cells]


def parse_number(cell: str, where: str, percent: bool = False) -> float:
    """Return the number in a cell, NaN where nothing was measured, or raise InputError."""
    if cell.lower() in UNMEASURED:
        return math.nan
    if cell.endswith("%") and not percent:
        raise InputError(
            f"{where}: {cell!r:.40} is in percent, expected a fraction; use `percent=True`"
        )
    if re.fullmatch(r"-?\d*,\d+%?", cell):
        raise InputError(
            f"{where}: {cell!r:.40} has a decimal comma, expected {cell.replace(',', '.')}"
        )
    try:
        value = float(cell.removesuffix("%"))
    except ValueError:
        raise InputError(f"{where}: {cell!r:.40}, expected a number or a blank") from None
    if "_" in cell or not math.isfinite(value):
        raise InputError(f"{where}: {cell!r:.40}, expected a finite number or a blank")
    return value
