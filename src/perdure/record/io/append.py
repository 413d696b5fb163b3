"""Writing into a run folder: files that only grow, files that are replaced, and a lock.

No name here is followed to another file: a store may hold links that somebody else has planted.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import socket
import stat
import time
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from weakref import WeakSet

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Appender", "Lock", "RecordError", "is_locked", "replace"]


BEING_WRITTEN = ".*.new"  # names of files that `replace` has not finished
PATIENCE = 0.5  # seconds for `is_locked` of another process to let go of a lock


class RecordError(RuntimeError):
    """Raised when a record cannot be written; the message says where, why and what to do."""


def explained(path: Path, error: OSError) -> RecordError:
    """Return what went wrong with `path`, in one line."""
    what = (error.strerror or str(error)).lower()
    if error.errno in (errno.ELOOP, errno.ENXIO):
        return RecordError(
            f"{error.filename or path}: a link or a pipe, expected a file; nothing is written "
            "through links, remove it"
        )
    return RecordError(
        f"{path}: {what}; what was recorded before is whole. Make room or rights and go on "
        "(what could not be written is kept and written next), or choose another record folder"
    )


def open_file(path: Path, flags: int) -> int:
    """Return a descriptor of a plain file with one name; anything else is an OSError at once."""
    for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC"):
        flags |= getattr(os, name, 0)
    file = os.open(path, flags, 0o666)
    found = os.fstat(file)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:  # a hard link is one too
        os.close(file)
        raise OSError(errno.ENXIO, "not a file", str(path))
    return file


def check_folder(folder: Path) -> None:
    """Raise if a folder that is written into is a link: it may lead anywhere."""
    if folder.is_symlink():
        raise RecordError(f"{folder}: a link, expected a folder; nothing is written through links")


class Appender:
    """An append-only file. What the disk refuses waits, whole, for the next `flush`.

    Writing goes to a known place in the file, so that an append that was interrupted and is
    repeated changes nothing.

    Args:
        path: the file.
        header: its first bytes.
        keep: the `position` to go on from; None begins anew.
    """

    def __init__(
        self, path: Path, header: bytes = b"", *, keep: tuple[int, str] | None = None
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
                        "run was saved; it cannot be resumed; restart it from scratch"
                    )
            os.ftruncate(self._file, 0 if keep is None else keep[0])  # what follows is tested again
        except OSError as error:
            raise explained(path, error) from None
        # Bytes in the file, bytes that wait, SHA-256 of the file: one assignment for all.
        self._state = (0 if keep is None else keep[0], header if keep is None else b"", digest)

    @property
    def position(self) -> tuple[int, str]:
        """Bytes in the file, and their SHA-256."""
        return self._state[0], self._state[2].hexdigest()

    def append(self, data: bytes) -> None:
        """Write `data` after everything before it, or raise RecordError and keep it waiting."""
        self.queue(data)
        self.flush()

    def queue(self, data: bytes) -> None:
        """Have `data` written after everything before it, by the next `flush`."""
        size, waiting, digest = self._state
        self._state = (size, waiting + data, digest)

    def flush(self) -> None:
        """Write what waits, or raise RecordError and keep it waiting."""
        size, waiting, digest = self._state
        done = 0
        try:
            while done < len(waiting):
                done += os.pwrite(self._file, waiting[done:], size + done)
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._file, size)  # no half line stays behind
            raise explained(self.path, error) from None
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
            raise explained(self.path, error) from None
        if not same:
            raise RecordError(
                f"{self.path}: removed or changed by somebody else while the run went on; the run "
                "is not marked as finished; restart it from scratch"
            )

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


def _digest(path: Path, size: int) -> hashlib._Hash:
    """Return the SHA-256 of the first `size` bytes of a file."""
    digest = hashlib.sha256()
    with os.fdopen(open_file(path, os.O_RDONLY), "rb") as file:
        while size > 0 and (part := file.read(min(size, 1 << 20))):
            digest.update(part)
            size -= len(part)
    return digest


def replace(path: Path, data: str | bytes) -> None:
    """Write a file so that a reader sees the old one or the new one, never half of it.

    The new one is made under a name that nobody can foresee, and only if nothing has that name.
    """
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}.new")
    try:
        made = open_file(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        with os.fdopen(made, "wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        raise explained(path, error) from None
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)


class Lock:
    """The right to write into a folder. The system takes it back when the process dies.

    A forked child (a loader's worker, say) does not inherit it: it could outlive its parent.
    """

    def __init__(self, folder: Path) -> None:
        self._path, self._file = folder / "lock", -1
        self._file = open_file(self._path, os.O_RDWR | os.O_CREAT)
        try:
            _lock(self._file)
            if not os.path.samestat(os.fstat(self._file), self._path.lstat()):
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
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return _try(file, "LOCK_EX")
        except BlockingIOError:
            if time.monotonic() > end:
                raise
            time.sleep(0.02)


def _try(file: int, how: str) -> None:
    try:
        import fcntl
    except ImportError:  # no such locks on Windows: the folder's run.json still protects it
        return
    fcntl.flock(file, getattr(fcntl, how) | fcntl.LOCK_NB)


def is_locked(folder: Path) -> bool:
    """Return whether a process writes into `folder`.

    The lock is tried, for the moment that takes: a process id could be another process's by now.
    A lock of another host is believed, since not every file system carries locks between hosts.
    """
    try:
        file = open_file(folder / "lock", os.O_RDONLY)
    except OSError:
        return False
    try:
        _try(file, "LOCK_SH")
        return bool(json.loads(os.pread(file, 4096, 0))["host"] != socket.gethostname())
    except BlockingIOError:
        return True
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False
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
