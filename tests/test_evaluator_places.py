"""Where tests run makes no difference to what is recorded, whatever dies, raises or changes."""

from __future__ import annotations

import csv
import multiprocessing
import os
import signal
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - as everyone writes it

import perdure
from perdure import EvaluationWarning

from .evaluator_loops import CLASSES, FEATURES, SETTINGS, WORKER, data, train
from .evaluator_models import MODELS, Body, normed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

REFUSED = (2, 6)  # steps at which a score fails
LATEST: dict[str, Any] = {**WORKER, "mode": "latest"}
PLACES = pytest.mark.parametrize("place", [{}, WORKER], ids=["inline", "worker"])


@pytest.fixture(autouse=True)
def _bounded() -> Iterator[None]:
    """Stop a test that waits for ever, and then each of its ways out that does."""

    def stop(*_: object) -> None:
        raise RuntimeError("still waiting after 20 seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 20, 2)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


class Record(NamedTuple):
    """What a run left: the lines of points.csv, and every file of its hits."""

    lines: list[str]
    hits: dict[str, bytes]

    @property
    def steps(self) -> set[int]:
        """The steps that have a probe."""
        return {int(line.split(",")[0]) for line in self.lines if ",probe," in line}


def read(folder: Path) -> Record:
    with (folder / "points.csv").open() as file:
        rows = list(csv.DictReader(file))
    steps = [int(row["step"]) for row in rows]
    assert steps == sorted(steps)
    lines = (folder / "points.csv").read_text().splitlines()
    return Record(lines, {path.name: path.read_bytes() for path in folder.glob("hits/*")})


def recorded(folder: Path, make: Callable[[], nn.Module] = normed, **given: Any) -> Record:
    """Return the record of a run; what the evaluator does not know goes to the loop."""
    loop = {k: given.pop(k) for k in ("order", "steps", "change", "watch", "threads") if k in given}
    tasks = given.pop("tasks", None) or data()
    with perdure.Evaluator(tasks, record=folder, meter=False, **given) as evaluator:
        train(make, evaluator, tasks=tasks, **loop)
    assert not multiprocessing.active_children()
    return read(folder)


def right(model: Any, x: Tensor, y: Tensor) -> Tensor:
    return torch.as_tensor(model(x).argmax(1) == y)


def slow(model: Any, x: Tensor, y: Tensor) -> Tensor:
    time.sleep(0.01)
    return right(model, x, y)


def loss(model: Any, x: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(model(x), y, reduction="none")


ALIKE = [
    *(("batch norm", setting) for setting in ("burst", "all before", "none before", "redrawn")),
    *((model, "every 3") for model in ("tied", "two names", "counting", "checkpointed")),
]


@pytest.mark.parametrize(("model", "setting"), ALIKE)
def test_a_worker_records_what_inline_does(tmp_path: Path, model: str, setting: str) -> None:
    how: dict[str, Any] = {**SETTINGS[setting], "make": MODELS[model]}
    assert recorded(tmp_path / "worker", **how, **WORKER) == recorded(tmp_path / "inline", **how)


def wide() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 300), nn.ReLU(), nn.Linear(300, CLASSES))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("score", "queue"), [(None, 1), (slow, 3), (loss, 2)])
def test_a_worker_records_the_same_bits_at_equal_threads(
    tmp_path: Path, threads: int, score: Any, queue: int
) -> None:
    tasks = data(rows=700, features=64)
    how: dict[str, Any] = {"make": wide, "tasks": tasks, "threads": threads, "score": score}
    inline = recorded(tmp_path / "inline", **how)
    assert recorded(tmp_path / "worker", **how, **WORKER, queue=queue) == inline


def test_latest_drops_what_it_has_no_time_for_and_is_true(tmp_path: Path) -> None:
    inline = recorded(tmp_path / "inline", score=slow, steps=10)
    latest = recorded(tmp_path / "latest", score=slow, steps=10, **LATEST)
    assert 0 < len(latest.steps) < len(inline.steps) == 20
    assert set(latest.lines) < set(inline.lines)
    kinds = ",full,", ",initial,"
    for kind in kinds:
        assert [k for k in latest.lines if kind in k] == [k for k in inline.lines if kind in k]


def killer(*steps: int) -> Callable[[Any, int], None]:
    """Return what kills the evaluator's process after some steps."""

    def kill(_: Any, step: int) -> None:
        if step in steps:
            (child,) = multiprocessing.active_children()
            assert child.pid is not None
            os.kill(child.pid, signal.SIGKILL)
            child.join()

    return kill


@pytest.mark.parametrize("at", [2, 4, 6])
def test_a_process_that_dies_is_started_again(tmp_path: Path, at: int) -> None:
    alive = []
    with pytest.warns(EvaluationWarning, match="died .*started again") as said:
        worker = recorded(
            tmp_path / "worker", score=slow, change=killer(at), **WORKER,
            watch=lambda _, step: alive.extend(multiprocessing.active_children()),
        )  # fmt: skip
    assert len(said) == 1
    assert len({child.pid for child in alive}) >= 2
    assert worker == recorded(tmp_path / "inline", score=slow)


