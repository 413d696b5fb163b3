"""How far a study is: finished runs, selected grid points, and how long the others will take."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING, Literal, NamedTuple

from ..metrics import find_metric
from ..record import RunFolder, RunSummary, load_summary

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from ..training.config import RunConfig
    from .study import Cell, GridPoint, Study

__all__ = [
    "PlannedRun",
    "RunEstimate",
    "Selection",
    "StudyStatus",
    "Trial",
    "estimate_runs",
    "study_status",
]


class Trial(NamedTuple):
    """The result of one grid point in the search."""

    point: GridPoint
    score: float | None  # mean over the seeds of the search
    reason: str = ""  # why there is no score


class Selection(NamedTuple):
    """The grid point that a cell reports, and the trials it was selected from."""

    point: GridPoint | None  # None if no trial has a score
    trials: list[Trial]


class PlannedRun(NamedTuple):
    """A run of a study."""

    cell: Cell
    config: RunConfig


@dataclass
class StudyStatus:
    """How far a study is.

    Args:
        selections: The selected grid point of each cell whose search is finished.
        done: The folders of each cell's finished runs that are reported.
        failed: The folders of failed runs, with their errors.
        waiting: The folders of runs that are neither finished nor failed.
        undecided: The cells whose search is not finished.
        finished: The number of finished runs, including those of searches.
        planned: Every run whose config is known.
        after_selection: The reported runs of undecided cells, shown with the first grid point.
        summaries: The summaries that were loaded, by the name of the run's folder.
    """

    selections: dict[Cell, Selection] = field(default_factory=dict)
    done: dict[Cell, list[Path]] = field(default_factory=dict)
    failed: dict[Path, str] = field(default_factory=dict)
    waiting: list[Path] = field(default_factory=list)
    undecided: list[Cell] = field(default_factory=list)
    finished: int = 0
    planned: list[PlannedRun] = field(default_factory=list)
    after_selection: list[PlannedRun] = field(default_factory=list)
    summaries: dict[str, RunSummary] = field(default_factory=dict, compare=False, repr=False)

    @property
    def total(self) -> int:
        """The number of runs, each of which is finished, failed or remaining."""
        return self.finished + len(self.failed) + self.remaining

    @property
    def remaining(self) -> int:
        """The number of runs that are neither finished nor failed."""
        return len(self.waiting) + len(self.after_selection)

    @property
    def searched(self) -> int:
        """The number of finished runs that only a search needed."""
        return self.finished - len({path for folders in self.done.values() for path in folders})

    @property
    def running(self) -> list[Path]:
        """The folders of unfinished runs that a process writes to at this moment."""
        return [folder for folder in self.waiting if RunFolder(folder).is_locked()]

    @property
    def complete(self) -> bool:
        """Whether every run is finished or has failed."""
        return not self.waiting and not self.undecided

    @property
    def successful(self) -> bool:
        """Whether every row of the tables has all its runs."""
        selected = all(selection.point is not None for selection in self.selections.values())
        return self.complete and selected and not self.failed

    def summary(self, folder: Path) -> RunSummary:
        """Return the summary of a finished run, loaded once."""
        if folder.name not in self.summaries:
            self.summaries[folder.name] = load_summary(folder)
        return self.summaries[folder.name]


def study_status(study: Study, store: Path, previous: StudyStatus | None = None) -> StudyStatus:
    """Return how far a study is, from one scan of its store.

    Args:
        study: The study.
        store: Folder in which the runs are stored.
        previous: An earlier status, whose summaries of finished runs are reused.
    """
    status = StudyStatus(summaries=previous.summaries if previous else {})
    finished: dict[str, bool] = {}  # two variants may share a run
    after_selection: dict[str, PlannedRun] = {}

    def plan(cell: Cell, point: GridPoint, *, search: bool = False) -> list[Path]:
        folders = []
        for config in study.make_configs(cell, point, search=search):
            folders.append(folder := store / config.folder)
            if folder.name not in finished:
                finished[folder.name] = RunFolder(folder).is_finished()
                status.planned.append(PlannedRun(cell, config))
        return folders

    for cell in study.cells:
        points = study.grid_points(cell)
        selection: Selection | None = Selection(points[0], [])
        if len(points) > 1:
            search = [plan(cell, point, search=True) for point in points]
            selection = _select(study, points, search, finished, status)
        reported: list[Path] = []
        if selection is None:
            status.undecided.append(cell)
            for config in study.make_configs(cell, points[0]):
                after_selection.setdefault(config.folder, PlannedRun(cell, config))
        else:
            status.selections[cell] = selection
            reported = plan(cell, selection.point) if selection.point is not None else []
        status.done[cell] = [folder for folder in reported if finished[folder.name]]
    for folder in (store / name for name, ended in finished.items() if not ended):
        if (error := RunFolder(folder).failure()) is not None:
            status.failed[folder] = error
        else:
            status.waiting.append(folder)
    status.finished = sum(finished.values())
    status.after_selection = [run for name, run in after_selection.items() if name not in finished]
    return status


def _select(
    study: Study,
    points: Sequence[GridPoint],
    search: Sequence[Sequence[Path]],
    finished: dict[str, bool],
    status: StudyStatus,
) -> Selection | None:
    """Return the best point of a grid, or None while its search is not finished.

    Points are compared by their mean over seeds. A point is excluded if a run of it failed or its
    metric is undefined. The first of several equal points is selected.
    """
    trials = []
    for point, folders in zip(points, search, strict=True):
        unfinished = [folder for folder in folders if not finished[folder.name]]
        errors = [
            error for folder in unfinished if (error := RunFolder(folder).failure()) is not None
        ]
        if unfinished and not errors:
            return None
        trials.append(
            Trial(point, None, errors[0])
            if errors
            else _score(point, [status.summary(folder) for folder in folders], study.select.metric)
        )
    sign = -1 if find_metric(study.select.metric).better == "lower" else 1
    scored = [trial for trial in trials if trial.score is not None]
    best = max(scored, key=lambda trial: sign * (trial.score or 0.0), default=None)
    return Selection(None if best is None else best.point, trials)


def _score(point: GridPoint, runs: Sequence[RunSummary], metric: str) -> Trial:
    for run in runs:
        if metric not in run.metrics:
            return Trial(point, None, run.undefined.get(metric, "not computed"))
    return Trial(point, fmean(run.metrics[metric] for run in runs))


class RunEstimate(NamedTuple):
    """The state of a run and its estimated duration, 0 if it is not to be run."""

    folder: str
    state: Literal["done", "failed", "waiting"]
    seconds: float | None  # None if it was not measured


def estimate_runs(
    study: Study,
    store: Path,
    *,
    retry_failed: bool = False,
    measure: bool = True,
    on_measure: Callable[[Cell], None] | None = None,
) -> list[RunEstimate]:
    """Return every run of a study with its duration, measured on a few steps of each kind of run.

    Without `measure`, runs are only listed, which takes no PyTorch.

    Args:
        study: The study.
        store: Folder in which the runs are stored.
        retry_failed: Count failed runs as runs to do.
        measure: Measure how long runs take.
        on_measure: Called before a kind of run is measured.
    """
    from .. import training

    status = study_status(study, store)
    to_do = {folder.name for folder in status.waiting}
    to_do |= {run.config.folder for run in status.after_selection}
    failed = {folder.name for folder in status.failed}
    to_do |= failed if retry_failed else set()
    seconds: dict[bytes, float] = {}

    def estimate(cell: Cell, config: RunConfig) -> RunEstimate:
        if config.folder not in to_do:
            return RunEstimate(config.folder, "failed" if config.folder in failed else "done", 0.0)
        if not measure:
            return RunEstimate(config.folder, "waiting", None)
        kind = training.make_duration_key(config)
        if kind not in seconds:
            if on_measure is not None:
                on_measure(cell)
            seconds[kind] = training.estimate_seconds(config)
        return RunEstimate(config.folder, "waiting", seconds[kind])

    return [estimate(*run) for run in (*status.planned, *status.after_selection)]
