"""Whether a file is a log or a matrix, and its bytes up to the limit for what it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .formats.matrix_text import MAX_LINE
from .formats.points import looks_like_points
from .io.files import InputError, is_inherited, open_stream, read_limited
from .run_folder import MAX_TABLE

if TYPE_CHECKING:
    from typing import BinaryIO

__all__ = ["MAX_MATRIX", "is_log", "read_bytes", "read_unless_log"]

MAX_MATRIX = 128 << 20  # bytes
HEADER = 1000  # bytes in which the header of a log is looked for


def is_log(data: bytes) -> bool:
    r"""Return whether data begins with the header of a points.csv.

    Example:
        >>> is_log(b"step,tested,score\n1,a,0.5\n"), is_log(b"0.9,0.1\n")
        (True, False)
    """
    first = data[:HEADER].decode("utf-8", errors="replace").lstrip("\ufeff").splitlines()[:1]
    return bool(first) and looks_like_points(first[0])


def read_unless_log(path: str, pipe: BinaryIO | None = None) -> bytes | None:
    """Return the bytes of a file, or None if it is a log that can be read again.

    `-` is `pipe`. A pipe can be read only once, so a log is returned as well.
    """
    if path == "-":
        if pipe is None:
            raise InputError("standard input: nothing to read")
        return read_bytes(pipe, "standard input")
    with open_stream(path) as file:
        head = file.read(HEADER)
        if is_log(head) and not is_inherited(path):
            return None
        return read_bytes(file, path, head)


def read_bytes(file: BinaryIO, name: str, head: bytes = b"") -> bytes:
    """Return `head` and the rest of a file, up to the limit for what its first bytes show."""
    head += file.read(2 * MAX_LINE)
    log = is_log(head)
    text = head.lstrip()[:1] not in (b"[", b"{") and head[:2] not in (b"\x93N", b"PK")
    if text and not log and len(head) >= 2 * MAX_LINE and not {10, 13} & set(head):
        raise InputError(
            f"{name} line 1: more than {MAX_LINE} characters, expected a row of scores"
        )
    return read_limited(file, name, MAX_TABLE if log else MAX_MATRIX, head)
