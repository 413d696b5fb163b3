"""costs.csv: seconds and bytes against counts by hand, and the metrics made of them."""

from __future__ import annotations

import gc
import re
import time
import warnings
import weakref
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from perdure import Evaluator, SummaryOptions

from .cli_helpers import scored
from .evaluator_helpers import Clock, costs, learn, mlp, net, rows, sets

# Some loops here compute gradients that no optimizer applies.
pytestmark = pytest.mark.filterwarnings("ignore:the first step is counted before")


@pytest.fixture(autouse=True)
def _nothing_compiled() -> None:
    """Once anything is compiled, a process counts no more: forget what other tests did."""
    import torch._dynamo.utils

    torch._dynamo.utils.counters.clear()


@pytest.mark.parametrize("meter", [False, True])
def test_seconds_are_training_or_testing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, meter: bool
) -> None:
    clock = Clock(monkeypatch)
    model = net()

    def forward(model: nn.Module, x: Tensor) -> Any:
        clock.wait(16)
        return model(x)

    def opened() -> Any:
        clock.wait(64)
        return rows()

    spent: dict[str, float] = {}
    evaluator = Evaluator(
        {"a": opened, "b": opened}, record=tmp_path, forward=forward, count_flops=meter, every=2
    )
    for task, steps in (("a", 3), ("b", 4), ("a", 2)):
        start = clock.now
        with evaluator.task(task, model):
            for _ in range(steps):
                clock.wait(1)  # loading
                learn(model)
                clock.wait(2)
                evaluator.step(model)
            clock.wait(0.5)  # after the last step: still the trainer's
        spent[task] = spent.get(task, 0) + clock.now - start
        clock.wait(10_000)  # between tasks: nobody's
    evaluator.close()
    found = costs(tmp_path)
    train = {"a": 3 * (3 + 2) + 2 * 0.5, "b": 3 * 4 + 0.5}
    for task, row in found.items():
        assert row["seconds_train"] == train[task]
        assert row["seconds_eval"] == pytest.approx(spent[task] - train[task], rel=1e-11)
    if not meter:  # a: opened; before; probes at 2, 8; whole a, then a and b — at 16 a forward
        assert found["a"]["seconds_eval"] == 64 + 16 * (1 + 1 + 1) + 16 * (1 + 1 + 2)
        assert found["b"]["seconds_eval"] == 64 + 16 * (1 + 2 + 2)


def test_real_seconds(tmp_path: Path) -> None:
    model = net()

    def slow(model: nn.Module, x: Tensor) -> Any:
        time.sleep(0.02)
        return model(x)

    began = time.perf_counter()
    with (
        Evaluator({"a": rows()}, record=tmp_path, forward=slow, count_flops=False) as evaluator,
        evaluator.task("a", model),
    ):
        for _ in range(3):
            time.sleep(0.01)
            evaluator.step(model)
    passed = time.perf_counter() - began
    row = costs(tmp_path)["a"]
    assert row["seconds_train"] is not None
    assert row["seconds_eval"] is not None
    assert row["seconds_train"] >= 3 * 0.01
    assert row["seconds_eval"] >= 5 * 0.02
    assert row["seconds_train"] + row["seconds_eval"] <= passed


# Bytes.


def peak_of_this_process() -> int:
    """Return the most memory that was in use at once, as the system counts it."""
    said = Path("/proc/self/status").read_text(encoding="ascii")
    return 1024 * int(re.findall(r"VmHWM:\s+(\d+) kB", said)[0])


