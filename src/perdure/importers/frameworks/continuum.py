"""continuum's `Logger` in memory: the predictions of every evaluation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...record import InputError
from ..imported import Evaluation, ImportedRun

if TYPE_CHECKING:
    from ..options import ImportOptions

__all__ = ["read_object", "recognize_object"]

EVALUATIONS = "the number of training iterations is not known: steps count evaluations"
OTHER_EXAMPLES = (
    "the examples of some tasks differ between evaluations: results per example are left out"
)


def recognize_object(value: object) -> bool:
    """Return whether an object is a continuum `Logger`."""
    return hasattr(value, "logger_dict") and hasattr(value, "current_task")


def read_object(value: Any, options: ImportOptions) -> list[ImportedRun]:
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
    notes = [EVALUATIONS]
    if _examples_differ(evaluations):
        notes.append(OTHER_EXAMPLES)
        evaluations = [_without_examples(evaluation) for evaluation in evaluations]
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


def _without_examples(evaluation: Evaluation) -> Evaluation:
    correct = evaluation.correct or [False]
    return evaluation._replace(correct=None, score=sum(correct) / len(correct), n=len(correct))
