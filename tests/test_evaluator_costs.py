"""costs.csv: operations, seconds and bytes against counts by hand."""

from __future__ import annotations

import resource
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import DataLoader, Dataset, TensorDataset

import perdure
from perdure import Evaluator, Options

from .cli_helpers import scored
from .evaluator_helpers import Clock, costs, learn, net, one_thread, quietly, rows, sets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

N = 16  # rows of a training batch


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    with one_thread():
        yield


@pytest.fixture(autouse=True)
def _nothing_compiled() -> None:
    """Once anything is compiled, a process counts no more: forget what other tests did."""
    import torch._dynamo.utils

    torch._dynamo.utils.counters.clear()


def linear(n: int, inputs: int, outputs: int, *, first: bool) -> tuple[int, int]:
    """Return the operations of a linear layer, forward and backward: 2mnk a product."""
    one = 2 * n * inputs * outputs
    return one, one if first else 2 * one  # weights; and inputs, unless they are the data


def conv(
    n: int, channels: tuple[int, int], kernel: int, out: int, *, first: bool
) -> tuple[int, int]:
    one = 2 * n * channels[0] * channels[1] * kernel**2 * out**2
    return one, one if first else 2 * one


def mlp(n: int) -> tuple[int, int]:
    layers = [linear(n, 4, 8, first=True), linear(n, 8, 3, first=False)]
    return sum(f for f, _ in layers), sum(b for _, b in layers)