def test_bytes_by_hand(tmp_path: Path) -> None:
    model = net()
    parameters = 4 * 8 + 8 + 8 + 8 + 8 * 3 + 3
    buffers = 8 + 8
    bytes_ = 4 * (parameters + buffers) + 8  # and a counter of 64 bits
    memory = {"x": torch.zeros(10, 4), "y": np.zeros(10, dtype=np.int64)}
    x, y = rows(30)
    peak = peak_of_this_process()
    with Evaluator(sets("abcde"), record=tmp_path, count_flops=False) as evaluator:

        def task(name: str, **given: Any) -> None:
            with evaluator.task(name, model, **given):
                evaluator.step(model)

        task("a", train_data=(x, y), stored_samples=0)
        evaluator.costs.report_memory(
            regularizer_state=[torch.zeros(100), {"b": torch.zeros(3, dtype=torch.float64)}]
        )
        task("b", train_data=TensorDataset(x, y), stored_samples=memory)
        evaluator.costs.report_memory(stored_samples=12345)
        evaluator.costs.report_memory(
            stored_samples=(torch.zeros(2), [torch.zeros(3)])
        )  # the last one stands
        task("c", train_data=DataLoader(TensorDataset(x[:20], y[:20])))
        evaluator.costs.report_memory(regularizer_state=0)
        task("d", train_data=[(row, int(label)) for row, label in zip(x, y, strict=True)])
        task("e", train_data=(x.numpy(), y.numpy()), stored_samples=7)
    found = costs(tmp_path)
    assert [row["stored_bytes"] for row in found.values()] == [0, 160 + 80, 20, 20, 7]
    assert [row["data_bytes"] for row in found.values()] == [720, 720, 480, 480, 720]
    assert [row["model_bytes"] for row in found.values()] == [
        bytes_, bytes_ + 424, bytes_ + 424, bytes_, bytes_,
    ]  # fmt: skip
    after = peak_of_this_process()
    assert all(peak <= (row["peak_bytes"] or 0) <= after for row in found.values())
    metrics = evaluator.summary().metrics
    shares = [1, bytes_ / (bytes_ + 424), bytes_ / (bytes_ + 424), 1, 1]
    assert metrics["ms"] == pytest.approx(sum(shares) / 5)
    data = 720 + 720 + 480 + 480 + 720
    assert metrics["sss"] == pytest.approx(1 - (0 + 240 + 20 + 20 + 7) / 5 / data)


