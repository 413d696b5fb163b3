"""Files that appear whole or not at all, and hashes that are remembered."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..record import open_regular, read_json
from .paths import cache_folder

__all__ = ["forget", "hash_of", "remember", "remembered", "sha256_of"]

MAX_BYTES = 64 << 30  # of one file of a dataset


def _write_whole(path: Path, text: str) -> None:
    """Write a small file by rename; several processes may do so at once, the last one wins."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(beside).replace(path)
    except BaseException:
        Path(beside).unlink(missing_ok=True)
        raise


def hash_of(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, as they are now."""
    with open_regular(path, MAX_BYTES) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, from memory while its size and time have not changed."""
    known = remembered(path)
    if known is not None:
        return known
    before = path.stat()
    found = hash_of(path)
    now = path.stat()
    if (before.st_size, before.st_mtime_ns) == (now.st_size, now.st_mtime_ns):
        remember(path, found)
    return found


def remember(path: Path, sha256: str) -> None:
    """Keep the SHA-256 of a file, with the size and time that it has."""
    stat = path.stat()
    entry = {"size": stat.st_size, "mtime_ns": stat.st_mtime_ns, "sha256": sha256}
    with suppress(OSError):  # a cache that cannot be written costs time, nothing else
        _write_whole(_memory(path), json.dumps({"path": str(path), **entry}))


def forget(path: Path) -> None:
    """Have the next `sha256_of` read the file."""
    with suppress(OSError):
        _memory(path).unlink(missing_ok=True)


def remembered(path: Path) -> str | None:
    """Return the SHA-256 that a file of this size and time had before, or None."""
    try:
        entry: dict[str, Any] = read_json(_memory(path))
        stat = path.stat()
        same = (entry["path"], entry["size"], entry["mtime_ns"])
        if same == (str(path), stat.st_size, stat.st_mtime_ns) and len(entry["sha256"]) == 64:
            return str(entry["sha256"])
    except (OSError, ValueError, KeyError, TypeError):
        pass  # nothing is remembered, or nothing of use
    return None


def _memory(path: Path) -> Path:
    key = hashlib.sha256(str(path).encode()).hexdigest()[:32]
    return cache_folder() / "hashes" / f"{key}.json"
