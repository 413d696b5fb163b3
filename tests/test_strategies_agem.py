"""A-GEM's steps against the closed form in NumPy, its draws against chi-square."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from torch import Tensor, nn

from perdure.data.examples import Batch, Examples
from perdure.models import build
from perdure.record import InputError
from perdure.strategies.agem import AGEM
from perdure.strategies.gem import project_gradient
from perdure.training import DivergedError, save_checkpoint, train

from .strategy_helpers import (
    LINEAR,
    NORMED,
    Chosen,
    blobs,
    differing,
    done,
    everything,
    finish,
    go_on,
    made,
    short_config,
)
from .test_strategies_gem import BATCHED, flat, of

if TYPE_CHECKING:
    from pathlib import Path


def small(labels: Any, **options: Any) -> AGEM:
    """Return a learner of one-pixel images with these labels."""
    x = np.zeros((len(labels), 1, 1, 1), dtype=np.uint8)
    examples = Examples(x, labels, np.zeros_like(labels), mean=[(0.0,)], std=[(1.0,)])
    model = build(LINEAR, (1, 1, 1), int(labels.max()) + 1)
    return AGEM(model, torch.optim.SGD(model.parameters(), lr=0.1), examples, **options)


@pytest.mark.parametrize(
    ("model", "setting", "momentum", "decay"),
    [
        ("mlp", "class", 0.9, 0.02),
        ("mlp", "domain", 0.9, 0.02),
        (BATCHED, "class", 0.5, 0.0),
        ("mlp", "task", 0.9, 0.02),
        (BATCHED, "task", 0.9, 0.0),
    ],
)
def test_steps_are_those_of_the_closed_form(
    model: str, setting: Any, momentum: float, decay: float
) -> None:
    """Weights, statistics and both terms of eq. 9; SGD written out."""
    rates = {"momentum": momentum, "weight_decay": decay, "lr": "0.03"}
    scenario = blobs(setting=setting)
    strategy, plan = made("agem", scenario, model=model, settings=rates)
    step = strategy.step
    speeds: dict[int, Tensor] = {}
    turned = feasible = 0

    def both(*batches: Batch, **_: Any) -> Tensor:
        nonlocal turned, feasible
        twin = deepcopy(strategy.model)
        old = flat(of(twin, batches[1]), twin) if len(batches) > 1 else None
        g = of(twin, batches[0])
        plain, terms = flat(g, twin), list[Any]()
        wanted = plain
        if old is not None and plain @ old < 0:
            wanted = plain - (plain @ old) / (old @ old) * old
            turned += 1
            rows = torch.tensor(old)[None]
            near = project_gradient(torch.tensor(plain), rows).numpy()  # GEM's with one row
            np.testing.assert_allclose(near, wanted, rtol=1e-9, atol=1e-9)
        elif old is not None:
            feasible += 1
        loss = step(*batches, on_loss_terms=lambda *both: terms.extend(deepcopy(both)))
        np.testing.assert_allclose(flat(terms[0], twin), plain, rtol=0, atol=0)
        added = flat(terms[1], twin) if old is not None else np.array(terms[1])
        if wanted is plain:
            assert not added.any()
        else:
            np.testing.assert_allclose(added, wanted - plain, rtol=1e-3, atol=1e-6)
            stepped = flat([weight.grad for weight in strategy.model.parameters()], twin)
            assert old is not None
            assert stepped @ old >= -1e-6 * np.linalg.norm(plain) * np.linalg.norm(old)
        start = 0
        for k, (weight, now) in enumerate(
            zip(twin.parameters(), strategy.model.parameters(), strict=True)
        ):
            part = torch.tensor(wanted[start : start + weight.numel()]).view_as(weight).float()
            start += weight.numel()
            if g[k] is None and not part.any():
                assert torch.equal(weight, now)
                continue
            part += decay * weight.detach()
            speeds[k] = momentum * speeds[k] + part if k in speeds else part
            torch.testing.assert_close(now, weight - 0.03 * speeds[k], rtol=1e-4, atol=2e-6)
        for one, other in zip(twin.buffers(), strategy.model.buffers(), strict=True):
            assert torch.equal(one, other)
        return loss

    vars(strategy)["step"] = both
    places = finish(train(scenario, strategy, plan))
    assert turned >= 1
    assert turned + feasible == sum(place.phase > 0 for place in places)


def test_without_a_pull_of_the_old_it_is_naive() -> None:
    """A reference gradient of exactly 0, where a share of it cannot be computed."""
    strategy = small(np.array([0, 1, 2]))
    with torch.no_grad():
        bias = list(strategy.model.parameters())[1]
        bias.copy_(torch.tensor([500.0, 0.0, 0.0]))
    twin = deepcopy(strategy.model)
    sure = Batch(torch.zeros(2, 1, 1, 1), torch.tensor([0, 0]))
    new = Batch(torch.ones(2, 1, 1, 1), torch.tensor([1, 2]))
    assert not flat(of(twin, sure), twin).any()
    strategy.step(new, sure)
    for weight, part, now in zip(
        twin.parameters(), of(twin, new), strategy.model.parameters(), strict=True
    ):
        assert part is not None
        torch.testing.assert_close(now, weight - 0.1 * part, rtol=0, atol=0)


@pytest.mark.parametrize("setting", ["class", "task"])
@pytest.mark.parametrize(("optimizer", "lr"), [("sgd", "0.05"), ("adam", "0.01")])
@pytest.mark.parametrize("model", ["mlp", NORMED])
def test_without_a_memory_it_is_naive(model: str, optimizer: str, lr: str, setting: Any) -> None:
    scenario, rates = blobs(setting=setting), {"lr": lr, "weight_decay": "0.01"}
    how: dict[str, Any] = {"model": model, "optimizer": optimizer}
    one = done("agem", scenario, settings={**rates, "memory": "0"}, **how)
    assert one.memory_rows().tolist() == []
    other = everything(done("naive", scenario, settings=rates, **how))
    differ = differing(everything(one), other)
    assert [k for k in differ if k.startswith(("/model", "/optimizer", "/random"))] == []


@pytest.mark.parametrize(("optimizer", "lr"), [("sgd", "0.05"), ("adam", "0.01")])
def test_heads_of_tasks_to_come_are_left_alone(optimizer: str, lr: str) -> None:
    scenario = blobs(setting="task")
    rates = {"weight_decay": "0.1", "lr": lr}
    strategy, plan = made("agem", scenario, optimizer=optimizer, settings=rates)
    heads = strategy.model.head
    assert isinstance(heads, nn.ModuleList)
    first = deepcopy(heads.state_dict())
    for place in train(scenario, strategy, plan):
        for name, value in heads.state_dict().items():
            if (task := int(name.split(".")[0])) > place.phase:
                assert torch.equal(value, first[name])
            elif task == place.phase:
                assert not torch.equal(value, first[name])


def test_memories_are_uniform_choices_of_their_tasks() -> None:
    labels = np.repeat(np.arange(3), [20, 3, 9])
    tasks = [np.flatnonzero(labels == k) for k in range(3)]
    counts = np.zeros(len(labels))
    for seed in range(400):
        strategy = small(labels, memory=5, seed=seed)
        for task, rows in enumerate(tasks):
            held = set(strategy.memory_rows().tolist())
            strategy.end_task(task, rows)
            more = set(strategy.memory_rows().tolist()) - held
            assert held <= set(strategy.memory_rows().tolist())
            assert len(more) == min(5, len(rows))
            assert more <= set(rows.tolist())
        assert len(strategy.memory_rows()) == 13
        counts[strategy.memory_rows()] += 1
    assert counts[tasks[1]].tolist() == [400] * 3
    assert min(chisquare(counts[rows]).pvalue for rows in tasks) > 1e-4


@pytest.mark.parametrize(("sample", "drawn"), [(1, 1), (4, 4), (12, 12), (13, 13), (99, 13)])
def test_draws_are_uniform_and_without_replacement(sample: int, drawn: int) -> None:
    labels = np.repeat(np.arange(3), [20, 3, 9])
    strategy = small(labels, memory=5, sample=sample)
    assert [part.tolist() for part in strategy.select_rows(np.array([2]))] == [[2]]
    for task in range(3):
        strategy.end_task(task, np.flatnonzero(labels == task))
    counts, sets = np.zeros(len(labels)), set()
    for _ in range(600):
        new, old = strategy.select_rows(np.array([31, 30]))
        assert new.tolist() == [31, 30]
        assert len(old) == len(set(old.tolist())) == drawn
        counts[old] += 1
        sets.add(tuple(sorted(old.tolist())))
    held = strategy.memory_rows()
    assert counts.sum() == counts[held].sum()
    if drawn == 13:
        assert counts[held].tolist() == [600] * 13
    else:
        assert len(sets) >= min(13, 600)
        assert chisquare(counts[held]).pvalue > 1e-4


def test_draws_follow_the_seed() -> None:
    scenario, found = blobs(), []
    for seed in (0, 0, 1):
        strategy, plan = made("agem", scenario, seed=seed)
        chosen = Chosen(strategy)
        finish(train(scenario, strategy, plan))
        found.append([others[0].tolist() for others in chosen.others if others])
    assert found[0] == found[1] != found[2]
    assert len({tuple(rows) for rows in found[0]}) > 15  # of 20 steps


@pytest.mark.parametrize("lr", ["1e12", "1e18", "1e21", "1e25", "1e30", "1e37"])
def test_a_rate_that_diverges_is_said(lr: str) -> None:
    scenario = blobs()
    strategy, plan = made("agem", scenario)
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
    strategy, plan = made("agem", scenario, **way)
    chosen = Chosen(strategy)
    for place in train(scenario, strategy, plan):
        if place.step == 24:
            assert place.phase == 2
            del vars(strategy)["select_rows"]
            save_checkpoint(tmp_path, strategy, place)
            vars(strategy)["select_rows"] = chosen
    del vars(strategy)["select_rows"]
    again, rows = go_on(short_config("agem", **way), scenario, tmp_path)
    assert differing(everything(strategy), everything(again)) == []
    assert rows == chosen.lists()[24:]


@pytest.mark.parametrize(
    ("options", "message"),
    [({"memory": -1}, "memory is -1"), ({"sample": 0}, "sample is 0"), ({"sample": -3}, "is -3")],
)
def test_values_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        small(np.zeros(3, dtype=np.int64), **options)
    assert "\n" not in str(caught.value)
