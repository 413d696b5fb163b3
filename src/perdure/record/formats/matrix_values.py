"""Nested lists and arrays as arrays of numbers, checked; rows of growing length are a triangle."""

from __future__ import annotations

import math
from pathlib import PurePath
from typing import TYPE_CHECKING

import numpy as np

from ...metrics.functional.checks import fill_triangle, is_triangle
from ..io.files import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["depth_of", "to_array", "to_matrix", "triangle_note"]


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
        got = f"{sizes[at]} entries" if sizes[at] >= 0 else f"{values[at]!r:.40}"
        expected = f"{sizes[0]} entries as in row 0" if sizes[0] >= 0 else "a number as in row 0"
        raise InputError(
            f"{source} row {at}: {got}, expected {expected} (null for what was not measured)"
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
