"""Accuracies per trained and evaluated task: CLArena, Renate, continuum and CapyMOA.

CLArena writes acc.csv and Renate metrics_summary_update_<k>.csv, whose two header rows are the
metric and the task. continuum's `Logger` and CapyMOA's `OCLMetrics` are objects in memory.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from ...metrics import ACCURACY, ScoreScale
from ...record import InputError
from ..files import find_files, find_in_folder, read_head, read_log_text, read_rows
from ..imported import (
    NO_SIZES,
    STEPS_ARE_EVALUATIONS,
    STEPS_ARE_TASKS,
    Evaluation,
    ImportedRun,
    drop_examples,
)
from ..values import parse_score

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ..imported import ImportOptions

__all__ = [
    "read_capymoa",
    "read_clarena",
    "read_continuum",
    "read_renate",
    "recognize_capymoa",
    "recognize_clarena",
    "recognize_continuum",
    "recognize_renate",
]

CLARENA_COLUMNS = ["after_training_task", "average_accuracy"]
CLARENA_TESTED = "test_on_task_"
BATCHES = "CLArena averages accuracies over batches, a smaller last batch counting as much"

UPDATE_FILE = re.compile(r"metrics_summary_update_(\d+)\.csv")
RENATE_METRIC = "accuracy"
LOSS = ScoreScale(0, float("inf"), lower_is_better=True, name="loss")
NO_INITIAL = (
    "scores of the untrained model, which Renate's Forward Transfer subtracts, are not in the file"
)

OTHER_EXAMPLES = (
    "the examples of some tasks differ between evaluations: results per example are left out"
)

CAPYMOA_FIELDS = ("accuracy_matrix", "anytime_accuracy_matrix", "n_tasks", "boundaries")
EXAMPLES = (
    "steps count training examples; between the ends of tasks they are interpolated, as CapyMOA "
    "does not keep them"
)
FLOAT32 = "CapyMOA stores 32 bits: scores have about 7 digits"
BEFORE_END = (
    "with several evaluations per task, CapyMOA makes the last one before the task ends if their "
    "number does not divide the number of batches"
)


def recognize_clarena(path: Path) -> str | None:
    """Return why a file or folder looks like CLArena's, None if it does not."""
    if path.is_dir():
        return find_in_folder(path, "acc.csv", recognize_clarena)
    if read_head(path).startswith(f"{','.join(CLARENA_COLUMNS)},{CLARENA_TESTED}"):
        return "it has the columns of CLArena's acc.csv"
    return None


def read_clarena(paths: Sequence[Path], options: ImportOptions) -> list[ImportedRun]:  # noqa: ARG001
    """Return one run per acc.csv."""
    return [_read_accuracies(path) for path in find_files(paths, "acc.csv")]


def _read_accuracies(path: Path) -> ImportedRun:
    if not read_log_text(path).endswith("\n"):
        raise InputError(f"{path}: the last line is cut off, expected a line break after it")
    header, *rows = read_rows(path) or [[]]
    tasks = [name.removeprefix(CLARENA_TESTED) for name in header[2:]]
    if header[:2] != CLARENA_COLUMNS or not all(
        name.startswith(CLARENA_TESTED) for name in header[2:]
    ):
        raise InputError(f"{path} line 1: expected {','.join(CLARENA_COLUMNS)},{CLARENA_TESTED}1,…")
    evaluations = []
    for k, row in enumerate(rows):
        where = f"{path} line {k + 2}"
        if len(row) != k + 3 or k >= len(tasks):  # the header is rewritten after every task
            raise InputError(
                f"{where}: {len(row) - 2} accuracies, expected {k + 1}, one per task so far; after "
                "unlearning, CLArena's columns do not say which task they are"
            )
        if row[0] != tasks[k]:
            raise InputError(f"{where}: after task {row[0]!r:.40}, expected task {tasks[k]}")
        for tested, cell in zip(tasks, row[2:], strict=False):
            evaluations.append(
                Evaluation(
                    k + 1,
                    f"task {row[0]}",
                    f"task {tested}",
                    parse_score(cell, where, "an accuracy"),
                )
            )
    return ImportedRun(
        tool="CLArena", evaluations=evaluations, files=[path], label=path.parent.name,
        notes=[BATCHES, STEPS_ARE_TASKS, NO_SIZES],
    )  # fmt: skip


def recognize_renate(path: Path) -> str | None:
    """Return why a file or folder looks like Renate's, None if it does not."""
    if path.is_dir():
        return find_in_folder(path, "metrics_summary_update_*.csv", recognize_renate)
    lines = read_head(path).split("\n")
    if lines[0].startswith("Task ID,") and lines[1:] and lines[1].startswith(",Task 1"):
        return "it has the two header rows of Renate's summary of updates"
    return None


def read_renate(paths: Sequence[Path], options: ImportOptions) -> list[ImportedRun]:
    """Return a run per folder, from the file of its last update; `metric` chooses the score."""
    last: dict[Path, Path] = {}
    for path in find_files(paths, "metrics_summary_update_*.csv"):
        folder, match = path.parent, UPDATE_FILE.fullmatch(path.name)
        number = int(match[1]) if match else -1
        before = UPDATE_FILE.fullmatch(last[folder].name) if folder in last else None
        if before is None or number > int(before[1]):
            last[folder] = path  # every file repeats the rows of those before it
    return [_read_update(path, options.metric or RENATE_METRIC) for path in last.values()]


