"""Runs on a Ray cluster, or on this machine through Ray; no shared file system is needed.

Each run is a Ray task. Where it sees the driver's store, it writes there; elsewhere it works in a
folder of its node, whose files are sent to the `Collector`, an actor on the driver's node, after
every checkpoint and at the end. A run whose node is lost resumes from what is in the store.
"""

from __future__ import annotations

import secrets
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

import msgspec

from .. import __version__
from ..record import InputError, RunFolder, replace_file
from .collector import Collector
from .events import ExitEvent, FailureEvent, NoteEvent
from .jobs import PROGRESS_SECONDS, explain_error
from .ray_connection import connect_to_ray, shorten_error
from .ray_task import TOKEN, RayTask, run_ray_task

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ray import ObjectRef
    from ray.actor import ActorHandle

    from ..scenarios import Scenario
    from ..training.setup import ScenarioKey
    from .events import OnEvent, RunEvent
    from .jobs import Job

__all__ = ["run_on_ray"]

MAX_RETRIES = 3  # after the node or the worker of a run was lost
EXIT_SECONDS = 15.0  # for an interrupted run to complete its record
FILE_SECONDS = 5.0  # for a shared file system to show a file of another machine


def run_on_ray(
    jobs: Sequence[Job],
    on_event: OnEvent,
    *,
    address: str = "auto",
    gpus_per_run: float = 1.0,
    shared: bool | None = None,
) -> None:
    """Do every job on a Ray cluster; each job records how it ended.

    A run whose node or worker is lost resumes elsewhere from its last checkpoint, at most three
    times. An interrupt ends the runs before it is raised: what they recorded stays.

    Args:
        jobs: The runs, each on as many CPUs as it has threads.
        on_event: Called with every event of every job.
        address: Of a cluster that this machine belongs to; "auto" starts Ray on this machine.
        gpus_per_run: The fraction of a GPU, or the number of GPUs, that a run on CUDA takes.
        shared: Whether nodes see the store; by default each of them finds out.
    """
    _check(jobs, gpus_per_run)
    if not jobs:
        return
    with connect_to_ray(address, jobs), _place_tokens(jobs, shared=shared) as tokens:
        import ray

        try:
            _Driver(jobs, on_event, gpus_per_run, tokens).run()
        except ray.exceptions.RayError as error:
            raise RuntimeError(
                f"the Ray cluster is lost ({shorten_error(error)}). No recorded data was lost: "
                "the same command resumes from it"
            ) from error


class _RemoteRun(Protocol):
    """`run_ray_task` as Ray calls it on a node."""

    def remote(
        self, task: RayTask, scenario: ObjectRef[Scenario], collector: ActorHandle[Collector], /
    ) -> ObjectRef[int]: ...


