"""From the values of an evaluation to the record, the live metrics and the user's attention."""

from __future__ import annotations

import inspect
import os
import shutil
import tempfile
import warnings
import weakref
from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np
import torch

from ..record import InputError, RecordError, RunFolder, RunWriter, csv_field, read_input
from ..record.formats.tables import format_counts
from ..record.run_metadata import describe_program, scale_as_json
from ..record.writer import WriterPosition  # noqa: TC001 - msgspec reads the annotation
from .arguments import convert_state
from .live import Live

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from ..metrics import Summary, SummaryOptions
    from .arguments import Record
    from .engine.eval_batches import Predictions, Values
    from .eval_set import EvalSet
    from .scores import Score

__all__ = ["EvaluationWarning", "Recorder"]


class EvaluationWarning(UserWarning):
    """Something about a running evaluation that the user should know."""


class _RecordState(msgspec.Struct):
    """What a checkpoint keeps of the record."""

    position: WriterPosition  # of the writer
    notes: list[str]
    per_example_files: list[tuple[str, list[bool]]]  # the order matters
    live: dict[str, Any]
    created: str
    resumed: list[dict[str, Any]]
    boolean: bool = False  # whether a score function returned booleans
    initial: list[tuple[int, str]] = []


class Recorder:
    """Writes the folder of a run and updates its live metrics.

    Args:
        run: what run.json says about the run, besides what is known here.
        score: what is measured.
        per_example: whether to record which examples are classified correctly.
    """

    def __init__(self, run: Mapping[str, object], score: Score, *, per_example: bool) -> None:
        self._score, self._per_example = score, per_example
        self._scale, self._boolean = score.named_scale, False
        self.live = Live(self._scale)
        self.notes: list[str] = []
        self._writer: RunWriter | None = None
        self._trained: dict[str, EvalSet] = {}
        self._control: dict[str, EvalSet] = {}
        self._per_example_files: dict[str, list[bool]] = {}  # by task: of whole sets or not
        self._initial: list[tuple[int, str]] = []  # step and task of the last initial evaluations
        self._run: dict[str, object] = {**_environment(), **run}
        self._created, self._resumed = str(self._run["created"]), list[dict[str, object]]()

    @property
    def is_open(self) -> bool:
        """Whether the folder is open, which one to be resumed later is not."""
        return self._writer is not None

    @property
    def writer(self) -> RunWriter:
        """Writes the files of the run."""
        assert self._writer is not None
        return self._writer

    def open(self, record: Record) -> None:
        """Begin a record, or continue one; without a folder it exists as long as this object."""
        folder = record.folder
        if isinstance(record.resume, Mapping):
            assert folder is not None
            state = convert_state(record.resume["record"], _RecordState)
            _check_same_run(Path(folder), state.created)
            self.notes = [*state.notes, *self.notes]
            self._per_example_files = dict(state.per_example_files)
            self._initial = state.initial
            self.live.load(state.live)
            if state.boolean:
                self._set_boolean()
            now, self._created = _environment(), state.created
            entry = {"at": now["created"], "after_step": record.resume["step"]}
            self._resumed = [*state.resumed, entry | {"versions": now["versions"]}]
            self._run |= {"created": self._created, "resumed": self._resumed}
            self._writer = RunWriter(
                folder, self._run_json(), overwrite=record.overwrite, resume=state.position
            )
            return
        if folder is None:
            folder = tempfile.mkdtemp(prefix="perdure-")
            weakref.finalize(self, _remove, folder, os.getpid())
        self._writer = RunWriter(folder, self._run_json(), overwrite=record.overwrite)

    def state(self) -> dict[str, object]:
        """Return how far the record is, as plain data for a checkpoint."""
        files = list(self._per_example_files.items())
        state = _RecordState(
            self.writer.position(), self.notes, files, self.live.state(), self._created,
            self._resumed, self._boolean, self._initial,
        )  # fmt: skip
        return dict(msgspec.to_builtins(state))

    def warn(self, message: str) -> None:
        """Warn the user and readers of the record."""
        self.note(message)
        warnings.warn(message, EvaluationWarning, stacklevel=_user_stacklevel())

    def note(self, message: str) -> None:
        """Add a note for readers of the record."""
        self.notes.append(" ".join(message.split()))
        self._write_run_json()

    def summary(self, options: SummaryOptions | None) -> Summary:
        """Return every metric of what was recorded so far."""
        try:
            return read_input(str(self.writer.folder)).summary(options)
        except InputError as error:
            advice = "call evaluator.step(model) after each optimizer.step()"
            raise InputError(f"{error}; {advice}" if self.live.step == 0 else error) from None

    def describe_evaluation(self, **facts: object) -> None:
        """Add what is known about the evaluations by now to run.json."""
        evaluation = self._run["evaluation"]
        assert isinstance(evaluation, dict)
        self._run["evaluation"] = evaluation | facts
        self._write_run_json()

    def set_control(self, tasks: Iterable[EvalSet]) -> None:
        """Note which tasks are evaluated but never trained."""
        self._control = {task.name: task for task in tasks}
        if self.is_open:  # otherwise run.json is written when it is opened
            self._write_run_json()

    def begin_task(self, task: EvalSet, step: int) -> None:
        """Note in run.json that `task` is trained from here on."""
        self._trained[task.name] = task
        self.live.begin_task(task.name, step)
        self._write_run_json()

    def set_trained(self, tasks: Iterable[EvalSet]) -> None:
        """Note which tasks were trained before the run was resumed."""
        self._trained = {task.name: task for task in tasks}
        self._write_run_json()

    def discard_task(self, task: str) -> None:
        """Remove a task that had no step from run.json."""
        self._trained.pop(task, None)
        self._write_run_json()

    def write(
        self, kind: str, steps: Sequence[int], trained: str | None, values: Mapping[str, Values],
        tasks: Mapping[str, EvalSet], predictions: Mapping[str, Predictions],
    ) -> dict[str, list[float]]:  # fmt: skip
        """Record evaluations and return the scores of each task.

        `values` has a row per step with the values of the task's examples; there is one step unless
        subsets are evaluated, by accuracy. `predictions` are labels and predicted classes, of whole
        sets only. Training examples go to a file of their own, and into no live metric.
        """
        if not self._boolean and any(own.dtype == np.bool_ for own in values.values()):
            self._set_boolean()
        if kind == "initial":  # a task that had no step may have been evaluated at this one before
            self._initial = [entry for entry in self._initial if entry[0] == steps[0]]
            values = {k: own for k, own in values.items() if (steps[0], k) not in self._initial}
        scores = {name: self._scores(name, steps, own) for name, own in values.items()}
        lines, train_lines = list[list[str]](), list[list[str]]()  # of each task
        results: dict[str, list[tuple[int, Sequence[int], NDArray[np.bool_]]]]
        results = {"subset": [], "whole": []}
        for name, own in scores.items():
            task, examples = tasks[name], values[name]
            tested = csv_field(name if task.train_of is None else task.train_of)
            middle = f",{'' if trained is None else csv_field(trained)},{tested},{kind},"
            pairs = zip(steps, own, strict=True)
            own_lines = [f"{s}{middle}{score!r},{examples.shape[1]}" for s, score in pairs]
            (lines if task.train_of is None else train_lines).append(own_lines)
            if self._per_example and examples.dtype == np.bool_ and task.train_of is None:
                file = self._per_example_file(kind, task, steps[0], own[0])
                if file is not None:
                    number = self._file_number(task, whole=file == "whole")
                    right = examples.astype(np.bool_, copy=False)
                    results[file].append((number, steps, right))
            if kind != "initial" and name not in self._control and task.train_of is None:
                self._update_live(name, steps, own, examples.shape[1])
        of_tests = {k: v for k, v in predictions.items() if tasks[k].train_of is None}
        confusion = format_counts(steps[0], trained, of_tests if self._per_example else {})
        self.writer.append_points(
            _by_step(lines), results["subset"], results["whole"], confusion, _by_step(train_lines)
        )
        if kind == "initial":
            self._initial += [(steps[0], name) for name in scores]
        return scores

    def _update_live(
        self, task: str, steps: Sequence[int], scores: Sequence[float], examples: int
    ) -> None:
        for step, score in zip(steps, scores, strict=True):
            live_task = self.live.tasks.get(task)
            if live_task is None or live_task.last_step != step:  # a probe takes precedence
                self.live.update(step, task, score, examples)

    def write_gradients(self, step: int, trained: str | None, norms: Sequence[str]) -> None:
        """Record the gradient norms of a step."""
        trained_field = csv_field(trained) if trained is not None else ""
        self.writer.append_gradients(f"{step},{trained_field},{','.join(norms)}")

    def _scores(self, task: str, steps: Sequence[int], values: Values) -> list[float]:
        scores = self._score.aggregate(values)
        for step, score in zip(steps, scores, strict=True):
            if not isfinite(score) or not self._scale.low <= score <= self._scale.high:
                tokens = values.ndim == 2 or values[0, :, 1].any()
                raise ValueError(
                    f"score of task {task!r} after step {step} is {score}, expected a finite "
                    f"number from {self._scale.low:g} to {self._scale.high:g}; it was not recorded"
                    + ("" if tokens else ": no label counts, all are ignored")
                )
        return scores

    def _set_boolean(self) -> None:
        """Treat the scores of a function as accuracies, since it returned booleans."""
        self._boolean = True
        if (scale := self._score.boolean_scale) is not None:
            self._scale = self.live.scale = scale
            self._write_run_json()

    def _per_example_file(
        self, kind: str, task: EvalSet, step: int, score: float
    ) -> Literal["subset", "whole"] | None:
        """Return which file the results of an evaluation belong to; None if to none.

        A subset that is the whole set has one file for both, and what a probe at this step has
        already recorded is not written twice. Those of a control task before training and at task
        ends are all in the file of the whole set.
        """
        if task.control and kind != "probe":
            return "whole" if kind == "full" or step == 0 else None
        if kind == "initial" or (kind == "probe" and task.resample):
            return None
        if kind == "probe":
            return "subset"
        if task.resample or not task.subset_is_whole:
            return "whole"
        probe = self.live.tasks.get(task.name)
        if probe is None or probe.last_step != step:
            return "subset"
        same = probe.score == (-score if self._scale.lower_is_better else score)
        return None if same else "whole"  # other rounding in other batches, or random transforms

    def _file_number(self, task: EvalSet, *, whole: bool) -> int:
        """Return the number of a task's file, which begins with its first evaluation."""
        files = self._per_example_files.setdefault(task.name, [])
        names = list(self._per_example_files)
        number = names.index(task.name)
        if whole not in files:
            self.writer.add_per_example(names[: number + 1], task.ids(whole=whole), whole=whole)
            files.append(whole)
        return number

    def _write_run_json(self) -> None:
        if self._writer is not None:  # opening it writes everything
            self._writer.write_metadata(self._run_json())

    def _run_json(self) -> dict[str, object]:
        scale = scale_as_json(self._scale)
        content = {**self._run, "tasks": list(self._trained), "scale": scale, "notes": self.notes}
        evaluated = self._trained | self._control
        known = {name: task.fingerprint() for name, task in evaluated.items()}
        if known := {name: value for name, value in known.items() if value is not None}:
            content["evaluation_data"] = known
        content |= {"control": list(self._control)} if self._control else {}
        counts = self._class_counts()
        return content | ({"classes": counts} if counts else {})

    def _class_counts(self) -> list[int]:
        """Return how many new classes each task has, or nothing if that is not known of all."""
        seen: set[int] = set()
        counts = []
        for task in self._trained.values():
            classes = task.label_classes
            counts.append(len(classes if self._run.get("setting") == "task" else classes - seen))
            seen |= classes
        return counts if counts and min(counts) > 0 else []


