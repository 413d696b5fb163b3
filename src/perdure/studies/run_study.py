"""Running a study: what is done is not done again, the best of a grid is chosen, then reported."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from ..execution.jobs import Job
from ..execution.store import check_store
from ..metrics import find_metric
from ..record import FAILED, RecordError, failure_of, load_summary, replace_file
from ..training.changes import is_finished

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from ..training.config import RunConfig
    from .study import Cell, Point, Study

    Execute = Callable[[Sequence[Job], Callable[[Job, dict[str, Any]], None]], None]

__all__ = [
    "Selection",
    "StudyStatus",
    "failure_of",
    "plan_study",
    "run_study",
    "select_point",
    "study_status",
]

INTERRUPTED = 130


class Trial(NamedTuple):
    """How well one point of a grid did in the search."""

    point: Point
    score: float | None  # the mean over the seeds of the search
    why: str = ""  # there is none


class Selection(NamedTuple):
    """The point of a cell's grid that is reported, and what it was chosen from."""

    point: Point | None
    trials: list[Trial]


@dataclass
class StudyStatus:
    """Where a study is: for each cell its choice and the folders of its runs."""

    selections: dict[Cell, Selection] = field(default_factory=dict)
    done: dict[Cell, list[Path]] = field(default_factory=dict)
    failed: dict[Path, str] = field(default_factory=dict)
    waiting: list[Path] = field(default_factory=list)  # of those known by now
    undecided: list[Cell] = field(default_factory=list)  # their search is not finished
    finished: int = 0  # runs, searches included
    later: int = 0  # runs that have no name before their cell's search is finished

    @property
    def total(self) -> int:
        """How many runs there are, each in one state: finished, failed, waiting, or for later."""
        return self.finished + len(self.failed) + len(self.waiting) + self.later

    @property
    def complete(self) -> bool:
        """Whether every run is finished or has failed."""
        return not self.waiting and not self.undecided

    @property
    def whole(self) -> bool:
        """Whether every line of the tables has all its runs."""
        chosen = all(choice.point is not None for choice in self.selections.values())
        return self.complete and chosen and not self.failed


def plan_study(
    study: Study, store: Path, *, everything: bool = False
) -> list[tuple[Cell, RunConfig]]:
    """Return every run that can be named by now: searches, and the reported ones of selections.

    Args:
        study: what to run.
        store: folder of the runs.
        everything: of a cell that is not decided take the first point, to see how many there are.
    """
    wanted = []
    for cell in study.cells:
        points = study.points(cell)
        if len(points) > 1:
            for point in points:
                wanted += [(cell, each) for each in study.configs(cell, point, search=True)]
        choice = select_point(study, cell, store)
        chosen = choice.point if choice is not None else points[0] if everything else None
        if chosen is not None:
            wanted += [(cell, each) for each in study.configs(cell, chosen)]
    seen: dict[str, tuple[Cell, RunConfig]] = {}
    for cell, config in wanted:
        seen.setdefault(config.folder, (cell, config))
    return list(seen.values())


def run_study(
    study: Study,
    store: Path,
    execute: Execute,
    told: Callable[[Job, dict[str, Any]], None],
    *,
    retry: bool = False,
    restart: bool = False,
    force: bool = False,
    checkpoint_every: float = 120.0,
    planned: Callable[[list[Job], int], None] | None = None,
) -> StudyStatus:
    """Run what is not finished, choose, run what was chosen, and return where the study is.

    Args:
        study: what to run.
        store: folder of the runs.
        execute: does jobs: one after the other, as processes, on a cluster.
        told: called with each message of a run.
        retry: also run again what has failed.
        restart: start unfinished and failed runs from scratch; finished ones are kept.
        force: go on with unfinished runs even if data or versions are others.
        checkpoint_every: seconds between two checkpoints.
        planned: called before each round with its jobs, and with how many will follow later.
    """
    check_store(store)
    trials: set[str] = set()

    def listen(job: Job, message: dict[str, Any]) -> None:
        if "ended" in message:
            _note_failure(job)
        told(job, message)

    while True:
        jobs = []
        wanted = [config for _, config in plan_study(study, store)]
        for config in wanted:
            folder = store / config.folder
            if config.folder in trials or is_finished(folder):
                continue
            if failure_of(folder) is not None and not (retry or restart):
                continue
            job = Job(config, folder, resume=not restart, force=force)
            job.overwrite = "unfinished" if restart else False
            job.checkpoint_every = checkpoint_every
            jobs.append(job)
        if not jobs:
            break
        now = study_status(study, store)
        _write_down(study, store, now, wanted)  # for those who look on
        trials |= {job.config.folder for job in jobs}
        if planned is not None:
            planned(jobs, now.later)
        execute(jobs, listen)
    found = study_status(study, store)
    with suppress(RecordError):  # a store that may only be read: nothing was left to do
        _write_down(study, store, found, wanted)
    return found


