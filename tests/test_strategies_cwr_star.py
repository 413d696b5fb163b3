"""CWR* against training and consolidation written out; what is frozen, what may be named."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from perdure.data.examples import Batch, Examples
from perdure.models import Network, build
from perdure.record import InputError
from perdure.scenarios import blur_boundaries
from perdure.strategies.cwr_star import CWRStar
from perdure.training import save_checkpoint, train

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
from .test_strategies_gem import BATCHED

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    Rows = NDArray[np.int64]
    Reals = NDArray[np.float64]


def no_bias(shape: tuple[int, int, int], outputs: int) -> nn.Module:
    """Return a network whose last layer has no bias."""
    size = int(np.prod(shape))
    body = [nn.Flatten(), nn.Linear(size, 8), nn.BatchNorm1d(8), nn.ReLU()]
    return nn.Sequential(*body, nn.Linear(8, outputs, bias=False))


def squashed(shape: tuple[int, int, int], outputs: int) -> nn.Module:
    """Return a network that ends in something else."""
    return nn.Sequential(nn.Flatten(), nn.Linear(int(np.prod(shape)), outputs), nn.Tanh())


NO_BIAS = "tests.test_strategies_cwr_star:no_bias"
SQUASHED = "tests.test_strategies_cwr_star:squashed"
ADAM: dict[str, Any] = {"optimizer": "adam", "settings": {"lr": "0.01", "weight_decay": "0.01"}}
SGD: dict[str, Any] = {"optimizer": "sgd", "settings": {"weight_decay": "0.05"}}


def heads_of(model: Network) -> list[nn.Linear]:
    """Return the last layers, one for all tasks or one for each."""
    found = list(model.head) if isinstance(model.head, nn.ModuleList) else [model.head]
    assert all(isinstance(head, nn.Linear) for head in found)
    return found  # type: ignore[return-value]


# The algorithm, class by class.


class ByHand:
    """CWR* of Lomonaco et al. 2020 (algorithm 1) beside a learner, on a network of its own."""

    def __init__(self, model: Network, options: Any) -> None:
        self.model, self.options = deepcopy(model), options
        self.cw: dict[tuple[int, str], Reals] = {}  # of each class and kind of weight
        self.past: dict[int, int] = {}
        self.tasks = 0

    def begin(self, labels: Rows) -> None:
        self.cur = {int(c): int((labels == c).sum()) for c in np.unique(labels)}
        with torch.no_grad():
            for c, kind, row in self.rows():
                known = c in self.cur and c in self.past
                row.copy_(torch.tensor(self.cw[c, kind]) if known else torch.zeros_like(row))
        body = [] if self.tasks else list(self.model.body.parameters())
        last = [weight for head in heads_of(self.model) for weight in head.parameters()]
        self.optimizer = torch.optim.SGD([*body, *last], **self.options)
        if self.tasks:
            self.model.eval()

    def rows(self) -> list[tuple[int, str, Tensor]]:
        """Return class, kind and weights of every row of the last layers."""
        found, first = [], 0
        for head in heads_of(self.model):
            for kind, weight in head.named_parameters():
                found += [(first + k, kind, row) for k, row in enumerate(weight.detach())]
            first += head.out_features
        return found

    def learn(self, batch: Batch) -> float:
        loss = cross_entropy(self.model(batch.x, batch.task), batch.y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return float(loss.detach())

    def consolidated(self) -> dict[tuple[int, str], Reals]:
        """Return the weights of each class that came, if the task ended now."""
        kept, first = dict(self.cw), 0
        for head in heads_of(self.model):
            mine = [c for c in self.cur if first <= c < first + head.out_features]
            for kind, weight in head.named_parameters():
                tw = {c: weight.detach()[c - first].double().numpy() for c in mine}
                mean = np.mean([tw[c] for c in mine]) if mine else 0.0
                for c in mine:
                    share = np.sqrt(self.past.get(c, 0) / self.cur[c])
                    before = self.cw.get((c, kind), np.zeros(()))
                    kept[c, kind] = (before * share + (tw[c] - mean)) / (share + 1)
            first += head.out_features
        return kept

    def end(self) -> None:
        self.cw = self.consolidated()
        for c, count in self.cur.items():
            self.past[c] = self.past.get(c, 0) + count
        self.tasks += 1


@pytest.mark.parametrize("blur", [0.0, 0.5])
@pytest.mark.parametrize("setting", ["class", "domain", "task"])
@pytest.mark.parametrize("model", ["mlp", BATCHED, NO_BIAS])
def test_steps_are_those_of_the_algorithm(model: str, setting: Any, blur: float) -> None:
    scenario = blobs(setting=setting, each=[9, 30, 17, 12, 25, 17])
    scenario = blur_boundaries(scenario, blur, seed=1) if blur else scenario
    rates: dict[str, Any] = {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.01}
    strategy, plan = made("cwr-star", scenario, model=model, settings=rates)
    hand, steps = ByHand(strategy.model, rates), 0
    begin, step, end = strategy.begin_task, strategy.step, strategy.end_task

    def compared() -> None:
        wanted, first = hand.consolidated(), 0
        for head in heads_of(strategy.model):
            for kind, weight in head.named_parameters():
                for k, row in enumerate(weight.detach().double().numpy()):
                    if (first + k, kind) in wanted:
                        mine = wanted[first + k, kind]
                        np.testing.assert_allclose(row, mine, rtol=1e-4, atol=1e-5)
            first += head.out_features
        bodies = [model.body.state_dict().values() for model in (hand.model, strategy.model)]
        for one, other in zip(*bodies, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)

    def began(task: int, rows: Rows) -> Rows:
        hand.begin(strategy.examples.labels[rows])
        given = begin(task, rows)
        compared()
        return given

    def stepped(batch: Batch, *others: Batch, **_: Any) -> Tensor:
        nonlocal steps
        assert not others
        for task in range(3) if hand.model.opened is not None else ():
            if strategy.model.opened is not None and strategy.model.opened[task]:
                hand.model.open(task, scenario.tasks[task].classes)
        wanted, terms = hand.learn(batch), list[Any]()
        loss = step(batch, on_loss_terms=lambda *both: terms.extend(both))
        assert float(loss) == pytest.approx(wanted, rel=1e-4)
        assert float(terms[0].detach()) == float(loss)
        assert list(terms[1]) == []
        compared()
        steps += 1
        return loss

    def ended(task: int, rows: Rows) -> None:
        end(task, rows)
        compared()
        hand.end()

    vars(strategy).update(begin_task=began, step=stepped, end_task=ended)
    assert len(finish(train(scenario, strategy, plan))) == steps > 20
    assert hand.tasks == 3


def test_a_class_that_returns_is_weighed_by_what_was_seen() -> None:
    """Numbers written down: 4 examples before, 1 now, so what is kept counts twice."""
    labels = np.array([0, 0, 0, 0, 1, 1, 0, 2])
    strategy = small(labels, 3)
    (head,) = heads_of(strategy.model)
    for task, (rows, bias) in enumerate([([0, 1, 2, 3, 4, 5], 6.0), ([6, 7], 9.0)]):
        strategy.begin_task(task, np.array(rows))
        with torch.no_grad():
            strategy.temporary[1].copy_(torch.tensor([bias, 0.0, 1.0]))
            strategy.temporary[0].zero_()
        strategy.optimizer.param_groups[0]["lr"] = 0.0
        strategy.step(strategy.examples.take(np.array(rows)))
        strategy.end_task(task, np.array(rows))
        wanted = [3.0, -3.0, -32768.0] if task == 0 else [(3 * 2 + 4) / 3, -3.0, -4.0]
        assert head.bias.tolist() == pytest.approx(wanted)


# What is frozen, what is shown.


@pytest.mark.parametrize("how", [SGD, ADAM], ids=["sgd", "adam"])
@pytest.mark.parametrize("setting", ["class", "task", "domain"])
@pytest.mark.parametrize("model", ["mlp", NORMED, NO_BIAS])
def test_the_body_is_frozen_after_the_first_task(model: str, setting: Any, how: Any) -> None:
    scenario = blobs(setting=setting)
    strategy, plan = made("cwr-star", scenario, model=model, **how)
    first = deepcopy(strategy.model.body.state_dict())
    frozen: dict[str, Tensor] = {}
    for place in train(scenario, strategy, plan):
        now = strategy.model.body.state_dict()
        if place.phase == 0:
            frozen = deepcopy(now)
        else:
            assert all(torch.equal(value, frozen[name]) for name, value in now.items())
    assert not any(torch.equal(value, first[name]) for name, value in frozen.items())


@pytest.mark.parametrize("setting", ["class", "task", "domain"])
def test_what_is_tested_is_what_would_be_kept(setting: Any) -> None:
    scenario = blur_boundaries(blobs(setting=setting), 0.3, seed=2)
    strategy, plan = made("cwr-star", scenario, model=NORMED, **ADAM)
    assert isinstance(strategy, CWRStar)
    seen = set()
    for place in train(scenario, strategy, plan):
        copy = deepcopy(strategy)
        copy.end_task(place.phase, scenario.tasks[place.phase].train)
        last = [weight for head in heads_of(strategy.model) for weight in head.parameters()]
        assert all(map(torch.equal, copy.saved, last))
        states = [each.model.state_dict().values() for each in (copy, strategy)]
        assert all(map(torch.equal, *states))
        seen.add(tuple(last[0].flatten().tolist()))
    assert len(seen) == 30


@pytest.mark.parametrize("blur", [0.0, 0.1])
def test_classes_that_never_came_are_never_named(blur: float) -> None:
    scenario = blur_boundaries(blobs(noise=80.0), blur, seed=4)
    strategy, plan = made("cwr-star", scenario, settings={"lr": "0.2"})
    x, came = strategy.examples.take(np.arange(102)).x, set[int]()
    for place in train(scenario, strategy, plan):
        came |= set(strategy.examples.labels[scenario.tasks[place.phase].train].tolist())
        with torch.no_grad():
            scores = strategy.model(x)
        assert scores.isfinite().all()
        assert set(scores.argmax(1).tolist()) <= came
    assert len(came) == 6


def test_a_class_that_never_came_to_a_head_is_never_named() -> None:
    """Class 2 never came to its head, class 3 is alone in the other; both of the rest score < 0."""
    strategy = small(np.array([0, 1, 3, 3]), 4, heads=[3, 1], tasks=np.array([0, 0, 1, 1]))
    for task, rows in enumerate([np.array([0, 1]), np.array([2, 3])]):
        strategy.model.open(task, [[0, 1, 2], [3]][task])
        strategy.begin_task(task, rows)
        if task == 0:
            strategy.temporary[0].copy_(torch.tensor([[5.0, -5.0], [5.0, -5.0], [0.0, 0.0]]))
        strategy.step(strategy.examples.take(rows, task))
        strategy.end_task(task, rows)
        x = torch.tensor([[-1.0, 1.0]]).view(1, 1, 1, 2)
        with torch.no_grad():
            assert strategy.model(x, 0)[0, :2].max() < 0
            assert strategy.model(x, 0).argmax(1).item() in (0, 1)
            assert strategy.model(x, 1).argmax(1).item() == 3


# Mistakes, and going on.


def small(
    labels: Rows, outputs: int, *, heads: list[int] | None = None, tasks: Rows | None = None
) -> CWRStar:
    """Return a learner of two-pixel images with these labels."""
    x = np.zeros((len(labels), 1, 1, 2), dtype=np.uint8)
    tasks = np.zeros_like(labels) if tasks is None else tasks
    examples = Examples(x, labels, tasks, mean=[(0.0,)], std=[(1.0,)], heads=heads is not None)
    model = build(LINEAR, (1, 1, 2), outputs, heads=heads)
    return CWRStar(model, torch.optim.SGD(model.parameters(), lr=0.1), examples)


def test_a_network_without_a_last_layer_is_refused() -> None:
    with pytest.raises(InputError, match=r"requires a model that ends in an nn\.Linear") as caught:
        done("cwr-star", blobs(), model=SQUASHED)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("step", [15, 20])
@pytest.mark.parametrize(
    "way", [{}, {"setting": "task", **SGD}, {"setting": "domain", "model": NORMED, **ADAM}]
)
def test_going_on_in_the_second_task(way: dict[str, Any], step: int, tmp_path: Path) -> None:
    scenario = blobs(setting=way.get("setting", "class"))
    strategy, plan = made("cwr-star", scenario, **way)
    for place in train(scenario, strategy, plan):
        if place.step == step:
            assert place.phase == 1
            save_checkpoint(tmp_path, strategy, place)
    again, _ = go_on(short_config("cwr-star", **way), scenario, tmp_path)
    assert differing(everything(strategy), everything(again)) == []
