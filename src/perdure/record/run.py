"""Reading a run: points, costs, per-example results and gradients as arrays; cached metrics."""

from __future__ import annotations

import math
import os
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from .._display import count_of, list_some
from ..metrics import ScoreScale, SummaryOptions, UndefinedMetricError
from .formats.matrix_entry import (
    are_fractions,
    fractions_note,
    looks_like_percent,
    percent_note,
    refuse_fractions,
)
from .formats.per_example import add_per_example
from .formats.points import read_points
from .formats.tables import read_costs
from .io.files import InputError, read_file, unreadable
from .io.folder import RecordError
from .io.text import decode
from .points import MatrixFields, Points
from .run_folder import MAX_TABLE, RunFolder
from .run_metadata import RunMetadata
from .score_input import InputOptions, ScoreInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .formats.tables import Gradients

__all__ = [
    "Run",
    "RunSummary",
    "add_costs",
    "load_summary",
    "open_run",
    "read_log",
    "read_points_of_run",
    "read_run",
]

PRINTED_KEYS = ("scenario", "strategy", "setting", "model", "seed")
MAX_COSTS = 128 << 20  # bytes
UNFINISHED = "is unfinished"


@dataclass
class Run(ScoreInput):
    """Everything that a run folder holds, as arrays.

    `summary()` returns every metric; `finished` says whether the run has ended, and `metadata`
    is what run.json says about it. `train_points` are evaluations of training examples, which no
    metric uses.
    """

    folder: Path = Path()
    finished: bool = False
    metadata: RunMetadata = field(default_factory=RunMetadata)
    gradients: Gradients | None = None
    train_points: Points | None = None

    def describe(self) -> list[tuple[str, str]]:
        """Return where the run is, how far it got and what it holds, for `print`."""
        config = self.metadata.config
        stated = [f"{key} {config[key]}" for key in PRINTED_KEYS if key in config]
        status = "finished" if self.finished else "unfinished"
        rows = [("folder", str(self.folder)), ("status", status)]
        rows += [("config", ", ".join(stated))] if stated else []
        return rows + super().describe()

    __repr__ = ScoreInput.__repr__  # a dataclass would make its own


def open_run(path: str | os.PathLike[str], *, per_example: bool = True) -> Run:
    r"""Return everything that the run folder at `path` holds, also while it is being written.

    Without `per_example`, the per-example results are not read: only the intervals of a single
    run need them.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "points.csv").write_text(
        ...     "step,trained,tested,score\n1,a,a,0.5\n2,b,a,0.25\n2,b,b,0.75\n"
        ... )
        >>> open_run(folder).matrix.scores[1]
        array([0.25, 0.75])
    """
    folder = RunFolder(path)
    if not folder.path.is_dir():
        raise InputError(f"{folder.path}: no such folder, expected a run with a points.csv in it")
    finished = folder.is_finished()  # asked first: a writer may finish in between
    try:
        contents = read_run(folder, InputOptions(), per_example=per_example)
        metadata = folder.metadata() if folder.has_metadata() else RunMetadata()
        gradients, train_points = folder.gradients(), folder.train_points()
    except OSError as error:
        raise unreadable(path, error) from None
    return Run(
        **vars(contents),
        folder=folder.path,
        finished=finished,
        metadata=metadata,
        gradients=gradients,
        train_points=train_points,
    )


def read_run(folder: RunFolder, options: InputOptions, *, per_example: bool = True) -> ScoreInput:
    """Return what a run folder holds for scoring; of an unfinished run, the finished tasks."""
    path, ours, finished = folder.points_path, folder.has_metadata(), folder.is_finished()
    try:
        data = read_file(path, MAX_TABLE)
    except FileNotFoundError:
        what = "no evaluation was recorded" if ours else "expected a run folder or a file"
        raise InputError(f"{folder.path}: no points.csv in it, {what}") from None
    if ours:
        result = read_points_of_run(data, options, folder, str(path), finished=finished)
    else:
        result = read_log(data, str(path), options)
    if os.path.lexists(folder.costs_path):
        add_costs(result, folder.costs_path, ours=True)
    if per_example and any(folder.per_example_path.glob("*.bin")):
        add_per_example(result, folder.per_example_path)
    return result


