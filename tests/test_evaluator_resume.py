"""An evaluator that goes on: in anybody's loop, from any step, to the same record and numbers."""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from copy import deepcopy
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

import perdure
from perdure.evaluation.costs import meter as meter_file
from perdure.record import RecordError, RunWriter
from perdure.record.io.folder import Appender

from .evaluator_loops import data, slow
from .kill_cases import differences
from .writer_helpers import name_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from perdure.record.writer import WriterPosition

ORDER = "abc"
STEPS = 5  # a task
LATER = 7  # steps that are lost: another task may begin in them
PLACES = [(0, 1), (0, 5), (1, 0), (1, 3), (2, 1), (2, 5), (3, 0)]
SETTINGS: dict[str, dict[str, Any]] = {
    "usual": {"subset": 7},
    "all": {"unseen": True, "initial": "all", "every": 2, "config": {"setting": "task"}},
    "resampled": {"subset": perdure.Subset(7, resample=True), "initial": "none"},
    "loss": {"score": "loss", "count_flops": False},
}


class Killed(Exception):
    """What a kill is to a test."""


class Saved(NamedTuple):
    """What a user's own checkpoint has: the task, how many of its steps, and all states."""

    task: int
    done: int
    text: str  # of the evaluator, as JSON
    model: dict[str, Any]
    optimizer: dict[str, Any]
    random: torch.Tensor


class Learned(NamedTuple):
    """The numbers after every step, and the checkpoint that was asked for."""

    numbers: list[dict[str, Any]]
    saved: Saved | None


def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return cross_entropy(model(x), y, reduction="none")


def numbers(live: Any) -> dict[str, Any]:
    """Return every live number there is."""
    mine = {"step": live.step, "task": live.task, "current": live.current, "min": live.min_acc}
    return mine | {"worst": live.wc_acc, "wf": live.wf, "wp": live.wp}


