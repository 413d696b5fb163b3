"""The tasks of a run, and which of them are evaluated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .arguments import named_tasks, task_name
from .eval_set import EvalSet
from .state.preserve import preserve_state

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .engine.engine import Engine
    from .options import Subset

__all__ = ["EvalTasks"]


class EvalTasks:
    """Evaluation data by task.

    Args:
        subset: which examples are evaluated while training, unless a task has its own.
        unseen: also evaluate tasks that have not been trained yet.
        engine: masks the classes of other tasks.
    """

    def __init__(self, subset: Subset, *, unseen: bool, engine: Engine) -> None:
        self.sets: dict[str, EvalSet] = {}
        self.always: list[str] = []  # evaluated whether they are trained or not
        self._subset, self._unseen, self._engine = subset, unseen, engine

    def add_all(self, tasks: object) -> None:
        """Add tasks by name, or numbered."""
        for name, data in named_tasks(tasks):
            self.add(name, data)

    def add(self, name: object, data: object, *, evaluate_now: bool = False) -> None:
        """Add a task, which is evaluated once it is trained, or from now on.

        A control task is evaluated from now on and never trained.
        """
        task = task_name(name)
        if not task or not task.isprintable():
            raise ValueError(f"task name {task!r} must be text that can be printed")
        if task in self.sets:
            raise ValueError(f"task {task!r} already exists; names must differ")
        is_accuracy = self._engine.scorer.score is None
        new = EvalSet(task, data, self._subset, labels_are_classes=is_accuracy)
        if new.resample and self._engine.precision.is_half:
            precision = self._engine.executor.precision
            raise ValueError(f"precision={precision!r} needs a fixed subset; drop resample=True")
        if new.classes is not None:
            self._engine.scorer.set_classes(task, new.classes)
        if not new.is_function:
            with preserve_state(None):  # a Dataset is the user's code
                new.check()
        self.sets[task] = new
        if evaluate_now or new.control:
            self.always.append(task)

    @property
    def control(self) -> list[EvalSet]:
        """The tasks that are evaluated but never trained."""
        return [task for task in self.sets.values() if task.control]

    def evaluated(self, trained: Sequence[str]) -> list[EvalSet]:
        """Return the tasks to evaluate when these were trained; all of them if none was."""
        names = [*trained, *self.always]
        if self._unseen or not trained:
            names = list(self.sets)
        return [self.sets[name] for name in dict.fromkeys(names)]
