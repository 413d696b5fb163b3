"""A file that only grows, and a lock that says who lets it grow."""

from __future__ import annotations

import json
import os
import socket
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Appender", "Lock", "RecordError", "replace"]


class RecordError(RuntimeError):
    """Raised when a record cannot be written; the message says where, why and what to do."""


def explained(path: Path, error: OSError) -> RecordError:
    """Return what went wrong with `path`, in one line."""
    what = (error.strerror or str(error)).lower()
    return RecordError(
        f"{path}: {what}; what was recorded before is whole. Make room or rights and go on "
        "(what could not be written is kept and written next), or choose another record folder"
    )


class Appender:
    """An append-only file. An append is whole or, where the disk refuses, waits for the next one.

    Writing goes to a known place in the file, so that an append that was interrupted and is
    repeated changes nothing.
    """

    def __init__(self, path: Path, header: bytes = b"") -> None:
        self.path = path
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_CLOEXEC", 0)
        self._file = os.open(path, flags, 0o666)
        self._state = (0, b"")  # bytes in the file, bytes that wait: one assignment changes both
        self.append(header)

    def append(self, data: bytes) -> None:
        """Write `data` after everything before it, or raise RecordError and keep it waiting."""
        size, waiting = self._state
        waiting += data
        self._state = (size, waiting)
        done = 0
        try:
            while done < len(waiting):
                done += os.pwrite(self._file, waiting[done:], size + done)
        except OSError as error:
            os.ftruncate(self._file, size)  # no half line stays behind
            raise explained(self.path, error) from None
        self._state = (size + done, b"")

    def sync(self) -> None:
        """Make sure that the disk has it."""
        try:
            os.fsync(self._file)
        except OSError as error:
            raise explained(self.path, error) from None

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def replace(path: Path, text: str) -> None:
    """Write a small file so that a reader sees the old one or the new one, never half of it."""
    beside = path.with_name(f".{path.name}.new")
    try:
        with beside.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise explained(path, error) from None


class Lock:
    """The right to write into a folder. The system takes it back when the process dies.

    Locks of one process do not exclude each other, so the folders held by this one are listed.
    """

    _held: set[tuple[int, str]] = set()  # noqa: RUF012 - shared on purpose

    def __init__(self, folder: Path) -> None:
        self._key = (os.getpid(), str(folder.resolve()))
        self._path = folder / "lock"
        if self._key in self._held:
            raise RecordError(
                f"{folder}: another evaluator of this process writes here; close it first, or "
                "choose another record folder"
            )
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0))
        try:
            _lock(self._file)
            if not os.path.samestat(os.fstat(self._file), os.stat(self._path)):  # noqa: PTH116
                raise BlockingIOError  # its holder removed it just now: the lock is of nothing
        except OSError:
            holder = _holder(self._file)
            os.close(self._file)
            raise RecordError(
                f"{folder}: {holder} writes here; wait for it, or choose another record folder"
            ) from None
        self._held.add(self._key)
        who = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "since": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, json.dumps(who).encode(), 0)

    def release(self) -> None:
        """Let others write; a second call does nothing."""
        if self._key in self._held:
            self._held.discard(self._key)
            self._path.unlink(missing_ok=True)
            os.close(self._file)


def _lock(file: int) -> None:
    try:
        import fcntl
    except ImportError:  # no such locks on Windows: the folder's run.json still protects it
        return
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _holder(file: int) -> str:
    try:
        who = json.loads(os.pread(file, 4096, 0))
        return f"process {who['pid']} on {who['host']} (since {who['since']})"
    except (ValueError, KeyError, TypeError):
        return "another process"
