"""What a check needs of a run: the scores of each task at the end and when it was learned."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from ..metrics import ACCURACY, UndefinedMetricError, align_examples, options_for
from ..record import InputError, RunFolder, read_input

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..metrics import PerExample, ScoreScale
    from ..record import ScoreInput

__all__ = ["CheckedRun", "TaskScore", "make_checked_run", "pair_examples", "read_checked_run"]


@dataclass(frozen=True)
class TaskScore:
    """The score of one task in one evaluation; `n` is 0 and `right` None where unknown.

    `right` has the per-example results of this evaluation in its first row.
    """

    score: float
    n: int = 0
    right: PerExample | None = None


@dataclass(frozen=True)
class CheckedRun:
    """A run, or a baseline file, as far as a check needs it.

    Attributes:
        name: How messages name it.
        source: Everything that was read.
        last: The last evaluation of each task.
        first: That when it was learned; of a task that is never learned, that before training.
        frozen: Whether it comes from a baseline file.
        own_scale: The scale that a baseline file states.
    """

    name: str
    source: ScoreInput
    last: Mapping[str, TaskScore]
    first: Mapping[str, TaskScore] = field(default_factory=dict)
    frozen: bool = False
    own_scale: ScoreScale | None = None

    @property
    def learned(self) -> tuple[str, ...]:
        """The learned tasks in order; none without a score matrix."""
        return () if self.source.matrix is None else self.source.matrix.tasks

    @property
    def scale(self) -> ScoreScale:
        """The scale of the scores."""
        if self.own_scale is not None:
            return self.own_scale
        scored = self.source.matrix or self.source.points or self.source.stream
        return ACCURACY if scored is None else scored.scale

    def metric(self, id_: str) -> tuple[float | None, str]:
        """Return the value of a metric, or None and the reason why it is undefined."""
        summary = self.source.summary(options_for([id_]))
        return summary.metrics.get(id_), summary.undefined.get(id_, "")

    def interval(self, id_: str, level: float) -> tuple[float, float] | None:
        """Return the interval of a metric that its own examples give, None if there is none."""
        options = replace(options_for([id_]), level=level, intervals=True)
        return self.source.summary(options).intervals.get(id_)


def read_checked_run(path: str | os.PathLike[str]) -> CheckedRun:
    """Return what a check needs of a finished run, a points.csv or a score matrix."""
    name = os.fspath(path)
    folder = RunFolder(name)
    if folder.has_metadata() and not folder.is_finished():
        state = folder.status().state
        raise InputError(f"{name}: the run is {state}, expected a finished run; resume it first")
    run = make_checked_run(name, read_input(name))
    if not run.last:
        raise InputError(f"{name}: no scores in it, expected an evaluation of each task")
    return run


def make_checked_run(name: str, source: ScoreInput) -> CheckedRun:
    """Return what a check needs of a run that has been read."""
    return CheckedRun(name, source, _last_scores(source), _first_scores(source))


def _last_scores(source: ScoreInput) -> dict[str, TaskScore]:
    points, matrix = source.points, source.matrix
    if points is not None:
        return {
            task: _point(source, row, source.per_example_last.get(task))
            for task, row in points.last_rows().items()
        }
    if matrix is None:
        return {}
    sizes = np.zeros(len(matrix.tasks)) if matrix.sizes is None else matrix.sizes
    scores = zip(matrix.tasks, matrix.scores[-1].tolist(), sizes.tolist(), strict=True)
    return {task: TaskScore(score, int(n)) for task, score, n in scores if score == score}


def _first_scores(source: ScoreInput) -> dict[str, TaskScore]:
    """Return the score of each task when it was learned, or else before training."""
    points, matrix = source.points, source.matrix
    scores: dict[str, TaskScore] = {}
    if points is not None:
        scores |= {
            task: _point(source, row, source.per_example_first.get(task))
            for task, row in points.first_rows().items()
        }
    if matrix is None:
        return scores
    sizes = matrix.learned_sizes if matrix.learned_sizes is not None else matrix.sizes
    for j, task in enumerate(matrix.tasks):
        ends = source.per_example_at_ends.get(task)
        own = None if ends is None else ends.at(np.array([j]))
        n = 0 if sizes is None else int(sizes[j])
        right = own if own is not None and len(own) else None
        scores[task] = TaskScore(float(matrix.scores[j, j]), n, right)
    return scores


def _point(source: ScoreInput, row: int, right: PerExample | None) -> TaskScore:
    assert source.points is not None
    return TaskScore(float(source.points.score[row]), int(source.points.n[row]), right)


def pair_examples(task: str, one: CheckedRun, two: CheckedRun) -> tuple[PerExample, PerExample]:
    """Return the last per-example results of both runs in the same order of examples.

    Raises InputError if these are other examples.
    """
    first, second = one.last[task].right, two.last[task].right
    assert first is not None
    assert second is not None
    try:
        return first, align_examples(task, first, second)
    except UndefinedMetricError as reason:
        raise InputError(
            f"{one.name} and {two.name}: {reason}, expected the same examples"
        ) from None
