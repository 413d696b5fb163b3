"""Memory aware synapses against sensitivities taken one example at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from perdure.data.examples import Batch, Examples
from perdure.models import build
from perdure.record import InputError
from perdure.scenarios import blur_boundaries
from perdure.strategies.mas import MAS
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

    from perdure.scenarios import Scenario

STILL = {"momentum": "0", "weight_decay": "0"}  # a gradient of 0 is then like none
WAYS: dict[str, tuple[Any, dict[str, Any]]] = {
    "momentum": ("class", {"settings": PUSHED}),
    "adam": ("class", {"optimizer": "adam", "settings": {"lr": "0.01"}}),
    "masked": ("class", {"mask_unseen": True}),
    "task": ("task", {"settings": STILL}),
    "task masked": ("task", {"settings": STILL, "mask_unseen": True}),
    "domain": ("domain", {"settings": PUSHED}),
}


def compared(scenario: Scenario, **more: Any) -> tuple[MAS, list[Step]]:
    """Train next to importances from single examples: summed, or mixed with alpha."""
    strategy, plan = doubled("mas", scenario, **more)
    assert isinstance(strategy, MAS)
    plain, alpha = Plain(strategy, strategy.strength), strategy.alpha

    def length(scores: Tensor, y: Tensor) -> Tensor:
        seen = scores[0] > -32768  # those of other heads and hidden classes are no scores
        return (scores[0][seen] ** 2).sum()

    def end(task: int, rows: Any) -> None:
        each = plain.gradients(strategy.examples.take(rows), length)
        new = [torch.stack(of).abs().mean(0) for of in zip(*each, strict=True)]
        if plain.importance:
            weights = (1.0, 1.0) if alpha is None else (alpha, 1 - alpha)
            pairs = zip(plain.importance[0], new, strict=True)
            new = [weights[0] * a + weights[1] * b for a, b in pairs]
        plain.importance, plain.anchor = [new], [plain.now()]
        close(strategy.importance, new)
        close(strategy.anchor, plain.now())

    return strategy, alongside(scenario, strategy, plan, plain, end=end)


@pytest.mark.parametrize("way", WAYS)
def test_importances_are_added_up(way: str) -> None:
    """Over three tasks, and every step follows the whole loss."""
    setting, more = WAYS[way]
    more = {**more, "settings": {**more.get("settings", {}), "strength": "0.05"}}
    _, steps = compared(blobs(setting=setting), **more)
    for step in steps:
        assert step.loss == pytest.approx(step.whole, rel=1e-10)
    pulls = [max(float(each.abs().max()) for each in s.stability) for s in steps if s.task > 0]
    assert max(pulls) > 1e-2


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("setting", ["class", "task"])
def test_importances_are_mixed(setting: Any, alpha: float) -> None:
    options = {"strength": "0.05", "alpha": str(alpha), **STILL}
    strategy, _ = compared(blobs(setting=setting), settings=options)
    heads: Any = strategy.model.head
    if setting == "task":
        last = [k for k, p in enumerate(strategy.model.parameters()) if p is heads[2].weight]
        assert bool((strategy.importance[last[0]] > 0).any()) == (alpha < 1)


def test_a_blurred_stream_of_heads() -> None:
    """The scores of an example are those of its own head."""
    scenario = blur_boundaries(blobs(setting="task"), 0.5, seed=1)
    compared(scenario, settings={"strength": "0.05", **STILL})


def test_steps_by_hand() -> None:
    """A linear map: the gradient of |W x + b|^2 is 2 (W x + b) x^T, that of b without x."""
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
    mas = MAS(model, optimizer, examples, strength=0.5)
    weight, bias = (p.detach().clone().numpy() for p in model.parameters())
    w, ones, hot = np.c_[weight, bias], np.c_[x, np.ones(12)], np.eye(3)[y]
    omega, anchor = np.zeros_like(w), np.zeros_like(w)
    for task, rows in enumerate((np.arange(5), np.arange(5, 8), np.arange(8, 12))):
        for _ in range(3):
            shares = np.exp(ones[rows] @ w.T)
            shares /= shares.sum(1, keepdims=True)
            loss = -np.log(shares[np.arange(len(rows)), y[rows]]).mean()
            assert float(mas.step(take(rows))) == pytest.approx(loss, rel=1e-12)
            gradient = (shares - hot[rows]).T @ ones[rows] / len(rows)
            w = w - 0.1 * (gradient + 0.5 * 2 * omega * (w - anchor))
        mas.end_task(task, rows)
        outer = np.einsum("nc,nj->ncj", ones[rows] @ w.T, ones[rows])
        omega, anchor = omega + np.abs(2 * outer).mean(0), w
        kept = [each.numpy() for each in mas.regularizer_state()]
        np.testing.assert_allclose(np.c_[kept[0], kept[1]], omega, rtol=1e-11)
        np.testing.assert_allclose(np.c_[kept[2], kept[3]], anchor, rtol=1e-11)


def test_labels_do_not_matter_for_importance() -> None:
    scenario = blobs()
    strategy, _ = made("mas", scenario)
    found = []
    for turn in range(2):
        mas = MAS(strategy.model, strategy.optimizer, strategy.examples)
        strategy.examples._y[:] = turn
        mas.end_task(0, scenario.tasks[0].train)
        found.append(torch.cat([each.flatten() for each in mas.regularizer_state()]))
    assert torch.equal(*found)


# Known limits.


@pytest.mark.parametrize("case", NAIVE)
def test_without_strength_it_is_naive(case: str) -> None:
    is_naive("mas", case, strength="0", alpha="0.5" if "task" in case else "none")


@pytest.mark.parametrize("setting", ["class", "task"])
@pytest.mark.parametrize("model", ["mlp", NORMED])
def test_nothing_pulls_where_the_old_task_ended(setting: Any, model: str) -> None:
    first, *rest = first_pull("mas", setting=setting, model=model)
    assert len(first) > 0
    assert all(bool((each == 0).all()) for each in first)
    assert all(any(bool((each != 0).any()) for each in pull) for pull in rest)


def test_heads_of_other_tasks_rest() -> None:
    old_heads_rest("mas", settings={"weight_decay": "0.1"})


@pytest.mark.parametrize(
    "more",
    [
        {"settings": {**PUSHED, "alpha": "0.5"}},
        {"model": NORMED, "setting": "task", "optimizer": "adam"},
    ],
)
def test_going_on_in_the_second_task(more: Any, tmp_path: Path) -> None:
    goes_on("mas", tmp_path, **more)


def test_what_is_kept_does_not_grow() -> None:
    scenario = blobs()
    strategy, plan = made("mas", scenario)
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
        ({"alpha": 1.5}, "alpha is 1.5, expected 0 to 1"),
        ({"alpha": -0.5}, "alpha is -0.5"),
        ({"alpha": float("nan")}, "alpha is nan"),
    ],
)
def test_values_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    base, _ = made("naive", blobs())
    with pytest.raises(InputError, match=message) as caught:
        MAS(base.model, base.optimizer, base.examples, **options)
    assert "\n" not in str(caught.value)
