"""Runs in parallel processes, each with its own threads; a process does many runs in turn.

`concurrent.futures` and `multiprocessing.Pool` do not fit: they pickle, a worker outlives a parent
that is killed, and one that is killed breaks the pool. Here its run resumes in another process.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from contextlib import contextmanager, suppress
from multiprocessing.connection import Pipe, wait
from typing import TYPE_CHECKING

from .._devices import count_gpus
from ..data import load
from ..record import RunFolder
from ..scenarios import find_scenario
from .events import ExitEvent, NoteEvent, ProgressEvent, decode_event
from .jobs import encode_job
from .serial import run_serially

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from .events import OnEvent, RunEvent
    from .jobs import Job

__all__ = ["count_cores", "default_max_parallel", "run_in_processes"]

CAN_PASS_PIPES = os.name == "posix"  # and block interrupts meanwhile: not on Windows
EXIT_SECONDS = 15  # for an interrupted process to complete its record
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def count_cores() -> int:
    """Return the number of cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS
        return os.cpu_count() or 1


def default_max_parallel(threads: int) -> int:
    """Return how many runs with this many threads each fit on the cores of this machine."""
    return max(1, count_cores() // threads)


def run_in_processes(
    jobs: Sequence[Job],
    on_event: OnEvent,
    *,
    max_parallel: int | None = None,
    retries: int = 0,
) -> None:
    """Do every job in a pool of processes; each job records how it ended.

    An interrupt ends the processes before it is raised: what they recorded stays.

    Args:
        jobs: The runs, started in this order.
        on_event: Called with every event of every job.
        max_parallel: How many run at a time; by default as many as the cores hold.
        retries: How often a run whose process was killed resumes in another one.
    """
    if not CAN_PASS_PIPES:
        for job in jobs[:1]:
            note = "this system cannot start runs as processes; they run one after the other"
            job.apply(NoteEvent(note))
            on_event(job, NoteEvent(note))
        run_serially(jobs, on_event)
        return
    waiting, workers = list(jobs), list[_PoolProcess]()
    killed, datasets = Counter[int](), set[str]()

    def report(job: Job, event: RunEvent) -> None:
        job.apply(event)
        on_event(job, event)

    try:
        while True:
            while waiting and _fits(waiting[0], workers, max_parallel):
                job = waiting.pop(0)
                if job.overwrite is not True and RunFolder(job.folder).is_finished():
                    report(job, ExitEvent(0))  # by another command, meanwhile
                    continue
                _decode_data(job, datasets)
                with _interrupts_blocked():
                    _assign(job, workers)
                report(job, ProgressEvent(0.0))
            if not any(worker.job for worker in workers):
                break
            for worker in _wait_for_any(workers):
                event = worker.receive()
                if worker.has_ended:
                    workers.remove(worker)
                if worker.job is None:
                    continue
                job = worker.job
                if isinstance(event, ExitEvent):
                    worker.job = None
                    if event.code < 0 and killed[id(job)] < retries:
                        killed[id(job)] += 1
                        note = f"its process was killed by signal {-event.code}; resuming"
                        report(job, NoteEvent(note))
                        job.overwrite, job.resume = False, True
                        waiting.insert(0, job)
                        continue
                report(job, event)
    finally:
        with _interrupts_blocked():  # a second interrupt waits: no process is left behind
            _end(workers)


class _PoolProcess:
    """A process that does one job after another."""

    def __init__(self, threads: int, environment: Mapping[str, str]) -> None:
        self.threads, self.has_ended = threads, False
        self.job: Job | None = None
        self.connection, other = Pipe()
        with other:
            self.process = subprocess.Popen(  # noqa: S603
                # -P: modules are not looked up in the current directory.
                [sys.executable, "-P", "-m", "perdure.execution.pool_worker", str(other.fileno())],
                pass_fds=[other.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=2,  # a user's model may print, and our standard output is the result
                env={**os.environ, **dict.fromkeys(THREAD_VARIABLES, str(threads)), **environment},
            )

    def start(self, job: Job) -> None:
        self.job = job
        with suppress(OSError):  # the process has ended already, as `receive` will tell
            self.connection.send_bytes(encode_job(job))  # `send` would pickle

    def receive(self) -> RunEvent:
        """Return the next event; if the process has ended, its exit code."""
        try:
            return decode_event(self.connection.recv_bytes())
        except (EOFError, OSError):  # also in the middle of a message
            self.has_ended = True
            self.connection.close()
            return ExitEvent(self.process.wait())


def _wait_for_any(workers: Sequence[_PoolProcess]) -> list[_PoolProcess]:
    ready = wait([worker.connection for worker in workers])
    return [worker for worker in workers if worker.connection in ready]


def _fits(job: Job, workers: Sequence[_PoolProcess], max_parallel: int | None) -> bool:
    """Return whether a job can start next to those that are running."""
    busy = [worker.threads for worker in workers if worker.job]
    if not busy:
        return True
    if max_parallel is not None:
        return len(busy) < max_parallel
    return sum(busy) + job.config.threads <= count_cores()


def _decode_data(job: Job, datasets: set[str]) -> None:
    """Have the data of a run decoded into the cache, which all processes map into their memory.

    Processes that start at the same time would otherwise each decode it.
    """
    with suppress(Exception):  # the run will fail with it, and others do not
        if job.config.data_path is not None:
            return  # decoded when the config was made
        for name in set(find_scenario(job.config.scenario).data) - datasets:
            datasets.add(name)
            load(name)


def _assign(job: Job, workers: list[_PoolProcess]) -> None:
    """Give a job to an idle process with its number of threads, or to a new one."""
    idle = [worker for worker in workers if not worker.job]
    worker = next((w for w in idle if w.threads == job.config.threads), None)
    if worker is None:
        _end(idle)  # they were started with another number of threads
        workers[:] = [worker for worker in workers if worker.job]
        worker = _PoolProcess(job.config.threads, _choose_gpu(job, len(workers)))
        workers.append(worker)
    worker.start(job)


def _choose_gpu(job: Job, number: int) -> dict[str, str]:
    """Return the environment of process `number`: "cuda" is a GPU of its own, if there are many.

    Without an index, the device is the first one that a process sees.
    """
    if job.config.device != "cuda" or (count := count_gpus()) < 2:
        return {}
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = visible.split(",") if visible else [str(k) for k in range(count)]
    return {"CUDA_VISIBLE_DEVICES": names[number % count].strip()}


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Delay interrupts; a process started here does so until it is ready for them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end(workers: Sequence[_PoolProcess]) -> None:
    """End processes by closing their connections; kill those that do not end in time."""
    for worker in workers:
        worker.connection.close()
    for worker in workers:
        try:
            worker.process.wait(EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            worker.process.kill()
            worker.process.wait()
