"""Recorded runs: those of other tools, what earlier ones mean for the next, and one as its model.

`import_results` records the results of other tools. The notes of `perdure.run` are on changes of
data and versions, on resumed and on interrupted runs. The model of the next run has tasks, times,
and scores that other schedules would have given.
"""

from __future__ import annotations

import os
import shlex
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .._display import count_of
from ..metrics import Stream, UndefinedMetricError, format_id, min_acc, wf
from ..record import InputError, RunFolder, open_run, read_input
from ..record.group_names import count_replicates
from ..record.points import FULL, INITIAL, PROBE
from ..stats import schedule_steps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import BinaryIO

    from numpy.typing import NDArray

    from ..execution import Job
    from ..record import Points, Run, ScoreInput
    from ..scenarios.scenario import Provenance
    from ..training import RunConfig

__all__ = [
    "ReferenceRun",
    "import_results",
    "list_replicates",
    "note_changes",
    "note_interrupt",
    "note_last_run",
    "note_own_data",
    "note_progress",
    "read_reference_run",
    "scores_on_schedule",
]


def note_changes(finished: Sequence[Job], provenance: Mapping[str, Provenance]) -> list[str]:
    """Return notes on finished runs whose data or versions are not those of today."""
    from .. import training

    notes = []
    for job in finished:
        if changes := training.find_data_changes(job.folder, provenance):
            notes.append(
                f"{job.folder}: the data has changed since ({'; '.join(changes)}); this is the "
                "old result, use `restart=True` to run it again"
            )
        if versions := training.find_version_changes(job.folder):
            notes.append(
                f"{job.folder}: made with {', '.join(versions)}; this is the old result, use "
                "`restart=True` to run it again"
            )
    return notes


def note_last_run(
    waiting: Sequence[Job], provenance: Mapping[str, Provenance], store: Path
) -> list[str]:
    """Return a note if the newest finished run of the scenario used other data."""
    from .. import execution, training

    last = execution.find_last_run(waiting[0].config.scenario, store) if waiting else None
    if last is None or not (changes := training.find_data_changes(last, provenance)):
        return []
    return [f"the data differs from that of {last} ({'; '.join(changes)})"]


def note_own_data(config: RunConfig) -> list[str]:
    """Return what was found out about your own data, and how it is divided into tasks."""
    from ..data.own import ReadOptions
    from ..scenarios import find_scenario

    if config.data_path is None:
        return []
    options = ReadOptions(config.input, config.channels, config.image_size)
    own = find_scenario(config.data_path, options).own
    assert own is not None
    tasks = config.num_tasks or own.tasks
    classes = f", {count_of(own.classes, 'class')}" if own.classes else ""
    counted = f"{own.examples:,} training examples{classes}"
    hint = "" if own.has_tasks or config.num_tasks else "; `num_tasks=` sets another number"
    return [f"{config.scenario}: {counted}, {count_of(tasks, 'task')}{hint}", *own.notes]


def note_progress(finished: Sequence[Job], waiting: Sequence[Job]) -> list[str]:
    """Return notes on which runs are finished, start from scratch or resume."""
    from ..execution import can_resume

    notes = []
    if finished and not waiting:
        store = finished[0].folder.parent
        notes.append(f"finished before, read from {store}; use `restart=True` to run again")
    elif finished:
        notes.append(f"finished before: {_list(finished)}")
    running = [job for job in waiting if RunFolder(job.folder).is_locked()]
    if running:
        notes.append(f"running in another process: {_list(running)}")
    begun = [job for job in waiting if job.folder.exists() and job not in running]
    if restarted := [job for job in begun if not can_resume(job)]:
        notes.append(f"starting from scratch: {_list(restarted)}")
    if resumed := [job for job in begun if can_resume(job)]:
        notes.append(f"resuming from a checkpoint: {_list(resumed)}")
    return notes


def note_interrupt(jobs: Sequence[Job]) -> list[str]:
    """Return what the same command will do after an interrupt, and what was recorded so far."""
    left = [job for job in jobs if job.code != 0]
    resumable = sum(RunFolder(job.folder).checkpoint_path.exists() for job in left)
    done = f"{len(jobs) - len(left)} of {count_of(len(jobs), 'run')} finished"
    which = "the other " if len(left) == 1 else "the others "
    which *= len(left) < len(jobs)
    if not left:
        rest = "prints their metrics"
    elif resumable == len(left):
        rest = f"resumes {which}from the last checkpoint"
    elif resumable:
        rest = f"resumes {resumable} from the last checkpoint and starts the rest from scratch"
    else:
        rest = f"starts {which}from scratch: there is no checkpoint yet"
    notes = [f"interrupted; {done}. The same command {rest}"]
    if recorded := [str(job.folder) for job in left if _has_points(job.folder)]:
        notes.append(f"what was recorded so far: perdure score {shlex.join(recorded)}")
    return notes


def _has_points(folder: Path) -> bool:
    """Return whether a run has evaluated anything yet."""
    with suppress(OSError), RunFolder(folder).points_path.open("rb") as file:
        return file.read(4096).count(b"\n") > 1  # the first line is the header
    return False


def list_replicates(configs: Iterable[RunConfig]) -> str:
    """Return seeds, and in how many task orders, as text."""
    several = list(configs)
    seeds = f"seed {', '.join(map(str, dict.fromkeys(config.seed for config in several)))}"
    replicates = [config.order_and_seed for config in several]
    orders = {order for order, _ in replicates}
    return f"{seeds} ({count_replicates(replicates)})" if len(orders) > 1 else seeds


def _list(jobs: Sequence[Job]) -> str:
    return list_replicates(job.config for job in jobs)


