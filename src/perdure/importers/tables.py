"""Tables that programs write by hand: CSV with a header, and JSON Lines."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from ..record import InputError
from ..record.io.files import parse_json
from .files import read_head, read_log_text
from .tracker_rows import TrackerRow, make_run

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from .imported import ImportedRun, ImportOptions

__all__ = ["read", "recognize"]

JSON_ENDINGS = (".jsonl", ".ndjson")
MAX_TABLE = 64 << 20  # bytes
LONG = {"step", "tested", "score"}


def recognize(path: Path) -> str | None:
    """Return why a path looks like such a table, None if it does not."""
    if not path.is_file():
        return None
    line = read_head(path).partition("\n")[0]
    if path.suffix in JSON_ENDINGS and line.startswith("{"):
        return "its lines are JSON objects"
    if path.suffix == ".csv" and set(line.strip().split(",")) >= LONG:
        return "it has columns step, tested and score"
    return None


def read(paths: Sequence[Path], options: ImportOptions) -> list[ImportedRun]:
    """Return one run per file."""
    return [_read_table(path, options) for path in paths]


def _read_table(path: Path, options: ImportOptions) -> ImportedRun:
    text = read_log_text(path, MAX_TABLE)
    if "\x00" in text:
        raise InputError(f"{path}: a NUL character, expected text")
    notes: list[str] = []
    if path.suffix in JSON_ENDINGS or text.lstrip().startswith("{"):
        tool, rows = "JSON Lines", list(_read_json_lines(text, path, notes))
    else:
        tool, rows = "CSV", list(_read_csv(text, path, notes))
    return make_run(rows, options, tool=tool, files=[path], label=path.stem, notes=notes)


def _read_json_lines(text: str, path: Path, notes: list[str]) -> Iterator[TrackerRow]:
    lines = text.split("\n")
    for number, line in enumerate(lines, start=1):
        where = f"{path} line {number}"
        if not line.strip():
            continue
        try:
            values = parse_json(line, where)
        except InputError:
            if number < len(lines):
                raise
            notes.append(f"{path}: the last line is cut off and was left out")
            return
        if not isinstance(values, dict):
            raise InputError(f"{where}: expected an object with values by name")
        yield TrackerRow(where, values.get("step"), _flatten(values))


def _flatten(values: dict[str, object], prefix: str = "") -> dict[str, object]:
    """Return nested objects as one, names joined by slashes.

    Example:
        >>> _flatten({"eval": {"red": {"acc": 0.5}}})
        {'eval/red/acc': 0.5}
    """
    flat: dict[str, object] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            flat |= _flatten(value, f"{prefix}{name}/")
        else:
            flat[prefix + name] = value
    return flat


def _read_csv(text: str, path: Path, notes: list[str]) -> Iterator[TrackerRow]:
    header, _, _ = text.partition("\n")
    delimiter = max(",;\t", key=header.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    last = text.rstrip("\n").count("\n") + 1 if not text.endswith("\n") else 0
    try:
        names = [name.strip() for name in next(reader, [])]
        if len(names) < 2 or len(set(names)) < len(names):
            raise InputError(
                f"{path} line 1: {header!r:.80}, expected at least two columns of different names"
            )
        for fields in reader:
            where = f"{path} line {reader.line_num}"
            if not fields:
                continue
            if len(fields) < len(names) and reader.line_num == last:
                notes.append(f"{path}: the last line is cut off and was left out")
                return
            if len(fields) != len(names):
                raise InputError(f"{where}: {len(fields)} fields, expected {len(names)}")
            values = dict(zip(names, fields, strict=True))
            yield TrackerRow(where, values.get("step"), values)
    except csv.Error as error:
        raise InputError(f"{path} line {reader.line_num}: {error}") from None
