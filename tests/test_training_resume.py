"""Runs that go on: what is saved and when, what is refused and how it is said, workers."""

from __future__ import annotations

import csv
import errno
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from safetensors import SafetensorError
from torch import nn

from perdure import execution, training
from perdure.evaluation.recorder import EvaluationWarning
from perdure.execution.jobs import Job
from perdure.strategies import Naive
from perdure.training import checkpoint, loop, monitoring
from perdure.training.checkpoint import Checkpointer

from .cli_helpers import judged_refusal, says
from .kill_cases import differences, folders, last_step, resumed, saved_step
from .run_helpers import inside, until
from .strategy_helpers import ALL, NORMED, blobs, finish, short_config

if TYPE_CHECKING:
    from collections.abc import Callable

    from perdure.execution import RunEvent
    from perdure.training import RunConfig

STOPPED = ("split-digits", "naive", "--online", "--seeds", "1", "--set", "hidden=8")


class Stopped(BaseException):
    """What a kill is to a test."""


class Poisoned(Naive):
    """A strategy whose loss is no number at step 7."""

    def step(self, *batches: Any, on_loss_terms: Any = None) -> torch.Tensor:
        self.taken = getattr(self, "taken", 0) + 1
        loss = super().step(*batches, on_loss_terms=on_loss_terms)
        return loss * torch.nan if self.taken == 7 else loss


class Odd(Naive):
    """A strategy that keeps what no checkpoint can hold."""

    def begin_task(self, task: int, rows: Any) -> Any:
        self.helper = lambda: task
        return super().begin_task(task, rows)


def greedy(shape: tuple[int, int, int], outputs: int, *, megabytes: int = 0) -> nn.Module:
    """Return softmax regression, after using memory for nothing."""
    np.ones(megabytes << 20, np.uint8)
    return nn.Sequential(nn.Flatten(), nn.Linear(int(np.prod(shape)), outputs))


def stops_after(count: int) -> Callable[[], None]:
    """Return what to call after every checkpoint: it ends the run after so many."""
    left = count

    def saved() -> None:
        nonlocal left
        left -= 1
        if not left:
            raise Stopped

    return saved


def stopped(what: RunConfig, folder: Path, after: int, **more: Any) -> Path:
    """Return the folder of a run of blobs that was stopped after so many checkpoints."""
    with pytest.raises(Stopped):
        training.run(
            what, folder, scenario=blobs(), checkpoint_every=0, on_checkpoint=stops_after(after),
            **more,
        )  # fmt: skip
    return folder


def whole(what: RunConfig, folder: Path) -> Path:
    """Return the folder of a run of blobs that nobody disturbed."""
    training.run(what, folder, scenario=blobs())
    return folder


def on(what: RunConfig, folder: Path, **more: Any) -> Path:
    """Return the folder of a run of blobs that went on to its end."""
    training.run(what, folder, scenario=blobs(), resume=True, **more)
    return folder


def test_a_scenario_that_names_no_data_resumes(tmp_path: Path) -> None:
    """A scenario of the user's own: what run.json says of its data is {}."""
    what, scenario = short_config("naive"), replace(blobs(), data={})
    with pytest.raises(Stopped):
        training.run(
            what, tmp_path / "run", scenario=scenario, checkpoint_every=0,
            on_checkpoint=stops_after(3),
        )  # fmt: skip
    training.run(what, tmp_path / "run", scenario=scenario, resume=True)
    training.run(what, tmp_path / "whole", scenario=scenario)
    points = [(tmp_path / name / "points.csv").read_bytes() for name in ("run", "whole")]
    assert points[0] == points[1]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", ALL)