class Small(nn.Module):
    """Two convolutions and a linear layer on images of 6 x 6."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 2, 3), nn.Conv2d(2, 4, 3)
        self.head = nn.Linear(4 * 2 * 2, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.second(self.first(x).relu()).relu().flatten(1))  # type: ignore[no-any-return]


def small(n: int) -> tuple[int, int]:
    layers = [
        conv(n, (1, 2), 3, 4, first=True),
        conv(n, (2, 4), 3, 2, first=False),
        linear(n, 16, 3, first=False),
    ]
    return sum(f for f, _ in layers), sum(b for _, b in layers)


def images(count: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    rng = torch.Generator().manual_seed(seed)
    return torch.rand(count, 1, 6, 6, generator=rng), torch.arange(count) % 3


KINDS: dict[str, tuple[Callable[[], nn.Module], Any, Callable[[int], tuple[int, int]]]] = {
    "mlp": (net, rows, mlp),
    "conv": (Small, images, small),
}


@pytest.mark.parametrize("kind", KINDS)
def test_operations_are_those_counted_by_hand(tmp_path: Path, kind: str) -> None:
    make, data, by_hand = KINDS[kind]
    model = make()
    test, train = {name: data(20 + k, seed=k) for k, name in enumerate("ab")}, data(50)
    with Evaluator(test, record=tmp_path, subset=7, every=2, initial="all") as evaluator:
        for task in test:
            with evaluator.task(task, model, data=train, stored=0):
                for _ in range(4):
                    learn(model, (train[0][:N], train[1][:N]))
                    evaluator.step(model)
    forward, backward = by_hand(N)
    once_forward, once_backward = by_hand(50)
    found = costs(tmp_path)
    for row in found.values():
        assert row["flops_train"] == 4 * (forward + backward)
        assert row["flops_one_pass"] == once_forward + once_backward
    # a: two subsets of 7 before, probes at 2 and 4, the whole set; b: one subset, probes of both.
    rows_a, rows_b = 2 * 7 + 2 * 7 + 20, 7 + 2 * 2 * 7 + 20 + 21
    assert found["a"]["flops_eval"] == by_hand(rows_a)[0]
    assert found["b"]["flops_eval"] == by_hand(rows_b)[0]
    ratio = (once_forward + once_backward) / (4 * (forward + backward))
    assert evaluator.summary().metrics["ce"] == pytest.approx(min(1, ratio))


def steps_of(sizes: list[int], record: Path, **how: Any) -> float | None:
    """Return flops_train of a task whose steps have batches of these sizes."""
    model = net()
    with (
        Evaluator({"a": rows()}, record=record, every=50, **how) as evaluator,
        evaluator.task("a", model),
    ):
        for size in sizes:
            learn(model, rows(size))
            evaluator.step(model)
    return costs(record)["a"]["flops_train"]


def test_replayed_rows_count_and_so_do_steps_that_differ(tmp_path: Path) -> None:
    """Counted are steps 1, 2, 3, 10, 100; each stands for those up to the next."""
    one = sum(mlp(1))
    assert steps_of([4, 8, 12], tmp_path / "1") == one * (4 + 8 + 12)
    sizes = [4, 8, 12, *[12] * 6, *[32] * 5]  # replay begins at step 10
    assert steps_of(sizes, tmp_path / "2") == one * sum(sizes)
    late = [4, 4, 4, *[32] * 6, 32, *[32] * 90]  # begins at 4: not seen before 10
    assert steps_of(late, tmp_path / "3") == one * (9 * 4 + 91 * 32)


def test_a_pass_for_nothing_is_left_out_of_training(tmp_path: Path) -> None:
    """Frozen layers have no gradient: less is computed, and less is counted."""
    model = net()
    for parameter in model.body.parameters():
        parameter.requires_grad = False
    with (
        Evaluator({"a": rows()}, record=tmp_path) as evaluator,
        evaluator.task("a", model, data=40),
    ):
        learn(model, rows(N))
        evaluator.step(model)
    body, head = linear(1, 4, 8, first=True)[0], linear(1, 8, 3, first=True)
    row = costs(tmp_path)["a"]
    assert row["flops_train"] == N * (body + sum(head))
    assert row["flops_one_pass"] == 40 * (body + sum(head))


def test_a_head_that_grows_is_counted_anew(tmp_path: Path) -> None:
    model = net()
    with Evaluator(sets("ab"), record=tmp_path, initial="none", subset=5) as evaluator:
        for task, classes in (("a", 3), ("b", 6)):
            model.head = nn.Linear(8, classes)
            with evaluator.task(task, model, data=10):
                learn(model, rows(N))
                evaluator.step(model)
    one = 2 * (4 * 8 + 8 * 6)
    assert costs(tmp_path)["b"]["flops_train"] == sum(mlp(N)) + 3 * 2 * N * 8 * 3
    assert costs(tmp_path)["b"]["flops_eval"] == one * (2 * 5 + 21 + 22)


def test_reading_the_data_is_no_operation_of_the_model(tmp_path: Path) -> None:
    class Rotated(Dataset[tuple[Tensor, int]]):
        def __len__(self) -> int:
            return 20

        def __getitem__(self, k: int) -> tuple[Tensor, int]:
            return torch.ones(4) @ torch.eye(4), 0

    model = net()
    with (
        Evaluator({"a": Rotated()}, record=tmp_path, initial="none") as evaluator,
        evaluator.task("a", model),
    ):
        learn(model)
        evaluator.step(model)
    assert costs(tmp_path)["a"]["flops_eval"] == mlp(40)[0]


@pytest.mark.parametrize("how", [{"initial": "none"}, {}])
@pytest.mark.parametrize("hand_in", [False, True])
def test_one_pass_is_counted_wherever_data_is_given(
    tmp_path: Path, how: dict[str, Any], hand_in: bool
) -> None:
    """The model is known at the latest after the first step."""
    model = net()
    with (
        Evaluator({"a": rows()}, record=tmp_path, **how) as evaluator,
        evaluator.task("a", model if hand_in else None, data=rows(30)),
    ):
        learn(model, rows(N))
        evaluator.step(model)
    assert costs(tmp_path)["a"]["flops_one_pass"] == sum(mlp(30))
    assert "ce" in evaluator.summary().metrics


class Parts(nn.Module):
    """A model that is never called itself."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.heads = nn.Linear(4, 8), nn.ModuleDict({"a": nn.Linear(8, 3)})


@pytest.mark.parametrize("indexed", [False, True])
def test_one_pass_through_parts_of_a_model(tmp_path: Path, indexed: bool) -> None:
    """The forward of docs/evaluator.md calls parts of the model: no gradient may be left there."""
    model = nn.ModuleDict({"body": nn.Linear(4, 8), "a": nn.Linear(8, 3)}) if indexed else Parts()

    def forward(model: Any, x: Tensor, task: str) -> Any:
        if indexed:
            return model[task](model["body"](x).relu())
        return model.heads[task](model.body(x).relu())

    with (
        Evaluator({"a": rows()}, record=tmp_path, forward=forward) as evaluator,
        evaluator.task("a", model, data=30),
    ):
        forward(model, rows()[0], "a").sum().backward()
        model.zero_grad()
        evaluator.step(model)
    assert all(parameter.grad is None for parameter in model.parameters())
    assert costs(tmp_path)["a"]["flops_one_pass"] == sum(mlp(30))


