"""The points of one run, read as they come."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...record import IncrementalPoints, InputError

if TYPE_CHECKING:
    from ...metrics import ScoreScale
    from ...record import RunFolder
    from ...record.io.safe_folder import FileStamp

__all__ = ["PointsTail"]

MAX_POINTS_BYTES = 128 << 20  # bytes of a points.csv that are shown
PIECE_BYTES = 4 << 20
CHECKED_BYTES = 64  # bytes before our place that must not have changed


class PointsTail:
    """How far a points.csv was read. `begun` counts how often it was read from its start.

    Args:
        begun: so often before.
    """

    def __init__(self, begun: int = 0) -> None:
        self.begun = begun
        self.problem = ""
        self.seen: FileStamp | None = None
        self.scale: ScoreScale | None = None
        self._again()

    def _again(self) -> None:
        self.growing = IncrementalPoints("points.csv", self.scale)
        self.begun += 1
        self.problem, self._place, self._end, self._inode = "", 0, b"", -1

    def read(self, run: RunFolder, scale: ScoreScale) -> bool:
        """Read what is new, at most one piece, and return whether there may be more.

        A file that was replaced, cut back or rewritten is read from its start.
        """
        found = run.stat_points()
        if found == self.seen and scale == self.scale:
            return False
        if scale != self.scale or not self._is_where_it_was(run, found):
            self._restart(scale, found)
        if found is None or self.problem:
            self.seen = found
            return False
        if found[1] > MAX_POINTS_BYTES:
            self.problem = (
                f"points.csv is larger than {MAX_POINTS_BYTES >> 20} MiB; perdure score reads it"
            )
            return False
        data = run.read_points_range(self._place, PIECE_BYTES)
        self._add(data)
        more = len(data) == PIECE_BYTES and not self.problem
        if not more:  # asked before it was read: what came since is seen next time
            self.seen = found
        return more

    def _restart(self, scale: ScoreScale, found: FileStamp | None) -> None:
        self.scale = scale
        self._again()
        self._inode = -1 if found is None else found[0]

    def _is_where_it_was(self, run: RunFolder, found: FileStamp | None) -> bool:
        if found is None or found[0] != self._inode or found[1] < self._place:
            return False
        start = self._place - len(self._end)
        return run.read_points_range(start, len(self._end)) == self._end

    def _add(self, data: bytes) -> None:
        try:
            used = self.growing.add(data)
        except (InputError, RecursionError, MemoryError) as error:
            self.problem = str(error)[:300]
            return
        if not used and len(data) == PIECE_BYTES:
            self.problem = f"points.csv has a line of more than {PIECE_BYTES >> 20} MiB"
        self._place += used
        self._end = (self._end + data[:used])[-CHECKED_BYTES:]
