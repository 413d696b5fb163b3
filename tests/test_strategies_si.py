"""Synaptic intelligence against its path integral, added up next to plain training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from perdure.data.examples import Batch, Examples
from perdure.models import build
from perdure.record import InputError
from perdure.strategies.si import SI
from perdure.training import train

from .penalty_helpers import (
    NAIVE,
    PUSHED,
    Plain,
    Step,
    alongside,
    close,
    doubled,
    first_pull,
    goes_on,
    is_naive,
    old_heads_rest,
)
from .strategy_helpers import LINEAR, NORMED, blobs, made

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

STILL = {"momentum": "0", "weight_decay": "0"}  # a gradient of 0 is then like none
WAYS: dict[str, tuple[Any, dict[str, Any]]] = {
    "sgd": ("class", {"settings": STILL}),
    "momentum": ("class", {"settings": PUSHED}),
    "adam": ("class", {"optimizer": "adam", "settings": {"lr": "0.01", "weight_decay": "0.01"}}),
    "masked": ("class", {"mask_unseen": True}),
    "task": ("task", {"settings": STILL}),
    "domain": ("domain", {"settings": PUSHED}),
}


class Integral:
    """Omega as the paper has it: of each weight, what moving it brought."""

    def __init__(self, strategy: SI, plain: Plain) -> None:
        self.strategy, self.plain = strategy, plain
        self.share = [torch.zeros_like(w) for w in plain.weights]
        self.omega = [torch.zeros_like(w) for w in plain.weights]
        self.start = plain.now()
        self.clamped = self.counted = 0

    def after(self, gradients: list[Tensor]) -> None:
        moves = zip(self.share, gradients, self.plain.before, self.plain.now(), strict=True)
        for share, gradient, before, now in moves:
            share -= gradient * (now - before)
        close(self.strategy.path_integral, self.share)

    def end(self, _task: int, _rows: Any) -> None:
        now = self.plain.now()
        for omega, share, new, old in zip(self.omega, self.share, now, self.start, strict=True):
            self.clamped += int((share < 0).sum())
            self.counted += int((share > 0).sum())
            omega += share.clamp(min=0) / ((new - old) ** 2 + self.strategy.eps)
            share.zero_()
        self.start = now
        self.plain.importance, self.plain.anchor = [[o.clone() for o in self.omega]], [now]
        close(self.strategy.importance, self.omega)
        close(self.strategy.anchor, now)


def compared(way: str, **settings: str) -> tuple[Integral, list[Step]]:
    setting, more = WAYS[way]
    scenario = blobs(setting=setting)
    more = {**more, "settings": {**more.get("settings", {}), **settings}}
    strategy, plan = doubled("si", scenario, **more)
    assert isinstance(strategy, SI)
    plain = Plain(strategy, strategy.strength)
    path = Integral(strategy, plain)
    return path, alongside(scenario, strategy, plan, plain, after=path.after, end=path.end)


@pytest.mark.parametrize("eps", ["0.1", "0.001"])
@pytest.mark.parametrize("way", WAYS)
def test_omega_is_the_path_integral(way: str, eps: str) -> None:
    """Over three tasks, and every step follows the whole loss."""
    path, steps = compared(way, strength="0.02", eps=eps)
    for step in steps:
        assert step.loss == pytest.approx(step.whole, rel=1e-10)
    assert path.counted > 5
    if way not in ("sgd", "task"):  # those go down their gradient
        assert path.clamped > 5  # some weights moved for the worse: they count 0
    pulls = [max(float(each.abs().max()) for each in s.stability) for s in steps if s.task > 0]
    assert max(pulls) > 1e-3


def test_shares_add_up_to_what_was_learned() -> None:
    """With small steps on one batch, the shares' sum is the fall of its loss (section 3)."""
    base, _ = made("naive", blobs())
    optimizer = torch.optim.SGD(base.model.parameters(), lr=1e-3)
    si = SI(base.model, optimizer, base.examples)
    batch = base.examples.take(np.arange(40))
    losses = [float(si.step(batch)) for _ in range(200)]
    fall = losses[0] - losses[-1]
    assert fall > 0.05
    last = losses[-2] - losses[-1]  # the step after the last loss was taken
    assert sum(float(each.sum()) for each in si.path_integral) == pytest.approx(
        fall + last, rel=0.01
    )