def _read_update(path: Path, metric: str) -> ImportedRun:
    rows = read_rows(path)
    if len(rows) < 3 or (rows[0][0], rows[1][0]) != ("Task ID", "") or len(rows[0]) != len(rows[1]):
        raise InputError(f"{path}: expected two header rows, `Task ID,{metric},…` and `,Task 1,…`")
    columns = {task: k for k, task in enumerate(rows[1]) if rows[0][k] == metric}
    if not columns:
        known = ", ".join(dict.fromkeys(rows[0][1:]))
        raise InputError(f"{path}: has no {metric!r:.40}; choose with `metric=`: {known}")
    evaluations = []
    for k, row in enumerate(rows[2:]):
        where = f"{path} line {k + 3}"
        if len(row) != len(rows[0]) or row[0] != str(k + 1):
            raise InputError(
                f"{where}: {len(row)} cells after task {row[0]!r:.40}, expected {len(rows[0])} "
                f"after task {k + 1}"
            )
        for task, column in columns.items():
            score = parse_score(row[column], where, "a score")
            evaluations.append(Evaluation(k + 1, f"Task {k + 1}", task, score))
    return ImportedRun(
        tool="Renate", metrics="renate", evaluations=evaluations, files=[path],
        label=path.parent.name, scale=LOSS if metric == "loss" else ACCURACY,
        notes=[STEPS_ARE_TASKS, NO_SIZES, NO_INITIAL],
    )  # fmt: skip


def recognize_continuum(value: object) -> bool:
    """Return whether an object is a continuum `Logger`."""
    return hasattr(value, "logger_dict") and hasattr(value, "current_task")


def read_continuum(value: Any, options: ImportOptions) -> list[ImportedRun]:
    """Return the run in a `Logger`; `metric` chooses the subset, `test` unless it is named."""
    subset = options.metric or "test"
    subsets = value.logger_dict
    if subset not in subsets or "performance" not in subsets[subset]:
        raise InputError(
            f"the Logger has no performance of subset {subset!r:.40}; choose `metric=`"
        )
    evaluations: list[Evaluation] = []
    for learned, epochs in enumerate(subsets[subset]["performance"]):
        if epochs is None:
            raise InputError(
                f"the Logger has saved task {learned} to a file and dropped it "
                "(end_task(clean=True)); import before that"
            )
        for epoch in epochs:
            if len(epoch["predictions"]):
                step = (evaluations[-1].step if evaluations else 0) + 1
                evaluations += _evaluate(epoch, learned, step)
    notes = [STEPS_ARE_EVALUATIONS]
    if _examples_differ(evaluations):
        notes.append(OTHER_EXAMPLES)
        evaluations = [drop_examples(evaluation) for evaluation in evaluations]
    return [
        ImportedRun(tool="continuum", metrics="continuum", evaluations=evaluations, notes=notes)
    ]


def _evaluate(epoch: dict[str, Any], learned: int, step: int) -> list[Evaluation]:
    """Return an evaluation per task among the examples, in the order they were added."""
    correct = np.asarray(epoch["predictions"]) == np.asarray(epoch["targets"])
    tasks = np.asarray(epoch["task_ids"])
    if len(tasks) != len(correct):
        raise InputError(
            f"the Logger has no task ids of the evaluation after task {learned}; add them: "
            "logger.add([predictions, targets, task_ids], subset='test')"
        )
    return [
        Evaluation(
            step, f"task {learned}", f"task {int(task)}", correct=correct[tasks == task].tolist()
        )
        for task in np.unique(tasks)
    ]


def _examples_differ(evaluations: list[Evaluation]) -> bool:
    sizes: dict[str, set[int]] = {}
    for evaluation in evaluations:
        sizes.setdefault(evaluation.tested, set()).add(len(evaluation.correct or ()))
    return any(len(counts) > 1 for counts in sizes.values())


def recognize_capymoa(value: object) -> bool:
    """Return whether an object is an `OCLMetrics` of CapyMOA."""
    return all(hasattr(value, name) for name in CAPYMOA_FIELDS)


def read_capymoa(value: Any, options: ImportOptions) -> list[ImportedRun]:  # noqa: ARG001
    """Return the run in an `OCLMetrics`."""
    anytime = np.asarray(value.anytime_accuracy_matrix, dtype=np.float64)
    tasks, ends = int(value.n_tasks), np.asarray(value.boundaries, dtype=np.float64)
    per_task = len(anytime) // tasks if tasks else 0
    if not per_task or anytime.shape != (tasks * per_task, tasks) or len(ends) != tasks + 1:
        raise InputError(
            f"anytime_accuracy_matrix has shape {anytime.shape}, boundaries {len(ends)} entries; "
            f"expected evaluations of {tasks} tasks and {tasks + 1} boundaries"
        )
    names = [f"task {k}" for k in range(tasks)]
    evaluations = []
    for row, scores in enumerate(anytime):
        learned, part = divmod(row, per_task)
        step = ends[learned] + (ends[learned + 1] - ends[learned]) * (part + 1) / per_task
        evaluations += [
            Evaluation(round(step), names[learned], name, float(f"{score:.7g}"))
            for name, score in zip(names, scores, strict=True)
            if np.isfinite(score)  # NaN: a task without test examples
        ]
    notes = [EXAMPLES, FLOAT32, NO_SIZES, *([BEFORE_END] if per_task > 1 else [])]
    return [ImportedRun(tool="CapyMOA", metrics="capymoa", evaluations=evaluations, notes=notes)]
