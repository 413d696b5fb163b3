"""A score matrix from a file of another tool: CSV, TSV, JSON, NPY or NPZ."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, cast

import numpy as np

from ..io.arrays import MAX_NUMBERS, MAX_TASKS, array_from, arrays_from_zip
from ..io.files import InputError, parse_json
from ..io.text import decode
from .matrix_text import MatrixFile, parse_number, parse_table, split_rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

__all__ = ["parse_matrix", "parse_vector"]

FIELDS = ("matrix", "tasks", "initial", "joint", "single", "classes", "sizes", "setting")


def parse_matrix(
    data: bytes, source: str, *, percent: bool = False, transposed: bool = False
) -> MatrixFile:
    r"""Return the fields of ScoreMatrix in a file, always `matrix` among them.

    The format is recognised by the first bytes, so that it may also come through a pipe. Tasks
    are named by the axis of evaluated tasks: columns, or rows if `transposed`.

    Example:
        >>> parse_matrix(b",a,b\na,0.9,\nb,0.6,0.8\n", "m.csv")["tasks"]
        ['a', 'b']
    """
    if data.startswith(b"\x93NUMPY"):
        return {"matrix": _check_numbers(array_from(data, source), source)}
    if data.startswith(b"PK"):
        return _check_fields(arrays_from_zip(data, source), source)
    text = decode(data, source)
    if not text.strip():
        raise InputError(f"{source}: the file is empty, expected a matrix of scores")
    if text.lstrip()[0] == "[":
        return {"matrix": _to_array(_parse_json(text, source), source)}
    if text.lstrip()[0] == "{":
        return _check_fields(cast("dict[str, object]", _parse_json(text, source)), source)
    return parse_table(text, source, percent=percent, transposed=transposed)


def parse_vector(data: bytes, source: str) -> list[float]:
    """Return one number per task from a file: one line or column of CSV, a JSON list, or NPY.

    Example:
        >>> parse_vector(b"0.1,0.2,", "b.csv")
        [0.1, 0.2, nan]
    """
    if data.startswith(b"\x93NUMPY"):
        array = array_from(data, source)
    elif decode(data, source).lstrip()[:1] == "[":
        array = _to_array(_parse_json(decode(data, source), source), source)
    else:
        rows = [row for _, row in split_rows(decode(data, source), source)]
        if len({len(row) for row in rows}) > 1:
            raise InputError(
                f"{source}: rows of several lengths, expected one number for each task"
            )
        array = np.array([[parse_number(cell, source) for cell in row] for row in rows])
    if array.ndim == 2 and 1 in array.shape:
        array = array.ravel()
    if array.ndim != 1 or not len(array):
        raise InputError(f"{source}: expected one number for each task, got shape {array.shape}")
    return [float(value) for value in array]


def _check_fields(contents: Mapping[str, object], source: str) -> MatrixFile:
    """Return the fields in the object of a JSON file or the arrays of an NPZ archive."""
    only = next(iter(contents.values())) if len(contents) == 1 else None
    if isinstance(only, np.ndarray):  # an archive of one array, whatever its name
        contents = {"matrix": only}
    for name in contents:
        if name not in FIELDS:
            raise InputError(f"{source}: {name!r} is unknown, expected {', '.join(FIELDS)}")
    if contents.get("matrix") is None:
        raise InputError(f"{source}: no 'matrix' in it, expected rows of scores under that name")
    fields = {name: value for name, value in contents.items() if value is not None}
    fields["matrix"] = _to_array(fields["matrix"], source)
    names = fields.get("tasks", [])
    if not isinstance(names, list) or not all(isinstance(name, str | int) for name in names):
        raise InputError(f"{source}: tasks are {names!r:.40}, expected a list of names")
    for name in ("initial", "joint", "single", "classes", "sizes"):
        if name in fields:
            fields[name] = _to_array(fields[name], f"{source}: {name}")
    return cast("MatrixFile", fields)


def _parse_json(text: str, source: str) -> object:
    # Counted first: an empty list takes three bytes of a file, and sixty of memory.
    if text.count(",") > MAX_NUMBERS + 8 * MAX_TASKS:
        raise InputError(f"{source}: too large, expected a matrix of at most {MAX_TASKS} tasks")
    contents: object = parse_json(text, source)
    return contents


def _to_array(values: object, source: str) -> NDArray[np.float64]:
    """Return a list of numbers, or of rows of numbers, as an array."""
    if isinstance(values, np.ndarray):
        return _check_numbers(values, source)
    if not isinstance(values, list) or not values:
        raise InputError(f"{source}: got {values!r:.40}, expected a list of numbers")
    sizes = [len(row) if isinstance(row, list) else -1 for row in values]  # -1: not a row
    lengths = set(sizes)
    if len(lengths) > 1:
        at = next(k for k, size in enumerate(sizes) if size != sizes[0])
        got = f"{sizes[at]} entries" if sizes[at] >= 0 else f"{values[at]!r:.40}"
        expected = f"{sizes[0]} entries as in row 0" if sizes[0] >= 0 else "a number as in row 0"
        raise InputError(
            f"{source} row {at}: {got}, expected {expected} (null for what was not measured)"
        )
    entries = [entry for row in values for entry in (row if isinstance(row, list) else [row])]
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
