"""baseline.json: the scores of a run and its results per example, to hold later runs against."""

from __future__ import annotations

import base64
import binascii
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import numpy as np

from .. import __version__
from ..metrics import PerExample, ScoreMatrix, ScoreScale
from ..record import InputError, RunFolder, ScoreInput, read_file, replace_file
from .checked_run import CheckedRun, TaskScore, read_checked_run

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["SCHEMA", "Baseline", "freeze_run", "read_baseline", "write_baseline"]

SCHEMA = 1
MAX_BYTES = 256 << 20
MAX_TASKS = 10_000
MAX_EXAMPLES = 10_000_000  # of one task
NO_ROW = -1  # in place of the task after which an evaluation took place, if it is of no task


class FrozenEvaluation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One evaluation: after which task (-1 without a training order), and who was right.

    `right` holds the results as in `numpy.packbits`, in base64.
    """

    after: Annotated[int, msgspec.Meta(ge=NO_ROW, lt=MAX_TASKS)]
    right: str


class FrozenTask(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The last score of a task and, where recorded, its results per example.

    `ids` are the ids of the examples: 8 bytes each, little endian, in base64. `data` is the
    fingerprint of the evaluation set.
    """

    name: str
    score: float
    n: Annotated[int, msgspec.Meta(ge=0)] = 0
    examples: Annotated[int, msgspec.Meta(ge=0, le=MAX_EXAMPLES)] = 0
    ids: str | None = None
    data: str | None = None
    evaluations: tuple[FrozenEvaluation, ...] = ()


