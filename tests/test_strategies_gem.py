"""GEM's steps against plain ones, its memories against chi-square."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from perdure.data.examples import Batch, Examples
from perdure.models import Network, build
from perdure.record import InputError
from perdure.strategies.gem import GEM
from perdure.training import DivergedError, save_checkpoint, train

from .strategy_helpers import (
    LINEAR,
    NORMED,
    blobs,
    differing,
    done,
    everything,
    finish,
    go_on,
    made,
    short_config,
)
from .test_strategies_gem_projection import nearest

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from numpy.typing import NDArray

    Reals = NDArray[np.float64]


def batched(shape: tuple[int, int, int], outputs: int) -> nn.Module:
    """Return a network with BatchNorm that draws nothing."""
    size = int(np.prod(shape))
    body = [nn.Flatten(), nn.Linear(size, 8), nn.BatchNorm1d(8), nn.Tanh()]
    return nn.Sequential(*body, nn.Linear(8, outputs))


BATCHED = "tests.test_strategies_gem:batched"


def of(model: nn.Module, batch: Batch) -> list[Tensor | None]:
    """Return the gradient of a batch's loss."""
    loss = cross_entropy(model(batch.x, batch.task), batch.y)
    return list(torch.autograd.grad(loss, list(model.parameters()), allow_unused=True))


def flat(parts: list[Tensor | None], model: nn.Module) -> Reals:
    pairs = zip(parts, model.parameters(), strict=True)
    found = [(torch.zeros_like(w) if p is None else p).flatten() for p, w in pairs]
    return torch.cat(found).double().numpy()


def together(parts: Iterable[Tensor | None]) -> Reals:
    """Return what is not zero of some gradients: heads without one count as zero."""
    found = torch.cat([p.flatten() for p in parts if p is not None]).double().numpy()
    return np.asarray(found[found != 0])


@pytest.mark.parametrize("strength", [0.0, 0.5])
@pytest.mark.parametrize(
    ("model", "setting"),
    [("mlp", "class"), ("mlp", "task"), ("mlp", "domain"), (BATCHED, "class"), (BATCHED, "task")],
)
def test_steps_are_those_of_a_plain_loop(model: str, setting: Any, strength: float) -> None:
    """Weights, statistics and both terms; SGD with momentum and decay written out."""
    options = {"strength": strength, "weight_decay": "0.02", "lr": "0.03"}
    scenario = blobs(setting=setting)
    strategy, plan = made("gem", scenario, model=model, settings=options)
    step = strategy.step
    speeds: dict[int, Tensor] = {}
    turned = feasible = 0

    def both(*batches: Batch, **_: Any) -> Tensor:
        nonlocal turned, feasible
        twin = deepcopy(strategy.model)
        rows = np.array([flat(of(twin, batch), twin) for batch in batches[1:]])
        g = of(twin, batches[0])
        plain, terms = flat(g, twin), list[Any]()
        wanted = plain
        if len(rows) and (rows @ plain).min() < 0:
            wanted = nearest(plain + strength * rows.sum(0), rows)
            turned += 1
        elif len(rows):
            feasible += 1
        loss = step(*batches, on_loss_terms=lambda *both: terms.extend(both))
        assert np.array_equal(together(terms[0]), together(g))  # eq. 9
        assert bool(terms[1]) == (wanted is not plain)
        if terms[1]:
            added = torch.cat([part.flatten() for part in terms[1]]).double().numpy()
            np.testing.assert_allclose(added, wanted - plain, rtol=1e-3, atol=1e-5)
        start = 0
        for k, (weight, now) in enumerate(
            zip(twin.parameters(), strategy.model.parameters(), strict=True)
        ):
            part = torch.tensor(wanted[start : start + weight.numel()]).view_as(weight).float()
            start += weight.numel()
            if g[k] is None and not part.any():
                assert torch.equal(weight, now)  # no gradient: neither decay nor momentum
                continue
            part += 0.02 * weight.detach()
            speeds[k] = 0.9 * speeds[k] + part if k in speeds else part
            torch.testing.assert_close(now, weight - 0.03 * speeds[k], rtol=1e-4, atol=2e-6)
        for one, other in zip(twin.buffers(), strategy.model.buffers(), strict=True):
            assert torch.equal(one, other)
        return loss

    vars(strategy)["step"] = both
    places = finish(train(scenario, strategy, plan))
    assert turned >= 3
    assert turned + feasible == sum(place.phase > 0 for place in places)


def small(labels: Any, **options: Any) -> GEM:
    """Return a learner of one-pixel images with these labels."""
    x = np.zeros((len(labels), 1, 1, 1), dtype=np.uint8)
    examples = Examples(x, labels, np.zeros_like(labels), mean=[(0.0,)], std=[(1.0,)])
    model = build(LINEAR, (1, 1, 1), int(labels.max()) + 1)
    return GEM(model, torch.optim.SGD(model.parameters(), lr=0.1), examples, **options)


def loss_of(model: Network, batch: Batch) -> float:
    with torch.no_grad():
        return float(cross_entropy(model(batch.x), batch.y))


