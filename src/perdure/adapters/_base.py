"""What the callbacks of all frameworks share: an evaluator, and the task that is being trained."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from ..evaluation import Evaluator, Record

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..evaluation.lifecycle import TaskBlock
    from ..metrics import Summary, SummaryOptions

__all__ = ["FrameworkEvaluation"]

State = TypeVar("State")  # of the framework, for a function that names the task


class FrameworkEvaluation(Generic[State]):
    """Begins and ends the tasks of an `Evaluator` as a framework trains.

    The task may be `""` for a stream without boundaries. The frameworks' callbacks describe the
    other arguments.
    """

    def __init__(
        self, tasks: Any, *, task: object | Callable[[State], object] = None,
        record: Record | str | os.PathLike[str] | None = None, **options: Any,
    ) -> None:  # fmt: skip
        self._record = _open_later(record)
        self.evaluator = Evaluator(tasks, **options, record=self._record)
        self.task = task
        self._trains_once = task is not None
        self._current: str | None = None  # the task of the last step
        self._block: TaskBlock | None = None  # while that one is being trained
        self._closed = False

    def begin_training(self, model: Callable[..., object], state: State) -> None:
        """Begin the first task of a training."""
        if self._block is not None:  # an error stopped the last training
            self.abort_training(RuntimeError("training was stopped"))
        if self.task is None and self._trains_once:
            raise RuntimeError(
                "the record was closed when training ended, because task= was passed to "
                "ContinualEvaluation; to train several times, leave it out and assign "
                "evaluation.task before each training"
            )
        if self.task is None:
            raise ValueError(
                "it is not known which task is trained; say so before each training: "
                "evaluation.task = 'a', or for only one: ContinualEvaluation(tasks, task='a')"
            )
        self.enter_task(model, state)

    def enter_task(self, model: Callable[..., object], state: State) -> None:
        """Begin the task of the next step, and end another one that was trained before."""
        name = str(self.task(state) if callable(self.task) else self.task)
        if name != self._current or self._block is None:
            self.leave_task()
            self._current = name
            if name:
                self._block = self.evaluator.task(name, model)
                self._block.__enter__()

    def leave_task(self) -> None:
        """End the task that is being trained, if any."""
        block, self._block = self._block, None
        if block is not None:
            block.__exit__(None, None, None)

    def end_training(self) -> None:
        """End the last task of a training, and close the record if there will be no other."""
        self.leave_task()
        self.task = None
        if self._trains_once:
            self.close()

    def abort_training(self, error: BaseException) -> None:
        """End the task after an error: what was evaluated is recorded."""
        block, self._block = self._block, None
        if block is not None:
            block.__exit__(type(error), error, error.__traceback__)

    def summary(self, options: SummaryOptions | None = None) -> Summary:
        """Return every metric of what was recorded so far and, for the others, why not."""
        return self.evaluator.summary(options)

    def close(self) -> None:
        """Mark the run as finished, after the last of several trainings."""
        self._closed = True
        self.evaluator.close()

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the evaluation for a checkpoint, nothing if it is closed."""
        return {} if self._closed else self.evaluator.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Resume the record from a checkpoint; without a folder there is none to resume."""
        if state_dict and self._record.folder is not None:
            self.evaluator.load_state_dict(state_dict)
        elif state_dict and _rank() == 0:
            self.evaluator.warn(
                "training resumes, and the evaluation starts over: it has no record; pass the "
                "folder in which the last one was recorded: ContinualEvaluation(…, record=folder)"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._closed = True
        self.evaluator.__exit__(kind, error, trace)


def _open_later(record: Record | str | os.PathLike[str] | None) -> Record:
    """Return a record that is opened when training begins: a checkpoint may be loaded before.

    Only rank 0 has one.
    """
    record = record if isinstance(record, Record) else Record(record)
    if _rank() > 0:
        return Record()
    if record.folder is None or record.resume is not None:
        return record
    return replace(record, resume="later")


def _rank() -> int:
    """Return the rank of this process, as torchrun, Accelerate and Lightning announce it."""
    return int(os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0")))
