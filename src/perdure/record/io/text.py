"""Reading CSV tables from outside: typed columns, or one error that names file and line.

The `csv` module and NumPy, in chunks: pandas is not a dependency, and `numpy.loadtxt` is slower
and names neither the column nor what was expected.
"""

from __future__ import annotations

import csv
import io
import re
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from .files import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

__all__ = [
    "Column",
    "ColumnSpec",
    "as_text",
    "check_widths",
    "csv_field",
    "decode",
    "first_few",
    "read_table",
    "visible",
]

Column: TypeAlias = "NDArray[Any]"  # of the type that its specification converts to

BLOCK_CHARACTERS = 1 << 16  # split into cells at a time: they should fit the cache
CHUNK_LINES = 4000  # read by the csv module at a time
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
MAX_NUMBER_WIDTH = 400  # characters; in an array, all cells are as wide as the widest


def as_text(cells: Sequence[str]) -> NDArray[np.str_]:
    """Return cells as an array of text, or raise ValueError if one is too long for a number."""
    check_widths(cells)
    return np.array(cells)


def check_widths(cells: Collection[str]) -> Collection[str]:
    """Return cells, or raise ValueError if one is too long for a number."""
    if max(map(len, cells), default=0) > MAX_NUMBER_WIDTH:
        raise ValueError
    return cells


class ColumnSpec(NamedTuple):
    """How a column is read: `convert` turns strings into an array or raises ValueError."""

    expected: str
    convert: Callable[[Sequence[str]], Column]
    required: bool = False


class CsvTable(NamedTuple):
    """The typed columns of a file. `where(row)` names file and line, for later errors."""

    columns: dict[str, Column]
    rows: int
    warning: str | None
    where: Callable[[int], str]


def visible(text: str) -> str:
    r"""Return text that cannot control a terminal or end a line: names come from files.

    Example:
        >>> visible("a\tb") == "a\ufffdb"
        True
    """
    return text if text.isprintable() else CONTROL.sub("\ufffd", text)


def first_few(names: Sequence[str], most: int) -> str:
    """Return the first of some names, with an ellipsis for the rest."""
    return ", ".join(names[:most]) + ", …" * (len(names) > most)


@lru_cache(maxsize=256)  # names of tasks, in every line
def csv_field(text: str) -> str:
    """Return `text` as a field of a CSV line, quoted where it must be.

    Example:
        >>> csv_field("digits 0-1"), csv_field("a, b")
        ('digits 0-1', '"a, b"')
    """
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow([text])
    return line.getvalue()