def learn(
    folder: Path,
    *,
    save: tuple[int, int] | None = None,
    saved: Saved | None = None,
    lost: int = LATER,
    later: bool = False,
    watch: Callable[[Any, int], None] = lambda evaluator, step: None,
    **given: Any,
) -> Learned:
    """Train a network with batch statistics, as anybody would; where it saves it is killed later.

    What is saved after `save` = (task, steps in it) is in the answer; (task, 0) is before it.
    """
    torch.manual_seed(3)
    model = nn.Sequential(
        nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 4)
    )
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    task, done, state = (0, 0, None) if saved is None else (saved.task, saved.done, saved.text)
    if saved is not None:
        model.load_state_dict(saved.model)
        optimizer.load_state_dict(deepcopy(saved.optimizer))  # it takes the tensors themselves
    if given.get("score") == "loss":
        given["score"] = perdure.Score(loss, lower_is_better=True)
    found: list[dict[str, Any]] = []
    kept: Saved | None = None
    step, left = STEPS * task + done, lost

    def may_save(number: int, steps: int) -> None:
        nonlocal kept
        if (number, steps) == save:
            text = json.dumps(evaluator.state_dict())
            own = deepcopy(model.state_dict()), deepcopy(optimizer.state_dict())
            kept = Saved(number, steps, text, *own, torch.get_rng_state())

    resume = None if state is None else json.loads(state)
    given["record"] = perdure.Record(
        folder, resume="later" if later else resume, overwrite=resume is not None
    )
    with perdure.Evaluator(data(), **given) as evaluator:
        if later and resume is not None:
            evaluator.load_state_dict(resume)
        if saved is None:
            evaluator.live.add_windows(2, 3)  # a resumed one has them from its state
        else:
            torch.set_rng_state(saved.random)
        for number in range(task, len(ORDER)):
            x, y = data()[ORDER[number]]
            first = done if number == task else 0
            with evaluator.task(
                ORDER[number], model, train_data=(x, y), stored_samples=number * 10
            ):
                for k in range(first, STEPS):
                    chosen = torch.randperm(len(x))[: 8 - k // 4]
                    term = cross_entropy(model(x[chosen]), y[chosen])
                    evaluator.record_gradients(model, term, every=2)
                    optimizer.zero_grad()
                    term.backward()
                    optimizer.step()
                    evaluator.step(model)
                    step += 1
                    watch(evaluator, step)
                    found.append(numbers(evaluator.live))
                    may_save(number, k + 1)
                    left -= kept is not None
                    if kept is not None and left < 0:
                        raise Killed(kept)
            evaluator.costs.report_memory(
                regularizer_state=100 + number, auxiliary_tensors=50 * number
            )
            with evaluator.costs.count_as_training():
                model(x)
            may_save(number + 1, 0)
    return Learned(found, kept)


def killed(folder: Path, save: tuple[int, int], **given: Any) -> Saved:
    """Return the checkpoint of a loop that was killed some steps later, or closed at its end."""
    try:
        saved = learn(folder, save=save, **given).saved
    except Killed as stop:
        saved = stop.args[0]
    assert saved is not None
    return saved


@pytest.fixture(scope="module")
def wholes(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., tuple[Path, Learned]]:
    """Loops that nobody disturbs, once each."""
    known: dict[str, tuple[Path, Learned]] = {}

    def whole(name: str, **given: Any) -> tuple[Path, Learned]:
        if name not in known:
            folder = tmp_path_factory.mktemp("whole") / "run"
            known[name] = folder, learn(folder, **given)
        return known[name]

    return whole


@pytest.fixture(autouse=True)
def without_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's own loop says nothing of its weights in done.json."""
    close = perdure.Evaluator.close
    monkeypatch.setattr(
        perdure.Evaluator,
        "close",
        lambda self, *, finished=True, **said: close(self, finished=finished, weights="0" * 64),
    )


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("place", PLACES, ids=str)
def test_a_loop_goes_on(name: str, place: tuple[int, int], wholes: Any, tmp_path: Path) -> None:
    """Between tasks, in the middle of one, after its last step, after the last task."""
    given, folder = SETTINGS[name], tmp_path / "run"
    expected, learned = wholes(name, **given)
    saved = killed(folder, place, **given)
    later = learn(folder, saved=saved, **given)
    if name == "loss":  # no costs without a meter: they are not compared
        for path in (folder, expected):
            (path / "costs.csv").write_text("task\n")
    assert differences(folder, expected) == []
    step = STEPS * place[0] + place[1]
    assert later.numbers == learned.numbers[step:]
    (went_on,) = json.loads((folder / "run.json").read_text())["resumed"]
    assert went_on["after_step"] == step


@pytest.mark.parametrize("place", [(0, 5), (1, 0), (1, 3)], ids=str)
def test_a_state_that_is_loaded_later(place: tuple[int, int], wholes: Any, tmp_path: Path) -> None:
    """As frameworks do: the evaluator exists before the checkpoint is read."""
    given, folder = SETTINGS["usual"], tmp_path / "run"
    expected, learned = wholes("usual", **given)
    saved = killed(folder, place, later=True, **given)
    later = learn(folder, saved=saved, later=True, **given)
    assert differences(folder, expected) == []
    assert later.numbers == learned.numbers[STEPS * place[0] + place[1] :]


def test_nothing_is_opened_until_the_state_may_be_there(tmp_path: Path) -> None:
    state = state_of(tmp_path / "run")
    record = perdure.Record(tmp_path / "run", resume="later")
    before = content(tmp_path / "run")
    evaluator = perdure.Evaluator(data(), record=record)
    evaluator.note("said before")
    assert "record  opened with the first task" in repr(evaluator)
    assert content(tmp_path / "run") == before
    with pytest.raises(RecordError, match="holds an unfinished run already"):  # no state was loaded
        evaluator.begin("a", nn.Linear(6, 4))
    assert content(tmp_path / "run") == before
    evaluator.load_state_dict(state)
    assert json.loads((tmp_path / "run" / "run.json").read_text())["notes"] == ["said before"]
    with pytest.raises(RuntimeError, match="stopped in the middle of 'b'"):
        evaluator.begin("a", nn.Linear(6, 4))
    with pytest.raises(RuntimeError, match=r"after the record was opened.*resume='later'"):
        evaluator.load_state_dict(state)
    evaluator.close(finished=False)


def test_states_that_cannot_be_loaded_later(tmp_path: Path) -> None:
    state = state_of(tmp_path / "run")
    for folder in (None, tmp_path / "new"):
        evaluator = perdure.Evaluator(data(), record=folder)
        with pytest.raises(RuntimeError, match=r"after the record was opened.*resume='later'"):
            evaluator.load_state_dict(state)
        evaluator.close(finished=False)
    record = perdure.Record(tmp_path / "run", resume="later")
    evaluator = perdure.Evaluator(data(), record=record)
    with pytest.raises(ValueError, match="resume has no 'step'"):
        evaluator.load_state_dict({})
    evaluator.load_state_dict(state)  # the mistake left no trace
    evaluator.close(finished=False)
    with pytest.raises(RuntimeError, match="closed"):
        evaluator.load_state_dict(state)
    with pytest.raises(ValueError, match="resume is 'latr', expected later"):
        perdure.Record(tmp_path, resume="latr")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="resuming needs the folder"):
        perdure.Record(resume="later")


