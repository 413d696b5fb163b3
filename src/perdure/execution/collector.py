"""Ray actor on the driver's node that collects events and files from runs on other nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..record import RecordError, RunFolder
from ..record.archive import lock_run, pack_run, remove_run, unpack_run
from .events import ProgressEvent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .events import RunEvent
    from .jobs import Job

__all__ = ["AttemptStart", "Collector"]


class AttemptStart(NamedTuple):
    """What an attempt at a run starts with."""

    files: dict[str, bytes]  # of the run, as far as it was recorded
    finished: bool = False  # nothing is left to do
    refusal: str | None = None  # why it must not start


class Collector:
    """Collects what runs report. An attempt that was lost and comes back late is ignored.

    Args:
        jobs: Every job; methods refer to one by its index.
    """

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._jobs = jobs
        self._attempts = [-1] * len(jobs)
        self._events: list[tuple[int, RunEvent]] = []
        self._progress: dict[int, RunEvent] = {}

    def start_attempt(self, index: int, attempt: int, *, sees_store: bool) -> AttemptStart:
        """Return what a run starts with; from now on, only this attempt counts.

        Args:
            index: Of the job.
            attempt: How often the run was started before.
            sees_store: Whether the run writes into the driver's store and needs no files.
        """
        self._attempts[index] = max(self._attempts[index], attempt)
        job = self._jobs[index]
        restarts = job.overwrite and attempt == 0
        replaces_finished = job.overwrite is True and attempt == 0
        if RunFolder(job.folder).is_finished() and not replaces_finished:
            return AttemptStart({}, finished=True)
        try:
            if restarts and job.folder.exists():
                with lock_run(job.folder):
                    if RunFolder(job.folder).is_finished() and not replaces_finished:  # meanwhile
                        return AttemptStart({}, finished=True)
                    remove_run(job.folder)
        except (RecordError, OSError) as error:
            return AttemptStart({}, refusal=str(error))
        return AttemptStart({} if sees_store else pack_run(job.folder))

    def add_event(self, index: int, attempt: int, event: RunEvent) -> None:
        """Collect an event; of a run's progress only the newest is kept."""
        if attempt != self._attempts[index]:
            return
        if isinstance(event, ProgressEvent):
            self._progress[index] = event
        else:
            self._events.append((index, event))

    def store_files(self, index: int, attempt: int, files: Mapping[str, bytes]) -> str | None:
        """Write the files of a run into its folder; return why that failed, None if it did not."""
        if attempt != self._attempts[index]:
            return "the run was started again elsewhere"
        folder = self._jobs[index].folder
        try:
            with lock_run(folder):
                # Another process may have finished it meanwhile.
                if not RunFolder(folder).is_finished():
                    unpack_run(files, folder)
        except (RecordError, OSError, ValueError) as error:
            return str(error)
        return None

    def flush(self) -> None:
        """Return once every event that the caller sent before has been collected."""

    def take_events(self) -> list[tuple[int, RunEvent]]:
        """Return the events since the last call, each with the index of its job."""
        events = [*self._progress.items(), *self._events]
        self._progress, self._events = {}, []
        return events
