"""A score that fails loses its own test and nothing else; the evaluator goes on."""

from __future__ import annotations

import time
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor

import perdure
from perdure import EvaluationWarning

from .evaluator_loops import ROWS, WORKER, bounded, data, read, recorded, right, slow, train
from .evaluator_models import Body, Tempered, normed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PLACES = pytest.mark.parametrize("place", [{}, WORKER], ids=["inline", "worker"])
REFUSED = (2, 6)  # steps at which a score fails


@pytest.fixture(autouse=True)
def _bounded() -> Iterator[None]:
    with bounded():
        yield


class Stepped(Body):
    """Knows the step it is at, in a buffer that a worker sees as well.

    It keeps what it returned, and cannot be copied while that has a graph behind it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("step", torch.zeros(()))

    def forward(self, x: Tensor) -> Any:
        self.last = self.body(x)
        return self.last


def advance(model: Any, step: int) -> None:
    model.step.fill_(step)


def stroll(model: Any, step: int) -> None:
    """Advance so slowly that each test is done before the next one is asked for."""
    advance(model, step)
    time.sleep(0.04)


class Refused(OSError):
    """An error of the user's own, of a kind that a broken pipe is as well."""


def refuses(model: Any, x: Tensor, y: Tensor) -> Tensor:
    time.sleep(0.01)
    if len(x) < ROWS and int(model.step) in REFUSED:
        raise Refused(f"step {int(model.step)}")
    return right(model, x, y)


def not_finite(model: Any, x: Tensor, y: Tensor) -> Tensor:
    time.sleep(0.01)
    bad = len(x) < ROWS and int(model.step) in REFUSED
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
            except (Refused, ValueError, perdure.AlarmTriggered) as error:
                self.caught.append(error)
                return False
            return True

        return forgiving

    def settle(self, _: str, step: int) -> None:
        """Wait at the end of a task, so that nothing is raised by its end."""
        if step % 4 == 0:
            assert any(self._flush() for _ in range(5))


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("queue", "audit"), [(1, 100), (4, 100), (4, 2)])
@pytest.mark.parametrize("pace", [advance, stroll])
@pytest.mark.parametrize("score", [refuses, not_finite])
def test_a_score_that_fails_loses_nothing_but_its_own_test(
    tmp_path: Path, score: Callable[..., Tensor], queue: int, audit: int, pace: Any
) -> None:
    found = {}
    executor = perdure.Worker(queue=queue, verify_every=audit)
    places: list[dict[str, Any]] = [{}, {"executor": executor}]
    for place in places:
        folder = tmp_path / ("worker" if place else "inline")
        given = {"score": score, "subset": 7, "initial": "none", "count_flops": False, **place}
        with perdure.Evaluator(data(), record=folder, **given) as evaluator:
            loop = Forgiving(evaluator)
            train(Stepped, loop, change=pace, watch=loop.settle)
        found[folder.name] = read(folder)
        assert found[folder.name].steps == {*range(1, 9)} - {*REFUSED}
        for step, error in zip(REFUSED, loop.caught, strict=True):
            assert isinstance(error, Refused if score is refuses else ValueError)
            said = [str(error), *getattr(error, "__notes__", [])]
            assert all(f"step {step}" in text for text in said)
    assert found["worker"] == found["inline"]


@PLACES
def test_an_alarm_that_stops_loses_nothing(tmp_path: Path, place: dict[str, Any]) -> None:
    given = {"score": slow, "alarm": perdure.Alarm(lambda live: live.step == 2, "stop"), **place}
    with perdure.Evaluator(data(), record=tmp_path, count_flops=False, **given) as evaluator:
        loop = Forgiving(evaluator)
        train(normed, loop, watch=loop.settle)
    assert [type(error) for error in loop.caught] == [perdure.AlarmTriggered]
    assert read(tmp_path).steps == set(range(1, 9))


@PLACES
@pytest.mark.parametrize("rows", [7, ROWS], ids=["before", "at the end"])
def test_a_score_that_fails_around_a_task_leaves_the_evaluator_usable(
    tmp_path: Path, place: dict[str, Any], rows: int
) -> None:
    broken = True

    def fails(model: Any, x: Tensor, y: Tensor) -> Tensor:
        if broken and len(x) == rows:
            raise Refused
        return right(model, x, y)

    given = {"score": fails, "subset": 7, "count_flops": False, **place}
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

    given = {"score": slow, "initial": "none", "count_flops": False, **place}
    with perdure.Evaluator(data(), record=tmp_path, **given) as evaluator:
        with pytest.raises(KeyboardInterrupt):
            train(normed, evaluator, order="a", watch=interrupt)
        train(normed, evaluator, order=after)
    trained = [tuple(line.split(",")[:3]) for line in read(tmp_path).lines[1:4]]
    assert trained == [("1", "a", "a"), ("2", "a", "a"), ("3", "a", "a")]


@pytest.mark.slow
def test_a_warning_that_is_an_error_is_raised_once_and_nothing_hangs(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", EvaluationWarning)
        with pytest.raises(EvaluationWarning, match="differ from an evaluation in"):
            recorded(
                tmp_path, Tempered, order="a", score=slow,
                executor=perdure.Worker(verify_every=2, queue=20),
                change=lambda model, step: setattr(model, "shift", float(step)),
            )  # fmt: skip
    assert read(tmp_path).lines


@pytest.mark.parametrize("stage", ["step", "end"])
def test_a_warning_of_the_worker_that_is_an_error_loses_nothing(tmp_path: Path, stage: str) -> None:
    """Its process says that half precision does not pay, with the result of an evaluation."""
    worker = perdure.Worker(precision="screened")
    with bounded(), warnings.catch_warnings():
        warnings.simplefilter("error", EvaluationWarning)
        evaluator = perdure.Evaluator(data(), record=tmp_path, count_flops=False, executor=worker)
        model, steps = normed(), 30
        evaluator.begin("a", model)
        raised = 0
        for _ in range(steps):
            try:
                evaluator.step(model)
            except EvaluationWarning:
                raised += 1
            if stage == "step":
                time.sleep(0.01)  # its results are there at the next step
        with suppress(EvaluationWarning):
            evaluator.end()
        evaluator.close()
    probes = [line for line in read(tmp_path).lines if ",probe," in line]
    assert raised <= 1
    assert len(probes) >= steps - raised  # of a step that raises, the evaluation may be missing


def test_values_may_have_any_type(tmp_path: Path) -> None:
    for place in ({}, WORKER):
        for dtype in (torch.bfloat16, torch.float16, torch.float64, torch.int64, torch.uint8):
            folder = tmp_path / f"{dtype} {len(place)}"
            recorded(folder, normed, score=lambda m, x, y: right(m, x, y).to(dtype), **place)  # noqa: B023
            assert read(folder).lines == read(tmp_path / f"torch.bfloat16 {len(place)}").lines
