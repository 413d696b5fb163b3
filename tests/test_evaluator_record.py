"""What a watched loop leaves in its folder: when it fails, is interrupted, forks, or runs full."""

from __future__ import annotations

import gc
import json
import os
import signal
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import perdure
from perdure.evaluation import tracker
from perdure.evaluation.engine.engine import Engine
from perdure.record import RecordError, open_run, per_example_writer, read_input, replace_file

from .cli_helpers import run, scored
from .writer_helpers import Disk, Interrupt, disk, name_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["disk"]  # a fixture

EXAMPLES = 21
STEPS = 6
Data = dict[str, tuple[Tensor, Tensor]]


def data(names: str = "ab") -> Data:
    found = {}
    for number, name in enumerate(names):
        generator = torch.Generator().manual_seed(number)
        x = torch.randn(EXAMPLES, 5, generator=generator)
        found[name] = x, (x[:, number % 5] > 0).long()
    return found


EXECUTORS = {"inline": perdure.Inline(), "worker": perdure.Worker()}


class Loop:
    """A loop that learns tasks in turn; `step` may be replaced to fail."""

    def __init__(self, evaluator: perdure.Evaluator, tasks: Data) -> None:
        self.evaluator, self.tasks = evaluator, tasks
        self.model = nn.Linear(5, 2)
        with torch.no_grad():
            self.model.weight.copy_(torch.linspace(-1, 1, 10).reshape(2, 5))
            self.model.bias.zero_()
        self.done = 0

    def step(self) -> None:
        x, y = self.tasks[self.learned]
        pulls = torch.autograd.grad(cross_entropy(self.model(x), y), list(self.model.parameters()))
        with torch.no_grad():
            for weight, pull in zip(self.model.parameters(), pulls, strict=True):
                weight.sub_(pull, alpha=0.5)
        self.done += 1
        self.evaluator.step(self.model)

    def learn(self, names: str, steps: int = STEPS) -> None:
        for name in names:
            self.learned = name
            with self.evaluator.task(name, self.model, train_data=EXAMPLES):
                for _ in range(steps):
                    self.step()


def watched(folder: Path | perdure.Record | None, tasks: Data, **options: Any) -> Loop:
    options = {"count_flops": False, "progress": False} | options
    return Loop(perdure.Evaluator(tasks, record=folder, **options), tasks)


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("reference")
    loop = watched(folder, data())
    loop.learn("ab")
    loop.evaluator.close()
    return growing(folder)


def growing(folder: Path) -> dict[str, bytes]:
    """Return the files that only grow."""
    paths = [folder / "points.csv", *folder.glob("per_example/*.bin")]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


