"""Objects as a few aligned lines of text, for `print` and notebooks, and as data frames."""

from __future__ import annotations

import re
import textwrap
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._terminal_text import escape_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import polars as pl
    from pandas import DataFrame

__all__ = ["count_of", "format_block", "list_some", "make_frame", "make_polars"]

MAX_ROWS = 12
MAX_WIDTH = 100  # characters of a line
MAX_FOOTER_LINES = 3  # of one note
NUMBER = re.compile(r"[-+]?[\d.,]+%?|")


def format_block(title: str, rows: Sequence[Sequence[str]], footer: Sequence[str] = ()) -> str:
    """Return a title and, indented below it, rows with aligned columns and the lines of a footer.

    Columns of numbers are right-aligned; rows that are too long, and those beyond the twelfth, are
    cut, and the footer is wrapped. Text may come from files, so control characters are escaped.

    Example:
        >>> print(format_block("Run of 2 tasks", [("acc", "0.7"), ("bwt", "-0.3")], ["finished"]))
        Run of 2 tasks
          acc   0.7
          bwt  -0.3
          finished
    """
    cells = [[escape_line(cell) for cell in row] for row in rows[:MAX_ROWS]]
    columns = list(zip(*cells, strict=True))
    right = [k > 0 and all(map(NUMBER.fullmatch, column)) for k, column in enumerate(columns)]
    widths = [max(map(len, column)) for column in columns]
    lines = []
    for row in cells:
        parts = [
            cell.rjust(width) if numeric else cell.ljust(width)
            for cell, width, numeric in zip(row, widths, right, strict=True)
        ]
        lines.append("  " + "  ".join(parts).rstrip())
    if len(rows) > MAX_ROWS:
        lines.append(f"  … and {len(rows) - MAX_ROWS} more")
    lines = [_cut(line) for line in [escape_line(title), *lines]]
    for line in footer:  # sentences, whose ends say what to do
        lines += textwrap.wrap(
            escape_line(line), MAX_WIDTH, max_lines=MAX_FOOTER_LINES, placeholder=" …",
            initial_indent="  ", subsequent_indent="    ",
        )  # fmt: skip
    return "\n".join(lines)


def count_of(number: int, noun: str) -> str:
    """Return a number with its noun.

    Example:
        >>> count_of(1, "task"), count_of(3, "task"), count_of(2, "batch")
        ('1 task', '3 tasks', '2 batches')
    """
    plural = f"{noun}es" if noun.endswith(("s", "tch")) else f"{noun}s"
    return f"{number} {noun if number == 1 else plural}"


def list_some(names: Sequence[object], most: int = 4) -> str:
    """Return the first of several names, and how many there are if not all are shown.

    Example:
        >>> list_some(["a", "b"]), list_some(range(100), 3)
        ('a, b', '0, 1, 2, … (100)')
    """
    shown = ", ".join(str(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown}, … ({len(names)})"


def make_frame(
    records: Sequence[Mapping[str, object]], columns: Sequence[str], index: Sequence[str]
) -> DataFrame:
    """Return records as a pandas table whose rows are named by the columns in `index`."""
    frame = _frame_library("pandas").DataFrame(list(records), columns=list(columns))
    return frame.set_index(list(index))


def make_polars(records: Sequence[Mapping[str, object]], columns: Sequence[str]) -> pl.DataFrame:
    """Return records as a polars table."""
    by_column = {name: [record.get(name) for record in records] for name in columns}
    return _frame_library("polars").DataFrame(by_column)


def _frame_library(name: str) -> Any:
    """Return a library of data frames, which perdure does not depend on."""
    try:
        return import_module(name)
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            f"to_{name}() needs {name}: pip install {name}; to_dict() works without it", name=name
        ) from None


def _cut(line: str) -> str:
    return line if len(line) <= MAX_WIDTH else line[: MAX_WIDTH - 1] + "…"