def test_tied_weights_are_stored_once(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    model[1].weight = model[0].weight
    with (
        Evaluator({"a": rows()}, record=tmp_path, count_flops=False) as evaluator,
        evaluator.task("a", model),
    ):
        evaluator.step(model)
    assert costs(tmp_path)["a"]["model_bytes"] == 4 * (16 + 4 + 4)


@pytest.mark.parametrize("value", [np.int64(1000), np.uint32(1000), 1000])
def test_numbers_of_numpy_are_numbers(tmp_path: Path, value: Any) -> None:
    model = net()
    with (
        Evaluator({"a": rows()}, record=tmp_path) as evaluator,
        evaluator.task("a", model, stored_samples=value, train_data=value),
    ):
        learn(model)
        evaluator.step(model)
    row = costs(tmp_path)["a"]
    assert row["stored_bytes"] == 1000
    assert row["flops_one_pass"] == sum(mlp(1000))
    assert row["data_bytes"] is None


def test_examples_and_labels_in_a_list_are_no_two_examples(tmp_path: Path) -> None:
    model = net()
    with (
        Evaluator({"a": rows()}, record=tmp_path) as evaluator,
        evaluator.task("a", model, train_data=list(rows(30))),
    ):
        learn(model)
        evaluator.step(model)
    row = costs(tmp_path)["a"]
    assert row["data_bytes"] == 30 * (4 * 4 + 8)
    assert row["flops_one_pass"] == sum(mlp(30))


def test_a_task_that_returns_adds_up(tmp_path: Path) -> None:
    model = net()
    with Evaluator(sets("ab"), record=tmp_path, initial="none", subset=5) as evaluator:
        for task, steps, size in (("a", 2, 4), ("b", 1, 8), ("a", 3, 16)):
            with evaluator.task(task, model, train_data=rows(50), stored_samples=size):
                for _ in range(steps):
                    learn(model, rows(size))
                    evaluator.step(model)
    found = costs(tmp_path)
    one, test = sum(mlp(1)), mlp(1)[0]
    assert list(found) == ["a", "b"]
    assert found["a"]["flops_train"] == one * (2 * 4 + 3 * 16)
    assert found["b"]["flops_train"] == one * 8
    assert found["a"]["flops_eval"] == test * (2 * 5 + 21 + 3 * 10 + 21 + 22)
    assert found["a"]["stored_bytes"] == 4  # when it started, the first time


def test_a_stream_without_boundaries_has_no_costs(tmp_path: Path) -> None:
    model = net()
    with Evaluator({"a": rows()}, record=tmp_path, count_flops=False) as evaluator:
        learn(model)
        evaluator.step(model)
    assert not (tmp_path / "costs.csv").exists()
    assert "costs" in evaluator.summary().undefined["ms"]


# The fused scores.


def run_of_two(folder: Path, seed: int) -> Evaluator:
    data = {"a": rows(40), "b": rows(40, seed=1)}
    model = net(seed)
    with Evaluator(data, record=folder, unseen=True, config={"setting": "domain"}) as evaluator:
        for k, task in enumerate(data):
            with evaluator.task(task, model, train_data=data[task], stored_samples=k * 480):
                for step in range(6):
                    learn(model, rows(8, seed=seed + step))
                    evaluator.step(model)
    return evaluator


def test_clscore_and_clstability(tmp_path: Path) -> None:
    runs = [tmp_path / str(k) for k in range(3)]
    found = [run_of_two(folder, k).summary() for k, folder in enumerate(runs)]
    weights = {"A": 0.5, "MS": 0.2, "SSS": 0.2, "CE": 0.1}
    for folder, run in zip(runs, found, strict=True):
        ids = ("acc.lower", "rem", "bwt.positive", "fwt.upper", "ms", "sss", "ce")
        assert run.metrics["sss"] == pytest.approx(1 - (0 + 480) / 2 / (2 * 40 * 24))
        assert run.metrics["ms"] == 1
        assert run.metrics["ce"] == pytest.approx(sum(mlp(40)) / (6 * sum(mlp(8))))
        assert run.metrics["clscore"] == pytest.approx(sum(run.metrics[id_] for id_ in ids) / 7)
        assert scored(folder)["metrics"] == run.metrics
        text = ",".join(f"{name}={weight}" for name, weight in weights.items())
        mine = scored(folder, "--weights", text, "--epsilon", "0.5")["metrics"]
        assert mine["ce"] == pytest.approx(run.metrics["ce"] / 2)
        assert mine["clscore"] == pytest.approx(
            0.5 * mine["acc.lower"] + 0.2 * mine["ms"] + 0.2 * mine["sss"] + 0.1 * mine["ce"]
        )
    together = scored("mine=", *runs)["metrics"]
    ids = ("acc.lower", "rem", "bwt.positive", "fwt.upper", "ms", "sss", "ce")
    spread = [np.std([run.metrics[id_] for run in found], ddof=1) for id_ in ids]
    assert together["clstability"] == pytest.approx(1 - np.mean(spread))
    assert SummaryOptions().epsilon == 1.0


@pytest.mark.parametrize("place", ["before the task", "first", "between steps", "last"])
def test_work_that_is_no_step_is_counted_once(place: str, tmp_path: Path) -> None:
    """Wherever it stands, and whether or not the step around it is counted."""
    model, x = nn.Linear(10, 10), torch.rand(10, 10)

    def work() -> None:
        with evaluator.costs.count_as_training(), torch.no_grad():
            x @ x  # 2000 operations

    with Evaluator({"a": (x, torch.arange(10))}, record=tmp_path / "run") as evaluator:
        if place == "before the task":
            work()
        with evaluator.task("a", model):
            if place == "first":
                work()
            for step in range(5):
                if step == 2 and place == "between steps":
                    work()
                model(x).sum().backward()
                evaluator.step(model)
            if place == "last":
                work()
    assert costs(tmp_path / "run")["a"]["flops_train"] == 5 * 4000 + 2000


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_what_is_excluded_inside_another_block_is_excluded_once(
    levels: int, tmp_path: Path
) -> None:
    model, x = nn.Linear(10, 10), torch.rand(10, 10)
    evaluator = Evaluator({"a": (x, torch.arange(10))}, record=tmp_path / "run")
    with evaluator, evaluator.task("a", model):
        for _ in range(3):
            model(x).sum().backward()
            with ExitStack() as stack:
                for _ in range(levels):
                    stack.enter_context(evaluator.costs.exclude_from_costs())
                x @ x
            evaluator.step(model)
    assert costs(tmp_path / "run")["a"]["flops_train"] == 3 * 4000


def test_a_function_has_no_costs_of_one_pass_and_the_reason_is_given(tmp_path: Path) -> None:
    x = torch.rand(10, 10)

    def model(inputs: Tensor) -> Tensor:
        return 2 * inputs

    evaluator = Evaluator({"a": (x, torch.arange(10))}, record=tmp_path / "run")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with evaluator, evaluator.task("a", model, train_data=10):
            evaluator.step(model)
    (note,) = [note for note in evaluator.notes if "flops_one_pass" in note]
    assert "expected a torch.nn.Module" in note


def test_an_evaluator_that_is_dropped_is_freed_at_once(tmp_path: Path) -> None:
    """Its lock and files are released without waiting for a garbage collection."""
    gc.collect()
    gc.disable()
    try:
        evaluator = Evaluator({"a": (torch.rand(4, 2), torch.arange(4))}, record=tmp_path / "run")
        gone = weakref.ref(evaluator)
        del evaluator
        assert gone() is None
    finally:
        gc.enable()
