"""A score matrix from a file of another tool: CSV, TSV, JSON, NPY or NPZ."""

from __future__ import annotations

import csv
import math
import re
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from .io.arrays import MAX_NUMBERS, MAX_TASKS, array_from, arrays_from_zip
from .io.files import InputError, parse_json
from .io.text import decode

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["MAX_LINE", "parse_matrix", "parse_vector"]

MAX_LINE = 64 * MAX_TASKS  # characters
UNMEASURED = frozenset({"", "-", "–", "—", "nan", "na", "n/a", "null", "none"})

LOG_COLUMNS = frozenset({
    "step", "_step", "epoch", "iteration", "tested", "trained", "accuracy", "loss", "eval_exp",
    "training_exp", "task_id",
})  # fmt: skip
FIELDS = ("matrix", "tasks", "initial", "joint", "single", "classes", "sizes", "setting")


def parse_matrix(
    data: bytes, source: str, *, percent: bool = False, transposed: bool = False
) -> dict[str, Any]:
    r"""Return the fields of ScoreMatrix found in a file, always `matrix` among them.

    The kind of file is told from its bytes, so that it may also come through a pipe. Tasks are
    named by the axis of evaluated tasks: columns, or rows where `transposed`.

    Example:
        >>> parse_matrix(b",a,b\na,0.9,\nb,0.6,0.8\n", "m.csv")["tasks"]
        ['a', 'b']
    """
    if data.startswith(b"\x93NUMPY"):
        return {"matrix": _numbers(array_from(data, source), source)}
    if data.startswith(b"PK"):
        return _fields(arrays_from_zip(data, source), source)
    text = decode(data, source)
    if not text.strip():
        raise InputError(f"{source}: the file is empty, expected a matrix of scores")
    if text.lstrip()[0] in "[{":
        return _fields(_json(text, source), source)
    return _from_table(text, source, percent=percent, transposed=transposed)


def parse_vector(data: bytes, source: str) -> list[float]:
    """Return one number a task from a file: one line or column of CSV, a JSON list, or NPY.

    Example:
        >>> parse_vector(b"0.1,0.2,", "b.csv")
        [0.1, 0.2, nan]
    """
    if data.startswith(b"\x93NUMPY"):
        array = array_from(data, source)
    elif decode(data, source).lstrip()[:1] == "[":
        array = _matrix_of(_json(decode(data, source), source), source)
    else:
        rows = [row for _, row in _rows(decode(data, source), source)]
        if len({len(row) for row in rows}) > 1:
            raise InputError(
                f"{source}: rows of several lengths, expected one number for each task"
            )
        array = np.array([[_number(cell, source) for cell in row] for row in rows])
    if array.ndim == 2 and 1 in array.shape:
        array = array.ravel()
    if array.ndim != 1 or not len(array):
        raise InputError(f"{source}: expected one number for each task, got shape {array.shape}")
    return [float(value) for value in array]


def _fields(found: Any, source: str) -> dict[str, Any]:
    if isinstance(found, list):
        return {"matrix": _matrix_of(found, source)}
    only = next(iter(found.values())) if len(found) == 1 else None
    if isinstance(only, np.ndarray):  # an archive of one array, whatever its name
        found = {"matrix": only}
    for name in found:
        if name not in FIELDS:
            raise InputError(f"{source}: {name!r} is unknown, expected {', '.join(FIELDS)}")
    if found.get("matrix") is None:
        raise InputError(f"{source}: no 'matrix' in it, expected rows of scores under that name")
    fields = {name: value for name, value in found.items() if value is not None}
    fields["matrix"] = _matrix_of(fields["matrix"], source)
    names = fields.get("tasks", [])
    if not isinstance(names, list) or not all(isinstance(name, str | int) for name in names):
        raise InputError(f"{source}: tasks are {names!r:.40}, expected a list of names")
    for name in ("initial", "joint", "single", "classes", "sizes"):
        if name in fields:
            fields[name] = _matrix_of(fields[name], f"{source}: {name}")
    return fields


def _json(text: str, source: str) -> Any:
    # Counted first: an empty list takes three bytes of a file, and sixty of memory.
    if text.count(",") > MAX_NUMBERS + 8 * MAX_TASKS:
        raise InputError(f"{source}: too large, expected a matrix of at most {MAX_TASKS} tasks")
    return parse_json(text, source)


def _matrix_of(values: Any, source: str) -> NDArray[np.float64]:
    if isinstance(values, np.ndarray):
        return _numbers(values, source)
    if not isinstance(values, list) or not values:
        raise InputError(f"{source}: got {values!r:.40}, expected a list of numbers")
    sizes = [len(row) if isinstance(row, list) else -1 for row in values]  # -1: no row at all
    lengths = set(sizes)
    if len(lengths) > 1:
        at = next(k for k, size in enumerate(sizes) if size != sizes[0])
        found = f"{sizes[at]} entries" if sizes[at] >= 0 else f"{values[at]!r:.40}"
        expected = f"{sizes[0]} entries as in row 0" if sizes[0] >= 0 else "a number as in row 0"
        raise InputError(
            f"{source} row {at}: {found}, expected {expected} (null for what was not measured)"
        )
    flat = [entry for row in values for entry in (row if isinstance(row, list) else [row])]
    for at, entry in enumerate(flat):
        if entry is not None and not _is_float(entry):
            place = (
                f"row {at // max(lengths)} entry {at % max(lengths)}" if -1 not in lengths else at
            )
            raise InputError(f"{source} {place}: {entry!r:.40}, expected a number or null")
    numbers = np.array([math.nan if entry is None else float(entry) for entry in flat])
    return numbers if -1 in lengths else numbers.reshape(len(values), -1)


