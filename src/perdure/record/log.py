"""Log: the record of a run from a program that is not a PyTorch loop, one call per evaluation."""

from __future__ import annotations

import json
import operator
from typing import TYPE_CHECKING, Literal

import msgspec
import numpy as np

from ..metrics import ACCURACY
from .formats.per_example import read_per_example, read_whole_sets
from .io.folder import RecordError
from .io.text import csv_field
from .points import KINDS
from .run_folder import RunFolder
from .run_metadata import config_as_json, describe_program, scale_as_json
from .writer import RunWriter, WriterPosition

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from ..metrics import ScoreScale

__all__ = ["Log"]


class _SavedLog(msgspec.Struct):
    """The point from which a log can be resumed."""

    position: WriterPosition
    last: tuple[int, str | None]
    state: dict[str, object]


class Log:
    """Writes a run folder without PyTorch: for JAX, reinforcement learning, services, importers.

    Every command reads the folder, also while it is written. Nothing that was added is lost if
    the program is killed.

    Args:
        folder: where the record goes; created if it is not there.
        config: the configuration of the run, as for `perdure.Evaluator`: `seed` distinguishes runs
            of one method; `setting` is "class", "task" or "domain" (incremental).
        scale: range, direction and name of the scores; accuracies by default.
        control: names of the tasks that are evaluated but never trained. Add their scores before
            training as `initial` evaluations of whole sets at step 0, for retention.
        classes: how many new classes each task brings, in the order of learning.
        imported: the tool and the files that the evaluations come from, if not from this program.
        overwrite: replace the run that is already there.
        resume: continue the record that is there from its last `save`, with that config; what was
            added later is dropped. A folder without a record begins one.

    Example:
        >>> import tempfile
        >>> import perdure
        >>> folder = tempfile.mkdtemp()
        >>> with Log(folder, config={"strategy": "mine", "seed": 0}) as log:
        ...     log.add(100, "cats", "cats", correct=[True, True, False, True], kind="full")
        ...     log.add(200, "dogs", "cats", correct=[True, False, False, True], kind="full")
        ...     log.add(200, "dogs", "dogs", score=0.8, n=500, kind="full")
        >>> perdure.score(folder).metrics["bwt"]
        -0.25
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        config: Mapping[str, object] | None = None,
        scale: ScoreScale = ACCURACY,
        control: Sequence[str] = (),
        classes: Sequence[int] | None = None,
        imported: Mapping[str, object] | None = None,
        overwrite: bool = False,
        resume: bool = False,
    ) -> None:
        stated = config_as_json(config)
        self._scale, self._control = scale, _check_control(control)
        self._run: dict[str, object] = {
            **describe_program({}), "setting": stated.get("setting"), "config": stated,
            "scale": scale_as_json(scale), "notes": [],
        }  # fmt: skip
        self._run |= {"control": self._control} if self._control else {}
        self._run |= {"classes": list(classes)} if classes is not None else {}
        self._run |= {"imported": dict(imported)} if imported is not None else {}
        self._notes: list[str] = []
        self._ids: dict[tuple[str, bool], NDArray[np.int64]] = {}  # by task, of whole sets or not
        self._tasks: list[str] = []  # that have per-example results
        self._added: set[tuple[int, str, str]] = set()  # evaluations of the last step
        self._last: tuple[int, str | None] = (0, None)  # step and trained task of the last update
        self.state: dict[str, object] = {}  # what the last `save` was given
        saved = self._load(RunFolder(folder)) if resume else None
        self._writer = RunWriter(folder, self._run, overwrite=overwrite or resume, resume=saved)

    def add(
        self,
        step: int,
        trained: str | None,
        tested: str,
        score: float | None = None,
        n: int | None = None,
        *,
        correct: ArrayLike | None = None,
        ids: ArrayLike | None = None,
        kind: Literal["initial", "probe", "full"] = "probe",
    ) -> None:
        """Add one evaluation of one task, and write it to disk.

        Args:
            step: training iterations so far; it never decreases.
            trained: the task being trained, None for a stream without boundaries.
            tested: the task that was evaluated.
            score: its score; not needed with `correct`.
            n: how many examples were evaluated, if that is known.
            correct: per example, whether it was right. The same examples at every evaluation of
                this task and kind; intervals and comparisons by example are made of it.
            ids: one integer per example that identifies it; by default its position.
            kind: "initial" before an update, "probe" on a subset while training, "full" on the
                whole set at the end of a task.
        """
        step = self._check_step(step, trained, tested, kind)
        right = None if correct is None else _as_flags(correct)
        if right is not None:
            if score is not None or n is not None:
                raise ValueError("`correct` states score and n; omit them")
            if not self._scale.is_accuracy:
                raise ValueError(
                    f"`correct` is for accuracies, but the scores are {self._scale.label}; pass "
                    "`score=`"
                )
            score, n = np.count_nonzero(right) / len(right), len(right)
        elif ids is not None:
            raise ValueError("`ids` needs `correct=`, one value per example")
        value = self._check_score(score, tested, step)
        if n is not None and operator.index(n) < 1:
            raise ValueError(f"n is {n}, expected the number of examples, at least 1")
        # Control tasks are compared with what they were before training, example by example.
        whole = kind == "full" or (kind == "initial" and step == 0 and tested in self._control)
        results = []
        if right is not None and (whole or kind == "probe"):
            results = [(self._number(tested, right, ids, whole=whole), [step], right[None])]
        fields = (str(step), csv_field(trained or ""), csv_field(tested), kind, repr(value))
        line = ",".join([*fields, "" if n is None else str(n)])
        of_subset, of_whole_set = ([], results) if whole else (results, [])
        self._writer.append_points([line], of_subset, of_whole_set)
        self._added.add((step, tested, kind))

    def note(self, message: str) -> None:
        """Add a note for readers of the record: scores and reports repeat it."""
        self._notes.append(" ".join(message.split()))
        self._run["notes"] = self._notes
        self._writer.write_metadata(self._run)

    def save(self, state: Mapping[str, object]) -> None:
        """Save a point from which `Log(folder, resume=True)` continues, with `state` as its own."""
        position = self._writer.position()
        self.state = dict(state)
        self._run["log"] = {"position": position, "last": self._last, "state": self.state}
        self._writer.write_metadata(self._run)

    def _load(self, folder: RunFolder) -> WriterPosition | None:
        """Return where to continue the record in a folder; None if there is none."""
        if not folder.has_metadata():
            return None
        metadata = folder.metadata()
        if not metadata.log:
            raise RecordError(
                f"{folder.path}: a record that was never saved; overwrite=True replaces it"
            )
        if metadata.config != json.loads(json.dumps(self._run["config"])):
            raise RecordError(f"{folder.path}: a record with another config; choose another folder")
        try:
            saved = msgspec.convert(metadata.log, _SavedLog)
        except msgspec.ValidationError as error:
            raise RecordError(f"{folder.metadata_path}: log: {error}") from None
        self.state, self._last = saved.state, saved.last
        self._notes = [str(note) for note in metadata.notes]
        self._run |= {"created": metadata.created, "notes": self._notes, "log": metadata.log}
        self._tasks = [task for task, *_ in saved.position["per_example"]]
        if self._tasks:
            for whole, read in ((False, read_per_example), (True, read_whole_sets)):
                for task, results in read(folder.per_example_path, self._tasks)[0].items():
                    assert results.ids is not None
                    self._ids[task, whole] = results.ids
        return saved.position

    def close(self, *, finished: bool = True) -> None:
        """End the record and, if `finished`, mark the run as finished; again does nothing."""
        try:
            if finished and self._writer.is_open:
                self._writer.finish()
        finally:
            self._writer.close()

    def __enter__(self) -> Log:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.close(finished=kind is None)

    def _check_step(self, step: int, trained: str | None, tested: str, kind: str) -> int:
        """Return the step, or raise if this evaluation contradicts those before it."""
        step = operator.index(step)
        for name, task in (("trained", trained), ("tested", tested)):
            if name == "trained" and task is None:
                continue
            if not isinstance(task, str) or not task or not task.isprintable():
                raise ValueError(f"{name} is {task!r:.60}, expected the name of a task")
        if trained in self._control:
            raise ValueError(f"trained is {trained!r}, a control task, which is never trained")
        if kind not in KINDS:
            raise ValueError(f"kind is {kind!r:.60}, expected {' or '.join(KINDS)}")
        last, last_trained = self._last
        if step < last:
            raise ValueError(
                f"step is {step} after step {last}, expected steps that never decrease; count "
                "iterations over all tasks"
            )
        if kind != "initial":
            if step == last and trained != last_trained and last_trained is not None:
                raise ValueError(
                    f"trained is {trained!r} at step {step}, at which {last_trained!r} was trained"
                )
            self._last = (step, trained)
        elif step > last:
            self._last = (step, None)
        self._added = {entry for entry in self._added if entry[0] == step}
        if (step, tested, kind) in self._added:
            raise ValueError(f"a second {kind} evaluation of {tested!r} at step {step}")
        if kind == "full" and (step, tested, "initial") in self._added and tested in self._control:
            raise ValueError(f"step is {step}, at which {tested!r} has its initial evaluation")
        return step

    def _check_score(self, score: float | None, tested: str, step: int) -> float:
        if score is None:
            raise ValueError(f"no score of task {tested!r}; pass `score=` or `correct=`")
        value = float(score)
        if not np.isfinite(value):
            raise ValueError(f"score of task {tested!r} at step {step} is {value}, not a number")
        self._scale.check(np.array([value]), lambda _: f"score of task {tested!r} at step {step}")
        return value

    def _number(
        self, task: str, right: NDArray[np.bool_], ids: ArrayLike | None, *, whole: bool
    ) -> int:
        """Return the number of a task's per-example results, which begin with its first ones."""
        numbers = np.arange(len(right)) if ids is None else np.asarray(ids)
        if not np.issubdtype(numbers.dtype, np.integer) or numbers.shape != right.shape:
            raise ValueError(
                f"ids of task {task!r} have type {numbers.dtype} and shape {numbers.shape}, "
                f"expected {len(right)} integers"
            )
        known = self._ids.get((task, whole))
        if known is None:
            if task not in self._tasks:
                self._tasks.append(task)
            self._ids[task, whole] = numbers.astype(np.int64)
            tasks = self._tasks[: self._tasks.index(task) + 1]
            self._writer.add_per_example(tasks, self._ids[task, whole], whole=whole)
        elif not np.array_equal(known, numbers):
            raise ValueError(
                f"other examples of task {task!r} than before ({len(right)}, before {len(known)}); "
                "pass the same examples in the same order, or `score=` and `n=` without `correct=`"
            )
        return self._tasks.index(task)


def _check_control(control: Sequence[str]) -> list[str]:
    if isinstance(control, str) or not all(control):
        raise ValueError(f"control is {control!r:.60}, expected a list of names of tasks")
    return [str(name) for name in dict.fromkeys(control)]


def _as_flags(correct: ArrayLike) -> NDArray[np.bool_]:
    flags = np.asarray(correct)
    if flags.ndim != 1 or not len(flags) or not np.isin(flags, (0, 1)).all():
        raise ValueError(
            f"correct has shape {flags.shape} and type {flags.dtype}, expected one true or false "
            "value per example"
        )
    return flags.astype(np.bool_)
