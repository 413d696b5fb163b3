"""Running a study: searches first, then the selected grid points; finished runs are skipped."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from ..execution.events import ExitEvent
from ..execution.jobs import Job
from ..execution.store import check_store
from ..record import RecordError, RunFolder, replace_file
from .status import study_status

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from ..execution.events import OnEvent, RunEvent
    from .status import StudyStatus
    from .study import Study

    Execute = Callable[[Sequence[Job], OnEvent], None]

__all__ = ["run_study"]

INTERRUPTED = 130  # exit code
RESUMABLE = ("RecordError", "ResumeError")  # errors after which a run may still be resumed


def run_study(
    study: Study,
    store: Path,
    execute: Execute,
    on_event: OnEvent,
    *,
    retry_failed: bool = False,
    restart: bool = False,
    force: bool = False,
    checkpoint_every: float = 120.0,
    on_round: Callable[[list[Job], int], None] | None = None,
) -> StudyStatus:
    """Run what is not finished, select grid points, run those, and return the study's status.

    Args:
        study: The study to run.
        store: Folder in which the runs are stored.
        execute: Executes jobs, e.g. `perdure.execution.run_serially`.
        on_event: Called with each event of a run.
        retry_failed: Run failed runs again.
        restart: Restart unfinished and failed runs from scratch; finished runs are kept.
        force: Resume unfinished runs even if data or versions have changed.
        checkpoint_every: Seconds between two checkpoints of a run.
        on_round: Called before each round with its jobs and the number of runs that are known to
            follow it.
    """
    check_store(store, writable=False)
    attempted: set[Path] = set()
    status: StudyStatus | None = None

    def listen(job: Job, event: RunEvent) -> None:
        if isinstance(event, ExitEvent):
            _record_failure(job)
        on_event(job, event)

    while True:
        status = study_status(study, store, status)
        todo = {*status.waiting, *(status.failed if retry_failed or restart else ())} - attempted
        jobs = [
            Job(
                config, folder, overwrite="unfinished" if restart else False, resume=not restart,
                force=force, checkpoint_every=checkpoint_every, cache_summary=True,
            )
            for _, config in status.planned
            if (folder := store / config.folder) in todo
        ]  # fmt: skip
        if not jobs:
            break
        check_store(store, writable=True)
        _write_study_file(study, store, status)  # for readers while the study runs
        attempted |= {job.folder for job in jobs}
        if on_round is not None:
            on_round(jobs, len(status.after_selection))
        execute(jobs, listen)
    with suppress(RecordError):  # a read-only store: nothing was left to run
        _write_study_file(study, store, status)
    return status


def _record_failure(job: Job) -> None:
    """Write down why a run has failed, unless it can still be resumed."""
    if job.error is None or job.error_type in RESUMABLE or job.code == INTERRUPTED:
        return
    RunFolder(job.folder).write_failure(job.error, job.code)


def _write_study_file(study: Study, store: Path, status: StudyStatus) -> None:
    selections = [
        {
            **cell._asdict(),
            "point": selection.point,
            "trials": [trial._asdict() for trial in selection.trials],
        }
        for cell, selection in status.selections.items()
        if selection.trials
    ]
    plain = {
        "study": msgspec.to_builtins(study),
        "selections": selections,
        "runs": [run.config.folder for run in status.planned],
        "later": len(status.after_selection),
    }
    try:
        store.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RecordError(f"{store}: {(error.strerror or str(error)).lower()}") from None
    replace_file(store / f"{study.name}.study.json", json.dumps(plain, indent=1) + "\n")
