"""Runs on a Ray cluster, or on this machine through Ray; no shared file system is needed.

Each run is a task. Where it sees the driver's store it writes there; elsewhere it works in a
folder of its own, whose files go to the desk, an actor on the driver's node, after every
checkpoint and at the end. A run whose node is lost begins again from what the store has.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..record import InputError, replace_file
from ..training.run import scenario_of
from .collector import Collector
from .jobs import REFRESH, explained, noted
from .process_pool import cores
from .ray_task import TOKEN, RayTask, run_ray_task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from .jobs import Job

__all__ = ["run_on_ray"]

AGAIN = 3  # times that a run begins again after its node or worker was lost
GRACE = 15.0  # seconds that an interrupted run has to put its record in order
ANSWER = 10.0  # seconds that a cluster has to answer
LATE = 5.0  # seconds that a file of another machine may take to be seen


def run_on_ray(
    jobs: Sequence[Job],
    told: Callable[[Job, dict[str, Any]], None],
    *,
    address: str = "auto",
    gpus_per_run: float = 1.0,
    shared: bool | None = None,
) -> None:
    """Do every job on a Ray cluster; how each ended is noted in it.

    A run whose node or worker is lost goes on elsewhere from its last checkpoint, three times at
    most. An interrupt ends the runs first and is raised then: what they recorded stays.

    Args:
        jobs: the runs, each on as many CPUs as it has threads.
        told: called with each message: `share` and live numbers, a `note`, an `error`, `ended`.
        address: of a cluster that this machine belongs to; "auto" starts a local one.
        gpus_per_run: the share of a GPU that a run on cuda takes.
        shared: whether nodes see the store; None lets each of them find out.
    """
    _check(jobs, gpus_per_run)
    if not jobs:
        return
    with _connected(address, jobs) as ray, _tokens(jobs, shared=shared) as tokens:
        try:
            _Driver(jobs, told, gpus_per_run, tokens).drive()
        except ray.exceptions.RayError as error:
            raise RuntimeError(
                f"the Ray cluster is lost ({_line(error)}); what was recorded stays, and the same "
                "command goes on from there"
            ) from error


class _Driver:
    """Hands out runs, listens, and hands out again what is lost."""

    def __init__(
        self,
        jobs: Sequence[Job],
        told: Callable[[Job, dict[str, Any]], None],
        gpus_per_run: float,
        tokens: dict[Path, str],
    ) -> None:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        self._jobs, self._told, self._gpus, self._tokens = jobs, told, gpus_per_run, tokens
        self._plain = [{**job.as_dict(), "folder": str(job.folder.absolute())} for job in jobs]
        self._scenarios: dict[str, Any] = {}  # in Ray's store, by what they are made of
        self._tasks: dict[tuple[int, float], Any] = {}  # by what they need
        self._running: dict[Any, tuple[int, int]] = {}  # number and attempt of each task
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        self._desk: Any = (
            ray.remote(Collector).options(num_cpus=0, scheduling_strategy=here).remote(self._plain)
        )

    def drive(self) -> None:
        """Do everything, or raise what stops it."""
        try:
            for number in range(len(self._jobs)):
                self._hand_out(number, 0)
            while self._running:
                self._listen()
        except BaseException:
            self._give_up()
            raise

    def _hand_out(self, number: int, attempt: int) -> None:

        job = self._jobs[number]
        try:
            scenario = self._scenario(job)
        except Exception as error:  # its data, say; others may have theirs
            said, code = explained(error)
            self._tell(number, said)
            self._tell(number, {"ended": code})
            return
        token = self._tokens.get(job.folder.absolute().parent)
        errand = RayTask(number, attempt, self._plain[number], token, _own_paths(job), __version__)
        task = self._task(number).remote(errand, scenario, self._desk)
        self._running[task] = (number, attempt)

    def _task(self, number: int) -> Any:
        """Return what Ray calls for a job; one that fits nowhere is said to wait."""
        import ray

        of = self._jobs[number].config
        cpus, gpus = of.threads, self._gpus if of.device == "cuda" else 0.0
        if (cpus, gpus) not in self._tasks:
            made = ray.remote(num_cpus=cpus, num_gpus=gpus, max_retries=0)(run_ray_task)
            self._tasks[cpus, gpus] = made
            nodes = [each["Resources"] for each in ray.nodes() if each["Alive"]]
            if not any(n.get("CPU", 0) >= cpus and n.get("GPU", 0) >= gpus for n in nodes):
                said = f"no node has {cpus} CPUs" + (f" and {gpus:g} of a GPU" if gpus else "")
                self._tell(number, {"note": f"{said}: runs like this one wait until one does"})
        return self._tasks[cpus, gpus]

    def _scenario(self, job: Job) -> Any:
        """Return a scenario that is made once and goes to each node once."""
        import ray

        of = job.config
        what = repr((of.scenario, of.setting, of.order, of.image_size))
        if what not in self._scenarios:
            self._scenarios[what] = ray.put(scenario_of(of))
        return self._scenarios[what]

    def _listen(self) -> None:
        """Hear what is said, and see to the tasks that have ended."""
        import ray

        ray.wait(list(self._running), timeout=REFRESH)
        ended, _ = ray.wait(list(self._running), num_returns=len(self._running), timeout=0)
        for number, message in ray.get(self._desk.heard.remote()):
            self._tell(number, message)
        for task in ended:
            self._see_to(task, *self._running.pop(task))

    def _see_to(self, task: Any, number: int, attempt: int) -> None:
        """Note how a task ended, or hand it out again."""
        import ray

        try:
            code = int(ray.get(task))
        except ray.exceptions.RayTaskError as error:  # it would come again
            cause = error.cause or error
            said = {"error": _line(cause), "kind": type(cause).__name__, "detail": str(error)}
            self._tell(number, said)
            code = 1
        except ray.exceptions.RayError as error:
            if attempt < AGAIN:
                note = f"lost ({_line(error)}); it goes on from what was saved"
                self._tell(number, {"note": note})
                self._hand_out(number, attempt + 1)
                return
            lost = f"lost {attempt + 1} times, and given up ({_line(error)})"
            said = {"error": f"{lost}; what was recorded stays", "kind": type(error).__name__}
            self._tell(number, said)
            code = 1
        self._tell(number, {"ended": code})

    def _tell(self, number: int, message: dict[str, Any]) -> None:
        job = self._jobs[number]
        if message.get("ended") == 0 and job.error is None:
            _wait_for(job.folder / "done.json")
        noted(job, message)
        self._told(job, message)

    def _give_up(self) -> None:
        """End what runs: kindly, and then for sure."""
        import ray

        tasks = list(self._running)
        for task in tasks:
            ray.cancel(task)
        left = ray.wait(tasks, num_returns=len(tasks), timeout=GRACE)[1] if tasks else []
        for task in left:
            ray.cancel(task, force=True)


def _check(jobs: Sequence[Job], gpus_per_run: float) -> None:
    if not (0 < gpus_per_run <= 1 or (gpus_per_run > 1 and float(gpus_per_run).is_integer())):
        raise InputError(
            f"gpus_per_run is {gpus_per_run:g}, expected a share of a GPU like .25, or 1"
        )
    for job in jobs:
        if ":" in job.config.device:
            device = job.config.device
            raise InputError(f"device is {device!r}, expected cpu or cuda: Ray picks which one")


@contextmanager
def _connected(address: str, jobs: Sequence[Job]) -> Iterator[Any]:
    """Have Ray at hand, and let go of it if it was not before; it prints nothing of its own."""
    try:
        import ray
        from ray._private import worker as ray_worker
    except ModuleNotFoundError:
        raise InputError("running on Ray needs ray: pip install 'perdure[ray]'") from None
    if ray.is_initialized():
        yield ray
        return
    from ray.job_config import JobConfig

    options: dict[str, Any] = {"address": address}
    if address != "auto":
        _check_address(address)
    else:
        most = max(job.config.threads for job in jobs)
        options = {"address": "local", "num_cpus": max(cores(), most), "include_dashboard": False}
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    logging.getLogger("ray").setLevel(logging.ERROR)
    ray_worker._worker_logs_enabled = False  # noqa: SLF001 - a lost node would print to our output
    try:
        config = JobConfig()
        config._py_driver_sys_path = _NoPaths()  # noqa: SLF001
        ray.init(**options, job_config=config, logging_level=logging.ERROR, log_to_driver=False)
    except (ConnectionError, RuntimeError, ValueError, OSError, TimeoutError) as error:
        what = "no local Ray can be started" if address == "auto" else f"no Ray is at {address}"
        raise InputError(f"{what} ({_line(error)})") from error
    try:
        yield ray
    finally:
        ray.shutdown()


class _NoPaths(list[str]):
    """What Ray puts first where its workers look for modules: not the current directory."""

    def extend(self, _: Iterable[str]) -> None:
        """Add nothing."""


def _check_address(address: str) -> None:
    """Raise where nobody answers at once: Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or "/" in host:
        raise InputError(
            f"address is {address!r:.60}, expected auto or the host:port of a Ray cluster this "
            "machine belongs to (ray start --address=host:port makes it one)"
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER).close()
    except (OSError, OverflowError) as error:
        raise InputError(
            f"no Ray answers at {address} ({error}); ray start --head starts one"
        ) from None


