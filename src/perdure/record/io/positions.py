"""Reading and writing at a position of an open file, on every system."""

from __future__ import annotations

import os

__all__ = ["read_at", "write_at"]


def read_at(file: int, size: int, position: int) -> bytes:
    """Return at most `size` bytes of an open file from `position`."""
    if hasattr(os, "pread"):
        return os.pread(file, size, position)
    os.lseek(file, position, os.SEEK_SET)  # on Windows
    return os.read(file, size)


def write_at(file: int, data: bytes, position: int) -> int:
    """Return how many bytes of `data` were written to an open file at `position`."""
    if hasattr(os, "pwrite"):
        return os.pwrite(file, data, position)
    os.lseek(file, position, os.SEEK_SET)  # on Windows
    return os.write(file, data)
