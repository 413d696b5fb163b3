"""points.csv: one line an evaluation of one task, read into a matrix and a stream."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..metrics import ACCURACY, ScoreMatrix, ScoreScale, Stream, Undefined, Visit
from ..metrics.stream_data import check_thin

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["FULL", "INITIAL", "KINDS", "PROBE", "Points"]

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
        """Return the last step of the last task that has ended, or None.

        A task has ended if another one follows, or if every task learned by then was tested on
        its whole set while it was trained.
        """
        visits = self.visits()
        if not visits:
            return None
        learned = {self.names.index(task) for task, _ in visits}
        start = visits[-2].last if len(visits) > 1 else -1
        whole = set(self.tested[(self.kind == FULL) & (self.step > start)].tolist())
        if learned <= whole:
            return visits[-1].last
        return visits[-2].last if len(visits) > 1 else None

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
        others = [self.names[code] for code in np.unique(self.tested) if code >= len(tasks)]
        if others:
            notes.append(f"not in the matrix, since not learned: {', '.join(others)}")
        if (sizes[-1] > 0).all():
            given.setdefault("sizes", sizes[-1])
            if (sizes.diagonal() > 0).all():
                given.setdefault("learned_sizes", sizes.diagonal())
        before = self._untrained(len(tasks))
        if not np.isnan(before).all():
            given.setdefault("initial", before)
        return ScoreMatrix(scores, tasks, scale=self.scale, upper="measured", notes=notes, **given)

    def stream(self, *, thin: int = 1) -> Stream:
        """Return each task's scores after updates: probes, and whole sets at steps without one.

        `thin` keeps every so many evaluations by probe, as a run that tests less often has.
        """
        probed = np.unique(self.step[self.kind == PROBE])[check_thin(thin) - 1 :: thin]
        tasks, sizes = {}, {}
        known = {task for task, _ in self.visits()}
        known |= {self.names[code] for code in np.unique(self.tested[self.kind != INITIAL])}
        for code, name in enumerate(self.names):
            if name not in known:
                continue  # begun after the points were cut
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

    def matrix_rows(self, tasks: int) -> NDArray[np.intp]:
        """Return which of the points each matrix entry comes from, -1 where there is none."""
        entries = np.full((tasks, tasks), -1, dtype=np.intp)
        for kind in (PROBE, FULL):  # whole sets overwrite probes, later rows earlier ones
            rows = np.flatnonzero((self.kind == kind) & (self.tested < tasks) & (self.trained >= 0))
            entries[self.trained[rows], self.tested[rows]] = rows
        return entries

    def _table(self, tasks: int) -> tuple[NDArray[np.float64], NDArray[np.int64], int]:
        rows = self.matrix_rows(tasks)
        known = rows >= 0
        scores = np.where(known, self.score[rows], np.nan)
        sizes = np.where(known, self.n[rows], 0)
        return scores, sizes, int((known & (self.kind[rows] == PROBE)).sum())

    def _untrained(self, tasks: int) -> NDArray[np.float64]:
        before = np.full(tasks, np.nan)
        rows = (self.kind == INITIAL) & (self.step == 0) & (self.tested < tasks)
        before[self.tested[rows]] = self.score[rows]
        return before

    def _on_entering(self) -> dict[str, float]:
        """Return each task's score between the end of the task before and its own first line."""
        before: dict[str, float] = {}
        steps, codes = self._after_updates("step"), self._after_updates("trained")
        start = 0
        for task, last in self.visits():
            code = self.names.index(task)
            first = steps[(codes == code) & (steps > start)][:1]
            rows = (self.kind == INITIAL) & (self.tested == code) & (self.step >= start)
            found = self.score[rows & (self.step < (first[0] if len(first) else last))]
            if len(found) and task not in before:
                before[task] = float(found[-1])
            start = last
        return before
