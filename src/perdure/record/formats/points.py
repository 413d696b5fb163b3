"""points.csv: one line per evaluation of one task, read as typed columns, whole or growing."""

from __future__ import annotations

import csv
import re
from typing import TYPE_CHECKING

import numpy as np

from ...metrics import ACCURACY
from ..io.files import InputError
from ..io.text import ColumnSpec, check_widths, decode, read_table
from ..points import INITIAL, KINDS, PROBE, Points

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from ...metrics import ScoreScale
    from ..io.text import Column

__all__ = ["IncrementalPoints", "looks_like_points", "read_points"]

MAX_NAMES = 100_000  # tasks; a matrix is made of fewer
COLUMNS = ("step", "trained", "tested", "kind", "score", "n")


def looks_like_points(header: str) -> bool:
    """Return whether the first line of a file is that of a points.csv.

    Example:
        >>> looks_like_points("step,trained,tested,score"), looks_like_points("0.9,0.1")
        (True, False)
    """
    try:
        names = {name.strip() for name in next(csv.reader([header]), [])}
    except csv.Error:
        return False
    return {"step", "tested", "score"} <= names


def read_points(
    text: str,
    source: str,
    *,
    scale: ScoreScale | None = None,
    percent: bool = False,
    ours: bool = False,
) -> Points:
    r"""Return the points in the text of a points.csv, or raise InputError naming file and line.

    Example:
        >>> points = read_points("step,trained,tested,score\n1,a,a,0.5\n2,a,a,0.75\n", "p.csv")
        >>> points.matrix().scores
        array([[0.75]])
    """
    if not text.strip():
        raise InputError(
            f"{source}: no evaluations, the file is empty, expected {','.join(COLUMNS)}"
        )
    codes: dict[str, int] = {}
    table = read_table(text, source, column_specs(codes), ours=ours)
    if not table.rows:
        raise InputError(f"{source}: no evaluations, expected lines under {','.join(COLUMNS)}")
    if percent:
        table.columns["score"] = table.columns["score"] / 100
    notes = (table.warning,) if table.warning else ()
    return make_points(table.columns, list(codes), table.where, scale or ACCURACY, notes)


def make_points(
    read: Mapping[str, Column],
    names: list[str],
    where: Callable[[int], str],
    scale: ScoreScale,
    notes: tuple[str, ...] = (),
) -> Points:
    """Return the points in columns as they were read, or raise InputError; `where` names a row."""
    rows = len(read["step"])
    if len(names) > MAX_NAMES:
        row = int(np.argmax(np.maximum(read["tested"], read.get("trained", -1)) >= MAX_NAMES))
        raise InputError(f"{where(row)}: more than {MAX_NAMES} tasks, expected fewer")
    columns: dict[str, Column] = {
        "trained": np.full(rows, -1, dtype=np.int32),
        "kind": np.full(rows, PROBE, dtype=np.int8),
        "n": np.zeros(rows, dtype=np.int64),
        **read,
    }
    order: NDArray[np.intp] | None = None  # as they are
    if (columns["step"][1:] < columns["step"][:-1]).any():
        order = np.argsort(columns["step"], kind="stable")
        columns = {name: values[order] for name, values in columns.items()}
    updated = columns["kind"] != INITIAL
    ordered_names, recode = _order_learned_first(
        columns["trained"], columns["tested"], updated, names
    )
    columns |= {name: recode[columns[name]] for name in ("trained", "tested")}
    points = Points(**columns, names=ordered_names, scale=scale, notes=notes, control=())
    _check_points(points, where if order is None else lambda row: where(int(order[row])))
    return points


def column_specs(codes: dict[str, int]) -> dict[str, ColumnSpec]:
    """Return how each column is read; task names become positions in `codes`."""

    def encode(values: Sequence[str]) -> NDArray[np.int32]:
        for name in dict.fromkeys(values):
            codes.setdefault(name, len(codes))
        return np.fromiter(map(codes.__getitem__, values), np.int32, len(values))

    def tested(values: Sequence[str]) -> NDArray[np.int32]:
        if "" in values:
            raise ValueError
        return encode(values)

    def trained(values: Sequence[str]) -> NDArray[np.int32]:
        if "" not in values:
            return encode(values)
        result = np.full(len(values), -1, dtype=np.int32)
        named = np.array([name != "" for name in values])
        result[named] = encode([name for name in values if name])
        return result

    return {
        "step": ColumnSpec("a whole number of iterations", _parse_steps, required=True),
        "trained": ColumnSpec("the name of a task", trained),
        "tested": ColumnSpec("the name of a task", tested, required=True),
        "kind": ColumnSpec(" or ".join(KINDS), _parse_kinds),
        "score": ColumnSpec("a number", _parse_scores, required=True),
        "n": ColumnSpec("a whole number of at least 1, or nothing", _parse_counts),
    }


