"""Reading the points of a run while they are written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...record import IncrementalPoints, InputError

if TYPE_CHECKING:
    from ...metrics import ScoreScale
    from ...record import RunFolder
    from ...record.io.safe_folder import FileStamp

__all__ = ["PointsTail"]

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
