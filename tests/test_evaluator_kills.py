"""Runs that are killed at random moments: what was recorded stays, whole and bit for bit."""

from __future__ import annotations

import csv
import json
import os
import platform
import random
import signal
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

import perdure
from perdure.record import RecordError, read_input

from .cli_helpers import run
from .kill_helpers import Moment, Server, Trainer, is_stopped, until
from .killed_trainer import NAMES, STEPS

if TYPE_CHECKING:
    from collections.abc import Iterator

LOG = Path(__file__).parents[1] / "benchmarks" / "kills.log"
HITS = [f"per_example/{number}{kind}" for number in range(3) for kind in ("", ".full")]
GROWING = ("points.csv", "gradients.csv", *(f"{name}.bin" for name in HITS))
COUNTED = (
    "flops_train", "flops_eval", "flops_one_pass", "model_bytes", "stored_bytes", "data_bytes"
)  # fmt: skip

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="finds processes in /proc, which is not here"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    found = Server(tmp_path_factory.mktemp("temporary"))
    yield found
    found.close()


@dataclass(frozen=True)
class Whole:
    """What a run records that nobody disturbs, and how long it takes from its first points on."""

    folder: Path
    seconds: float

    def bytes(self, name: str) -> bytes:
        return (self.folder / name).read_bytes()

    def lines_due(self, said: list[str], where: str) -> int:
        """Return how many lines of points.csv are there for sure after what a trainer said."""
        step = max((int(mark[5:]) for mark in said if mark.startswith("step ")), default=0)
        left = sum(mark.startswith("left ") for mark in said)
        last = 0
        for number, row in enumerate(rows(self.bytes("points.csv")), start=1):
            probed = where == "inline" and row["kind"] == "probe" and int(row["step"]) <= step
            ended = row["kind"] != "initial" and int(row["step"]) <= STEPS * left
            last = number if probed or ended else last
        return last


