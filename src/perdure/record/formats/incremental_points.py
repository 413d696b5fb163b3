"""A points.csv that grows: each piece of it is read once."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from ...metrics import ACCURACY
from ..io.text import InputError, decode, read_table
from .points import column_types, judged

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ...metrics import ScoreScale
    from ..points import Points

__all__ = ["IncrementalPoints", "whole_lines"]


class IncrementalPoints:
    r"""What was read of a points.csv so far.

    Args:
        source: its name, for errors.
        scale: range and direction of its scores.

    Example:
        >>> mine = IncrementalPoints("points.csv")
        >>> mine.add(b"step,trained,tested,score\n1,a,a,0.5\n2,a,a,0.7")
        36
        >>> mine.add(b"2,a,a,0.75\n"), mine.rows
        (11, 2)
        >>> mine.points().score
        array([0.5 , 0.75])
    """

    def __init__(self, source: str, scale: ScoreScale | None = None) -> None:
        self.rows = 0
        self._source, self._scale = source, scale or ACCURACY
        self._header = ""
        self._lines = 0
        self._codes: dict[str, int] = {}
        self._columns: dict[str, list[NDArray[Any]]] = {}

    def add(self, data: bytes) -> int:
        """Read the whole lines at the start of `data`, and return how many bytes they take.

        Raises InputError naming the line that cannot be read.
        """
        used = whole_lines(data)
        text = decode(data[:used], self._source)
        if not text:
            return 0
        if not self._header:
            self._header, _, text = text.partition("\n")
            self._lines = 1
        try:
            types = column_types(self._codes)
            table = read_table(f"{self._header}\n{text}", self._source, types)
        except InputError as error:
            raise InputError(self._counted(str(error))) from None
        self._lines += text.count("\n")
        self.rows += table.rows
        if table.rows:
            for name, values in table.columns.items():
                self._columns.setdefault(name, []).append(values)
        return used

    def points(self) -> Points:
        """Return all points so far, or raise InputError if they cannot all be true."""
        if not self.rows:
            raise InputError(f"{self._source}: no evaluations yet")
        for name, parts in self._columns.items():
            self._columns[name] = [np.concatenate(parts)] if len(parts) > 1 else parts
        columns = {name: parts[0] for name, parts in self._columns.items()}
        where = lambda row: f"{self._source} line {row + 2}"  # noqa: E731
        return judged(columns, list(self._codes), where, self._scale)

    def _counted(self, message: str) -> str:
        """Return a message about a piece with the line's number in the whole file."""
        before = max(self._lines - 1, 0)  # the header was read with every piece
        place = rf"(?<={re.escape(self._source)} line )\d+"
        return re.sub(place, lambda found: str(int(found[0]) + before), message, count=1)


def whole_lines(data: bytes) -> int:
    r"""Return the length of the whole lines that `data` starts with.

    Example:
        >>> whole_lines(b"1,a\n2,"), whole_lines(b'1,"a\nb"\n2,"c\n')
        (4, 8)
    """
    end = data.rfind(b"\n") + 1
    quotes = data.count(b'"', 0, end)
    while end and quotes % 2:  # a line end inside quotes ends no line
        before = data.rfind(b"\n", 0, end - 1) + 1
        quotes -= data.count(b'"', before, end)
        end = before
    return end
