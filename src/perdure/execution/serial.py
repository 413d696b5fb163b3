"""Runs one after the other, in this process: the simplest way, and one that a debugger follows."""

from __future__ import annotations

import warnings
from functools import partial
from typing import TYPE_CHECKING, Any

from .jobs import noted, perform

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .jobs import Job

__all__ = ["run_serially"]


def run_serially(jobs: Sequence[Job], told: Callable[[Job, dict[str, Any]], None]) -> None:
    """Do every job in turn; how each ended is noted in it.

    Args:
        jobs: the runs.
        told: called with each message: `share` and live numbers, a `note`, an `error`, `ended`.
    """

    def tell(job: Job, message: dict[str, Any]) -> None:
        noted(job, message)
        told(job, message)

    for job in jobs:
        if not job.overwrite and (job.folder / "done.json").exists():
            tell(job, {"ended": 0})  # another command has finished it meanwhile
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = lambda said, *_, job=job, **__: tell(job, {"note": str(said)})
            code = perform(job, partial(tell, job))
        tell(job, {"ended": code})