@pytest.fixture(scope="module")
def whole(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    trainer = server.start(tmp_path_factory.mktemp("whole") / "home")
    trainer.wait_for(("points", 0.0))
    start = time.monotonic()
    trainer.wait_for(("closed", 0.0))
    found = Whole(trainer.folder, time.monotonic() - start)
    assert trainer.wait() == 0
    assert trainer.errors() == ""
    assert len(rows(found.bytes("points.csv"))) == 3 + (1 + 2 + 3) * (STEPS + 1)
    assert len(rows(found.bytes("gradients.csv"))) == 3 * STEPS
    return found


def rows(text: bytes) -> list[dict[str, str]]:
    """Return the whole lines of a CSV file as dictionaries."""
    complete = text[: text.rfind(b"\n") + 1].decode()
    return list(csv.DictReader(complete.splitlines()))


def check_record(trainer: Trainer, where: str, whole: Whole) -> str:
    """Fail unless what was complete is there and is what it should be; return what is there."""
    folder, said = trainer.folder, trainer.said()
    for name in GROWING:
        mine = (folder / name).read_bytes() if (folder / name).exists() else b""
        assert whole.bytes(name).startswith(mine), f"{name} is no beginning of the whole one"
    path = folder / "points.csv"
    points = path.read_bytes() if path.exists() else b"\n"  # killed before it was made
    found, torn = rows(points), not points.endswith(b"\n")
    assert len(found) >= whole.lines_due(said, where), said[-1:]
    description = json.loads((folder / "run.json").read_text())
    learned = list(dict.fromkeys(row["trained"] for row in found))
    assert description["tasks"][: len(learned)] == learned
    hits = sum(check_per_example(folder, number, found, whole) for number in range(3))
    for number in range(3):
        check_per_example(folder, number, found, whole, kind="full", examples=300)
    check_costs(folder, said, whole)
    if not found:
        return "nothing was tested yet"
    source, ended = read_input(str(folder)), (folder / "done.json").exists()
    assert any("run is unfinished" in note for note in source.notes) != ended
    assert any("points.csv: the last line is cut off" in note for note in source.notes) == torn
    assert run("score", folder).code == 0
    ahead = hits - sum(row["kind"] == "probe" for row in found)
    what = [f"{len(found)} lines", "and a torn one" * torn, f"and {ahead} hits ahead" * (ahead > 0)]
    return " ".join(filter(None, [*what, "and done" * ended]))


def check_per_example(
    folder: Path,
    number: int,
    found: list[dict[str, str]],
    whole: Whole,
    *,
    kind: str = "probe",
    examples: int = 100,
) -> int:
    """Fail unless every line has its hits and they say what its line says; return how many."""
    path = folder / (
        f"per_example/{number}.bin" if kind == "probe" else f"per_example/{number}.{kind}.bin"
    )
    probes = {
        int(row["step"]): float(row["score"])
        for row in found
        if row["tested"] == NAMES[number] and row["kind"] == kind
    }
    if not path.exists():
        assert not probes
        return 0
    ids = path.with_suffix(".npy")
    assert ids.read_bytes() == whole.bytes(f"per_example/{ids.name}")
    names = json.loads((folder / "per_example/tasks.json").read_text())
    assert len(names) > number
    assert tuple(names) == NAMES[: len(names)]
    data, steps = path.read_bytes(), set()
    size = 8 + -(-examples // 8)
    for start in range(0, len(data) - size + 1, size):
        step = int.from_bytes(data[start : start + 8], "little")
        bits = np.unpackbits(np.frombuffer(data[start + 8 : start + size], np.uint8))
        assert probes.get(step, bits.sum() / examples) == bits.sum() / examples
        assert not bits[examples:].any()
        steps.add(step)
    assert set(probes) <= steps, "a line has no hits"
    return len(steps)


def check_costs(folder: Path, said: list[str], whole: Whole) -> None:
    """Fail unless every task that was left has its costs, and they are as counted before."""
    path = folder / "costs.csv"
    mine = rows(path.read_bytes()) if path.exists() else []
    assert len(mine) >= sum(mark.startswith("left ") for mark in said)
    for row, expected in zip(mine, rows(whole.bytes("costs.csv")), strict=False):
        assert row["task"] == expected["task"]
        assert [row[name] for name in COUNTED] == [expected[name] for name in COUNTED]
        assert min(float(row["seconds_train"]), float(row["seconds_eval"])) >= 0


def check_left_behind(trainer: Trainer, shared: list[Path], server: Server) -> None:
    """Fail if a run that ended still holds anything."""
    until(lambda: not trainer.family(), "a process is left behind")
    assert not [path for path in shared if path.exists()]
    left = [path.name for path in server.temporary.iterdir()]
    assert [name for name in left if not name.startswith("torchinductor")] == []


def check_free(folder: Path) -> None:
    """Fail unless the folder is protected from a new run, and may be taken over if asked for."""
    tasks, model = {"a": (torch.eye(2), torch.tensor([0, 1]))}, torch.nn.Linear(2, 2)
    if (folder / "points.csv").exists() or (folder / "run.json").exists():
        state = "a finished" if (folder / "done.json").exists() else "an unfinished"
        with pytest.raises(RecordError, match=f"holds {state} run already; .*overwrite=True"):
            perdure.Evaluator(tasks, record=folder)
    evaluator = perdure.Evaluator(
        tasks, record=perdure.Record(folder, overwrite=True), count_flops=False
    )
    with evaluator, evaluator.task("a", model):
        evaluator.step(model)
    assert read_input(str(folder)).per_example["a"].steps.tolist() == [1]
    assert {path.name for path in folder.glob("per_example/*")} == {"0.bin", "0.npy", "tasks.json"}
    assert not (folder / "lock").exists()


def moments(count: int, seed: int, whole: Whole) -> list[Moment]:
    """Return random moments: at the start, anywhere, as a task ends, as all is closed."""
    chance = random.Random(seed)
    ends = [f"ends {name}" for name in NAMES]
    return [
        (
            ("starting", chance.uniform(0, 0.03)),
            ("points", chance.uniform(0, whole.seconds)),
            ("points", chance.uniform(0, whole.seconds)),
            (chance.choice(ends), chance.uniform(0, 0.02)),
            ("closing", chance.uniform(0, 0.02)),
        )[number % 5]
        for number in range(count)
    ]


def kill_trainer(
    server: Server, whole: Whole, home: Path, where: str, moment: Moment
) -> tuple[int, str]:
    """Kill a trainer and check what it leaves; return its steps and what was found."""
    trainer = server.start(home, where, then="stay")
    trainer.wait_for(moment)
    shared = trainer.shared_files()
    assert trainer.kill() == -signal.SIGKILL, trainer.errors()
    begun = (trainer.folder / "run.json").exists()
    found = check_record(trainer, where, whole) if begun else "nothing yet"
    check_free(trainer.folder)
    check_left_behind(trainer, shared, server)
    return trainer.steps(), found


def kill_worker(
    server: Server, whole: Whole, home: Path, kills: list[Moment]
) -> tuple[int, str]:  # fmt: skip
    """Kill workers and check that the record lacks nothing; return steps and what was found."""
    # At a step it waits to be killed: on a busy machine we would come too late.
    trainer = server.start(
        home, "worker", then=",".join(mark for mark, delay in kills if not delay)
    )
    due = 0
    for moment in kills:
        trainer.wait_for(moment)
        if not moment[1]:
            until(lambda: is_stopped(trainer.pid), "it does not stop")
        until(lambda: trainer.children() or "closing" in trainer.said(), "no worker appears")
        for pid in (found := trainer.children()):
            os.kill(pid, signal.SIGKILL)
        os.kill(trainer.pid, signal.SIGCONT)
        steps = trainer.steps()
        # Seen when the next snapshot is sent; the last ones of a task may have been tested before.
        due += bool(found) and 0 < steps % STEPS < STEPS - 8
    assert trainer.wait() == 0, trainer.errors()
    for name in (*GROWING, *(f"{name}.npy" for name in HITS), "per_example/tasks.json"):
        assert (trainer.folder / name).read_bytes() == whole.bytes(name), name
    check_record(trainer, "worker", whole)
    notes = json.loads((trainer.folder / "run.json").read_text())["notes"]
    assert all("the evaluation process died (exit code -9)" in note for note in notes)
    assert len(notes) >= due, notes
    assert all(note in trainer.errors() for note in notes)
    assert "Traceback" not in trainer.errors()
    check_left_behind(trainer, [], server)
    after = ("it was no longer needed", "another one went on", "the trainer itself went on")
    return steps, f"{len(rows(whole.bytes('points.csv')))} lines, all; {after[len(notes)]}"


@pytest.mark.one_in(2)
@pytest.mark.parametrize("number", range(5))
def test_a_killed_trainer_loses_nothing(
    server: Server, whole: Whole, tmp_path: Path, number: int
) -> None:
    where = ("inline", "worker")[number % 2]
    kill_trainer(server, whole, tmp_path / "home", where, moments(5, 11, whole)[number])


@pytest.mark.parametrize(
    ("steps", "after"), [((1,), "another one"), ((47,), "another one"), ((3, 20), "the trainer")]
)
def test_a_killed_worker_is_replaced(
    server: Server, whole: Whole, tmp_path: Path, steps: tuple[int, ...], after: str
) -> None:
    """Once by another one, then by the trainer itself: the record is that of no worker at all."""
    kills = [(f"step {step}", 0.0) for step in steps]
    assert after in kill_worker(server, whole, tmp_path / "home", kills)[1]


@pytest.mark.slow
def test_fifty_kills(server: Server, whole: Whole, tmp_path: Path) -> None:
    chance = random.Random(5)
    log: list[tuple[int, str, str, int, str]] = []
    try:
        for number, moment in enumerate(moments(25, 6, whole), start=1):
            where = ("inline", "worker")[number % 2]
            found = kill_trainer(server, whole, tmp_path / str(number), where, moment)
            log.append((number, "trainer", where, *found))
        for number in range(26, 51):
            moment = (f"step {chance.randint(1, 3 * STEPS - 5)}", chance.uniform(0, 0.01))
            found = kill_worker(server, whole, tmp_path / str(number), [moment])
            log.append((number, "worker", "worker", *found))
    finally:
        LOG.write_text(as_text(log))


def as_text(log: list[tuple[int, str, str, int, str]]) -> str:
    versions = (
        f"{datetime.now(UTC):%Y-%m-%d}, perdure {perdure.__version__}, "
        f"Python {platform.python_version()}, torch {torch.__version__}, numpy {np.__version__}, "
        f"{platform.system()} {platform.machine()}"
    )
    lines = [
        "# SIGKILL at random moments of a run of 3 tasks and 90 steps, tested after every step.",
        "# Written by `make test-slow` (tests/test_evaluator_kills.py), which checks that what was",
        "# complete before the kill is there, bit for bit, and that nothing is left behind.",
        f"# {versions}",
        "number  killed   place   after steps  found in the record",
        *(f"{k:6}  {who:7}  {where:6}  {at:11}  {found}" for k, who, where, at, found in log),
    ]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("where", ["inline", "worker"])
@pytest.mark.parametrize("step", [1, 66])
def test_an_interrupt_leaves_a_whole_record(
    server: Server, whole: Whole, tmp_path: Path, where: str, step: int
) -> None:
    """Control-C reaches the worker as well; what was to be tested by then is recorded."""
    # At the step it waits for us: on a busy machine it might be done before we see that it came.
    trainer = server.start(tmp_path / "home", where, then=f"step {step}")
    trainer.wait_for((f"step {step}", 0.0))
    until(lambda: is_stopped(trainer.pid), "it does not stop")
    os.kill(trainer.pid, signal.SIGCONT)
    time.sleep(0.001)
    os.killpg(trainer.pid, signal.SIGINT)
    assert trainer.wait() == -signal.SIGINT
    assert "KeyboardInterrupt" in trainer.errors()
    if step > 1:  # the worker has begun: it leaves the interrupt to its trainer
        assert trainer.errors().count("Traceback") == 1
        assert json.loads((trainer.folder / "run.json").read_text())["notes"] == []
    check_record(trainer, "inline", whole)  # of a worker as well: closing waits for it
    assert not (trainer.folder / "done.json").exists()
    assert not (trainer.folder / "lock").exists()
    check_free(trainer.folder)
    check_left_behind(trainer, [], server)
