"""The lock of a run folder: one process writes, the others see that it does.

`filelock` is not used: it empties the file that says who holds the lock, accepts hard links, and
cannot ask in a read-only folder whether a lock is held.
"""

from __future__ import annotations

import json
import os
import socket
import time
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING
from weakref import WeakSet

from .folder import OTHER_FOLDER, RecordError, open_file, read_at, write_at

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Lock", "is_locked"]

LOCK_TIMEOUT = 0.5  # seconds to wait for `is_locked` of another process to release a lock
MAX_HOLDER = 4096  # bytes that say who holds a lock


class Lock:
    """The right to write into a folder. The system takes it back when the process dies.

    A forked child (the worker of a data loader, say) does not inherit it: it could outlive its
    parent.
    """

    def __init__(self, folder: Path) -> None:
        self._path, self._file = folder / "lock", -1
        self._file = open_file(self._path, os.O_RDWR | os.O_CREAT)
        try:
            _wait_for_lock(self._file)
            if not os.path.samestat(os.fstat(self._file), self._path.lstat()):
                raise BlockingIOError  # its holder has just removed it: the lock is on no file
            holder = {
                "pid": os.getpid(),
                "host": socket.gethostname(),
                "since": datetime.now(UTC).isoformat(timespec="seconds"),
            }
            os.ftruncate(self._file, 0)
            write_at(self._file, json.dumps(holder).encode(), 0)
        except (BlockingIOError, FileNotFoundError):
            reason = _explain_holder(self._file)
            self.drop()
            raise RecordError(f"{folder}: {reason}, or {OTHER_FOLDER}") from None
        except BaseException:
            self.drop()
            raise
        _held_locks().add(self)

    def release(self) -> None:
        """Let others write; a second call does nothing."""
        if self._file >= 0:
            if os.name == "nt":  # there, an open file cannot be removed
                self.drop()
            self._path.unlink(missing_ok=True)
            self.drop()

    def __del__(self) -> None:
        self.drop()

    def drop(self) -> None:
        """Close the file; another process that holds the lock keeps it."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


@cache
def _held_locks() -> WeakSet[Lock]:
    """Return the locks of this process, which its forked children drop."""
    locks: WeakSet[Lock] = WeakSet()

    def drop_all() -> None:
        for lock in list(locks):
            lock.drop()

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=drop_all)
    return locks


def _wait_for_lock(file: int) -> None:
    end = time.monotonic() + LOCK_TIMEOUT
    while True:
        try:
            return _try_lock(file, "LOCK_EX")
        except BlockingIOError:
            if time.monotonic() > end:
                raise
            time.sleep(0.02)


def _try_lock(file: int, kind: str) -> None:
    try:
        import fcntl
    except ImportError:  # no such locks on Windows: the folder's run.json still protects it
        return
    fcntl.flock(file, getattr(fcntl, kind) | fcntl.LOCK_NB)


def is_locked(folder: Path) -> bool:
    """Return whether a process writes into `folder`.

    The lock is tried, for the moment that takes: a process id could be another process's by now.
    A lock of another host is believed, because not every file system shares locks between hosts.
    """
    try:
        file = open_file(folder / "lock", os.O_RDONLY)
    except OSError:
        return False
    try:
        _try_lock(file, "LOCK_SH")
        return bool(json.loads(read_at(file, MAX_HOLDER, 0))["host"] != socket.gethostname())
    except BlockingIOError:
        return True
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False
    finally:
        os.close(file)


def _explain_holder(file: int) -> str:
    try:
        holder = json.loads(read_at(file, MAX_HOLDER, 0))
        if (holder["pid"], holder["host"]) == (os.getpid(), socket.gethostname()):
            return "another evaluator of this process writes here; close it first"
        name = f"process {holder['pid']} on {holder['host']} (since {holder['since']})"
    except (ValueError, KeyError, TypeError):
        name = "another process"
    return f"{name} writes here; wait for it"