def test_one_pass_of_a_model_that_is_no_classifier(tmp_path: Path) -> None:
    model = nn.Linear(4, 1)
    x, _ = rows()
    with (
        Evaluator(
            {"a": (x, x[:, 0])}, record=tmp_path, lower_is_better=True,
            score=lambda m, x, y: (m(x)[:, 0] - y).square(),
        ) as evaluator,
        evaluator.task("a", model, data=30),
    ):  # fmt: skip
        mse_loss(model(x)[:, 0], x[:, 0]).backward()
        evaluator.step(model)
    assert costs(tmp_path)["a"]["flops_one_pass"] == 2 * (2 * 30 * 4)


# What cannot be counted.


class Watching(TorchDispatchMode):
    """Any mode of the user's."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls += 1
        return func(*args, **(kwargs or {}))


def uncounted(folder: Path, how: dict[str, Any], around: Any) -> tuple[dict[str, Any], list[str]]:
    def run() -> Evaluator:
        model = net()
        with (
            Evaluator({"a": rows()}, record=folder, **how) as evaluator,
            around,
            evaluator.task("a", model, data=rows(), stored=0),
        ):
            for _ in range(3):
                learn(model)
                evaluator.step(model)
        return evaluator

    evaluator, said = quietly(run)
    assert evaluator.notes == said
    return costs(folder)["a"], said


def test_another_mode_around_the_loop(tmp_path: Path) -> None:
    row, said = uncounted(tmp_path, {}, Watching())
    assert row["flops_train"] is None
    assert said == ["flops_train is not measured: another dispatch mode is active around the step"]
    undefined = scored(tmp_path)["undefined"]
    assert "flops_train of task 'a'" in undefined["ce"]
    assert said[0] in scored(tmp_path)["notes"]


def test_no_meter(tmp_path: Path) -> None:
    row, said = uncounted(tmp_path, {"meter": False}, nullcontext())
    assert [row[f"flops_{of}"] for of in ("train", "eval", "one_pass")] == [None] * 3
    assert said == []  # as asked for
    assert row["seconds_train"] is not None
    assert "flops_one_pass of task 'a'" in scored(tmp_path)["undefined"]["ce"]


def compiled_run(folder: Path) -> None:
    """Train a compiled model, which was compiled before; "eager" compiles in a moment."""
    import torch._dynamo

    compiled = torch.compile(net(), backend="eager")
    x, y = rows(N)
    cross_entropy(compiled(x), y).backward()
    try:
        with Evaluator({"a": rows()}, record=folder) as evaluator, evaluator.task("a", compiled):
            for _ in range(2):
                cross_entropy(compiled(x), y).backward()
                evaluator.step(compiled)
    finally:
        torch._dynamo.reset()


def test_a_compiled_model_says_why(tmp_path: Path) -> None:
    _, said = quietly(lambda: compiled_run(tmp_path), "Using `torch.compile")
    assert costs(tmp_path)["a"]["flops_train"] is None
    assert [note for note in said if "flops_train" in note] == [
        "flops_train is not measured: compiled code cannot be counted without changing it"
    ]
    assert costs(tmp_path)["a"]["flops_eval"] == mlp(4 * 21)[0]


def test_a_compiled_model_warns_of_nothing_else(tmp_path: Path) -> None:
    quietly(lambda: compiled_run(tmp_path))


def test_steps_that_compute_nothing_here(tmp_path: Path) -> None:
    model = net()
    with Evaluator({"a": rows()}, record=tmp_path) as evaluator, evaluator.task("a", model):
        with pytest.warns(perdure.EvaluationWarning, match="no operations were seen"):
            evaluator.step(model)
        evaluator.step(model)
    assert costs(tmp_path)["a"]["flops_train"] is None


@pytest.mark.parametrize("place", ["the step", "the loop"])
def test_a_mode_of_the_users_stays_where_it_is(tmp_path: Path, place: str) -> None:
    """Modes are a stack: a counter that leaves must not take the user's mode with it."""
    model = net()
    mine = Watching()

    def run() -> list[int]:
        seen = []
        with (
            Evaluator({"a": rows()}, record=tmp_path) as evaluator,
            evaluator.task("a", model),
            mine if place == "the loop" else nullcontext(),
        ):
            for _ in range(4):
                with mine if place == "the step" else nullcontext():
                    learn(model)
                    evaluator.step(model)
                    before = mine.calls
                    torch.zeros(2).add(1)
                    seen.append(mine.calls - before)
        return seen

    seen, _ = quietly(run)
    assert torch._C._len_torch_dispatch_stack() == 0
    assert seen == [2, 2, 2, 2]