def test_twice_and_from_the_same_place(wholes: Any, tmp_path: Path) -> None:
    """Killed again before the next checkpoint: the same one serves once more."""
    given, folder = SETTINGS["usual"], tmp_path / "run"
    expected, _ = wholes("usual", **given)
    first = killed(folder, (1, 2), **given)

    def stop(_evaluator: Any, step: int) -> None:
        if step == 13:
            raise Killed

    with suppress(Killed):
        learn(folder, saved=first, watch=stop, **given)
    try:
        second = learn(folder, saved=first, save=(2, 2), lost=1, **given).saved
    except Killed as killed_:
        second = killed_.args[0]
    learn(folder, saved=second, **given)
    assert differences(folder, expected) == []
    said = json.loads((folder / "run.json").read_text())["resumed"]
    assert [each["after_step"] for each in said] == [7, 12]


@pytest.mark.parametrize("place", [(1, 0), (1, 3)], ids=str)
def test_with_a_worker(place: tuple[int, int], wholes: Any, tmp_path: Path) -> None:
    """What the worker has not said yet is waited for, then saved."""
    given, folder = (
        {**SETTINGS["usual"], "executor": perdure.Worker(), "score": slow},
        tmp_path / "run",
    )
    expected, _ = wholes("worker", **given)
    saved = killed(folder, place, **given)
    assert json.loads(saved.text)["record"]["live"]["step"] == STEPS * place[0] + place[1]
    learn(folder, saved=saved, **given)
    assert differences(folder, expected) == []


# What cannot go on