@pytest.mark.parametrize("at", [(2, 3), (2, 4), (3, 7)])
def test_a_process_that_dies_twice_is_done_without(tmp_path: Path, at: tuple[int, int]) -> None:
    with pytest.warns(EvaluationWarning) as said:
        worker = recorded(tmp_path / "worker", score=slow, change=killer(*at), **WORKER)
    assert ["started again" in str(k.message) for k in said] == [True, False]
    assert "inline" in str(said[1].message)
    assert worker == recorded(tmp_path / "inline", score=slow)


def test_a_process_may_die_while_it_has_nothing_to_do(tmp_path: Path) -> None:
    def flush(_: str, step: int) -> None:
        evaluator.flush()
        if step == 3:
            killer(step)(None, step)

    with (
        pytest.warns(EvaluationWarning, match="died"),
        perdure.Evaluator(data(), record=tmp_path / "worker", meter=False, **WORKER) as evaluator,
    ):
        train(normed, evaluator, watch=flush)
    assert read(tmp_path / "worker") == recorded(tmp_path / "inline")


@pytest.mark.parametrize("at", [(2,), (2, 5)])
def test_latest_goes_on_when_its_process_dies(tmp_path: Path, at: tuple[int, ...]) -> None:
    with pytest.warns(EvaluationWarning, match="died"):
        latest = recorded(tmp_path / "latest", score=slow, change=killer(*at), **LATEST)
    assert set(latest.lines) < set(recorded(tmp_path / "inline", score=slow).lines)
    assert latest.steps


class Stepped(Body):
    """Knows the step it is at, in a buffer that a worker sees as well."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("step", torch.zeros(()))


def advance(model: Any, step: int) -> None:
    model.step.fill_(step)


class Refused(Exception):
    """An error of the user's own."""


def refuses(model: Any, x: Tensor, y: Tensor) -> Tensor:
    time.sleep(0.01)
    if len(x) < 20 and int(model.step) in REFUSED:
        raise Refused(f"step {int(model.step)}")
    return right(model, x, y)


def not_finite(model: Any, x: Tensor, y: Tensor) -> Tensor:
    time.sleep(0.01)
    bad = len(x) < 20 and int(model.step) in REFUSED
    return right(model, x, y) / (0.0 if bad else 1.0)


class Forgiving:
    """An evaluator in a loop that keeps what is raised, and goes on."""

    def __init__(self, evaluator: perdure.Evaluator) -> None:
        self.task, self.step = evaluator.task, self.forgiven(evaluator.step)
        self._flush = self.forgiven(evaluator.flush)
        self.caught: list[Exception] = []

    def forgiven(self, call: Callable[..., None]) -> Callable[..., bool]:
        def forgiving(*args: Any) -> bool:
            try:
                call(*args)
            except (Refused, ValueError, perdure.AlarmRang) as error:
                self.caught.append(error)
                return False
            return True

        return forgiving

    def settle(self, _: str, step: int) -> None:
        """Wait at the end of a task, so that nothing is raised by its end."""
        if step % 4 == 0:
            assert any(self._flush() for _ in range(5))


@pytest.mark.parametrize(("queue", "audit"), [(1, 100), (4, 100), (4, 2)])
@pytest.mark.parametrize("score", [refuses, not_finite])
def test_a_score_that_fails_loses_nothing_but_its_own_test(
    tmp_path: Path, score: Callable[..., Tensor], queue: int, audit: int
) -> None:
    found = {}
    for place in ({}, {**WORKER, "queue": queue, "audit": audit}):
        folder = tmp_path / place.get("where", "inline")
        given = {"score": score, "subset": 7, "initial": "none", "meter": False, **place}
        with perdure.Evaluator(data(), record=folder, **given) as evaluator:
            loop = Forgiving(evaluator)
            train(Stepped, loop, change=advance, watch=loop.settle)
        found[folder.name] = read(folder)
        assert found[folder.name].steps == {*range(1, 9)} - {*REFUSED}
        for step, error in zip(REFUSED, loop.caught, strict=True):
            assert isinstance(error, Refused if score is refuses else ValueError)
            said = [str(error), *getattr(error, "__notes__", [])]
            assert all(f"step {step}" in text for text in said)
    assert found["worker"] == found["inline"]


@PLACES
def test_an_alarm_that_stops_loses_nothing(tmp_path: Path, place: dict[str, Any]) -> None:
    given = {"score": slow, "alarm": lambda live: live.step == 2, "on_alarm": "stop", **place}
    with perdure.Evaluator(data(), record=tmp_path, meter=False, **given) as evaluator:
        loop = Forgiving(evaluator)
        with pytest.warns(EvaluationWarning, match="step 2"):
            train(normed, loop, watch=loop.settle)
    assert [type(error) for error in loop.caught] == [perdure.AlarmRang]
    assert read(tmp_path).steps == set(range(1, 9))