class _Driver:
    """Submits runs, reports their events, and submits lost runs again."""

    def __init__(
        self,
        jobs: Sequence[Job],
        on_event: OnEvent,
        gpus_per_run: float,
        tokens: dict[Path, str],
    ) -> None:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        self._jobs, self._on_event = jobs, on_event
        self._gpus_per_run, self._tokens = gpus_per_run, tokens
        self._sent = [msgspec.structs.replace(j, folder=j.folder.absolute()) for j in jobs]
        self._scenarios: dict[tuple[ScenarioKey, str], ObjectRef[Scenario]] = {}  # in Ray's store
        self._functions: dict[tuple[int, float], _RemoteRun] = {}  # by CPUs and GPUs
        self._running: dict[ObjectRef[int], tuple[int, int]] = {}  # index and attempt
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        actor = ray.remote(Collector).options(num_cpus=0, scheduling_strategy=here)
        self._collector = cast("ActorHandle[Collector]", actor.remote(self._sent))

    def run(self) -> None:
        """Do every job, or raise what stops them."""
        try:
            for index in range(len(self._jobs)):
                self._submit(index, 0)
            while self._running:
                self._poll()
        except BaseException:
            self._cancel()
            raise

    def _submit(self, index: int, attempt: int) -> None:
        job = self._jobs[index]
        try:
            scenario = self._scenario(job)
        except Exception as error:  # of its data, say: other runs may have theirs
            failure, code = explain_error(error)
            self._report(index, failure)
            self._report(index, ExitEvent(code))
            return
        token = self._tokens.get(job.folder.absolute().parent)
        task = RayTask(index, attempt, self._sent[index], token, _list_own_paths(job), __version__)
        reference = self._function(index).remote(task, scenario, self._collector)
        self._running[reference] = (index, attempt)

    def _function(self, index: int) -> _RemoteRun:
        """Return `run_ray_task` with the resources of a job; note if no node has them."""
        import ray

        config = self._jobs[index].config
        cpus, gpus = config.threads, self._gpus_per_run if config.device == "cuda" else 0.0
        if (cpus, gpus) not in self._functions:
            remote = ray.remote(num_cpus=cpus, num_gpus=gpus, max_retries=0)
            self._functions[cpus, gpus] = remote(run_ray_task)
            nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
            if not any(n.get("CPU", 0) >= cpus and n.get("GPU", 0) >= gpus for n in nodes):
                needed = f"{cpus} CPUs" + (f" and {gpus:g} of a GPU" if gpus else "")
                note = f"no node has {needed}: such runs wait until one does"
                self._report(index, NoteEvent(note))
        return self._functions[cpus, gpus]

    def _scenario(self, job: Job) -> ObjectRef[Scenario]:
        """Return a scenario that is built once and sent to each node once."""
        import ray

        from ..training.setup import load_scenario, make_scenario_key

        config = job.config
        key = (make_scenario_key(config), repr(config.task_order))
        if key not in self._scenarios:
            self._scenarios[key] = ray.put(load_scenario(config))
        return self._scenarios[key]

    def _poll(self) -> None:
        """Report new events, and handle the tasks that have ended."""
        import ray

        ray.wait(list(self._running), timeout=PROGRESS_SECONDS)
        ended, _ = ray.wait(list(self._running), num_returns=len(self._running), timeout=0)
        events: ObjectRef[list[tuple[int, RunEvent]]] = self._collector.take_events.remote()
        for index, event in ray.get(events):
            self._report(index, event)
        for reference in ended:
            self._finish(reference, *self._running.pop(reference))

    def _finish(self, reference: ObjectRef[int], index: int, attempt: int) -> None:
        """Report how a task ended, or submit it again."""
        import ray

        try:
            code = int(ray.get(reference))
        except ray.exceptions.RayTaskError as error:  # it would happen again
            cause = error.cause or error
            reason = shorten_error(cause)
            self._report(index, FailureEvent(reason, type(cause).__name__, str(error)))
            code = 1
        except ray.exceptions.RayError as error:
            reason = shorten_error(error)
            if attempt < MAX_RETRIES:
                self._report(index, NoteEvent(f"lost ({reason}); resuming from its checkpoint"))
                self._submit(index, attempt + 1)
                return
            reason = f"lost {attempt + 1} times ({reason}); no recorded data was lost"
            self._report(index, FailureEvent(reason, type(error).__name__))
            code = 1
        self._report(index, ExitEvent(code))

    def _report(self, index: int, event: RunEvent) -> None:
        job = self._jobs[index]
        if event == ExitEvent(0) and job.error is None:
            _wait_for(RunFolder(job.folder))
        job.apply(event)
        self._on_event(job, event)

    def _cancel(self) -> None:
        """Interrupt what is running; kill what does not end in time."""
        import ray

        references = list(self._running)
        if not references:
            return
        for reference in references:
            ray.cancel(reference)
        _, left = ray.wait(references, num_returns=len(references), timeout=EXIT_SECONDS)
        for reference in left:
            ray.cancel(reference, force=True)


def _check(jobs: Sequence[Job], gpus_per_run: float) -> None:
    if not (0 < gpus_per_run <= 1 or (gpus_per_run > 1 and float(gpus_per_run).is_integer())):
        raise InputError(f"gpus_per_run is {gpus_per_run:g}, expected a fraction such as .25, or 1")
    for job in jobs:
        if ":" in job.config.device:
            device = job.config.device
            raise InputError(f"device is {device!r}, expected cpu or cuda: Ray picks which one")


@contextmanager
def _place_tokens(jobs: Sequence[Job], *, shared: bool | None) -> Iterator[dict[Path, str]]:
    """Write a file into every store by which nodes know that they see it; return their contents."""
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


def _list_own_paths(job: Job) -> list[str]:
    """Return where a node looks for the user's own modules, which are in no environment."""
    if not any(":" in name for name in (job.config.strategy, job.config.model)):
        return []
    paths = [str(Path(path).absolute()) for path in ("", *sys.path)]
    return [path for path in paths if not path.startswith((sys.prefix, sys.base_prefix))]


def _wait_for(run: RunFolder) -> None:
    """Give a shared file system time to show what another machine has written."""
    end = time.monotonic() + FILE_SECONDS
    while not run.is_finished() and time.monotonic() < end:
        time.sleep(0.1)
