"""Opening files that may be anything: only regular files, without waiting, up to a limit.

Every reader of the package opens files here, so that a pipe, a device, a folder or a file that
is too large is refused with the same one-line error everywhere.
Of NumPy files, no pickled objects are read, and no size is taken on trust.
"""

from __future__ import annotations

import glob
import io
import json
import os
import re
import stat
import warnings
import zipfile
from pathlib import Path
from tokenize import TokenError
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

if TYPE_CHECKING:
    from io import BufferedReader

    from numpy.typing import NDArray

__all__ = [
    "MAX_TASKS",
    "InputError",
    "array_from",
    "arrays_from_zip",
    "check_depth",
    "find_matches",
    "is_inherited",
    "load_ids",
    "open_regular",
    "open_stream",
    "parse_json",
    "read_file",
    "read_json",
    "read_limited",
    "read_toml",
    "unreadable",
]

MAX_JSON = 16 << 20  # bytes
MAX_DEPTH = 64  # levels of nested lists and objects; ours have fewer than 10
# Without O_NONBLOCK, opening a pipe waits for a writer, perhaps for ever.
FLAGS = os.O_RDONLY
for _flag in ("O_NONBLOCK", "O_CLOEXEC", "O_NOCTTY", "O_BINARY"):
    FLAGS |= getattr(os, _flag, 0)
KINDS = {
    stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device", stat.S_IFSOCK: "a socket",
}  # fmt: skip
INHERITED = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")
MAX_TOML = 1 << 20  # bytes
# Python's parser takes quadratic time and memory in the number of parts of a key.
LONG_KEY = re.compile(rb"""(?<![\w"'-])(?:[\w"'-]+[ \t]*\.[ \t]*){64}""")
BARE_FRACTION = re.compile(rb"[=\[,]\s*-?\.\d")
MAX_TASKS = 2000
MAX_NUMBERS = MAX_TASKS**2
MAX_EXAMPLES = 1 << 24
# What NumPy writes. With other methods, zipfile decompresses whole blocks before a limit applies.
ALLOWED_COMPRESSION = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


class InputError(ValueError):
    """Raised for input that is not as expected; the message says where and why."""


def unreadable(path: str | os.PathLike[str], error: OSError) -> InputError:
    """Return the error for a file that cannot be read, in one line."""
    return InputError(f"{error.filename or path}: {(error.strerror or 'cannot be read').lower()}")


def open_regular(path: str | os.PathLike[str], limit: int | None = None) -> BufferedReader:
    """Return a regular file of at most `limit` bytes, opened for reading without waiting.

    Raises FileNotFoundError (or NotADirectoryError) if there is none, and InputError for every
    other problem.
    """
    try:
        file = os.open(path, FLAGS)
    except (FileNotFoundError, NotADirectoryError):
        raise
    except OSError as error:
        raise unreadable(path, error) from None
    except ValueError:  # a NUL character in the name
        raise InputError(f"{os.fspath(path)!r:.200}: not the name of a file") from None
    status = os.fstat(file)
    kind, reason = stat.S_IFMT(status.st_mode), ""
    if kind != stat.S_IFREG:
        reason = f"{KINDS.get(kind, 'a special file')}, expected a regular file"
    elif limit is not None and status.st_size > limit:
        reason = f"too large, {status.st_size >> 20} MiB, expected at most {limit >> 20} MiB"
    if reason:
        os.close(file)
        raise InputError(f"{path}: {reason}")
    return os.fdopen(file, "rb")


def is_inherited(path: str | os.PathLike[str]) -> bool:
    """Return whether a path stands for a file or pipe that this process was started with."""
    return os.fspath(path).startswith(INHERITED)


def open_stream(path: str | os.PathLike[str]) -> BufferedReader:
    """Return a regular file, or a pipe that this process was started with, opened for reading.

    The shell connects /dev/stdin and the /dev/fd/63 of `<(command)` to a process that writes.
    A pipe in a folder may have no writer.
    """
    if is_inherited(path):
        return Path(path).open("rb")
    try:
        return open_regular(path)
    except InputError as error:
        if "a pipe" not in str(error):
            raise
        raise InputError(f"{error}; read it as standard input: perdure … - < {path}") from None


