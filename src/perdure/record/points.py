"""points.csv: one line an evaluation of one task, read into a matrix and a stream."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ..metrics import ACCURACY, ScoreMatrix, ScoreScale, Stream, TaskSpan, UndefinedMetricError
from ..metrics.stream import check_subsample

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["FULL", "INITIAL", "KINDS", "PROBE", "Points"]

KINDS = ("initial", "probe", "full")
INITIAL, PROBE, FULL = range(3)
MAX_TASKS = 10_000  # of a matrix, which then has 10^8 entries
NAMED = 10  # tasks in a note


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

    def spans(self) -> list[TaskSpan]:
        """Return each stretch of training with its last step; none without boundaries."""
        codes, _, lasts = self._stretches
        return [
            TaskSpan(self.names[code], last)
            for code, last in zip(codes.tolist(), lasts.tolist(), strict=True)
        ]

    @cached_property
    def _stretches(self) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
        """The task of each stretch of training, and its first and last step."""
        updated = self.kind != INITIAL
        codes, steps = self.trained[updated], self.step[updated]
        if not len(codes) or codes[0] < 0:
            return codes[:0], steps[:0], steps[:0]
        ends = np.append(np.flatnonzero(np.diff(codes)), len(codes) - 1)
        return codes[ends], steps[np.append(0, ends[:-1] + 1)], steps[ends]

    def finished(self) -> int | None:
        """Return the last step of the last task that has ended, or None.

        A task has ended if another one follows, or if every task learned by then was tested on
        its whole set while it was trained.
        """
        codes, _, lasts = self._stretches
        if not len(codes):
            return None
        before = int(lasts[-2]) if len(lasts) > 1 else None
        since = self.step > (-1 if before is None else before)
        if np.isin(codes, self.tested[(self.kind == FULL) & since]).all():
            return int(lasts[-1])
        return before

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
        none. Raises UndefinedMetricError where a stream has no boundaries or a task returns.
        """
        tasks = [task for task, _ in self.spans()]
        if not tasks:
            raise UndefinedMetricError("needs task boundaries; no line says which task was trained")
        times = Counter(tasks)
        again = next((task for task in tasks if times[task] > 1), None)
        if again is not None:
            raise UndefinedMetricError(
                f"task {again!r} returns: a score matrix learns every task once"
            )
        if len(tasks) > MAX_TASKS:
            raise UndefinedMetricError(
                f"{len(tasks)} tasks were learned: a score matrix is made for {MAX_TASKS} at most"
            )
        rows = self.matrix_rows(len(tasks))
        scores = np.full((len(tasks), len(tasks)), np.nan)
        scores[self.trained[rows], self.tested[rows]] = self.score[rows]
        scores.setflags(write=False)  # so that it need not be copied
        missing = np.flatnonzero(np.isnan(scores.diagonal()))
        if len(missing):
            raise UndefinedMetricError(
                f"task {tasks[missing[0]]!r} was not tested while it was learned"
            )
        for name, sizes in self._sizes(rows, len(tasks)).items():
            given.setdefault(name, sizes)
        before = self._untrained(len(tasks))
        if not np.isnan(before).all():
            given.setdefault("initial", before)
        notes = [*self.notes, *given.pop("notes", ()), *self._matrix_notes(rows, len(tasks))]
        return ScoreMatrix(scores, tasks, scale=self.scale, upper="measured", notes=notes, **given)

    def _matrix_notes(self, rows: NDArray[np.intp], tasks: int) -> list[str]:
        notes = []
        if probes := np.count_nonzero(self.kind[rows] == PROBE):
            notes.append(f"{probes} of {tasks**2} matrix entries are probes, not whole sets")
        others = [self.names[code] for code in np.unique(self.tested) if code >= tasks]
        if others:
            more = f" and {len(others) - NAMED} more" if len(others) > NAMED else ""
            named = ", ".join(others[:NAMED])
            notes.append(f"not in the matrix, since not learned: {named}{more}")
        return notes

    def stream(self, *, thin: int = 1) -> Stream:
        """Return each task's scores after updates: probes, and whole sets at steps without one.

        `thin` keeps every so many evaluations by probe, as a run that tests less often has.
        """
        probed = np.unique(self.step[self.kind == PROBE])[check_subsample(thin) - 1 :: thin]
        kept = self.kind != INITIAL
        known = np.zeros(len(self.names), dtype=bool)  # others begin after the points were cut
        known[self._stretches[0]] = known[self.tested[kept]] = True
        if thin > 1:
            kept &= (self.kind == FULL) | np.isin(self.step, probed)
        rows = np.flatnonzero(kept)
        rows = rows[np.lexsort((self.kind[rows], self.step[rows], self.tested[rows]))]
        again = (np.diff(self.tested[rows]) == 0) & (np.diff(self.step[rows]) == 0)
        kept[rows[1:][again]] = False  # a whole set after a probe
        tasks, sizes = {}, {}
        for name, mine, is_known in zip(self.names, self.by_task(kept), known, strict=True):
            if is_known:
                tasks[name] = (self.step[mine], self.score[mine])
                if len(mine) and (least := self.n[mine].min()) > 0:
                    sizes[name] = int(least)
        return Stream(
            tasks, self.spans(), before=self._on_entering(), sizes=sizes, scale=self.scale
        )

    def by_task(self, kept: NDArray[np.bool_]) -> list[NDArray[np.intp]]:
        """Return the rows of `kept` that test each task of `names`, in order of step."""
        rows = np.flatnonzero(kept)
        rows = rows[np.argsort(self.tested[rows], kind="stable")]
        ends = np.searchsorted(self.tested[rows], np.arange(len(self.names)))
        return np.split(rows, ends[1:])

    def matrix_rows(self, tasks: int) -> NDArray[np.intp]:
        """Return the row that each measured matrix entry comes from, by tested task."""
        inside = (self.tested < tasks) & (self.trained >= 0)
        # Whole sets come before probes, later rows before earlier ones: the first counts.
        best = [np.flatnonzero(inside & (self.kind == kind))[::-1] for kind in (FULL, PROBE)]
        rows = np.concatenate(best)
        _, first = np.unique(
            self.tested[rows].astype(np.int64) * tasks + self.trained[rows], return_index=True
        )
        found: NDArray[np.intp] = rows[first]
        return found

    def _sizes(self, rows: NDArray[np.intp], tasks: int) -> dict[str, NDArray[np.int64]]:
        """Return how many examples each task has at the end, and when learned, where stated."""
        found = {}
        at_end, learned = np.zeros(tasks, np.int64), np.zeros(tasks, np.int64)
        last = rows[self.trained[rows] == tasks - 1]
        own = rows[self.trained[rows] == self.tested[rows]]
        at_end[self.tested[last]], learned[self.tested[own]] = self.n[last], self.n[own]
        if (at_end > 0).all():
            found["sizes"] = at_end
            if (learned > 0).all():
                found["learned_sizes"] = learned
        return found

    def _untrained(self, tasks: int) -> NDArray[np.float64]:
        before = np.full(tasks, np.nan)
        rows = (self.kind == INITIAL) & (self.step == 0) & (self.tested < tasks)
        before[self.tested[rows]] = self.score[rows]
        return before

    def _on_entering(self) -> dict[str, float]:
        """Return each task's score between the end of the task before and its own first line."""
        before: dict[str, float] = {}
        start = 0
        rows = self.by_task(self.kind == INITIAL)
        for code, first, last in zip(*(each.tolist() for each in self._stretches), strict=True):
            mine, name = rows[code], self.names[code]
            if len(mine) and name not in before:
                begun = first if first > start else self._first_after(start, code, last)
                until = int(np.searchsorted(self.step[mine], begun)) - 1
                if until >= 0 and self.step[mine[until]] >= start:
                    before[name] = float(self.score[mine[until]])
            start = last
        return before

    def _first_after(self, start: int, code: int, last: int) -> int:
        """Return the first step after `start` at which a task is trained, `last` if none is."""
        trained = (self.kind != INITIAL) & (self.trained == code) & (self.step > start)
        return int(self.step[trained][0]) if trained.any() else last
