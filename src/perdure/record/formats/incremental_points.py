"""Reading a points.csv that grows: each part of it is read once."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from ...metrics import ACCURACY
from ..io.files import InputError
from ..io.text import decode, read_table
from .points import column_specs, make_points

if TYPE_CHECKING:
    from ...metrics import ScoreScale
    from ..io.text import Column
    from ..points import Points

__all__ = ["IncrementalPoints", "length_of_lines"]


class IncrementalPoints:
    r"""The points of a growing points.csv that have been read so far.

    Args:
        source: the name of the file, for errors.
        scale: range and direction of the scores.

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
        self._columns: dict[str, list[Column]] = {}

    def add(self, data: bytes) -> int:
        """Read the complete lines at the start of `data`, and return their length in bytes.

        Raises InputError naming a line that cannot be read.
        """
        used = length_of_lines(data)
        text = decode(data[:used], self._source)
        if not text:
            return 0
        if not self._header:
            self._header, _, text = text.partition("\n")
            self._lines = 1
        try:
            specs = column_specs(self._codes)
            table = read_table(f"{self._header}\n{text}", self._source, specs)
        except InputError as error:
            raise InputError(self._correct_line(str(error))) from None
        self._lines += text.count("\n")
        self.rows += table.rows
        if table.rows:
            for name, values in table.columns.items():
                self._columns.setdefault(name, []).append(values)
        return used

    def points(self) -> Points:
        """Return all points so far, or raise InputError if they contradict each other."""
        if not self.rows:
            raise InputError(f"{self._source}: no evaluations yet")
        for name, parts in self._columns.items():
            self._columns[name] = [np.concatenate(parts)] if len(parts) > 1 else parts
        columns = {name: parts[0] for name, parts in self._columns.items()}
        where = lambda row: f"{self._source} line {row + 2}"  # noqa: E731
        return make_points(columns, list(self._codes), where, self._scale)

    def _correct_line(self, message: str) -> str:
        """Return a message about a part of the file with the line number in the whole file."""
        before = max(self._lines - 1, 0)  # the header was read with every part
        place = rf"(?<={re.escape(self._source)} line )\d+"
        return re.sub(place, lambda number: str(int(number[0]) + before), message, count=1)


def length_of_lines(data: bytes) -> int:
    r"""Return the length in bytes of the complete lines that `data` starts with.

    Example:
        >>> length_of_lines(b"1,a\n2,"), length_of_lines(b'1,"a\nb"\n2,"c\n')
        (4, 8)
    """
    end = data.rfind(b"\n") + 1
    quotes = data.count(b'"', 0, end)
    while end and quotes % 2:  # a line break inside quotes does not end the line
        before = data.rfind(b"\n", 0, end - 1) + 1
        quotes -= data.count(b'"', before, end)
        end = before
    return end
