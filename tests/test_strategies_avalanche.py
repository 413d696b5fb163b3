"""Strategies as Avalanche 0.2.1 computes them, against its mathematics written out with autograd.

Every reference trains a copy of the network on the same batches, in float64, in the way of that
version: penalties are part of the loss, importances come from whole batches in the order of the
dataset, and BatchNorm is in the mode in which its code leaves it.
"""

from __future__ import annotations

from copy import deepcopy
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, kl_div

from perdure.record import InputError
from perdure.strategies import find_strategy
from perdure.strategies.gem import project_gradient
from perdure.training import train

from .penalty_helpers import doubled, goes_on
from .strategy_helpers import NORMED, blobs, finish, made

if TYPE_CHECKING:
    from pathlib import Path

    from perdure.data.examples import Batch
    from perdure.strategies import Strategy

AVALANCHE = "avalanche-0.2.1"
BATCH = 8  # of `short_config`
MODEL = "tests.test_strategies_avalanche:batch_normed"


def batch_normed(shape: tuple[int, int, int], outputs: int) -> nn.Module:
    """Return a network with BatchNorm and no dropout: nothing is drawn."""
    size = int(np.prod(shape))
    return nn.Sequential(
        nn.Flatten(), nn.Linear(size, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Linear(12, outputs)
    )


class Reference:
    """A copy of the network, trained by autograd alone on the loss and a penalty."""

    def __init__(self, strategy: Strategy) -> None:
        self.examples, self.model = strategy.examples, deepcopy(strategy.model)
        self.weights = list(self.model.parameters())
        self.optimizer = torch.optim.SGD(self.weights, lr=0.05, momentum=0.9)

    def penalty(self, x: Tensor, scores: Tensor) -> Tensor | float:
        return 0.0

    def step(self, batch: Batch) -> None:
        scores = self.model(batch.x)
        loss = cross_entropy(scores, batch.y) + self.penalty(batch.x, scores)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    def end(self, rows: Any) -> None:
        raise NotImplementedError

    def now(self) -> list[Tensor]:
        return [weight.detach().clone() for weight in self.weights]

    def batches(self, rows: Any) -> list[Batch]:
        """Return the examples of a task as a loader that does not shuffle does."""
        rows = sorted(rows)
        return [self.examples.take(np.array(rows[k : k + BATCH])) for k in range(0, 34, BATCH)]

    def gradients(self, value: Tensor) -> list[Tensor]:
        return list(torch.autograd.grad(value, self.weights))


class EWCReference(Reference):
    """lambda x the sum over tasks of F (weight - anchor)^2, F from the gradients of batches."""

    strength = 5.0
    tasks: list[tuple[list[Tensor], list[Tensor]]]

    def __init__(self, strategy: Strategy) -> None:
        super().__init__(strategy)
        self.tasks = []

    def penalty(self, x: Tensor, scores: Tensor) -> Tensor | float:
        return self.strength * sum(
            (much * (weight - old) ** 2).sum()
            for importance, anchor in self.tasks
            for much, weight, old in zip(importance, self.weights, anchor, strict=True)
        )

    def end(self, rows: Any) -> None:
        self.model.eval()
        batches = self.batches(rows)
        each = [self.gradients(cross_entropy(self.model(b.x), b.y)) for b in batches]
        self.model.train()
        importance = [sum(g**2 for g in of) / len(batches) for of in zip(*each, strict=True)]
        self.tasks.append((importance, self.now()))


class MASReference(EWCReference):
    """The same penalty around the last weights, its importance an average with that before."""

    strength = 2.0
    alpha = 0.5

    def end(self, rows: Any) -> None:
        batches = self.batches(rows)
        total = [torch.zeros_like(weight) for weight in self.weights]
        for batch in batches:  # in training mode: the statistics of BatchNorm go on
            length = (self.model(batch.x) ** 2).sum(1).sqrt().mean()
            for amount, gradient in zip(total, self.gradients(length), strict=True):
                amount += 3 * gradient.abs() / len(batches)
        before = self.tasks[0][0] if self.tasks else [torch.zeros_like(w) for w in self.weights]
        mixed = [
            self.alpha * old + (1 - self.alpha) * new
            for old, new in zip(before, total, strict=True)
        ]
        self.tasks = [(mixed, self.now())]


class SIReference(Reference):
    """lambda / 2 x the sum of min(.001, summed path integrals / change^2) (weight - anchor)^2."""

    strength, eps = 40.0, 0.01

    def __init__(self, strategy: Strategy) -> None:
        super().__init__(strategy)
        normalized = {id(p) for m in self.model.modules() if isinstance(m, nn.BatchNorm1d)
                      for p in m.parameters()}  # fmt: skip
        self.kept = [weight for weight in self.weights if id(weight) not in normalized]
        self.anchor = [weight.detach().clone() for weight in self.kept]
        self.sums = [torch.zeros_like(weight) for weight in self.anchor]
        self.path = [torch.zeros_like(weight) for weight in self.anchor]
        self.importance = [torch.zeros_like(weight) for weight in self.anchor]

    def penalty(self, x: Tensor, scores: Tensor) -> Tensor | float:
        triples = zip(self.importance, self.kept, self.anchor, strict=True)
        return self.strength / 2 * sum((m * (w - old) ** 2).sum() for m, w, old in triples)

    def step(self, batch: Batch) -> None:
        before = [weight.detach().clone() for weight in self.kept]
        super().step(batch)
        for path, weight, old in zip(self.path, self.kept, before, strict=True):
            assert weight.grad is not None  # of the whole loss
            path += weight.grad * (weight.detach() - old)

    def end(self, rows: Any) -> None:
        for k, weight in enumerate(self.kept):
            change = weight.detach() - self.anchor[k]
            self.sums[k] += self.path[k] / (change**2 + self.eps)
            self.importance[k] = (-self.sums[k]).clamp(max=0.001)
            self.anchor[k] = weight.detach().clone()
            self.path[k].zero_()


class LwFReference(Reference):
    """alpha x KL of a copy in training mode and the model, over the classes of the last task."""

    alpha, temperature = 1.5, 2.0
    teacher: nn.Module | None = None
    classes: list[int]

    def penalty(self, x: Tensor, scores: Tensor) -> Tensor | float:
        if self.teacher is None:
            return 0.0
        with torch.no_grad():
            old = self.teacher(x)[:, self.classes]
        new = scores[:, self.classes]
        logs = torch.log_softmax(new / self.temperature, 1)
        shares = torch.softmax(old / self.temperature, 1)
        return self.alpha * kl_div(logs, shares, reduction="batchmean")

    def end(self, rows: Any) -> None:
        self.teacher = deepcopy(self.model).train()
        self.classes = sorted(set(self.examples.labels[rows].tolist()))


def project(gradient: Tensor, old: Tensor, least: float) -> Tensor:
    """Return gradient + old^T v for the v >= least that minimizes Avalanche's quadratic program.

    Of all choices of which v are at their bound, one satisfies the conditions of Karush, Kuhn and
    Tucker.
    """
    p, q = old @ old.T + 0.001 * torch.eye(len(old), dtype=old.dtype), old @ gradient
    if (q >= 0).all():
        return gradient
    for free in product([False, True], repeat=len(old)):
        v, chosen = torch.full_like(q, least), torch.tensor(free)
        if any(free):
            fixed = p[chosen][:, ~chosen] @ v[~chosen]
            v[chosen] = torch.linalg.solve(p[chosen][:, chosen], -q[chosen] - fixed)
        slope = p @ v + q
        if (v >= least - 1e-12).all() and (slope[~chosen] >= -1e-12).all():
            return gradient + old.T @ v
    raise AssertionError("no solution")


class GEMReference(Reference):
    """Projected gradients; a memory holds the first examples of its task."""

    memory, strength = 7, 0.5

    def __init__(self, strategy: Strategy) -> None:
        super().__init__(strategy)
        self.memories: list[Any] = []
        self.projections = 0

    def step(self, batch: Batch) -> None:
        old = [self.examples.take(rows) for rows in self.memories]
        flat = [
            torch.cat([g.flatten() for g in self.gradients(cross_entropy(self.model(b.x), b.y))])
            for b in [*old, batch]  # BatchNorm sees the memories first
        ]
        gradient = flat[-1]
        if old:
            gradient = project(flat[-1], torch.stack(flat[:-1]), self.strength)
            self.projections += gradient is not flat[-1]
        sizes = [weight.numel() for weight in self.weights]
        for weight, part in zip(self.weights, gradient.split(sizes), strict=True):
            weight.grad = part.view_as(weight).clone()
        self.optimizer.step()

    def end(self, rows: Any) -> None:
        self.memories.append(np.array(sorted(rows)[: self.memory]))


REFERENCES: dict[str, tuple[type[Reference], dict[str, str]]] = {
    "ewc": (EWCReference, {"strength": "5"}),
    "mas": (MASReference, {"strength": "2"}),
    "si": (SIReference, {"strength": "40", "eps": "0.01"}),
    "lwf": (LwFReference, {"alpha": "1.5", "temperature": "2"}),
    "gem": (GEMReference, {"memory": "7", "strength": "0.5"}),
}


def follow(
    name: str, setting: Any, kind: type[Reference] | None = None, **more: str
) -> tuple[Strategy, Any, float]:
    """Train a strategy and its reference; return both and how far the penalty moved weights."""
    usual, options = REFERENCES[name]
    scenario = blobs(setting=setting)
    settings = {**options, "momentum": "0.9", "implementation": AVALANCHE, **more}
    strategy, plan = doubled(name, scenario, model=MODEL, settings=settings)
    reference, naive = (kind or usual)(strategy), Reference(strategy)
    step, end_task = strategy.step, strategy.end_task

    def step_both(batch: Batch, *others: Batch, **named: Any) -> Tensor:
        loss = step(batch, *others, **named)
        reference.step(batch)
        naive.step(batch)
        same()
        return loss

    def end_both(task: int, rows: Any) -> None:
        end_task(task, rows)
        reference.end(rows)
        same()

    def same() -> None:
        pairs = zip(strategy.model.state_dict().values(), reference.model.state_dict().values(),
                    strict=True)  # fmt: skip
        for found, wanted in pairs:  # weights, and the statistics of BatchNorm
            torch.testing.assert_close(found, wanted, rtol=1e-8, atol=1e-10)

    vars(strategy).update(step=step_both, end_task=end_both)
    finish(train(scenario, strategy, plan))
    moved = max(
        float((a - b).abs().max()) for a, b in zip(reference.now(), naive.now(), strict=True)
    )
    return strategy, reference, moved


@pytest.mark.parametrize("setting", ["class", "domain"])
@pytest.mark.parametrize("name", REFERENCES)
def test_every_step_is_that_of_avalanche(name: str, setting: Any) -> None:
    """Over three tasks, in all weights and statistics; and the penalty is felt."""
    strategy, reference, moved = follow(name, setting)
    assert moved > (1e-5 if name == "si" else 1e-3)  # SI's importances are clipped
    if name == "gem":
        assert reference.projections > 3
        assert [rows.tolist() for rows in strategy.memory] == [  # type: ignore[attr-defined]
            rows.tolist() for rows in reference.memories
        ]


def test_importances_of_si_are_clipped_above_and_may_be_negative() -> None:
    strategy, _, _ = follow("si", "class")
    importance = torch.cat([part.flatten() for part in strategy.importance])  # type: ignore[attr-defined]
    assert float(importance.max()) == 0.001
    assert float(importance.min()) < -0.001
    count = sum(p.numel() for p in strategy.model.parameters())
    assert len(importance) == count - 24  # without the 12 scales and shifts of BatchNorm


def test_mas_averages_with_its_alpha() -> None:
    class Mostly(MASReference):
        alpha = 0.9

    follow("mas", "class", Mostly, alpha="0.9")


def test_mas_is_much_weaker_than_in_the_paper() -> None:
    """The reason why the lambda of one is not that of the other."""
    means = []
    for implementation in ("perdure", AVALANCHE):
        scenario = blobs()
        settings = {"strength": "0.01", "implementation": implementation}
        strategy, plan = made("mas", scenario, settings=settings)
        finish(train(scenario, strategy, plan))
        state = strategy.regularizer_state()[: len(list(strategy.model.parameters()))]
        means.append(float(torch.cat([part.flatten() for part in state]).mean()))
    assert means[0] > 5 * means[1] > 0


def test_a_last_example_alone_belongs_to_the_batch_before() -> None:
    """Alone it has no batch statistics: 33 = 8 + 8 + 8 + 9."""
    scenario = blobs(each=[17, 16] * 3)
    strategy, plan = made("mas", scenario, model=NORMED, settings={"implementation": AVALANCHE})
    finish(train(scenario, strategy, plan))
    assert all(bool(part.isfinite().all()) for part in strategy.regularizer_state())


def test_the_ridge_of_gem_weakens_the_projection() -> None:
    gradient, old = torch.tensor([1.0, -0.1]), torch.tensor([[0.0, 0.02]])
    exact = project_gradient(gradient, old)
    weak = project_gradient(gradient, old, ridge=0.001)
    torch.testing.assert_close(exact, torch.tensor([1.0, 0.0]))
    v = 0.002 / (0.02**2 + 0.001)
    torch.testing.assert_close(weak, torch.tensor([1.0, -0.1 + 0.02 * v]))


@pytest.mark.parametrize("name", ["lwf", "mas", "si"])  # have more state than without the option
def test_a_run_resumes_bit_for_bit(name: str, tmp_path: Path) -> None:
    goes_on(name, tmp_path, model=NORMED, settings={"implementation": AVALANCHE})


@pytest.mark.parametrize("name", REFERENCES)
def test_other_implementations_are_refused(name: str) -> None:
    base, _ = made("naive", blobs())
    kind: Any = find_strategy(name)
    with pytest.raises(InputError, match="implementation is 'avalanche', expected perdure or aval"):
        kind(base.model, base.optimizer, base.examples, implementation="avalanche")


def test_lwf_of_avalanche_requires_a_shared_head() -> None:
    with pytest.raises(InputError, match="requires a shared head"):
        made("lwf", blobs(setting="task"), setting="task", settings={"implementation": AVALANCHE})
