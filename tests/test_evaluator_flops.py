"""Operations in costs.csv: PyTorch's count against one by hand, and why there may be none."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack
from torch.utils.data import DataLoader, Dataset

import perdure
from perdure import Evaluator, Score
from perdure.evaluation.costs.flops import FlopCounter

from .cli_helpers import scored
from .evaluator_helpers import (
    costs,
    learn,
    linear,
    lines,
    mlp,
    net,
    quietly,
    rows,
    sets,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# Some loops here compute gradients that no optimizer applies.
pytestmark = pytest.mark.filterwarnings("ignore:the first step is counted before")

N = 16  # rows of a training batch


@pytest.fixture(autouse=True)
def _nothing_compiled() -> None:
    """Once anything is compiled, a process counts no more: forget what other tests did."""
    import torch._dynamo.utils

    torch._dynamo.utils.counters.clear()


def conv(
    n: int, channels: tuple[int, int], kernel: int, out: int, *, first: bool
) -> tuple[int, int]:
    one = 2 * n * channels[0] * channels[1] * kernel**2 * out**2
    return one, one if first else 2 * one


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
            with evaluator.task(task, model, train_data=train, stored_samples=0):
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
    last = [4] * 109 + [32] * 11  # begins at 110: not seen before 1000
    assert steps_of(last, tmp_path / "4") == one * 120 * 4


def test_a_pass_for_nothing_is_left_out_of_training(tmp_path: Path) -> None:
    """Frozen layers have no gradient: less is computed, and less is counted."""
    model = net()
    for parameter in model.body.parameters():
        parameter.requires_grad = False
    with (
        Evaluator({"a": rows()}, record=tmp_path) as evaluator,
        evaluator.task("a", model, train_data=40),
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
            with evaluator.task(task, model, train_data=10):
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


def test_a_score_that_cannot_be_counted_is_a_score_still(tmp_path: Path) -> None:
    """Operations are counted on two rows; a score that takes five says so there, not here."""
    model = net()

    def score(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        first: Tensor = model(x)[:, 0]
        return (first >= first.topk(5).values.min()).float()

    def run() -> None:
        with (
            Evaluator({"a": rows()}, record=tmp_path, score=score) as evaluator,
            evaluator.task("a", model),
        ):
            learn(model)
            evaluator.step(model)

    _, said = quietly(run)
    assert {line.score for line in lines(tmp_path)} == {5 / 21}
    assert costs(tmp_path)["a"]["flops_eval"] is None
    assert any("flops_eval" in message for message in said)


@pytest.mark.parametrize("how", [{"initial": "none"}, {}])
@pytest.mark.parametrize("hand_in", [False, True])
def test_one_pass_is_counted_wherever_data_is_given(
    tmp_path: Path, how: dict[str, Any], hand_in: bool
) -> None:
    """The model is known at the latest after the first step."""
    model = net()
    with (
        Evaluator({"a": rows()}, record=tmp_path, **how) as evaluator,
        evaluator.task("a", model if hand_in else None, train_data=rows(30)),
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
        evaluator.task("a", model, train_data=30),
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
            {"a": (x, x[:, 0])}, record=tmp_path,
            score=Score(lambda m, x, y: (m(x)[:, 0] - y).square(), lower_is_better=True),
        ) as evaluator,
        evaluator.task("a", model, train_data=30),
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
            evaluator.task("a", model, train_data=rows(), stored_samples=0),
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
    (line,) = said
    assert line.startswith("flops_train is not measured: something else follows the operations")
    undefined = scored(tmp_path)["undefined"]
    assert "flops_train of task 'a'" in undefined["ce"]
    assert said[0] in scored(tmp_path)["notes"]


def test_no_meter(tmp_path: Path) -> None:
    row, said = uncounted(tmp_path, {"count_flops": False}, nullcontext())
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


def test_a_counter_is_not_compiled_itself() -> None:
    import torch._dynamo

    def products(x: Tensor) -> Tensor:
        y = x @ x
        torch._dynamo.graph_break()
        return y @ x

    compiled = torch.compile(products, backend="eager")
    try:
        with FlopCounter() as flops:
            compiled(torch.ones(8, 8))
        assert flops.total == 2 * 2 * 8**3
        assert not torch._dynamo.utils.counters["frames"]
    finally:
        torch._dynamo.reset()


def test_steps_that_compute_nothing_here(tmp_path: Path) -> None:
    model = net()
    evaluator = Evaluator({"a": rows()}, record=tmp_path)
    block = evaluator.task("a", model)
    block.__enter__()
    evaluator.step(model)
    evaluator.step(model)
    with pytest.warns(perdure.EvaluationWarning, match="no operations were seen"):
        block.__exit__(None, None, None)
    evaluator.close()
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


@pytest.mark.parametrize("groups", [1, 2, 6])
def test_groups_of_a_convolution_are_small_convolutions(groups: int) -> None:
    """Each group by itself takes as many operations as its share; depthwise ones hardly any."""
    found = []
    for parts in (groups, 1):
        times = groups // parts
        layer = nn.Conv2d(6 // times, 12 // times, 3, padding=1, groups=parts)
        x = torch.rand(5, 6 // times, 8, 8, requires_grad=True)
        with FlopCounter() as flops:
            layer(x).sum().backward()
        found.append(flops.total * times)
    assert found[0] == found[1] > 0


class Modes(Dataset[int]):
    """Says how many dispatch modes are active where it is read."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, _: int) -> int:
        return len(_get_current_dispatch_mode_stack())


def test_workers_of_a_loader_that_start_in_a_counted_step_count_nothing(tmp_path: Path) -> None:
    model = net()
    x, y = sets()["a"]
    with (
        Evaluator(sets(), record=tmp_path / "run", initial="none") as evaluator,
        evaluator.task("a", model),
    ):
        learn(model, (x, y))
        assert len(_get_current_dispatch_mode_stack()) == 1  # the first step is counted
        loader = DataLoader(Modes(), 2, num_workers=1, multiprocessing_context="fork")
        assert [batch.tolist() for batch in loader] == [[0, 0], [0, 0]]
        assert len(_get_current_dispatch_mode_stack()) == 1
        evaluator.step(model)
    assert costs(tmp_path / "run")["a"]["flops_train"] == sum(mlp(len(x)))