# Seconds.


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
        {"a": opened, "b": opened}, record=tmp_path, forward=forward, meter=meter, every=2
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

    with (
        Evaluator({"a": rows()}, record=tmp_path, forward=slow, meter=False) as evaluator,
        evaluator.task("a", model),
    ):
        for _ in range(3):
            time.sleep(0.01)
            evaluator.step(model)
    row = costs(tmp_path)["a"]
    assert row["seconds_train"] is not None
    assert row["seconds_eval"] is not None
    assert 0.03 <= row["seconds_train"] < 0.1
    assert row["seconds_eval"] >= 5 * 0.02


# Bytes.


def test_bytes_by_hand(tmp_path: Path) -> None:
    model = net()
    parameters = 4 * 8 + 8 + 8 + 8 + 8 * 3 + 3
    buffers = 8 + 8
    bytes_ = 4 * (parameters + buffers) + 8  # and a counter of 64 bits
    memory = {"x": torch.zeros(10, 4), "y": np.zeros(10, dtype=np.int64)}
    x, y = rows(30)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    with Evaluator(sets("abcde"), record=tmp_path, meter=False) as evaluator:

        def task(name: str, **given: Any) -> None:
            with evaluator.task(name, model, **given):
                evaluator.step(model)

        task("a", data=(x, y), stored=0)
        evaluator.report(state=[torch.zeros(100), {"b": torch.zeros(3, dtype=torch.float64)}])
        task("b", data=TensorDataset(x, y), stored=memory)
        evaluator.report(stored=12345)
        evaluator.report(stored=(torch.zeros(2), [torch.zeros(3)]))  # the last one stands
        task("c", data=DataLoader(TensorDataset(x[:20], y[:20])))
        evaluator.report(state=0)
        task("d", data=[(row, int(label)) for row, label in zip(x, y, strict=True)])
        task("e", data=(x.numpy(), y.numpy()), stored=7)
    found = costs(tmp_path)
    assert [row["stored_bytes"] for row in found.values()] == [0, 160 + 80, 20, 20, 7]
    assert [row["data_bytes"] for row in found.values()] == [720, 720, 480, 480, 720]
    assert [row["model_bytes"] for row in found.values()] == [
        bytes_, bytes_ + 424, bytes_ + 424, bytes_, bytes_,
    ]  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
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
        Evaluator({"a": rows()}, record=tmp_path, meter=False) as evaluator,
        evaluator.task("a", model),
    ):
        evaluator.step(model)
    assert costs(tmp_path)["a"]["model_bytes"] == 4 * (16 + 4 + 4)


@pytest.mark.parametrize("value", [np.int64(1000), np.uint32(1000), 1000])
def test_numbers_of_numpy_are_numbers(tmp_path: Path, value: Any) -> None:
    model = net()
    with (
        Evaluator({"a": rows()}, record=tmp_path) as evaluator,
        evaluator.task("a", model, stored=value, data=value),
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
        evaluator.task("a", model, data=list(rows(30))),
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
            with evaluator.task(task, model, data=rows(50), stored=size):
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
    with Evaluator({"a": rows()}, record=tmp_path, meter=False) as evaluator:
        learn(model)
        evaluator.step(model)
    assert not (tmp_path / "costs.csv").exists()
    assert "costs" in evaluator.summary().undefined["ms"]


# The fused scores.


def run_of_two(folder: Path, seed: int) -> Evaluator:
    data = {"a": rows(40), "b": rows(40, seed=1)}
    model = net(seed)
    with Evaluator(data, record=folder, unseen=True, setting="domain") as evaluator:
        for k, task in enumerate(data):
            with evaluator.task(task, model, data=data[task], stored=k * 480):
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
    together = scored(*runs)["metrics"]
    ids = ("acc.lower", "rem", "bwt.positive", "fwt.upper", "ms", "sss", "ce")
    spread = [np.std([run.metrics[id_] for run in found], ddof=1) for id_ in ids]
    assert together["clstability"] == pytest.approx(1 - np.mean(spread))
    assert Options().epsilon == 1.0
