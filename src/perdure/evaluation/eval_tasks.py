"""The tasks of a run, and which of them are evaluated."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from .arguments import EvalTask, named_tasks, task_name
from .eval_set import EvalSet
from .state.preserve import preserve_state

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .arguments import Subset
    from .engine.engine import Engine

__all__ = ["EvalTasks"]


class EvalTasks:
    """Evaluation data by task; with `unseen`, tasks are evaluated before they are trained, too."""

    def __init__(self, subset: Subset, *, unseen: bool, engine: Engine) -> None:
        self.sets: dict[str, EvalSet] = {}
        self.train_sets: dict[str, EvalSet] = {}  # training examples, by task
        self.series: dict[str, EvalSet] = {}  # both by the name they are evaluated under
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
        new = self._make_set(task, data)
        if isinstance(data, EvalTask) and data.train is not None:
            training = replace(data, data=data.train, ids=None, train=None)
            train_set = self._make_set(f"{task} (train)", training, train_of=task)
            self.train_sets[task] = self.series[train_set.name] = train_set
        self.sets[task] = self.series[task] = new
        if evaluate_now or new.control:
            self.always.append(task)

    def _make_set(self, name: str, data: object, *, train_of: str | None = None) -> EvalSet:
        if name in self.series:
            raise ValueError(f"task {name!r} already exists; names must differ")
        scorer = self._engine.scorer
        new = EvalSet(
            name, data, self._subset, labels_are_classes=scorer.score is None, train_of=train_of
        )
        if new.resample and self._engine.precision.is_half:
            precision = self._engine.executor.precision
            raise ValueError(f"precision={precision!r} needs a fixed subset; drop resample=True")
        if new.classes is not None:
            scorer.set_classes(name, new.classes)
        if train_of is not None:
            scorer.train_of[name] = train_of
        if not new.is_function:
            with preserve_state(None):  # a Dataset is the user's code
                new.check()
        return new

    @property
    def control(self) -> list[EvalSet]:
        """The tasks that are evaluated but never trained."""
        return [task for task in self.sets.values() if task.control]

    def evaluated(self, trained: Sequence[str]) -> list[EvalSet]:
        """Return what to evaluate when these tasks were trained; everything if none was."""
        names = [*trained, *self.always]
        if self._unseen or not trained:
            names = list(self.sets)
        return self.with_train([self.sets[name] for name in dict.fromkeys(names)])

    def with_train(self, tasks: Sequence[EvalSet]) -> list[EvalSet]:
        """Return these tasks, and after them the training examples of those that have some."""
        known = (self.train_sets.get(task.name) for task in tasks)
        return [*tasks, *(train_set for train_set in known if train_set is not None)]
