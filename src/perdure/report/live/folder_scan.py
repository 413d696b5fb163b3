"""The folders in a store, and those in folders of it that are stores themselves."""

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
