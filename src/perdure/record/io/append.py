"""Writing into a run folder: files that only grow, and files that are replaced.

No link is followed: anyone who can write to a store may have planted links in it.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import stat
from contextlib import suppress
from typing import TYPE_CHECKING

from .positions import write_at

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "UNFINISHED_PATTERN",
    "Appender",
    "FilePosition",
    "RecordError",
    "check_folder",
    "explain_os_error",
    "open_file",
    "replace",
]

FilePosition = tuple[int, str]  # bytes in a file, and their SHA-256

UNFINISHED_PATTERN = ".*.new"  # names of files that `replace` has not finished


OTHER_FOLDER = "choose another record folder (`store=` if it is one of `perdure run`)"


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
    for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"):
        flags |= getattr(os, name, 0)
    file = os.open(path, flags, 0o666)
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

    Args:
        path: the file.
        header: its first bytes.
        keep: the `position` to resume from; None starts an empty file.
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
    """Return the SHA-256 of the first `size` bytes of a file."""
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
