"""Runs one after the other in this process: the simplest executor, and easy to debug."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..record import RunFolder
from .events import ExitEvent, ProgressEvent
from .jobs import perform

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .events import OnEvent, RunEvent
    from .jobs import Job

__all__ = ["run_serially"]


def run_serially(jobs: Sequence[Job], on_event: OnEvent) -> None:
    """Do every job in turn; each job records how it ended.

    Args:
        jobs: The runs.
        on_event: Called with every event of every job.
    """
    for job in jobs:

        def report(event: RunEvent, job: Job = job) -> None:
            job.apply(event)
            on_event(job, event)

        # Another command may have finished the run meanwhile.
        done = job.overwrite is not True and RunFolder(job.folder).is_finished()
        if not done:
            report(ProgressEvent(0.0))
        report(ExitEvent(0 if done else perform(job, report)))
