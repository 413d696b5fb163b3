"""A store, its folders, and its changes since the last poll: one watcher for all viewers."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from heapq import nlargest
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from ...record.io.folder import open_folder
from ...record.run_folder import MARKER_FILES
from .curves import find_new_points
from .list_row import StudyProgress, count_progress, escape_name, find_studies
from .run_entry import RunEntry

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

    from .broadcaster import NewPoints
    from .list_row import ListRow, StudyRuns

__all__ = ["StoreChanges", "StoreFolder", "StoreWatcher"]

MAX_FOLDERS = 100_000
CLOCK_TICK_NS = 100_000_000  # a folder changed this recently may change again unnoticed


class StoreFolder(NamedTuple):
    """A folder that may be a run. Links are shown but not followed."""

    path: str
    name: str
    link: bool = False
    top: bool = False  # in the store itself, so it may be a nested store


class FolderScan:
    """The folders of a store, listed again when they may have changed."""

    def __init__(self, store: str) -> None:
        self.store = store
        self._known: dict[str, tuple[int, list[StoreFolder]]] = {}

    def find(self, stores: Iterable[str], *, force: bool = False) -> dict[str, StoreFolder] | None:
        """Return all folders by name; None if they have not changed.

        Args:
            stores: folders in the store that are not runs and may contain some.
            force: list folders even if they seem unchanged.
        """
        paths = [self.store, *stores]
        changed = force or len(paths) != len(self._known)
        before, self._known = self._known, {}
        for path in paths:
            try:
                when = os.lstat(path).st_mtime_ns
            except OSError:
                when = -1
            known = before.get(path)
            if known is None or known[0] != when or force:
                changed = True
                known = (when if time.time_ns() - when > CLOCK_TICK_NS else -2, self._list(path))
            self._known[path] = known
        if not changed:
            return None
        by_name: dict[str, StoreFolder] = {}
        for _, folders in self._known.values():
            for folder in folders[: MAX_FOLDERS - len(by_name)]:
                by_name.setdefault(folder.name, folder)
        return by_name

    def _list(self, path: str) -> list[StoreFolder]:
        top = path == self.store
        own_name = escape_name(os.path.basename(path))  # noqa: PTH119
        prefix = "" if top else own_name + "/"
        folders, is_run = [], False
        try:
            with open_folder(path) as folder, os.scandir(folder) as entries:
                for entry in entries:
                    is_run = is_run or entry.name in MARKER_FILES
                    if _is_folder(entry) and not entry.name.startswith("."):
                        name = prefix + escape_name(entry.name)
                        link = entry.is_symlink()
                        folders.append(StoreFolder(f"{path}/{entry.name}", name, link, top))
        except OSError:
            return []
        return [StoreFolder(path, own_name)] if top and is_run else folders


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself, or no permission
        return False


# Every how many polls a run is checked, by state.
CHECK_EVERY = {"running": 1, "finished": 20, "failed": 20}
CHECK_OTHERS_EVERY = 3
RESCAN_EVERY = 60  # polls, for file systems that do not report changes of a folder
READ_SECONDS = 0.25  # per poll, to read the points of runs that nobody views


@dataclass
class StoreChanges:
    """What a poll has found: new or changed rows, runs that are gone, new points of runs."""

    rows: dict[str, ListRow] = field(default_factory=dict)
    gone: list[str] = field(default_factory=list)
    points: dict[str, NewPoints] = field(default_factory=dict)
    redraw: list[str] = field(default_factory=list)  # runs whose curves must be fetched again
    studies: list[StudyProgress] | None = None  # None if they have not changed
    rev: int = 0  # of the list after these changes


class StoreWatcher:
    r"""The runs of a store, and of the stores in it.

    Only `poll` reads the disk, except for the curves of a run that a viewer requests. A run is
    looked up by a name that was found on the disk; no path is ever made from a name in a request.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> store = Path(tempfile.mkdtemp())
        >>> watcher = StoreWatcher(store)
        >>> (store / "mine").mkdir()
        >>> _ = (store / "mine" / "points.csv").write_text("step,tested,score\n5,a,0.5\n")
        >>> list(watcher.poll().rows), watcher.listing["mine"].state
        (['mine'], 'running')
    """

    def __init__(self, store: Path) -> None:
        self.listing: dict[str, ListRow] = {}
        self.studies: list[StudyProgress] = []
        self.rev = 0
        self.store = os.path.realpath(store)  # links inside it are not followed
        self._scan = FolderScan(self.store)
        self._entries: dict[str, RunEntry] = {}
        self._nested_stores: set[str] = set()  # folders in the store that are not runs
        self._study_runs: list[StudyRuns] = []
        self._polls = 0
        for _ in range(2):  # the second poll scans the stores that the first has found
            self.poll(read_others=False)

    def curves(self, name: str) -> bytes | None:
        """Return the curves of a run as JSON; None if there is no such run."""
        entry = self._entries.get(name)
        return None if entry is None or entry.row is None else entry.curves()

    def poll(self, viewed: Collection[str] = (), *, read_others: bool = True) -> StoreChanges:
        """Return what has changed since the last call.

        Args:
            viewed: the runs whose new points are wanted at once.
            read_others: spend some time on reading runs that nobody views.
        """
        changes = StoreChanges()
        now = time.monotonic()
        self._find_folders(changes)
        for entry in self._list_due(viewed):
            if entry.refresh():
                self._read(entry, now, changes, viewed=entry.name in viewed)
            else:
                self._drop(entry.name, changes)
        if read_others:
            self._read_others(changes)
        self._update_studies(changes)
        self._polls += 1
        changes.rev = self.rev
        return changes

    def _find_folders(self, changes: StoreChanges) -> None:
        stores = [self._entries[name].path for name in self._nested_stores]
        folders = self._scan.find(stores, force=self._polls % RESCAN_EVERY == 0)
        if folders is None:
            return
        for name, entry in list(self._entries.items()):
            if folders.get(name) != entry.folder:
                self._drop(name, changes)
        for name in folders.keys() - self._entries.keys():
            self._add(folders[name], changes)
        self._study_runs = find_studies(self.store)
        for name in sorted(self._nested_stores):
            self._study_runs += find_studies(self._entries[name].path, name + "/")

    def _add(self, folder: StoreFolder, changes: StoreChanges) -> None:
        entry = RunEntry(folder)
        if entry.refresh():
            self._entries[folder.name] = entry
            self._update_row(entry, changes)

    def _drop(self, name: str, changes: StoreChanges) -> None:
        self._entries.pop(name, None)
        self._nested_stores.discard(name)
        self._remove_row(name, changes)

    def _list_due(self, viewed: Collection[str]) -> list[RunEntry]:
        """Return the entries to check now: viewed and running ones, the others in turns."""
        return [
            entry
            for number, entry in enumerate(self._entries.values())
            if not (self._polls + number) % entry.check_every or entry.name in viewed
        ]

    def _read(self, entry: RunEntry, now: float, changes: StoreChanges, *, viewed: bool) -> None:
        running = entry.row is not None and entry.row.state == "running"
        if (entry.unread and (viewed or running)) or (viewed and entry.run_curves is None):
            entry.read_in_turn(now)
        if viewed:
            entry.viewed_at = now
            _add_points(entry, changes)
        elif not running:
            entry.forget(now)
        self._update_row(entry, changes)

    def _read_others(self, changes: StoreChanges) -> None:
        """Read runs that nobody views, the most recent first, while there is time."""
        until = time.monotonic() + READ_SECONDS
        unread = (e for e in self._entries.values() if e.unread and e.row is not None)
        for entry in nlargest(200, unread, key=lambda e: e.row.changed if e.row else 0.0):
            entry.read_in_turn(time.monotonic())
            entry.forget(time.monotonic())
            self._update_row(entry, changes)
            if time.monotonic() > until:
                break

    def _update_row(self, entry: RunEntry, changes: StoreChanges) -> None:
        row, known = entry.row, self.listing.get(entry.name)
        entry.check_every = CHECK_EVERY.get(row.state if row else "", CHECK_OTHERS_EVERY)
        if row is None and entry.folder.top:
            self._nested_stores.add(entry.name)
        elif self._nested_stores:
            self._nested_stores.discard(entry.name)
        if row is None:
            self._remove_row(entry.name, changes)
        elif known is None or row != msgspec.structs.replace(known, rev=0):
            self.rev += 1
            self.listing[entry.name] = msgspec.structs.replace(row, rev=self.rev)
            changes.rows[entry.name] = self.listing[entry.name]

    def _remove_row(self, name: str, changes: StoreChanges) -> None:
        if self.listing.pop(name, None) is not None:
            self.rev += 1
            changes.gone.append(name)
            changes.rows.pop(name, None)

    def _update_studies(self, changes: StoreChanges) -> None:
        if self._polls % RESCAN_EVERY and not changes.rows and not changes.gone:
            return
        studies = [count_progress(study, self.listing) for study in self._study_runs]
        if studies != self.studies:
            self.studies = changes.studies = studies


def _add_points(entry: RunEntry, changes: StoreChanges) -> None:
    now, sent, entry.sent = entry.run_curves, entry.sent, entry.run_curves
    if now is sent:
        return
    points = None if now is None or sent is None else find_new_points(sent, now)
    if points is None:
        changes.redraw.append(entry.name)
    else:
        changes.points[entry.name] = points
