"""The order in which an evaluator's methods may be called, as a state machine of its own.

    idle --begin(task)--> training --step()--> training --end()--> idle

Steps may also be taken without any task: then the stream has no boundaries, and no task may begin
later. A resumed evaluator that was stopped inside a task is idle until that task begins again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from .._suggestions import suggest_names

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

__all__ = ["Lifecycle", "TaskBlock", "check_model"]


class Lifecycle(msgspec.Struct):
    """Counts steps, knows the current task, and raises RuntimeError for a call out of order."""

    step: int = 0  # training steps so far
    task_step: int = 0  # training steps since the task began
    task: str | None = None  # the task being trained; None between tasks
    trained_tasks: list[str] = []  # in order of their first beginning
    tasks_with_steps: list[str] = []
    previous: tuple[str | None, int] = (None, 0)  # the task before, and when that one began
    unfinished: str | None = None  # the task in the middle of which the run was stopped
    announced: str | None = None  # task() was called, its block has not begun
    failed: bool = False  # whether the last task was left by an error
    closed: bool = False

    def check_begin(
        self, task: str, known: Collection[str], model: object, *, needs_model: bool,
        control: Collection[str] = (),
    ) -> None:  # fmt: skip
        """Raise unless `task` may begin now, with a model if the run needs one or None.

        Tasks in `control` are never trained.
        """
        self.check_open()
        self.announced = None
        if model is not None:
            check_model(model, "task")
        if self.task is not None:
            raise RuntimeError(f"task {task!r} begins inside {self.task!r}; end that one first")
        if task not in known:
            raise ValueError(
                f"task {task!r} has no evaluation data, {_expected_tasks(task, known)}; "
                "evaluator.add_task(name, data) adds it"
            )
        if task in control:
            raise ValueError(
                f"task {task!r} is a control task, which is evaluated but never trained; omit "
                "control=True to train it"
            )
        if self.unfinished not in (None, task):
            raise RuntimeError(
                f"task {task!r} begins, but the run was stopped in the middle of "
                f"{self.unfinished!r}; begin that one first"
            )
        if self.step and not self.trained_tasks:
            raise RuntimeError(
                f"task {task!r} begins after steps outside of any task; put those into one as well"
            )
        if needs_model and model is None and self.step == 0:
            what = "retention needs" if control else "initial='all' evaluates"
            raise ValueError(
                f"{what} the untrained model; pass it: evaluator.task({task!r}, model)"
            )

    def begin(self, task: str, previous: tuple[str | None, int]) -> bool:
        """Return whether `task` begins now, and not merely continues in a resumed run.

        Args:
            task: the task.
            previous: the task trained before it, and the step after which that one began.
        """
        continues, self.unfinished = self.unfinished is not None, None
        self.task = task
        if not continues:
            self.task_step = 0
            self.previous = previous
        return not continues

    def begun(self) -> None:
        """Count the current task among those trained, once its beginning has succeeded."""
        assert self.task is not None
        if self.task not in self.trained_tasks:
            self.trained_tasks.append(self.task)

    def advance(self, model: object) -> None:
        """Count a training step of `model`, or raise if there can be none now."""
        self.check_open()
        check_model(model, "step")
        if self.announced is not None:
            raise RuntimeError(
                f"task({self.announced!r}) was called without with; write: "
                f"with evaluator.task({self.announced!r}, model):"
            )
        if self.task is None and self.trained_tasks:
            raise RuntimeError(
                "a step outside of any task: put it into `with evaluator.task(name)`, or use no "
                "tasks at all for a stream without boundaries"
            )
        self.step += 1
        self.task_step += 1
        if self.task is not None and self.task not in self.tasks_with_steps:
            self.tasks_with_steps.append(self.task)

    def check_evaluate(self, model: object) -> None:
        """Raise unless whole sets may be evaluated outside of any task."""
        self.check_open()
        check_model(model, "evaluate")
        if self.task is not None or self.trained_tasks:
            raise RuntimeError(
                "evaluate() is for streams without tasks; whole sets are evaluated when a task ends"
            )

    def check_end(self) -> str:
        """Return the task that ends, or raise if there is none."""
        self.check_open()
        if self.task is None:
            raise RuntimeError("end() without a task; evaluator.begin(task, model) begins one")
        return self.task

    def discard(self, task: str) -> bool:
        """Leave a task that had no step since it began; return whether it never had one."""
        self.task = None
        if task in self.tasks_with_steps:
            return False
        self.trained_tasks = [name for name in self.trained_tasks if name != task]
        return True

    def check_open(self) -> None:
        """Raise if the evaluator is closed."""
        if self.closed:
            raise RuntimeError("the evaluator is closed; create another one to continue")

    def state(self) -> dict[str, object]:
        """Return the state as plain data, for a checkpoint."""
        state: dict[str, object] = msgspec.to_builtins(self)
        return state

    def load(self, state: Mapping[str, object]) -> None:
        """Continue from `state`; a task that was being trained has to begin again."""
        saved = msgspec.convert(state, Lifecycle)
        self.step, self.task_step, self.previous = saved.step, saved.task_step, saved.previous
        self.trained_tasks, self.tasks_with_steps = saved.trained_tasks, saved.tasks_with_steps
        self.unfinished = saved.task or saved.unfinished


class TaskBlock:
    """The context manager that `evaluator.task` returns.

    Args:
        task: the name of the task.
        begin: begins it.
        end: ends it.
        abort: ends it after an error.
    """

    def __init__(
        self, task: str, begin: Callable[[], None], end: Callable[[], None],
        abort: Callable[[], None],
    ) -> None:  # fmt: skip
        self._task, self._begin, self._end, self._abort = task, begin, end, abort

    def __repr__(self) -> str:
        return f"block of task {self._task!r}; write: with evaluator.task({self._task!r}, model):"

    def __enter__(self) -> None:
        self._begin()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is None:
            self._end()
        else:
            self._abort()


def _expected_tasks(task: str, known: Collection[str]) -> str:
    """Return which tasks there are, for one that is not among them."""
    if not known:
        return "nor has any other"
    if list(known) == [str(k) for k in range(len(known))]:
        numbers = f"0 to {len(known) - 1}" if len(known) > 1 else "0"
        return (
            f"expected a number, {numbers}: the tasks of a list are numbered (pass a dict to name "
            "them)"
        )
    return f"{suggest_names(task, known)}expected one of {list(known)}"


def check_model(model: object, function: str) -> None:
    """Raise unless `model`, passed to a function of the evaluator, can be called with examples."""
    if isinstance(model, type):
        raise TypeError(
            f"{function} is given the class {model.__name__}, expected a model: {model.__name__}(…)"
        )
    if not callable(model):
        raise TypeError(f"{function} is given {type(model).__name__}, expected the model")
