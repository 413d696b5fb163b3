"""One run on a node of a cluster: in place where the store is seen, else sent home in pieces."""

from __future__ import annotations

import os
import sys
import warnings
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import __version__
from ..evaluation.recorder import EvaluationWarning
from ..record import RecordError, read_file
from .jobs import Job, perform
from .run_archive import alone, packed, unpacked

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..scenarios import Scenario
    from .collector import Beginning

__all__ = ["TOKEN", "RayTask", "run_ray_task"]

TOKEN = ".shared"  # noqa: S105 - a file in the store by which a node knows that it sees it
LINGER = 30.0  # seconds that a process of a lost run may take to end


class RayTask(NamedTuple):
    """What a node has to know."""

    number: int
    attempt: int
    job: dict[str, Any]
    token: str | None  # what `TOKEN` says in the store; None if nobody sees it
    paths: list[str]  # where the driver finds modules of the user's own
    version: str


def run_ray_task(errand: RayTask, scenario: Scenario, desk: Any) -> int:
    """Do a run on this node and return its exit code; the desk hears how it goes.

    Args:
        errand: the run.
        scenario: what it learns.
        desk: the actor of `Collector`.
    """
    sys.path += [path for path in errand.paths if path not in sys.path]
    work = _Work(errand, desk)
    if errand.version != __version__:
        said = f"perdure is {__version__} on this node, expected {errand.version} as the driver has"
        return work.failed(said)
    begun = work.begin()
    if begun.finished:
        return 0
    if begun.refused:
        return work.failed(begun.refused)
    try:
        with work.heard(), TemporaryDirectory(prefix="perdure-") as temporary:
            if work.here:
                return work.in_place(scenario)
            return work.sent_home(Path(temporary) / "run", begun.files, scenario)
    except RecordError as error:
        return work.failed(str(error))
    except SystemExit as left:  # of the user's code: this process does other runs too
        return left.code if isinstance(left.code, int) else 1
    except KeyboardInterrupt:
        os._exit(130)  # what it was about to import may be half done: no other run begins here


class _Work:
    """A run being done, and its line to the desk."""

    def __init__(self, errand: RayTask, desk: Any) -> None:
        self._id, self._desk = (errand.number, errand.attempt), desk
        self._job = Job.of(errand.job)
        if errand.attempt:
            self._job.overwrite, self._job.resume = False, True
        token = self._job.folder.parent / TOKEN
        try:
            said = None if errand.token is None else read_file(token, 1024).decode()
            self.here = said is not None and said == errand.token
        except (OSError, ValueError):
            self.here = False

    def begin(self) -> Beginning:
        import ray

        begun: Beginning = ray.get(self._desk.begin.remote(*self._id, here=self.here))
        return begun

    def tell(self, message: dict[str, Any]) -> None:
        self._desk.tell.remote(*self._id, message)

    def failed(self, said: str) -> int:
        self.tell({"error": said})
        return self._flushed(1)

    def in_place(self, scenario: Scenario) -> int:
        """Do the run in the driver's store."""
        with alone(self._job.folder, patience=LINGER):
            pass  # whoever did it before has ended
        return self._flushed(perform(self._job, self.tell, scenario=scenario))

    def sent_home(self, folder: Path, files: dict[str, bytes], scenario: Scenario) -> int:
        """Do the run in a folder of this node; what is recorded goes home whenever it is saved."""
        folder.mkdir()
        unpacked(files, folder)
        self._job.folder = folder

        def checkpointed() -> None:
            if trouble := self._send(folder):
                self.tell({"note": f"a checkpoint did not get home: {trouble}"})

        code = perform(self._job, self.tell, scenario=scenario, checkpointed=checkpointed)
        if trouble := self._send(folder):
            return self.failed(f"what was recorded did not get home: {trouble}")
        return code

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Tell the desk what would be warned of here."""
        with warnings.catch_warnings():
            warnings.simplefilter("always", EvaluationWarning)  # a second run may say the same
            warnings.showwarning = lambda said, *_, **__: self.tell({"note": str(said)})
            yield

    def _send(self, folder: Path) -> str | None:
        import ray

        trouble: str | None = ray.get(self._desk.keep.remote(*self._id, packed(folder)))
        return trouble

    def _flushed(self, code: int) -> int:
        """Return `code` once the desk has heard everything before it."""
        import ray

        ray.get(self._desk.ready.remote())
        return code