@pytest.mark.parametrize("strength", [0.0, 0.5, 2.0])
def test_no_memory_s_loss_rises(strength: float) -> None:
    """In float64 with a rate so small that only the first order is left; naive's do rise."""
    strategy = done("gem", blobs(), settings={"strength": strength})
    model, lr, rises = strategy.model.double(), 1e-7, []
    strategy.optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    memories = [strategy.examples.take(rows) for rows in strategy.select_rows(np.arange(1))[1:]]
    batches = [Batch(memory.x.double(), memory.y) for memory in memories]
    x, y = (torch.cat(parts) for parts in ([b.x for b in batches], [b.y for b in batches]))
    batches.insert(0, Batch(x, (y + 1) % 6))  # at odds with every memory
    weights = deepcopy(model.state_dict())
    for others in (batches[1:], []):
        model.load_state_dict(weights)
        before = [loss_of(model, batch) for batch in batches]
        strategy.step(batches[0], *others)
        after = [loss_of(model, batch) for batch in batches]
        rises.append((np.array(after) - before) / lr)
    assert len(rises[0]) == 4
    assert rises[0][1:].max() < 1e-4
    assert rises[1][1:].max() > 0.01


@pytest.mark.parametrize("setting", ["class", "task"])
@pytest.mark.parametrize(("optimizer", "lr"), [("sgd", "0.05"), ("adam", "0.01")])
@pytest.mark.parametrize("model", ["mlp", NORMED])
def test_without_a_memory_it_is_naive(model: str, optimizer: str, lr: str, setting: Any) -> None:
    scenario, rates = blobs(setting=setting), {"lr": lr, "weight_decay": "0.01"}
    how: dict[str, Any] = {"model": model, "optimizer": optimizer}
    one = done("gem", scenario, settings={**rates, "memory": "0"}, **how)
    assert one.memory_rows().tolist() == []
    other = everything(done("naive", scenario, settings=rates, **how))
    differ = differing(everything(one), other)
    assert [k for k in differ if k.startswith(("/model", "/optimizer", "/random"))] == []


def test_heads_of_tasks_to_come_are_left_alone() -> None:
    """A fault once: a turned gradient was 0 there, which decay and momentum act on."""
    scenario = blobs(setting="task")
    strategy, plan = made("gem", scenario, settings={"weight_decay": "0.1", "strength": "0"})
    heads = strategy.model.head
    assert isinstance(heads, nn.ModuleList)
    first, old_moves = deepcopy(heads.state_dict()), 0
    before = deepcopy(first)
    for place in train(scenario, strategy, plan):
        now = {k: v.clone() for k, v in heads.state_dict().items()}
        for name, value in now.items():
            task = int(name.split(".")[0])
            assert task <= place.phase or torch.equal(value, first[name])
            moved = not torch.equal(value, before[name])
            old_moves += moved and task < place.phase
            assert moved or task != place.phase
        before = now
    assert old_moves


def test_memories_are_uniform_choices_of_their_tasks() -> None:
    labels = np.repeat(np.arange(3), [20, 3, 9])
    tasks = [np.flatnonzero(labels == k) for k in range(3)]
    counts, chosen = np.zeros(len(labels)), set()
    for seed in range(400):
        strategy = small(labels, memory=5, seed=seed)
        for task, rows in enumerate(tasks):
            strategy.end_task(task, rows)
            assert len(strategy.memory) == task + 1
        new, *memories = strategy.select_rows(np.array([7, 8]))
        assert new.tolist() == [7, 8]
        for rows, memory in zip(tasks, memories, strict=True):
            assert len(set(memory.tolist())) == len(memory) == min(5, len(rows))
            assert set(memory.tolist()) <= set(rows.tolist())
            counts[memory] += 1
        assert sorted(strategy.memory_rows().tolist()) == sorted(np.concatenate(memories).tolist())
        chosen.add(tuple(memories[0].tolist()))
    assert len(chosen) > 350
    assert counts[tasks[1]].tolist() == [400] * 3
    assert min(chisquare(counts[rows]).pvalue for rows in tasks) > 1e-4


@pytest.mark.parametrize("lr", ["1e12", "1e18", "1e19", "1e21", "1e25", "1e30", "1e37"])
def test_a_rate_that_diverges_is_said(lr: str) -> None:
    scenario = blobs()
    strategy, plan = made("gem", scenario)
    for place in train(scenario, strategy, plan):
        if place.step == 12:  # in the second task, so that there is a memory
            break
    for group in strategy.optimizer.param_groups:
        group["lr"] = float(lr)
    with pytest.raises(DivergedError) as caught:
        finish(train(scenario, strategy, plan, start=place))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "way",
    [{}, {"setting": "task"}, {"model": NORMED, "optimizer": "adam", "settings": {"lr": "0.01"}}],
)
def test_going_on_in_the_third_task(way: dict[str, Any], tmp_path: Path) -> None:
    scenario = blobs(setting=way.get("setting", "class"))
    strategy, plan = made("gem", scenario, **way)
    for place in train(scenario, strategy, plan):
        if place.step == 24:
            assert place.phase == 2
            save_checkpoint(tmp_path, strategy, place)
    again, _ = go_on(short_config("gem", **way), scenario, tmp_path)
    assert differing(everything(strategy), everything(again)) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"memory": -1}, "memory is -1"),
        ({"strength": -0.1}, "strength is -0.1"),
        ({"strength": float("nan")}, "strength is nan"),
        ({"strength": float("inf")}, "strength is inf"),
    ],
)
def test_values_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        small(np.zeros(3, dtype=np.int64), **options)
    assert "\n" not in str(caught.value)
