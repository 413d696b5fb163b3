"""Scalars of TensorBoard event files, read without TensorFlow or TensorBoard.

A file is a sequence of records: length (8 bytes), checksum of the length (4), an `Event` message
(`length` bytes), checksum of the message (4). Everything but scalars is skipped.
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..record.io.files import InputError, open_regular
from ..record.io.text import first_few
from .files import BYTES, FIXED32, FIXED64, VARINT, as_signed, read_fields
from .frameworks.avalanche import is_accuracy, parse_tag, run_from_scalars
from .tracker_rows import TrackerRow, make_run

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from io import BufferedReader
    from pathlib import Path

    from .files import Field
    from .imported import ImportedRun, ImportOptions

__all__ = ["iter_scalars", "read", "recognize"]

MAX_FILE = 8 << 30  # bytes; images make event files large, and are skipped
MAX_RECORD = 1 << 20  # bytes of a record that is decoded; one with a scalar has some hundred
MAX_SCALARS = 5_000_000
NAME = re.compile(r"tfevents")
HEADER = struct.Struct("<QI")
CHECKSUM = struct.Struct("<I")
# Fields of the messages Event, Summary, Summary.Value and TensorProto
WALL_TIME, STEP, SUMMARY = 1, 2, 5
VALUE = 1
TAG, SIMPLE_VALUE, TENSOR = 1, 2, 8
DTYPE, CONTENT, FLOATS, DOUBLES = 1, 4, 5, 6
FLOAT, DOUBLE = 1, 2  # values of DTYPE
FLOAT32 = "TensorBoard stores 32 bits: scores have about 7 digits"


class Scalar(NamedTuple):
    """One scalar of an event file."""

    wall_time: float
    step: int
    tag: str
    value: float


def recognize(path: Path) -> str | None:
    """Return why a path looks like event files, None if it does not."""
    if path.is_file():
        return "it begins like an event file" if is_event_file(path) else None
    if path.is_dir() and next(path.glob("*tfevents*"), None):
        return "it has event files (*tfevents*)"
    return None


def read(paths: Sequence[Path], options: ImportOptions) -> list[ImportedRun]:
    """Return one run per folder or event file; the tags of Avalanche need no columns."""
    runs = []
    for path in paths:
        notes = [FLOAT32]
        files = find_event_files(path)
        label, where = path.absolute().name, str(path)
        if not options.columns and (scalars := _avalanche_scalars(path)):
            run = run_from_scalars(scalars, files, options)
            run.label, run.notes = label, [*run.notes, *notes]
            runs.append(run)
            continue
        rows = (TrackerRow(where, s.step, {s.tag: s.value}) for s in _iter_run(files, notes))
        run = make_run(rows, options, tool="TensorBoard", files=files, label=label, notes=notes)
        runs.append(run)
    return runs


def _avalanche_scalars(path: Path) -> dict[str, list[tuple[int, float]]]:
    """Return steps and values by tag of a run of Avalanche, nothing if it is none."""
    by_tag: dict[str, list[tuple[int, float]]] = {}
    count = 0
    for scalar in _iter_run(find_event_files(path), []):
        if parse_tag(scalar.tag):
            by_tag.setdefault(scalar.tag, []).append((scalar.step, scalar.value))
            count += 1
        if count > MAX_SCALARS:
            raise InputError(f"{path}: more than {MAX_SCALARS} scalars, expected fewer")
    return by_tag if any(map(is_accuracy, by_tag)) else {}


def _iter_run(files: Sequence[Path], notes: list[str]) -> Iterator[Scalar]:
    """Yield the scalars of the files of one run; the steps of a tag never go back."""
    last: dict[str, int] = {}
    for file in files:
        for scalar in iter_scalars(file, notes):
            before = last.get(scalar.tag, scalar.step)
            if scalar.step < before:
                advice = (
                    "two runs in one folder? Import one event file, or move the files of each run "
                    "to a folder of its own"
                    if len(files) > 1
                    else "two runs in one file? Log each run to a folder of its own"
                )
                raise InputError(
                    f"{file}: {scalar.tag!r:.80} is at step {scalar.step} after step {before}, "
                    f"expected steps that never decrease; {advice}"
                )
            last[scalar.tag] = scalar.step
            yield scalar


def is_event_file(path: Path) -> bool:
    """Return whether a file begins like an event file: a first record of a valid length."""
    try:
        with open_regular(path) as file:
            head = file.read(HEADER.size)
    except (OSError, InputError):
        return False
    return len(head) == HEADER.size and _checksum(head[:8]) == HEADER.unpack(head)[1]


def find_event_files(path: Path) -> list[Path]:
    """Return the event files at a path, oldest first; those in subfolders are other runs."""
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.iterdir() if NAME.search(file.name))
    if files:
        return files
    below = sorted({file.parent for file in path.glob("*/*tfevents*")})
    if below:
        named = first_few([str(folder) for folder in below], 3)
        raise InputError(
            f"{path}: no event files here but in {len(below)} folders below it, expected the "
            f"folder of one run: {named}"
        )
    raise InputError(f"{path}: no event files, expected files named events.out.tfevents.*")


def iter_scalars(path: Path, notes: list[str] | None = None) -> Iterator[Scalar]:
    """Yield the scalars of one event file as it has them; a truncated end is noted and left out.

    TensorBoard stores 32 bits: a value is the shortest decimal number that gives the same bits.
    """
    try:
        with open_regular(path, MAX_FILE) as file:
            for message in _read_records(file, path, [] if notes is None else notes):
                try:
                    yield from _parse_event(message)
                except ValueError as error:
                    raise InputError(f"{path}: not an event: {error}") from None
    except FileNotFoundError:
        raise InputError(f"{path}: no such file, expected an event file") from None


def _read_records(file: BufferedReader, path: Path, notes: list[str]) -> Iterator[bytes]:
    """Yield the messages of the records that can hold a scalar, with valid checksums."""
    end = file.seek(0, 2)
    at = file.seek(0)
    while at < end:
        head = file.read(HEADER.size)
        size, checksum = HEADER.unpack(head) if len(head) == HEADER.size else (0, 0)
        if len(head) == HEADER.size and _checksum(head[:8]) != checksum:
            raise InputError(
                f"{path}: byte {at} does not begin a record, expected a TensorBoard event file"
                + (" without damage" if at else "")
            )
        if len(head) < HEADER.size or at + HEADER.size + size + CHECKSUM.size > end:
            notes.append(f"{path}: the last record is cut off and was left out")
            return
        if size <= MAX_RECORD:
            message = file.read(size)
            (checksum,) = CHECKSUM.unpack(file.read(CHECKSUM.size))
            if _checksum(message) != checksum:
                raise InputError(f"{path}: the record at byte {at} is damaged (wrong checksum)")
            yield message
        at = file.seek(at + HEADER.size + size + CHECKSUM.size)


def _parse_event(message: bytes) -> Iterator[Scalar]:
    wall_time, step, summaries = 0.0, 0, []
    for field in read_fields(message):
        if field.number == WALL_TIME and field.wire == FIXED64:
            (wall_time,) = struct.unpack("<d", field.data)
        elif field.number == STEP and field.wire == VARINT:
            step = as_signed(field.value)
        elif field.number == SUMMARY and field.wire == BYTES:
            summaries.append(field.data)
    for summary in summaries:
        for field in read_fields(summary):
            if field.number == VALUE and field.wire == BYTES:
                tag, value = _parse_value(field.data)
                if value is not None:
                    yield Scalar(wall_time, step, tag, value)


def _parse_value(message: bytes) -> tuple[str, float | None]:
    """Return the tag and the number of a Summary.Value; None if it is no scalar."""
    tag, value = "", None
    for field in read_fields(message):
        if field.number == TAG and field.wire == BYTES:
            tag = field.data.decode("utf-8", "replace")
        elif field.number == SIMPLE_VALUE and field.wire == FIXED32:
            value = _as_decimal(field.data)
        elif field.number == TENSOR and field.wire == BYTES:
            value = _parse_tensor(list(read_fields(field.data)))
    return tag, value


def _parse_tensor(fields: list[Field]) -> float | None:
    """Return the number of a TensorProto with one float or double, None for any other."""
    dtype = next((field.value for field in fields if field.number == DTYPE), 0)
    if dtype not in (FLOAT, DOUBLE):
        return None
    numbers = (CONTENT, FLOATS if dtype == FLOAT else DOUBLES)
    data = b"".join(field.data for field in fields if field.number in numbers)
    if len(data) != (4 if dtype == FLOAT else 8):
        return None
    return _as_decimal(data) if dtype == FLOAT else float(struct.unpack("<d", data)[0])


def _as_decimal(data: bytes) -> float:
    """Return the shortest decimal number with these 32 bits: 0.9, not 0.8999999761581421."""
    return float(str(np.frombuffer(data, "<f4")[0]))


def _make_table() -> list[int]:
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


CRC32C = _make_table()


def _checksum(data: bytes) -> int:
    """Return the masked CRC-32C that a record has for `data`."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = CRC32C[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
