"""A run to do, and doing it: the same in this process, in another one and on another machine."""

from __future__ import annotations

import json
import time
import traceback
import warnings
from contextlib import contextmanager
from pathlib import Path  # noqa: TC003 - msgspec reads annotations
from typing import TYPE_CHECKING, Literal

import msgspec

from ..record import RecordError, RunFolder, load_summary
from ..record.io.folder import check_folder
from ..training.config import CHECKPOINT_SECONDS, RunConfig
from .events import ExitEvent, FailureEvent, NoteEvent, ProgressEvent, SuccessEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from ..evaluation.live import Live
    from ..scenarios import Scenario
    from .events import RunEvent

__all__ = [
    "Job",
    "decode_job",
    "encode_job",
    "explain_error",
    "perform",
    "perform_stepwise",
    "warnings_as_notes",
]

PROGRESS_SECONDS = 0.2  # between two progress events of a run


class Job(msgspec.Struct, omit_defaults=True):
    """A run to do, and how it went."""

    config: RunConfig
    folder: Path
    overwrite: bool | Literal["unfinished"] = False
    resume: bool = False
    force: bool = False  # resume even if data or versions have changed
    checkpoint_every: float = CHECKPOINT_SECONDS
    cache_summary: bool = False  # write the metrics next to the record, for a study's tables

    code: int | None = None  # None until the job has ended
    error: str | None = None
    error_type: str = ""
    traceback: str = ""
    seconds: float | None = None
    notes: list[str] = []

    def apply(self, event: RunEvent) -> None:
        """Record what an event says about this job."""
        match event:
            case FailureEvent(reason, error_type, text):
                self.error, self.error_type, self.traceback = reason, error_type, text
            case SuccessEvent(seconds):
                self.seconds = seconds
            case NoteEvent(text):
                self.notes.append(text)
            case ExitEvent(code):
                self.code = code
                if self.error is None and (code != 0 or not RunFolder(self.folder).is_finished()):
                    cause = f"was killed by signal {-code}" if code < 0 else f"exited with {code}"
                    self.error = (
                        f"its process {cause} before the run was finished; its record is kept"
                    )
                    self.code = code or 1


# The json of the standard library, because msgspec writes an infinite `checkpoint_every` as null.


def encode_job(job: Job) -> bytes:
    """Return a job as JSON."""
    return json.dumps(msgspec.to_builtins(job, enc_hook=str)).encode()


def decode_job(data: bytes) -> Job:
    """Return the job that `encode_job` was given."""
    return msgspec.convert(json.loads(data), Job, dec_hook=lambda kind, value: kind(value))


def perform(
    job: Job,
    on_event: Callable[[RunEvent], None],
    *,
    scenario: Scenario | None = None,
    on_checkpoint: Callable[[], None] | None = None,
) -> int:
    """Return the exit code of a run after doing it; as `perform_stepwise` otherwise."""
    from ..training.single_run import deterministic_cudnn, exhaust

    steps = perform_stepwise(job, on_event, scenario=scenario, on_checkpoint=on_checkpoint)
    with deterministic_cudnn(), warnings_as_notes(on_event):
        return exhaust(steps)


def perform_stepwise(
    job: Job,
    on_event: Callable[[RunEvent], None],
    *,
    scenario: Scenario | None = None,
    on_checkpoint: Callable[[], None] | None = None,
    together: int = 1,
) -> Generator[int, None, int]:
    """Yield how many steps of a run were taken; return its exit code.

    Errors become a `FailureEvent`.

    Args:
        job: The run.
        on_event: Called with every event but the last, the `ExitEvent` of the executor.
        scenario: The scenario of the run, if it has been built already.
        on_checkpoint: Called after each checkpoint.
        together: How many runs take turns in this process.
    """
    from ..training.single_run import (
        run_stepwise,
    )  # imports PyTorch, which a finished run needs not

    start, next_event = time.perf_counter(), 0.0

    def on_progress(fraction: float, live: Live) -> None:
        nonlocal next_event
        if time.monotonic() >= next_event or fraction >= 1:
            next_event = time.monotonic() + PROGRESS_SECONDS
            on_event(ProgressEvent(fraction, live.task, live.current, live["min_acc"]))

    try:
        check_folder(job.folder)
        yield from run_stepwise(
            job.config, job.folder, overwrite=job.overwrite, resume=job.resume,
            force=job.force, scenario=scenario, on_progress=on_progress,
            checkpoint_every=job.checkpoint_every, on_checkpoint=on_checkpoint, together=together,
        )  # fmt: skip
        if job.cache_summary:
            load_summary(job.folder, keep=True)
        on_event(SuccessEvent(time.perf_counter() - start))
    except Exception as error:
        replaces_finished = job.overwrite is True
        if (
            isinstance(error, RecordError)
            and RunFolder(job.folder).is_finished()
            and not replaces_finished
        ):
            on_event(NoteEvent("finished by another process meanwhile"))
            return 0
        failure, code = explain_error(error)
        on_event(failure)
        return code
    return 0


@contextmanager
def warnings_as_notes(on_event: Callable[[RunEvent], None]) -> Iterator[None]:
    """Report warnings about evaluations as events."""
    from ..evaluation.recorder import EvaluationWarning

    with warnings.catch_warnings():
        warnings.simplefilter("always", EvaluationWarning)  # also for the next run in this process
        warnings.showwarning = lambda message, *_, **__: on_event(NoteEvent(str(message)))
        yield


def explain_error(error: Exception) -> tuple[FailureEvent, int]:
    """Return the failure event and the exit code for an error.

    Errors that explain themselves come without a traceback.
    """
    name = type(error).__name__
    reason = str(error) or name
    if isinstance(error, ValueError):
        return FailureEvent(reason, name), 2
    if isinstance(error, RecordError | MemoryError) or "out of memory" in reason:
        return FailureEvent(reason, name), 1
    if not isinstance(error, RuntimeError | OSError):
        reason = f"{name}: {error}"
    return FailureEvent(reason, name, traceback.format_exc()), 1
