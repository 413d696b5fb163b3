"""What is known about the tasks next to their scores, as `score` and `which` take it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from cyclopts import Parameter

from ._options import Names, Values

if TYPE_CHECKING:
    from ..record import InputOptions

__all__ = ["DEFAULT_TASK_OPTIONS", "TaskOptions"]


@Parameter(name="*", group="Tasks")
@dataclass(frozen=True, kw_only=True)
class TaskOptions:
    """What is known about the tasks next to their scores.

    Attributes:
        classes: Number of classes that each task introduces, as in 2,2,2.
        setting: Continual learning setting: class-incremental (no task id at test time),
            task-incremental (the task id is given) or domain-incremental (the same classes, new
            inputs). By default, metrics that depend on it assume `class`.
        initial: Scores of the untrained model, one per task.
        joint: Scores of a model trained on all tasks at once, one per task.
        single: Scores of models trained on a single task each, one per task.
        offline: Scores of models trained offline on the tasks so far: after each task, the mean
            over these tasks.
        sizes: Number of test examples per task.
        control: Names of the tasks in a points.csv that are evaluated but never trained. A run
            names its own.
    """

    classes: Values | None = None
    setting: Literal["class", "task", "domain"] | None = None
    initial: Values | None = None
    joint: Values | None = None
    single: Values | None = None
    offline: Values | None = None
    sizes: Values | None = None
    control: Names | None = None

    def add_to(self, inputs: InputOptions) -> InputOptions:
        """Return how to read scores, with what is known about the tasks."""
        return replace(inputs, **vars(self))


DEFAULT_TASK_OPTIONS = TaskOptions()
