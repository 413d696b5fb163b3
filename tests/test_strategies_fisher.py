"""Fisher matrices of softmax regression against formulas, and the labels that are drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from torch import Tensor

from perdure.data.examples import Examples
from perdure.models import Network, build
from perdure.strategies.ewc import EWC, fisher_diagonal

from .strategy_helpers import LINEAR, blobs, differing, everything, made

if TYPE_CHECKING:
    from numpy.typing import NDArray


def regression(
    rows: int = 700, *, heads: bool = False, opened: int = 4
) -> tuple[Network, Examples, Any, Any]:
    """Return a model, examples over two portions, their pixels and the model's predictions."""
    rng = np.random.default_rng(1)
    x = rng.integers(0, 256, (rows, 1, 1, 5), dtype=np.uint8)
    y = rng.integers(0, 2, rows)
    examples = Examples(
        x, y, np.zeros(rows, np.int64), mean=[(0.4,)], std=[(0.2,)], heads=heads
    )  # fmt: skip
    torch.manual_seed(0)
    model = build(LINEAR, (1, 1, 5), 4, heads=[2, 2] if heads else None, mask_unseen=opened < 4)
    model.open(0, range(opened if not heads else 2))
    batch = examples.take(np.arange(rows), 0)
    with torch.no_grad():
        chances = model(batch.x, batch.task).double().softmax(1).numpy()
    return model, examples, batch.x.flatten(1).double().numpy(), chances


def entries(found: list[Tensor]) -> NDArray[np.float64]:
    """Return weights and biases as one table, a row a class."""
    weight, bias = torch.cat(found[::2]), torch.cat(found[1::2])
    return torch.cat([weight, bias[:, None]], 1).double().numpy()


@pytest.mark.parametrize("heads", [False, True])
def test_fisher_of_given_labels(heads: bool) -> None:
    """Mean of (p - y)^2 x^2."""
    model, examples, x, p = regression(heads=heads)
    found = entries(fisher_diagonal(model, examples, np.arange(700), None))
    miss = (p - np.eye(4)[examples.labels]) ** 2
    wanted = miss.T @ np.c_[x, np.ones(700)] ** 2 / 700
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=1e-9)
    some = np.arange(0, 700, 9)
    part = entries(fisher_diagonal(model, examples, some, None))
    wanted = miss[some].T @ np.c_[x, np.ones(700)][some] ** 2 / len(some)
    np.testing.assert_allclose(part, wanted, rtol=2e-5, atol=1e-9)


@pytest.mark.parametrize(("heads", "opened"), [(False, 4), (False, 3), (True, 2)])
def test_fisher_of_drawn_labels_is_right_on_average(heads: bool, opened: int) -> None:
    """Sum over c of p_c (p - e_c)^2 x^2, within what 15 draws of 700 labels allow."""
    model, examples, x, p = regression(heads=heads, opened=opened)
    times, squares = 15, np.c_[x, np.ones(700)] ** 2
    draws = np.random.default_rng(8)
    found = np.mean(
        [entries(fisher_diagonal(model, examples, np.arange(700), draws)) for _ in range(times)], 0
    )
    miss = (p[:, None, :] - np.eye(4)) ** 2  # of each label that may be drawn
    mean = np.einsum("nc,ncj->nj", p, miss)
    spread = np.einsum("nc,ncj->nj", p, miss**2) - mean**2
    wanted, error = mean.T @ squares / 700, np.sqrt(spread.T @ squares**2 / 700**2 / times)
    assert (found[opened:] == 0).all()
    far = np.abs(found - wanted)[:opened] / error[:opened]
    assert far.max() < 4.5
    assert (error < 0.04 * wanted)[:opened].all()  # which is little


class Dice:
    """Always throws the same."""

    def __init__(self, value: float) -> None:
        self.value = value

    def random(self, size: tuple[int, ...]) -> NDArray[np.float64]:
        return np.full(size, self.value)


@pytest.mark.parametrize(("value", "label"), [(0.0, 2), (1 - 2.0**-53, 3)])
def test_hidden_classes_are_never_drawn(value: float, label: int) -> None:
    """Not even with the lowest or the highest number that a generator draws."""
    model, examples, x, _ = regression(heads=True)
    model.open(1, [2, 3])
    examples.tasks[:] = 1
    examples._task[:] = 1
    batch = examples.take(np.arange(700), 1)
    with torch.no_grad():
        p = model(batch.x, 1).double().softmax(1).numpy()
    dice: Any = Dice(value)
    found = entries(fisher_diagonal(model, examples, np.arange(700), dice))
    wanted = ((p - np.eye(4)[label]) ** 2).T @ np.c_[x, np.ones(700)] ** 2 / 700
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=1e-9)


def test_one_open_class_leaves_nothing_to_learn() -> None:
    model, examples, _, p = regression(opened=1)
    assert (p[:, 0] == 1).all()
    found = fisher_diagonal(model, examples, np.arange(700), np.random.default_rng(0))
    assert all(bool((each == 0).all()) for each in found)


def test_what_is_drawn_depends_on_seed_and_task_alone() -> None:
    scenario = blobs()
    found = []
    for seed, task, noise in ((1, 0, 5), (1, 0, 6), (2, 0, 5), (1, 1, 5)):
        strategy, _ = made("naive", scenario)
        ewc = EWC(strategy.model, strategy.optimizer, strategy.examples, seed=seed)
        torch.manual_seed(noise)
        before = everything(strategy)
        ewc.end_task(task, scenario.tasks[0].train)
        assert differing(before, everything(strategy)) == []
        found.append(torch.cat([each.flatten() for each in ewc.importance]))
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])
    assert not torch.equal(found[0], found[3])
