"""One folder of a store: its status, and its points, read while they are written."""

from __future__ import annotations

import time
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

from ...record import IncrementalPoints, InputError, RunFolder
from .curves import PointsSummary, make_run_curves, summarize_points, to_curve_message
from .list_row import (
    MAX_TEXT,
    ListRow,
    escape_name,
    make_row,
    read_details,
    read_metadata,
    read_scale,
    read_task_costs,
)

if TYPE_CHECKING:
    from ...metrics import ScoreScale
    from ...record.io.folder import FileStamp
    from ...record.run_folder import RunFiles
    from .curves import RunCurves
    from .store_watcher import StoreFolder

__all__ = ["RunEntry"]

MAX_POINTS_BYTES = 128 << 20  # larger files are not shown
PIECE_BYTES = 4 << 20
CHECKED_BYTES = 64  # before the position, which must not have changed


class PointsTail:
    """The position in a points.csv. `restarts` counts how often it was read from the start.

    Args:
        restarts: the count so far.
    """

    def __init__(self, restarts: int = 0) -> None:
        self.restarts = restarts
        self.problem = ""
        self.seen: FileStamp | None = None
        self.scale: ScoreScale | None = None
        self._reset()

    def _reset(self) -> None:
        self.points_reader = IncrementalPoints("points.csv", self.scale)
        self.restarts += 1
        self.problem, self._position, self._end, self._inode = "", 0, b"", -1

    def read(self, run: RunFolder, scale: ScoreScale) -> bool:
        """Read at most one new piece, and return whether there may be more.

        A file that was replaced, truncated or rewritten is read from the start.
        """
        stamp = run.stat_points()
        if stamp == self.seen and scale == self.scale:
            return False
        if scale != self.scale or not self._is_unchanged(run, stamp):
            self._restart(scale, stamp)
        if stamp is None or self.problem:
            self.seen = stamp
            return False
        if stamp[1] > MAX_POINTS_BYTES:
            self.problem = (
                f"points.csv is larger than {MAX_POINTS_BYTES >> 20} MiB; perdure score reads it"
            )
            return False
        data = run.read_points_range(self._position, PIECE_BYTES)
        self._add(data)
        more = len(data) == PIECE_BYTES and not self.problem
        if not more:  # the stamp is older than the data: later rows are read next time
            self.seen = stamp
        return more

    def _restart(self, scale: ScoreScale, stamp: FileStamp | None) -> None:
        self.scale = scale
        self._reset()
        self._inode = -1 if stamp is None else stamp[0]

    def _is_unchanged(self, run: RunFolder, stamp: FileStamp | None) -> bool:
        if stamp is None or stamp[0] != self._inode or stamp[1] < self._position:
            return False
        start = self._position - len(self._end)
        return run.read_points_range(start, len(self._end)) == self._end

    def _add(self, data: bytes) -> None:
        try:
            used = self.points_reader.add(data)
        except (InputError, RecursionError, MemoryError) as error:
            self.problem = str(error)[:300]
            return
        if not used and len(data) == PIECE_BYTES:
            self.problem = f"points.csv has a line of more than {PIECE_BYTES >> 20} MiB"
        self._position += used
        self._end = (self._end + data[:used])[-CHECKED_BYTES:]


KEEP_SECONDS = 30.0  # for which points are kept after they were viewed
SLOW_READ = 0.25  # seconds; a run that takes longer to read pauses before it is read again,
PAUSE_FACTOR = 3  # for this many times as long, unless a viewer requests it


class RunStatusFields(NamedTuple):
    """The fields of a row that the status of a run decides."""

    state: str = "interrupted"
    changed: float = 0.0
    problem: str = ""


class RunMessage(msgspec.Struct):
    """What the page shows of a run besides its curves."""

    row: ListRow | None
    details: list[tuple[str, str]] = []
    costs: list[dict[str, float | None]] = []


