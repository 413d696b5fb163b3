"""Replay against updates computed by hand, and its memory against brute force and chi-square."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from perdure.data.examples import Batch, Examples
from perdure.models import build
from perdure.record import InputError
from perdure.strategies.replay import Replay
from perdure.training import train

from .strategy_helpers import (
    LINEAR,
    NORMED,
    Chosen,
    blobs,
    differing,
    done,
    everything,
    finish,
    made,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Rows = NDArray[np.int64]
    Reals = NDArray[np.float64]

SEEDS = range(400)
RARE = 1e-4  # how unlikely a draw may be: the seeds are fixed, so this is decided once


def small(labels: Rows, tasks: Rows | None = None, **options: Any) -> Replay:
    """Return a replay over one-pixel images with these labels."""
    x = np.zeros((len(labels), 1, 1, 1), dtype=np.uint8)
    tasks = np.zeros_like(labels) if tasks is None else tasks
    examples = Examples(x, labels, tasks, mean=[(0.0,)], std=[(1.0,)])
    model = build(LINEAR, (1, 1, 1), int(labels.max()) + 1)
    return Replay(model, torch.optim.SGD(model.parameters(), lr=0.1), examples, **options)


# The update.


class ByHand:
    """Softmax regression in float64: loss, gradient and SGD with momentum, written out."""

    def __init__(self, weight: Reals, bias: Reals, lr: float, momentum: float) -> None:
        self.weight, self.bias, self.lr, self.momentum = weight.copy(), bias.copy(), lr, momentum
        self.speed: tuple[Reals, Reals] | None = None

    def of(self, x: Reals, y: Rows) -> tuple[Any, Any, Any]:
        """Return the mean loss of a batch and its gradients."""
        scores = x @ self.weight.T + self.bias
        shares = np.exp(scores - scores.max(1, keepdims=True))
        shares /= shares.sum(1, keepdims=True)
        loss = -np.log(shares[np.arange(len(y)), y]).mean()
        shares[np.arange(len(y)), y] -= 1
        return float(loss), shares.T @ x / len(y), shares.mean(0)

    def move(self, weight: Reals, bias: Reals) -> None:
        if self.speed is None:
            self.speed = (weight, bias)
        else:
            self.speed = (
                self.momentum * self.speed[0] + weight,
                self.momentum * self.speed[1] + bias,
            )
        self.weight -= self.lr * self.speed[0]
        self.bias -= self.lr * self.speed[1]


def doubled(strategy: Replay, rows: Rows, x: Reals) -> Batch:
    return Batch(torch.tensor(x[rows]), torch.tensor(strategy.examples.labels[rows]))


@pytest.mark.parametrize("alpha", [None, 0.0, 0.3, 1.0])
@pytest.mark.parametrize("fill", ["end", "reservoir"])
def test_updates_are_those_of_equation_8(alpha: float | None, fill: Any) -> None:
    """Two tasks, 24 steps, in float64: losses, the two terms and weights as computed by hand."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(4), 12)
    x = rng.standard_normal((48, 5)) + 2 * np.eye(4, 5)[labels]
    model = build(LINEAR, (1, 1, 5), 4).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    examples = Examples(
        np.zeros((48, 1, 1, 5), np.uint8), labels, labels // 2, mean=[(0.0,)], std=[(1.0,)]
    )
    strategy = Replay(model, optimizer, examples, memory=6, alpha=alpha, fill=fill, replay_batch=5)
    weight, bias = (p.detach().numpy() for p in model.parameters())
    hand = ByHand(weight, bias, 0.1, 0.9)
    steps = 0
    for task in (0, 1):
        rows = strategy.begin_task(task, np.flatnonzero(labels // 2 == task))
        for _ in range(3):
            for new in np.split(rng.permutation(rows), 4):
                parts = strategy.select_rows(new)
                seen: list[Any] = []

                def on_loss_terms(*terms: Any, seen: list[Any] = seen) -> None:
                    seen.extend(terms)

                loss = strategy.step(
                    *(doubled(strategy, each, x) for each in parts),
                    on_loss_terms=on_loss_terms,
                )
                pull = hand.of(x[new], labels[new])
                assert float(seen[0].detach()) == pytest.approx(pull[0], rel=1e-10)
                if len(parts) > 1:
                    hold = hand.of(x[parts[1]], labels[parts[1]])
                    assert float(seen[1].detach()) == pytest.approx(hold[0], rel=1e-10)
                    a = 6 / 11 if alpha is None and len(parts[1]) == 5 else alpha
                    assert a is not None
                    want = [a * p + (1 - a) * h for p, h in zip(pull, hold, strict=True)]
                else:
                    assert list(seen[1]) == []
                    want = [(1 if alpha is None else alpha) * p for p in pull]
                assert float(loss) == pytest.approx(want[0], rel=1e-10, abs=1e-12)
                hand.move(want[1], want[2])
                steps += len(parts) > 1
        strategy.end_task(task, rows)
    assert steps == {"end": 12, "reservoir": 23}[fill]  # alpha weighs the first task's steps too
    got_weight, got_bias = (p.detach().numpy() for p in model.parameters())
    np.testing.assert_allclose(got_weight, hand.weight, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(got_bias, hand.bias, rtol=1e-9, atol=1e-12)


def test_alpha_none_is_one_mean_over_new_and_old() -> None:
    """As if both were one batch, whatever their sizes."""
    strategy = small(np.repeat(np.arange(3), 5), memory=9, alpha=None, replay_batch=2)
    weights = {k: v.clone() for k, v in strategy.model.state_dict().items()}
    new, old = np.array([1, 6, 11, 2, 8]), np.array([3, 14])
    loss = strategy.step(strategy.examples.take(new), strategy.examples.take(old))
    after = {k: v.clone() for k, v in strategy.model.state_dict().items()}
    strategy.model.load_state_dict(weights)
    together = strategy.step(strategy.examples.take(np.concatenate([new, old])))
    assert float(loss) == pytest.approx(float(together), rel=1e-6)
    for name, value in strategy.model.state_dict().items():
        np.testing.assert_allclose(value.numpy(), after[name].numpy(), rtol=1e-5, atol=1e-7)


def test_gradients_of_the_two_terms_are_those_of_two_losses() -> None:
    """Unweighted: against a second network that is given each batch alone."""
    scenario = blobs()
    strategy, plan = made("replay", scenario, settings={"alpha": "0.9"})
    twin, _ = made("replay", scenario)
    seen = 0
    chosen = Chosen(strategy)
    step = strategy.step

    def watched(*batches: Batch, **_: Any) -> torch.Tensor:
        twin.model.load_state_dict(strategy.model.state_dict())

        def on_loss_terms(*terms: Any) -> None:
            nonlocal seen
            assert len(batches) == (2 if isinstance(terms[1], torch.Tensor) else 1)
            for term, batch in zip(terms, batches, strict=False):
                found = torch.autograd.grad(
                    term, list(strategy.model.parameters()), retain_graph=True
                )
                alone = torch.nn.functional.cross_entropy(twin.model(batch.x), batch.y)
                wanted = torch.autograd.grad(alone, list(twin.model.parameters()))
                for a, b in zip(found, wanted, strict=True):
                    torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)
                    seen += 1

        return step(*batches, on_loss_terms=on_loss_terms)

    vars(strategy)["step"] = watched
    places = finish(train(scenario, strategy, plan))
    both = sum(len(others) for others in chosen.others)
    assert both == 20  # all steps of the second and the third task
    assert seen == 4 * (len(places) + both)


# Known limits.


@pytest.mark.parametrize("model", ["mlp", NORMED])
@pytest.mark.parametrize("fill", ["end", "reservoir"])
def test_without_a_memory_it_is_naive(model: str, fill: str) -> None:
    options = {"memory": "0", "alpha": "1", "fill": fill}
    scenario = blobs()
    one = everything(done("replay", scenario, model=model, settings=options))
    other = everything(done("naive", scenario, model=model))
    differ = differing(one, other)
    assert [k for k in differ if k.startswith(("/model", "/optimizer", "/random"))] == []


@pytest.mark.parametrize("balance", ["class", "task", "none"])
@pytest.mark.parametrize("fill", ["end", "reservoir"])
def test_an_endless_memory_holds_what_cumulative_trains_on(balance: str, fill: str) -> None:
    scenario = blobs(each=[5, 30, 17, 17, 9, 21])
    options = {"memory": "100000", "balance": balance, "fill": fill}
    replay, plan = made("replay", scenario, settings=options)
    cumulative, _ = made("cumulative", scenario)
    steps = (train(scenario, replay, plan), train(scenario, cumulative, plan))
    held: dict[int, set[int]] = {}
    learned: dict[int, set[int]] = {}
    for place in steps[0]:
        held[place.phase] = set(replay.memory_rows().tolist())
    held[len(scenario.tasks)] = set(replay.memory_rows().tolist())
    for place in steps[1]:
        assert place.rows is not None
        learned[place.phase] = set(place.rows.tolist())
    for k in range(3):  # at the end of a task: what the next one begins with
        if fill == "end":
            assert held[k + 1] == learned[k]
        else:
            assert held[k] == learned[k]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"memory": -1}, "memory is -1"),
        ({"alpha": 1.5}, "alpha is 1.5"),
        ({"alpha": -0.1}, "alpha is -0.1"),
        ({"alpha": float("nan")}, "alpha is nan"),
        ({"replay_batch": -2}, "replay_batch is -2"),
        ({"fill": "sometimes"}, "fill is 'sometimes'"),
        ({"balance": "classes"}, "balance is 'classes'"),
    ],
)
def test_values_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        small(np.zeros(3, dtype=np.int64), **options)
