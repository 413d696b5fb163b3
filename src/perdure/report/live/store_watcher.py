"""A store as it stands, and what has changed since it was last asked: one watcher for everybody."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from heapq import nlargest
from typing import TYPE_CHECKING, Any

import msgspec

from .curves import find_new_points
from .folder_scan import FolderScan
from .run_entry import RunEntry
from .studies import StudyProgress, count_progress, find_studies

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from .folder_scan import StoreFolder
    from .list_row import ListRow
    from .studies import StudyRuns

__all__ = ["StoreChanges", "StoreWatcher"]

IDLE_POLLS = 3  # an unfinished run that nobody writes is asked every so many polls
POLLS_PER_LOOK = {"running": 1, "finished": 20, "failed": 20}
RESCAN_POLLS = 60  # so often the store is listed though a file system does not say that it changed
READ_SECONDS = 0.25  # seconds of a poll for reading the points of runs that nobody looks at


@dataclass
class StoreChanges:
    """What a poll has found: new or changed rows, runs that are gone, new points of runs."""

    rows: dict[str, ListRow] = field(default_factory=dict)
    gone: list[str] = field(default_factory=list)
    points: dict[str, dict[str, Any]] = field(default_factory=dict)
    again: list[str] = field(default_factory=list)  # their curves are to be fetched anew
    studies: list[StudyProgress] | None = None  # None: as before
    rev: int = 0  # of the list after this


class StoreWatcher:
    r"""The runs of a store, and of the stores in it.

    Only `poll` looks at the disk, but for the curves of a run that somebody asks for. A run is
    known by a name that was found on the disk; no path is ever made of a name that was sent.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> store = Path(tempfile.mkdtemp())
        >>> watching = StoreWatcher(store)
        >>> (store / "mine").mkdir()
        >>> _ = (store / "mine" / "points.csv").write_text("step,tested,score\n5,a,0.5\n")
        >>> list(watching.poll().rows), watching.listing["mine"].state
        (['mine'], 'running')
    """

    def __init__(self, store: Path) -> None:
        self.listing: dict[str, ListRow] = {}
        self.studies: list[StudyProgress] = []
        self.rev = 0
        self.store = os.path.realpath(store)  # links in it are not followed, from here on
        self._shelves = FolderScan(self.store)
        self._entries: dict[str, RunEntry] = {}
        self._bare: set[str] = set()  # folders in the store that are no runs
        self._wanted: list[StudyRuns] = []
        self._polls = 0
        for _ in range(2):  # the second time in stores that the first has found
            self.poll(summing_up=False)

    def curves(self, name: str) -> bytes | None:
        """Return everything that is drawn of a run as JSON; None if there is no such run."""
        entry = self._entries.get(name)
        return None if entry is None or entry.row is None else entry.curves()

    def poll(self, viewed: Collection[str] = (), *, summing_up: bool = True) -> StoreChanges:
        """Return what has changed since the last call.

        Args:
            viewed: the runs whose new points somebody wants at once.
            summing_up: spend some time on reading runs that nobody looks at.
        """
        changes = StoreChanges()
        began = time.monotonic()
        self._find(changes)
        for entry in self._due(viewed):
            if not entry.look():
                self._drop(entry.name, changes)
                continue
            self._read(entry, began, changes, viewed=entry.name in viewed)
        if summing_up:
            self._sum_up(changes)
        self._tell_studies(changes)
        self._polls += 1
        changes.rev = self.rev
        return changes

    def _find(self, changes: StoreChanges) -> None:
        """Get to know new folders, and drop those that are gone."""
        anyway = self._polls % RESCAN_POLLS == 0
        stores = [self._entries[name].path for name in self._bare]
        found = self._shelves.find(stores, anyway=anyway)
        if found is None:
            return
        for name, entry in list(self._entries.items()):
            if found.get(name) != entry.folder:
                self._drop(name, changes)
        for name in found.keys() - self._entries.keys():
            self._add(found[name], changes)
        self._wanted = find_studies(self.store)
        for name in sorted(self._bare):
            self._wanted += find_studies(self._entries[name].path, name + "/")

    def _add(self, folder: StoreFolder, changes: StoreChanges) -> None:
        entry = RunEntry(folder)
        if entry.look():
            self._entries[folder.name] = entry
            self._tell_row(entry, changes)

    def _drop(self, name: str, changes: StoreChanges) -> None:
        self._entries.pop(name, None)
        self._bare.discard(name)
        self._tell_gone(name, changes)

    def _due(self, viewed: Collection[str]) -> list[RunEntry]:
        """Return whom to ask now: those where something may happen, the others in turns."""
        polls, everybody = self._polls, self._entries.values()
        return [
            entry
            for number, entry in enumerate(everybody)
            if not (polls + number) % entry.turns or entry.name in viewed
        ]

    def _read(self, entry: RunEntry, now: float, changes: StoreChanges, *, viewed: bool) -> None:
        runs = entry.row is not None and entry.row.state == "running"
        if (entry.unread and (viewed or runs)) or (viewed and entry.view is None):
            entry.read_in_turn(now)
        if viewed:
            entry.wanted = now
            _tell_points(entry, changes)
        elif not runs:
            entry.forget(now)
        self._tell_row(entry, changes)

    def _sum_up(self, changes: StoreChanges) -> None:
        """Read runs that nobody looks at, the newest first, for as long as there is time."""
        until = time.monotonic() + READ_SECONDS
        unread = (e for e in self._entries.values() if e.unread and e.row is not None)
        for entry in nlargest(200, unread, key=lambda e: e.row.changed if e.row else 0.0):
            entry.read_in_turn(time.monotonic())
            entry.forget(time.monotonic())
            self._tell_row(entry, changes)
            if time.monotonic() > until:
                break

    def _tell_row(self, entry: RunEntry, changes: StoreChanges) -> None:
        row, have = entry.row, self.listing.get(entry.name)
        entry.turns = POLLS_PER_LOOK.get(row.state if row else "", IDLE_POLLS)
        if row is None and entry.folder.top:
            self._bare.add(entry.name)
        elif self._bare:
            self._bare.discard(entry.name)
        if row is None:
            self._tell_gone(entry.name, changes)
        elif have is None or row != msgspec.structs.replace(have, rev=0):
            self.rev += 1
            self.listing[entry.name] = msgspec.structs.replace(row, rev=self.rev)
            changes.rows[entry.name] = self.listing[entry.name]

    def _tell_gone(self, name: str, changes: StoreChanges) -> None:
        if self.listing.pop(name, None) is not None:
            self.rev += 1
            changes.gone.append(name)
            changes.rows.pop(name, None)

    def _tell_studies(self, changes: StoreChanges) -> None:
        if self._polls % RESCAN_POLLS and not changes.rows and not changes.gone:
            return
        studies = [count_progress(study, self.listing) for study in self._wanted]
        if studies != self.studies:
            self.studies = changes.studies = studies


def _tell_points(entry: RunEntry, changes: StoreChanges) -> None:
    """Note what is new in a run's curves since it was last told."""
    view, sent, entry.sent = entry.view, entry.sent, entry.view
    if view is sent:
        return
    more = None if view is None or sent is None else find_new_points(sent, view)
    if more is None:
        changes.again.append(entry.name)
    else:
        changes.points[entry.name] = more
