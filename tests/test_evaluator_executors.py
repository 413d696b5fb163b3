"""Where tests run makes no difference to what is recorded, whatever dies or changes."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor, nn

import perdure
from perdure import EvaluationWarning

from .evaluator_loops import (
    CLASSES,
    FEATURES,
    LATEST,
    SETTINGS,
    WORKER,
    bounded,
    data,
    loss,
    read,
    recorded,
    right,
    slow,
    train,
)
from .evaluator_models import MODELS, Tempered, normed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def _bounded() -> Iterator[None]:
    with bounded():
        yield


ALIKE = [
    *(("batch norm", setting) for setting in ("burst", "all before", "none before", "resampled")),
    *((model, "every 3") for model in ("tied", "two names", "counting", "checkpointed")),
]


@pytest.mark.parametrize(("model", "setting"), ALIKE)
def test_a_worker_records_what_inline_does(tmp_path: Path, model: str, setting: str) -> None:
    how: dict[str, Any] = {**SETTINGS[setting], "make": MODELS[model]}
    inline = how.get("executor", perdure.Inline())
    worker = how | {"executor": perdure.Worker(batch_size=inline.batch_size)}
    assert recorded(tmp_path / "worker", **worker) == recorded(tmp_path / "inline", **how)


def wide() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 300), nn.ReLU(), nn.Linear(300, CLASSES))


def threads_seen(_: Any, x: Tensor, __: Tensor) -> Tensor:
    return torch.full((len(x),), float(torch.get_num_threads()))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("score", "queue"), [(None, 1), (slow, 3), (loss, 2), (threads_seen, 2)])
def test_a_worker_records_the_same_bits_at_equal_threads(
    tmp_path: Path, threads: int, score: Any, queue: int
) -> None:
    tasks = data(rows=700, features=64)
    how: dict[str, Any] = {"make": wide, "tasks": tasks, "threads": threads, "score": score}
    inline = recorded(tmp_path / "inline", **how)
    assert recorded(tmp_path / "worker", **how, executor=perdure.Worker(queue=queue)) == inline


def held_by(file: Path) -> Callable[..., Tensor]:
    """Return a score that waits in the evaluator's process as long as there is this file."""
    trainer = os.getpid()

    def held(model: Any, x: Tensor, y: Tensor) -> Tensor:
        while os.getpid() != trainer and file.exists():
            time.sleep(0.001)
        return right(model, x, y)

    return held


def test_latest_drops_what_it_has_no_time_for_and_is_true(tmp_path: Path) -> None:
    file = tmp_path / "hold"

    def hold(_: str, step: int) -> None:
        if step == 1:
            file.touch()
        elif step == 5:
            file.unlink()

    inline = recorded(tmp_path / "inline", normed, steps=10)
    held = {"score": held_by(file), "watch": hold, **LATEST}
    latest = recorded(tmp_path / "latest", normed, steps=10, **held)
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
    with pytest.warns(EvaluationWarning, match="died .*restarted") as said:
        worker = recorded(tmp_path / "worker", normed, score=slow, change=killer(at), **WORKER,
            watch=lambda _, step: alive.extend(multiprocessing.active_children()),
        )  # fmt: skip
    assert len(said) == 1
    assert len({child.pid for child in alive}) >= 2
    assert worker == recorded(tmp_path / "inline", normed, score=slow)


@pytest.mark.parametrize("at", [(2, 3), (2, 4), (3, 7)])
def test_a_process_that_dies_twice_is_done_without(tmp_path: Path, at: tuple[int, int]) -> None:
    with pytest.warns(EvaluationWarning) as said:
        worker = recorded(tmp_path / "worker", normed, score=slow, change=killer(*at), **WORKER)
    assert ["restarted" in str(k.message) for k in said] == [True, False]
    assert "inline" in str(said[1].message)
    assert worker == recorded(tmp_path / "inline", normed, score=slow)


