"""The evaluator: a few lines in your own training loop, which it leaves bit-identical."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Literal

from ..record import Run, config_as_json, open_run
from .alarm import Alarm, as_alarm
from .arguments import (
    EvalTask,
    Record,
    Subset,
    as_subset,
    check_choice,
    check_integer,
    refuse_arguments,
    task_name,
)
from .costs.meter import CostMeter
from .engine.engine import Engine
from .engine.scoring import Scorer
from .eval_tasks import EvalTasks
from .lifecycle import Lifecycle, TaskBlock
from .progress import format_evaluator
from .recorder import Recorder
from .schedules import (
    Budget,
    Executor,
    Inline,
    Schedule,
    Worker,
    as_executor,
    as_schedule,
    task_ends_only,
)
from .scores import Score, as_score
from .state.preserve import ModelParts, has_lazy_parameters
from .tracker import RunTracker

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Never

    import torch

    from ..metrics import Summary, SummaryOptions
    from .alarm import Condition
    from .eval_set import EvalSet
    from .live import Live
    from .scores import ScoreName
    from .state.weights import LossTerm

    Model = Callable[..., object]  # an nn.Module, or anything else that can be called

__all__ = ["Evaluator"]

OPTIONS = (EvalTask, Subset, Score, Record, Alarm, Inline, Worker)  # of some of its arguments


class Evaluator:
    """Evaluates a model on every task while it is trained, and records the scores.

    Args:
        tasks: evaluation data by task name (a list names its tasks "0", "1", …): `(x, y)` as
            tensors or arrays, a dict with labels, a Dataset, a DataLoader, a function that
            returns one of these, or a `perdure.EvalTask` with further options.
        every: evaluate every n training steps, by a schedule like `perdure.burst`, or as often as
            a share of the time allows, `"10%"`.
        subset: how many examples of each task are evaluated while training, always the same ones;
            None for all; or a `perdure.Subset`. Whole sets are evaluated when a task ends.
        unseen: also evaluate tasks that have not been trained yet (for forward transfer).
        initial: evaluate each task right before it is trained (`"entered"`), every task before
            the first step as well (`"all"`), or neither (`"none"`).
        score: `score(model, x, y)`, which returns one value per example, a name such as
            `"perplexity"`, or a `perdure.Score`; None for accuracy. A parameter named `task` is
            passed the name of the task.
        forward: `forward(model, x)` where class scores are not `model(x)`; `task` as for `score`.
        modules: modules that the model uses without holding them. Lists, wrappers, closures and
            bound methods are searched for them; name those that are elsewhere.
        executor: how evaluations run: `perdure.Inline(…)` (default) or `perdure.Worker(…)`.
        alarm: a condition on the live metrics like `"min_acc < 0.6"`, or a `perdure.Alarm`.
        progress: show the live metrics; None does if the terminal is interactive.
        count_flops: count the floating-point operations of some training steps.
        record: the folder of the record, or a `perdure.Record` with further options; None keeps
            the record only as long as the evaluator exists.
        config: the configuration of the run, for run.json: any names and values that JSON can
            hold. `seed` distinguishes runs of one method; `setting` is "class", "task" or
            "domain" (incremental).

    Example:
        >>> import torch
        >>> x, y = torch.eye(4), torch.tensor([0, 0, 1, 1])
        >>> model = torch.nn.Linear(4, 2)
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        >>> with Evaluator({"a": (x, y)}) as evaluator:
        ...     with evaluator.task("a", model):
        ...         for _ in range(20):
        ...             optimizer.zero_grad()
        ...             torch.nn.functional.cross_entropy(model(x), y).backward()
        ...             optimizer.step()
        ...             evaluator.step(model)
        >>> evaluator.live.current
        1.0
    """

    def __init__(
        self,
        tasks: Mapping[str, object] | Mapping[int, object] | Sequence[object] | None = None,
        *,
        every: int | str | Schedule = 1,
        subset: int | Subset | None = 1000,
        unseen: bool = False,
        initial: Literal["entered", "all", "none"] = "entered",
        score: Score | ScoreName | Callable[..., torch.Tensor] | None = None,
        forward: Callable[..., object] | None = None,
        modules: Iterable[torch.nn.Module] | None = None,
        executor: Executor | None = None,
        alarm: Alarm | Condition | None = None,
        progress: bool | None = None,
        count_flops: bool = True,
        record: Record | str | os.PathLike[str] | None = None,
        config: Mapping[str, object] | None = None,
        **unknown: Never,
    ) -> None:
        refuse_arguments(Evaluator, unknown, OPTIONS)
        check_choice("initial", initial, ("entered", "all", "none"))
        score = as_score(score)
        at_ends = score.metric is not None
        self._schedule = task_ends_only(every, alarm) if at_ends else as_schedule(every)
        self._initial = initial
        subset, executor, alarm = as_subset(subset), as_executor(executor), as_alarm(alarm)
        record = record if isinstance(record, Record) else Record(record)
        config = config_as_json(config)
        evaluation = {
            "every": every if isinstance(every, int | str) else repr(every), "unseen": unseen,
            "subset": subset.size, "resample": subset.resample, "seed": subset.seed,
            "initial": initial, "executor": executor.to_json(), **score.to_json(),
        }  # fmt: skip
        run = {"setting": config.get("setting"), "evaluation": evaluation, "config": config}
        self._recorder = Recorder(run, score, per_example=record.per_example)
        scorer = Scorer(score.make(), forward, executor.batch_size)
        self._engine = Engine(scorer, executor, self._recorder.warn)
        self._parts = ModelParts((scorer.function, forward), modules)
        self._tasks = EvalTasks(subset, unseen=unseen, engine=self._engine)
        self._tasks.add_all(tasks)
        self._lifecycle = Lifecycle()
        self._model: Model | None = None  # the one passed last
        self.costs = CostMeter(count_flops=count_flops, warn=self._recorder.warn)
        self._tracker = RunTracker(
            self._engine, self._recorder, self.costs, self._tasks, self._lifecycle, alarm,
            self._schedule,
        )  # fmt: skip
        self._tracker.open(record, progress=progress)

    def __repr__(self) -> str:
        closed = self._lifecycle.closed
        return format_evaluator(self._tasks.sets, self._recorder, self._schedule, closed=closed)

    @property
    def live(self) -> Live:
        """The metrics so far: `live.min_acc`, `live.wc_acc`, `live.current`, `live.wf[10]`."""
        return self._recorder.live

    @property
    def evaluates_by_time(self) -> bool:
        """Whether the schedule depends on the time that evaluations take, as `every="10%"` does."""
        return isinstance(self._schedule, Budget)

    @property
    def notes(self) -> list[str]:
        """The warnings and notes about this run so far."""
        return list(self._recorder.notes)

    def warn(self, message: str) -> None:
        """Warn the user and readers of the record."""
        self._recorder.warn(message)

    def note(self, message: str) -> None:
        """Add a note for readers of the record."""
        self._recorder.note(message)

    def add_task(self, name: object, data: object, *, evaluate_now: bool = False) -> None:
        """Add a task, at any time; it is evaluated once it is trained, or from now on.

        A control task, `perdure.EvalTask(data, control=True)`, is evaluated from now on.
        """
        self._tasks.add(name, data, evaluate_now=evaluate_now)
        self._recorder.set_control(self._tasks.control)

    def task(
        self, name: object, model: Model | None = None, *, train_data: object = None,
        stored_samples: object = None,
    ) -> TaskBlock:  # fmt: skip
        """Return a context manager that calls `begin` and `end`; use it with `with`."""
        self._lifecycle.announced = task_name(name)
        costs = {"train_data": train_data, "stored_samples": stored_samples}
        begin = partial(self.begin, name, model, **costs)
        return TaskBlock(task_name(name), begin, self.end, self._tracker.abort_task)

    def begin(
        self, task: object, model: Model | None = None, *, train_data: object = None,
        stored_samples: object = None,
    ) -> None:  # fmt: skip
        """Begin to train a task that has evaluation data.

        Args:
            task: its name.
            model: evaluated before the first step; by default the model of the last step.
            train_data: its training data, or their number, for the costs.
            stored_samples: examples kept from earlier tasks, or their bytes, for the costs.
        """
        self._tracker.open_record()
        name, lifecycle = task_name(task), self._lifecycle
        control = [task.name for task in self._tasks.control]
        needs_model = self._initial == "all" or bool(control)
        lifecycle.check_begin(
            name, self._tasks.sets, model, needs_model=needs_model, control=control
        )
        if lifecycle.begin(name, (self.live.task, self.live.begin_step)):
            try:
                self.costs.report_memory(stored_samples=stored_samples)
                self._begin_task(name, model, train_data)
            except BaseException:
                self._tracker.discard_task(name)
                raise
            lifecycle.begun()
        else:
            self._model = model  # a resumed run continues in this task
        self.costs.resume()

    def _begin_task(self, name: str, model: Model | None, train_data: object) -> None:
        given, model = model is not None, self._model if model is None else model
        task, combined = self._tasks.sets[name], self._parts.combine(model)
        self._model = None if has_lazy_parameters(combined) else model
        if self._model is not model:
            self._recorder.note(
                f"{name!r} is not evaluated before its first step: the model has parameters that "
                "are not initialised yet"
            )
        self._tracker.begin_task(task, combined, train_data, model_given=given)
        if self._model is not None:
            self._evaluate_initially(task, combined)

    def _evaluate_initially(self, task: EvalSet, model: object) -> None:
        """Evaluate before the first step of `task`, and control tasks before the first of all."""
        first = self._lifecycle.step == 0
        if first and self._tasks.control:
            self._tracker.evaluate_now("initial", model, self._tasks.control, whole=True)
        if self._initial != "none":
            everything = [one for one in self._tasks.sets.values() if not one.control]
            tasks = everything if self._initial == "all" and first else [task]
            self._tracker.evaluate_now("initial", model, self._tasks.with_train(tasks))

    def step(self, model: Model, *, replayed: bool = False) -> None:
        """Count one training step of `model`, and evaluate it if the schedule says so.

        Args:
            model: the model.
            replayed: the step was the replay of a CUDA graph, so nothing but the values of the
                model's tensors has changed since the last step, and it is not searched again.
        """
        self._tracker.open_record()
        self._lifecycle.advance(model)
        self.costs.pause(steps=1)
        self._model, step = model, self._lifecycle.step
        try:
            self._tracker.check_step(self._parts, model)
            due = self._schedule.due(step, self._lifecycle.task_step)
            if due and (tasks := self._tasks.evaluated(self._lifecycle.trained_tasks)):
                self._tracker.expect(step)
                if not (replayed and self._engine.replay(tasks, step)):
                    self._submit(model, tasks)
            self._tracker.collect()
        finally:
            self._tracker.show_progress()
            self.costs.resume(replayed=replayed)

    def replay_steps(self, model: Model, replay: Callable[[], None], count: int) -> None:
        """Take steps of `model` by calling `replay`, and evaluate it as `step` does after each.

        Args:
            model: the model; `step` has been called with it in this task.
            replay: takes a training step by replaying a CUDA graph.
            count: how many.
        """
        self._model, lifecycle = model, self._lifecycle
        tasks = self._tasks.evaluated(lifecycle.trained_tasks)
        before = lifecycle.step
        try:
            try:
                for _ in range(count):
                    replay()
                    lifecycle.advance(model)
                    if tasks and self._schedule.due(lifecycle.step, lifecycle.task_step):
                        self._tracker.expect(lifecycle.step)
                        if not self._engine.replay(tasks, lifecycle.step):
                            with self.costs.exclude_from_costs():
                                self._submit(model, tasks)
            finally:
                self.costs.pause(steps=lifecycle.step - before)
            self._tracker.collect()
        finally:
            self._tracker.show_progress()
            self.costs.resume(replayed=True)

    def _submit(self, model: Model, tasks: Sequence[EvalSet]) -> None:
        self._engine.submit(self._parts.combine(model), tasks, self._lifecycle.step)

    def end(self) -> None:
        """End the task: evaluate whole sets, and write everything to disk."""
        self.costs.pause()
        task, lifecycle = self._lifecycle.check_end(), self._lifecycle
        if not lifecycle.task_step:
            self._tracker.end_without_step(task)
            return
        model: object = self._model
        lifecycle.failed = True
        try:
            self._tracker.collect_all()
            model = self._parts.combine(self._model)
            tasks = self._tasks.evaluated(lifecycle.trained_tasks)
            self._tracker.evaluate_now("full", model, tasks)
            self._tracker.estimate_costs(model, self._tasks.sets[task])
        finally:
            lifecycle.task = None
            self._tracker.end_task(task, model)
        lifecycle.failed = False

    def evaluate(self, model: Model) -> Run:
        """Evaluate the whole sets of all tasks now, record it, and return the record.

        For streams without task boundaries, of which no end is known, and for models that are not
        trained here. With tasks, `end` does it.
        """
        self._lifecycle.check_evaluate(model)
        self._tracker.collect_all()
        tasks = list(self._tasks.series.values())
        self._tracker.evaluate_now("full", self._parts.combine(model), tasks)
        self._recorder.writer.sync()
        return open_run(self._recorder.writer.folder)

    def record_gradients(
        self, model: torch.nn.Module, plasticity: LossTerm, stability: LossTerm = None, *,
        every: int = 1,
    ) -> None:  # fmt: skip
        """Record the gradient norms of the two loss terms of the current training step.

        Call it before `backward`; it measures every n steps. Pass the terms of De Lange et al.
        (2023, eq. 8) without their weights in the loss, or gradients (eq. 9); None for neither.
        """
        check_integer("every", every, 1)
        if (self._lifecycle.step + 1) % every == 0:
            self._tracker.open_record()
            self._tracker.write_gradients(model, plasticity, stability)

    def flush(self) -> None:
        """Wait until everything evaluated so far is recorded on disk."""
        with self.costs.exclude_from_costs():
            self._tracker.open_record()
            self._tracker.collect(wait=True)
            self._recorder.writer.sync()

    def state_dict(self) -> dict[str, object]:
        """Return what a resumed run needs, as plain data for your own checkpoint.

        `Evaluator(…, record=perdure.Record(folder, resume=state))` resumes: what was recorded
        after this call is dropped. A run stopped inside a task begins that task again.
        """
        self._lifecycle.check_open()
        self.flush()
        return self._tracker.state()

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Resume from what `state_dict` returned, before the first task begins.

        It is for frameworks that load their checkpoint after the evaluator is constructed, with
        `record=perdure.Record(folder, resume="later")`.
        """
        self._lifecycle.check_open()
        self._tracker.resume(state)

    def summary(self, options: SummaryOptions | None = None) -> Summary:
        """Return every metric of what was recorded so far and, for the others, why not."""
        with self.costs.exclude_from_costs():
            if not self._lifecycle.closed:
                self._tracker.open_record()
                self._tracker.collect(wait=True)
            return self._recorder.summary(options)

    def close(self, *, finished: bool = True, **results: object) -> None:
        """Record what is left and, if `finished`, mark the run as finished in done.json.

        Further `results` are added to done.json. A second call does nothing.
        """
        if not self._lifecycle.closed and self._tracker.is_owner:
            self._tracker.close(finished=finished, results=results)

    def __enter__(self) -> Evaluator:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is None:
            self.close()
            return
        with suppress(Exception):  # the error that ended the block is the one to see
            self._tracker.abort_task()
            self.close(finished=False)
