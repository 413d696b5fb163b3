"""The desk of a cluster: on the driver's node, it hears how runs go and keeps what they send."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ..record import RecordError
from ..training.changes import is_finished
from .jobs import Job
from .run_archive import alone, emptied, packed, unpacked

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Beginning", "Collector"]


class Beginning(NamedTuple):
    """What a run begins with."""

    files: dict[str, bytes]  # what is there of it
    finished: bool = False  # nothing is left to do
    refused: str | None = None  # why it must not begin


class Collector:
    """Where runs elsewhere report. A run that was lost and comes back late is not listened to.

    Args:
        jobs: every job as plain data; they are called by their number here.
    """

    def __init__(self, jobs: Sequence[dict[str, Any]]) -> None:
        self._jobs = [Job.of(each) for each in jobs]
        self._attempts = [-1] * len(jobs)
        self._said: list[tuple[int, dict[str, Any]]] = []
        self._shares: dict[int, dict[str, Any]] = {}

    def begin(self, number: int, attempt: int, *, here: bool) -> Beginning:
        """Return what a run goes on from; from now on this attempt is the one that counts.

        Args:
            number: of the job.
            attempt: how often it was begun before.
            here: it sees the driver's store and needs no files.
        """
        self._attempts[number] = max(self._attempts[number], attempt)
        job = self._jobs[number]
        anew = job.overwrite and attempt == 0
        replace = job.overwrite is True and attempt == 0
        if is_finished(job.folder) and not replace:
            return Beginning({}, finished=True)
        try:
            if anew and job.folder.exists():
                with alone(job.folder):
                    if is_finished(job.folder) and not replace:  # meanwhile
                        return Beginning({}, finished=True)
                    emptied(job.folder)
        except (RecordError, OSError) as error:
            return Beginning({}, refused=str(error))
        return Beginning({} if here else packed(job.folder))

    def tell(self, number: int, attempt: int, message: dict[str, Any]) -> None:
        """Hear a message; of how far a run is, only the newest matters."""
        if attempt != self._attempts[number]:
            return
        if "share" in message:
            self._shares[number] = message
        else:
            self._said.append((number, message))

    def keep(self, number: int, attempt: int, files: Mapping[str, bytes]) -> str | None:
        """Write what a run has sent into its folder, and return what went wrong, if anything."""
        if attempt != self._attempts[number]:
            return "it was begun again elsewhere"
        folder = self._jobs[number].folder
        try:
            with alone(folder):
                if not is_finished(folder):  # else another process has finished it meanwhile
                    unpacked(files, folder)
        except (RecordError, OSError, ValueError) as error:
            return str(error)
        return None

    def ready(self) -> bool:
        """Return True, after everything that the caller has told before."""
        return True

    def heard(self) -> list[tuple[int, dict[str, Any]]]:
        """Return what was said since the last time, by job."""
        said = [*self._shares.items(), *self._said]
        self._shares, self._said = {}, []
        return said
