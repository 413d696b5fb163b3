"""Which folders there are in a store: its own, and those of folders in it that are stores too."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, NamedTuple

from ...record.io.safe_folder import open_folder
from ...record.run_folder import MARKER_FILES
from .list_row import escape_name

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["FolderScan", "StoreFolder"]

MAX_FOLDERS = 100_000  # folders
CLOCK_TICK_NS = 100_000_000  # ns: what changed so shortly ago may change again within the same tick


class StoreFolder(NamedTuple):
    """A folder that may be a run. A link is shown, not followed."""

    path: str
    name: str
    link: bool = False
    top: bool = False  # it may be a store itself


class FolderScan:
    """The folders of a store, listed again when they can have changed."""

    def __init__(self, store: str) -> None:
        self.store = store
        self._known: dict[str, tuple[int, list[StoreFolder]]] = {}

    def find(self, stores: Iterable[str], *, anyway: bool = False) -> dict[str, StoreFolder] | None:
        """Return all folders by name, None if they are the same as before.

        Args:
            stores: folders in the store that are no runs, and may hold some.
            anyway: list them even if nothing seems to have changed.
        """
        shelves = [self.store, *stores]
        changed = anyway or len(shelves) != len(self._known)
        before, self._known = self._known, {}
        for shelf in shelves:
            try:
                when = os.lstat(shelf).st_mtime_ns
            except OSError:
                when = -1
            known = before.get(shelf)
            if known is None or known[0] != when or anyway:
                changed = True
                known = (when if time.time_ns() - when > CLOCK_TICK_NS else -2, self._list(shelf))
            self._known[shelf] = known
        if not changed:
            return None
        found: dict[str, StoreFolder] = {}
        for _, folders in self._known.values():
            for folder in folders[: MAX_FOLDERS - len(found)]:
                found.setdefault(folder.name, folder)
        return found

    def _list(self, shelf: str) -> list[StoreFolder]:
        top = shelf == self.store
        own = os.path.basename(shelf)  # noqa: PTH119
        before = "" if top else escape_name(own) + "/"
        folders, run = [], False
        try:
            with open_folder(shelf) as folder, os.scandir(folder) as found:
                for each in found:
                    run = run or each.name in MARKER_FILES
                    if _is_folder(each) and not each.name.startswith("."):
                        path, name = f"{shelf}/{each.name}", before + escape_name(each.name)
                        folders.append(StoreFolder(path, name, each.is_symlink(), top))
        except OSError:
            return []
        return (
            [StoreFolder(shelf, escape_name(own))] if top and run else folders
        )  # the store is a run


def _is_folder(each: os.DirEntry[str]) -> bool:
    try:
        return each.is_dir()
    except OSError:  # a link to itself, or to where we may not look
        return False