@contextmanager
def no_longer_than(seconds: float = 120) -> Iterator[None]:
    """Fail if something hangs: a busy machine is slow, and only a fault waits so long."""

    def ring(*_: object) -> None:
        raise TimeoutError(f"hangs for {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def lines(folder: Path) -> list[list[str]]:
    return [line.split(",") for line in (folder / "points.csv").read_text().splitlines()[1:]]


# What is recorded


def test_hits_are_of_the_right_task_whatever_the_order_of_learning(tmp_path: Path) -> None:
    """Tested are all tasks as given, a b c; learned c, a, b."""
    tasks = data("abc")
    loop = watched(tmp_path, tasks, unseen=True, subset=13)
    own: dict[str, list[Tensor]] = {name: [] for name in tasks}
    step = loop.evaluator.step

    def step_and_test(model: Any, *, replayed: bool = False) -> None:
        with torch.no_grad():
            for name, (x, y) in tasks.items():
                own[name].append(model(x).argmax(1) == y)
        step(model, replayed=replayed)

    loop.evaluator.step = step_and_test  # type: ignore[method-assign]
    loop.learn("cab")
    loop.evaluator.close()
    names = json.loads((tmp_path / "per_example/tasks.json").read_text())
    assert sorted(names) == ["a", "b", "c"]
    source = read_input(str(tmp_path))
    assert source.matrix is not None
    assert source.matrix.tasks == ("c", "a", "b")
    assert set(source.per_example) == {"a", "b", "c"}
    for name in tasks:
        chosen = np.load(tmp_path / f"per_example/{names.index(name)}.npy")
        assert len(chosen) == 13
        expected = torch.stack(own[name])[:, chosen].numpy()
        np.testing.assert_array_equal(source.per_example[name][:], expected)
        assert source.per_example[name].steps.tolist() == list(range(1, 3 * STEPS + 1))
        scores = [float(row[4]) for row in lines(tmp_path) if row[2:4] == [name, "probe"]]
        assert scores == [int(row.sum()) / 13 for row in expected]  # to the last bit


def test_a_loss_is_scored_as_a_loss_without_saying_so_again(tmp_path: Path) -> None:
    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return cross_entropy(5 * model(x), y, reduction="none")

    loop = watched(tmp_path, data(), score=perdure.Score(loss, lower_is_better=True))
    loop.learn("ab")
    loop.evaluator.close()
    assert not (tmp_path / "per_example").exists()
    rows = [row for row in lines(tmp_path) if row[3] == "full"]
    first, again, second = (float(row[4]) for row in rows)
    assert again > first > 0  # forgotten: a larger loss
    found = scored(tmp_path)
    assert found["metrics"]["acc"] == pytest.approx((again + second) / 2)
    assert found["metrics"]["forgetting.any"] == pytest.approx(again - first)
    said = scored(tmp_path, "--lower-is-better", "--range", "-inf,inf")
    assert said["metrics"] == found["metrics"]


def test_notes_reach_whoever_reads_the_record(tmp_path: Path) -> None:
    loop = watched(tmp_path, data(), alarm=lambda live: "it rained" if live.step == 3 else None)
    with pytest.warns(perdure.EvaluationWarning, match="it rained"):
        loop.learn("ab")
    (note,) = loop.evaluator.notes
    assert note in loop.evaluator.summary().notes
    loop.evaluator.close()
    assert note in open_run(tmp_path).summary().notes
    assert note in " ".join(run("score", tmp_path).out.split())


def test_a_note_is_one_line(tmp_path: Path) -> None:
    def forward(model: nn.Module, x: Tensor) -> Tensor:
        if torch.is_grad_enabled():
            raise RuntimeError("first line\nsecond line")
        return model(x)  # type: ignore[no-any-return]

    loop = watched(tmp_path, data("a"), forward=forward, count_flops=True)
    with pytest.warns(perdure.EvaluationWarning, match="first line"):
        loop.learn("a")
    notes = json.loads((tmp_path / "run.json").read_text())["notes"]
    assert all(len(note.splitlines()) == 1 for note in notes)
    loop.evaluator.close()


@pytest.mark.parametrize("name", ["a\nb", "a\rb", "a\tb", "\x00", "\ud800", "a\u2028b", ""])
def test_names_that_no_line_can_hold_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="must be text that can be printed") as caught:
        perdure.Evaluator({name: data()["a"]}, record=tmp_path / "run")
    assert len(str(caught.value).splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_the_disk_has_everything_when_a_task_ends(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is synced while a task is learned: that would cost more than the test."""
    real, unsynced, synced = os.fsync, set[str](), []

    def fsync(file: int) -> None:
        synced.append(name_of(file))
        unsynced.discard(synced[-1])
        real(file)

    monkeypatch.setattr(os, "fsync", fsync)
    disk.after = lambda: unsynced.add(disk.written[-1])
    loop = watched(tmp_path, data())
    steps: list[str] = []
    for name in "ab":
        loop.learned = name
        with loop.evaluator.task(name, loop.model):
            loop.step()
            synced.clear()
            for _ in range(3):
                loop.evaluator.record_gradients(loop.model, loop.model.weight.sum())
                loop.step()
            steps += synced
            assert {"points.csv", "0.bin", "gradients.csv"} <= unsynced
        assert not unsynced - {"lock"}
    assert steps == []
    loop.evaluator.close()
    assert any(name.startswith(".done.json.") for name in synced)


def test_nothing_stored_yet_is_nothing(tmp_path: Path) -> None:
    loop = watched(tmp_path, data("a"))
    kept: list[Tensor] = []
    with loop.evaluator.task("a", loop.model, stored_samples=kept):
        loop.learned = "a"
        loop.step()
    loop.evaluator.close()
    costs = read_input(str(tmp_path)).costs
    assert costs is not None
    assert costs.column("stored_bytes").tolist() == [0]


# Runs that do not end well


@pytest.mark.parametrize(
    "where",
    [
        "inline",
        "worker",
    ],
)
def test_an_exception_leaves_an_unfinished_run_that_can_be_read(
    tmp_path: Path, reference: dict[str, bytes], where: str
) -> None:
    loop = watched(tmp_path, data(), executor=EXECUTORS[where])
    step = loop.step

    def fails() -> None:
        if loop.done == STEPS + 3:
            raise OverflowError("mine")
        step()

    loop.step = fails  # type: ignore[method-assign]
    with pytest.raises(OverflowError, match="mine"), loop.evaluator:
        loop.learn("ab")
    assert not (tmp_path / "done.json").exists()
    assert not (tmp_path / "lock").exists()
    for name, text in growing(tmp_path).items():
        assert reference[name].startswith(text), name
    assert [row[0] for row in lines(tmp_path)][-1] == str(STEPS + 3)
    assert "unfinished" in str(read_input(str(tmp_path)).notes)
    assert run("score", tmp_path).code == 0


def test_an_exception_between_tasks_leaves_an_unfinished_run(tmp_path: Path) -> None:
    loop = watched(tmp_path, data())
    loop.learn("a")
    with pytest.raises(OverflowError), loop.evaluator:
        raise OverflowError
    assert not (tmp_path / "done.json").exists()
    assert "unfinished" in str(read_input(str(tmp_path)).notes)


@pytest.mark.parametrize("where", ["inline", "worker"])
def test_a_stream_without_tasks_is_whole_when_it_is_closed(tmp_path: Path, where: str) -> None:
    """No task's end has waited for the last tests, which take their time."""

    def forward(model: nn.Module, x: Tensor) -> Tensor:
        time.sleep(0.02)
        return model(x)  # type: ignore[no-any-return]

    loop = watched(tmp_path, data("a"), executor=EXECUTORS[where], forward=forward)
    loop.learned = "a"
    for _ in range(STEPS):
        loop.step()
    loop.evaluator.close()
    assert [row[:4] for row in lines(tmp_path)] == [
        [str(step), "", "a", "probe"] for step in range(1, STEPS + 1)
    ]
    assert (tmp_path / "done.json").exists()


def test_closing_a_run_that_was_broken_off_does_not_finish_it(tmp_path: Path) -> None:
    """`try: … finally: evaluator.close()` is what many write."""
    loop = watched(tmp_path, data())
    with suppress(KeyboardInterrupt):
        try:
            loop.learn("a")
            with loop.evaluator.task("b"):
                loop.learned = "b"
                loop.step()
                raise KeyboardInterrupt
        finally:
            loop.evaluator.close()
    assert not (tmp_path / "done.json").exists()
    assert "unfinished" in str(read_input(str(tmp_path)).notes)


def test_a_run_interrupted_in_its_last_test_is_not_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole sets may take minutes: time to look for the key."""
    loop = watched(tmp_path, data(), initial="none")

    def interrupted_then(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    loop.learn("a")
    monkeypatch.setattr(loop.evaluator._engine, "evaluate_now", interrupted_then)
    try:
        with pytest.raises(KeyboardInterrupt):
            loop.learn("b")
    finally:
        loop.evaluator.close()
    assert not (tmp_path / "done.json").exists()


@pytest.mark.parametrize("where", ["inline", "worker"])
@pytest.mark.parametrize("kind", [OSError, EOFError, KeyError])
def test_an_error_of_the_users_own_is_not_taken_for_one_of_ours(
    tmp_path: Path, where: str, kind: type[Exception]
) -> None:
    def score(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        if model.weight.abs().max() > 1.05:  # type: ignore[operator]
            raise kind("mine")
        return (model(x).argmax(1) == y).double()  # type: ignore[no-any-return]

    loop = watched(tmp_path, data("a"), executor=EXECUTORS[where], score=score)
    with no_longer_than(), pytest.raises(kind, match="mine"):
        loop.learn("a", steps=30)
    with suppress(kind):  # of another test that was under way
        loop.evaluator.close()
    assert loop.evaluator.notes == []
    assert lines(tmp_path)


@contextmanager
def interruptible() -> Iterator[None]:
    """Handle interrupts as a Python program does."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # half a pipe
@pytest.mark.parametrize("verify_every", [1, 1000])
@pytest.mark.parametrize("stride", [23, pytest.param(1, marks=pytest.mark.slow)])
def test_a_worker_that_is_interrupted_anywhere_lets_go(
    tmp_path: Path, reference: dict[str, bytes], stride: int, verify_every: int
) -> None:
    """What was tested is recorded, never twice; no step after the interrupt is missing."""
    files = "engine/worker.py", "engine/engine.py", "processing/connection.py"
    for number in range(7, 1000, stride):
        folder = tmp_path / str(number)
        loop = watched(folder, data(), executor=perdure.Worker(verify_every=verify_every))
        loop.learned = "a"
        with no_longer_than():
            with loop.evaluator.task("a", loop.model):
                if number % 2:  # else its start is interrupted
                    loop.step()
                with Interrupt(number, *files) as at:
                    loop.step()
                    time.sleep(0.001)
                    loop.step()
                before = loop.done
                while loop.done < STEPS:
                    loop.step()
            loop.evaluator.close(finished=False)
        found = [int(row[0]) for row in lines(folder) if row[3] == "probe"]
        assert set(range(before + 1, STEPS + 1)) <= set(found), at
        assert sorted(set(found)) == found, at
        assert set(reference["points.csv"].splitlines()) >= set(
            (folder / "points.csv").read_bytes().splitlines()
        )
        if not at:
            break
    else:
        pytest.fail("more lines than were expected")


@pytest.mark.parametrize("stride", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_an_interrupt_while_results_are_recorded_leaves_no_gap(
    tmp_path: Path, reference: dict[str, bytes], monkeypatch: pytest.MonkeyPatch, stride: int
) -> None:
    """Later results may be waiting, as those of a worker or a GPU: they are recorded at the end."""
    collect_all: Any = Engine.collect_here

    def collect_late(engine: Any, *, wait: bool = False) -> Any:
        if wait:
            return collect_all(engine, wait=True)
        return [engine._completed.popleft()] if len(engine._completed) > 2 else []

    monkeypatch.setattr(Engine, "collect_here", collect_late)
    files = "tracker.py", "recorder.py", "engine.py", "writer.py"
    for number in range(0, 1000, stride):
        folder = tmp_path / str(number)
        loop = watched(folder, data())
        loop.learned = "a"
        with (
            suppress(KeyboardInterrupt),
            loop.evaluator.task("a", loop.model, train_data=EXAMPLES),
        ):
            loop.step()
            loop.step()
            with Interrupt(number, *files) as at:
                loop.step()
                loop.step()
            if not at:
                break
            raise KeyboardInterrupt
        loop.evaluator.close(finished=False)
        for name, content in growing(folder).items():
            assert reference[name].startswith(content), (at, name)
        assert len([row for row in lines(folder) if row[3] == "probe"]) >= 2, at
    else:
        pytest.fail("more lines than were expected")


def test_a_logger_that_hangs_is_ended_by_a_second_interrupt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached: list[str] = []

    def log(values: dict[str, float], _: int) -> None:
        if "probe/a" in values and not reached:
            signal.raise_signal(signal.SIGINT)
            reached.append("the first waits")
            signal.raise_signal(signal.SIGINT)
            reached.append("the second does not")

    monkeypatch.setattr(tracker, "REPEAT_SECONDS", 0.0)
    loop = watched(perdure.Record(tmp_path, log=log), data())
    with interruptible():
        with pytest.raises(KeyboardInterrupt):
            loop.learn("a")
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    loop.evaluator.close(finished=False)
    assert reached == ["the first waits"]


def test_a_process_gets_the_same_interrupt_twice(tmp_path: Path) -> None:
    """That of its terminal and that of its parent: the record is completed all the same."""
    reached: list[str] = []

    def log(values: dict[str, float], step: int) -> None:
        if "probe/a" in values and step == 2 and not reached:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            reached.append("both wait")

    loop = watched(perdure.Record(tmp_path, log=log), data())
    with interruptible(), pytest.raises(KeyboardInterrupt):
        loop.learn("a")
    loop.evaluator.close(finished=False)
    assert reached
    assert [row[0] for row in lines(tmp_path) if row[3] == "probe"] == ["1", "2"]


def test_the_users_code_may_fork_or_handle_interrupts_while_results_are_recorded(
    tmp_path: Path,
) -> None:
    own_handler, child_ends = signal.SIG_IGN, list[int]()

    def log(values: dict[str, float], _: int) -> None:
        if "probe/a" not in values or child_ends:
            return
        pid = os.fork()
        if pid == 0:
            with suppress(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
                os._exit(1)
            os._exit(0)
        child_ends.append(os.waitpid(pid, 0)[1])
        signal.signal(signal.SIGINT, own_handler)

    with interruptible():
        loop = watched(perdure.Record(tmp_path, log=log), data())
        loop.learn("a")
        assert signal.getsignal(signal.SIGINT) is own_handler
    loop.evaluator.close(finished=False)
    assert child_ends == [0]


def test_a_step_after_the_end(tmp_path: Path) -> None:
    loop = watched(tmp_path, data("a"))
    loop.learn("a")
    loop.evaluator.close()
    before = growing(tmp_path)
    with pytest.raises(RuntimeError, match="closed"):
        loop.learn("a")
    assert growing(tmp_path) == before


# A full disk


@pytest.mark.parametrize("where", ["inline", "worker"])
def test_a_loop_that_goes_on_after_a_full_disk_loses_nothing(
    tmp_path: Path, reference: dict[str, bytes], disk: Disk, where: str
) -> None:
    for number in range(8):
        folder = tmp_path / str(number)
        loop = watched(folder, data(), executor=EXECUTORS[where])
        loop.learn("a")
        with loop.evaluator.task("b", loop.model):
            loop.learned = "b"
            for step in range(STEPS):
                disk.plan = [*([None] * number), -1, 3, -1] if step == 1 else disk.plan
                disk.plan = [] if step == 4 else disk.plan
                with suppress(RecordError):
                    loop.step()
        loop.evaluator.close()
        assert growing(folder) == reference, number


def test_an_evaluation_whose_hits_cannot_begin_is_not_lost(
    tmp_path: Path, reference: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = replace_file, 0

    def replace(path: Path, data: str | bytes) -> None:
        nonlocal calls
        calls += path.suffix == ".npy"
        if path.suffix == ".npy" and calls == 2:
            raise RecordError(f"{path}: no space left on device")
        real(path, data)

    monkeypatch.setattr(per_example_writer, "replace", replace)
    loop = watched(tmp_path, data())
    step = loop.step

    def refused() -> None:
        with suppress(RecordError):
            step()

    loop.step = refused  # type: ignore[method-assign]
    loop.learn("ab")
    loop.evaluator.close()
    assert calls == 3
    assert growing(tmp_path) == reference


def test_a_loop_goes_on_if_the_disk_is_full_as_a_task_ends(
    tmp_path: Path, reference: dict[str, bytes], disk: Disk
) -> None:
    loop = watched(tmp_path, data())
    loop.learned = "a"
    task = loop.evaluator.task("a", loop.model)
    task.__enter__()
    for _ in range(STEPS):
        loop.step()
    disk.plan = [-1]
    with pytest.raises(RecordError):
        task.__exit__(None, None, None)
    loop.learn("b")
    loop.evaluator.close()
    assert growing(tmp_path) == reference
    assert read_input(str(tmp_path)).costs is not None


# Forked children


def forked(do: Any) -> None:
    """Do something in a child that ends as a Python program does."""
    pid = os.fork()
    if pid == 0:
        with suppress(BaseException):
            do()
        os._exit(0)
    os.waitpid(pid, 0)


def test_a_record_without_a_folder_outlives_forked_children() -> None:
    loops = [watched(None, data("a"))]
    loops[0].learn("a")

    def drop() -> None:
        loops.clear()
        gc.collect()

    forked(drop)
    assert loops[0].evaluator.summary().metrics["acc"] > 0
    loops[0].evaluator.close()


def test_a_forked_child_does_not_finish_the_run(tmp_path: Path) -> None:
    loop = watched(tmp_path, data())
    loop.learn("a")
    before = {path.name for path in tmp_path.iterdir()}
    forked(loop.evaluator.close)
    assert {path.name for path in tmp_path.iterdir()} == before
    loop.learn("b")
    loop.evaluator.close()
    assert read_input(str(tmp_path)).notes == []


def test_a_forked_child_does_not_stop_the_worker(
    tmp_path: Path, reference: dict[str, bytes]
) -> None:
    loop = watched(tmp_path, data(), executor=perdure.Worker())
    loop.learned = "a"
    with no_longer_than(), loop.evaluator.task("a", loop.model):
        for _ in range(STEPS):
            loop.step()
            forked(loop.evaluator.close)
    loop.learn("b")
    loop.evaluator.close()
    assert growing(tmp_path) == reference