def test_every_strategy_goes_on_with_its_record(name: str, tmp_path: Path) -> None:
    """Stopped in the middle of each task and at an end; costs too are those of one run."""
    more: dict[str, Any] = {"optimizer": "adam", "settings": {"lr": "0.01"}, "epochs": 1}
    what = short_config(name, model=NORMED, gradients=2, **more)
    expected = whole(what, tmp_path / "whole")
    each, folder = last_step(expected) // 3, tmp_path / "run"
    for count in (each // 2, each // 2 + 3, each + 1):  # one a step, and one at a task's end
        stopped(what, folder, count, resume=True)
    on(what, folder)
    assert differences(folder, expected) == []
    assert len(resumed(folder)) == 3


def test_a_checkpoint_is_removed_when_a_run_is_finished(tmp_path: Path) -> None:
    folder = stopped(short_config("naive"), tmp_path / "run", 5)
    assert [path.name for path in (folder / "checkpoint").iterdir()] == ["state.safetensors"]
    assert saved_step(folder) == 5
    on(short_config("naive"), folder)
    names = {"run.json", "points.csv", "costs.csv", "confusion.csv", "done.json", "per_example"}
    assert {path.name for path in folder.iterdir()} == names


def test_when_it_is_time_to_save(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every so many seconds, and at a task's end unless there is next to nothing to lose."""
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    one: Any = Checkpointer(Path(), *[None] * 3, every=60.0)  # type: ignore[arg-type]
    for now, due, ended in (  # noqa: B007 - the clock reads it
        (1000.0, False, False), (1004.9, False, False), (1005.0, False, True),
        (1059.9, False, True), (1060.0, True, True),
    ):  # fmt: skip
        assert (one.is_due(), one.is_due(task_ended=True)) == (due, ended)


def test_a_run_saves_at_the_end_of_each_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is saved there begins with the next task, or is all there is."""
    monkeypatch.setattr(checkpoint, "TASK_END_SECONDS", 0.0)
    places = []
    save = checkpoint.save_checkpoint

    def saving(folder: Path, strategy: Any, place: Any, *rest: Any) -> None:
        places.append(place)
        save(folder, strategy, place, *rest)

    monkeypatch.setattr(checkpoint, "save_checkpoint", saving)
    what = short_config("replay", model=NORMED)
    expected = whole(what, tmp_path / "whole")
    steps = [
        int(json.loads((expected / "done.json").read_text())["steps"]) * k // 3 for k in (1, 2)
    ]
    assert [(at.phase, at.done, at.rows) for at in places] == [(k, 0, None) for k in (1, 2, 3)]
    assert [at.step for at in places[:2]] == steps
    for count in (1, 2, 3):
        folder = tmp_path / str(count)
        with pytest.raises(Stopped):
            training.run(what, folder, scenario=blobs(), on_checkpoint=stops_after(count))
        on(what, folder)
        assert differences(folder, expected) == []


def test_a_checkpoint_is_never_ahead_of_its_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When a checkpoint is written, the disk has every line that it counts on, and no other."""
    save, fsync = checkpoint.save_checkpoint, os.fsync
    synced: dict[str, int] = {}
    checked = []

    def sync(file: int) -> None:
        synced[str(Path(f"/proc/self/fd/{file}").readlink())] = os.fstat(file).st_size
        fsync(file)

    def saving(folder: Path, strategy: Any, place: Any, stopping: Any, record: Any) -> None:
        run, position = folder.parent, record["record"]["position"]
        assert position["points"][0] == synced[f"{run / 'points.csv'}"]
        for number, (_, some, whole) in enumerate(position["per_example"]):
            assert some[0] == synced[f"{run / 'per_example'}/{number}.bin"]
            assert (whole and whole[0]) == synced.get(f"{run / 'per_example'}/{number}.full.bin")
        assert position["points"][0] == (run / "points.csv").stat().st_size
        assert record["step"] == place.step
        checked.append(place.step)
        save(folder, strategy, place, stopping, record)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(checkpoint, "save_checkpoint", saving)
    training.run(short_config("naive"), tmp_path / "run", scenario=blobs(), checkpoint_every=0)
    assert len(set(checked)) > 10


@pytest.mark.parametrize(
    "error",
    [OSError(errno.ENOSPC, "No space left on device"), SafetensorError("no space left"), None],
    ids=["disk", "safetensors", "strategy"],
)
def test_a_checkpoint_that_cannot_be_saved_stops_nobody(
    error: Exception | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    what = short_config("naive" if error else f"{__name__}:Odd")
    expected = whole(short_config("naive"), tmp_path / "whole")

    def refuse(*_: Any, **__: Any) -> None:
        assert error is not None
        raise error

    if error is not None:
        monkeypatch.setattr(checkpoint, "save", refuse)
    with pytest.warns(
        EvaluationWarning, match="the checkpoint after step 1 could not be saved "
    ) as said:
        training.run(what, tmp_path / "run", scenario=blobs(), checkpoint_every=0)
    assert len(said) == 1
    words = "a strategy has a function" if error is None else "pace left"
    (note,) = json.loads((tmp_path / "run" / "run.json").read_text())["notes"]
    says(note, words, "if this run is stopped")
    for name in ("points.csv", "done.json"):
        assert (tmp_path / "run" / name).read_bytes() == (expected / name).read_bytes()


def test_the_last_checkpoint_stays_where_the_next_cannot_be_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    what = short_config("replay", model=NORMED)
    expected, folder = whole(what, tmp_path / "whole"), tmp_path / "run"
    stopped(what, folder, 7)
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "save", lambda *_, **__: (_ for _ in ()).throw(OSError(28)))
        with pytest.warns(EvaluationWarning, match="could not be saved"), pytest.raises(Stopped):
            training.run(
                what, folder, scenario=blobs(), resume=True, checkpoint_every=0,
                on_progress=lambda share, _: stop_at(share > 0.6),
            )  # fmt: skip
    assert saved_step(folder) == 7
    on(what, folder)
    assert differences(folder, expected) == []


def stop_at(moment: bool) -> None:
    if moment:
        raise Stopped


def test_a_loss_that_is_no_number_never_gets_into_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where losses are looked at now and then, as on a GPU: they are before saving."""

    def later(self: Any, losses: torch.Tensor) -> None:
        self._step += len(losses)
        self._losses.append(losses)

    monkeypatch.setattr(monitoring.DivergenceCheck, "add_losses", later)
    with pytest.raises(monitoring.DivergedError, match="is nan at step 7"):
        training.run(
            short_config(f"{__name__}:Poisoned"), tmp_path, scenario=blobs(), checkpoint_every=0
        )
    assert saved_step(tmp_path) == 6


def test_seeds_in_one_process_do_not_share_a_generator(tmp_path: Path) -> None:
    """Runs one after the other, some of them stopped and gone on with, are as each alone."""
    first, second = (short_config("replay", model=NORMED, seed=k) for k in (0, 1))
    expected = [whole(what, tmp_path / f"{what.seed}") for what in (second, first)][::-1]
    folders = [stopped(what, tmp_path / f"b{what.seed}", 9) for what in (first, second)]
    for what, folder, same in zip((first, second), folders, expected, strict=True):
        on(what, folder)
        assert differences(folder, same) == []


# What the command says


@pytest.fixture
def unfinished(tmp_path: Path) -> Path:
    """The folder of a run that `perdure run` was stopped in, after 20 steps."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            Checkpointer, "__init__", _stopping(Checkpointer.__init__, 22)
        )  # two are of tasks' ends
        with pytest.raises(Stopped):
            inside(*STOPPED, "--store", tmp_path)
    (folder,) = folders(tmp_path)
    assert saved_step(folder) == 20
    return folder


def _stopping(begin: Any, after: int) -> Any:
    def init(self: Any, *given: Any, **named: Any) -> None:
        begin(self, *given, **named | {"on_checkpoint": stops_after(after), "every": 0.0})

    return init


def edit(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change what a run says of itself."""
    said = json.loads((folder / "run.json").read_text())
    change(said)
    (folder / "run.json").write_text(json.dumps(said))


def test_the_command_goes_on_by_itself(unfinished: Path) -> None:
    edit(unfinished, lambda said: said["notes"].append("from before"))  # cut back with the rest
    answer = inside(*STOPPED, "--store", unfinished.parent)
    assert answer.code == 0, answer.err
    assert "resuming from a checkpoint: seed 0" in answer.err
    assert resumed(unfinished) == [20]
    again = inside(*STOPPED, "--resume", "--store", unfinished.parent)
    assert again.code == 0
    assert "finished before" in again.err


def test_fresh_starts_again(unfinished: Path) -> None:
    answer = inside(*STOPPED, "--restart", "--store", unfinished.parent)
    assert answer.code == 0, answer.err
    assert "starting from scratch: seed 0" in answer.err
    assert resumed(unfinished) == []


def test_resume_with_nothing_to_go_on_from(tmp_path: Path) -> None:
    line = judged_refusal(inside(*STOPPED, "--resume", "--store", tmp_path / "none"))
    says(line, "no checkpoint to resume from; leave out --resume to start it")
    assert not (tmp_path / "none").exists()


def test_resume_where_a_run_has_no_checkpoint_yet(unfinished: Path) -> None:
    (unfinished / "checkpoint" / "state.safetensors").unlink()
    before = (unfinished / "points.csv").read_bytes()
    line = judged_refusal(inside(*STOPPED, "--resume", "--store", unfinished.parent))
    says(line, str(unfinished), "no checkpoint to resume from")
    assert (unfinished / "points.csv").read_bytes() == before
    answer = inside(*STOPPED, "--store", unfinished.parent)
    assert answer.code == 0, answer.err
    assert "starting from scratch: seed 0" in answer.err


def test_fresh_and_resume(unfinished: Path) -> None:
    line = judged_refusal(inside(*STOPPED, "--resume", "--restart", "--store", unfinished.parent))
    says(line, "--restart and --resume exclude each other; give one")


@pytest.mark.parametrize("seconds", ["-1", "nan"])
def test_seconds_that_are_none(seconds: str, tmp_path: Path) -> None:
    line = judged_refusal(inside(*STOPPED, "--checkpoint-every", seconds, "--store", tmp_path))
    says(line, f"--checkpoint-every is {seconds}, expected 0 or more seconds")


def _other_data(said: dict[str, Any]) -> None:
    ((_, digits),) = said["config"]["data"].items()
    digits["sha256"] = dict.fromkeys(digits["sha256"], "ab" * 32)


CHANGES: dict[str, tuple[Callable[[dict[str, Any]], Any], tuple[str, ...]]] = {
    "torch": (lambda said: said["versions"].update(torch="1.0"), ("made with torch 1.0",)),
    "perdure": (lambda said: said["versions"].update(perdure="0"), ("made with perdure 0",)),
    "data": (_other_data, ("digits is ", " now, and was abababababab…")),
    "cpu": (lambda said: said.update(cpu="SSE9"), ("made on a processor with SSE9, this one has",)),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_has_changed_is_said_and_refused(name: str, unfinished: Path) -> None:
    change, words = CHANGES[name]
    edit(unfinished, change)
    before = (unfinished / "points.csv").read_bytes(), saved_step(unfinished)
    for more in ((), ("--resume",)):
        answer = inside(*STOPPED, *more, "--store", unfinished.parent)
        assert answer.code == 2
        (line,) = [line for line in answer.err.splitlines() if " failed: " in line]
        says(line, *words, "Use --restart to start over or --force to resume anyway")
    assert ((unfinished / "points.csv").read_bytes(), saved_step(unfinished)) == before
    answer = inside(*STOPPED, "--force", "--store", unfinished.parent)
    assert answer.code == 0, answer.err
    assert resumed(unfinished) == [20]
    (note,) = json.loads((unfinished / "run.json").read_text())["notes"]
    says(note, "resumed after step 20 with changes: ", *words)


def test_a_run_of_something_else_does_not_go_on(unfinished: Path) -> None:
    edit(unfinished, lambda said: said["config"].update(batch=7))
    for more in ((), ("--force",)):
        answer = inside(*STOPPED, *more, "--store", unfinished.parent)
        assert answer.code == 2
        says(answer.err, "is a run with batch 7; use --restart to start over")


def _foreign(path: Path) -> None:
    strategy, plan = training.build_learner(short_config("replay"), blobs())
    place = finish(loop.train(blobs(), strategy, plan))[-1]
    checkpoint.save_checkpoint(path.parent, strategy, place)


BROKEN: dict[str, Callable[[Path], Any]] = {
    "torn": lambda path: os.truncate(path, path.stat().st_size // 2),
    "empty": lambda path: path.write_bytes(b""),
    "text": lambda path: path.write_text("a checkpoint, they said"),
    "foreign": _foreign,
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_checkpoint_that_is_none(name: str, unfinished: Path) -> None:
    BROKEN[name](unfinished / "checkpoint" / "state.safetensors")
    before = (unfinished / "points.csv").read_bytes()
    answer = inside(*STOPPED, "--store", unfinished.parent)
    assert answer.code == 2
    lines = [line for line in answer.err.splitlines() if " failed: " in line]
    assert len(lines) == 1
    says(lines[0], "state.safetensors: ", "use --restart to start over")
    assert "Traceback" not in answer.err
    assert (unfinished / "points.csv").read_bytes() == before
    assert inside(*STOPPED, "--restart", "--store", unfinished.parent).code == 0


HOLD = """
import fcntl, sys, time
file = open(sys.argv[1], "a")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("more", [(), ("--restart",)])
def test_another_process_is_at_it(more: tuple[str, ...], unfinished: Path) -> None:
    """The second says so, and leaves record and checkpoint alone."""
    command = [sys.executable, "-c", HOLD, str(unfinished / "lock")]
    holder = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None
        holder.stdout.readline()
        before = {p: p.read_bytes() for p in unfinished.rglob("*") if p.is_file()}
        answer = inside(*STOPPED, *more, "--store", unfinished.parent)
        assert answer.code == 1
        says(answer.err, str(unfinished), "writes here; wait for it")
        assert {p: p.read_bytes() for p in unfinished.rglob("*") if p.is_file()} == before
    finally:
        holder.kill()
        holder.communicate()
    assert inside(*STOPPED, *more, "--store", unfinished.parent).code == 0


# Processes that do many runs


def job(store: Path, **more: Any) -> Job:
    usual: dict[str, Any] = {"epochs": 1, "every": 2, "model": f"{__name__}:greedy"}
    what = training.make_config("split-digits", "replay", **usual | more)
    return Job(what, store / what.folder, resume=True, checkpoint_every=0.01)


def test_a_process_does_many_runs_as_each_alone(tmp_path: Path) -> None:
    """Nothing of the first is left in the second: no bits, and no peak of memory."""
    big = job(tmp_path / "one", settings={"megabytes": "700"})
    jobs = [big, job(tmp_path / "one", seed=3), job(tmp_path / "one", seed=4, threads=1)]
    execution.run_in_processes(jobs, lambda *_: None, max_parallel=1)
    assert [each.code for each in jobs] == [0, 0, 0], jobs[0].error
    peaks = []
    for each in jobs:
        alone = tmp_path / "alone" / each.folder.name
        if each is not big:
            training.run(each.config, alone)
            assert differences(each.folder, alone) == []
        rows = list(csv.DictReader((each.folder / "costs.csv").read_text().splitlines()))
        peaks.append(max(float(row["peak_bytes"]) for row in rows))
    assert max(peaks[1:]) < peaks[0] - (600 << 20)


def test_a_killed_worker(tmp_path: Path) -> None:
    """Another one goes on where it was, and does the next run."""
    jobs = [job(tmp_path / "store", epochs=40), job(tmp_path / "store", seed=1)]
    killed: list[int] = []

    def on_event(which: Job, event: RunEvent) -> None:
        if which is jobs[0] and getattr(event, "fraction", 0) > 0.1 and not killed:
            until(lambda: saved_step(which.folder) > 0, "a checkpoint")
            (pid,) = workers()
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)

    execution.run_in_processes(jobs, on_event, max_parallel=1, retries=1)
    assert killed
    assert not workers()
    assert [each.code for each in jobs] == [0, 0]
    assert jobs[0].notes == ["its process was killed by signal 9; resuming"]
    assert resumed(jobs[0].folder)[0] > 0
    alone = tmp_path / "alone"
    training.run(jobs[0].config, alone)
    assert differences(jobs[0].folder, alone) == []


def workers() -> list[int]:
    """Return the processes that this one has for runs."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rsplit(")", 1)[1].split()[1])
            command = (path.parent / "cmdline").read_bytes()
        except OSError:  # it ended just now
            continue
        if parent == os.getpid() and b"perdure.execution.pool_worker" in command:
            found.append(int(path.parent.name))
    return found
