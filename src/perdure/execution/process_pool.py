"""Runs as processes side by side, each with its own threads. A process does many runs in turn."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from .jobs import noted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from .jobs import Job

__all__ = ["cores", "default_max_parallel", "run_in_processes"]

GRACE = 15  # seconds that an interrupted process has to put its record in order


def cores() -> int:
    """Return how many cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS
        return os.cpu_count() or 1


def default_max_parallel(threads: int) -> int:
    """Return how many runs of so many threads this machine's cores hold."""
    return max(1, cores() // threads)


def run_in_processes(
    jobs: Sequence[Job],
    told: Callable[[Job, dict[str, Any]], None],
    *,
    most: int | None = None,
    retries: int = 0,
) -> None:
    """Do every job; how each ended is noted in it.

    An interrupt ends the processes first and is raised then: what they recorded stays.

    Args:
        jobs: the runs, begun in this order.
        told: called with each message: `share` and live numbers, a `note`, an `error`, `ended`.
        most: how many at a time; None for as many as the cores hold by the runs' threads.
        retries: how often a run whose process was killed goes on in another one.
    """
    waiting, crew = list(jobs), list[_Worker]()
    messages: queue.Queue[tuple[_Worker, dict[str, Any]]] = queue.Queue()
    killed = dict.fromkeys((id(job) for job in jobs), 0)

    def tell(job: Job, message: dict[str, Any]) -> None:
        noted(job, message)
        told(job, message)

    try:
        while True:
            while waiting and _fits(waiting[0], crew, most):
                job = waiting.pop(0)
                if job.overwrite is not True and (job.folder / "done.json").exists():
                    tell(job, {"ended": 0})  # another command has finished it meanwhile
                    continue
                with _uninterrupted():
                    _hand_over(job, crew, messages)
            if not any(worker.job for worker in crew):
                break
            worker, message = messages.get()
            if "died" in message:
                crew[:] = [other for other in crew if other is not worker]
                worker.close()
                message = {"ended": message["died"]}
            if worker.job is None:
                continue
            job, code = worker.job, message.get("ended", 0)
            if code < 0 and killed[id(job)] < retries:
                killed[id(job)] += 1
                tell(job, {"note": f"its process was killed by signal {-code}; it goes on"})
                job.overwrite, job.resume = False, True
                waiting.insert(0, job)
                continue
            if "ended" in message:
                worker.job = None
            tell(job, message)
    finally:
        with _uninterrupted():  # a second interrupt waits: no process is left behind
            _end(crew)


class _Worker:
    """A process that does one job after another, and the thread that listens to it."""

    def __init__(self, threads: int, messages: queue.Queue[tuple[_Worker, dict[str, Any]]]) -> None:
        self.threads, self.job = threads, None  # type: int, Job | None
        several = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-P",
                "-m",
                "perdure.execution.pool_worker",
            ],  # not from this directory
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **dict.fromkeys(several, str(threads))},
        )
        self._listener = threading.Thread(target=self._listen, args=(messages,), daemon=True)
        self._listener.start()

    def begin(self, job: Job) -> None:
        self.job = job
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended already, which `_listen` will tell
            self.process.stdin.write(json.dumps(job.as_dict()).encode() + b"\n")
            self.process.stdin.flush()  # and it stays open: the process lives as long as we do

    def _listen(self, messages: queue.Queue[tuple[_Worker, dict[str, Any]]]) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with suppress(ValueError):  # torn: it was killed while it wrote
                messages.put((self, json.loads(line)))
        messages.put((self, {"died": self.process.wait()}))

    def close(self) -> None:
        self._listener.join()
        with suppress(OSError), self.process:  # waits, and closes its pipes
            pass


def _fits(job: Job, crew: Sequence[_Worker], most: int | None) -> bool:
    """Return whether a job can begin beside those that run."""
    busy = [worker.threads for worker in crew if worker.job]
    if not busy:
        return True
    if most is not None:
        return len(busy) < most
    return sum(busy) + job.config.threads <= cores()


def _hand_over(
    job: Job, crew: list[_Worker], messages: queue.Queue[tuple[_Worker, dict[str, Any]]]
) -> None:
    """Give a job to a worker that has its number of threads, a new one if there is none."""
    idle = [worker for worker in crew if not worker.job]
    worker = next((w for w in idle if w.threads == job.config.threads), None)
    if worker is None:
        _end(idle)  # theirs is another number of threads
        crew[:] = [worker for worker in crew if worker.job]
        worker = _Worker(job.config.threads, messages)
        crew.append(worker)
    worker.begin(job)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Hold interrupts back; a process started here does so until it is ready for them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end(crew: Sequence[_Worker]) -> None:
    """End processes by closing their input, which they wait for; kill those that do not."""
    for worker in crew:
        assert worker.process.stdin is not None
        with suppress(OSError):
            worker.process.stdin.close()
    for worker in crew:
        try:
            worker.process.wait(GRACE)
        except subprocess.TimeoutExpired:
            worker.process.kill()
        worker.close()
