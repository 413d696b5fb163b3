"""Runs on Ray: the same bits as processes, nodes and drivers lost, nothing finished run twice.

`MINE` below is a user's own strategy: it writes down every process that begins a run and every
step that it takes, which is how the tests count what ran where.
"""

from __future__ import annotations

import inspect
import json
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import pytest

from perdure.execution import ExitEvent, ProgressEvent, RunEvent, plan_jobs, run_in_processes
from perdure.execution.ray_executor import run_on_ray
from perdure.record import InputError
from perdure.training import make_config, run

from .cli_helpers import environment, says
from .run_helpers import PATIENCE, is_alive, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from perdure.execution import Job
    from perdure.training import RunConfig

pytest.importorskip("ray")

MINE = """
import os, signal, time
from pathlib import Path
from perdure.strategies import Naive

LOG, DIED, DOOMED = Path({log!r}), Path({died!r}), Path({doomed!r})


def where():
    import ray
    return ray.get_runtime_context().get_node_id() if ray.is_initialized() else "here"


class Slow(Naive):
    def __init__(self, model, optimizer, examples, *, seed=0, pause: float = 0.0, dies: int = 0):
        super().__init__(model, optimizer, examples, seed=seed)
        self.pause, self.dies, self.count = pause, dies, 0

    def step(self, new, *others, on_loss_terms=None):
        self.count += 1
        with LOG.open("a") as log:
            log.write(f"{{self.seed}} {{os.getpid()}} {{where()}} {{self.count}}\\n")
        time.sleep(self.pause)
        while self.count >= 60 and DOOMED.exists() and DOOMED.read_text() == where():
            time.sleep(0.01)  # until this process is killed
        if self.dies and self.count % 20 == 0:
            deaths = DIED.stat().st_size if DIED.exists() else 0
            if deaths < self.dies:
                DIED.write_bytes(b"x" * (deaths + 1))
                os.kill(os.getpid(), signal.SIGKILL)
        return super().step(new, *others, on_loss_terms=on_loss_terms)
"""


class Begun(NamedTuple):
    """A process that did a part of a run."""

    pid: int
    node: str
    first: int  # the step it went on with
    last: int


class Place:
    """A user's folder with a strategy of their own, and what that wrote down."""

    def __init__(self, folder: Path) -> None:
        self.store = folder / "runs"
        self._log, self.doomed = folder / "log", folder / "doomed"
        text = MINE.format(log=str(self._log), died=str(folder / "died"), doomed=str(self.doomed))
        (folder / "mine.py").write_text(text)

    def config(self, seed: int, **settings: str) -> RunConfig:
        return make_config(
            strategy="mine:Slow", epochs=4, every=5, seed=seed,
            settings={"hidden": "16", **settings},
        )  # fmt: skip

    def jobs(self, configs: list[RunConfig]) -> list[Job]:
        _, waiting = plan_jobs(configs, self.store)
        for job in waiting:
            job.checkpoint_every = 0.1
        return waiting

    def begun(self) -> dict[int, list[Begun]]:
        """Return by seed who did which steps, in order."""
        steps: dict[int, dict[tuple[int, str], list[int]]] = defaultdict(dict)
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        for seed, pid, node, count in (line.split() for line in lines):
            steps[int(seed)].setdefault((int(pid), node), []).append(int(count))
        return {
            seed: [Begun(*who, counts[0], counts[-1]) for who, counts in each.items()]
            for seed, each in steps.items()
        }


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    return Place(tmp_path)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two nodes of a CPU each; the first is the driver's."""
    from ray.cluster_utils import Cluster

    # A process that was killed does not answer at once, and four times of that are soon over.
    soon = {"health_check_period_ms": 500, "health_check_failure_threshold": 4}
    head = {"num_cpus": 1, "_system_config": {"health_check_initial_delay_ms": 0, **soon}}
    made: Any = Cluster(initialize_head=True, head_node_args=head)
    made.add_node(num_cpus=1)
    yield made
    made.shutdown()


