"""A file that only grows, and a lock that says who lets it grow."""

from __future__ import annotations

import json
import os
import socket
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from weakref import WeakSet

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Appender", "Lock", "RecordError", "is_locked", "replace"]


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
    """An append-only file. What the disk refuses waits, whole, for the next `flush`.

    Writing goes to a known place in the file, so that an append that was interrupted and is
    repeated changes nothing.

    Args:
        path: the file.
        header: its first bytes.
        keep: go on after so many bytes that are there; None begins anew.
    """

    def __init__(self, path: Path, header: bytes = b"", *, keep: int | None = None) -> None:
        self.path = path
        # Without O_NONBLOCK, a pipe in place of the file is waited for.
        flags = os.O_WRONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
        flags |= os.O_CREAT | os.O_TRUNC if keep is None else 0
        try:
            self._file = os.open(path, flags, 0o666)
            if keep is not None:
                there = os.fstat(self._file).st_size
                if there < keep:
                    os.close(self._file)
                    raise RecordError(
                        f"{path}: {there} bytes, expected the {keep} that were there when the run "
                        "was saved; it cannot go on, start it anew"
                    )
                os.ftruncate(self._file, keep)  # what came after is tested again
        except OSError as error:
            raise explained(path, error) from None
        # Bytes in the file, bytes that wait: one assignment for both.
        self._state = (0, header) if keep is None else (keep, b"")

    @property
    def size(self) -> int:
        """Bytes in the file."""
        return self._state[0]

    def append(self, data: bytes) -> None:
        """Write `data` after everything before it, or raise RecordError and keep it waiting."""
        self.queue(data)
        self.flush()

    def queue(self, data: bytes) -> None:
        """Have `data` written after everything before it, by the next `flush`."""
        size, waiting = self._state
        self._state = (size, waiting + data)

    def flush(self) -> None:
        """Write what waits, or raise RecordError and keep it waiting."""
        size, waiting = self._state
        done = 0
        try:
            while done < len(waiting):
                done += os.pwrite(self._file, waiting[done:], size + done)
        except OSError as error:
            with suppress(OSError):
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

    A forked child (a loader's worker, say) does not inherit it: it could outlive its parent.
    """

    def __init__(self, folder: Path) -> None:
        self._path, self._file = folder / "lock", -1
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            _lock(self._file)
            if not os.path.samestat(os.fstat(self._file), os.stat(self._path)):  # noqa: PTH116
                raise BlockingIOError  # its holder removed it just now: the lock is of nothing
            who = {
                "pid": os.getpid(),
                "host": socket.gethostname(),
                "since": datetime.now(UTC).isoformat(timespec="seconds"),
            }
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, json.dumps(who).encode(), 0)
        except (BlockingIOError, FileNotFoundError):
            holder = _holder(self._file)
            self.drop()
            raise RecordError(f"{folder}: {holder}, or choose another record folder") from None
        except BaseException:
            self.drop()
            raise
        _HELD.add(self)

    def release(self) -> None:
        """Let others write; a second call does nothing."""
        if self._file >= 0:
            self._path.unlink(missing_ok=True)
            self.drop()

    def __del__(self) -> None:
        self.drop()

    def drop(self) -> None:
        """Close the file; whoever else holds it goes on doing so."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


_HELD: WeakSet[Lock] = WeakSet()


def _drop_all() -> None:
    for lock in list(_HELD):
        lock.drop()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_drop_all)


def _lock(file: int) -> None:
    try:
        import fcntl
    except ImportError:  # no such locks on Windows: the folder's run.json still protects it
        return
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def is_locked(folder: Path) -> bool:
    """Return whether a process writes into `folder`, as far as its lock tells.

    The lock is not tried: whoever wants it at that moment would be refused.
    """
    try:
        who = json.loads(_said(folder / "lock"))
        if who["host"] != socket.gethostname():
            return True
        os.kill(int(who["pid"]), 0)
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        return isinstance(error, PermissionError)  # of somebody else's process
    return True


def _said(path: Path) -> bytes:
    """Return what a lock says, without waiting should it be a pipe."""
    file = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    try:
        return os.read(file, 4096)
    finally:
        os.close(file)


def _holder(file: int) -> str:
    """Return who holds a lock, and what to do."""
    try:
        who = json.loads(os.pread(file, 4096, 0))
        if (who["pid"], who["host"]) == (os.getpid(), socket.gethostname()):
            return "another evaluator of this process writes here; close it first"
        name = f"process {who['pid']} on {who['host']} (since {who['since']})"
    except (ValueError, KeyError, TypeError):
        name = "another process"
    return f"{name} writes here; wait for it"
