"""`perdure run` as processes: progress, interrupts, kills, failures, two at once.

A user's own model is a function (shape, outputs, *, …) -> torch.nn.Module in a file of the folder
in which the command is run, named as module:factory; an own strategy is a class made from
`perdure.strategies.Strategy` there, named as module:Class. Keyword-only parameters with defaults
are hyperparameters for --set. `MINE` below is such a file.
"""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from perdure.execution import Job, ProgressEvent, RunEvent, run_in_processes
from perdure.training import make_config, run

from .cli_helpers import Answer, installed, says, scored, start, strict
from .cli_helpers import run as command
from .data_helpers import write_pack
from .run_helpers import SMALL, Command, done, inside, is_alive, points, recorded, until

if TYPE_CHECKING:
    from pathlib import Path

LONG = ("split-digits", "naive", "--epochs", "400", "--every", "2", "--set", "hidden=16")

MINE = """
import os, signal, sys
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from perdure.strategies import Strategy


def network(shape, outputs, *, width: int = 8, wrong: int = -1, killed: int = -1, left: int = -1):
    print("a model may say what it likes")
    seed = torch.initial_seed()
    if seed == wrong:
        raise KeyError("nothing for seed %d" % seed)
    if seed == killed:
        os.kill(os.getpid(), signal.SIGKILL)
    if seed == left:
        sys.exit(0)
    c, h, w = shape
    hidden = nn.Linear(c * h * w, width)
    return nn.Sequential(nn.Flatten(), hidden, nn.ReLU(), nn.Linear(width, outputs))


class Mine(Strategy):
    def __init__(self, model, optimizer, examples, *, seed=0, scale: float = 1.0):
        super().__init__(model, optimizer, examples, seed=seed)
        self.scale = scale

    def step(self, new, *others, on_loss_terms=None):
        loss = self.scale * cross_entropy(self.model(new.x, new.task), new.y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder with their own model and strategy, and this process in it."""
    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    return tmp_path


def test_own_model_and_strategy_and_lines_of_progress(mine: Path) -> None:
    answer = start(
        "run", "split-digits", "mine:Mine", "--model", "mine:network", "--set", "width=5",
        "--set", "scale=.5", "--epochs", "1", "--every", "10", "--seeds", "1", cwd=mine,
    )  # fmt: skip
    assert answer.code == 0, answer.err
    assert "a model may say" not in answer.out
    (folder,) = (mine / "runs").iterdir()
    assert folder.name.rsplit("-", 1)[0] == "split-digits-mine-Mine-s0"
    said = json.loads((folder / "run.json").read_text())["config"]
    assert said["model_options"]["width"] == 5
    assert said["options"] == {"scale": 0.5}
    lines = [line for line in answer.err.splitlines() if line.startswith("perdure: seed 0: ")]
    says(lines[-1], "100%", "learning 8-9, accuracy ", "min_acc ")
    assert len(lines) <= 4
    assert "\x1b" not in answer.err
    assert "Warning" not in answer.err


def job_of(seed: int, store: Path) -> Job:
    config = make_config(epochs=1, every=10, seed=seed, settings={"hidden": "16"})
    return Job(config, store / config.folder)


@pytest.mark.slow
def test_side_by_side_and_alone_give_the_same_bits(tmp_path: Path) -> None:
    events: list[RunEvent] = []
    jobs = [job_of(0, tmp_path), job_of(1, tmp_path)]
    run_in_processes(jobs, lambda _, event: events.append(event), max_parallel=2)
    assert [job.code for job in jobs] == [0, 0]
    assert sum(isinstance(e, ProgressEvent) and e.fraction == 1 for e in events) == 2
    alone = tmp_path / "alone"
    run(jobs[1].config, alone)
    bits = (alone / "points.csv").read_bytes()
    assert (jobs[1].folder / "points.csv").read_bytes() == bits
    assert (jobs[0].folder / "points.csv").read_bytes() != bits


COUNTING = """
import os
import perdure.data, perdure.data._decoding as decoding

def counted(name, function):
    def call(*given, **named):
        with open({log!r}, "a") as log:
            log.write(f"{{os.getpid()}} {{name}}\\n")
        return function(*given, **named)
    return call

perdure.data.load = counted("load", perdure.data.load)
decoding._write = counted("decode", decoding._write)
"""