def read_limited(file: BinaryIO, name: str, limit: int, head: bytes = b"") -> bytes:
    """Return `head` and the rest of a file, or raise InputError if that is more than `limit`."""
    parts = [head]
    size = len(head)
    while part := file.read(1 << 20):
        parts.append(part)
        size += len(part)
        if size > limit:
            raise InputError(f"{name}: too large, expected at most {limit >> 20} MiB")
    return b"".join(parts)


def read_file(path: str | os.PathLike[str], limit: int) -> bytes:
    """Return the bytes of a regular file of at most `limit` bytes; raises like `open_regular`."""
    with open_regular(path, limit) as file:
        return read_limited(file, str(path), limit)


def read_json(path: str | os.PathLike[str], limit: int = MAX_JSON) -> Any:
    """Return the contents of a JSON file; raises like `open_regular`, or InputError if broken."""
    data = read_file(path, limit)
    try:
        text = data.decode("utf-8-sig")
        value = parse_json(text, str(path))
        # An unpaired surrogate cannot be encoded.
        if "\\u" in text and re.search(r"\\u[dD][89a-fA-F]", text):
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeError:
        raise InputError(f"{path}: not UTF-8 text, expected JSON") from None
    return value


def parse_json(text: str, source: str) -> Any:
    r"""Return the contents of JSON text, safe to recurse into, or raise InputError.

    Example:
        >>> parse_json('{"a": [1]}', "a.json")
        {'a': [1]}
        >>> parse_json("[" * 100 + "]" * 100, "a.json")
        Traceback (most recent call last):
        ...
        perdure.record.io.files.InputError: a.json: nested too deeply, expected at most 64 levels
    """
    try:
        if re.search(r"\d{309}", text):  # Python reads it, but no float can hold it
            raise ValueError
        value = json.loads(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        raise InputError(f"{source}: {place} is not JSON ({error.msg})") from None
    except RecursionError:
        raise _too_deep(source) from None
    except ValueError:  # a number with thousands of digits
        raise InputError(f"{source}: a number is too long, expected fewer digits") from None
    if text.count("[") + text.count("{") > MAX_DEPTH:
        check_depth(value, source)
    return value


def check_depth(value: object, source: str) -> None:
    """Raise InputError if lists and dictionaries are nested deeper than in any file of ours."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
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
    matches: set[str] = set()
    for start in glob.glob(base) if base else ["."]:  # noqa: PTH207
        for folder, folders, files in os.walk(start):
            folders[:] = [name for name in folders if not name.startswith(".")]
            here = os.path.join(folder, "").removeprefix("" if base else "./")  # noqa: PTH118
            if rest[0]:
                matches.update(find_matches(glob.escape(here) + rest[0]))
            else:
                visible = [name for name in files if not name.startswith(".")]
                matches.update(here + name for name in (*folders, *visible))
                matches.update({here} - {""} if folder == start else ())
    return sorted(matches)


def _too_deep(source: str) -> InputError:
    return InputError(f"{source}: nested too deeply, expected at most {MAX_DEPTH} levels")


def read_toml(path: str | os.PathLike[str], expected: str) -> dict[str, object]:
    """Return the contents of a TOML file, or raise InputError that says what was `expected`."""
    import tomllib

    try:
        data = read_file(path, MAX_TOML)
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"{path}: no such file, expected {expected}") from None
    if LONG_KEY.search(data):
        raise InputError(f"{path}: a key of more than 64 parts, expected a.b = 1")
    try:
        plain = tomllib.loads(data.decode())
    except RecursionError:
        raise InputError(f"{path}: cannot be read as TOML (nested too deeply)") from None
    except ValueError as error:  # also raised for a number of 5000 digits
        hint = "; TOML writes 0.1, not .1" if BARE_FRACTION.search(data) else ""
        raise InputError(
            f"{path}: cannot be read as TOML ({error}{hint}), expected {expected}"
        ) from None
    check_depth(plain, str(path))
    return plain


def load_ids(path: Path) -> NDArray[np.number]:
    """Return the ids of examples in a .npy file, or raise InputError."""
    try:
        data = read_file(path, 8 * MAX_EXAMPLES + 1000)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    return array_from(data, str(path), limit=MAX_EXAMPLES, what=f"{MAX_EXAMPLES} examples")


def array_from(
    data: bytes,
    source: str,
    *,
    limit: int = MAX_NUMBERS,
    what: str = f"{MAX_TASKS} tasks",
    kinds: str = "fiu",
) -> NDArray[Any]:
    """Return the array in the bytes of a .npy file, or raise InputError.

    The header is checked first: it may promise objects, or more numbers than there are bytes.
    """
    stream = io.BytesIO(data)
    try:
        version = np.lib.format.read_magic(stream)
        read_header = (
            np.lib.format.read_array_header_1_0
            if version == (1, 0)
            else np.lib.format.read_array_header_2_0
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about headers that Python 2 wrote
            shape, fortran, dtype = read_header(stream)
    except (ValueError, SyntaxError, TokenError, TypeError, RecursionError, MemoryError):
        # The header is a Python literal, which fails in any of these ways if it is broken.
        raise InputError(f"{source}: not a NumPy array file (.npy), or a damaged one") from None
    if not all(type(length) is int and length >= 0 for length in shape):
        raise InputError(f"{source}: shape {shape}, expected whole numbers of 0 or more")
    if dtype.hasobject:
        hint = "; save text as np.array(values, dtype=str)" if "U" in kinds else ""
        raise InputError(
            f"{source}: holds Python objects, expected numbers (nothing is unpickled){hint}"
        )
    if dtype.kind not in kinds:
        raise InputError(f"{source}: holds {dtype}, expected numbers")
    count = int(np.prod(shape, dtype=object)) if shape else 1
    if count > limit:
        raise InputError(f"{source}: shape {shape} is too large, expected at most {what}")
    start = stream.tell()
    if len(data) - start < count * dtype.itemsize:
        raise InputError(f"{source}: shape {shape} promises {count} numbers, the file is cut off")
    array = np.frombuffer(data, dtype=dtype, count=count, offset=start)
    return array.reshape(shape, order="F" if fortran else "C")


def arrays_from_zip(
    data: bytes, source: str, *, max_bytes: int | None = None, kinds: str = "fiu"
) -> dict[str, NDArray[Any]]:
    """Return the arrays in the bytes of a .npz file by name, or raise InputError.

    Together they have at most `max_bytes`, by default as score matrices have.
    """
    what = f"{MAX_TASKS} tasks" if max_bytes is None else f"{max_bytes >> 30} GiB"
    limit = MAX_NUMBERS if max_bytes is None else max_bytes
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            arrays = {}
            left = 16 * MAX_NUMBERS if max_bytes is None else max_bytes
            if sum(entry.file_size for entry in archive.infolist()) > left:
                names = ", ".join(archive.namelist()[:3])
                raise InputError(f"{source}: {names} too large, expected at most {what}")
            for entry in archive.infolist():
                name = entry.filename.removesuffix(".npy")
                data = _decompress(archive, entry, f"{source}: {name}", left, what)
                arrays[name] = array_from(
                    data, f"{source}: {name}", limit=limit, what=what, kinds=kinds
                )
                left -= len(data)
            return arrays
    except InputError:
        raise
    except Exception as error:  # a damaged archive fails in many ways: zlib, lzma, seeking, …
        what = str(error) or type(error).__name__
        raise InputError(f"{source}: not a NumPy archive (.npz), or damaged ({what})") from None


def _decompress(
    archive: zipfile.ZipFile, entry: zipfile.ZipInfo, source: str, limit: int, what: str
) -> bytes:
    """Return the bytes of an entry; its own word on how many they are is not relied on."""
    if entry.compress_type not in ALLOWED_COMPRESSION:
        raise InputError(f"{source}: compressed in a way that NumPy does not, expected np.savez")
    parts: list[bytes] = []
    with archive.open(entry) as file:
        # In parts: without a size, zipfile decompresses everything first.
        while part := file.read(1 << 20):
            parts.append(part)
            limit -= len(part)
            if limit < 0:
                raise InputError(f"{source} too large, expected at most {what}")
    return b"".join(parts)