def state_of(folder: Path, place: tuple[int, int] = (1, 3), **given: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(killed(folder, place, **given).text)
    return found


def content(folder: Path) -> dict[str, bytes]:
    """Return every file but the lock, which comes and goes."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "lock"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def refused(
    folder: Path | None, state: Any, kind: type[Exception], match: str, **more: Any
) -> None:
    """Fail unless going on is refused, and leaves every file as it is."""
    before = content(folder) if folder is not None else {}
    tasks = more.get("tasks", data())
    for _ in range(2):  # the second finds no lock that the first left
        with pytest.raises(kind, match=match):
            perdure.Evaluator(tasks, record=perdure.Record(folder, resume=state))
    assert folder is None or content(folder) == before


def test_tasks_that_are_not_there(tmp_path: Path) -> None:
    state = state_of(tmp_path)
    refused(tmp_path, state, ValueError, r"evaluates \['b'\], expected eval", tasks=data("acd"))
    state["always_evaluated"] = ["z"]
    refused(tmp_path, state, ValueError, r"evaluates \['z'\], expected evaluation data")


@pytest.mark.parametrize("state", [{}, {"model": 1}, {"step": 3, "record": {}}])
def test_what_is_no_state(state: dict[str, Any], tmp_path: Path) -> None:
    refused(tmp_path, state, ValueError, r"resume has no '.*', expected what state_dict\(\) ret")


def test_the_state_of_another_version(tmp_path: Path) -> None:
    state: Any = state_of(tmp_path / "run")
    del state["record"]["position"]
    refused(tmp_path / "run", state, ValueError, "version of perdure cannot read .*overwrite=True")


def test_no_record_to_go_on_with(tmp_path: Path) -> None:
    state = state_of(tmp_path / "run")
    refused(None, state, ValueError, "resuming needs the folder of the record")
    other = tmp_path / "other"
    refused(other, state, RecordError, "no record to resume; pass the folder that the state")
    assert not other.exists()


def test_the_record_of_another_run_is_not_cut(tmp_path: Path) -> None:
    """It may be a longer one: nothing else would tell."""
    state = state_of(tmp_path / "run")
    other = tmp_path / "other"
    learn(other)
    said = json.loads((other / "run.json").read_text())
    (other / "run.json").write_text(json.dumps(said | {"created": "2001-01-01T00:00:00+00:00"}))
    refused(
        other, state, RecordError, "a run created at 2001-01-01T.*expected the one of the state"
    )


FILES = ["points.csv", "per_example/0.bin", "gradients.csv", "confusion.csv"]


@pytest.mark.parametrize("name", FILES)
def test_a_record_that_is_shorter_than_the_state(name: str, tmp_path: Path) -> None:
    """After a power cut, say: to write on would leave a hole."""
    state = state_of(tmp_path)
    path, position = tmp_path / name, state["record"]["position"]
    sizes = {"points.csv": position["points"], **position["tables"]}
    size, _ = position["per_example"][0][1] if "per_example" in name else sizes[name]
    os.truncate(path, size - 1)
    match = f"its first {size} bytes are not those that were there when the run was saved"
    for _ in range(2):
        with pytest.raises(RecordError, match=match):
            perdure.Evaluator(data(), record=perdure.Record(tmp_path, resume=state))
    assert path.stat().st_size == size - 1
    path.unlink()
    with pytest.raises(RecordError, match="no such file"):
        perdure.Evaluator(data(), record=perdure.Record(tmp_path, resume=state))
    assert not path.exists()


def test_another_task_than_the_one_that_was_left(tmp_path: Path) -> None:
    state, model = state_of(tmp_path), nn.Linear(6, 4)
    evaluator = perdure.Evaluator(data(), record=perdure.Record(tmp_path, resume=state))
    with pytest.raises(RuntimeError, match="outside of any task"):
        evaluator.step(model)
    with (
        pytest.raises(RuntimeError, match="stopped in the middle of 'b'; begin that one first"),
        evaluator.task("c", model),
    ):
        raise AssertionError
    evaluator.close(finished=False)


def test_a_finished_run_is_no_longer_finished_while_it_goes_on(tmp_path: Path) -> None:
    saved = learn(tmp_path, save=(2, 0), lost=99).saved
    assert saved is not None
    before = content(tmp_path)
    assert "done.json" in before
    seen: list[bool] = []
    learn(tmp_path, saved=saved, watch=lambda *_: seen.append((tmp_path / "done.json").exists()))
    assert seen == [False] * STEPS
    after = content(tmp_path)
    assert after["done.json"] == before["done.json"]
    assert after["points.csv"] == before["points.csv"]


def test_only_one_goes_on(tmp_path: Path) -> None:
    state = state_of(tmp_path)
    first = perdure.Evaluator(data(), record=perdure.Record(tmp_path, resume=state))
    before = content(tmp_path)
    with pytest.raises(RecordError, match="another evaluator of this process writes here"):
        perdure.Evaluator(data(), record=perdure.Record(tmp_path, resume=state))
    assert content(tmp_path) == before
    first.close(finished=False)


# What else comes back


def test_notes_are_kept_and_those_that_are_lost_are_not_said_twice(tmp_path: Path) -> None:
    def say(evaluator: Any, step: int) -> None:
        if step in (3, 9):
            with pytest.warns(perdure.EvaluationWarning, match="step"):
                evaluator.warn(f"this is step {step}")

    saved = killed(tmp_path, (1, 3), watch=say)
    learn(tmp_path, saved=saved, watch=say)
    notes = json.loads((tmp_path / "run.json").read_text())["notes"]
    assert notes == ["this is step 3", "this is step 9"]


def test_an_alarm_that_rang_does_not_ring_again(tmp_path: Path) -> None:
    given: dict[str, Any] = {"alarm": lambda live: 4 <= live.step < 10 or live.step > 12}
    with pytest.warns(perdure.EvaluationWarning, match="alarm at step 4"):
        saved = killed(tmp_path, (1, 1), lost=1, **given)
    with pytest.warns(perdure.EvaluationWarning, match="alarm at step 13") as heard:
        learn(tmp_path, saved=saved, **given)
    assert len(heard) == 1
    notes = json.loads((tmp_path / "run.json").read_text())["notes"]
    assert [note.split(":")[0] for note in notes] == ["alarm at step 4", "alarm at step 13"]


def test_going_on_leaves_every_generator_as_it_was(tmp_path: Path) -> None:
    """Data that is made by a function is read again, and may draw from PyTorch."""

    def drawn(name: str) -> Callable[[], tuple[torch.Tensor, torch.Tensor]]:
        return lambda: (data()[name][0] + 0 * torch.rand(1), data()[name][1])

    state = state_of(tmp_path)
    torch.manual_seed(5)
    before = torch.get_rng_state()
    tasks = {name: drawn(name) for name in ORDER}
    evaluator = perdure.Evaluator(tasks, record=perdure.Record(tmp_path, resume=state))
    assert torch.equal(torch.get_rng_state(), before)
    evaluator.close(finished=False)


def test_the_time_of_saving_is_left_out_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clock that only goes on when it is told to: training takes 7 seconds, saving 5 and 3."""
    now = 100.0

    class Clock:
        @staticmethod
        def perf_counter() -> float:
            return now

    monkeypatch.setattr(meter_file, "time", Clock)

    def sync(_writer: RunWriter) -> None:
        nonlocal now
        now += 3.0

    model = nn.Linear(6, 4)
    evaluator = perdure.Evaluator(data(), record=tmp_path, count_flops=False)
    with evaluator, evaluator.task("a", model):
        now += 3.0
        evaluator.step(model)
        with monkeypatch.context() as patch, evaluator.costs.exclude_from_costs():
            patch.setattr(RunWriter, "sync", sync)
            evaluator.flush()
            now += 5.0
        now += 4.0
        evaluator.step(model)
    header, row = (tmp_path / "costs.csv").read_text().splitlines()
    found = dict(zip(header.split(","), row.split(","), strict=True))
    assert float(found["seconds_train"]) == 7.0
    assert float(found["seconds_eval"]) == 8.0


# The files


def position_of(kept: bytes) -> tuple[int, str]:
    return len(kept), hashlib.sha256(kept).hexdigest()


def test_an_appender_keeps_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"one\ntwo\nthr")
    kept = Appender(path, keep=position_of(b"one\ntwo\n"))
    assert (path.read_bytes(), kept.position) == (b"one\ntwo\n", position_of(b"one\ntwo\n"))
    kept.append(b"3\n")
    kept.close()
    assert path.read_bytes() == b"one\ntwo\n3\n"
    same = Appender(path, keep=position_of(b"one\ntwo\n3\n"))
    same.close()
    assert path.read_bytes() == b"one\ntwo\n3\n"
    empty = Appender(path, b"not a header", keep=position_of(b""))
    empty.append(b"x")
    empty.close()
    assert path.read_bytes() == b"x"