@contextmanager
def _tokens(jobs: Sequence[Job], *, shared: bool | None) -> Iterator[dict[Path, str]]:
    """Leave a file in every store by which a node knows that it sees it; return what they say."""
    stores = {job.folder.absolute().parent for job in jobs} if shared is not False else set()
    tokens = {store: secrets.token_hex(16) for store in stores}
    try:
        for store, text in tokens.items():
            store.mkdir(parents=True, exist_ok=True)
            replace_file(store / TOKEN, text)
        yield tokens
    finally:
        for store in tokens:
            (store / TOKEN).unlink(missing_ok=True)


def _own_paths(job: Job) -> list[str]:
    """Return where a run's modules are looked for that no environment holds: the user's own."""
    if not any(":" in name for name in (job.config.strategy, job.config.model)):
        return []
    paths = [str(Path(path).absolute()) for path in ("", *sys.path)]
    return [path for path in paths if not path.startswith((sys.prefix, sys.base_prefix))]


def _wait_for(path: Path) -> None:
    """Give a shared file system time to show what another machine has written."""
    end = time.monotonic() + LATE
    while not path.exists() and time.monotonic() < end:
        time.sleep(0.1)


def _line(error: BaseException) -> str:
    """Return an error as a short line."""
    said = " ".join(str(error).split())
    return f"{type(error).__name__}: {said[:160]}{'…' if len(said) > 160 else ''}"
