"""A score matrix from text: cells between commas, semicolons, tabs or blanks."""

from __future__ import annotations

import csv
import math
import re
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from ..._display import count_of
from ...metrics.functional.common import fill_triangle, is_triangle
from ..io.files import MAX_TASKS, InputError
from .matrix_entry import MatrixEntry, triangle_note

if TYPE_CHECKING:
    from .matrix_entry import MatrixFile

__all__ = [
    "DECIMAL_COMMA",
    "DECIMAL_POINT",
    "MAX_LINE",
    "parse_number",
    "parse_table",
    "read_decimal_commas",
    "split_rows",
]

MAX_LINE = 64 * MAX_TASKS  # characters
UNMEASURED = frozenset({"", "-", "–", "—", "nan", "na", "n/a", "null", "none"})
DECIMAL_COMMA = re.compile(r"-?\d*,\d+ ?%?")
DECIMAL_POINT = re.compile(r"-?\d*\.\d+ ?%?")
LOG_COLUMNS = frozenset({
    "step", "_step", "epoch", "iteration", "tested", "trained", "accuracy", "loss", "eval_exp",
    "training_exp", "task_id",
})  # fmt: skip
Rows = list[tuple[int, list[str]]]  # the number of a line, and its cells


def parse_table(text: str, source: str) -> MatrixEntry:
    """Return the matrix in a table of text, and the names of its tasks where it has them."""
    rows, notes = read_decimal_commas(split_rows(text, source), source)
    if _are_halves(rows):
        raise InputError(
            f"{source} line {rows[0][0]}: {','.join(rows[0][1]):.40} looks like decimal commas "
            "between commas; write decimal points, or separate the scores by semicolons"
        )
    rows, more = _fill_growing_rows(_drop_last_delimiter(rows, source))
    width = len(rows[0][1])
    for line, row in rows:
        if len(row) != width:
            raise InputError(
                f"{source} line {line}: {count_of(len(row), 'entry')}, expected {width} as in line "
                f"{rows[0][0]} (leave blank what was not measured)"
            )
    header = _find_header(rows)
    if header is not None and LOG_COLUMNS & {name.lower() for name in header}:
        if "tested" in header and "score" not in header:
            raise InputError(
                f"{source} line {rows[0][0]}: no column score among {','.join(header):.60}; rename "
                "the column that has the scores to score"
            )
        raise InputError(
            f"{source} line {rows[0][0]}: columns {','.join(header):.60} look like a log, expected "
            "a matrix, or a log with columns step,tested,score (and trained,kind,n) or "
            "trained,tested,score (and method,seed)"
        )
    body = rows[1:] if header is not None else rows
    named = _has_names(body, header)
    if not body:
        raise InputError(f"{source}: only a header, expected rows of scores under it")
    if header is not None and len(body) < width - named:
        raise InputError(
            f"{source}: {count_of(len(body), 'row')} of scores under a header of {width - named} "
            f"tasks, expected {width - named}; is the file cut off?"
        )
    row_names = [row[0] for _, row in body] if named else []
    column_names = header[named:] if header is not None else []
    if row_names and column_names != row_names and set(column_names) == set(row_names):
        raise InputError(
            f"{source}: rows are named {row_names}, expected the columns' order {column_names}"
        )
    scores, percent = _drop_percent_signs([(n, row[named:]) for n, row in body], source)
    matrix = np.array([_parse_scores(row, f"{source} line {line}") for line, row in scores])
    fields: MatrixFile = {"matrix": matrix}
    if tasks := _first_names(column_names, row_names, count=len(matrix)):
        fields["tasks"] = tasks
    row_tasks = _first_names(row_names, column_names, count=len(matrix))
    notes = (*notes, *more)
    return MatrixEntry(fields, row_tasks=row_tasks, percent=percent, notes=notes)


def _are_halves(rows: Rows) -> bool:
    """Return whether rows are as numbers like 0,9 that were split at their decimal commas."""
    widths = [len(row) for _, row in rows]
    tasks = len(rows)
    if widths not in ([2 * tasks] * tasks, [2 * (k + 1) for k in range(tasks)]):
        return False
    before = {cell.strip() for _, row in rows for cell in row[::2]}
    after = {cell.strip() for _, row in rows for cell in row[1::2]}
    return before <= {"0", "1"} and all(cell.isdecimal() for cell in after)


