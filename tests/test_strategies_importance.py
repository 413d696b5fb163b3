"""Importances of weights against autograd, one example at a time."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear

from perdure.data.examples import Batch
from perdure.models import Network
from perdure.strategies import _importance
from perdure.strategies._importance import estimate_importance

if TYPE_CHECKING:
    from collections.abc import Callable


class Calls(nn.Module):
    """A dense layer, used in one way or another."""

    def __init__(self, way: Callable[[nn.Linear, Tensor], Tensor], *, inputs: int = 6) -> None:
        super().__init__()
        self.way, self.layer = way, nn.Linear(inputs, 6)

    def forward(self, x: Tensor) -> Tensor:
        return self.way(self.layer, x.flatten(1))


class Mine(nn.Linear):
    """A dense layer that does something else."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * super().forward(x).sigmoid()


def tied() -> nn.Module:
    first, second = nn.Linear(6, 6), nn.Linear(6, 6)
    second.weight = first.weight
    return nn.Sequential(nn.Flatten(), first, nn.Tanh(), second, nn.Tanh())


def frozen(*names: str) -> nn.Module:
    body = nn.Sequential(
        nn.Flatten(), nn.Linear(6, 6), nn.ReLU(inplace=True), nn.Linear(6, 6), nn.Tanh()
    )
    for name in names:
        body.get_parameter(name).requires_grad = False
    return body


def conv() -> nn.Module:
    """Everything that behaves otherwise in training, with statistics of its own."""
    layers = nn.Sequential(
        nn.Conv2d(1, 3, 2, bias=False), nn.BatchNorm2d(3), nn.ReLU(inplace=True), nn.Dropout2d(),
        nn.Flatten(), nn.Linear(6, 6), nn.BatchNorm1d(6), nn.ReLU(inplace=True), nn.Dropout(),
    )  # fmt: skip
    for _ in range(3):
        layers(torch.randn(20, 1, 2, 3))
    return layers


def dense() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(6, 8), nn.ReLU(inplace=True), nn.Linear(8, 6))


BODIES: dict[str, Callable[[], nn.Module]] = {
    "none": nn.Flatten,
    "mlp": dense,
    "no bias": lambda: nn.Sequential(nn.Flatten(), nn.Linear(6, 6, bias=False), nn.Tanh()),
    "conv": conv,
    "fixed norm": lambda: nn.Sequential(dense(), nn.BatchNorm1d(6, affine=False), nn.Dropout()),
    "layer norm": lambda: nn.Sequential(dense(), nn.LayerNorm(6, elementwise_affine=False)),
    "tied": tied,
    "twice": lambda: Calls(lambda layer, x: layer(layer(x).tanh()).tanh()),
    "never": lambda: Calls(lambda layer, x: x.sin()),
    "cut off": lambda: Calls(lambda layer, x: layer(x).detach()),
    "functional": lambda: Calls(lambda layer, x: linear(x, layer.weight, layer.bias).tanh()),
    "and functional": lambda: Calls(lambda layer, x: layer(x).tanh() @ layer.weight),
    "bias again": lambda: Calls(lambda layer, x: layer(x).tanh() * layer.bias),
    "by name": lambda: Calls(lambda layer, x: layer(input=x).tanh()),
    "once cut off": lambda: Calls(lambda layer, x: layer(x).tanh() + layer(x.sin()).detach()),
    "spectral": lambda: nn.Sequential(nn.Flatten(), nn.utils.spectral_norm(nn.Linear(6, 6))),
    "3-D": lambda: Calls(lambda layer, x: layer(x.view(-1, 2, 3)).tanh().sum(1), inputs=3),
    "parts as rows": lambda: Calls(
        lambda layer, x: layer(x.view(-1, 3)).tanh().view(-1, 2, 6).sum(1), inputs=3
    ),
    "by its data": lambda: nn.Sequential(
        conv(), Calls(lambda layer, x: layer(x).tanh() if float(x.detach().sum()) >= 0 else x)
    ),
    "subclass": lambda: nn.Sequential(nn.Flatten(), Mine(6, 6), nn.Tanh()),
    "frozen first": lambda: frozen("1.weight", "1.bias"),
    "frozen second": lambda: frozen("3.weight", "3.bias"),
    "frozen weight": lambda: frozen("1.weight"),
    "frozen bias": lambda: frozen("1.bias", "3.bias"),
}


def classified(scores: Tensor, y: Tensor) -> Tensor:
    return cross_entropy(scores, y, reduction="none")


def squared(scores: Tensor, _y: Tensor) -> Tensor:
    return scores.square().sum(1)


def network(body: str, heads: str = "one", *, mask: bool = False) -> Network:
    """Return a network of 4 outputs in float64; of three heads two are open."""
    torch.manual_seed(3)
    head = nn.ModuleList([nn.Linear(6, n) for n in (2, 1, 1)]) if heads != "one" else None
    made = Network(BODIES[body](), head or nn.Linear(6, 4), 4, mask_unseen=mask).double()
    made.open(0, [0, 1])
    made.open(1, [2])
    return made