@pytest.fixture
def apart(cluster: Any) -> Iterator[str]:
    """Be not connected, whatever came before: whoever is has not asked Ray to be silent."""
    import ray

    was = ray.is_initialized()
    ray.shutdown()
    yield cluster.address
    if was:
        ray.init(address=cluster.address, log_to_driver=False)


@pytest.fixture(scope="module")
def joined(cluster: Any) -> Iterator[str]:
    """Be connected all the time: workers do many runs, and what is connected stays so."""
    import ray

    ray.init(address=cluster.address, log_to_driver=False)
    yield cluster.address
    assert ray.is_initialized()
    ray.shutdown()


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> list[Job]:
    """Short runs as processes: two that finish, and one that diverges."""
    short: dict[str, Any] = {"epochs": 1, "every": 5}
    every = [
        make_config("split-digits", "replay", seed=1, **short),
        make_config("split-digits", "gem", setting="task", boundaries="blurred", **short),
        make_config("split-digits", "naive", settings={"lr": "1e30"}, **short),
    ]
    _, jobs = plan_jobs(every, tmp_path_factory.mktemp("processes"))
    run_in_processes(jobs, nothing)
    assert [job.code for job in jobs] == [0, 0, 2]
    return jobs


def nothing(job: Job, event: RunEvent) -> None:
    """Ignore an event."""


def has_checkpoint(job: Job) -> bool:
    return (job.folder / "checkpoint" / "state.safetensors").exists()


def bits(folder: Path) -> tuple[bytes, str]:
    """Return what a finished run recorded, and its last weights."""
    weights = json.loads((folder / "done.json").read_text())["weights"]
    hits = b"".join(path.read_bytes() for path in sorted(folder.glob("per_example/*")))
    return (folder / "points.csv").read_bytes() + hits, weights


