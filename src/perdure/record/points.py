"""Points: the evaluations of a run as columns, and the matrix and the stream they make up."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypedDict, Unpack

import numpy as np

from .._display import format_block
from ..metrics import (
    ACCURACY,
    ControlScores,
    ScoreMatrix,
    ScoreScale,
    Stream,
    TaskSpan,
    UndefinedMetricError,
)
from ..metrics.stream import check_subsample

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from ..metrics import Setting

__all__ = ["FULL", "INITIAL", "KINDS", "PROBE", "MatrixFields", "Points"]

KINDS = ("initial", "probe", "full")
INITIAL, PROBE, FULL = range(3)
MAX_TASKS = 10_000  # of a matrix, which then has 10^8 entries
MAX_NAMED = 10  # tasks in a note


class MatrixFields(TypedDict, total=False):
    """Arguments of ScoreMatrix that a file or the user may state."""

    setting: Setting
    classes: Sequence[float] | NDArray[np.float64]
    sizes: ArrayLike
    learned_sizes: ArrayLike
    initial: ArrayLike
    joint: ArrayLike
    single: ArrayLike
    offline: ArrayLike


@dataclass(frozen=True, eq=False)
class Points:
    """Columns of a points.csv in order of step; tasks are positions in `names`, -1 for none.

    `names` holds learned tasks first, in the order of learning; `n` is 0 where not stated.
    `control` has those of `names` that are evaluated but never trained, in the order of `names`.
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
    control: tuple[str, ...] = ()

    def __repr__(self) -> str:
        steps = f", steps {self.step[0]} to {self.step[-1]}" if len(self.step) else ""
        counts = np.bincount(self.tested, minlength=len(self.names)).tolist()
        rows = [
            (name, f"{count} evaluations") for name, count in zip(self.names, counts, strict=True)
        ]
        return format_block(f"Points of {len(self.names)} tasks{steps}", rows, self.notes)

    def spans(self) -> list[TaskSpan]:
        """Return the spans of training, each with its last step; none without boundaries."""
        codes, _, lasts = self._spans
        return [
            TaskSpan(self.names[code], last)
            for code, last in zip(codes.tolist(), lasts.tolist(), strict=True)
        ]

    @cached_property
    def _spans(self) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
        """The task of each span of training, and its first and last step."""
        updated = self.kind != INITIAL
        codes, steps = self.trained[updated], self.step[updated]
        if not len(codes) or codes[0] < 0:
            return codes[:0], steps[:0], steps[:0]
        ends = np.append(np.flatnonzero(np.diff(codes)), len(codes) - 1)
        return codes[ends], steps[np.append(0, ends[:-1] + 1)], steps[ends]

    def last_finished_step(self) -> int | None:
        """Return the last step of the last task that has ended, None if none has.

        A task has ended if another one follows, or if every task learned by then was evaluated
        on its whole set while the task was trained.
        """
        codes, _, lasts = self._spans
        if not len(codes):
            return None
        before = int(lasts[-2]) if len(lasts) > 1 else None
        since = self.step > (-1 if before is None else before)
        if np.isin(codes, self.tested[(self.kind == FULL) & since]).all():
            return int(lasts[-1])
        return before

    def with_control(self, names: Sequence[str]) -> Points:
        """Return the points with these as control tasks, or raise if one of them was trained."""
        chosen = frozenset(names)
        trained = next((task for task, _ in self.spans() if task in chosen), None)
        if trained is not None:
            raise ValueError(f"control task {trained!r} was trained, expected never to be")
        return replace(self, control=tuple(name for name in self.names if name in chosen))

    def until(self, step: int) -> Points:
        """Return the points up to and including `step`."""
        keep = self.step <= step
        columns = ("step", "trained", "tested", "kind", "score", "n")
        return replace(self, **{name: getattr(self, name)[keep] for name in columns})

    def matrix(self, **stated: Unpack[MatrixFields]) -> ScoreMatrix:
        """Return the score on every task at the end of each task; `stated` goes to ScoreMatrix.

        An entry is the last full score of a task while another was trained, or the last probe if
        there is none. Raises UndefinedMetricError if there are no boundaries or a task returns.
        """
        tasks = [task for task, _ in self.spans()]
        if not tasks:
            raise UndefinedMetricError("needs task boundaries; no line says which task was trained")
        returning = next((task for task, times in Counter(tasks).items() if times > 1), None)
        if returning is not None:
            raise UndefinedMetricError(
                f"task {returning!r} returns: a score matrix learns every task once"
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
        fields = self._sizes(rows, len(tasks))
        initial = self._initial_scores(len(tasks))
        if not np.isnan(initial).all():
            fields["initial"] = initial
        notes = [*self.notes, *self._matrix_notes(rows, len(tasks))]
        return ScoreMatrix(
            scores, tasks, scale=self.scale, upper="measured", notes=notes, **(fields | stated)
        )

    def _matrix_notes(self, rows: NDArray[np.intp], tasks: int) -> list[str]:
        notes = []
        if probes := np.count_nonzero(self.kind[rows] == PROBE):
            notes.append(f"{probes} of {tasks**2} matrix entries are probes, not whole sets")
        counts = np.bincount(self.tested, minlength=len(self.names))
        others = [self.names[tasks + code] for code in np.flatnonzero(counts[tasks:])]
        control = frozenset(self.control)
        others = [name for name in others if name not in control]
        if others:
            more = f" and {len(others) - MAX_NAMED} more" if len(others) > MAX_NAMED else ""
            named = ", ".join(others[:MAX_NAMED])
            notes.append(f"not in the matrix, since not learned: {named}{more}")
        return notes

    def stream(self, *, subsample: int = 1, control: bool = False) -> Stream:
        """Return each task's scores after updates: probes, and whole sets at steps without one.

        `subsample=n` uses every n-th evaluation by probe, as a run that evaluates less often has.
        Control tasks are not part of the metrics of a stream; `control=True` returns only them.
        """
        check_subsample(subsample)
        used = self.kind != INITIAL
        known = np.zeros(len(self.names), dtype=bool)  # others begin after the points were cut
        known[self._spans[0]] = known[self.tested[used]] = True
        if subsample > 1:
            probed = np.unique(self.step[self.kind == PROBE])[subsample - 1 :: subsample]
            used &= (self.kind == FULL) | np.isin(self.step, probed)
        tasks, sizes, chosen = {}, {}, frozenset(self.control)
        for name, all_rows, is_known in zip(self.names, self.by_task(used), known, strict=True):
            if is_known and (name in chosen) == control:
                task_rows = self._drop_repeated_steps(all_rows)
                tasks[name] = (self.step[task_rows], self.score[task_rows])
                if len(task_rows) and (smallest := self.n[task_rows].min()) > 0:
                    sizes[name] = int(smallest)
        if control:
            return Stream(tasks, sizes=sizes, scale=self.scale)
        return Stream(
            tasks, self.spans(), before=self._scores_on_entering(), sizes=sizes, scale=self.scale
        )

    def control_scores(self) -> ControlScores | None:
        """Return the scores of the control tasks before training and at ends; None without any."""
        if not self.control:
            return None
        rows = self.control_rows()
        scores = np.where(rows < 0, np.nan, self.score[rows])
        return ControlScores(self.control, scores[0], scores[1:], scale=self.scale)

    def control_rows(self) -> NDArray[np.intp]:
        """Return the row of each control task before training, then at each end; -1 for none.

        An end is that of a span of training, or of all points without boundaries. As in the
        matrix, the last full score since the end before counts, or else the last probe.
        """
        ends = self._spans[2] if len(self._spans[2]) else self.step[-1:]
        table = np.full((1 + len(ends), len(self.control)), -1, dtype=np.intp)
        position = {name: k for k, name in enumerate(self.names)}
        initial = self.by_task((self.kind == INITIAL) & (self.step == 0))
        for column, name in enumerate(self.control):
            table[0, column] = initial[position[name]][-1] if len(initial[position[name]]) else -1
        for kind in (PROBE, FULL):  # whole sets replace probes
            rows_of = self.by_task(self.kind == kind)
            for column, name in enumerate(self.control):
                rows = rows_of[position[name]]
                at = np.searchsorted(ends, self.step[rows])
                table[1 + at[at < len(ends)], column] = rows[at < len(ends)]  # the last one counts
        return table

    def _drop_repeated_steps(self, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return rows of one task without the whole sets at steps that have a probe."""
        same = np.flatnonzero(self.step[rows[1:]] == self.step[rows[:-1]])
        whole_sets = same + (self.kind[rows[same + 1]] == FULL) if len(same) else same
        return np.delete(rows, whole_sets)

    def by_task(self, selected: NDArray[np.bool_]) -> list[NDArray[np.intp]]:
        """Return the selected rows that evaluate each task of `names`, in order of step."""
        rows = np.flatnonzero(selected)
        rows = rows[np.argsort(self.tested[rows], kind="stable")]
        ends = np.searchsorted(self.tested[rows], np.arange(len(self.names)))
        return np.split(rows, ends[1:])

    def last_rows(self) -> dict[str, int]:
        """Return the row of the last evaluation of each task: a whole set before a probe.

        With boundaries, it is the row behind the last row of the matrix: the last whole set, or the
        last probe, while the last task was trained. A task without either has none.
        """
        rows = np.flatnonzero(self.kind != INITIAL)
        if len(self._spans[0]):
            rows = rows[self.trained[rows] == self._spans[0][-1]]
            rows = rows[np.lexsort((self.step[rows], self.kind[rows]))]
        else:
            rows = rows[np.lexsort((self.kind[rows], self.step[rows]))]
        return {self.names[self.tested[row]]: row for row in rows.tolist()}  # the last one stays

    def first_rows(self) -> dict[str, int]:
        """Return the row of each task's evaluation before any training, where there is one."""
        rows = np.flatnonzero((self.kind == INITIAL) & (self.step == 0))
        return {self.names[self.tested[row]]: row for row in rows.tolist()}

    def matrix_rows(self, tasks: int) -> NDArray[np.intp]:
        """Return the row behind each measured matrix entry, sorted by evaluated task."""
        inside = (self.tested < tasks) & (self.trained >= 0)
        # Whole sets come before probes, later rows before earlier ones: the first counts.
        best = [np.flatnonzero(inside & (self.kind == kind))[::-1] for kind in (FULL, PROBE)]
        rows: NDArray[np.intp] = np.concatenate(best)
        entries = self.tested[rows].astype(np.int64) * tasks + self.trained[rows]
        return rows[np.unique(entries, return_index=True)[1]]

    def _sizes(self, rows: NDArray[np.intp], tasks: int) -> MatrixFields:
        """Return how many examples each task has at the end, and when learned, where stated."""
        fields = MatrixFields()
        at_end, learned = np.zeros(tasks, np.int64), np.zeros(tasks, np.int64)
        last = rows[self.trained[rows] == tasks - 1]
        own = rows[self.trained[rows] == self.tested[rows]]
        at_end[self.tested[last]], learned[self.tested[own]] = self.n[last], self.n[own]
        if (at_end > 0).all():
            fields["sizes"] = at_end
            if (learned > 0).all():
                fields["learned_sizes"] = learned
        return fields

    def _initial_scores(self, tasks: int) -> NDArray[np.float64]:
        """Return the untrained model's score on each task, NaN where it was not measured."""
        initial = np.full(tasks, np.nan)
        rows = (self.kind == INITIAL) & (self.step == 0) & (self.tested < tasks)
        initial[self.tested[rows]] = self.score[rows]
        return initial

    def _scores_on_entering(self) -> dict[str, float]:
        """Return each task's score between the end of the task before and its own first line."""
        scores: dict[str, float] = {}
        previous_end = 0
        initial_rows = self.by_task(self.kind == INITIAL)
        for code, first, last in zip(*(part.tolist() for part in self._spans), strict=True):
            rows, name = initial_rows[code], self.names[code]
            if len(rows) and name not in scores:
                begin = first if first > previous_end else self._first_after(
                    previous_end, code, last
                )  # fmt: skip
                at = int(np.searchsorted(self.step[rows], begin)) - 1
                if at >= 0 and self.step[rows[at]] >= previous_end:
                    scores[name] = float(self.score[rows[at]])
            previous_end = last
        return scores

    def _first_after(self, step: int, code: int, last: int) -> int:
        """Return the first step after `step` at which a task is trained, `last` if none is."""
        trained = (self.kind != INITIAL) & (self.trained == code) & (self.step > step)
        return int(self.step[trained][0]) if trained.any() else last
