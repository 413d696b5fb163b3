"""The books of a run: its record, its live metrics, its costs and its alarm."""

from __future__ import annotations

import os
import signal
import threading
import time
import weakref
from collections.abc import Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Literal

import msgspec
import numpy as np

from ..record import RecordError
from .alarm import AlarmMonitor
from .arguments import EvaluatorState, check_state
from .progress import LiveLine, MetricLog
from .schedules import Budget
from .scores import TokenScore
from .state.preserve import preserve_state
from .state.weights import WeightMonitor, gradient_norms

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import FrameType

    from torch import nn

    from .alarm import Alarm
    from .arguments import Record
    from .costs.meter import CostMeter
    from .engine.engine import Engine
    from .engine.eval_batches import EvalBatches, EvalResult, Predictions, Values
    from .eval_set import EvalSet
    from .eval_tasks import EvalTasks
    from .lifecycle import Lifecycle
    from .recorder import Recorder
    from .schedules import Schedule
    from .state.preserve import ModelParts
    from .state.weights import LossTerm

__all__ = ["RunTracker"]

REPEAT_SECONDS = 1.0  # after which a second interrupt is another one


class RunTracker:
    """Records completed evaluations and what happens to tasks.

    Args:
        engine: has the completed evaluations.
        recorder: writes the record and updates the live metrics.
        costs: measures what each task costs.
        tasks: the evaluation data.
        lifecycle: says which task is trained, at which step.
        alarm: is checked after every evaluation.
        schedule: when to evaluate; what a budget of time did is recorded.
    """

    def __init__(
        self, engine: Engine, recorder: Recorder, costs: CostMeter, tasks: EvalTasks,
        lifecycle: Lifecycle, alarm: Alarm | None, schedule: Schedule,
    ) -> None:  # fmt: skip
        self._engine, self.recorder, self._costs = engine, recorder, costs
        self._tasks, self._lifecycle = tasks, lifecycle
        self._alarm = None if alarm is None else AlarmMonitor(alarm)
        if alarm is not None:
            alarm.prepare(recorder.live)
        self._weights = WeightMonitor(recorder.warn, recorder.note)
        self._budget = schedule if isinstance(schedule, Budget) else None
        if self._budget is not None:
            self._budget.connect(lambda: costs.seconds)
        self._shifted: dict[str, bool] = {}  # tasks whose labels are those of the next token
        self._trained_at: dict[int, str | None] = {}  # the task of each step being evaluated

    def open(self, record: Record, *, progress: bool | None) -> None:
        """Begin or resume the record, unless it is to be resumed later."""
        self._record = record
        if record.resume != "later":
            self.open_record()
        self._progress = LiveLine(progress)
        self._log = MetricLog(record.log, self.recorder)
        self._owner = os.getpid()
        # Without close() the files are still closed and the terminal is restored.
        self._finalizer = weakref.finalize(
            self, _release, self.recorder, self._progress, self._owner
        )

    def open_record(self) -> None:
        """Open the folder of the record, if it is not open; an invalid state leaves none."""
        record = self._record
        if self.recorder.is_open:
            return
        state = None
        if isinstance(record.resume, Mapping):
            state = check_state(record.resume, self._tasks.sets)
        self.recorder.set_control(self._tasks.control)
        self.recorder.open(record)
        if state is not None:
            self._load(state)
        elif self._budget is not None:
            self.recorder.note(self._budget.note)

    def resume(self, state: Mapping[str, object]) -> None:
        """Resume the record from `state`, before anything was recorded."""
        if self.recorder.is_open:
            raise RuntimeError(
                "load_state_dict() is called after the record was opened; construct the evaluator "
                "with record=perdure.Record(folder, resume='later'), and call it before the first "
                "task begins"
            )
        check_state(state, self._tasks.sets)
        self._record = replace(self._record, resume=state)
        self.open_record()

    @property
    def is_owner(self) -> bool:
        """Whether the run belongs to this process, and not to the parent of a forked child."""
        return os.getpid() == self._owner

    def close(self, *, finished: bool, results: Mapping[str, object]) -> None:
        """Record what is left, mark the run as finished if it is, and close everything."""
        lifecycle = self._lifecycle
        try:
            self.open_record()
            self._weights.close(declared=self._costs.has_work_between_tasks)
            self._costs.close()
            self.collect_all()
            self._write_budget()
            if finished and lifecycle.task is not None:
                event = f"close() inside task {lifecycle.task!r}: the run counts as unfinished"
                self.recorder.warn(f"{event}; leave its block, or call evaluator.end(), before")
            elif finished and not lifecycle.failed:
                self.recorder.writer.finish(steps=lifecycle.step, **results)
                self._log.finish(lifecycle.step)
        finally:
            lifecycle.closed = True
            self._engine.close()
            self._finalizer()

    def check_step(self, parts: ModelParts, model: object) -> None:
        """Raise or warn if a step that was just counted cannot be evaluated as it should be."""
        if not self._tasks.sets:
            raise RuntimeError(
                "the evaluator has no evaluation data; pass it: Evaluator({name: (x, y)}), or "
                "evaluator.add_task(name, (x, y))"
            )
        if self._engine.scorer.metric is not None and self._lifecycle.task is None:
            raise RuntimeError(
                "Score(metric=…) is computed when a task ends, and there is none; train in a block "
                "of evaluator.task(name, model)"
            )
        self._engine.scorer.trained.update(self._lifecycle.tasks_with_steps)
        if self._weights.awaits_step:
            self._weights.step(parts.combine(model))

    def expect(self, step: int) -> None:
        """Remember which task is trained at a step whose evaluation is submitted."""
        self._trained_at[step] = self._lifecycle.task

    def collect(self, *, wait: bool = False) -> None:
        """Record all evaluations that are completed, then raise the first error there was."""
        errors: list[Exception] = []
        if wait:
            self._engine.wait()
        if self._engine.has_results(everything=wait):
            with _defer_interrupt():  # it would lose these results, but not those that follow
                errors = self._collect_and_write(wait=wait)
        first_error = errors[0] if errors else self._engine.next_error()
        if first_error is not None:
            raise first_error

    def _collect_and_write(self, *, wait: bool) -> list[Exception]:
        errors: list[Exception] = []
        if results := self._engine.collect(wait=wait):
            try:
                with self.recorder.writer.batch():
                    errors += self._write_results(results)
            except RecordError as error:
                errors.append(error)
        return errors

    def _write_results(self, results: Sequence[EvalResult]) -> list[Exception]:
        """Record completed evaluations; return the errors there were."""
        errors: list[Exception] = []
        here = self._engine.runs_here
        for result in results:
            if not here or result.batches.device.type == "cuda":
                self._costs.add_background_time(result.seconds, in_training_time=here)
        for batches, trained, group in self._group(results):
            steps = [result.step for result in group]
            try:
                values = batches.split(np.stack([result.values for result in group]))
                self._write("probe", steps, trained, values)
                if self._alarm is not None:
                    self._alarm.report(steps[-1], self.recorder)
            except Exception as error:
                errors.append(error)
        return errors

    def _group(
        self, results: Sequence[EvalResult]
    ) -> Iterator[tuple[EvalBatches, str | None, list[EvalResult]]]:
        """Yield evaluations that are recorded together, with their examples and the task trained.

        These are consecutive accuracies on the same examples, unless each is reported on its own.
        """
        singly = self._alarm is not None or self._log.is_active

        def key(result: EvalResult) -> tuple[EvalBatches, str | None, int | None]:
            alone = singly or result.values.dtype != np.bool_
            return result.batches, self._trained_at[result.step], result.step if alone else None

        for (batches, trained, _), group in groupby(results, key):
            members = list(group)
            for result in members:
                del self._trained_at[result.step]
            yield batches, trained, members

    def collect_all(self) -> None:
        """Record every submitted evaluation, then raise the first error there was."""
        first_error: Exception | None = None
        for _ in range(1 + len(self._trained_at)):  # each error belongs to one evaluation at least
            try:
                self.collect(wait=True)
                break
            except Exception as error:
                first_error = first_error or error
        self._trained_at.clear()  # of evaluations that a worker dropped, or that failed
        if first_error is not None:
            raise first_error

    def evaluate_now(
        self, kind: Literal["initial", "full"], model: object, tasks: Sequence[EvalSet], *,
        whole: bool = False,
    ) -> None:  # fmt: skip
        """Evaluate at the current step and record it: `full` or `whole` sets, or else subsets."""
        whole = whole or kind == "full"
        values, predictions = self._engine.evaluate_now(model, tasks, whole=whole)
        predictions = predictions if kind == "full" else {}
        rows = {name: own[np.newaxis] for name, own in values.items()}
        self._write(kind, [self._lifecycle.step], self._lifecycle.task, rows, predictions)
        self._report_warnings()

    def _report_warnings(self) -> None:
        warnings = self._engine.scorer.warnings
        while warnings:
            text = warnings.pop()
            if text not in self.recorder.notes:
                self.recorder.warn(text)

    def write_gradients(self, model: nn.Module, plasticity: LossTerm, stability: LossTerm) -> None:
        """Record the gradient norms of the step that is under way."""
        with self._costs.exclude_from_costs():
            norms = gradient_norms(model, (plasticity, stability))
            self.recorder.write_gradients(self._lifecycle.step + 1, self._lifecycle.task, norms)

    def _write(
        self, kind: str, steps: Sequence[int], trained: str | None, values: Mapping[str, Values],
        predictions: Mapping[str, Predictions] | None = None,
    ) -> None:  # fmt: skip
        for task, examples in values.items():
            self._costs.add_evaluated(task, len(steps) * examples.shape[1])
        scores = self.recorder.write(
            kind, steps, trained, values, self._tasks.series, predictions or {}
        )
        self._log.write(kind, steps[-1], {task: own[-1] for task, own in scores.items()})
        score = self._engine.scorer.score
        if isinstance(score, TokenScore) and score.shifted != self._shifted:
            self._shifted = dict(score.shifted)
            self.recorder.describe_evaluation(shifted=self._shifted)

    def show_progress(self) -> None:
        """Show the live metrics in the terminal."""
        self._progress.update(self._lifecycle.step, self.recorder.live)

    def begin_task(
        self, task: EvalSet, model: object, train_data: object, *, model_given: bool
    ) -> None:
        """Begin to record a task."""
        first, declared = self._lifecycle.step == 0, self._costs.has_work_between_tasks
        self._weights.begin_task(
            task.name, model, given=model_given, is_first=first, declared=declared
        )
        with preserve_state(model):  # loading data may run the user's code
            self._costs.begin_task(task.name, train_data)
            for evaluated in self._tasks.with_train([task, *self._tasks.control]):
                evaluated.load()
        self.recorder.begin_task(task, self._lifecycle.step)

    def estimate_costs(self, model: object, task: EvalSet) -> None:
        """Count the operations of evaluations, and of one pass over the training data."""
        evaluated = [self._tasks.series[name] for name in self._costs.evaluated_tasks]
        self._costs.estimate(model, task, evaluated, self._engine.scorer)

    def end_task(self, task: str, model: object) -> None:
        """Write what a task cost, and wait until the disk has everything."""
        self.recorder.live.end_task(task, self._lifecycle.step)
        self._weights.end_task(task, model)
        self._costs.end_task(model)
        self._write_budget(ended=task)
        self.recorder.writer.write_costs(self._costs.rows)
        self.recorder.writer.sync()

    def _write_budget(self, ended: str | None = None) -> None:
        if self._budget is None:
            return
        steps = self._lifecycle.task_step
        if ended is not None and (warning := self._budget.end_task(ended, steps)):
            self.recorder.warn(warning)
        self.recorder.describe_evaluation(budget=msgspec.to_builtins(self._budget.use))

    def end_without_step(self, task: str) -> None:
        """End a task of which there is nothing to record."""
        self.discard_task(task)
        self.recorder.warn(
            f"task {task!r} ended without a step: nothing is recorded about it; call "
            "evaluator.step(model) after each optimizer.step()"
        )

    def abort_task(self) -> None:
        """Record what was evaluated before an error; a failure here must not hide that error."""
        lifecycle, task = self._lifecycle, self._lifecycle.task
        if task is None:
            return
        self._costs.pause()
        with suppress(Exception):
            self.collect_all()
        if lifecycle.task_step:
            self.recorder.live.end_task(task, lifecycle.step)
            lifecycle.task = None
        else:
            self.discard_task(task)
        lifecycle.failed = True
        with suppress(RecordError):
            self.recorder.writer.sync()

    def discard_task(self, task: str) -> None:
        """Undo the beginning of a task that had no step since, unless it was trained before."""
        live = self.recorder.live
        live.task, live.begin_step = self._lifecycle.previous
        if self._lifecycle.discard(task):
            self._costs.discard_task(task)
            self.recorder.discard_task(task)

    def state(self) -> dict[str, object]:
        """Return what a resumed run needs, as plain data."""
        state = EvaluatorState(
            step=self._lifecycle.step,
            always_evaluated=self._tasks.always,
            alarm_active=self._alarm is not None and self._alarm.active,
            lifecycle=self._lifecycle.state(),
            costs=self._costs.state(),
            record=self.recorder.state(),
            budget=None if self._budget is None else self._budget.state(),
        )
        return dict(msgspec.to_builtins(state))

    def _load(self, state: EvaluatorState) -> None:
        self._lifecycle.load(state.lifecycle)
        self._tasks.always = state.always_evaluated
        if self._alarm is not None:
            self._alarm.active = state.alarm_active
        self._costs.load(state.costs)
        if self._budget is not None and state.budget is not None:
            self._budget.load(state.budget)
        trained = [self._tasks.sets[name] for name in self._lifecycle.trained_tasks]
        with preserve_state(None):  # loading data may run the user's code
            for task in trained:
                task.load()  # run.json says how many classes it has
        self.recorder.set_trained(trained)
        self.recorder.writer.write_costs(self._costs.finished_rows)


def _release(recorder: Recorder, progress: LiveLine, owner: int) -> None:
    if os.getpid() == owner:
        progress.close()
    if recorder.is_open:
        recorder.writer.close()


@contextmanager
def _defer_interrupt() -> Iterator[None]:
    """Have an interrupt (Control-C) that comes inside this block take effect at its end.

    A second one takes effect at once, since the user's own code, which may hang, is called here
    too; not within a second, as a process may get the same interrupt from two others.
    """
    handler, owner = signal.getsignal(signal.SIGINT), os.getpid()
    if not callable(handler) or threading.current_thread() is not threading.main_thread():
        yield
        return
    deferred: list[tuple[float, int, FrameType | None]] = []  # when it came, then as to a handler

    def on_interrupt(number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        again = bool(deferred) and now - deferred[0][0] >= REPEAT_SECONDS
        if again or os.getpid() != owner:  # or a process that the user's code forked
            handler(number, frame)
        deferred.append((now, number, frame))

    signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is on_interrupt:  # else the user's code has set its own
            signal.signal(signal.SIGINT, handler)
        if deferred:
            handler(*deferred[0][1:])
