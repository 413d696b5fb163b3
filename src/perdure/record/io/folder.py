"""Files in a run folder: those that only grow, those that are replaced, and reading them.

No link is followed: anyone who can write to a store may have planted links in it.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = [
    "UNFINISHED_PATTERN",
    "Appender",
    "FilePosition",
    "FileStamp",
    "RecordError",
    "check_folder",
    "explain_os_error",
    "open_file",
    "open_folder",
    "open_run_folder",
    "read_at",
    "read_file",
    "read_range",
    "replace",
    "stat_file",
    "write_at",
]

FilePosition = tuple[int, str]  # bytes in a file, and their SHA-256
FileStamp = tuple[int, int, int]  # inode, size, time of change in ns
UNFINISHED_PATTERN = ".*.new"  # names of files that `replace` has not finished
OTHER_FOLDER = "choose another record folder (`store=` if it is one of `perdure run`)"
# A link is an error, a pipe does not make us wait, a program we start does not inherit it.
FLAGS = 0
for _flag in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"):
    FLAGS |= getattr(os, _flag, 0)


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


class RecordError(RuntimeError):
    """Raised when a record cannot be written; the message says where, why and what to do."""


def explain_os_error(path: Path, error: OSError) -> RecordError:
    """Return an error that says in one line what went wrong with `path`, and what to do."""
    what = (error.strerror or str(error)).lower()
    if error.errno in (errno.ELOOP, errno.ENXIO):
        return RecordError(
            f"{error.filename or path}: a link or a pipe, expected a file; nothing is written "
            "through links. Remove it"
        )
    return RecordError(
        f"{path}: {what}; no recorded data was lost. Free disk space or fix permissions (pending "
        f"rows are written on the next attempt), or {OTHER_FOLDER}"
    )


def open_file(path: Path, flags: int) -> int:
    """Return a descriptor of a regular file with one name; anything else raises OSError."""
    file = os.open(path, FLAGS | flags, 0o666)
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:  # a hard link is a link, too
        os.close(file)
        raise OSError(errno.ENXIO, "not a file", str(path))
    return file


def check_folder(folder: Path) -> None:
    """Raise RecordError if a folder that is written into is a link: it may lead anywhere."""
    if folder.is_symlink():
        raise RecordError(f"{folder}: a link, expected a folder; nothing is written through links")


class Appender:
    """An append-only file. What the disk refuses waits, whole, for the next `flush`.

    Data is written at a known offset, so that repeating an interrupted append changes nothing.
    With `keep` it resumes from that `position`; without, it starts an empty file with `header`.
    """

    def __init__(
        self, path: Path, header: bytes = b"", *, keep: FilePosition | None = None
    ) -> None:
        self.path = path
        digest = hashlib.sha256()
        try:
            self._file = open_file(path, os.O_WRONLY | (os.O_CREAT if keep is None else 0))
            if keep is not None:
                digest = _digest(path, keep[0])
                if digest.hexdigest() != keep[1]:
                    os.close(self._file)
                    raise RecordError(
                        f"{path}: its first {keep[0]} bytes are not those that were there when the "
                        "run was saved, so it cannot be resumed. Restart it from scratch"
                    )
            os.ftruncate(
                self._file, 0 if keep is None else keep[0]
            )  # what follows is evaluated again
        except OSError as error:
            raise explain_os_error(path, error) from None
        # Size of the file, waiting bytes, SHA-256 of the file: set together, so that an interrupt
        # leaves them consistent.
        self._state = (0 if keep is None else keep[0], header if keep is None else b"", digest)

    @property
    def position(self) -> FilePosition:
        """Bytes in the file, and their SHA-256."""
        return self._state[0], self._state[2].hexdigest()

    def append(self, data: bytes) -> None:
        """Write `data` at the end, or raise RecordError and keep it for the next attempt."""
        self.queue(data)
        self.flush()

    def queue(self, data: bytes) -> None:
        """Have `data` written at the end by the next `flush`."""
        size, waiting, digest = self._state
        self._state = (size, waiting + data, digest)

    def flush(self) -> None:
        """Write what waits, or raise RecordError and keep it for the next attempt."""
        size, waiting, digest = self._state
        done = 0
        try:
            while done < len(waiting):
                done += write_at(self._file, waiting[done:], size + done)
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._file, size)  # leave no partial line
            raise explain_os_error(self.path, error) from None
        digest = digest.copy()
        digest.update(waiting)
        self._state = (size + done, b"", digest)

    def check(self) -> None:
        """Raise RecordError if the file is not the one that was written here."""
        try:
            same = os.path.samestat(os.fstat(self._file), self.path.lstat())
            same = same and os.fstat(self._file).st_size == self._state[0]
            same = same and _digest(self.path, self._state[0]).hexdigest() == self.position[1]
        except FileNotFoundError:
            same = False
        except OSError as error:
            raise explain_os_error(self.path, error) from None
        if not same:
            raise RecordError(
                f"{self.path}: removed or changed by another process during the run, which is not "
                "marked as finished. Restart it from scratch"
            )

    def sync(self) -> None:
        """Make sure that the disk has it."""
        try:
            os.fsync(self._file)
        except OSError as error:
            raise explain_os_error(self.path, error) from None

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _digest(path: Path, size: int) -> hashlib._Hash:
    digest = hashlib.sha256()
    with os.fdopen(open_file(path, os.O_RDONLY), "rb") as file:
        while size > 0 and (part := file.read(min(size, 1 << 20))):
            digest.update(part)
            size -= len(part)
    return digest


def replace(path: Path, data: str | bytes) -> None:
    """Write a file so that a reader sees the old one or the new one, never a part of it.

    The new file is created under an unpredictable name that nothing has yet, and then renamed.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.new")
    try:
        file_number = open_file(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        with os.fdopen(file_number, "wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise explain_os_error(path, error) from None
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


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
