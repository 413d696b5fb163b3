"""points.csv: one line an evaluation of one task, read into a matrix and a stream."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..metrics import ACCURACY, ScoreMatrix, ScoreScale, Stream, Undefined, Visit
from ._text import BadInput, Column, read_table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

__all__ = ["Points", "looks_like_points", "read_points"]

COLUMNS = ("step", "trained", "tested", "kind", "score", "n")
KINDS = ("initial", "probe", "full")
INITIAL, PROBE, FULL = range(3)


@dataclass(frozen=True, eq=False)
class Points:
    """Columns of a points.csv in order of step; tasks are positions in `names`, -1 for none.

    `names` holds learned tasks first, in the order of learning; `n` is 0 where not stated.
    """

    step: NDArray[np.int64]
    trained: NDArray[np.int32]
    tested: NDArray[np.int32]
    kind: NDArray[np.int8]
    score: NDArray[np.float64]
    n: NDArray[np.int64]
    names: tuple[str, ...]
    scale: ScoreScale = ACCURACY
    notes: tuple[str, ...] = ()

    def visits(self) -> list[Visit]:
        """Return each stretch of training with its last step; none without boundaries."""
        codes, steps = self._after_updates("trained"), self._after_updates("step")
        if not len(codes) or codes[0] < 0:
            return []
        ends = np.append(np.flatnonzero(np.diff(codes)), len(codes) - 1)
        return [Visit(self.names[codes[end]], int(steps[end])) for end in ends]

    def finished(self) -> int | None:
        """Return the last step of the last task that was tested whole at its end, or None."""
        whole = self.step[self.kind == FULL]
        return int(whole[-1]) if len(whole) else None

    def until(self, step: int) -> Points:
        """Return the points up to and including `step`."""
        keep = self.step <= step
        cut = {
            name: getattr(self, name)[keep]
            for name in ("step", "trained", "tested", "kind", "score", "n")
        }
        return replace(self, **cut)

    def matrix(self, **given: Any) -> ScoreMatrix:
        """Return the score on every task at the end of each task; `given` goes to ScoreMatrix.

        The last full score of a task while another was trained, or the last probe where there is
        none. Raises Undefined where a stream has no boundaries or a task returns.
        """
        tasks = [task for task, _ in self.visits()]
        if not tasks:
            raise Undefined("needs task boundaries; no line says which task was trained")
        again = next((task for task in tasks if tasks.count(task) > 1), None)
        if again is not None:
            raise Undefined(f"task {again!r} returns: a score matrix learns every task once")
        scores, sizes, probes = self._table(len(tasks))
        missing = np.flatnonzero(np.isnan(scores.diagonal()))
        if len(missing):
            raise Undefined(f"task {tasks[missing[0]]!r} was not tested while it was learned")
        notes = [*self.notes, *given.pop("notes", ())]
        if probes:
            notes.append(f"{probes} of {len(tasks) ** 2} matrix entries are probes, not whole sets")
        others = self.names[len(tasks) :]
        if others:
            notes.append(f"not in the matrix, since never trained: {', '.join(others)}")
        if (sizes[-1] > 0).all():
            given.setdefault("sizes", sizes[-1])
        before = self._untrained(len(tasks))
        if not np.isnan(before).all():
            given.setdefault("initial", before)
        return ScoreMatrix(scores, tasks, scale=self.scale, notes=notes, **given)

    def stream(self, *, thin: int = 1) -> Stream:
        """Return each task's scores after updates: probes, and whole sets at steps without one.

        `thin` keeps every so many evaluations by probe, as a run that tests less often has.
        """
        probed = np.unique(self.step[self.kind == PROBE])[thin - 1 :: thin]
        tasks, sizes = {}, {}
        for code, name in enumerate(self.names):
            mine = self.tested == code
            probe = np.flatnonzero(mine & (self.kind == PROBE))
            probe = probe[np.isin(self.step[probe], probed)] if thin > 1 else probe
            full = np.flatnonzero(mine & (self.kind == FULL))
            full = full[~np.isin(self.step[full], self.step[probe])]
            rows = np.sort(np.concatenate([probe, full]))
            tasks[name] = (self.step[rows], self.score[rows])
            counts = self.n[rows]
            if len(counts) and (counts > 0).all():
                sizes[name] = int(counts.min())
        return Stream(
            tasks, self.visits(), before=self._on_entering(), sizes=sizes, scale=self.scale
        )

    def _after_updates(self, column: str) -> NDArray[Any]:
        values: NDArray[Any] = getattr(self, column)[self.kind != INITIAL]
        return values

    def _table(self, tasks: int) -> tuple[NDArray[np.float64], NDArray[np.int64], int]:
        scores = np.full((tasks, tasks), np.nan)
        sizes = np.zeros((tasks, tasks), dtype=np.int64)
        probes = 0
        for kind in (PROBE, FULL):  # whole sets overwrite probes, later rows earlier ones
            rows = (self.kind == kind) & (self.tested < tasks) & (self.trained >= 0)
            at = (self.trained[rows], self.tested[rows])
            scores[at], sizes[at] = self.score[rows], self.n[rows]
            whole = np.zeros((tasks, tasks), dtype=bool)
            whole[at] = True
            probes = int((whole if kind == PROBE else ~whole & ~np.isnan(scores)).sum())
        return scores, sizes, probes

    def _first_update(self) -> int:
        steps = self._after_updates("step")
        return int(steps[0]) if len(steps) else np.iinfo(np.int64).max

    def _untrained(self, tasks: int) -> NDArray[np.float64]:
        before = np.full(tasks, np.nan)
        rows = (self.kind == INITIAL) & (self.step < self._first_update()) & (self.tested < tasks)
        before[self.tested[rows]] = self.score[rows]
        return before

    def _on_entering(self) -> dict[str, float]:
        before: dict[str, float] = {}
        start = None
        for task, last in self.visits():
            rows = (self.kind == INITIAL) & (self.tested == self.names.index(task))
            early = self.step < self._first_update() if start is None else self.step == start
            found = self.score[rows & early]
            if len(found) and task not in before:
                before[task] = float(found[-1])
            start = last
        return before


def looks_like_points(header: str) -> bool:
    """Return whether the first line of a file is that of a points.csv.

    Example:
        >>> looks_like_points("step,trained,tested,score"), looks_like_points("0.9,0.1")
        (True, False)
    """
    names = {name.strip() for name in header.split(",")}
    return {"step", "tested", "score"} <= names


def read_points(
    text: str,
    source: str,
    *,
    scale: ScoreScale | None = None,
    percent: bool = False,
    ours: bool = False,
) -> Points:
    r"""Return the points in the text of a points.csv, or raise BadInput naming file and line.

    Example:
        >>> points = read_points("step,trained,tested,score\n1,a,a,0.5\n2,a,a,0.75\n", "p.csv")
        >>> points.matrix().scores
        array([[0.75]])
    """
    codes: dict[str, int] = {}
    table = read_table(text, source, _spec(codes), ours=ours)
    if not table.rows:
        raise BadInput(f"{source}: no evaluations, expected lines under {','.join(COLUMNS)}")
    columns: dict[str, NDArray[Any]] = {
        "trained": np.full(table.rows, -1, dtype=np.int32),
        "kind": np.full(table.rows, PROBE, dtype=np.int8),
        "n": np.zeros(table.rows, dtype=np.int64),
        **table.columns,
    }
    order = np.argsort(columns["step"], kind="stable")
    columns = {name: values[order] for name, values in columns.items()}
    if percent:
        columns["score"] = columns["score"] / 100
    names = _learned_first(columns["trained"], columns["tested"], list(codes))
    notes = (table.warning,) if table.warning else ()
    points = Points(**columns, names=names, scale=scale or ACCURACY, notes=notes)
    _judge(points, lambda row: table.where(int(order[row])))
    return points


def _spec(codes: dict[str, int]) -> dict[str, Column]:
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
    trained: NDArray[np.int32], tested: NDArray[np.int32], names: list[str]
) -> tuple[str, ...]:
    """Return the names in order of learning, then of testing; both columns are recoded in place."""
    seen = [_first_seen(column) for column in (trained, tested)]
    ordered = list(dict.fromkeys(code for codes in seen for code in codes if code >= 0))
    recode = np.full(len(names) + 1, -1, dtype=np.int32)  # the last entry serves -1, no task
    recode[ordered] = np.arange(len(ordered))
    trained[:], tested[:] = recode[trained], recode[tested]
    return tuple(names[code] for code in ordered)


def _first_seen(codes: NDArray[np.int32]) -> list[int]:
    values, first = np.unique(codes, return_index=True)
    return [int(code) for code in values[np.argsort(first)]]


def _whole(values: Sequence[str]) -> NDArray[np.int64]:
    steps = np.array(values).astype(np.int64)
    if (steps < 0).any():
        raise ValueError
    return steps


def _finite(values: Sequence[str]) -> NDArray[np.float64]:
    scores = np.array(values).astype(np.float64)
    if not np.isfinite(scores).all():
        raise ValueError
    return scores


def _counts(values: Sequence[str]) -> NDArray[np.int64]:
    counts = np.array([value.strip() or "-1" for value in values]).astype(np.int64)
    if ((counts == 0) | (counts < -1)).any():
        raise ValueError
    return np.maximum(counts, 0)


def _kinds(values: Sequence[str]) -> NDArray[np.int8]:
    given = np.array(values)
    kinds = np.full(len(given), -1, dtype=np.int8)
    for code, name in enumerate(KINDS):
        kinds[given == name] = code
    if (kinds < 0).any():
        raise ValueError
    return kinds


def _judge(points: Points, where: Callable[[int], str]) -> None:
    """Raise BadInput for lines that are well-formed but cannot all be true."""
    bad = (points.score < points.scale.low) | (points.score > points.scale.high)
    if bad.any():
        try:
            points.scale.check(points.score, f"{where(int(np.argmax(bad)))}: score")
        except ValueError as error:
            raise BadInput(str(error)) from None
    rows = np.flatnonzero(points.kind != INITIAL)
    trained, step = points.trained[rows], points.step[rows]
    if (trained < 0).any() and (trained >= 0).any():
        row = int(rows[np.argmax(trained < 0)])
        raise BadInput(f"{where(row)}: trained is empty, expected a task as in other lines")
    split = np.flatnonzero((np.diff(trained) != 0) & (np.diff(step) == 0))
    if len(split):
        row = int(rows[split[0] + 1])
        raise BadInput(f"{where(row)}: another task is trained at the same step {points.step[row]}")
    for code, name in enumerate(points.names):
        for kind in (PROBE, FULL):
            mine = np.flatnonzero((points.tested == code) & (points.kind == kind))
            again = np.flatnonzero(np.diff(points.step[mine]) == 0)
            if len(again):
                row = int(mine[again[0] + 1])
                what = f"{KINDS[kind]} of {name!r} at step {points.step[row]}"
                raise BadInput(f"{where(row)}: a second {what}, expected one")