def read_points_of_run(
    data: bytes, options: InputOptions, folder: RunFolder, name: str, *, finished: bool
) -> ScoreInput:
    """Return what the points of one of our runs hold, with what its run.json says.

    The log of another tool is complete; only our runs say whether they are finished. That must
    be asked before the points are read, because a writer may finish in between.
    """
    metadata, source = folder.scoring_metadata(), folder.metadata_path
    options = replace(options, scale=options.scale or metadata.score_scale(source))
    # A run states its own scale: percent is for files that state none.
    points = _parse_points(data, name, replace(options, percent=False), ours=True)
    points = _with_control(points, metadata.control, str(source))
    task_count = len({task for task, _ in points.spans()})
    fields = metadata.task_fields(source, task_count)
    if finished:
        result = _score_points(points, options, fields, name)
    else:
        reason = folder.failure()
        state = UNFINISHED if reason is None else f"failed ({' '.join(reason.split()):.200})"
        result = _score_finished_tasks(points, options, fields, name, state)
    result.notes += metadata.notes
    result.evaluation_data = metadata.evaluation_data
    return result


def read_log(data: bytes, name: str, options: InputOptions) -> ScoreInput:
    """Return what the log of another tool holds; scores that can only be percent are read so."""
    try:
        points = _parse_points(data, name, options, ours=False)
    except InputError:
        if options.percent is not None or options.scale is not None:
            raise
        unlimited = replace(options, scale=ScoreScale(-math.inf, math.inf))
        scores = _parse_points(data, name, unlimited, ours=False).score
        if not looks_like_percent(scores, scores):
            raise
        options = replace(options, percent=True)
        points = _parse_points(data, name, options, ours=False)
        points = replace(points, notes=(*points.notes, percent_note(scores, name)))
    if options.percent and not options.lower_is_better and are_fractions(100 * points.score):
        if not options.allows_fractions:
            raise refuse_fractions(name)
        options = replace(options, percent=False)
        points = _parse_points(data, name, options, ours=False)
        points = replace(points, notes=(*points.notes, fractions_note(name)))
    return _score_points(points, options, MatrixFields(), name)


def _parse_points(data: bytes, name: str, options: InputOptions, *, ours: bool) -> Points:
    text = decode(data, name, growing=True)
    percent = bool(options.percent)
    return read_points(text, name, scale=options.scale, percent=percent, ours=ours)


def _with_control(points: Points, names: Sequence[str], source: str) -> Points:
    try:
        return points.with_control(names)
    except ValueError as error:
        raise InputError(f"{source}: {error}") from None


def _state_control(points: Points, names: Sequence[str], source: str) -> Points:
    if unknown := [name for name in names if name not in points.names]:
        raise InputError(
            f"{source}: `control=` names {unknown[0]!r:.60}, which is never evaluated, expected "
            f"some of {list_some(points.names)}"
        )
    return _with_control(points, names, source)


def _score_points(
    points: Points, options: InputOptions, fields: MatrixFields, name: str
) -> ScoreInput:
    """Return stream and matrix of points; options override `fields`, which the file states."""
    if options.control is not None:
        points = _state_control(points, options.control, name)
    stream = points.stream(subsample=options.subsample)
    result = ScoreInput(stream=stream, notes=list(points.notes), points=points)
    result.control = points.control_scores()
    try:
        result.matrix = points.matrix(**(fields | options.matrix_fields()))
    except UndefinedMetricError as reason:
        result.no_matrix = str(reason)
    except ValueError as error:
        raise InputError(f"{name}: {error}") from None
    return result


