"""Elastic weight consolidation against a penalty a task that autograd differentiates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from perdure.data.examples import Batch, Examples
from perdure.models import build
from perdure.record import InputError
from perdure.scenarios import blur_boundaries
from perdure.strategies.ewc import EWC
from perdure.training import train

from .penalty_helpers import (
    NAIVE,
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
from .strategy_helpers import LINEAR, NORMED, blobs, done, made

if TYPE_CHECKING:
    from pathlib import Path

    from perdure.scenarios import Scenario

GIVEN = {"labels": "data"}
STILL = {"momentum": "0", "weight_decay": "0"}  # a gradient of 0 is then like none


def compared(scenario: Scenario, **more: Any) -> tuple[EWC, list[Step]]:
    """Train next to one pair of Fisher matrix and anchor a task, or one that decays."""
    strategy, plan = doubled("ewc", scenario, **more)
    assert isinstance(strategy, EWC)
    plain = Plain(strategy, strategy.strength)

    def end(task: int, rows: Any) -> None:
        each = plain.gradients(strategy.examples.take(rows), cross_entropy)
        fisher = [sum(g**2 for g in of) / 2 / len(rows) for of in zip(*each, strict=True)]
        if strategy.mode == "online" and plain.importance:
            (old,) = plain.importance
            fisher = [strategy.decay * a + b for a, b in zip(old, fisher, strict=True)]
            plain.importance, plain.anchor = [], []
        plain.importance.append(fisher)
        plain.anchor.append(plain.now())

    return strategy, alongside(scenario, strategy, plan, plain, end=end)


WAYS: dict[str, tuple[Any, dict[str, Any]]] = {
    "class": ("class", {"settings": {"weight_decay": "0.01"}}),
    "masked": ("class", {"mask_unseen": True}),
    "task": ("task", {"settings": STILL}),
    "domain": ("domain", {"optimizer": "adam", "settings": {"lr": "0.01"}}),
}


@pytest.mark.parametrize("way", WAYS)
def test_separate_is_the_sum_of_a_penalty_for_each_task(way: str) -> None:
    """Over four tasks, step by step."""
    setting, more = WAYS[way]
    more = {**more, "settings": {"strength": "3", **more.get("settings", {}), **GIVEN}}
    scenario = blobs(4, classes=8, setting=setting)
    strategy, steps = compared(scenario, **more)
    assert strategy.mode == "separate"
    for step in steps:
        assert step.loss == pytest.approx(step.whole, rel=1e-10)
    pulls = [max(float(each.abs().max()) for each in s.stability) for s in steps if s.task > 1]
    assert max(pulls) > 1e-3


def test_separate_in_a_blurred_stream_of_heads() -> None:
    """A head has examples, and importance, in several tasks."""
    scenario = blur_boundaries(blobs(setting="task"), 0.5, seed=1)
    strategy, _ = compared(scenario, settings={"strength": "3", **STILL, **GIVEN})
    assert all(bool((each > 0).any()) for each in strategy.importance)


@pytest.mark.parametrize("decay", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("setting", ["class", "task"])
def test_online_has_one_penalty_that_decays(setting: Any, decay: float) -> None:
    options = {"strength": "3", "mode": "online", "decay": str(decay), **STILL, **GIVEN}
    strategy, steps = compared(blobs(4, classes=8, setting=setting), settings=options)
    for step in steps:
        assert step.loss == pytest.approx(step.whole, rel=1e-10)
    close(strategy.anchor, [weight.detach() for weight in strategy.model.parameters()])


def test_modes_differ_from_the_third_task_on() -> None:
    found = {}
    for mode in ("separate", "online"):
        strategy, plan = made("ewc", blobs(), settings={"mode": mode, "strength": "20"})
        found[mode] = [
            (place.phase, next(strategy.model.parameters()).detach().clone())
            for place in train(blobs(), strategy, plan)
        ]
    for (phase, one), (_, other) in zip(found["separate"], found["online"], strict=True):
        assert torch.equal(one, other) or phase == 2
    assert not torch.equal(found["separate"][-1][1], found["online"][-1][1])


# By hand.


def shares(x: Any, weight: Any) -> Any:
    scores = np.exp(x @ weight.T)
    return scores / scores.sum(1, keepdims=True)


def test_steps_by_hand() -> None:
    """Softmax regression without autograd: two steps on a task, its Fisher matrix, two more."""
    rng = np.random.default_rng(4)
    x, y = rng.standard_normal((12, 5)), rng.integers(0, 3, 12)
    examples = Examples(
        np.zeros((12, 1, 1, 5), np.uint8), y, np.zeros(12, np.int64), mean=[(0.0,)], std=[(1.0,)]
    )

    def take(rows: Any, task: Any = None) -> Batch:
        return Batch(torch.tensor(x[rows]), torch.tensor(y[rows]))

    vars(examples)["take"] = take
    model = build(LINEAR, (1, 1, 5), 3).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    ewc = EWC(model, optimizer, examples, strength=7.0, labels="data")
    weight, bias = (p.detach().clone().numpy() for p in model.parameters())
    w, ones, hot = np.c_[weight, bias], np.c_[x, np.ones(12)], np.eye(3)[y]
    first, second = np.arange(7), np.arange(7, 12)

    def learn(rows: Any, fisher: Any, anchor: Any) -> None:
        nonlocal w
        p = shares(ones[rows], w)
        loss = -np.log(p[np.arange(len(rows)), y[rows]]).mean()
        gradient = (p - hot[rows]).T @ ones[rows] / len(rows)
        assert float(ewc.step(take(rows))) == pytest.approx(loss, rel=1e-12)
        w = w - 0.1 * (gradient + 7 * fisher * (w - anchor))

    for _ in range(2):
        learn(first, 0, 0)
    ewc.end_task(0, first)
    fisher = ((shares(ones, w) - hot)[first] ** 2).T @ ones[first] ** 2 / len(first)
    anchor = w.copy()
    for _ in range(2):
        learn(second, fisher, anchor)
    found = [p.detach().numpy() for p in model.parameters()]
    np.testing.assert_allclose(np.c_[found[0], found[1]], w, rtol=1e-11, atol=1e-13)
    kept = [each.numpy() for each in ewc.regularizer_state()]
    np.testing.assert_allclose(np.c_[kept[0], kept[1]], fisher, rtol=1e-11)
    np.testing.assert_allclose(np.c_[kept[2], kept[3]], anchor, rtol=1e-11)


# Known limits.


@pytest.mark.parametrize("case", NAIVE)
def test_without_strength_it_is_naive(case: str) -> None:
    is_naive("ewc", case, strength="0", mode="online" if "task" in case else "separate")


@pytest.mark.parametrize("setting", ["class", "task"])
@pytest.mark.parametrize("model", ["mlp", NORMED])
def test_nothing_pulls_where_the_old_task_ended(setting: Any, model: str) -> None:
    first, *rest = first_pull("ewc", setting=setting, model=model)
    assert len(first) > 0
    assert all(bool((each == 0).all()) for each in first)
    assert all(any(bool((each != 0).any()) for each in pull) for pull in rest)


@pytest.mark.parametrize("mode", ["separate", "online"])
def test_heads_of_other_tasks_rest(mode: str) -> None:
    old_heads_rest("ewc", settings={"mode": mode, "weight_decay": "0.1"})


def test_labels_are_drawn_unless_told() -> None:
    found = {}
    for labels in (None, "sampled", "data"):
        more = {} if labels is None else {"settings": {"labels": labels}}
        strategy = done("ewc", blobs(), **more)
        found[labels] = torch.cat([each.flatten() for each in strategy.regularizer_state()])
    assert torch.equal(found[None], found["sampled"])
    assert not torch.equal(found["sampled"], found["data"])


@pytest.mark.parametrize("more", [{}, {"model": NORMED, "setting": "task", "optimizer": "adam"}])
@pytest.mark.parametrize("mode", ["separate", "online"])
def test_going_on_in_the_second_task(more: Any, mode: str, tmp_path: Path) -> None:
    goes_on(
        "ewc",
        tmp_path,
        settings={"mode": mode} | ({"decay": "0.5"} if mode == "online" else {}),
        **more,
    )


def test_what_is_kept_does_not_grow() -> None:
    scenario = blobs()
    strategy, plan = made("ewc", scenario)
    assert list(strategy.regularizer_state()) == []
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
        ({"decay": 1.5}, "decay is 1.5, expected 0 to 1"),
        ({"decay": 0.5}, "decay is 0.5, which only mode=online uses; leave it out"),
        ({"decay": float("nan")}, "decay is nan"),
        ({"mode": "both"}, "mode is 'both', expected separate or online"),
        ({"labels": "true"}, "labels is 'true', expected sampled or data"),
    ],
)
def test_values_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    base, _ = made("naive", blobs())
    with pytest.raises(InputError, match=message) as caught:
        EWC(base.model, base.optimizer, base.examples, **options)
    assert "\n" not in str(caught.value)
