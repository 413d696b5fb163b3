"""gradients.csv: norms of the two terms of a loss, against backward passes by hand."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import perdure
from perdure import Evaluator

from .evaluator_helpers import Clock, Net, costs, net, rows, sets

if TYPE_CHECKING:
    from pathlib import Path

N = 16  # rows of a training batch
STEP = 2 * N * 4 * 8 * 2 + 2 * N * 8 * 3 * 3  # operations: no gradient of the inputs of the first


def norms(folder: Path) -> list[tuple[int, str, float | None, float | None]]:
    with (folder / "gradients.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert list(lines[0]) == ["step", "trained", "plasticity", "stability"]

    def number(cell: str) -> float | None:
        return float(cell) if cell else None

    return [
        (int(r["step"]), r["trained"], number(r["plasticity"]), number(r["stability"]))
        for r in lines
    ]


def norm_by_hand(model: nn.Module, loss: Tensor) -> float:
    """Return the L2 norm of the gradient from a backward pass, entry by entry."""
    model.zero_grad()
    loss.backward(retain_graph=True)
    grads = [p.grad.double() for p in model.parameters() if p.grad is not None]
    model.zero_grad()
    return float(sum(float(g.square().sum()) for g in grads) ** 0.5)


@pytest.mark.parametrize("every", [1, 3])
def test_gradient_norms_by_hand(tmp_path: Path, every: int) -> None:
    first, last = nn.Linear(4, 8), nn.Linear(8, 3)
    model = nn.Sequential(first, nn.ReLU(), last)
    last.bias.requires_grad = False
    expected: list[tuple[int, str, float, float | None]] = []
    step = 0
    with Evaluator(sets("ab"), record=tmp_path) as evaluator:
        for task, steps in (("a", 4), ("b", 5)):
            with evaluator.task(task, model):
                for _ in range(steps):
                    step += 1
                    x, y = rows(N, seed=step)
                    new = cross_entropy(model(x), y)
                    old = 3.0 * first.weight.square().sum() if task == "b" else None
                    if step % every == 0:
                        of_old = None if old is None else norm_by_hand(model, old)
                        expected.append((step, task, norm_by_hand(model, new), of_old))
                    loss = new if old is None else new + old
                    evaluator.record_gradients(model, new, old, every=every)
                    assert all(p.grad is None for p in model.parameters())
                    loss.backward()
                    with torch.no_grad():
                        for p in model.parameters():
                            if p.grad is not None:
                                p.sub_(0.01 * p.grad)
                    model.zero_grad()
                    evaluator.step(model)
    found = norms(tmp_path)
    assert [line[:2] for line in found] == [line[:2] for line in expected]
    for mine, theirs in zip(found, expected, strict=True):
        assert mine[2] == pytest.approx(theirs[2], rel=1e-5)
        assert mine[3] == (theirs[3] and pytest.approx(theirs[3], rel=1e-5))


def test_gradients_that_are_given(tmp_path: Path) -> None:
    model = net()
    given = [torch.tensor([3.0, 4.0]), None, torch.tensor([[12.0]])]
    with Evaluator({"a": rows()}, record=tmp_path, count_flops=False) as evaluator:
        evaluator.record_gradients(model, given, torch.tensor([[6.0], [8.0]]))
        evaluator.step(model)
        evaluator.record_gradients(
            model, (g for g in given[1:]), torch.tensor(0.0)
        )  # depends on nothing
        evaluator.step(model)
        evaluator.record_gradients(model, [], None)
    assert norms(tmp_path) == [(1, "", 13.0, 10.0), (2, "", 12.0, 0.0), (3, "", 0.0, None)]


@pytest.mark.filterwarnings("ignore:the first step is counted before")
def test_measuring_gradients_is_not_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)

    class Slow(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            clock.wait(8)
            return grad

    model = net()
    with (
        Evaluator({"a": rows()}, record=tmp_path, initial="none") as evaluator,
        evaluator.task("a", model),
    ):
        for _ in range(4):
            x, y = rows(N)
            clock.wait(1)
            loss = cross_entropy(Slow.apply(model(x)), y)  # type: ignore[no-untyped-call]
            evaluator.record_gradients(model, loss, loss * 0.5, every=2)
            clock.wait(1)
            loss.backward()
            evaluator.step(model)
    row = costs(tmp_path)["a"]
    assert row["seconds_train"] == 4 * (1 + 1 + 8)
    assert row["seconds_eval"] == 2 * 2 * 8
    assert row["flops_train"] == 4 * STEP


class Drawing(torch.autograd.Function):
    """Draws in its backward pass, as quantized or dithered layers do."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad * (1 + torch.rand(grad.shape))


def test_gradients_leave_the_generators_and_the_graph_alone(tmp_path: Path) -> None:
    drawn = []
    for measured in (False, True):
        model = net()
        torch.manual_seed(0)
        x, y = rows(N)
        loss = cross_entropy(Drawing.apply(model(x)), y)  # type: ignore[no-untyped-call]
        if measured:
            evaluator = Evaluator({"a": rows()}, record=tmp_path, count_flops=False)
            evaluator.record_gradients(model, loss, loss)
        loss.backward()
        grads = [p.grad.tolist() for p in model.parameters() if p.grad is not None]
        drawn.append((float(torch.rand(())), grads))
    assert drawn[0] == drawn[1]


def test_gradient_norm_itself() -> None:
    model = Net()
    x, y = rows(N)
    loss = cross_entropy(model(x), y)
    parameters = list(model.parameters())
    assert perdure.gradient_norm(loss, parameters) == pytest.approx(norm_by_hand(model, loss))
    assert perdure.gradient_norm(loss, parameters[:1]) < perdure.gradient_norm(loss, parameters)
    large = [torch.full((4,), 1e30)]  # the square of it is beyond 32 bits
    assert perdure.gradient_norm(large, []) == pytest.approx(2e30)