class ReferenceRun(NamedTuple):
    """What a recorded run says about the next one; `missing_times` says why a time is unknown."""

    name: str
    points: Points
    iterations: list[int]
    train_seconds: float | None
    example_seconds: float | None
    missing_times: list[str]
    notes: list[str]

    @property
    def largest_set(self) -> int | None:
        """How many examples the largest evaluation set has; None if no whole set was evaluated."""
        sizes = self.points.n[self.points.kind == FULL]
        return int(sizes.max()) or None if len(sizes) else None


def read_reference_run(path: str, stdin: BinaryIO | None = None) -> ReferenceRun:
    r"""Return what the run folder or points.csv at `path` says; "-" reads `stdin`.

    Example:
        >>> import io
        >>> log = b"step,trained,tested,score\n1,a,a,0.5\n2,a,a,0.6\n5,b,b,0.7\n"
        >>> read_reference_run("-", io.BytesIO(log)).iterations
        [2, 3]
    """
    name = "standard input" if path == "-" else path
    source = read_input(path, pipe=stdin)
    if source.points is None:
        raise InputError(f"{name}: a matrix, expected a run folder or a points.csv")
    points = source.points
    ends = [0, *(last for _, last in points.spans())]
    if len(ends) == 1:
        raise InputError(f"{name}: no line says which task was trained, expected a run with tasks")
    missing: list[str] = []
    train = _measure(lambda: _total(source, "seconds_train") / ends[-1], missing)
    example = _measure(lambda: _total(source, "seconds_eval") / _evaluated(points), missing)
    iterations = [end - start for start, end in pairwise(ends)]
    return ReferenceRun(name, points, iterations, train, example, missing, source.notes)


def scores_on_schedule(
    run: ReferenceRun,
    *,
    every: int | None = None,
    burst: tuple[int, int] | None = None,
    window: int | None = None,
) -> dict[str, float]:
    """Return min_acc and wf as the run would show them if evaluated on a sparser schedule.

    The result is empty if the run lacks evaluations that the schedule has.
    """
    points = run.points
    steps = schedule_steps(run.iterations, every=every, burst=burst)
    recorded = np.unique(points.step[points.kind != INITIAL])
    if not (points.scale.is_accuracy and np.isin(steps, recorded).all()):
        return {}
    stream = _on_schedule(points, steps)
    scores = {}
    for id_, compute in (
        ("min_acc", partial(min_acc, stream)),
        (format_id("wf", window), partial(wf, stream, window)),
    ):
        with suppress(UndefinedMetricError):  # too few evaluations are left
            scores[id_] = float(compute())
    return scores


def _measure(compute: Callable[[], float], missing: list[str]) -> float | None:
    try:
        return compute()
    except UndefinedMetricError as reason:
        missing.append(str(reason))
        return None


def _total(source: ScoreInput, column: str) -> float:
    if source.costs is None:
        raise UndefinedMetricError("needs a costs.csv, which is not there")
    return float(source.costs.column(column).sum())


def _evaluated(points: Points) -> int:
    if not (points.n > 0).all():
        raise UndefinedMetricError(
            "needs to know how many examples were evaluated (column n of points.csv)"
        )
    return int(points.n.sum())


def _on_schedule(points: Points, steps: NDArray[np.int64]) -> Stream:
    """Return the stream with probes at these steps only."""
    keep = (points.kind != PROBE) | np.isin(points.step, steps)
    columns = ("step", "trained", "tested", "kind", "score", "n")
    kept = replace(points, **{name: getattr(points, name)[keep] for name in columns}).stream()
    empty = (np.empty(0, dtype=np.int64), np.empty(0))
    tasks = {name: kept.tasks.get(name, empty) for name in points.stream().names}
    return Stream(tasks, points.spans(), scale=points.scale)


def import_results(
    source: object,
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
    *,
    output: str | os.PathLike[str],
    order: Sequence[str] = (),
    control: Sequence[str] = (),
    columns: Mapping[str, str] | None = None,
    metric: str | None = None,
    percent: bool | None = None,
    lower_is_better: bool = False,
    config: Mapping[str, object] | None = None,
    force: bool = False,
) -> list[Run]:
    """Turn another tool's results into run folders, and return the runs.

    What the files do not say (sizes of test sets, the number of iterations) is a note of the run;
    nothing is guessed.

    Args:
        source: name of a reader (`perdure import --list`), "auto" to recognize the files, or an
            object of the tool: a `Logger` of continuum, an `OCLMetrics` of CapyMOA.
        paths: files or folders that the tool wrote; none for an object.
        output: the run folder to write. Several runs become folders below it.
        order: tasks or checkpoints in the order of learning, where the files do not say it.
        control: tasks that are evaluated but never trained.
        columns: names of columns in the file by our names, such as {"step": "iter"}.
        metric: which score to read, if the files have several.
        percent: whether scores are in percent, where the reader cannot know it.
        lower_is_better: the scores in a table or a tracker are losses or errors.
        config: entries of the config, such as {"seed": 3}; they replace those in the files.
        force: replace the run that is already in the folder.
    """
    from ..importers import ImportOptions, choose_reader, read_object, read_runs, write_runs

    options = ImportOptions(
        order=tuple(order), control=tuple(control), columns=dict(columns or {}), metric=metric,
        percent=percent, lower_is_better=lower_is_better, config=dict(config or {}),
    )  # fmt: skip
    if not isinstance(source, str):
        if paths:
            raise ValueError("paths is not used with an object of a tool; omit it")
        runs = read_object(source, options)
    else:
        listed = [paths] if isinstance(paths, str | os.PathLike) else paths
        files = [Path(path) for path in listed]
        name = choose_reader(files).name if source == "auto" else source
        runs = read_runs(name, files, options)
    return [open_run(folder) for folder in write_runs(runs, Path(output), force=force)]
