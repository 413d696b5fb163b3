"""Reading points.csv: typed columns, judged line by line."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Any

import numpy as np

from ...metrics import ACCURACY
from ..io.text import Column, InputError, as_text, read_table
from ..points import INITIAL, KINDS, PROBE, Points

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from ...metrics import ScoreScale

__all__ = ["looks_like_points", "read_points"]

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
    table = read_table(text, source, column_types(codes), ours=ours)
    if not table.rows:
        raise InputError(f"{source}: no evaluations, expected lines under {','.join(COLUMNS)}")
    if percent:
        table.columns["score"] = table.columns["score"] / 100
    notes = (table.warning,) if table.warning else ()
    return judged(table.columns, list(codes), table.where, scale or ACCURACY, notes)


def judged(
    read: Mapping[str, NDArray[Any]],
    names: list[str],
    where: Callable[[int], str],
    scale: ScoreScale,
    notes: tuple[str, ...] = (),
) -> Points:
    """Return the points of columns as they were read, or raise InputError; `where` names a row."""
    rows = len(read["step"])
    if len(names) > MAX_NAMES:
        row = int(np.argmax(np.maximum(read["tested"], read.get("trained", -1)) >= MAX_NAMES))
        raise InputError(f"{where(row)}: more than {MAX_NAMES} tasks, expected fewer")
    columns: dict[str, NDArray[Any]] = {
        "trained": np.full(rows, -1, dtype=np.int32),
        "kind": np.full(rows, PROBE, dtype=np.int8),
        "n": np.zeros(rows, dtype=np.int64),
        **read,
    }
    order = np.argsort(columns["step"], kind="stable")
    columns = {name: values[order] for name, values in columns.items()}
    updated = columns["kind"] != INITIAL
    learned = _learned_first(columns["trained"], columns["tested"], updated, names)
    points = Points(**columns, names=learned, scale=scale, notes=notes)
    _judge(points, lambda row: where(int(order[row])))
    return points


def column_types(codes: dict[str, int]) -> dict[str, Column]:
    """Return how each column is read; task names become positions in `codes`."""

    def task(values: Sequence[str]) -> NDArray[np.int32]:
        return np.array([codes.setdefault(name, len(codes)) for name in values], dtype=np.int32)

    def tested(values: Sequence[str]) -> NDArray[np.int32]:
        if "" in values:
            raise ValueError
        return task(values)

    def trained(values: Sequence[str]) -> NDArray[np.int32]:
        blank = np.array([name == "" for name in values])
        if blank.all():
            return np.full(len(values), -1, dtype=np.int32)
        if not blank.any():
            return task(values)
        return np.array([codes.setdefault(v, len(codes)) if v else -1 for v in values], np.int32)

    return {
        "step": Column("a whole number of iterations", _whole, required=True),
        "trained": Column("the name of a task", trained),
        "tested": Column("the name of a task", tested, required=True),
        "kind": Column(" or ".join(KINDS), _kinds),
        "score": Column("a number", _finite, required=True),
        "n": Column("a whole number of at least 1, or nothing", _counts),
    }


def _learned_first(
    trained: NDArray[np.int32],
    tested: NDArray[np.int32],
    updated: NDArray[np.bool_],
    names: list[str],
) -> tuple[str, ...]:
    """Return the names in order of learning, then as they come; both columns are recoded in place.

    Rows before an update name a task to come: they do not say that it is learned.
    """
    seen = [_first_seen(column) for column in (trained[updated], trained, tested)]
    ordered = list(dict.fromkeys(code for codes in seen for code in codes if code >= 0))
    recode = np.full(len(names) + 1, -1, dtype=np.int32)  # the last entry serves -1, no task
    recode[ordered] = np.arange(len(ordered))
    trained[:], tested[:] = recode[trained], recode[tested]
    return tuple(names[code] for code in ordered)


def _first_seen(codes: NDArray[np.int32]) -> list[int]:
    values, first = np.unique(codes, return_index=True)
    return [int(code) for code in values[np.argsort(first)]]


def _whole(values: Sequence[str]) -> NDArray[np.int64]:
    steps = _plain(values).astype(np.int64)
    if (steps < 0).any():
        raise ValueError
    return steps


def _finite(values: Sequence[str]) -> NDArray[np.float64]:
    scores = _plain(values).astype(np.float64)
    if not np.isfinite(scores).all():
        raise ValueError
    return scores


def _counts(values: Sequence[str]) -> NDArray[np.int64]:
    given = np.array([bool(value.strip()) for value in values])
    counts = _plain([value.strip() or "0" for value in values]).astype(np.int64)
    if (counts[given] < 1).any():
        raise ValueError
    return counts


def _plain(values: Sequence[str]) -> NDArray[np.str_]:
    if "_" in "".join(values):  # Python's own 1_000 is nobody's data
        raise ValueError
    return as_text(values)


def _kinds(values: Sequence[str]) -> NDArray[np.int8]:
    given = as_text(values)
    kinds = np.full(len(given), -1, dtype=np.int8)
    for code, name in enumerate(KINDS):
        kinds[given == name] = code
    if (kinds < 0).any():
        raise ValueError
    return kinds


def _judge(points: Points, where: Callable[[int], str]) -> None:
    """Raise InputError for lines that are well-formed but cannot all be true."""
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
            f"{points.step[row]}, expected steps that count on across tasks"
        )
    order = np.lexsort((points.step, points.kind, points.tested))  # stable: in order of lines
    same = np.ones(max(len(order) - 1, 0), dtype=np.bool_)
    for column in (points.tested, points.kind, points.step):
        same &= np.diff(column[order]) == 0
    if same.any():
        row = int(order[1:][same].min())
        what = f"{KINDS[points.kind[row]]} of {points.names[points.tested[row]]!r}"
        raise InputError(f"{where(row)}: a second {what} at step {points.step[row]}, expected one")