@pytest.mark.slow
def test_a_node_killed_in_the_middle(
    cluster: Any, apart: str, place: Place, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    second = cluster.list_all_nodes()[1]
    node = second.node_id
    place.doomed.write_text(node)  # what runs there waits for its end
    jobs = place.jobs([place.config(seed, pause="0.03") for seed in range(4)])

    def finished() -> list[int]:
        return [job.config.seed for job in jobs if (job.folder / "done.json").exists()]

    def away() -> dict[int, Begun]:
        return {seed: first for seed, (first, *_) in place.begun().items() if first.node == node}

    def kill() -> tuple[list[int], list[int]]:
        """Return the seeds that were finished when the second node was killed, and those it had."""
        saved = {job.config.seed: partial(has_checkpoint, job) for job in jobs}
        try:
            until(
                lambda: finished() and away() and all(saved[seed]() for seed in away()),
                "one is done, and what the second node does was saved",
            )
            done, lost = finished(), away()
            for process in second.all_processes["raylet"]:
                process.process.kill()
            for begun in lost.values():  # a machine takes everything with it
                with suppress(ProcessLookupError):
                    os.kill(begun.pid, signal.SIGKILL)
            cluster.remove_node(second, allow_graceful=False)
        finally:
            place.doomed.unlink()
        return done, [*lost]

    with ThreadPoolExecutor(1) as pool:
        killing = pool.submit(kill)
        run_on_ray(jobs, nothing, address=apart, shared=False)
        done, lost = killing.result()
        cluster.add_node(num_cpus=1)
    assert [(job.code, job.error) for job in jobs] == [(0, None)] * 4
    assert capfd.readouterr().out == ""  # Ray says nothing of its own
    begun = place.begun()
    assert [len(begun[seed]) for seed in done] == [1] * len(done)
    for seed in lost:
        before, after = begun[seed]
        assert before.node == node != after.node
        assert 1 < after.first <= before.last + 1  # from the checkpoint that came home
        says(" ".join(jobs[seed].notes), "lost", "resuming")
        alone = tmp_path / f"alone-{seed}"
        run(jobs[seed].config, alone)
        assert bits(jobs[seed].folder) == bits(alone)


def names(folder: Path) -> list[Path]:
    """Return the files of a run."""
    return sorted(path.relative_to(folder) for path in folder.rglob("*"))


IN_PLACE = pytest.param(None, id="in place", marks=pytest.mark.slow)


@pytest.mark.parametrize("shared", [IN_PLACE, pytest.param(False, id="sent home")])
def test_the_bits_of_processes_and_one_run_that_diverges(
    shared: bool | None, joined: str, beside: list[Job], tmp_path: Path
) -> None:
    _, jobs = plan_jobs([job.config for job in beside], tmp_path)
    events: list[RunEvent] = []
    run_on_ray(jobs, lambda _, event: events.append(event), address=joined, shared=shared)
    for one, other in zip(jobs, beside, strict=True):
        assert (one.code, one.error, one.traceback) == (other.code, other.error, other.traceback)
        assert one.notes == other.notes == []
        assert names(one.folder) == names(other.folder)
        if one.code == 0:
            assert bits(one.folder) == bits(other.folder)
    says(jobs[2].error or "", "step", "task '0-1'", "Naive", "lr")
    assert (jobs[2].folder / "points.csv").exists()  # what was recorded stays
    assert sum(isinstance(e, ProgressEvent) and e.fraction == 1 for e in events) == 2
    assert sum(isinstance(event, ExitEvent) for event in events) == 3
    assert len(list(tmp_path.iterdir())) == 3  # and no token


@pytest.mark.slow
def test_workers_that_die_once_and_again_and_again(joined: str, place: Place) -> None:
    (job,) = place.jobs([place.config(0, dies="2", pause="0.01")])
    run_on_ray([job], nothing, address=joined)
    assert (job.code, job.error) == (0, None)
    first, second, _ = place.begun()[0]
    assert 1 < second.first <= first.last + 1
    assert len(job.notes) == 2
    (never,) = place.jobs([place.config(1, dies="99")])
    run_on_ray([never], nothing, address=joined)
    assert never.code == 1
    says(never.error or "", "lost 4 times", "no recorded data was lost")
    assert len(place.begun()[1]) == 4


@pytest.mark.slow
def test_interrupted_and_gone_on_with(joined: str, place: Place) -> None:
    jobs = place.jobs([place.config(seed, pause="0.01") for seed in range(2)])

    def interrupt(job: Job, event: RunEvent) -> None:
        if has_checkpoint(job):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_on_ray(jobs, interrupt, address=joined)
    steps = sum(each[-1].last for each in place.begun().values())
    time.sleep(0.5)
    assert sum(each[-1].last for each in place.begun().values()) == steps  # nobody goes on
    again = place.jobs([job.config for job in jobs])
    assert len(again) == 2
    run_on_ray(again, nothing, address=joined, shared=False)
    assert [(job.code, job.error) for job in again] == [(0, None)] * 2
    assert any('"resumed"' in (job.folder / "run.json").read_text() for job in again)


DRIVER = """
import sys
from pathlib import Path
import msgspec
from perdure.execution import plan_jobs
from perdure.training import RunConfig
from perdure.execution.ray_executor import run_on_ray

wanted = msgspec.json.decode(sys.argv[1], type=list[RunConfig])
_, waiting = plan_jobs(wanted, Path("runs"))
for job in waiting:
    job.checkpoint_every = 0.1
run_on_ray(waiting, lambda *_: None)
print([job.error for job in waiting], flush=True)
"""


class Driver:
    """A process that does some runs on a Ray of its own."""

    def __init__(self, wanted: list[RunConfig], folder: Path) -> None:
        said = msgspec.json.encode(wanted).decode()
        self.process = subprocess.Popen(
            [sys.executable, "-c", DRIVER, said], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            cwd=folder, env=environment() | {"OMP_NUM_THREADS": "1"}, text=True,
        )  # fmt: skip

    def ended(self) -> tuple[str, str]:
        return self.process.communicate(timeout=PATIENCE)


@pytest.mark.slow
def test_a_driver_killed_and_started_again(place: Place, tmp_path: Path) -> None:
    # The first is done long before the others, which would else end before they notice the kill.
    wanted = [place.config(seed, pause="0.04" if seed else "0.005") for seed in range(4)]
    first = Driver(wanted, tmp_path)
    until(
        lambda: (
            list(place.store.glob("*/done.json"))
            and any(  # a run that has just finished still has its last checkpoint
                not (path.parents[1] / "done.json").exists()
                for path in place.store.glob("*/checkpoint/state.safetensors")
            )
        ),
        "one is done and another was saved",
    )
    first.process.kill()
    first.ended()
    until(
        lambda: not any(is_alive(each.pid) for runs in place.begun().values() for each in runs),
        "its workers end without it",
    )
    done = {path.parent.name: path.stat().st_mtime_ns for path in place.store.glob("*/done.json")}
    begun = place.begun()
    assert 1 <= len(done) < 4
    out, err = Driver(wanted, tmp_path).ended()
    assert json.loads(out.replace("None", "null")) == [None] * (4 - len(done))
    assert err == ""
    assert len(list(place.store.glob("*/done.json"))) == 4
    for name, when in done.items():
        assert (place.store / name / "done.json").stat().st_mtime_ns == when
    again = {seed: each[len(begun.get(seed, [])) :] for seed, each in place.begun().items()}
    names = [config.folder for config in wanted]
    assert [len(again[seed]) for seed in range(4)] == [name not in done for name in names]
    assert any(each[0].first > 1 for each in again.values() if each)
    for config in wanted:
        alone = tmp_path / f"alone-{config.seed}"
        run(config, alone)
        assert bits(place.store / config.folder) == bits(alone)


def test_a_run_that_cannot_begin_does_not_stop_others(
    joined: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERDURE_DATA", str(tmp_path / "none"))
    wanted = [make_config("split-mnist", "naive"), make_config(epochs=1, every=10)]
    _, jobs = plan_jobs(wanted, tmp_path / "runs")
    run_on_ray(jobs, nothing, address=joined)
    assert [job.code for job in jobs] == [2, 0]
    says(jobs[0].error or "", "PERDURE_DATA", "none")


def test_private_names_of_ray_exist() -> None:
    """`ray_connection` uses them: Ray would print by itself, and import from anywhere."""
    from ray._private import worker
    from ray.job_config import JobConfig

    assert "if not _worker_logs_enabled" in inspect.getsource(worker.print_worker_logs)
    assert "_py_driver_sys_path.extend(" in inspect.getsource(worker.connect)
    assert JobConfig()._py_driver_sys_path == []


def test_mistakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ray.is_initialized", lambda: False)  # other tests may be connected
    config = make_config()
    (job,) = plan_jobs([config], tmp_path)[1]
    for address in ("ray://there:10001", "there", "there:", ":1", "there:x"):
        with pytest.raises(InputError, match=f"{address!r}, expected auto or the host:port"):
            run_on_ray([job], nothing, address=address)
    for address in ("127.0.0.1:1", "127.0.0.1:99999"):
        with pytest.raises(InputError, match=f"no Ray cluster answers at {address}"):
            run_on_ray([job], nothing, address=address)
    for share in (0.0, -1.0, 1.5, float("nan")):
        with pytest.raises(InputError, match="gpus_per_run"):
            run_on_ray([job], nothing, gpus_per_run=share)
    other = msgspec.structs.replace(config, device="cuda:1")
    with pytest.raises(InputError, match=r"'cuda:1', expected cpu or cuda"):
        run_on_ray(plan_jobs([other], tmp_path)[1], nothing)
    run_on_ray([], nothing)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"pip install .*\[ray\]'"):
        run_on_ray([job], nothing)