def decode(data: bytes, source: str, *, growing: bool = False) -> str:
    """Return `data` as text with Unix line breaks and no byte order mark, or raise InputError.

    A `growing` file may be truncated inside a character; then the text ends before it.
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
        text = text.removesuffix("\r")  # half of a line break
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text


def read_table(
    text: str,
    source: str,
    specs: Mapping[str, ColumnSpec],
    *,
    ours: bool = False,
    delimiter: str = ",",
) -> CsvTable:
    """Return the columns of a CSV text with a header.

    A last line without a line break may have been truncated while it was written. It is dropped
    with a warning if it is broken, or if the file is `ours`: we end every line.
    """
    if "\x00" in text:  # NumPy would drop it silently
        line = text.count("\n", 0, text.index("\x00")) + 1
        raise InputError(f"{source} line {line}: a NUL character, expected text")
    whole, _, tail = text.rpartition("\n")
    try:
        first = csv.reader([text.partition("\n")[0]], delimiter=delimiter)
        header = [name.strip() for name in next(first, [])]
    except csv.Error as error:
        raise InputError(f"{source} line 1: {error}, expected {','.join(specs)}") from None
    _check_header(header, source, specs)
    warning = None
    if tail and whole:
        if ours or not _is_complete(tail, header, specs, delimiter):
            text = whole + "\n"
            warning = f"{source}: the last line is cut off and was left out"
    elif not whole:
        text = text + "\n"  # only a header

    def where(row: int) -> str:
        return f"{source} line {_find_line(text, row, delimiter)}"

    parts: list[dict[str, Column]] = []
    rows = 0
    for cells in _read_columns(text, source, header, delimiter, where):
        parts.append(_convert(cells, rows, header, specs, where))
        rows += len(cells[0])
    columns = {
        name: np.concatenate([part.pop(name) for part in parts]) if parts else np.empty(0)
        for name in header
    }
    return CsvTable(columns, rows, warning, where)


def _split_blocks(text: str, start: int = 0) -> Iterator[str]:
    """Yield blocks of whole lines; io.StringIO would hold a text at four bytes per character."""
    while start < len(text):
        end = text.find("\n", start + BLOCK_CHARACTERS) + 1 or len(text)
        yield text[start:end]
        start = end


def _split_lines(text: str) -> Iterator[str]:
    for block in _split_blocks(text):
        yield from io.StringIO(block, newline="")


def _read_columns(
    text: str, source: str, header: list[str], delimiter: str, where: Callable[[int], str]
) -> Iterator[Sequence[Sequence[str]]]:
    """Yield the cells of some lines at a time, by column."""
    rows = 0
    if '"' not in text:  # otherwise a cell may contain delimiters and line breaks
        for block in _split_blocks(text, text.index("\n") + 1):
            cells = _split_plain(block, len(header), delimiter)
            parts: Iterable[Sequence[Sequence[str]]] = [] if cells is None else [cells]
            if cells is None:  # a line has another number of cells, or is empty
                lines = _split_lines(block)
                parts = _read_rows(lines, text, source, header, delimiter, where, rows)
            for part in parts:
                yield part
                rows += len(part[0])
        return
    lines = _split_lines(text)
    next(csv.reader(lines))
    yield from _read_rows(lines, text, source, header, delimiter, where, 0)


def _split_plain(block: str, columns: int, delimiter: str) -> list[list[str]] | None:
    """Return the cells of lines without quotes by column, faster than the csv module.

    None if a line has another number of cells, or is empty.
    """
    if len(block) > 2 * BLOCK_CHARACTERS:  # the csv module has a limit, and an error for it
        return None
    block = block if block.endswith("\n") else block + "\n"
    cells = block.replace("\n", f"{delimiter}\n{delimiter}").split(delimiter)
    lines, rest = divmod(len(cells) - 1, columns + 1)
    if rest or lines != block.count("\n") or cells[columns :: columns + 1] != ["\n"] * lines:
        return None
    return [cells[k : -1 : columns + 1] for k in range(columns)]


def _read_rows(
    lines: Iterator[str],
    text: str,
    source: str,
    header: list[str],
    delimiter: str,
    where: Callable[[int], str],
    first: int,
) -> Iterator[list[tuple[str, ...]]]:
    """Yield the cells of lines as the csv module reads them; `first` is the number of a row."""
    reader = csv.reader(lines, strict=True, delimiter=delimiter)
    filled = (row for row in reader if row)
    try:
        while chunk := list(islice(filled, CHUNK_LINES)):
            for at, row in enumerate(chunk):
                if len(row) != len(header):
                    raise InputError(
                        f"{where(first + at)}: {len(row)} fields, "
                        f"expected {len(header)} ({','.join(header)})"
                    )
            yield list(zip(*chunk, strict=True))
            first += len(chunk)
    except csv.Error as error:
        raise InputError(f"{source} line {_find_broken_line(text, delimiter)}: {error}") from None


def _convert(
    cells: Sequence[Sequence[str]],
    first: int,
    header: list[str],
    specs: Mapping[str, ColumnSpec],
    where: Callable[[int], str],
) -> dict[str, Column]:
    columns = {}
    for name, values in zip(header, cells, strict=True):
        try:
            columns[name] = specs[name].convert(values)
        except (ValueError, OverflowError):
            at = next(k for k, value in enumerate(values) if not _fits(specs[name], value))
            raise InputError(
                f"{where(first + at)}: {name} is {values[at]!r}, expected {specs[name].expected}"
            ) from None
    return columns


def _fits(column: ColumnSpec, value: str) -> bool:
    try:
        column.convert([value])
    except (ValueError, OverflowError):
        return False
    return True


def _is_complete(
    line: str, header: list[str], specs: Mapping[str, ColumnSpec], delimiter: str
) -> bool:
    row = next(csv.reader([line], delimiter=delimiter), [])
    return len(row) == len(header) and all(
        _fits(specs[name], value) for name, value in zip(header, row, strict=True)
    )


def _find_line(text: str, row: int, delimiter: str) -> int:
    """Return the line on which the given row after the header starts, counted from 1."""
    reader = csv.reader(_split_lines(text), delimiter=delimiter)
    next(reader, None)
    before = reader.line_num
    for fields in reader:
        if fields:
            if row == 0:
                break
            row -= 1
        before = reader.line_num
    return before + 1


def _find_broken_line(text: str, delimiter: str) -> int:
    """Return the line on which the row starts that cannot be read."""
    reader = csv.reader(_split_lines(text), strict=True, delimiter=delimiter)
    line = 1
    try:
        for _ in reader:
            line = reader.line_num + 1
    except csv.Error:
        return line
    return line


def _check_header(header: list[str], source: str, specs: Mapping[str, ColumnSpec]) -> None:
    expected = ",".join(specs)
    for name, column in specs.items():
        if column.required and name not in header:
            got = ",".join(header) or "an empty line"
            raise InputError(f"{source} line 1: no column {name!r} in {got}, expected {expected}")
    for name in header:
        if name not in specs:
            raise InputError(f"{source} line 1: column {name!r} is unknown, expected {expected}")
        if header.count(name) > 1:
            raise InputError(
                f"{source} line 1: column {name!r} is there twice, expected {expected}"
            )
