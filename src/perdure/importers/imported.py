"""What the user says about results, what a reader makes of them, and the run folder it becomes."""

from __future__ import annotations

import os
import secrets
import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from ..metrics import ACCURACY
from ..record import InputError, Log, RunFolder
from ..record.store import remove_stored_run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ..metrics import ScoreScale

__all__ = [
    "NO_SIZES",
    "ONLY_ENDS",
    "STEPS_ARE_EVALUATIONS",
    "STEPS_ARE_TASKS",
    "Evaluation",
    "ImportOptions",
    "ImportedRun",
    "check_output",
    "drop_examples",
    "has_only_ends",
    "write_run",
]

# Notes on what many tools do not write down.
STEPS_ARE_TASKS = "the number of training iterations is not known: steps count tasks"
STEPS_ARE_EVALUATIONS = "the number of training iterations is not known: steps count evaluations"
NO_SIZES = "the number of test examples per task is not known: n is empty"
ONLY_ENDS = (
    "every task was evaluated only at the ends of tasks: metrics of what happens during training "
    "(min_acc, wc_acc, wf, wp, aaa, gap) see nothing in between"
)

PREFIX = ".importing-"  # hidden, so that no command takes it for a run


@dataclass(frozen=True, kw_only=True)
class ImportOptions:
    """What the user says about the results; a reader uses what its files do not say.

    Attributes:
        order: names in the order of learning: tasks, or the checkpoints of a sequence. A reader
            that needs it raises without it: an order is never guessed.
        control: tasks that are evaluated but never trained.
        columns: the name of the column in the file, by our name (step, trained, tested, score, n).
        metric: which score to read, if the files have several.
        percent: whether scores are in percent; None if the reader knows or finds out.
        lower_is_better: the scores in tables and trackers are losses or errors.
        config: entries of the run's config, which replace those found in the files.
    """

    order: tuple[str, ...] = ()
    control: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    metric: str | None = None
    percent: bool | None = None
    lower_is_better: bool = False
    config: Mapping[str, object] = field(default_factory=dict)


DEFAULT_OPTIONS = ImportOptions()


class Evaluation(NamedTuple):
    """One evaluation of one task, as `perdure.Log.add` takes it: `correct`, or score and n."""

    step: int
    trained: str | None
    tested: str
    score: float | None = None
    n: int | None = None
    kind: Literal["initial", "probe", "full"] = "full"
    correct: Sequence[bool] | None = None
    ids: Sequence[int] | None = None


def drop_examples(evaluation: Evaluation) -> Evaluation:
    """Return an evaluation with its score instead of the result of each example."""
    if evaluation.correct is None:
        return evaluation
    right, n = sum(evaluation.correct), len(evaluation.correct)
    return evaluation._replace(score=right / n, n=n, correct=None, ids=None)


@dataclass(kw_only=True)
class ImportedRun:
    """The evaluations of one run that another tool made.

    Attributes:
        tool: name of the tool.
        evaluations: in the order of their steps.
        files: the files that were read; empty for an object in memory.
        version: version of the tool, None if its files do not say it.
        label: what sets this run apart from others in the same files, such as `seed1` or `nme`.
        config: what the files say about the run; `seed` and `setting` have a meaning here.
        scale: range, direction and name of the scores.
        control: tasks that are evaluated but never trained.
        classes: how many new classes each task brings, None if unknown.
        metrics: name of the tool's own metrics in `perdure score --as`, None if there are none.
        notes: what could not be known or was left out, one sentence each.
    """

    tool: str
    evaluations: list[Evaluation]
    files: Sequence[Path] = ()
    version: str | None = None
    label: str = ""
    config: dict[str, object] = field(default_factory=dict)
    scale: ScoreScale = ACCURACY
    control: tuple[str, ...] = ()
    classes: list[int] | None = None
    metrics: str | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def tasks(self) -> list[str]:
        """The names of the tasks in the order in which they were first trained or evaluated."""
        trained = [e.trained for e in self.evaluations if e.trained is not None]
        return list(dict.fromkeys([*trained, *(e.tested for e in self.evaluations)]))


def has_only_ends(run: ImportedRun) -> bool:
    """Return whether nothing was evaluated while a task was trained, only at its end."""
    updates = {(e.step, e.trained) for e in run.evaluations if e.kind != "initial"}
    trained = [task for _, task in updates]
    return None not in trained and len(set(trained)) == len(trained)


def check_output(folder: Path, *, force: bool) -> None:
    """Raise if there is something at the place of a run folder, unless it may be replaced."""
    if not force and folder.exists() and any(folder.iterdir() if folder.is_dir() else [folder]):
        raise InputError(
            f"{folder}: exists already; choose another `output=`, or replace it with `force=True`"
        )


def write_run(run: ImportedRun, folder: Path, *, force: bool = False) -> None:
    """Write a run folder, as a whole or not at all; `force` replaces the run that is there."""
    if not run.evaluations:
        raise InputError(f"{_name_source(run)}: no evaluation found, expected at least one")
    check_output(folder, force=force)
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = folder.with_name(f"{PREFIX}{secrets.token_hex(6)}")
    try:
        _write(run, unfinished)
        if folder.exists():
            _make_room(folder)
        os.rename(unfinished, folder)  # noqa: PTH104
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _write(run: ImportedRun, folder: Path) -> None:
    imported = {"tool": run.tool, "version": run.version, "files": [str(f) for f in run.files]}
    try:
        with Log(
            folder, config=run.config, scale=run.scale, control=run.control, classes=run.classes,
            imported=imported,
        ) as log:  # fmt: skip
            for note in run.notes:
                log.note(note)
            for evaluation in run.evaluations:
                log.add(**evaluation._asdict())
    except ValueError as error:
        raise InputError(f"{_name_source(run)}: {error}") from None


def _make_room(folder: Path) -> None:
    """Remove the run, or the empty folder, that is replaced; anything else is refused."""
    if RunFolder(folder).is_run():
        remove_stored_run(folder)
    elif folder.is_dir() and not folder.is_symlink() and not any(folder.iterdir()):
        folder.rmdir()
    else:
        raise InputError(f"{folder}: not a run folder, so it is not replaced; choose another")


def _name_source(run: ImportedRun) -> str:
    return str(run.files[0]) if run.files else run.tool
