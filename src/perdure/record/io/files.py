"""Opening files that may be anything: regular files only, no waiting, no size taken on trust.

Every reader of the package opens files here, so that a pipe, a device, a folder or a file that
is too large is refused in one line, whoever asked for it.
"""

from __future__ import annotations

import glob
import json
import os
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Mapping
    from io import BufferedReader

__all__ = [
    "MAX_JSON",
    "InputError",
    "check_depth",
    "find_matches",
    "open_regular",
    "open_stream",
    "parse_json",
    "read_file",
    "read_json",
    "read_limited",
    "unreadable",
]

MAX_JSON = 16 << 20  # bytes
MAX_DEPTH = 64  # of lists and objects in each other; ours are below 10
# Without O_NONBLOCK, opening a pipe waits until somebody writes to it, perhaps for ever.
FLAGS = os.O_RDONLY
for _flag in ("O_NONBLOCK", "O_CLOEXEC", "O_NOCTTY", "O_BINARY"):
    FLAGS |= getattr(os, _flag, 0)
KINDS: Mapping[int, str] = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}
INHERITED = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")


class InputError(ValueError):
    """Raised for a file that cannot be what it should be; the message says where and why."""


def unreadable(path: str | os.PathLike[str], error: OSError) -> InputError:
    """Return the error for a file that the system does not let us read."""
    return InputError(f"{error.filename or path}: {(error.strerror or 'cannot be read').lower()}")


def open_regular(path: str | os.PathLike[str], limit: int | None = None) -> BufferedReader:
    """Return a regular file of at most `limit` bytes, opened for reading without waiting.

    Raises FileNotFoundError (or NotADirectoryError) where there is none, and InputError for all
    else that stands in the way.
    """
    try:
        file = os.open(path, FLAGS)
    except (FileNotFoundError, NotADirectoryError):
        raise
    except OSError as error:
        raise unreadable(path, error) from None
    except ValueError:  # a NUL character in the name
        raise InputError(f"{os.fspath(path)!r:.200}: not the name of a file") from None
    found = os.fstat(file)
    kind, why = stat.S_IFMT(found.st_mode), ""
    if kind != stat.S_IFREG:
        why = f"{KINDS.get(kind, 'a special file')}, expected a regular file"
    elif limit is not None and found.st_size > limit:
        why = f"too large, {found.st_size >> 20} MiB, expected at most {limit >> 20} MiB"
    if why:
        os.close(file)
        raise InputError(f"{path}: {why}")
    return os.fdopen(file, "rb")


def open_stream(path: str | os.PathLike[str]) -> BufferedReader:
    """Return a regular file, or a pipe that this process was started with, opened for reading.

    The shell connects /dev/stdin and the /dev/fd/63 of `<(command)`, and somebody writes to
    them. A pipe in a folder has no such promise.
    """
    if os.fspath(path).startswith(INHERITED):
        return Path(path).open("rb")
    try:
        return open_regular(path)
    except InputError as error:
        if "a pipe" not in str(error):
            raise
        raise InputError(f"{error}; read it as standard input: perdure … - < {path}") from None


def read_limited(file: BinaryIO, name: str, limit: int, head: bytes = b"") -> bytes:
    """Return the rest of a file after `head`, in pieces, or raise if it is longer than `limit`."""
    parts = [head]
    size = len(head)
    while part := file.read(1 << 20):
        parts.append(part)
        size += len(part)
        if size > limit:
            raise InputError(f"{name}: too large, expected at most {limit >> 20} MiB")
    return b"".join(parts)


def read_file(path: str | os.PathLike[str], limit: int) -> bytes:
    """Return the bytes of a regular file of at most `limit` bytes; raises as `open_regular`."""
    with open_regular(path, limit) as file:
        return read_limited(file, str(path), limit)


def read_json(path: str | os.PathLike[str], limit: int = MAX_JSON) -> Any:
    """Return what a JSON file holds; raises as `open_regular`, and InputError if it is not JSON."""
    data = read_file(path, limit)
    try:
        text = data.decode("utf-8-sig")
        value = parse_json(text, str(path))
        if re.search(r"\\u[dD][89a-fA-F]", text):  # half of a pair could not be written again
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeError:
        raise InputError(f"{path}: not UTF-8 text, expected JSON") from None
    return value


def parse_json(text: str, source: str) -> Any:
    r"""Return what JSON text holds, or raise InputError; it is safe to go through recursively.

    Example:
        >>> parse_json('{"a": [1]}', "a.json")
        {'a': [1]}
        >>> parse_json("[" * 100 + "]" * 100, "a.json")
        Traceback (most recent call last):
        ...
        perdure.record.io.files.InputError: a.json: nested too deeply, expected at most 64 levels
    """
    try:
        if re.search(r"\d{309}", text):  # Python reads it, and no float can hold it
            raise ValueError
        value = json.loads(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        raise InputError(f"{source}: {place} is not JSON ({error.msg})") from None
    except RecursionError:
        raise _too_deep(source) from None
    except ValueError:  # of a number with thousands of digits
        raise InputError(f"{source}: a number is too long, expected fewer digits") from None
    if text.count("[") + text.count("{") > MAX_DEPTH:
        check_depth(value, source)
    return value


def check_depth(value: Any, source: str) -> None:
    """Raise InputError if lists and dictionaries are nested deeper than any file of ours."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for each in level
            for inner in (each.values() if isinstance(each, dict) else each)
            if isinstance(inner, dict | list)
        ]
    if level:
        raise _too_deep(source)


def find_matches(pattern: str) -> list[str]:
    """Return the paths that a pattern matches, sorted; `**` does not follow links to folders.

    `glob.glob` follows them, and two links to the folder they lie in take it 2**40 steps.
    """
    base, *rest = re.split(r"(?:^|(?<=/))\*\*(?:/|$)", pattern, maxsplit=1)
    if not rest:
        return sorted(glob.glob(pattern))  # noqa: PTH207 - it may be absolute
    found: set[str] = set()
    for start in glob.glob(base) if base else ["."]:  # noqa: PTH207
        for folder, folders, files in os.walk(start):
            folders[:] = [name for name in folders if not name.startswith(".")]
            here = os.path.join(folder, "").removeprefix("" if base else "./")  # noqa: PTH118
            if rest[0]:
                found.update(find_matches(glob.escape(here) + rest[0]))
            else:
                shown = [name for name in files if not name.startswith(".")]
                found.update(here + name for name in (*folders, *shown))
                found.update({here} - {""} if folder == start else ())
    return sorted(found)


def _too_deep(source: str) -> InputError:
    return InputError(f"{source}: nested too deeply, expected at most {MAX_DEPTH} levels")