def test_data_is_decoded_once_and_loaded_once_per_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted in every process of the pool, which all import the module `sitecustomize`."""
    write_pack(tmp_path / "mirror" / "mnist", train=60, test=20)
    (tmp_path / "sitecustomize.py").write_text(COUNTING.format(log=str(tmp_path / "log")))
    monkeypatch.setenv("PERDURE_DATA", str(tmp_path / "mirror"))
    monkeypatch.setenv("PERDURE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv(
        "PYTHONPATH",
        os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]),
    )
    options: dict[str, Any] = {"epochs": 1, "batch": 10, "every": 5, "settings": {"hidden": "8"}}
    configs = [make_config("split-mnist", "naive", seed=k, **options) for k in range(4)]
    jobs = [Job(config, tmp_path / config.folder) for config in configs]
    run_in_processes(jobs, lambda *_: None, max_parallel=2)
    assert [job.error for job in jobs] == [None] * 4
    calls = Counter((tmp_path / "log").read_text().splitlines())
    assert len(calls) == 2  # of the two processes, and the data had been decoded before
    assert all(call.endswith(" load") and count == 1 for call, count in calls.items())


@pytest.mark.slow
def test_one_at_a_time_gives_the_same_bits(tmp_path: Path) -> None:
    together = [job_of(k, tmp_path / "two") for k in range(2)]
    one_by_one = [job_of(k, tmp_path / "one") for k in range(2)]
    run_in_processes(together, lambda *_: None, max_parallel=2)
    run_in_processes(one_by_one, lambda *_: None, max_parallel=1)
    for a, b in zip(together, one_by_one, strict=True):
        bits = (a.folder / "points.csv").read_bytes()
        assert (b.folder / "points.csv").read_bytes() == bits


def test_failing_seeds_are_named_and_the_others_finish(mine: Path) -> None:
    own = ("--model", "mine:network", "--set", "wrong=0", "--set", "killed=1")
    answer = command(
        "run", "split-digits", "naive", *own, "--epochs", "1", "--every", "10", "--seeds", "3",
        "--format", "json",
    )  # fmt: skip
    assert answer.code == 1, answer.err
    found = strict(answer.out)
    assert [re.findall(r"-s(\d)-", folder) for folder in found["runs"]] == [["2"]]
    said = [line for line in answer.err.splitlines() if line.startswith("perdure: ")]
    assert len(said) == 2
    says(said[0], "seed 0 failed", "KeyError", "nothing for seed 0")
    says(said[1], "seed 1 failed", "signal 9")
    again = ("split-digits", "naive", *own, *SMALL[:4], "--seeds", "2,", "--store", mine / "alone")
    assert inside(*again).code == 0
    (alone,) = (mine / "alone").iterdir()
    (beside,) = (mine / "runs").glob(alone.name)  # a process beside others: the same bits
    assert (beside / "points.csv").read_bytes() == (alone / "points.csv").read_bytes()


@pytest.mark.slow
def test_a_process_that_leaves_early_has_failed(mine: Path) -> None:
    own = ("--model", "mine:network", "--set", "left=0")
    answer = command("run", "split-digits", "naive", *own, *SMALL[:4], "--seeds", "1")
    assert answer.code == 1
    assert answer.out == ""
    says(answer.err, "seed 0 failed", "before the run was finished")


def test_a_run_that_diverges(tmp_path: Path) -> None:
    answer = command(
        "run", "split-digits", "naive", *SMALL, "--set", "lr=1e30", "--seeds", "1", "--store",
        tmp_path,
    )  # fmt: skip
    assert answer.code not in (0, None)
    assert answer.out == ""
    line = answer.err.splitlines()[-1]
    says(line, "seed 0 failed", "step", "task '0-1'", "Naive", "lr")
    assert "Traceback" not in answer.err
    (folder,) = tmp_path.iterdir()
    assert points(folder)  # what was recorded stays
    assert not (folder / "done.json").exists()


def judged_interrupt(answer: Answer, *, recorded_some: bool) -> None:
    assert answer.code == 130, answer.err
    assert answer.out == ""
    assert "Traceback" not in answer.err
    assert "KeyboardInterrupt" not in answer.err
    says(answer.err, "interrupted", "same command")
    assert ("perdure score" in answer.err) == recorded_some


@pytest.mark.slow
def test_interrupted_twice_while_training(tmp_path: Path) -> None:
    with Command(*LONG, "--seeds", "1", cwd=tmp_path) as started:
        until(lambda: recorded(tmp_path / "runs"), "a seed trains")
        started.interrupt(group=True)
        started.interrupt(group=True)
        answer = started.end()
        assert not started.left()
    judged_interrupt(answer, recorded_some=True)
    (folder,) = (tmp_path / "runs").iterdir()
    assert scored(folder)["tasks"]
    assert not (folder / "done.json").exists()


def test_an_interrupt_of_the_parent_alone_then_the_same_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = ("split-digits", "naive", "--epochs", "12", "--every", "1", "--set", "hidden=16")
    (first,) = done(*arguments, "--seeds", "1")
    before = (first / "done.json").stat().st_mtime_ns
    with Command(*arguments, "--seeds", "2", cwd=tmp_path) as started:
        until(lambda: [f for f in recorded(tmp_path / "runs") if "-s1-" in f.name], "seed 1 trains")
        started.interrupt(group=False)
        answer = started.end()
        assert not started.left()
    judged_interrupt(answer, recorded_some=True)
    says(answer.err, "finished before: seed 0")
    again = inside(*arguments, "--seeds", "2")
    assert again.code == 0, again.err
    says(again.err, "finished before: seed 0", "starting from scratch: seed 1")
    assert (first / "done.json").stat().st_mtime_ns == before
    assert "mean of 2 seeds" in again.out


RARER = [pytest.param(after, marks=pytest.mark.slow) for after in (0.0, 0.02, 0.1, 1.0, 1.5, 2.0)]


@pytest.mark.parametrize("after", [0.5, *RARER])
def test_an_interrupt_while_a_seed_starts_up(after: float, tmp_path: Path) -> None:
    with Command(*LONG, "--seeds", "1", cwd=tmp_path) as started:
        until(started.children, "a seed is started")
        time.sleep(after)
        started.interrupt(group=True)
        answer = started.end()
        assert not started.left()
    judged_interrupt(answer, recorded_some=bool(recorded(tmp_path / "runs", 1)))


def test_in_the_background_it_ignores_interrupts_and_no_seed_outlives_it(tmp_path: Path) -> None:
    """A shell starts `perdure run … &` of a script so that Control-C does not reach it."""
    store, before = tmp_path / "runs", signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        started = Command(*LONG, "--seeds", "1", cwd=tmp_path)
    finally:
        signal.signal(signal.SIGINT, before)
    with started:
        until(lambda: recorded(store), "a seed trains")
        started.interrupt(group=True)
        (folder,) = store.iterdir()
        most = 2 * len(points(folder))
        until(lambda: recorded(store, most), "it trains on")
        started.process.kill()
        until(lambda: not started.left(), "the end of the seed")
        assert started.end().err == "perdure: training naive on split-digits, 1 seed\n"
    assert not (folder / "done.json").exists()


@pytest.mark.slow
def test_two_commands_at_once_and_the_first_is_killed(tmp_path: Path) -> None:
    store = tmp_path / "runs"
    with Command(*LONG, "--seeds", "1", cwd=tmp_path) as first:
        until(lambda: recorded(store), "the first trains")
        (folder,) = store.iterdir()
        second = command("run", *LONG, "--seeds", "1", "--store", store)
        assert second.code not in (0, None)
        assert second.out == ""
        assert "Traceback" not in second.err
        (line,) = (line for line in second.err.splitlines() if "failed" in line)
        says(line, "seed 0", "writes here", folder.name)
        steps = len(points(folder))
        until(lambda: len(points(folder)) > steps, "the first goes on")
        (child,) = first.children()
        os.kill(first.process.pid, signal.SIGKILL)
        until(lambda: not is_alive(child), "the child ends with its parent")
    assert scored(folder)["tasks"]


def test_bars_on_a_terminal(tmp_path: Path) -> None:
    pid, terminal = pty.fork()
    if pid == 0:  # pragma: no cover - the new process
        os.chdir(tmp_path)
        os.environ.pop("CI", None)
        os.environ.update(TERM="xterm-256color", COLUMNS="120", OMP_NUM_THREADS="1")
        words = [*installed(), "run", "--epochs", "1", "--every", "2", "--set", "hidden=16"]
        os.execv(words[0], [*words, "--seeds", "1"])
    text = b""
    try:
        while part := os.read(terminal, 4096):
            text += part
    except OSError:  # the other end is closed
        pass
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text.decode())
    live = r"learning 8-9, accuracy \d\.\d{3} +min_acc \d\.\d{3} +\d:\d\d:\d\d"
    assert re.search(rf"seed 0 .*100% +{live}", shown)
    says(shown, "record:", "lowest since")
