"""SHA-256 of dataset files, cached while a file's size and modification time stay the same."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from typing import TYPE_CHECKING

from ..record import RecordError, open_regular, read_json, replace_file
from .paths import cache_folder

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["cached_sha256", "compute_sha256", "get_sha256", "remove_sha256", "store_sha256"]

MAX_FILE_BYTES = 64 << 30


def compute_sha256(path: Path) -> str:
    """Return the SHA-256 of a file's current bytes."""
    with open_regular(path, MAX_FILE_BYTES) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def get_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, cached if its size and modification time have not changed."""
    known = cached_sha256(path)
    if known is not None:
        return known
    before = path.stat()
    sha256 = compute_sha256(path)
    now = path.stat()
    if (before.st_size, before.st_mtime_ns) == (now.st_size, now.st_mtime_ns):
        store_sha256(path, sha256)
    return sha256


def store_sha256(path: Path, sha256: str) -> None:
    """Cache the SHA-256 of a file together with its size and modification time."""
    stat = path.stat()
    entry = {"path": str(path), "size": stat.st_size, "mtime_ns": stat.st_mtime_ns}
    with suppress(OSError, RecordError):  # without a cache, hashing takes longer
        file = _cache_file(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_file(file, json.dumps({**entry, "sha256": sha256}))


def remove_sha256(path: Path) -> None:
    """Remove the cached SHA-256 of a file."""
    with suppress(OSError):
        _cache_file(path).unlink(missing_ok=True)


def cached_sha256(path: Path) -> str | None:
    """Return the cached SHA-256 of a file that has not changed since, or None."""
    try:
        entry = read_json(_cache_file(path))
        stat = path.stat()
        key = (entry["path"], entry["size"], entry["mtime_ns"])
        if key == (str(path), stat.st_size, stat.st_mtime_ns) and len(entry["sha256"]) == 64:
            return str(entry["sha256"])
    except (OSError, ValueError, KeyError, TypeError):
        pass  # missing or damaged
    return None


def _cache_file(path: Path) -> Path:
    key = hashlib.sha256(str(path).encode()).hexdigest()[:32]
    return cache_folder() / "hashes" / f"{key}.json"