def _is_float(entry: Any) -> bool:
    try:
        return not isinstance(entry, bool) and math.isfinite(entry) in (True, False)
    except (TypeError, OverflowError):  # no number, or one too large for a float
        return False


def _numbers(array: NDArray[Any], source: str) -> NDArray[np.float64]:
    if not np.issubdtype(array.dtype, np.number) or np.iscomplexobj(array):
        raise InputError(f"{source}: holds {array.dtype}, expected numbers")
    return array.astype(np.float64)


def _from_table(text: str, source: str, *, percent: bool, transposed: bool) -> dict[str, Any]:
    rows = _without_last_delimiter(_rows(text, source), source)
    width = len(rows[0][1])
    for line, row in rows:
        if len(row) != width:
            raise InputError(
                f"{source} line {line}: {len(row)} entries, expected {width} as in line "
                f"{rows[0][0]} (leave blank what was not measured)"
            )
    header = _header(rows)
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
    down = [row[0] for _, row in body] if named else []
    across = header[named:] if header is not None else []
    if down and across != down and set(across) == set(down):
        raise InputError(f"{source}: rows are named {down}, expected the columns' order {across}")
    matrix = np.array(
        [_scores(row[named:], f"{source} line {line}", percent) for line, row in body]
    )
    fields: dict[str, Any] = {"matrix": matrix}
    for names in (down, across) if transposed else (across, down):
        if len(names) == len(matrix) and not _counting(names):
            fields["tasks"] = names
            break
    return fields


def _rows(text: str, source: str) -> list[tuple[int, list[str]]]:
    """Return the lines that hold something, each with its number and its stripped cells."""
    rows = []
    if text.count("\n") > 2 * MAX_TASKS:
        raise InputError(f"{source}: too large, expected a matrix of at most {MAX_TASKS} tasks")
    lines = text.split("\n")
    held = (line for line in lines if line.strip() and not line.startswith("#"))
    first = list(islice(held, 2))
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
            else _cells(line, delimiter, f"{source} line {number}")
        )
        if len(cells) > MAX_TASKS + 1:
            raise InputError(
                f"{source} line {number}: {len(cells)} columns, expected at most {MAX_TASKS} tasks"
            )
        rows.append((number, [cell.strip() for cell in cells]))
    if not rows:
        raise InputError(f"{source}: the file is empty, expected a matrix of scores")
    return rows


def _without_last_delimiter(
    rows: list[tuple[int, list[str]]], source: str
) -> list[tuple[int, list[str]]]:
    """Return the rows without a blank last column, where every line ends with a delimiter.

    Without a header and a score above the diagonal, they may as well be the first rows of a
    larger matrix of which the rest is cut off.
    """
    even = len({len(row) for _, row in rows}) == 1 and len(rows[0][1]) > len(rows)
    if not even or any(row[-1] for _, row in rows):
        return rows
    body = [row[_has_names(rows, None) :] for _, row in rows]
    above = any(cell for k, row in enumerate(body) for cell in row[k + 1 :])
    if len(body[0]) > len(rows) and not above and _header(rows) is None:
        raise InputError(
            f"{source}: {len(rows)} row(s) of {len(body[0])} entries, the last ones blank, "
            "expected as many rows as columns; is the file cut off? If not, end no line with a "
            "delimiter"
        )
    return [(line, row[:-1]) for line, row in rows]


def _cells(line: str, delimiter: str, where: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=delimiter))
    except csv.Error as error:
        raise InputError(f"{where}: {error}, expected numbers") from None


def _header(rows: list[tuple[int, list[str]]]) -> list[str] | None:
    """Return the first row if it names tasks, else None.

    It does if it is all text, if it counts on, or if a blank corner stands over numbers that name
    the rows as well. A blank corner alone may as well be a score that was not measured.
    """
    first = rows[0][1]
    if not any(_is_number(cell) for cell in (first[1:] if not first[0] else first)):
        return first
    if _counting(first) and len(rows) == len(first) + 1:
        return first
    column = [row[0] for _, row in rows[1:]]
    no_score = not first[0] or not _is_number(first[0])
    named = _counting(first[1:] or [""]) or (not first[0] and column == first[1:])
    return first if no_score and named and len(rows) == len(first) else None


def _has_names(body: list[tuple[int, list[str]]], header: list[str] | None) -> bool:
    first = [row[0] for _, row in body]
    if body and not any(_is_number(cell) for cell in first):
        return True
    if header is None or len(body) + 1 != len(header):
        return False
    # Else a whole column of scores would be taken for names, where the last row is missing.
    return not header[0] or first == header[1:] or (len(first) > 1 and _counting(first))


def _counting(cells: list[str]) -> bool:
    """Return whether the cells (after a blank corner) count on from 0 or 1."""
    cells = cells[1:] if not cells[0] else cells
    return any(cells == [str(k + start) for k in range(len(cells))] for start in (0, 1))


def _is_number(cell: str) -> bool:
    try:
        _number(cell, "", percent=True)
    except InputError:
        return False
    return True


def _scores(cells: list[str], where: str, percent: bool) -> list[float]:
    """Return a row of scores; plain numbers are read at once, four million of them take long."""
    try:
        scores = list(map(float, cells))
    except ValueError:
        scores = [math.nan]
    if "_" not in "".join(cells) and all(map(math.isfinite, scores)):
        return scores
    return [_number(cell, where, percent) for cell in cells]


def _number(cell: str, where: str, percent: bool = False) -> float:
    if cell.lower() in UNMEASURED:
        return math.nan
    if cell.endswith("%") and not percent:
        raise InputError(
            f"{where}: {cell!r:.40} is in percent, expected a fraction (or add --percent)"
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
