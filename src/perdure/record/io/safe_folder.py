"""Reading inside a folder that may hold anything: no links, no pipes, and up to a limit."""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING

from .positions import read_at

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "FileStamp",
    "FileTooLargeError",
    "open_folder",
    "open_run_folder",
    "read_file",
    "read_range",
    "stat_file",
]

# A link is an error, a pipe does not make us wait, a program we start does not inherit it.
FLAGS = os.O_RDONLY
for _flag in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"):
    FLAGS |= getattr(os, _flag, 0)
FileStamp = tuple[int, int, int]  # inode, size, time of change in ns


class FileTooLargeError(OSError):
    """Raised for a file that is longer than any that we write."""


@contextmanager
def open_folder(path: str, *, folder: int | None = None) -> Iterator[int]:
    """Open a folder, or raise OSError if `path` is a link or not a folder."""
    file = os.open(path, FLAGS | getattr(os, "O_DIRECTORY", 0), dir_fd=folder)
    try:
        yield file
    finally:
        os.close(file)


@contextmanager
def open_run_folder(path: str) -> Iterator[int]:
    """Open the folder of a run, or raise OSError if it or its parent is a link."""
    shelf, name = os.path.split(path)
    with open_folder(shelf) as outer, open_folder(name, folder=outer) as inner:
        yield inner


def stat_file(folder: int, name: str) -> FileStamp | None:
    """Return inode, size and time of change in ns of a regular file; None if there is none."""
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def read_file(folder: int, name: str, limit: int) -> bytes:
    """Return all of a regular file of at most `limit` bytes, or raise OSError."""
    data = read_range(folder, name, 0, limit + 1)
    if len(data) > limit:
        raise FileTooLargeError(f"more than {limit >> 20} MiB")
    return data


def read_range(folder: int, name: str, start: int, size: int) -> bytes:
    """Return at most `size` bytes of a regular file from `start`, or raise OSError."""
    file = os.open(name, FLAGS, dir_fd=folder)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise OSError("not a regular file")
        parts: list[bytes] = []
        while size > 0 and (part := read_at(file, min(size, 1 << 20), start)):
            parts.append(part)
            start += len(part)
            size -= len(part)
        return b"".join(parts)
    finally:
        os.close(file)