def test_a_process_may_die_while_it_has_nothing_to_do(tmp_path: Path) -> None:
    def flush(_: str, step: int) -> None:
        evaluator.flush()
        if step == 3:
            killer(step)(None, step)

    with (
        pytest.warns(EvaluationWarning, match="died"),
        perdure.Evaluator(
            data(), record=tmp_path / "worker", count_flops=False, **WORKER
        ) as evaluator,
    ):
        train(normed, evaluator, watch=flush)
    assert read(tmp_path / "worker") == recorded(tmp_path / "inline", normed)


@pytest.mark.parametrize("at", [(2,), (2, 5)])
def test_latest_goes_on_when_its_process_dies(tmp_path: Path, at: tuple[int, ...]) -> None:
    with pytest.warns(EvaluationWarning, match="died"):
        latest = recorded(tmp_path / "latest", normed, score=slow, change=killer(*at), **LATEST)
    assert set(latest.lines) <= set(recorded(tmp_path / "inline", normed, score=slow).lines)
    assert latest.steps


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
@pytest.mark.parametrize(
    "setting", [WORKER, {"executor": perdure.Worker(queue=1)}, LATEST], ids=str
)
def test_a_model_may_grow(tmp_path: Path, change: Any, setting: dict[str, Any]) -> None:
    how: dict[str, Any] = {"make": Growing, "score": slow, "change": change}
    inline, worker = recorded(tmp_path / "i", **how), recorded(tmp_path / "w", **how, **setting)
    if setting is LATEST:
        assert set(worker.lines) <= set(inline.lines)
    else:
        assert worker == inline


@pytest.mark.parametrize("change", [wider, longer])
def test_a_process_may_die_when_the_model_grows(tmp_path: Path, change: Any) -> None:
    file = tmp_path / "hold"

    def both(model: Any, step: int) -> None:
        change(model, step)
        if step == 2:  # its snapshot is still to be tested when the process dies
            file.touch()
        killer(3)(model, step)
        if step == 3:
            file.unlink()

    inline = recorded(tmp_path / "inline", Growing, change=change)
    with pytest.warns(EvaluationWarning, match="died .* lost"):
        worker = recorded(tmp_path / "worker", Growing, score=held_by(file), change=both, **WORKER)
    assert set(worker.lines) <= set(inline.lines)
    assert worker.steps >= {3, 4, 5, 6, 7, 8}


def test_an_audit_notices_state_that_a_snapshot_does_not_have(tmp_path: Path) -> None:
    def shift(model: Any, step: int) -> None:
        model.shift = 9.0 if step > 2 else 0.0

    how: dict[str, Any] = {"make": Tempered, "change": shift, "order": "a", "steps": 9}
    inline = recorded(tmp_path / "inline", **how)
    with pytest.warns(EvaluationWarning, match="differ from an evaluation in") as said:
        worker = recorded(
            tmp_path / "worker", **how, executor=perdure.Worker(verify_every=5, queue=20)
        )
    assert len(said) == 1
    assert worker.steps == inline.steps
    assert worker.lines != inline.lines
    assert worker.lines[-1] == inline.lines[-1]
    assert [k for k in worker.lines if k.startswith("5,")] == [
        k for k in inline.lines if k.startswith("5,")
    ]


class Leftover:
    """Garbage whose destructor ends any process but the one that made it."""

    def __init__(self) -> None:
        self.itself, self.process = self, os.getpid()

    def __del__(self) -> None:
        if os.getpid() != self.process:
            os._exit(3)


def collect_and_forward(model: Any, x: Tensor) -> Any:
    gc.collect()
    return model(x)


def test_a_worker_does_not_collect_the_garbage_of_the_training_process() -> None:
    model, rows = nn.Linear(2, 2), (torch.eye(2), torch.arange(2))
    gc.disable()
    try:
        Leftover()
        worker = perdure.Worker()
        with (
            perdure.Evaluator(
                {"a": rows},
                executor=worker,
                forward=collect_and_forward,
                initial="none",
                count_flops=False,
            ) as evaluator,
            evaluator.task("a", model),
        ):
            for _ in range(3):
                evaluator.step(model)
    finally:
        gc.enable()
    assert not [note for note in evaluator.notes if "died" in note]
