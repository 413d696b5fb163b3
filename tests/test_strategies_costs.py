"""What strategies cost, in the record of whole runs: bytes and operations counted by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import perdure
from perdure.scenarios import make_scenario
from perdure.training import run

from .cli_helpers import scored
from .evaluator_helpers import linear
from .strategy_helpers import short_config

if TYPE_CHECKING:
    from pathlib import Path

    from perdure.metrics import Costs

SIZES = [len(task.train) for task in make_scenario("split-digits").tasks]
MODEL = 4 * (64 * 16 + 16 + 16 * 10 + 10)  # bytes
EACH = 8 * 8 + 8  # bytes of an image and its label
STEPS, BATCH = 5, 30
NAMES = [
    "naive", "ewc", "si", "mas", "lwf", "gdumb", "gem", "agem", "cwr-star", "single", "cumulative",
]  # fmt: skip
MEMORY: dict[str, dict[str, Any]] = {
    "gdumb": {"memory": 70, "passes": 3, "batch_size": 16},
    "gem": {"memory": 40},
    "agem": {"memory": 40, "sample": 20},
}


def once(rows: int) -> int:
    """Return the operations of a forward and backward pass."""
    layers = [linear(rows, 64, 16, first=True), linear(rows, 16, 10, first=False)]
    return sum(forward + backward for forward, backward in layers)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A short run of each strategy."""
    folder = tmp_path_factory.mktemp("runs")
    _nothing_compiled()
    for name in NAMES:
        settings = MEMORY.get(name, {})
        what = short_config(name, iterations=STEPS, batch=BATCH, every=50, settings=settings)
        run(what, folder / name)
    return {name: folder / name for name in NAMES}


def _nothing_compiled() -> None:
    """Once anything is compiled, a process counts no more: forget what other tests did."""
    import torch._dynamo.utils

    torch._dynamo.utils.counters.clear()


def costs(folder: Path) -> Costs:
    found = perdure.open_run(folder).costs
    assert found is not None
    return found


def column(folder: Path, name: str) -> list[float]:
    return [float(value) for value in costs(folder).column(name)]


@pytest.mark.parametrize("name", NAMES)
def test_every_cost_metric_is_defined(name: str, runs: dict[str, Path]) -> None:
    opened = perdure.open_run(runs[name])
    assert opened.finished
    found = opened.summary()
    for id_ in ("ms", "ms.copies", "sss", "ce"):
        assert id_ not in found.undefined
        assert 0 < found.metrics[id_] <= 1
    assert scored(runs[name])["metrics"]["ce"] == found.metrics["ce"]
    assert column(runs[name], "data_bytes") == [EACH * rows for rows in SIZES]
    assert column(runs[name], "flops_one_pass") == [once(rows) for rows in SIZES]
    ratio = np.array(column(runs[name], "flops_one_pass")) / column(runs[name], "flops_train")
    assert found.metrics["ce"] == pytest.approx(min(1.0, ratio.mean()))


@pytest.mark.parametrize("name", ["ewc", "si", "mas"])
def test_importances_and_anchors_triple_the_model(name: str, runs: dict[str, Path]) -> None:
    """Over 10 tasks this is the paper's (1 + 9 / 3) / 10 = 0.4; here there are 5."""
    assert column(runs[name], "model_bytes") == [MODEL, *[3 * MODEL] * 4]
    assert column(runs[name], "copies_bytes") == [0] * 5
    assert column(runs[name], "stored_bytes") == [0] * 5
    metrics = perdure.open_run(runs[name]).summary().metrics
    assert metrics["ms"] == pytest.approx((1 + 4 / 3) / 5, rel=1e-15)
    assert metrics["ms.copies"] == metrics["ms"]
    assert metrics["sss"] == 1


def test_naive_is_the_model_alone(runs: dict[str, Path]) -> None:
    assert column(runs["naive"], "model_bytes") == [MODEL] * 5
    assert column(runs["naive"], "stored_bytes") == [0] * 5
    assert column(runs["naive"], "flops_train") == [STEPS * once(BATCH)] * 5
    metrics = perdure.open_run(runs["naive"]).summary().metrics
    assert metrics["ms"] == metrics["ms.copies"] == metrics["sss"] == 1


