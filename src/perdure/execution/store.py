"""A folder of runs: what is finished there is not run again."""

from __future__ import annotations

from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from ..record import InputError, RunFolder
from .jobs import Job

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ..training.config import RunConfig

__all__ = ["can_resume", "check_store", "find_last_run", "plan_jobs"]


def plan_jobs(
    configs: Sequence[RunConfig], store: Path, *, restart: bool = False
) -> tuple[list[Job], list[Job]]:
    """Return the jobs that are finished in the store, and those to be done.

    Unfinished runs resume from their checkpoints; with `restart`, all start from scratch.
    """
    finished: list[Job] = []
    waiting: list[Job] = []
    for config in configs:
        job = Job(config, store / config.folder, resume=not restart)
        job.overwrite = restart and job.folder.exists()
        (finished if RunFolder(job.folder).is_finished() and not restart else waiting).append(job)
    check_store(store, writable=bool(waiting))
    return finished, waiting


def check_store(store: Path, *, writable: bool) -> None:
    """Raise if a store cannot be a folder or, if it has to be `writable`, cannot be written to."""
    existing = next(path for path in (store, *store.absolute().parents) if path.exists())
    if not existing.is_dir():
        raise InputError(f"store is {str(store)!r}, and {existing} is a file, expected a folder")
    if writable and not _can_write(existing):
        raise InputError(
            f"store is {str(store)!r}, and {existing} cannot be written to, expected a folder that "
            "can; fix its permissions or choose another `store=`"
        )


def _can_write(folder: Path) -> bool:
    """Return whether a folder can be made in another; permissions alone do not say it."""
    try:
        TemporaryDirectory(dir=folder, prefix=".write-test-").cleanup()
    except OSError:
        return False
    return True


def can_resume(job: Job) -> bool:
    """Return whether a run is to be resumed and has a checkpoint."""
    return job.resume and RunFolder(job.folder).has_checkpoint()


def find_last_run(scenario: str, store: Path) -> Path | None:
    """Return the newest finished run of a scenario in a store."""
    runs = (RunFolder(path) for path in store.glob(f"{scenario}-*"))
    finished = [run for run in runs if run.is_finished()]
    return max(finished, key=RunFolder.finished_at).path if finished else None