def _order_learned_first(
    trained: NDArray[np.int32],
    tested: NDArray[np.int32],
    updated: NDArray[np.bool_],
    names: list[str],
) -> tuple[tuple[str, ...], NDArray[np.int32]]:
    """Return the names in order of learning, then of appearance, and the new code of each old one.

    Rows before an update name a task that may follow: they do not say that it is learned.
    """
    orders = [_order_of_appearance(column) for column in (trained[updated], trained, tested)]
    ordered = list(dict.fromkeys(code for codes in orders for code in codes if code >= 0))
    recode = np.full(len(names) + 1, -1, dtype=np.int32)  # the last entry is for -1, no task
    recode[ordered] = np.arange(len(ordered))
    return tuple(names[code] for code in ordered), recode


def _order_of_appearance(codes: NDArray[np.int32]) -> list[int]:
    values, first = np.unique(codes, return_index=True)
    return [int(code) for code in values[np.argsort(first)]]


def _parse_steps(values: Sequence[str]) -> NDArray[np.int64]:
    steps = np.fromiter(map(int, _check_plain(values)), np.int64, len(values))
    if (steps < 0).any():
        raise ValueError
    return steps


def _parse_scores(values: Sequence[str]) -> NDArray[np.float64]:
    scores = np.fromiter(map(float, _check_plain(values)), np.float64, len(values))
    if not np.isfinite(scores).all():
        raise ValueError
    return scores


def _parse_counts(values: Sequence[str]) -> NDArray[np.int64]:
    counts = {value: int(value.strip() or "0") for value in _check_plain(dict.fromkeys(values))}
    if any(count < 1 and value.strip() for value, count in counts.items()):
        raise ValueError
    return np.fromiter(map(counts.__getitem__, values), np.int64, len(values))


def _check_plain(values: Collection[str]) -> Collection[str]:
    if "_" in "".join(values):  # Python would read 1_000 as a number
        raise ValueError
    return check_widths(values)


def _parse_kinds(values: Sequence[str]) -> NDArray[np.int8]:
    codes = {value: KINDS.index(value) for value in dict.fromkeys(values)}
    return np.fromiter(map(codes.__getitem__, values), np.int8, len(values))


def _check_points(points: Points, where: Callable[[int], str]) -> None:
    """Raise InputError for lines that are well-formed but contradict each other."""
    bad = (points.score < points.scale.low) | (points.score > points.scale.high)
    if bad.any():
        try:
            points.scale.check(points.score, lambda row: f"{where(row)}: score")
        except ValueError as error:
            raise InputError(str(error)) from None
    rows = np.flatnonzero(points.kind != INITIAL)
    trained, step = points.trained[rows], points.step[rows]
    if (trained < 0).any() and (trained >= 0).any():
        row = int(rows[np.argmax(trained < 0)])
        raise InputError(f"{where(row)}: trained is empty, expected a task as in other lines")
    split = np.flatnonzero((np.diff(trained) != 0) & (np.diff(step) == 0))
    if len(split):
        row = int(rows[split[0] + 1])
        raise InputError(
            f"{where(row)}: another task is trained at the same step "
            f"{points.step[row]}, expected steps that continue across tasks"
        )
    task_and_kind = points.tested * len(KINDS) + points.kind
    order = np.argsort(task_and_kind, kind="stable")  # then by step, as the points are
    same = (np.diff(task_and_kind[order]) == 0) & (np.diff(points.step[order]) == 0)
    if same.any():
        row = int(order[1:][same].min())
        what = f"{KINDS[points.kind[row]]} of {points.names[points.tested[row]]!r}"
        raise InputError(f"{where(row)}: a second {what} at step {points.step[row]}, expected one")


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
