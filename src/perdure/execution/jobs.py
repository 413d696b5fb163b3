"""A run to do, and doing it: the same in this process, in another one and on another machine."""

from __future__ import annotations

import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from ..record import RecordError, load_summary
from ..record.io.append import check_folder
from ..training.checkpointer import EVERY
from ..training.config import RunConfig

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..evaluation.live import Live
    from ..scenarios import Scenario

__all__ = ["Job", "explained", "noted", "perform"]

REFRESH = 0.2  # seconds between two messages of how far a run is


@dataclass
class Job:
    """One run to do, and how it went."""

    config: RunConfig
    folder: Path
    overwrite: bool | Literal["unfinished"] = False
    resume: bool = False
    force: bool = False  # go on even if data or versions are others
    checkpoint_every: float = EVERY
    error: str | None = None
    detail: str = ""
    kind: str = ""  # of the error
    code: int | None = None
    seconds: float | None = None  # that it took
    notes: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Return what is to be done as plain data."""
        return {
            "config": msgspec.to_builtins(self.config),
            "folder": str(self.folder),
            "overwrite": self.overwrite,
            "resume": self.resume,
            "force": self.force,
            "checkpoint_every": self.checkpoint_every,
        }

    @classmethod
    def of(cls, plain: dict[str, Any]) -> Job:
        """Return the job that `as_dict` was asked for."""
        config = msgspec.convert(plain["config"], RunConfig)
        rest = {k: plain[k] for k in ("overwrite", "resume", "force", "checkpoint_every")}
        return cls(config, Path(plain["folder"]), **rest)


def perform(
    job: Job,
    tell: Callable[[dict[str, Any]], None],
    *,
    scenario: Scenario | None = None,
    checkpointed: Callable[[], None] | None = None,
) -> int:
    """Do a run and return its exit code; how it goes and what goes wrong is told.

    Args:
        job: the run.
        tell: called with `share` and live numbers now and then, and with an `error`.
        scenario: the one it is about, where it is at hand.
        checkpointed: called after each checkpoint.
    """
    from ..training.changes import is_finished
    from ..training.run import run

    began, following = time.perf_counter(), 0.0

    def progress(share: float, live: Live) -> None:
        nonlocal following
        if time.monotonic() >= following or share >= 1:
            following = time.monotonic() + REFRESH
            numbers = {"task": live.task, "current": live.current, "min_acc": live["min_acc"]}
            tell({"share": share, **numbers})

    try:
        check_folder(job.folder)
        run(
            job.config, job.folder, overwrite=job.overwrite, resume=job.resume,
            force=job.force, scenario=scenario,
            progress=progress, checkpoint_every=job.checkpoint_every, checkpointed=checkpointed,
        )  # fmt: skip
        load_summary(
            job.folder, keep=True
        )  # kept there: a study's tables need not compute them again
        tell({"seconds": time.perf_counter() - began})
    except Exception as error:
        meanwhile = job.overwrite is not True and is_finished(job.folder)
        if isinstance(error, RecordError) and meanwhile:
            tell({"note": "finished by another process meanwhile"})
            return 0
        said, code = explained(error)
        tell(said)
        return code
    return 0


def explained(error: Exception) -> tuple[dict[str, Any], int]:
    """Return what to say about an error, with a traceback unless it explains itself, and a code."""
    kind = type(error).__name__
    said = {"error": str(error) or kind, "kind": kind}
    if isinstance(error, ValueError):
        return said, 2
    if isinstance(error, RecordError | MemoryError) or "out of memory" in said["error"]:
        return said, 1
    if not isinstance(error, RuntimeError | OSError):
        said["error"] = f"{kind}: {error}"
    return {**said, "detail": traceback.format_exc()}, 1


def noted(job: Job, message: dict[str, Any]) -> None:
    """Note in a job what was said about it."""
    if "error" in message:
        job.error, job.detail = message["error"], message.get("detail", "")
        job.kind = message.get("kind", "")
    if "seconds" in message:
        job.seconds = message["seconds"]
    if "note" in message:
        job.notes.append(message["note"])
    if "ended" in message:
        job.code = int(message["ended"])
        unfinished = job.code != 0 or not (job.folder / "done.json").exists()
        if unfinished and job.error is None:
            by = f"was killed by signal {-job.code}" if job.code < 0 else f"ended with {job.code}"
            job.error = f"its process {by} before the run was finished; what was recorded stays"
            job.code = job.code or 1