def _by_step(lines: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of tasks, each in the order of steps, with those of a step together."""
    return [line for of_step in zip(*lines, strict=True) for line in of_step]


def _check_same_run(folder: Path, created: str) -> None:
    """Raise unless the run in `folder` is the one that was created then: it will be truncated."""
    try:
        created_there = RunFolder(folder).metadata().created
    except (OSError, ValueError):
        raise RecordError(
            f"{folder}: no record to resume; pass the folder that the state was saved with"
        ) from None
    if created_there != created:
        raise RecordError(
            f"{folder}: holds a run created at {created_there}, expected the one of the state, "
            f"created at {created}; pass the folder of that one"
        )


def _user_stacklevel() -> int:
    """Return the stack level of the user's own line, for a warning of the calling function."""
    frame, level = inspect.currentframe(), 0
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.partition(".")[0] not in ("perdure", "contextlib"):
            return level
        frame, level = frame.f_back, level + 1
    return 2


def _remove(folder: str, owner: int) -> None:
    if os.getpid() == owner:  # not a forked child
        shutil.rmtree(folder, ignore_errors=True)


def _environment() -> dict[str, object]:
    """Return when, by which program and with which versions a run was made."""
    return {
        **describe_program({"torch": str(torch.__version__)}),
        "threads": torch.get_num_threads(),
        "cpu": torch.backends.cpu.get_cpu_capability(),  # other instructions, other bits
    }
