"""Reading tables of text from outside: typed columns, or one error that names file and line."""

from __future__ import annotations

import csv
import io
import re
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .files import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

__all__ = ["Column", "InputError", "Table", "as_text", "decode", "read_table", "visible"]

PIECE = 1 << 16  # characters taken apart into lines at a time
CHUNK = 4000  # lines held as Python strings at a time: they should fit the cache
WIDEST = 400  # characters of a number; as an array, all cells are as wide as the widest


def as_text(cells: Sequence[str]) -> NDArray[np.str_]:
    """Return cells as an array of text, or raise ValueError if one is too long for a number."""
    if max(map(len, cells), default=0) > WIDEST:
        raise ValueError
    return np.array(cells)


class Column(NamedTuple):
    """How a column is read: `convert` turns strings into an array or raises ValueError."""

    expected: str
    convert: Callable[[Sequence[str]], NDArray[Any]]
    required: bool = False


class Table(NamedTuple):
    """Typed columns of a file. `where(row)` names file and line, for errors found later."""

    columns: dict[str, NDArray[Any]]
    rows: int
    warning: str | None
    where: Callable[[int], str]


def visible(text: str) -> str:
    r"""Return text that cannot control a terminal or end a line: names come from files.

    Example:
        >>> visible("a\tb") == "a\ufffdb"
        True
    """
    return re.sub(r"[\x00-\x1f\x7f-\x9f]", "\ufffd", text)


def decode(data: bytes, source: str, *, growing: bool = False) -> str:
    """Return `data` as text with plain line ends and no byte order mark, or raise.

    The end of a `growing` file may be cut off inside a letter; then it ends before that letter.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if not (growing and error.reason == "unexpected end of data"):
            raise InputError(
                f"{source}: byte {error.start} is not UTF-8 text, expected CSV, JSON, NPY or NPZ"
            ) from None
        text = data[: error.start].decode("utf-8-sig")
    if "\r" in text:
        text = text.removesuffix("\r")  # half of a line end is none
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text


def read_table(text: str, source: str, spec: Mapping[str, Column], *, ours: bool = False) -> Table:
    """Return the columns of a CSV text with a header.

    A last line without a line end may have been cut off while it was written. It is dropped with
    a warning if it is broken, or if the file is `ours`: we end every line.
    """
    if "\x00" in text:  # NumPy would drop it and read on
        line = text.count("\n", 0, text.index("\x00")) + 1
        raise InputError(f"{source} line {line}: a NUL character, expected text")
    whole, _, tail = text.rpartition("\n")
    try:
        header = [name.strip() for name in next(csv.reader([text.partition("\n")[0]]), [])]
    except csv.Error as error:
        raise InputError(f"{source} line 1: {error}, expected {','.join(spec)}") from None
    _check_header(header, source, spec)
    warning = None
    if tail and whole:
        if ours or not _is_whole(tail, header, spec):
            text = whole + "\n"
            warning = f"{source}: the last line is cut off and was left out"
    elif not whole:
        text = text + "\n"  # a header and nothing else

    def where(row: int) -> str:
        return f"{source} line {_line_of(text, row)}"

    parts: list[dict[str, NDArray[Any]]] = []
    rows = 0
    for chunk in _chunks(text, source):
        parts.append(_converted(chunk, rows, header, spec, where))
        rows += len(chunk)
    columns = {
        name: np.concatenate([part[name] for part in parts]) if parts else np.empty(0)
        for name in header
    }
    return Table(columns, rows, warning, where)


def _lines(text: str) -> Iterator[str]:
    """Yield the lines; io.StringIO would hold all of a text at four bytes per character."""
    start = 0
    while start < len(text):
        end = text.find("\n", start + PIECE) + 1 or len(text)
        yield from io.StringIO(text[start:end], newline="")
        start = end


def _chunks(text: str, source: str) -> Iterator[list[list[str]]]:
    reader = csv.reader(_lines(text), strict=True)
    try:
        next(reader, None)
        lines = (row for row in reader if row)
        while chunk := list(islice(lines, CHUNK)):
            yield chunk
    except csv.Error as error:
        raise InputError(f"{source} line {_broken_line(text)}: {error}") from None


def _converted(
    chunk: list[list[str]],
    first: int,
    header: list[str],
    spec: Mapping[str, Column],
    where: Callable[[int], str],
) -> dict[str, NDArray[Any]]:
    for at, row in enumerate(chunk):
        if len(row) != len(header):
            raise InputError(
                f"{where(first + at)}: {len(row)} fields, "
                f"expected {len(header)} ({','.join(header)})"
            )
    columns = {}
    for name, values in zip(header, zip(*chunk, strict=True), strict=True):
        try:
            columns[name] = spec[name].convert(values)
        except (ValueError, OverflowError):
            at = next(k for k, value in enumerate(values) if not _fits(spec[name], value))
            raise InputError(
                f"{where(first + at)}: {name} is {values[at]!r}, expected {spec[name].expected}"
            ) from None
    return columns


def _fits(column: Column, value: str) -> bool:
    try:
        column.convert([value])
    except (ValueError, OverflowError):
        return False
    return True


def _is_whole(line: str, header: list[str], spec: Mapping[str, Column]) -> bool:
    row = next(csv.reader([line]), [])
    return len(row) == len(header) and all(
        _fits(spec[name], value) for name, value in zip(header, row, strict=True)
    )


def _line_of(text: str, row: int) -> int:
    """Return the line on which the given row after the header starts, counted from 1."""
    reader = csv.reader(_lines(text))
    next(reader, None)
    before = reader.line_num
    for fields in reader:
        if fields:
            if row == 0:
                break
            row -= 1
        before = reader.line_num
    return before + 1


def _broken_line(text: str) -> int:
    """Return the line on which the row starts that cannot be read."""
    reader = csv.reader(_lines(text), strict=True)
    line = 1
    try:
        for _ in reader:
            line = reader.line_num + 1
    except csv.Error:
        return line
    return line


def _check_header(header: list[str], source: str, spec: Mapping[str, Column]) -> None:
    expected = ",".join(spec)
    for name, column in spec.items():
        if column.required and name not in header:
            found = ",".join(header) or "an empty line"
            raise InputError(f"{source} line 1: no column {name!r} in {found}, expected {expected}")
    for name in header:
        if name not in spec:
            raise InputError(f"{source} line 1: column {name!r} is unknown, expected {expected}")
        if header.count(name) > 1:
            raise InputError(f"{source} line 1: column {name!r} stands twice, expected {expected}")
