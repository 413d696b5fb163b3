"""Opening what is imported: bounded in size and in number, without following links.

Event files and W&B files hold protocol buffer messages, whose fields are read without a schema.
"""

from __future__ import annotations

import csv
import os
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..record import InputError, open_regular, read_file
from ..record.io.text import decode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Recognize = Callable[[Path], str | None]

__all__ = [
    "BYTES",
    "FIXED32",
    "FIXED64",
    "VARINT",
    "Field",
    "as_signed",
    "find_files",
    "find_in_folder",
    "read_fields",
    "read_head",
    "read_log_text",
    "read_rows",
]

MAX_LOG = 256 << 20  # bytes
MAX_FILES = 10_000
MAX_TRIED = 100
MAX_ENTRIES = 200_000  # of folders that are searched
HEAD = 1 << 16  # bytes that recognizing a file takes

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5  # wire types; groups (3, 4) are not in use
MAX_VARINT = 10  # bytes


def read_log_text(path: Path, limit: int = MAX_LOG) -> str:
    """Return a text file with Unix line breaks, or raise InputError."""
    try:
        data = read_file(path, limit)
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"{path}: no such file") from None
    if b"\x00" in data:
        raise InputError(f"{path}: has a NUL character, expected text")
    return decode(data, str(path))


def read_rows(path: Path) -> list[list[str]]:
    """Return the lines of a CSV file that are not empty, split into cells, or raise InputError."""
    try:
        return [row for row in csv.reader(read_log_text(path).split("\n"), strict=True) if row]
    except csv.Error as error:
        raise InputError(f"{path}: not a CSV table ({error})") from None


def read_head(path: Path) -> str:
    """Return the beginning of a file as text, "" if it is none: for `recognize`."""
    try:
        with open_regular(path) as file:
            return file.read(HEAD).decode("utf-8-sig", errors="replace")
    except (OSError, InputError):
        return ""


def find_in_folder(folder: Path, pattern: str, recognize: Recognize) -> str | None:
    """Return why a folder looks like a tool's: the first file of that name it recognizes.

    At most MAX_TRIED files are looked at, since any folder may be asked about.
    """
    tried = 0
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(name for name in names if fnmatch(name, pattern)):
            path = Path(parent, name)
            if reason := recognize(path):
                return f"it contains {path.relative_to(folder)}: {reason}"
            tried += 1
        if tried > MAX_TRIED:
            break
    return None


def find_files(paths: Sequence[Path], *patterns: str) -> list[Path]:
    """Return the files among `paths`, and those in its folders whose name matches a pattern.

    Raises InputError if a path is not there or nothing matches.
    """
    files: dict[Path, None] = {}
    for path in paths:
        if not path.is_dir():
            if not os.path.lexists(path):
                raise InputError(f"{path}: no such file or folder")
            files[path] = None
            continue
        matches = _search(path, patterns)
        if not matches:
            raise InputError(f"{path}: no file in it is named {' or '.join(patterns)}")
        files |= dict.fromkeys(matches)
    if len(files) > MAX_FILES:
        raise InputError(f"{paths[0]}: {len(files)} files match, expected at most {MAX_FILES}")
    return list(files)


def _search(folder: Path, patterns: Sequence[str]) -> list[Path]:
    """Return the regular files below a folder whose names match, sorted."""
    matches, entries = [], 0
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        entries += len(names) + len(folders)
        if entries > MAX_ENTRIES:
            raise InputError(f"{folder}: more than {MAX_ENTRIES} files; name a smaller folder")
        matches += [
            Path(parent, name)
            for name in sorted(names)
            if any(fnmatch(name, pattern) for pattern in patterns)
        ]
    return matches


class Field(NamedTuple):
    """A field of a message: its number, its wire type, and its bytes, or a VARINT's value."""

    number: int
    wire: int
    data: bytes
    value: int = 0


def read_fields(message: bytes) -> Iterator[Field]:
    """Yield the fields of a message in their order, or raise ValueError if it is not one.

    Example:
        >>> list(read_fields(bytes([0x10, 0x96, 0x01])))  # field 2 is 150
        [Field(number=2, wire=0, data=b'', value=150)]
    """
    at = 0
    while at < len(message):
        key, at = _read_varint(message, at)
        number, wire = key >> 3, key & 7
        if wire == VARINT:
            value, at = _read_varint(message, at)
            yield Field(number, wire, b"", value)
            continue
        if wire == BYTES:
            size, at = _read_varint(message, at)
        elif wire in (FIXED32, FIXED64):
            size = 4 if wire == FIXED32 else 8
        else:
            raise ValueError(f"wire type {wire}, expected 0, 1, 2 or 5")
        if size > len(message) - at:
            raise ValueError("a field is cut off")
        yield Field(number, wire, message[at : at + size])
        at += size


def as_signed(value: int) -> int:
    """Return a VARINT as the signed number of 64 bits that it stands for."""
    return value - (1 << 64) if value >> 63 else value


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    """Return a number and the position after it."""
    value = 0
    for k in range(MAX_VARINT):
        if at + k >= len(message):
            raise ValueError("a number is cut off")
        byte = message[at + k]
        value |= (byte & 0x7F) << (7 * k)
        if byte < 0x80:
            return value & ((1 << 64) - 1), at + k + 1
    raise ValueError("a number has more than 64 bits")
