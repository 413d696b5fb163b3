"""A store, which is a folder of runs: what is in it, removing runs, and archives of them."""

from __future__ import annotations

import os
import secrets
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from .._display import count_of
from .archive import extract_archive, write_archive
from .group_names import parse_order
from .io.files import InputError, find_matches, unreadable
from .io.lock import Lock
from .io.text import visible
from .run_folder import RunFolder
from .run_index import list_runs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .run_folder import RunState

__all__ = [
    "StoredRun",
    "extract_archive",
    "find_stored_runs",
    "finish_removals",
    "list_stored_runs",
    "remove_stored_run",
    "write_archive",
]

PREFIX = ".removed-"  # hidden, so that no command takes it for a run


class StoredRun(NamedTuple):
    """One run in a store.

    Attributes:
        path: Its folder.
        scenario: Name of the scenario, empty if the run states none.
        strategy: Name of the strategy, empty if the run states none.
        seed: Seed, None if the run states none.
        order: Order of the tasks, None for the scenario's own.
        state: How far the run is.
        changed_at: When it was last written to, in seconds since 1970.
        size: Bytes on disk.
    """

    path: Path
    scenario: str
    strategy: str
    seed: int | str | None
    order: tuple[int, ...] | None
    state: RunState
    changed_at: float
    size: int

    @property
    def name(self) -> str:
        """The name of its folder."""
        return self.path.name


def list_stored_runs(store: str | os.PathLike[str]) -> list[StoredRun]:
    """Return the runs in a store, sorted by name; links are left out.

    Raises InputError if there are none.
    """
    try:
        folders = list_runs(store)
    except OSError as error:
        raise unreadable(store, error) from None
    return [_describe(folder) for folder in folders if not folder.path.is_symlink()]


def find_stored_runs(paths: Sequence[str], *, stores: bool) -> list[StoredRun]:
    """Return the runs that paths and patterns name, each once; `stores` allows folders of runs.

    Raises InputError for whatever is not a run folder, and for links.
    """
    runs: dict[Path, StoredRun] = {}
    for text in paths:
        matches = [text] if os.path.lexists(text) else find_matches(text)
        if not matches:
            raise InputError(f"{text!r:.200}: no such run folder, and as a pattern it matches none")
        for match in matches:
            for run in _runs_at(Path(match), stores=stores):
                runs.setdefault(run.path.absolute(), run)
    return list(runs.values())


def _runs_at(path: Path, *, stores: bool) -> list[StoredRun]:
    if path.is_symlink():
        raise InputError(f"{path}: a link, expected a run folder; name the folder itself")
    folder = RunFolder(path)
    if folder.is_run():
        return [_describe(folder)]
    if not path.is_dir():
        raise InputError(f"{path}: not a run folder")
    count = len(runs := list_stored_runs(path))
    if not stores:
        raise InputError(
            f"{path}: a folder of {count_of(count, 'run')}, expected run folders; use `status=` or "
            "`strategy=` to select some of them, or `all_=True`"
        )
    return runs


def _describe(folder: RunFolder) -> StoredRun:
    config: dict[str, object] = {}
    seed = None
    try:
        metadata = folder.metadata()
        config, seed = {**metadata.config}, metadata.seed
    except (OSError, InputError):  # a log of another tool, or a broken run.json
        pass
    names = [config.get(key) for key in ("scenario", "strategy")]
    scenario, strategy = (visible(name) if isinstance(name, str) else "" for name in names)
    files = folder.stat_files()
    size = measure_size(folder.path)
    state = folder.status(files).state
    order = parse_order(config.get("task_order"))
    return StoredRun(folder.path, scenario, strategy, seed, order, state, files.changed_at, size)


def measure_size(folder: Path) -> int:
    """Return the bytes that a folder takes on disk; links are not followed."""
    size = 0
    for path, _, names in os.walk(folder):
        for name in names:
            try:
                status = os.lstat(f"{path}/{name}")
            except OSError:  # removed meanwhile
                continue
            size += 512 * getattr(status, "st_blocks", -(-status.st_size // 512))
    return size


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
