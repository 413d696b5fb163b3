"""CapyMOA's `OCLMetrics` in memory: accuracies on all tasks, several times per task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...record import InputError
from ..imported import NO_SIZES, Evaluation, ImportedRun

if TYPE_CHECKING:
    from ..options import ImportOptions

__all__ = ["read_object", "recognize_object"]

NEEDED = ("accuracy_matrix", "anytime_accuracy_matrix", "n_tasks", "boundaries")
EXAMPLES = (
    "steps count training examples; between the ends of tasks they are interpolated, as CapyMOA "
    "does not keep them"
)
FLOAT32 = "CapyMOA stores 32 bits: scores have about 7 digits"
BEFORE_END = (
    "with several evaluations per task, CapyMOA makes the last one before the task ends if their "
    "number does not divide the number of batches"
)


def recognize_object(value: object) -> bool:
    """Return whether an object is an `OCLMetrics` of CapyMOA."""
    return all(hasattr(value, name) for name in NEEDED)


def read_object(value: Any, options: ImportOptions) -> list[ImportedRun]:  # noqa: ARG001
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