def _score_finished_tasks(
    points: Points, options: InputOptions, fields: MatrixFields, name: str, state: str
) -> ScoreInput:
    """Return what is known of a run that is unfinished or has failed: the tasks that have ended."""
    last = points.last_finished_step()
    if last is not None:
        is_complete = last == points.step[-1]
        points = points.until(last)
        count = len({task for task, _ in points.spans()})
        if "classes" in fields:
            fields = fields | {"classes": fields["classes"][:count]}
        result = _score_points(points, options, fields, name)
        hint = "; if training has ended, evaluator.close() was not called"
        result.notes.append(
            f"the run {state}: scored over {count_of(count, 'finished task')}"
            + (hint if is_complete and state == UNFINISHED else "")
        )
        return result
    result = _score_points(points, options, fields, name)
    if points.spans():
        result.notes.append(f"the run {state} and no task has ended yet")
        result.matrix, result.no_matrix = None, result.notes[-1]
    else:
        result.notes.append(f"the run {state}")
    return result


def add_costs(result: ScoreInput, path: Path, *, ours: bool) -> None:
    """Add the costs in a costs.csv, or raise InputError if they are not those of the same tasks."""
    text = decode(read_file(path, MAX_COSTS), str(path), growing=True)
    costs, warning = read_costs(text, str(path), ours=ours)
    result.notes += [warning] if warning else []
    if result.points is not None:
        learned = tuple(dict.fromkeys(task for task, _ in result.points.spans()))
        common = learned[: len(costs.tasks)]
        if learned and costs.tasks[: len(common)] != common:
            raise InputError(f"{path}: costs of {list(costs.tasks)}, expected of {list(learned)}")
        if learned and len(costs.tasks) < len(learned):
            what = f"{path}: costs of {count_of(len(costs.tasks), 'task')}, expected {len(learned)}"
            if not ours:
                raise InputError(what)
            result.notes.append(f"{what}: not used")
            return
        costs = costs.first(len(learned)) if learned else costs
    elif result.matrix is not None and len(costs.tasks) != len(result.matrix.tasks):
        raise InputError(
            f"{path}: costs of {len(costs.tasks)} tasks, expected {len(result.matrix.tasks)}"
        )
    result.costs = costs if costs.tasks else None


class RunSummary(msgspec.Struct, frozen=True):
    """Metrics by id, why the others are undefined, and what the run cost, where measured."""

    metrics: dict[str, float]
    undefined: dict[str, str]
    costs: dict[str, float]


class CachedSummary(RunSummary, frozen=True):
    """A summary with the version of perdure and the digest of the files it was computed from."""

    of: tuple[str, str]


def load_summary(folder: Path, *, keep: bool = False) -> RunSummary:
    """Return the metrics of a finished run, from its cache if nothing has changed since.

    Args:
        folder: of the run.
        keep: write them to the cache; only for whoever has made the run.
    """
    from .. import __version__

    run_folder = RunFolder(folder)
    of = (__version__, run_folder.scoring_digest())
    with suppress(OSError, ValueError):
        cached = msgspec.convert(run_folder.cached_summary(), CachedSummary)
        if cached.of == of:
            return cached
    run = open_run(folder, per_example=False)  # they give intervals, no values
    result = run.summary(SummaryOptions(intervals=False, curves=False))
    metrics = {id_: float(value) for id_, value in result.metrics.items()}
    summary = CachedSummary(metrics, dict(result.undefined), _sum_costs(run), of)
    if keep:
        with suppress(RecordError):  # it can be computed again
            run_folder.write_cached_summary(msgspec.to_builtins(summary))
    return summary


def _sum_costs(run: Run) -> dict[str, float]:
    """Return seconds of training and the largest numbers of bytes, over all tasks."""
    costs: dict[str, float] = {}
    if run.costs is None:
        return costs
    for name, combine in (("seconds_train", sum), ("peak_bytes", max), ("model_bytes", max)):
        with suppress(UndefinedMetricError):  # not measured
            costs[name] = float(combine(float(value) for value in run.costs.column(name)))
    return costs
