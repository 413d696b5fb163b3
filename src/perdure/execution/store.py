"""A folder of runs: what is finished is not run again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..record import InputError
from ..training.changes import is_finished
from ..training.checkpoint import has_checkpoint
from .jobs import Job

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ..training.config import RunConfig

__all__ = ["can_go_on", "check_store", "jobs_for", "last_of"]


def jobs_for(
    configs: Sequence[RunConfig], store: Path, *, restart: bool = False
) -> tuple[list[Job], list[Job]]:
    """Return the runs that are finished in the store, and those to be done.

    An unfinished run goes on where it was saved; all are done from the start if `restart`.
    """
    check_store(store)
    finished: list[Job] = []
    waiting: list[Job] = []
    for config in configs:
        job = Job(config, store / config.folder)
        job.overwrite, job.resume = restart and job.folder.exists(), not restart
        (finished if is_finished(job.folder) and not restart else waiting).append(job)
    return finished, waiting


def check_store(store: Path) -> None:
    """Raise if a store cannot be a folder."""
    if not (there := next(p for p in (store, *store.absolute().parents) if p.exists())).is_dir():
        raise InputError(f"store is {str(store)!r}, and {there} is a file, expected a folder")


def can_go_on(job: Job) -> bool:
    """Return whether a run was stopped and has a checkpoint to go on from."""
    return job.resume and has_checkpoint(job.folder / "checkpoint")


def last_of(scenario: str, store: Path) -> Path | None:
    """Return the newest finished run of a scenario in a store."""
    found = [path.parent for path in store.glob(f"{scenario}-*/done.json")]
    return max(found, key=lambda folder: (folder / "done.json").stat().st_mtime, default=None)
