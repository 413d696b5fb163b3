"""What a check needs of a run: the scores of each task at the end and when it was learned.

With per-example results also which examples were lost, when, and whether they came back.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .._display import format_block
from ..metrics import ACCURACY, UndefinedMetricError, align_examples, options_for
from ..record import InputError, RunFolder, read_input
from ..stats import holm, mcnemar_p

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from ..metrics import PerExample, ScoreScale
    from ..record import ScoreInput

__all__ = [
    "CheckedRun",
    "ExampleFlip",
    "Flips",
    "TaskFlips",
    "TaskScore",
    "find_flips",
    "make_checked_run",
    "pair_examples",
    "read_checked_run",
]


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


def count_changes(before: NDArray[np.bool_], after: NDArray[np.bool_]) -> tuple[int, int, int]:
    """Return how many examples were lost and gained, and how many there are."""
    lost, gained = np.count_nonzero(before & ~after), np.count_nonzero(~before & after)
    return int(lost), int(gained), len(before)


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


class ExampleFlip(NamedTuple):
    """An example that was right and then wrong.

    Attributes:
        id: Id of the example, or its position if the run has no ids.
        lost_after: The evaluation in which it was wrong for the first time after being right.
        returned_after: The evaluation since which it is right again; None if it is wrong at the
            end.
    """

    id: int
    lost_after: str
    returned_after: str | None


@dataclass(frozen=True)
class TaskFlips:
    """The examples of one task that changed between the first and the last evaluation.

    Attributes:
        task: Name of the task.
        examples: Number of examples.
        first: The first evaluation that is compared.
        last: The last one.
        lost: How many were right first and are wrong last.
        gained: How many were wrong first and are right last.
        returned: How many were lost in between and are right last.
        p: McNemar's exact two-sided p-value: as many were lost as gained.
        p_holm: The same after Holm's correction for all tasks.
        flips: The examples that were lost at any time, first those that stay lost.
        evaluations: The compared evaluations, in order.
        ids: Ids of all examples.
        right: Which examples were right in each evaluation.
    """

    task: str
    examples: int
    first: str
    last: str
    lost: int
    gained: int
    returned: int
    p: float
    p_holm: float
    flips: list[ExampleFlip]
    evaluations: list[str] = field(repr=False)
    ids: NDArray[np.int64] = field(repr=False, compare=False)
    right: NDArray[np.bool_] = field(repr=False, compare=False)

    def to_dict(self) -> dict[str, object]:
        """Return plain lists and numbers, without the results of every example."""
        plain = {name: value for name, value in vars(self).items() if name not in ("ids", "right")}
        return plain | {"flips": [flip._asdict() for flip in self.flips]}


@dataclass(frozen=True)
class Flips:
    """What a run has lost, task by task.

    Attributes:
        run: The run.
        against: The run that it is compared with; None if with its own earlier evaluations.
        tasks: The tasks.
        notes: Notes on tasks that are left out.
    """

    run: str
    against: str | None
    tasks: list[TaskFlips]
    notes: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, object]:
        """Return plain lists and numbers, ready for JSON."""
        return vars(self) | {"tasks": [task.to_dict() for task in self.tasks]}

    def __repr__(self) -> str:
        rows = [
            (task.task, f"{task.lost} lost", f"{task.gained} gained", f"{task.returned} came back",
             f"p = {task.p:.2g}")
            for task in self.tasks
        ]  # fmt: skip
        return format_block(f"Flips of {self.run}", rows, [f"note: {n}" for n in self.notes])


class _History(NamedTuple):
    """The evaluations of one task that are compared, each with who was right."""

    labels: list[str]
    right: NDArray[np.bool_]
    ids: NDArray[np.int64] | None


def find_flips(run: CheckedRun, against: CheckedRun | None = None) -> Flips:
    """Return which examples a run has lost since each task was learned, or against another run."""
    if against is None:
        histories, notes = _own_histories(run)
    else:
        histories, notes = _histories_against(run, against)
    if not histories:
        names = run.name if against is None else f"{run.name} and {against.name}"
        raise InputError(
            f"{names}: it is not recorded which examples were right, expected per-example results "
            "of task ends (`per_example=True`)"
        )
    counts = [count_changes(one.right[0], one.right[-1]) for one in histories.values()]
    p_values = [mcnemar_p(lost, gained) for lost, gained, _ in counts]
    tasks = [
        _task_flips(task, history, p, adjusted)
        for (task, history), p, adjusted in zip(
            histories.items(), p_values, holm(p_values).tolist(), strict=True
        )
    ]
    return Flips(run.name, None if against is None else against.name, tasks, notes)


def _own_histories(run: CheckedRun) -> tuple[dict[str, _History], list[str]]:
    """Return the evaluations at task ends since each task was learned."""
    histories = {}
    for j, task in enumerate(run.learned[:-1]):
        ends = run.source.per_example_at_ends.get(task)
        rows = np.empty(0, np.intp) if ends is None else np.flatnonzero(ends.steps >= j)
        if ends is not None and len(rows) > 1 and ends.steps[rows[0]] == j:
            labels = [run.learned[after] for after in ends.steps[rows].tolist()]
            histories[task] = _History(labels, ends[rows], ends.ids)
    for task, last in run.last.items():
        first = run.first.get(task)
        if task in run.learned or first is None or first.right is None or last.right is None:
            continue
        if first.right.examples == last.right.examples:
            right = np.stack([first.right[0], last.right[0]])
            labels = ["before training", "the end of training"]
            histories[task] = _History(labels, right, last.right.ids)
    missing = [task for task in run.learned[:-1] if task not in histories]
    notes = [f"no per-example results since they were learned: {', '.join(missing)}"]
    return histories, notes if missing else []


def _histories_against(run: CheckedRun, other: CheckedRun) -> tuple[dict[str, _History], list[str]]:
    """Return the last evaluations of another run and of this one."""
    histories, missing = {}, []
    for task in run.last:
        known = task in other.last and other.last[task].right is not None
        if not known or run.last[task].right is None:
            missing.append(task)
            continue
        before, after = pair_examples(task, other, run)
        right = np.stack([before[0], after[0]])
        histories[task] = _History([other.name, run.name], right, before.ids)
    notes = [f"without per-example results in both runs: {', '.join(missing)}"]
    return histories, notes if missing else []


def _task_flips(task: str, history: _History, p: float, p_holm: float) -> TaskFlips:
    labels, right, ids = history
    lost, gained, _ = count_changes(right[0], right[-1])
    known = np.arange(right.shape[1]) if ids is None else ids
    falls = right[:-1] & ~right[1:]
    changed = np.flatnonzero(falls.any(axis=0))
    flips = []
    for k in changed.tolist():
        lost_at = int(np.argmax(falls[:, k])) + 1
        wrong = np.flatnonzero(~right[:, k])
        back = int(wrong[-1]) + 1
        returned = labels[back] if back < len(labels) else None
        flips.append(ExampleFlip(int(known[k]), labels[lost_at], returned))
    flips.sort(key=lambda flip: (flip.returned_after is not None, labels.index(flip.lost_after)))
    returned_count = sum(flip.returned_after is not None for flip in flips)
    return TaskFlips(
        task, right.shape[1], labels[0], labels[-1], lost, gained, returned_count, p, p_holm, flips,
        labels, known, right,
    )  # fmt: skip