def test_old_outputs_are_copies(runs: dict[str, Path]) -> None:
    """The paper's 1 for LwF leaves the teacher out; here it is a number an output."""
    copies = [4 * rows * 2 * task for task, rows in enumerate(SIZES)]
    assert column(runs["lwf"], "model_bytes") == [MODEL] * 5
    assert column(runs["lwf"], "copies_bytes") == copies
    metrics = perdure.open_run(runs["lwf"]).summary().metrics
    assert metrics["ms"] == 1
    assert metrics["ms.copies"] == pytest.approx(np.mean([MODEL / (MODEL + c) for c in copies]))
    assert metrics["ms.copies"] < 1


def test_initial_weights_are_copies_and_class_weights_belong_to_the_model(
    runs: dict[str, Path],
) -> None:
    """Both from the start: the model does not grow."""
    last = 4 * (16 * 10 + 10)
    for name in ("gdumb", "single", "cumulative"):  # the initial weights
        assert column(runs[name], "copies_bytes") == [MODEL] * 5
    assert column(runs["gdumb"], "model_bytes") == [MODEL] * 5
    assert column(runs["cwr-star"], "model_bytes") == [MODEL + 2 * last] * 5
    for name in ("gdumb", "cwr-star"):
        metrics = perdure.open_run(runs[name]).summary().metrics
        assert metrics["ms"] == metrics["ms.copies"] == 1


@pytest.mark.parametrize("name", ["gem", "agem", "gdumb"])
def test_memories_count_when_a_task_begins(name: str, runs: dict[str, Path]) -> None:
    most = MEMORY[name]["memory"]
    rows = [0, *[most] * 4] if name == "gdumb" else [most * task for task in range(5)]
    assert column(runs[name], "stored_bytes") == [EACH * count for count in rows]
    share = np.mean(rows) / sum(SIZES)
    assert perdure.open_run(runs[name]).summary().metrics["sss"] == pytest.approx(1 - share)


@pytest.mark.parametrize("name", ["ewc", "mas"])
def test_a_pass_for_importances_is_training(name: str, runs: dict[str, Path]) -> None:
    """At least a forward and a backward pass over the task, at most two."""
    more = np.array(column(runs[name], "flops_train")) - column(runs["naive"], "flops_train")
    passes = more / [once(rows) for rows in SIZES]
    assert passes.min() >= 1
    assert passes.max() <= 2
    assert np.ptp(passes) < 1e-12


def test_operations_of_other_steps(runs: dict[str, Path]) -> None:
    """SI adds none that count; memories cost as many passes as rows; old outputs a forward."""
    naive = STEPS * once(BATCH)
    assert column(runs["si"], "flops_train") == [naive] * 5
    head, body = linear(1, 16, 10, first=True), linear(1, 64, 16, first=True)
    frozen = STEPS * BATCH * (body[0] + sum(head))
    assert column(runs["cwr-star"], "flops_train") == [naive, *[frozen] * 4]
    agem = [naive, *[STEPS * once(BATCH + 20)] * 4]
    assert column(runs["agem"], "flops_train") == agem
    gem = np.array(column(runs["gem"], "flops_train"))
    wanted = np.array([STEPS * once(BATCH + 40 * task) for task in range(5)])
    assert gem[0] == naive
    assert (gem >= wanted).all()  # the products of gradients come on top
    assert (gem < 1.2 * wanted).all()


def test_recording_old_outputs_is_training(runs: dict[str, Path]) -> None:
    """A forward pass over the task before its first step, then the old classes' loss in each."""
    found = np.array(column(runs["lwf"], "flops_train")) - STEPS * once(BATCH)
    forward = [linear(n, 64, 16, first=True)[0] + linear(n, 16, 10, first=True)[0] for n in SIZES]
    assert found[0] == 0
    assert (found[1:] >= forward[1:]).all()
    assert (
        found[1:] <= np.array(forward[1:]) + STEPS * sum(linear(BATCH, 16, 10, first=False))
    ).all()


def test_training_on_a_memory_is_the_training(runs: dict[str, Path]) -> None:
    """Passes x rows of the memory, whatever the portions; the stream itself costs nothing."""
    rows = [min(70, sum(SIZES[: task + 1])) for task in range(5)]
    assert column(runs["gdumb"], "flops_train") == [3 * once(count) for count in rows]
