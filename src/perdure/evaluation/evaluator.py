"""The evaluator: a few lines in anybody's training loop, which it leaves as it was."""

from __future__ import annotations

import os
import time
import weakref
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Literal

from ..record import RecordError, read_input
from ._arguments import as_json, check_arguments, check_state, named_tasks, scale_of
from .alarm import Alarm, AlarmTriggered
from .costs.meter import Meter
from .engine.engine import Engine
from .engine.scoring import Scorer
from .gradients import recorded_norms
from .progress import Progress
from .recorder import Recorder
from .schedules import as_schedule
from .state.model_parts import ModelParts
from .state.preserve import has_lazy_parameters, preserve_state
from .state.trees import nbytes
from .tasks import EvaluationTask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import torch
    from numpy.typing import NDArray

    from ..metrics import ScoreScale, Setting, Summary, SummaryOptions
    from .live import Live
    from .schedules import Schedule

__all__ = ["Evaluator"]


class Evaluator:
    """Tests a model on every evaluation task while it is trained, and records what it finds.

    Args:
        tasks: evaluation data by name of task (or a list: tasks "0", "1", …). Each is `(x, y)` as
            tensors or arrays, a dict with labels, a Dataset, a DataLoader, or a function that
            returns one of these and is called when it is first needed.
        every: test after every so many steps, or `perdure.burst(first=…, then=…)`.
        subset: examples of each task tested while training, the same ones each time; None for
            all. Whole sets are tested when a task ends.
        redraw: draw another subset at every evaluation, which biases minima: see `perdure plan`.
        hits: record which examples are right, of a fixed subset and of whole sets at task ends:
            intervals need it.
        ids: by task, a whole number for each example that names it in the record; without, its
            position. Runs are compared example by example where ids and data are the same.
        seed: of the subsets.
        record: folder of the record; None keeps one only as long as the evaluator lives.
        overwrite: replace a run that is in the folder already; "unfinished" replaces no finished
            one.
        score: `score(model, x, y)`, one value a row; None for accuracy. A parameter named `task`
            is given the task's name.
        scale: range and direction of a score of your own; unbounded if not given.
        lower_is_better: the score is a loss.
        score_name: what pages, tables and figures call the score; accuracy or, with a score of
            your own, the name of the function if not given.
        forward: `forward(model, x)` where `model(x)` is not the way to class scores; `task` as
            for score: a head or a label a task.
        modules: modules that the model uses but does not hold: heads next to it, say. They are
            found in lists, wrappers, closures and bound methods; name those that are elsewhere.
        classes: the classes that may be named for each task (task-incremental); others are masked.
        setting: `class`, `task` or `domain` incremental, for the record.
        unseen: also test tasks that have not been learned (forward transfer).
        initial: test each task when it is entered (`entered`), every task before the first step
            as well (`all`), or neither (`none`).
        where: `inline`, or `worker`: another process on snapshots (CPU), another stream (CUDA).
        mode: of a worker: `exact` tests every snapshot, `latest` drops those it has no time for.
        queue: snapshots that may wait for an exact worker.
        device: another CUDA device for the worker.
        screen: test in half precision, and again in full where rounding could matter.
        audit: every so many evaluations a worker, a CUDA graph or screening is checked.
        batch: rows in a forward; None for what suits the device.
        meter: count operations on some training steps.
        windows: of the live wf and wp.
        alarm: `"min_acc < 0.6"`, or a function of `evaluator.live`.
        on_alarm: `warn`, or `stop` (raises AlarmTriggered).
        progress: show live numbers; None does so on a terminal.
        describe: anything about the run that should stand in run.json.
        resume: `state_dict()` of an evaluator that was stopped: its record goes on from there.

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
        tasks: Mapping[Any, Any] | Sequence[Any] | None = None,
        *,
        every: int | Schedule = 1,
        subset: int | None = 1000,
        redraw: bool = False,
        hits: bool = True,
        ids: Mapping[Any, Any] | None = None,
        seed: int = 0,
        record: str | os.PathLike[str] | None = None,
        overwrite: bool | Literal["unfinished"] = False,
        score: Callable[..., torch.Tensor] | None = None,
        scale: ScoreScale | None = None,
        lower_is_better: bool = False,
        score_name: str | None = None,
        forward: Callable[..., Any] | None = None,
        modules: Iterable[torch.nn.Module] | None = None,
        classes: Mapping[Any, Sequence[int]] | None = None,
        setting: Setting | None = None,
        unseen: bool = False,
        initial: Literal["entered", "all", "none"] = "entered",
        where: Literal["inline", "worker"] = "inline",
        mode: Literal["exact", "latest"] = "exact",
        queue: int = 4,
        device: torch.device | str | None = None,
        screen: bool = False,
        audit: int = 100,
        batch: int | None = None,
        meter: bool = True,
        windows: Sequence[int] = (10, 100),
        alarm: str | Callable[[Live], bool | str | None] | None = None,
        on_alarm: Literal["warn", "stop"] = "warn",
        progress: bool | None = None,
        describe: Mapping[str, Any] | None = None,
        resume: Mapping[str, Any] | None = None,
    ) -> None:
        check_arguments(
            subset=subset, audit=audit, queue=queue, batch=batch, seed=seed, initial=initial,
            where=where, mode=mode, on_alarm=on_alarm, setting=setting, windows=windows,
            classes=classes,
        )  # fmt: skip
        scale = scale_of(score, scale, lower_is_better=lower_is_better, name=score_name)
        self._schedule = as_schedule(every)
        self._subset, self._seed, self._unseen, self._initial = subset, seed, unseen, initial
        self._classes = {str(task): list(mine) for task, mine in (classes or {}).items()}
        self._alarm, self._stops = Alarm(alarm) if alarm is not None else None, on_alarm == "stop"
        self._known: dict[str, EvaluationTask] = {}
        given_ids = {str(task): mine for task, mine in (ids or {}).items()}
        self._always: list[str] = []
        self._learned: list[str] = []
        self._stepped: set[str] = set()
        self._before: tuple[str | None, int] = (None, 0)
        self._task: str | None = None
        self._model: Any = None
        self._step = self._since = 0
        self._learning: dict[int, str | None] = {}  # which task, at steps that are being tested
        self._going_on: str | None = None  # a task that the run goes on in the middle of
        self._called: str | None = None  # a task whose block has not begun
        self._broken = False  # whether the last task was left by an error
        self._owner = os.getpid()
        self._stored: int | None = None
        self._extra_bytes = 0
        self._copies_bytes: int | None = None
        for name, data in named_tasks(tasks):
            self.add(name, data, ids=given_ids.pop(str(name), None))
        if given_ids:
            raise ValueError(
                f"ids are given for task {next(iter(given_ids))!r}, expected one of "
                f"{list(self._known)}; evaluator.add(name, data, ids=…) adds a task with ids"
            )
        evaluation = {
            "every": every if isinstance(every, int) else repr(every), "subset": subset,
            "redraw": redraw, "seed": seed, "unseen": unseen, "initial": initial, "where": where,
            "mode": mode, "screen": screen, "audit": audit, "batch": batch,
            "score": "accuracy" if score is None else getattr(score, "__qualname__", repr(score)),
        }  # fmt: skip
        said = {"setting": setting, "evaluation": evaluation, "config": as_json(describe)}
        scorer = Scorer(score, forward, self._classes, batch)
        self._parts = ModelParts((score, forward), modules)
        self._recorder = Recorder(said, scale, windows=windows, hits=hits, redraw=redraw)
        if self._alarm is not None and self._alarm.rule is not None:
            self.live[self._alarm.rule[0]]  # an unknown name is an error now, not in an hour
        self._tester = Engine(
            scorer, where=where, mode=mode, queue=queue, device=device, screen=screen,
            audit=audit, redraw=redraw, say=self._recorder.say,
        )  # fmt: skip
        self._meter = Meter(on=meter, say=self._recorder.say)
        if resume is not None:
            check_state(resume, self._known)
        # Last: a mistake above leaves no folder.
        self._recorder.open(record, overwrite=overwrite, resume=resume)
        if resume is not None:
            self._load(resume)
        self._progress = Progress(progress)
        # Without close() the files are still closed and the terminal is left as it was.
        self._finalizer = weakref.finalize(
            self, _abandon, self._recorder, self._progress, os.getpid()
        )

    @property
    def live(self) -> Live:
        """The numbers of now: `live.min_acc`, `live.wc_acc`, `live.current`, `live.wf[10]`."""
        return self._recorder.live

    @property
    def notes(self) -> list[str]:
        """What was said about this run so far."""
        return list(self._recorder.notes)

    def say(self, message: str) -> None:
        """Warn the user, and whoever reads the record."""
        self._recorder.say(message)

    def add(self, name: Any, data: Any, *, now: bool = False, ids: Any = None) -> None:
        """Add an evaluation task, at any time.

        It is tested once it is learned, or from `now` on. A run without tasks to learn tests
        all there are.
        """
        task = str(name)
        if not task or not task.isprintable():
            raise ValueError(f"task name {task!r} must be text that can be printed")
        if task in self._known:
            raise ValueError(f"task {task!r} is there already; names must differ")
        self._known[task] = EvaluationTask(
            task, data, subset=self._subset, seed=self._seed, ids=ids
        )
        if now:
            self._always.append(task)

    def task(
        self, name: Any, model: Any = None, *, data: Any = None, stored: Any = None
    ) -> AbstractContextManager[None]:
        """Learn a task inside this block. At its end all tasks seen are tested on whole sets.

        Args:
            name: the task, one of those with evaluation data.
            model: tested before the first step; later tasks find the model of the step before.
            data: the task's training data (tensors, a Dataset, a DataLoader, or how many
                examples), for the costs.
            stored: samples kept from earlier tasks (tensors, or bytes), for the costs.
        """
        self._called = str(name)
        return self._block(self._called, model, data, stored)

    @contextmanager
    def _block(self, task: str, model: Any, data: Any, stored: Any) -> Iterator[None]:
        self._called = None
        self._enter(task, model, data, stored)
        try:
            yield
        except BaseException:
            self._meter.pause(stepped=False)
            self._break_off(task)
            raise
        self._meter.pause(stepped=False)
        self._leave(task)

    def step(self, model: Any) -> None:
        """Count one training step of `model`, and test it if it is time to."""
        self._check_open()
        self._check_step(model)
        self._meter.pause(stepped=True)
        self._step += 1
        self._since += 1
        self._model = model
        if self._task is not None:
            self._stepped.add(self._task)
        try:
            if self._schedule.due(self._step, self._since) and (tested := self._tested_now()):
                self._learning[self._step] = self._task
                self._tester.probe(self._parts.whole(model), tested, self._step)
            self._collect()
        finally:
            self._progress.show(self._step, self.live)
            self._meter.resume()

    def gradients(
        self,
        model: torch.nn.Module,
        plasticity: torch.Tensor | Iterable[torch.Tensor | None] | None,
        stability: torch.Tensor | Iterable[torch.Tensor | None] | None = None,
        *,
        every: int = 1,
    ) -> None:
        """Record the gradient norms of the two terms of the loss of the step that is going on.

        Call it before `backward`, every step; it measures every so many. Hand in the two terms
        without the weights they have in the loss, as De Lange et al. (2023, eq. 8) name them, or
        gradients (a projected method's, eq. 9). None is recorded as empty.
        """
        check_arguments(every=every)
        step = self._step + 1
        if step % every:
            return
        start, flops = time.perf_counter(), self._meter.flops_so_far
        self._recorder.gradient(step, self._task, recorded_norms(model, (plasticity, stability)))
        self._meter.apart(time.perf_counter() - start, self._meter.flops_so_far - flops)

    def counted(self) -> AbstractContextManager[None]:
        """Count all operations inside this block as training: of the task, or of the next one.

        For work that is no step: importances at a task's end, training on a memory, what is
        recorded before a task begins.
        """
        return self._meter.whole()

    def report(self, *, stored: Any = None, state: Any = None, copies: Any = None) -> None:
        """Report what the loop keeps, as tensors or bytes, for the costs.

        State and copies are those of the task that is being learned, or of the next one; what is
        made at a task's end for later ones is reported after its block.

        Args:
            stored: samples; what is reported last stands when the next task starts.
            state: what belongs to the model beside its own tensors (importances, anchors).
            copies: other networks, or their outputs, that are kept as well (a teacher).
        """
        self._stored = nbytes(stored) if stored is not None else self._stored
        self._extra_bytes = nbytes(state) if state is not None else self._extra_bytes
        self._copies_bytes = nbytes(copies) if copies is not None else self._copies_bytes

    def flush(self) -> None:
        """Wait until everything tested so far is recorded and the disk has it."""
        start = time.perf_counter()
        self._collect(wait=True)
        self._recorder.writer.sync()
        self._meter.apart(time.perf_counter() - start, 0.0)

    @contextmanager
    def uncounted(self) -> Iterator[None]:
        """Leave the time of this block out of the costs of training: of saving it, say."""
        start, flops = time.perf_counter(), self._meter.flops_so_far
        before = self._meter.left_out
        try:
            yield
        finally:
            twice = self._meter.left_out - before  # a flush in here left itself out
            seconds = time.perf_counter() - start - twice
            self._meter.apart(seconds, self._meter.flops_so_far - flops)

    def state_dict(self) -> dict[str, Any]:
        """Return all that going on from here needs, as plain data for a checkpoint of yours.

        `Evaluator(…, record=the same folder, resume=state)` goes on: what was recorded after this
        is cut off. In the middle of a task, enter that task again.
        """
        self._check_open()
        self.flush()
        return {
            "step": self._step,
            "since": self._since,
            "task": self._task,
            "always": list(self._always),
            "learned": list(self._learned),
            "stepped": sorted(self._stepped),
            "before": list(self._before),
            "stored": self._stored,
            "extra_bytes": self._extra_bytes,
            "copies_bytes": self._copies_bytes,
            "ringing": self._alarm is not None and self._alarm.ringing,
            "meter": self._meter.state(),
            "record": self._recorder.state(),
        }

    def _load(self, state: Mapping[str, Any]) -> None:
        self._step, self._since = state["step"], state["since"]
        self._going_on = state["task"]
        self._always, self._learned = list(state["always"]), list(state["learned"])
        self._stepped, self._before = set(state["stepped"]), tuple(state["before"])
        self._stored, self._extra_bytes = state["stored"], state["extra_bytes"]
        self._copies_bytes = state["copies_bytes"]
        if self._alarm is not None:
            self._alarm.ringing = state["ringing"]
        self._meter.load(state["meter"])
        with preserve_state(None):  # data may be read, by code of the user's
            for name in self._learned:
                self._known[name].open()  # run.json says how many classes it has
        self._recorder.known([self._known[name] for name in self._learned], self._classes)
        self._recorder.writer.costs(self._meter.ended)

    def summary(self, options: SummaryOptions | None = None) -> Summary:
        """Return every metric of what was recorded so far and, for the rest, why not."""
        start = time.perf_counter()
        if self._finalizer.alive:
            self._collect(wait=True)
        found = read_input(str(self._recorder.writer.folder)).summary(options)
        self._meter.apart(time.perf_counter() - start, 0.0)
        return found

    def close(self, *, done: bool = True, **said: Any) -> None:
        """Finish: the rest is recorded, and the run is marked as `done`. A second call is fine.

        Args:
            done: whether the run has come to its end.
            said: anything that should stand in done.json.
        """
        if not self._finalizer.alive or os.getpid() != self._owner:
            return  # a forked child's copy: the run is its parent's
        try:
            self._meter.close()
            self._collect_all()
            if done and self._task is None and not self._broken:
                self._recorder.writer.done(steps=self._step, **said)
        finally:
            self._tester.close()
            self._finalizer()

    def __enter__(self) -> Evaluator:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is None:
            self.close()
            return
        with suppress(Exception):  # the error that ended the block is the one to see
            self.close(done=False)

    def _enter(self, task: str, model: Any, data: Any, stored: Any) -> None:
        self._check_entry(task, model)
        if self._going_on is not None:  # it was entered before
            self._task, self._going_on = task, None
            self._model = model
            self._meter.resume()
            return
        self.report(stored=stored)
        self._model = self._model if model is None else model
        whole = self._parts.whole(self._model)
        if has_lazy_parameters(whole):
            self._recorder.note(
                f"{task!r} is not tested before its first step: the model has parameters that do "
                "not exist yet"
            )
            self._model = None
        self._before = (self.live.task, self.live.entered_at)
        self._task, self._since = task, 0
        try:
            with preserve_state(whole):  # data may be read, by code of the user's
                self._meter.begin(task, self._stored, data)
                self._known[task].open()
            self._recorder.entered(self._known[task], self._step, self._classes)
            if self._model is not None and self._initial != "none":
                everything = self._initial == "all" and self._step == 0
                tested = [*self._known.values()] if everything else [self._known[task]]
                self._test(whole, "initial", tested)
        except BaseException:
            self._forget(task)
            raise
        if task not in self._learned:
            self._learned.append(task)
        self._meter.resume()

    def _check_entry(self, task: str, model: Any) -> None:
        self._check_open()
        if self._task is not None:
            raise RuntimeError(f"task {task!r} begins inside {self._task!r}; end that one first")
        if task not in self._known:
            raise ValueError(
                f"task {task!r} has no evaluation data, expected one of {list(self._known)}; "
                "evaluator.add(name, data) adds it"
            )
        if self._going_on not in (None, task):
            raise RuntimeError(
                f"task {task!r} begins, and the run goes on in the middle of {self._going_on!r}; "
                "enter that one first"
            )
        if self._step and not self._learned:
            raise RuntimeError(
                f"task {task!r} begins after steps outside of any task; put those into one as well"
            )
        if self._initial == "all" and self._step == 0 and model is None:
            raise ValueError(
                f"initial='all' tests the untrained model; pass it: evaluator.task({task!r}, model)"
            )

    def _check_step(self, model: Any) -> None:
        if not callable(model):
            raise TypeError(f"step is given {type(model).__name__}, expected the model")
        if self._called is not None:
            raise RuntimeError(
                f"task({self._called!r}) was called without with; write: "
                f"with evaluator.task({self._called!r}, model):"
            )
        if self._task is None and self._learned:
            raise RuntimeError(
                "a step outside of any task: put it into `with evaluator.task(name)`, or use no "
                "tasks at all for a stream without boundaries"
            )

    def _check_open(self) -> None:
        if not self._finalizer.alive:
            raise RuntimeError("the evaluator is closed; make another one to go on")

    def _forget(self, task: str) -> None:
        """Undo the beginning of a task that has had no step, unless it had some before."""
        self._task = None
        self.live.task, self.live.entered_at = self._before
        if task not in self._stepped:
            self._meter.forget(task)
            self._recorder.forget(task)
            self._learned = [name for name in self._learned if name != task]

    def _break_off(self, task: str) -> None:
        """Record what was tested before an error; what fails here must not hide that error."""
        with suppress(Exception):
            self._collect_all()
        if self._since:
            self.live.left(task, self._step)
        else:
            self._forget(task)
        self._task, self._broken = None, True
        with suppress(RecordError):
            self._recorder.writer.sync()

    def _leave(self, task: str) -> None:
        """Test whole sets, write what the task cost, and make sure that the disk has it."""
        self._check_open()
        if not self._since:
            self._forget(task)
            self._recorder.say(f"task {task!r} ended without a step: nothing is recorded of it")
            return
        self._broken, model = True, self._model
        try:
            self._collect_all()
            model = self._parts.whole(self._model)
            self._test(model, "full", self._tested_now())
            tested = [self._known[name] for name in self._meter.tested_tasks]
            self._meter.count_rows(model, tested, self._tester.scorer)
            self._meter.count_pass(model, self._known[task], self._tester.scorer)
        finally:
            self.live.left(task, self._step)
            self._meter.end(model, self._extra_bytes, self._copies_bytes)
            self._task = None
            self._recorder.writer.costs(self._meter.rows)
            self._recorder.writer.sync()
        self._broken = False

    def _tested_now(self) -> list[EvaluationTask]:
        names = [*self._learned, *self._always]
        if self._unseen or not self._learned:
            names = list(self._known)
        return [self._known[name] for name in dict.fromkeys(names)]

    def _collect(self, *, wait: bool = False) -> None:
        """Record the tests that are done by now: all of them, also if one makes trouble."""
        trouble: Exception | None = None
        for done in self._tester.collect(wait=wait):
            if not self._tester.in_trainers_time or done.prepared.device.type == "cuda":
                self._meter.elsewhere(done.seconds, in_trainers_time=self._tester.in_trainers_time)
            trained = self._learning.pop(done.step)
            try:
                self._record("probe", done.step, trained, done.prepared.split(done.values))
                self._ring(done.step)
            except Exception as error:
                trouble = trouble or error
        trouble = trouble or self._tester.trouble()
        if trouble is not None:
            raise trouble

    def _collect_all(self) -> None:
        """Record every test that is under way, then raise the first trouble there was."""
        trouble: Exception | None = None
        for _ in range(1 + len(self._learning)):  # each trouble costs at least one test
            try:
                self._collect(wait=True)
                break
            except Exception as error:
                trouble = trouble or error
        self._learning.clear()  # what a worker dropped, or the user's own code refused
        if trouble is not None:
            raise trouble

    def _test(self, model: Any, kind: str, tested: list[EvaluationTask]) -> None:
        """Test some tasks here and now: subsets before a task, whole sets at its end."""
        found = self._tester.now(model, tested, whole=kind == "full")
        self._record(kind, self._step, self._task, found)

    def _record(
        self, kind: str, step: int, trained: str | None, tested: Mapping[str, NDArray[Any]]
    ) -> None:
        for task, values in tested.items():
            self._meter.tested(task, len(values))
        self._recorder.write(kind, step, trained, tested, self._known)

    def _ring(self, step: int) -> None:
        heard = self._alarm.heard(self.live) if self._alarm is not None else None
        if heard is not None:
            self._recorder.say(f"alarm at step {step}: {heard}")
            if self._stops:
                raise AlarmTriggered(f"step {step}: {heard}")


def _abandon(recorder: Recorder, progress: Progress, owner: int) -> None:
    if os.getpid() == owner:
        progress.close()
    recorder.writer.close()