class FrozenScale(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The range, direction and name of the scores; None is infinite."""

    low: float | None = 0.0
    high: float | None = 1.0
    lower_is_better: bool = False
    name: str = ""


class Baseline(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The contents of a baseline.json.

    Attributes:
        schema: Number of this format.
        perdure: The version that wrote it.
        run: Name of the run's folder.
        frozen_at: When it was written.
        versions: The versions that the run states.
        scale: The scale of the scores.
        learned: The learned tasks, in order.
        matrix: Score on each learned task after each of them; None where not measured.
        metrics: The metrics of the run, for people; checks compute them again.
        tasks: The last evaluation of every task, learned or not.
    """

    schema: int = SCHEMA
    perdure: str = __version__
    run: str
    frozen_at: str
    versions: dict[str, str] = {}
    scale: FrozenScale = FrozenScale()
    learned: tuple[str, ...] = ()
    matrix: tuple[tuple[float | None, ...], ...] = ()
    metrics: dict[str, float] = {}
    tasks: tuple[FrozenTask, ...]


def freeze_run(path: str | os.PathLike[str]) -> Baseline:
    """Return what a later check needs of a finished run."""
    run = read_checked_run(path)
    matrix, scale = run.source.matrix, run.scale
    folder = RunFolder(path)
    versions = folder.metadata().versions if folder.has_metadata() else {}
    summary = run.source.summary()
    return Baseline(
        run=Path(run.name).resolve().name,
        frozen_at=datetime.now(UTC).isoformat(timespec="seconds"),
        versions={name: str(version) for name, version in versions.items()},
        scale=FrozenScale(
            scale.low if np.isfinite(scale.low) else None,
            scale.high if np.isfinite(scale.high) else None,
            scale.lower_is_better, scale.name,
        ),
        learned=run.learned,
        matrix=() if matrix is None else tuple(
            tuple(None if score != score else score for score in row)
            for row in matrix.scores.tolist()
        ),
        metrics={id_: value for id_, value in summary.metrics.items() if np.isfinite(value)},
        tasks=tuple(_freeze_task(run, task, score) for task, score in run.last.items()),
    )  # fmt: skip


def _freeze_task(run: CheckedRun, task: str, score: TaskScore) -> FrozenTask:
    results = run.source.per_example_at_ends.get(task)
    rows = {} if results is None else dict(zip(results.steps.tolist(), results[:], strict=True))
    if score.right is not None:
        after = len(run.learned) - 1
        same = results is not None and results.examples == score.right.examples
        if not same or after not in rows:
            results, rows = score.right, {after if run.learned else NO_ROW: score.right[0]}
    if results is None:
        return FrozenTask(task, score.score, score.n)
    ids = None if results.ids is None else _encode(results.ids.astype("<i8").tobytes())
    evaluations = [
        FrozenEvaluation(int(after), _encode(np.packbits(right).tobytes()))
        for after, right in sorted(rows.items())
    ]
    return FrozenTask(
        task, score.score, score.n, results.examples, ids, results.data, tuple(evaluations)
    )


def write_baseline(baseline: Baseline, path: str | os.PathLike[str]) -> None:
    """Write a baseline file, replacing one that is there."""
    target = Path(path)
    if not target.parent.is_dir():
        raise InputError(f"{target}: there is no folder {target.parent}; create it first")
    if target.is_dir():
        raise InputError(f"{target}: is a folder, expected a file")
    text = msgspec.json.format(msgspec.json.encode(baseline), indent=1)
    replace_file(target, text + b"\n")


def read_baseline(path: str | os.PathLike[str]) -> CheckedRun:
    """Return the run that a baseline file holds, or raise InputError."""
    data = read_file(path, MAX_BYTES)
    try:
        header = msgspec.json.decode(data, type=_Header)
        if header.schema != SCHEMA:
            raise InputError(
                f"{path}: schema {header.schema}, expected {SCHEMA}; freeze the run again with this"
                " version"
            )
        baseline = msgspec.json.decode(data, type=Baseline)
        return _restore(baseline, os.fspath(path))
    except (msgspec.DecodeError, UnicodeError, binascii.Error, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: {error}, expected a file written by `perdure freeze`") from None
    except RecursionError:
        raise InputError(f"{path}: nested too deeply, expected a baseline") from None


class _Header(msgspec.Struct):
    schema: int


def _restore(baseline: Baseline, name: str) -> CheckedRun:
    names = [task.name for task in baseline.tasks]
    if len(set(names)) < len(names) or not set(baseline.learned) <= set(names):
        raise ValueError("each task must occur once, and every learned one")
    stated = baseline.scale
    low, high = (
        infinite if end is None else end
        for end, infinite in ((stated.low, -np.inf), (stated.high, np.inf))
    )
    scale = ScoreScale(low, high, stated.lower_is_better, stated.name)
    results = {task.name: _restore_results(task) for task in baseline.tasks}
    last = {task.name: _last_score(task, results[task.name]) for task in baseline.tasks}
    source = ScoreInput(per_example_at_ends={
        task: mine for task, mine in results.items()
        if mine is not None and task in baseline.learned
    })  # fmt: skip
    if baseline.matrix:
        source.matrix = _restore_matrix(baseline, scale, last)
    else:
        source.no_matrix = "the frozen run has no score matrix"
    first = {
        task: TaskScore(float(source.matrix.scores[j, j]))
        for j, task in enumerate(baseline.learned)
        if source.matrix is not None
    }
    return CheckedRun(name, source, last, first, frozen=True, own_scale=scale)


def _restore_matrix(
    baseline: Baseline, scale: ScoreScale, last: Mapping[str, TaskScore]
) -> ScoreMatrix:
    rows = [[np.nan if score is None else score for score in row] for row in baseline.matrix]
    sizes = [last[task].n for task in baseline.learned]
    return ScoreMatrix(
        rows, baseline.learned, scale=scale, upper="measured",
        sizes=np.array(sizes, float) if all(sizes) else None,
    )  # fmt: skip


def _restore_results(task: FrozenTask) -> PerExample | None:
    if not task.evaluations:
        return None
    width = -(-task.examples // 8)
    rows = [np.frombuffer(_decode(one.right), np.uint8) for one in task.evaluations]
    if not task.examples or any(len(row) != width for row in rows):
        raise ValueError(f"task {task.name!r:.60} has results of another length")
    ids = None if task.ids is None else np.frombuffer(_decode(task.ids), "<i8").astype(np.int64)
    steps = np.array([one.after for one in task.evaluations], dtype=np.int64)
    return PerExample(steps, np.stack(rows), task.examples, ids, task.data)


def _last_score(task: FrozenTask, results: PerExample | None) -> TaskScore:
    if results is None:
        return TaskScore(task.score, task.n)
    last = results.at(results.steps[-1:])
    if abs(last.accuracy()[0] - task.score) > 0.5 / task.examples + 1e-6:
        raise ValueError(f"the results of task {task.name!r:.60} do not give its score")
    return TaskScore(task.score, task.n, last)


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _decode(text: str) -> bytes:
    return base64.b64decode(text, validate=True)