@PLACES
@pytest.mark.parametrize("rows", [7, 20], ids=["before", "at the end"])
def test_a_score_that_fails_around_a_task_leaves_the_evaluator_usable(
    tmp_path: Path, place: dict[str, Any], rows: int
) -> None:
    broken = True

    def fails(model: Any, x: Tensor, y: Tensor) -> Tensor:
        if broken and len(x) == rows:
            raise Refused
        return right(model, x, y)

    given = {"score": fails, "subset": 7, "meter": False, **place}
    with perdure.Evaluator(data(), record=tmp_path, every=2, **given) as evaluator:
        with pytest.raises(Refused):
            train(normed, evaluator, order="a", steps=3)
        broken = False
        before = read(tmp_path).lines
        train(normed, evaluator, order="ab", steps=3)
    assert read(tmp_path).lines[: len(before)] == before
    assert len(before) == (1 if rows == 7 else 3)
    assert (tmp_path / "done.json").exists()


@PLACES
@pytest.mark.parametrize("after", ["", "b"], ids=["the end", "another task"])
def test_an_interrupted_task_keeps_its_tests(
    tmp_path: Path, place: dict[str, Any], after: str
) -> None:
    def interrupt(_: str, step: int) -> None:
        if step == 3:
            raise KeyboardInterrupt

    given = {"score": slow, "initial": "none", "meter": False, **place}
    with perdure.Evaluator(data(), record=tmp_path, **given) as evaluator:
        with pytest.raises(KeyboardInterrupt):
            train(normed, evaluator, order="a", watch=interrupt)
        train(normed, evaluator, order=after)
    trained = [tuple(line.split(",")[:3]) for line in read(tmp_path).lines[1:4]]
    assert trained == [("1", "a", "a"), ("2", "a", "a"), ("3", "a", "a")]


class Growing(nn.Module):
    """Has a head a task, or one head that grows."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.heads = nn.Linear(FEATURES, 8), nn.ModuleList([nn.Linear(8, CLASSES)])

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([head(torch.relu(self.body(x))) for head in self.heads], dim=1)


def wider(model: Any, step: int) -> None:
    if step == 3:
        old, model.heads[0] = model.heads[0], nn.Linear(8, CLASSES + 2)
        model.heads[0].weight.data[:CLASSES] = old.weight.data


def longer(model: Any, step: int) -> None:
    if step == 3:
        model.heads.append(nn.Linear(8, 2))


@pytest.mark.parametrize("change", [wider, longer])
@pytest.mark.parametrize("setting", [WORKER, {**WORKER, "queue": 1}, LATEST], ids=str)
def test_a_model_may_grow(tmp_path: Path, change: Any, setting: dict[str, Any]) -> None:
    how: dict[str, Any] = {"make": Growing, "score": slow, "change": change}
    inline, worker = recorded(tmp_path / "i", **how), recorded(tmp_path / "w", **how, **setting)
    if setting is LATEST:
        assert set(worker.lines) < set(inline.lines)
    else:
        assert worker == inline


@pytest.mark.parametrize("change", [wider, longer])
def test_a_process_may_die_when_the_model_grows(tmp_path: Path, change: Any) -> None:
    def both(model: Any, step: int) -> None:
        change(model, step)
        killer(3)(model, step)

    inline = recorded(tmp_path / "inline", Growing, score=slow, change=change)
    with pytest.warns(EvaluationWarning, match="died"):
        worker = recorded(tmp_path / "worker", Growing, score=slow, change=both, **WORKER)
    assert set(worker.lines) <= set(inline.lines)
    assert worker.steps >= {3, 4, 5, 6, 7, 8}


class Tempered(Body):
    """Depends on a number that is no tensor."""

    shift = 0.0

    def forward(self, x: Tensor) -> Any:
        return self.body(x) + self.shift * torch.arange(CLASSES)


def test_an_audit_notices_state_that_a_snapshot_does_not_have(tmp_path: Path) -> None:
    def shift(model: Any, step: int) -> None:
        model.shift = 9.0 if step > 2 else 0.0

    how: dict[str, Any] = {"make": Tempered, "change": shift, "order": "a", "steps": 12}
    inline = recorded(tmp_path / "inline", **how)
    with pytest.warns(EvaluationWarning, match="differ from the trainer's") as said:
        worker = recorded(tmp_path / "worker", **how, **WORKER, audit=5, queue=20)
    assert len(said) == 1
    assert worker.steps == inline.steps
    assert worker.lines != inline.lines
    assert worker.lines[-1] == inline.lines[-1]
    assert [k for k in worker.lines if k.startswith("5,")] == [
        k for k in inline.lines if k.startswith("5,")
    ]
