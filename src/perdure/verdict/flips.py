"""Examples that were lost: which ones, when, and whether they came back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .._display import format_block
from ..record import InputError
from ..stats import holm, mcnemar_p
from .checked_run import pair_examples

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .checked_run import CheckedRun

__all__ = ["ExampleFlip", "Flips", "TaskFlips", "find_flips"]

BEFORE_TRAINING = "before training"
AT_THE_END = "the end of training"
NOT_RECORDED = (
    "{}: it is not recorded which examples were right, expected per-example results of task ends "
    "(`per_example=True`)"
)


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
        raise InputError(NOT_RECORDED.format(names))
    counts = [_count(history) for history in histories.values()]
    p_values = [mcnemar_p(lost, gained) for lost, gained in counts]
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
            histories[task] = _History([BEFORE_TRAINING, AT_THE_END], right, last.right.ids)
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


def _count(history: _History) -> tuple[int, int]:
    first, last = history.right[0], history.right[-1]
    return int(np.count_nonzero(first & ~last)), int(np.count_nonzero(~first & last))


def _task_flips(task: str, history: _History, p: float, p_holm: float) -> TaskFlips:
    labels, right, ids = history
    lost, gained = _count(history)
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
