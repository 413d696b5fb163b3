"""Reading NumPy files from outside: no pickled objects, and no size taken on trust."""

from __future__ import annotations

import io
import warnings
import zipfile
from tokenize import TokenError
from typing import TYPE_CHECKING, Any

import numpy as np

from .files import InputError, read_file

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["MAX_TASKS", "array_from", "arrays_from_zip", "load_ids"]

MAX_TASKS = 2000
MAX_NUMBERS = MAX_TASKS**2
MAX_EXAMPLES = 1 << 24
# What NumPy writes. With other methods, zipfile decompresses whole blocks before a limit applies.
ALLOWED_COMPRESSION = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


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

    Args:
        data: The bytes of the file.
        source: Its name, for errors.
        max_bytes: The maximum size of all arrays; None for that of score matrices.
        kinds: The kinds of NumPy types that are allowed.
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