def test_an_appender_that_cannot_keep_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"one\n")
    for other in (b"one\n2", b"own\n", b"On"):  # longer, another one, the start of another one
        with pytest.raises(
            RecordError, match=r"not those .* it cannot be resumed\. Restart it from scratch"
        ):
            Appender(path, keep=position_of(other))
        assert path.read_bytes() == b"one\n"
    with pytest.raises(RecordError, match="no such file"):
        Appender(tmp_path / "none", keep=position_of(b""))
    assert not (tmp_path / "none").exists()


def written(folder: Path, tasks: str) -> tuple[RunWriter, list[WriterPosition]]:
    """Return a writer of one test with hits a task, and its positions before and after each."""
    writer, positions = RunWriter(folder, {}), []
    positions.append(writer.position())
    for number, task in enumerate(tasks):
        writer.add_per_example(list(tasks[: number + 1]), np.arange(9))
        line = f"{number + 1},{task},{task},probe,1.0,9"
        writer.append_points([line], [(number, [number + 1], np.ones((1, 9), bool))])
        writer.append_gradients(f"{number + 1},{task},1.0,")
        positions.append(writer.position())
    return writer, positions


def test_hits_of_later_tasks_are_removed(tmp_path: Path) -> None:
    states = []
    for count in range(4):
        folder = tmp_path / str(count)
        writer, positions = written(folder, "abc"[:count])
        writer.close()
        states.append(content(folder))
    for count in (2, 1, 0):  # of the same folder, cut back further each time
        RunWriter(folder, {}, resume=positions[count]).close()
        assert content(folder) == states[count]


def test_what_is_cut_can_be_written_again(tmp_path: Path) -> None:
    writer, positions = written(tmp_path, "abc")
    writer.close()
    before = content(tmp_path)
    again = RunWriter(tmp_path, {}, resume=positions[1])
    for number, task in enumerate("abc"[1:], start=1):
        again.add_per_example(list("abc"[: number + 1]), np.arange(9))
        line = f"{number + 1},{task},{task},probe,1.0,9"
        again.append_points([line], [(number, [number + 1], np.ones((1, 9), bool))])
        again.append_gradients(f"{number + 1},{task},1.0,")
    assert again.position() == positions[3]
    again.close()
    assert content(tmp_path) == before


def test_a_position_is_what_the_disk_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A state that is ahead of the record would be useless after a power cut."""
    writer, _ = written(tmp_path, "ab")
    assert writer._points is not None
    writer._points.queue(b"3,b,b,probe,0.5,9\n")  # refused by a full disk before, say
    synced: list[tuple[str, int]] = []
    real = os.fsync

    def fsync(file: int) -> None:
        synced.append((name_of(file), os.fstat(file).st_size))
        real(file)

    monkeypatch.setattr(os, "fsync", fsync)
    position = writer.position()
    assert position["points"] == position_of((tmp_path / "points.csv").read_bytes())
    assert dict(synced) == {
        "points.csv": position["points"][0],
        "gradients.csv": position["tables"]["gradients.csv"][0],
        "0.bin": (position["per_example"][0][1] or (0,))[0],
        "1.bin": (position["per_example"][1][1] or (0,))[0],
    }
    writer.close()