def test_steps_by_hand() -> None:
    """One weight, momentum, two tasks: every number written out."""
    examples = Examples(
        np.zeros((2, 1, 1, 1), np.uint8), np.zeros(2, np.int64), np.zeros(2, np.int64),
        mean=[(0.0,)], std=[(1.0,)],
    )  # fmt: skip
    model = build(LINEAR, (1, 1, 1), 2).double()
    with torch.no_grad():
        for p in model.parameters():
            p.zero_()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.5)
    si = SI(model, optimizer, examples, strength=2.0, eps=0.25)
    w = np.zeros(4)  # weights and biases of both classes
    speed, share, omega, anchor = np.zeros(4), np.zeros(4), np.zeros(4), np.zeros(4)

    def step(x: float, y: int) -> None:
        nonlocal w, speed, share
        scores = np.exp([w[0] * x + w[2], w[1] * x + w[3]])
        p = scores / scores.sum()
        loss = -np.log(p[y])
        miss = p - np.eye(2)[y]
        gradient = np.array([miss[0] * x, miss[1] * x, *miss])
        speed = 0.5 * speed + gradient + 2 * 2 * omega * (w - anchor)
        share, w = share + gradient * 0.5 * speed, w - 0.5 * speed
        found = si.step(Batch(torch.tensor([[x]], dtype=torch.float64), torch.tensor([y])))
        assert float(found) == pytest.approx(loss, rel=1e-12)
        mine = torch.cat([p.detach().flatten() for p in model.parameters()])
        np.testing.assert_allclose(mine.numpy(), w, rtol=1e-12)

    for task in (((1.0, 0), (2.0, 0), (-1.0, 1)), ((0.5, 1), (1.0, 1), (3.0, 0)), ((1.0, 0),)):
        for x, y in task:
            step(x, y)
        si.end_task(0, np.arange(2))
        omega = omega + np.maximum(share, 0) / ((w - anchor) ** 2 + 0.25)
        anchor, share = w, np.zeros(4)
        found = torch.cat([each.flatten() for each in si.regularizer_state()]).numpy()
        np.testing.assert_allclose(found, [*omega, *anchor], rtol=1e-12)
    assert (omega > 0).any()


# Known limits.


@pytest.mark.parametrize("case", NAIVE)
def test_without_strength_it_is_naive(case: str) -> None:
    is_naive("si", case, strength="0")


@pytest.mark.parametrize("setting", ["class", "task"])
@pytest.mark.parametrize("model", ["mlp", NORMED])
def test_nothing_pulls_where_the_old_task_ended(setting: Any, model: str) -> None:
    first, *rest = first_pull("si", setting=setting, model=model)
    assert len(first) > 0
    assert all(bool((each == 0).all()) for each in first)
    assert all(any(bool((each != 0).any()) for each in pull) for pull in rest)


def test_heads_of_other_tasks_rest() -> None:
    """They have no share in what other tasks learn, and their importance stays."""
    old_heads_rest("si", settings={"weight_decay": "0.1"})
    scenario = blobs(setting="task")
    strategy, plan = made("si", scenario, setting="task")
    assert isinstance(strategy, SI)
    heads: Any = strategy.model.head
    at = [k for k, p in enumerate(strategy.model.parameters()) if p is heads[0].weight]
    found = []
    for place in train(scenario, strategy, plan):
        if place.phase:
            assert bool((strategy.path_integral[at[0]] == 0).all())
            found.append(strategy.importance[at[0]].clone())
    assert bool((found[0] > 0).any())
    assert all(torch.equal(found[0], each) for each in found)


@pytest.mark.parametrize(
    "more",
    [{"settings": PUSHED}, {"model": NORMED, "setting": "task", "optimizer": "adam"}],
)
def test_going_on_in_the_second_task(more: Any, tmp_path: Path) -> None:
    goes_on("si", tmp_path, **more)


def test_what_is_kept_does_not_grow() -> None:
    """Two numbers a weight from the first task's end on; shares are as passing as momentum."""
    scenario = blobs()
    strategy, plan = made("si", scenario)
    model = sum(p.nbytes for p in strategy.model.parameters())
    sizes = [
        sum(each.nbytes for each in strategy.regularizer_state())
        for _ in train(scenario, strategy, plan)
    ]
    assert set(sizes[:10]) == {0}
    assert set(sizes[10:]) == {2 * model}
    assert list(strategy.auxiliary_tensors()) == []
    assert len(strategy.memory_rows()) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"strength": -1.0}, "strength is -1, expected 0 or more"),
        ({"strength": float("nan")}, "strength is nan"),
        ({"strength": float("inf")}, "strength is inf"),
        ({"eps": 0.0}, "eps is 0, expected more than 0"),
        ({"eps": -1.0}, "eps is -1"),
        ({"eps": float("nan")}, "eps is nan"),
    ],
)
def test_values_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    base, _ = made("naive", blobs())
    with pytest.raises(InputError, match=message) as caught:
        SI(base.model, base.optimizer, base.examples, **options)
    assert "\n" not in str(caught.value)
