"""Runs as processes side by side, each with its own threads."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from .description import Description

__all__ = ["Job", "at_once", "run_jobs"]

GRACE = 15  # seconds that an interrupted process has to put its record in order


@dataclass
class Job:
    """One run to do, and how it went."""

    description: Description
    folder: Path
    overwrite: bool = False
    error: str | None = None
    detail: str = ""
    code: int | None = None
    notes: list[str] = field(default_factory=list)


def at_once(threads: int) -> int:
    """Return how many runs of so many threads this machine's cores hold."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS
        cores = os.cpu_count() or 1
    return max(1, cores // threads)


def run_jobs(
    jobs: Sequence[Job], *, most: int, told: Callable[[Job, dict[str, Any]], None]
) -> None:
    """Run every job, at most so many at a time; how each ended is noted in it.

    An interrupt ends the processes first and is raised then: what they recorded stays.

    Args:
        jobs: the runs.
        most: how many at a time.
        told: called with each message: `share` and live numbers, a `note`, an `error`, `ended`.
    """
    waiting, running = list(jobs), dict[int, subprocess.Popen[bytes]]()
    messages: queue.Queue[tuple[int, dict[str, Any]]] = queue.Queue()
    try:
        while waiting or running:
            while waiting and len(running) < most:
                number = len(jobs) - len(waiting)
                if not waiting[0].overwrite and (waiting[0].folder / "done.json").exists():
                    waiting.pop(0).code = 0  # another command has finished it meanwhile
                    continue
                with _uninterrupted():
                    running[number] = _started(waiting.pop(0))
                    threading.Thread(
                        target=_listen, args=(number, running[number], messages), daemon=True
                    ).start()
            if not running:
                continue
            number, message = messages.get()
            _note(jobs[number], message)
            told(jobs[number], message)
            if "ended" in message:
                with running.pop(number):  # waits, and closes its pipes
                    pass
    finally:
        with _uninterrupted():  # a second interrupt waits: no process is left behind
            _end(list(running.values()))


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Hold interrupts back; a process started here does so until it is ready for them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _started(job: Job) -> subprocess.Popen[bytes]:
    threads = str(job.description.threads)
    several = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    process = subprocess.Popen(
        [sys.executable, "-m", "perdure.experiments.child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **dict.fromkeys(several, threads)},
    )
    what = {
        "description": msgspec.to_builtins(job.description),
        "folder": str(job.folder),
        "overwrite": job.overwrite,
    }
    assert process.stdin is not None
    with suppress(BrokenPipeError):  # it has ended already, which `_listen` will tell
        process.stdin.write(json.dumps(what).encode() + b"\n")
        process.stdin.flush()  # and it stays open: the process lives as long as we do
    return process


def _listen(
    number: int,
    process: subprocess.Popen[bytes],
    messages: queue.Queue[tuple[int, dict[str, Any]]],
) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        with suppress(ValueError):  # torn: it was killed while it wrote
            messages.put((number, json.loads(line)))
    messages.put((number, {"ended": process.wait()}))


def _note(job: Job, message: dict[str, Any]) -> None:
    if "error" in message:
        job.error, job.detail = message["error"], message.get("detail", "")
    if "note" in message:
        job.notes.append(message["note"])
    if "ended" in message:
        job.code = int(message["ended"])
        unfinished = job.code != 0 or not (job.folder / "done.json").exists()
        if unfinished and job.error is None:
            by = f"was killed by signal {-job.code}" if job.code < 0 else f"ended with {job.code}"
            job.error = f"its process {by} before the run was finished; what was recorded stays"
            job.code = job.code or 1


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """End processes by closing their input, which they wait for; kill those that do not."""
    for process in processes:
        assert process.stdin is not None
        with suppress(OSError):
            process.stdin.close()
    for process in processes:
        try:
            process.wait(GRACE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