def _first_names(*candidates: list[str], count: int) -> list[str]:
    """Return the first names that are as many as the tasks and do not only count up."""
    fitting = (names for names in candidates if len(names) == count and not _is_counting(names))
    return next(fitting, [])


def split_rows(text: str, source: str) -> Rows:
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


def read_decimal_commas(rows: Rows, source: str) -> tuple[Rows, tuple[str, ...]]:
    """Return the rows with decimal commas as points, and a note if there were any."""
    if not any("," in cell for _, row in rows for cell in row):
        return rows, ()
    found = [(n, cell) for n, row in rows for cell in row if DECIMAL_COMMA.fullmatch(cell)]
    if not found:
        return rows, ()
    points = [cell for _, row in rows for cell in row if DECIMAL_POINT.fullmatch(cell)]
    if points:
        raise InputError(
            f"{source} line {found[0][0]}: {found[0][1]!r:.40} has a decimal comma and "
            f"{points[0]!r:.40} a decimal point, expected one of them"
        )
    replaced = [
        (n, [c.replace(",", ".") if DECIMAL_COMMA.fullmatch(c) else c for c in row])
        for n, row in rows
    ]
    return replaced, ("decimal commas are read as decimal points",)


def _drop_percent_signs(rows: Rows, source: str) -> tuple[Rows, bool]:
    """Return rows of scores without percent signs, and whether every score had one."""
    if not any(cell.endswith("%") for _, row in rows for cell in row):
        return rows, False
    for number, row in rows:
        bare = [c for c in row if not c.endswith("%") and c.lower() not in UNMEASURED]
        if bare:
            raise InputError(
                f"{source} line {number}: {bare[0]!r:.40} has no percent sign and others do, "
                "expected all in percent or none"
            )
    return [(n, [cell.removesuffix("%").rstrip() for cell in row]) for n, row in rows], True


def _fill_growing_rows(
    rows: Rows,
) -> tuple[Rows, tuple[str, ...]]:
    """Return rows of growing length, with or without names and a header, at full length."""
    for start in (0, 1):
        cells = [row for _, row in rows[start:]]
        named = bool(cells) and not any(_is_number(row[0]) for row in cells)
        body = [row[named:] for row in cells]
        if is_triangle(body) and (not start or len(rows[0][1]) == len(body) + named):
            full = fill_triangle(body, "")
            filled = [
                (n, [*row[:named], *scores])
                for (n, row), scores in zip(rows[start:], full, strict=True)
            ]
            return [*rows[:start], *filled], (triangle_note(len(body)),)
    return rows, ()


def _drop_last_delimiter(rows: Rows, source: str) -> Rows:
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
            f"{source}: {count_of(len(rows), 'row')} of {len(body[0])} entries, the last ones "
            "blank, expected as many rows as columns; is the file cut off? If not, end no line "
            "with a delimiter"
        )
    return [(line, row[:-1]) for line, row in rows]


def _split_cells(line: str, delimiter: str, where: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=delimiter))
    except csv.Error as error:
        raise InputError(f"{where}: {error}, expected numbers") from None


def _find_header(rows: Rows) -> list[str] | None:
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


def _has_names(body: Rows, header: list[str] | None) -> bool:
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
        parse_number(cell.removesuffix("%").rstrip(), "")
    except InputError:
        return False
    return True


def _parse_scores(cells: list[str], where: str) -> list[float]:
    """Return a row of scores; plain numbers are read at once, because there may be millions."""
    try:
        scores = list(map(float, cells))
    except ValueError:
        scores = [math.nan]
    if "_" not in "".join(cells) and all(map(math.isfinite, scores)):
        return scores
    return [parse_number(cell, where) for cell in cells]


def parse_number(cell: str, where: str) -> float:
    """Return the number in a cell, NaN where nothing was measured, or raise InputError."""
    if cell.lower() in UNMEASURED:
        return math.nan
    try:
        value = float(cell)
    except ValueError:
        raise InputError(f"{where}: {cell!r:.40}, expected a number or a blank") from None
    if "_" in cell or not math.isfinite(value):
        raise InputError(f"{where}: {cell!r:.40}, expected a finite number or a blank")
    return value
