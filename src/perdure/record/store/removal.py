"""Removing runs from a store: a run is renamed first, so that no half of it is ever found."""

from __future__ import annotations

import os
import secrets
import shutil
from typing import TYPE_CHECKING

from ..io.files import InputError
from ..io.lock import Lock
from ..run_folder import RunFolder

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["finish_removals", "remove_stored_run"]

PREFIX = ".removed-"  # hidden, so that no command takes it for a run


def remove_stored_run(folder: Path) -> None:
    """Remove a run folder, whole: after a kill at any moment the run is there or is not.

    Raises InputError for a link, for what is not a run folder, and for a run that is running;
    RecordError if another process holds its lock.
    """
    if folder.is_symlink():
        raise InputError(
            f"{folder}: a link, expected a run folder; nothing is removed through links"
        )
    run = RunFolder(folder)
    if not run.is_run():
        raise InputError(f"{folder}: not a run folder; it was not removed")
    if run.status().state == "running":
        raise InputError(f"{folder}: is running; stop it first")
    removed = folder.with_name(f"{PREFIX}{secrets.token_hex(6)}")
    lock = Lock(folder)
    try:
        os.rename(folder, removed)  # noqa: PTH104
    except BaseException:
        lock.release()
        raise
    lock.drop()  # its file goes with the folder: one of that name may be another run's by now
    shutil.rmtree(removed)


def finish_removals(store: Path) -> int:
    """Return how many removals that were interrupted have been finished in a store."""
    count = 0
    for path in store.glob(f"{PREFIX}*"):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
            count += 1
    return count
