"""W&B offline runs: run-*.wandb, read without wandb.

The file is a LevelDB log: blocks of 32 KiB with records, which may continue in the next block. A
record is a protocol buffer message; the history has what `run.log` was given, as JSON.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

from ..record import InputError
from ..record.io.files import open_regular, parse_json
from ..record.io.text import visible
from .files import BYTES, find_files, read_fields
from .tracker_rows import TrackerRow, make_run

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from io import BufferedReader
    from pathlib import Path

    from .imported import ImportedRun, ImportOptions

__all__ = ["read", "recognize"]

MAGIC = b":W&B\xe1\xbe\x00"
HEADER = struct.Struct("<IHB")  # checksum, length, type
BLOCK = 1 << 15
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4
MAX_FILE = 1 << 29
MAX_RECORD = 16 << 20
# Fields of the messages Record, HistoryRecord, HistoryItem, RunRecord and HeaderRecord
HISTORY, CONFIG, RUN, HEADER_RECORD = 2, 5, 17, 21
ITEM = 1
KEY, NESTED_KEY, VALUE = 1, 2, 16
RUN_CONFIG, DISPLAY_NAME = 4, 8


def recognize(path: Path) -> str | None:
    """Return why a path looks like an offline run of W&B, None if it does not."""
    files = [path] if path.is_file() else sorted([*path.glob("*.wandb"), *path.glob("*/*.wandb")])
    for file in files[:1]:
        try:
            with open_regular(file) as opened:
                if opened.read(len(MAGIC)) == MAGIC:
                    return f"{file.name} is an offline run of W&B"
        except (OSError, InputError):
            return None
    return None


def read(paths: Sequence[Path], options: ImportOptions) -> list[ImportedRun]:
    """Return one run per .wandb file."""
    return [_read_run(path, options) for path in find_files(paths, "*.wandb")]


def _read_run(path: Path, options: ImportOptions) -> ImportedRun:
    rows: list[TrackerRow] = []
    notes: list[str] = []
    config: dict[str, object] = {}
    label, version = path.stem, None
    with open_regular(path, MAX_FILE) as file:
        for number, message in enumerate(_read_records(file, path, notes), start=1):
            where = f"{path} record {number}"
            try:
                for field in read_fields(message):
                    if field.number == HISTORY and field.wire == BYTES:
                        values = _read_items(field.data, where)
                        rows.append(TrackerRow(where, values.get("_step"), values))
                    elif field.number == CONFIG and field.wire == BYTES:
                        config |= _read_items(field.data, where)
                    elif field.number == RUN and field.wire == BYTES:
                        name, stated = _read_description(field.data, where)
                        label, config = name or label, config | stated
                    elif field.number == HEADER_RECORD and field.wire == BYTES:
                        version = _read_version(field.data)
            except ValueError as error:
                raise InputError(f"{where}: {error}") from None
    config = {name: value for name, value in config.items() if not name.startswith("_")}
    return make_run(
        rows, options, tool="W&B", files=[path], label=label, config=config, version=version,
        notes=notes,
    )  # fmt: skip


def _read_records(file: BufferedReader, path: Path, notes: list[str]) -> Iterator[bytes]:
    """Yield the records, put together from their parts; a truncated end is noted."""
    if file.read(len(MAGIC)) != MAGIC:
        raise InputError(f"{path}: does not begin with :W&B, expected an offline run of W&B")
    parts = b""
    at = len(MAGIC)
    while True:
        rest = BLOCK - at % BLOCK
        if rest < HEADER.size:  # the end of a block is too short for a record
            file.read(rest)
            at += rest
        head = file.read(HEADER.size)
        if not head and not parts:
            return
        checksum, size, kind = HEADER.unpack(head) if len(head) == HEADER.size else (0, 0, 0)
        data = file.read(size)
        if len(head) < HEADER.size or len(data) < size:
            notes.append(f"{path}: the last record is cut off and was left out")
            return
        if zlib.crc32(data, zlib.crc32(bytes([kind]))) != checksum:
            raise InputError(f"{path}: the record at byte {at} is damaged (wrong checksum)")
        at += HEADER.size + size
        if (kind in (FULL, FIRST)) == bool(parts) or kind not in (FULL, FIRST, MIDDLE, LAST):
            raise InputError(f"{path}: records are not in order at byte {at}")
        parts += data
        if len(parts) > MAX_RECORD:
            raise InputError(f"{path}: a record at byte {at} is larger than expected")
        if kind in (FULL, LAST):
            yield parts
            parts = b""


def _read_items(message: bytes, where: str) -> dict[str, object]:
    values: dict[str, object] = {}
    for field in read_fields(message):
        if field.number != ITEM or field.wire != BYTES:
            continue
        name: list[str] = []
        text = ""
        for inner in read_fields(field.data):
            if inner.wire == BYTES and inner.number in (KEY, NESTED_KEY):
                name.append(inner.data.decode("utf-8", "replace"))
            elif inner.wire == BYTES and inner.number == VALUE:
                text = inner.data.decode("utf-8", "replace")
        key = visible(".".join(part for part in name if part))
        if text:
            values[key] = parse_json(text, f"{where}: {key}")
    return values


def _read_description(message: bytes, where: str) -> tuple[str, dict[str, object]]:
    name, config = "", dict[str, object]()
    for field in read_fields(message):
        if field.wire == BYTES and field.number == DISPLAY_NAME:
            name = visible(field.data.decode("utf-8", "replace"))
        elif field.wire == BYTES and field.number == RUN_CONFIG:
            config = _read_items(field.data, where)
    return name, config


def _read_version(message: bytes) -> str | None:
    """Return the version of wandb: what comes before a + is public."""
    for field in read_fields(message):
        for inner in read_fields(field.data) if field.wire == BYTES else ():
            if inner.number == 1 and inner.wire == BYTES:
                return visible(inner.data.decode("utf-8", "replace")).partition("+")[0]
    return None