class RunEntry:
    """A folder that is a run or may become one.

    `row` is its row in the list, None if it is not a run; `unread` says that its points changed.
    """

    def __init__(self, folder: StoreFolder) -> None:
        self.folder, self.path, self.name = folder, folder.path, folder.name
        self.row: ListRow | None = None
        if folder.link:
            self.row = ListRow(folder.name, problem="a link, which is not followed")
        self.unread = False
        self.check_every = 1  # polls
        self.run_curves: RunCurves | None = None
        self.sent: RunCurves | None = None  # what viewers have
        self.viewed_at = 0.0
        self.paused_until = 0.0  # other runs are read first
        self._lock = Lock()
        self._tail: PointsTail | None = None
        self._restarts = 0
        self._metadata_row = ListRow(folder.name)  # with the fields that run.json decides
        self._status: RunStatusFields | None = None
        self._summary = PointsSummary()
        self._scale = read_scale()
        self._control: tuple[str, ...] = ()
        self._files: RunFiles | None = None
        self._stamps: tuple[int, ...] = ()
        self._points_problem = ""
        self._empty = False  # whether its points were read, and there were none
        self._response: tuple[tuple[RunCurves | None, RunMessage], bytes] | None = None

    def refresh(self) -> bool:
        """Read the status of the run, and return whether the folder still exists."""
        if self.folder.link:
            return True
        try:
            stamps = RunFolder(self.path).stamps()
            if stamps == self._stamps and not (self.row and self.row.state == "running"):
                return True
            with RunFolder.open_without_links(self.path) as run:
                self._refresh(run)
            self._stamps = stamps
        except (FileNotFoundError, NotADirectoryError):
            return False
        except Exception as error:  # whatever one folder contains, the others must be shown
            problem = escape_name(f"cannot be read: {_explain(error)}")[:MAX_TEXT]
            self._status = RunStatusFields(problem=problem)
            self._make_row()
        return True

    def _refresh(self, run: RunFolder) -> None:
        files = run.stat_files()
        before, self._files = self._files, files
        if not any(files):
            self.row, self._status, self._summary = None, None, PointsSummary()
            return
        if before is None or files.metadata != before.metadata:
            metadata, problem = read_metadata(run)
            self._scale, self._control = read_scale(metadata), metadata.control_tasks
            self._metadata_row = make_row(self.name, metadata, self._scale, problem)
        if files.points != (before and before.points):
            self.unread = True
        state, reason = run.status(files)
        problem = escape_name(reason)[:MAX_TEXT] if state == "failed" else ""
        self._status = RunStatusFields(state, round(files.changed_at, 1), problem)
        self._make_row()

    def read_in_turn(self, now: float) -> None:
        """Read new points unless the run is paused, or is being read for a viewer."""
        if now >= self.paused_until and not self._lock.locked():
            self.read(pieces=4)

    def read(self, pieces: int = 1) -> None:
        """Read at most `pieces` new pieces of the points, and update the row."""
        with self._lock:
            start = time.monotonic()
            tail = self._tail = self._tail or PointsTail(self._restarts)
            try:
                with RunFolder.open_without_links(self.path) as run:
                    more = True
                    while more and pieces > 0:
                        more = tail.read(run, self._scale)
                        pieces -= 1
            except OSError as error:
                more, tail.problem = False, f"points.csv: {_explain(error)}"
            self._restarts, self.unread = tail.restarts, more
            self._summarize(tail)
            end = time.monotonic()
            pause = PAUSE_FACTOR * (end - start) if end - start > SLOW_READ else 0.0
            self.paused_until = end + pause
        self._make_row()

    def _summarize(self, tail: PointsTail) -> None:
        rows, known, problem = tail.points_reader.rows, self.run_curves, tail.problem
        self._empty = not rows
        if known is None or (known.restarts, known.rows) != (tail.restarts, rows):
            self.run_curves, self._summary = None, PointsSummary()
            try:
                if rows:
                    points = tail.points_reader.points().with_control(self._control)
                    stream = points.stream()
                    with np.errstate(all="ignore"):  # unbounded scores can have any size
                        self._summary = summarize_points(points, stream)
                        control = points.stream(control=True).tasks
                        self.run_curves = make_run_curves(stream, rows, tail.restarts, control)
            except Exception as error:  # rows that contradict each other, or worse
                problem = problem or _explain(error)
        self._points_problem = problem and escape_name(f"cannot be read: {problem}")[:MAX_TEXT]

    def _make_row(self) -> None:
        status = self._status
        if status is None:
            return
        problem = status.problem or self._metadata_row.problem
        unrecorded = self._files is None or self._files.points is None or self._empty
        if self._points_problem:
            # The reason of a failure comes first.
            reasons = [problem] if status.state == "failed" else []
            problem = "; ".join([*reasons, self._points_problem])[:MAX_TEXT]
        elif unrecorded and not problem and status.state in ("finished", "interrupted"):
            problem = "no evaluations were recorded"
        fields = {**status._asdict(), **self._summary._asdict(), "problem": problem}
        self.row = msgspec.structs.replace(self._metadata_row, **fields)

    def forget(self, now: float) -> None:
        """Drop points that nobody views, once they are summarised."""
        unused = now - self.viewed_at > KEEP_SECONDS and not self.unread
        if unused and self._lock.acquire(blocking=False):
            self._tail = self.run_curves = self.sent = self._response = None
            self._lock.release()

    def curves(self) -> bytes:
        """Return everything that the page shows of the run, as JSON."""
        self.viewed_at = time.monotonic()
        if not self.folder.link:
            self.read(pieces=1000)
        message = RunMessage(self.row)
        with suppress(OSError), RunFolder.open_without_links(self.path) as run:
            message.details, message.costs = read_details(run), read_task_costs(run)
        key = (self.run_curves, message)
        if self._response is None or self._response[0] != key:  # encoded once for all viewers
            contents = msgspec.structs.asdict(message)
            if self.run_curves is not None:
                tasks = (self.row and self.row.of) or 0
                with np.errstate(all="ignore"):
                    contents |= msgspec.structs.asdict(to_curve_message(self.run_curves, tasks))
            self._response = (key, msgspec.json.encode(contents))
        return self._response[1]


def _explain(error: Exception) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__