def study_status(study: Study, store: Path) -> StudyStatus:
    """Return where a study is, from what is in its store."""
    found = StudyStatus()
    finished: dict[str, bool] = {}  # each run is asked once: two variants may be the same one
    later: set[str] = set()
    for cell in study.cells:
        choice = select_point(study, cell, store)
        points = study.points(cell)
        search = [
            each
            for point in points
            if len(points) > 1
            for each in study.configs(cell, point, search=True)
        ]
        reported: list[RunConfig] = []
        if choice is None:
            found.undecided.append(cell)
            later |= {each.folder for each in study.configs(cell, points[0])}
        else:
            found.selections[cell] = choice
            reported = study.configs(cell, choice.point) if choice.point is not None else []
        shown = [each.folder for each in reported]
        for name in (*(each.folder for each in search), *shown):
            if name not in finished:
                finished[name] = is_finished(store / name)
        found.done[cell] = [store / name for name in shown if finished[name]]
    for folder in (store / name for name, ended in finished.items() if not ended):
        if (why := failure_of(folder)) is not None:
            found.failed[folder] = why
        else:
            found.waiting.append(folder)
    found.finished = sum(finished.values())
    found.later = len(later - finished.keys())
    return found


def select_point(study: Study, cell: Cell, store: Path) -> Selection | None:
    """Return the best point of a cell's grid, None while its search is not finished.

    The mean over the seeds decides; a point that failed with any seed, or whose metric is
    undefined, is out. Of equal ones the first stands.
    """
    points = study.points(cell)
    if len(points) == 1:
        return Selection(points[0], [])
    trials = []
    for point in points:
        folders = [store / each.folder for each in study.configs(cell, point, search=True)]
        left = [folder for folder in folders if not is_finished(folder)]
        why = next((w for folder in left if (w := failure_of(folder)) is not None), None)
        if why is None and left:
            return None
        trials.append(Trial(point, None, why) if why is not None else _tried(study, point, folders))
    known = [each for each in trials if each.score is not None]
    sign = -1 if find_metric(study.select.by).better == "lower" else 1
    best = max(known, key=lambda each: sign * (each.score or 0.0), default=None)
    return Selection(None if best is None else best.point, trials)


def _tried(study: Study, point: Point, folders: Sequence[Path]) -> Trial:
    scores = []
    for folder in folders:
        found = load_summary(folder)
        if study.select.by not in found.metrics:
            return Trial(point, None, found.undefined.get(study.select.by, "not computed"))
        scores.append(found.metrics[study.select.by])
    return Trial(point, fmean(scores))


def _note_failure(job: Job) -> None:
    """Write down why a run has failed, unless it could still go on: nothing stops the others."""
    if job.error is None or job.kind in ("RecordError", "ResumeError") or job.code == INTERRUPTED:
        return
    said = {
        "error": job.error,
        "code": job.code,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    job.folder.mkdir(parents=True, exist_ok=True)
    replace_file(job.folder / FAILED, json.dumps(said, indent=1) + "\n")


def _write_down(study: Study, store: Path, found: StudyStatus, runs: Sequence[RunConfig]) -> None:
    """Write what was chosen, and from what, into the store, and which runs there are."""
    selections = [
        {
            **cell._asdict(),
            "point": choice.point,
            "trials": [each._asdict() for each in choice.trials],
        }
        for cell, choice in found.selections.items()
        if choice.trials
    ]
    said = {
        "study": msgspec.to_builtins(study),
        "selections": selections,
        "runs": [each.folder for each in runs],
        "later": found.later,
    }
    try:
        store.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RecordError(f"{store}: {(error.strerror or str(error)).lower()}") from None
    replace_file(store / f"{study.name}.study.json", json.dumps(said, indent=1) + "\n")