def batches(heads: str = "one", sizes: tuple[int, ...] = (5, 1, 3)) -> list[Batch]:
    """Return uneven batches whose labels are open."""
    rng, found = torch.Generator().manual_seed(5), []
    for size in sizes:
        x = torch.randn(size, 1, 2, 3, generator=rng, dtype=torch.float64)
        task = torch.randint(2, (size,), generator=rng)
        y = torch.where(task == 1, 2, torch.randint(2, (size,), generator=rng))
        y = y if heads != "number" else torch.zeros_like(y)
        found.append(Batch(x, y, {"one": None, "number": 0, "rows": task}[heads]))
    return found


def one_by_one(model: Network, given: list[Batch], objective: Any, power: int) -> list[Tensor]:
    weights = [p for p in model.parameters() if p.requires_grad]
    total, count = [torch.zeros_like(p) for p in weights], 0
    model.eval()
    for x, y, task, _ in given:
        for k in range(len(x)):
            of = task[k : k + 1] if isinstance(task, Tensor) else task
            value = objective(model(x[k : k + 1], of), y[k : k + 1]).sum()
            found: Any = torch.autograd.grad(value, weights, allow_unused=True)
            for sum_, each in zip(total, found, strict=True):
                sum_ += 0 if each is None else each.abs() ** power
            count += 1
    model.train()
    return [sum_ / count for sum_ in total]


def check(model: Network, given: list[Batch], objective: Any, power: int) -> None:
    found = estimate_importance(model, given, objective, power=power)
    wanted = one_by_one(model, given, objective, power)
    assert sum(float(each.sum()) for each in wanted) > 0
    for a, b in zip(found, wanted, strict=True):
        assert not a.requires_grad
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("objective", [classified, squared])
@pytest.mark.parametrize("body", BODIES)
def test_as_one_example_at_a_time(body: str, objective: Any, power: int) -> None:
    check(network(body), batches(), objective, power)


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("objective", [classified, squared])
@pytest.mark.parametrize("mask", [False, True])
@pytest.mark.parametrize("heads", ["one", "number", "rows"])
@pytest.mark.parametrize("body", ["mlp", "conv", "tied"])
def test_heads_and_masks(body: str, heads: str, mask: bool, objective: Any, power: int) -> None:
    """Those of a head that is of no example, or of a hidden class, are 0."""
    model, given = network(body, heads, mask=mask), batches(heads)
    check(model, given, objective, power)
    last = estimate_importance(model, given, objective, power=power)[-1]  # the bias of class 3
    assert bool(last[-1] == 0) == (mask or heads != "one")


@pytest.mark.parametrize("heads", ["one", "rows"])
@pytest.mark.parametrize("held", [1, 150, 400])
def test_some_examples_at_a_time(held: int, heads: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However few gradients may be held."""
    monkeypatch.setitem(_importance.MAX_GRADIENT_ELEMENTS, "cpu", held)
    check(network("conv", heads), batches(heads, sizes=(7, 4)), classified, 2)


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("body", ["mlp", "conv", "twice", "frozen first"])
def test_nothing_is_touched(body: str, fails: bool) -> None:
    """Weights, gradients, modes, buffers, hooks and everything random, also if it fails."""
    model, given = network(body, mask=True), batches()
    model.body.eval()
    next(model.body.children()).train()  # modes that differ
    for number, p in enumerate(p for p in model.parameters() if p.requires_grad):
        p.grad = None if number == 1 else torch.full_like(p, 0.5)
    held = [(p, p.grad, p.requires_grad) for p in model.parameters()]
    copies = [(batch.x.clone(), batch.y.clone()) for batch in given]

    def states() -> dict[str, Any]:
        modes = [m.training for m in model.modules()]
        hooks = [len(m._forward_hooks) + len(m._backward_hooks) for m in model.modules()]
        tensors = {k: v.clone().numpy().tobytes() for k, v in model.state_dict().items()}
        return {
            "modes": modes, "hooks": hooks, "tensors": tensors,
            "torch": torch.get_rng_state().numpy().tobytes(), "python": random.getstate(),
            "numpy": str(np.random.get_state()),  # noqa: NPY002
        }  # fmt: skip

    def objective(scores: Tensor, y: Tensor) -> Tensor:
        random.random()
        np.random.rand(2)  # noqa: NPY002
        if fails:
            raise RuntimeError("on purpose")
        return classified(scores, y)

    before = states()
    if fails:
        with pytest.raises(RuntimeError, match="on purpose"):
            estimate_importance(model, given, objective, power=2)
    else:
        estimate_importance(model, given, objective, power=2)
    assert states() == before
    for p, grad, flag in held:
        assert p.grad is grad
        assert p.requires_grad == flag
        assert grad is None or bool((grad == 0.5).all())
    for batch, (x, y) in zip(given, copies, strict=True):
        assert torch.equal(batch.x, x)
        assert torch.equal(batch.y, y)
        assert not batch.x.requires_grad
