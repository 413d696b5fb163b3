"""One folder of a store: how it stands, and what was read of its points."""

from __future__ import annotations

import time
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from ...metrics import ACCURACY
from ...record import RunFolder
from .curves import make_run_curves, summarize_points, to_curve_message
from .list_row import (
    MAX_TEXT,
    ListRow,
    escape_name,
    make_row_fields,
    read_metadata,
    read_scale,
)
from .run_details import read_details, read_task_costs
from .tail import PointsTail

if TYPE_CHECKING:
    from ...record.run_folder import RunFiles
    from .curves import RunCurves
    from .folder_scan import StoreFolder

__all__ = ["RunEntry"]

KEEP_SECONDS = 30.0  # seconds that points are kept after somebody looked at them
SLOW_READ = 0.25  # seconds: a run that takes longer to read is not read again at once,
REST_FACTOR = 3  # but after so many times as long, unless somebody asks for it


class RunEntry:
    """A folder that is a run or may become one.

    `row` is what the list shows, None for no run; `unread` says that its points changed.
    """

    def __init__(self, folder: StoreFolder) -> None:
        self.folder, self.path, self.name = folder, folder.path, folder.name
        self.row: ListRow | None = None
        if folder.link:
            self.row = ListRow(folder.name, problem="a link, which is not followed")
        self.unread = False
        self.turns = 1  # it is asked at every so many polls
        self.view: RunCurves | None = None
        self.sent: RunCurves | None = None  # what viewers were told of
        self.wanted = 0.0  # when somebody last looked at its curves
        self._lock = Lock()
        self._tail: PointsTail | None = None
        self._begun = 0
        self._scale = ACCURACY
        self._files: RunFiles | None = None
        self._fields: dict[str, Any] = {}
        self._stands: dict[str, Any] = {}
        self._summary: dict[str, Any] = {}
        self._unreadable = ""
        self._empty = False  # whether its points were read, and there were none
        self._stamps: tuple[int, ...] = ()
        self.rests = 0.0  # until then others come first
        self._answer: tuple[Any, bytes] | None = None

    def look(self) -> bool:
        """Ask the disk how the run stands, and return whether the folder is still there."""
        if self.folder.link:
            return True
        try:
            now = RunFolder(self.path).stamps()
            if now == self._stamps and not (self.row and self.row.state == "running"):
                return True
            with RunFolder.open_without_links(self.path) as run:
                self._look(run)
            self._stamps = now
        except (FileNotFoundError, NotADirectoryError):
            return False
        except Exception as error:  # whatever is in one folder, the others are shown
            self._stands = {"problem": escape_name(f"cannot be read: {_why(error)}")[:MAX_TEXT]}
            self._show()
        return True

    def _look(self, run: RunFolder) -> None:
        files = run.stat_files()
        before, self._files = self._files, files
        if not any(files):
            self.row, self._stands, self._summary = None, {}, {}
            return
        if before is None or files.metadata != before.metadata:
            metadata, problem = read_metadata(run)
            scale = self._scale = read_scale(metadata)
            self._fields = {
                **make_row_fields(metadata), "problem": problem, "score": scale.label,
                "lower": scale.lower_is_better,
            }  # fmt: skip
        if files.points != (before and before.points):
            self.unread = True
        state, reason = run.status(files)
        self._stands = {"state": state, "changed": round(files.changed_at, 1)}
        if state == "failed":
            self._stands["problem"] = escape_name(reason)[:MAX_TEXT]
        self._show()

    def read_in_turn(self, now: float) -> None:
        """Read on if it is this run's turn; not while it is being read for somebody who asked."""
        if now >= self.rests and not self._lock.locked():
            self.read(pieces=4)

    def read(self, pieces: int = 1) -> None:
        """Read at most so many new pieces of the points, and sum them up in the row."""
        with self._lock:
            began = time.monotonic()
            tail = self._tail = self._tail or PointsTail(self._begun)
            try:
                with RunFolder.open_without_links(self.path) as run:
                    more = True
                    while more and pieces > 0:
                        more = tail.read(run, self._scale)
                        pieces -= 1
            except OSError as error:
                more, tail.problem = False, f"points.csv: {_why(error)}"
            self._begun, self.unread = tail.begun, more
            self._sum_up(tail)
            took = time.monotonic() - began
            self.rests = began + took + (REST_FACTOR * took if took > SLOW_READ else 0.0)
        self._show()

    def _sum_up(self, tail: PointsTail) -> None:
        rows, have, problem = tail.growing.rows, self.view, tail.problem
        self._empty = not rows
        if have is None or (have.begun, have.rows) != (tail.begun, rows):
            self.view, self._summary = None, {}
            try:
                if rows:
                    points = tail.growing.points()
                    stream = points.stream()
                    with np.errstate(all="ignore"):  # scores without bounds can be of any size
                        self._summary = summarize_points(points, stream)
                        self.view = make_run_curves(stream, rows, tail.begun)
            except Exception as error:  # lines that cannot all be true, or odder
                problem = problem or _why(error)
        self._unreadable = problem and escape_name(f"cannot be read: {problem}")[:MAX_TEXT]

    def _show(self) -> None:
        """Put the row together from what is known by now."""
        if not self._stands:
            return
        said = {**self._fields, **self._stands, **self._summary}
        none = self._files is None or self._files.points is None or self._empty
        if self._unreadable:
            failed = said.get("state") == "failed"  # why is what people look for first
            reasons = [said["problem"], self._unreadable] if failed else [self._unreadable]
            said["problem"] = "; ".join(reasons)[:MAX_TEXT]
        elif none and not said.get("problem") and said.get("state") in ("finished", "interrupted"):
            said["problem"] = "no evaluations were recorded"
        self.row = ListRow(name=self.name, **said)

    def forget(self, now: float) -> None:
        """Let go of points that nobody looks at, once they are summed up."""
        if (
            now - self.wanted > KEEP_SECONDS
            and not self.unread
            and self._lock.acquire(blocking=False)
        ):
            self._tail, self.view, self.sent, self._answer = None, None, None, None
            self._lock.release()

    def curves(self) -> bytes:
        """Return everything that is drawn of the run, as JSON."""
        self.wanted = time.monotonic()
        if not self.folder.link:
            self.read(pieces=1000)
        found: dict[str, Any] = {"row": self.row, "about": [], "costs": []}
        with suppress(OSError), RunFolder.open_without_links(self.path) as run:
            found["about"], found["costs"] = read_details(run), read_task_costs(run)
        view, of = self.view, (self.row and self.row.of) or 0
        before = self._answer
        if before is not None and before[0] == (view, found):
            return before[1]  # one for all who ask
        key = (view, dict(found))
        if view is not None:
            with np.errstate(all="ignore"):
                found |= to_curve_message(view, of)
        answer = msgspec.json.encode(found)
        self._answer = (key, answer)
        return answer


def _why(error: Exception) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__
