"""Results by class at task ends: accuracy, forgetting and which classes were predicted instead."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..record import InputError, Run, RunFolder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from ..record import ScoreInput
    from ..record.formats.confusion import Confusion

__all__ = ["ClassResults", "count_classes", "explain_missing_classes", "read_classes"]

MAX_CLASSES = 2000


@dataclass(frozen=True, eq=False)
class ClassResults:
    """Accuracy by class after each task, on the tasks learned so far, and the last predictions.

    Attributes:
        tasks: the tasks in the order of learning.
        classes: labels, in the order in which they were learned.
        learned: number of the task with which each class was learned first.
        accuracy: (tasks, classes), NaN where a class had no examples yet.
        outputs: classes that were predicted, `classes` first.
        predictions: (classes, outputs), counts of examples after the last task.
        names: class names by label, where the run states them.
    """

    tasks: tuple[str, ...]
    classes: tuple[int, ...]
    learned: NDArray[np.int64]
    accuracy: NDArray[np.float64]
    outputs: tuple[int, ...]
    predictions: NDArray[np.int64]
    names: Mapping[int, str] = field(default_factory=dict)

    def forgetting(self) -> NDArray[np.float64]:
        """Return the best accuracy on each class before the last task minus that after it.

        NaN for classes that were learned last.
        """
        before = np.where(np.isnan(self.accuracy[:-1]), -np.inf, self.accuracy[:-1])
        best = before.max(axis=0, initial=-np.inf)
        return np.where(np.isinf(best), np.nan, best - self.accuracy[-1])


def explain_missing_classes(run: ScoreInput) -> str:
    """Return why a run has no results by class, an empty string if it has them."""
    if not isinstance(run, Run) or run.folder == Path():
        return (
            "scores only, expected labels and predicted classes, which run folders have: those of "
            "`perdure run`, or of an Evaluator with accuracy as the score"
        )
    try:
        confusion = RunFolder(run.folder).confusion()
        if confusion is not None and len(confusion.count):
            count_classes(confusion)
            return ""
    except InputError as error:
        return str(error)
    return (
        "no confusion.csv, expected predicted classes at task ends; run it again with accuracy as "
        "the score, one label per example and per-example results (the default)"
    )


def read_classes(run: ScoreInput, tasks: int | None = None) -> ClassResults:
    """Return the results by class of a run for which `explain_missing_classes` has no reason."""
    assert isinstance(run, Run)
    confusion = RunFolder(run.folder).confusion()
    assert confusion is not None
    return replace(count_classes(confusion, tasks), names=run.metadata.class_names)


def count_classes(confusion: Confusion, tasks: int | None = None) -> ClassResults:
    r"""Return the results by class after each of the first tasks, all of them by default.

    Example:
        >>> from perdure.record.formats.confusion import read_confusion
        >>> text = ("step,trained,tested,label,predicted,count\n"
        ...         "5,a,a,0,0,4\n9,b,a,0,0,1\n9,b,a,0,1,3\n9,b,b,1,1,2\n")
        >>> results = count_classes(read_confusion(text, "confusion.csv"))
        >>> results.accuracy.tolist(), results.forgetting().tolist()
        ([[1.0, nan], [0.25, 1.0]], [0.75, nan])
    """
    steps = np.unique(confusion.step)[:tasks]
    order = dict(zip(confusion.step.tolist(), confusion.trained, strict=True))
    names = tuple(order[step] for step in steps.tolist())
    first = {name: row for row, name in reversed(list(enumerate(names)))}
    rows = np.searchsorted(steps, confusion.step)
    since = np.array([first.get(name, len(steps)) for name in confusion.tested])
    kept = (rows < len(steps)) & (since <= rows)  # not those of tasks that come later
    rows, label, predicted = rows[kept], confusion.label[kept], confusion.predicted[kept]
    count, since = confusion.count[kept], since[kept]
    classes = sorted(set(label.tolist()), key=lambda c: (since[label == c].min(), c))
    outputs = [*classes, *sorted(set(predicted.tolist()) - set(classes))]
    if len(outputs) > MAX_CLASSES:
        raise InputError(f"{len(outputs)} classes, expected at most {MAX_CLASSES}")
    at_label, at_predicted = _positions(label, classes), _positions(predicted, outputs)
    totals = np.zeros((len(steps), len(classes)))
    right = totals.copy()
    np.add.at(totals, (rows, at_label), count)
    np.add.at(right, (rows, at_label), np.where(label == predicted, count, 0))
    predictions = np.zeros((len(classes), len(outputs)), dtype=np.int64)
    last = rows == len(steps) - 1
    np.add.at(predictions, (at_label[last], at_predicted[last]), count[last])
    learned = np.array([since[label == c].min() for c in classes], dtype=np.int64)
    with np.errstate(invalid="ignore"):
        accuracy = right / totals
    return ClassResults(names, tuple(classes), learned, accuracy, tuple(outputs), predictions)


def _positions(values: NDArray[np.int64], names: list[int]) -> NDArray[np.int64]:
    """Return where each value is in a list of distinct ones."""
    order = np.argsort(names)
    return order[np.searchsorted(np.array(names)[order], values)]
