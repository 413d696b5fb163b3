"""One run on a node of a Ray cluster, in the driver's store or in a folder of the node."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import msgspec

from .. import __version__
from ..record import RecordError, read_file
from ..record.archive import lock_run, pack_run, unpack_run
from .events import FailureEvent, NoteEvent
from .jobs import Job, perform

if TYPE_CHECKING:
    from ray import ObjectRef
    from ray.actor import ActorHandle

    from ..scenarios import Scenario
    from .collector import AttemptStart, Collector
    from .events import RunEvent

__all__ = ["TOKEN", "RayTask", "run_ray_task"]

TOKEN = ".shared"  # noqa: S105 - a file in the store by which a node knows that it sees it
LOCK_SECONDS = 30.0  # for a process of a lost attempt to end


class RayTask(msgspec.Struct, frozen=True):
    """An attempt at a run, as it is sent to a node."""

    index: int  # of the job
    attempt: int
    job: Job
    token: str | None  # the content of `TOKEN` in the store; None if no node sees the store
    module_paths: list[str]  # where the driver finds the user's own modules
    version: str


def run_ray_task(task: RayTask, scenario: Scenario, collector: ActorHandle[Collector]) -> int:
    """Return the exit code of a run after doing it on this node.

    Args:
        task: The run.
        scenario: The scenario that it learns.
        collector: The actor of `Collector`.
    """
    sys.path += [path for path in task.module_paths if path not in sys.path]
    attempt = _Attempt(task, collector)
    if task.version != __version__:
        return attempt.fail(
            f"this node has perdure {__version__}, the driver {task.version}; install the same one"
        )
    start = attempt.start()
    if start.finished:
        return 0
    if start.refusal:
        return attempt.fail(start.refusal)
    try:
        if attempt.sees_store:
            return attempt.run_in_store(scenario)
        with TemporaryDirectory(prefix="perdure-") as temporary:
            return attempt.run_on_node(Path(temporary) / "run", start.files, scenario)
    except RecordError as error:
        return attempt.fail(str(error))
    except SystemExit as left:  # raised by the user's code: this process does other runs too
        return left.code if isinstance(left.code, int) else 1
    except KeyboardInterrupt:
        os._exit(130)  # an import may be half done: no other run starts in this process


class _Attempt:
    """A run being done, and its connection to the collector."""

    def __init__(self, task: RayTask, collector: ActorHandle[Collector]) -> None:
        self._id, self._job, self._collector = (task.index, task.attempt), task.job, collector
        if task.attempt:
            self._job.overwrite, self._job.resume = False, True
        try:
            token = read_file(self._job.folder.parent / TOKEN, 1024).decode()
            self.sees_store = task.token == token
        except (OSError, ValueError):
            self.sees_store = False

    def start(self) -> AttemptStart:
        import ray

        reference: ObjectRef[AttemptStart] = self._collector.start_attempt.remote(
            *self._id, sees_store=self.sees_store
        )
        return ray.get(reference)

    def send(self, event: RunEvent) -> None:
        self._collector.add_event.remote(*self._id, event)

    def fail(self, reason: str) -> int:
        self.send(FailureEvent(reason))
        return self._flush(1)

    def run_in_store(self, scenario: Scenario) -> int:
        """Do the run in the driver's store."""
        with lock_run(self._job.folder, timeout=LOCK_SECONDS):
            pass  # the process of the attempt before has ended
        return self._flush(perform(self._job, self.send, scenario=scenario))

    def run_on_node(self, folder: Path, files: dict[str, bytes], scenario: Scenario) -> int:
        """Do the run in a folder of this node; its files are sent home after each checkpoint."""
        folder.mkdir()
        unpack_run(files, folder)
        self._job.folder = folder

        def on_checkpoint() -> None:
            if reason := self._send_files(folder):
                self.send(NoteEvent(f"a checkpoint could not be sent to the driver: {reason}"))

        code = perform(self._job, self.send, scenario=scenario, on_checkpoint=on_checkpoint)
        if reason := self._send_files(folder):
            return self.fail(f"the record could not be sent to the driver: {reason}")
        return code

    def _send_files(self, folder: Path) -> str | None:
        import ray

        reference: ObjectRef[str | None] = self._collector.store_files.remote(
            *self._id, pack_run(folder)
        )
        return ray.get(reference)

    def _flush(self, code: int) -> int:
        """Return `code` once the collector has all events."""
        import ray

        ray.get(self._collector.flush.remote())
        return code
