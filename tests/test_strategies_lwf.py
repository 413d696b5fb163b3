"""Learning without forgetting against a frozen copy of the old network that is asked again."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from perdure.data.examples import Batch, Examples
from perdure.models import build
from perdure.record import InputError
from perdure.scenarios import blur_boundaries
from perdure.strategies.lwf import LwF
from perdure.training import train

from .penalty_helpers import NAIVE, PUSHED, Plain, Step, alongside, doubled, goes_on, is_naive
from .strategy_helpers import LINEAR, NORMED, blobs, made

if TYPE_CHECKING:
    from pathlib import Path

    from perdure.scenarios import Scenario

STILL = {"momentum": "0", "weight_decay": "0"}  # a gradient of 0 is then like none


class Taught(Plain):
    """Plain training with a teacher: the network as it was when the task began."""

    teacher: Any = None

    def __init__(self, strategy: LwF, scenario: Scenario) -> None:
        super().__init__(strategy, strategy.alpha)
        self.temperature, self.scenario = strategy.temperature, scenario
        self.examples = strategy.examples
        self.old_rows: list[int] = []

    def begin(self, task: int, rows: Any) -> None:
        if self.old_rows:
            self.teacher = deepcopy(self.model).eval().requires_grad_(requires_grad=False)

    def end(self, task: int, rows: Any) -> None:
        self.old_rows += rows.tolist()

    def groups(self) -> list[tuple[int | None, list[int]]]:
        """Return which classes share a softmax: those of an old head, or all old ones."""
        if self.scenario.heads is None:
            return [(None, np.unique(self.examples.labels[self.old_rows]).tolist())]
        tasks = np.unique(self.examples.tasks[self.old_rows]).tolist()
        return [(task, list(self.scenario.tasks[task].classes)) for task in tasks]

    def term(self, batch: Batch, rows: Any) -> Tensor:
        total = torch.zeros((), dtype=torch.float64)
        if self.teacher is None:
            return total
        before = self.examples.take(rows).x  # by row: what was recorded for it
        assert torch.equal(before, batch.x)
        for task, classes in self.groups():
            old = (self.teacher(before, task)[:, classes] / self.temperature).softmax(1)
            new = (self.model(batch.x, task)[:, classes] / self.temperature).softmax(1)
            total = total + (old * (old.log() - new.log())).sum() / len(rows)
        return total


def compared(scenario: Scenario, **more: Any) -> tuple[LwF, list[Step]]:
    strategy, plan = doubled("lwf", scenario, **more)
    assert isinstance(strategy, LwF)
    plain = Taught(strategy, scenario)
    return strategy, alongside(
        scenario, strategy, plan, plain, begin=plain.begin, end=plain.end
    )  # fmt: skip


def check(steps: list[Step], *, least: float = 1e-3) -> None:
    """Raise unless losses are the whole ones and the old outputs pull, after each first step."""
    first = True
    for before, step in zip([None, *steps], steps, strict=False):
        assert step.loss == pytest.approx(step.total, rel=1e-10)
        first = before is None or before.task != step.task
        if step.task and first:
            assert max(float(g.abs().max()) for g in step.stability if g is not None) < 1e-12
    pulls = [
        max(float(g.abs().max()) for g in step.stability if g is not None)
        for step in steps
        if step.task
    ]
    assert max(pulls) > least


WAYS: dict[str, tuple[Any, dict[str, Any]]] = {
    "class": ("class", {"settings": PUSHED}),
    "masked": ("class", {"mask_unseen": True, "settings": PUSHED}),
    "task": ("task", {"settings": STILL}),
    "task masked": ("task", {"mask_unseen": True, "settings": STILL}),
    "domain": ("domain", {"optimizer": "adam", "settings": {"lr": "0.01"}}),
}


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("way", WAYS)
def test_steps_are_those_with_a_teacher(way: str, temperature: float) -> None:
    """Four tasks, two passes in orders that differ: losses, both gradients, weights."""
    setting, more = WAYS[way]
    options = {"alpha": "0.7", "temperature": str(temperature), **more.get("settings", {})}
    scenario = blobs(4, classes=8, setting=setting)
    _, steps = compared(scenario, **{**more, "settings": options})
    check(steps)


@pytest.mark.parametrize("setting", ["class", "task", "domain"])
def test_blurred_streams(setting: Any) -> None:
    """What was learned before are the classes, or heads, of examples that came before."""
    scenario = blur_boundaries(blobs(4, classes=8, setting=setting), 0.4, seed=1)
    strategy, steps = compared(scenario, settings=STILL)
    check(steps)
    assert len(strategy.recorded) == (4 if setting == "task" else 1)


def test_statistics_of_the_teacher_are_those_of_a_test() -> None:
    """BatchNorm; and recording leaves no trace in the learner."""
    strategy, plan = doubled("lwf", blobs(), model="tests.test_strategies_lwf:normed")
    assert isinstance(strategy, LwF)
    plain = Taught(strategy, blobs())
    plain.term = no_trace(plain)  # type: ignore[method-assign]
    steps = alongside(blobs(), strategy, plan, plain, begin=plain.begin, end=plain.end)
    assert all(step.loss == pytest.approx(step.total, rel=1e-9) for step in steps)
    buffers = zip(strategy.model.buffers(), plain.model.buffers(), strict=True)
    assert all(torch.allclose(a, b) for a, b in buffers)


def normed(shape: tuple[int, int, int], outputs: int) -> nn.Module:
    """Return a network with statistics of batches, without dropout."""
    inputs = int(np.prod(shape))
    return nn.Sequential(
        nn.Flatten(), nn.Linear(inputs, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, outputs)
    )


def no_trace(plain: Taught) -> Any:
    """Return its term in which the learner's second pass does not move running statistics."""

    def term(batch: Batch, rows: Any) -> Tensor:
        before = [buffer.clone() for buffer in plain.model.buffers()]
        found = Taught.term(plain, batch, rows)
        for buffer, value in zip(plain.model.buffers(), before, strict=True):
            buffer.data.copy_(value)  # a graph that waits for backward holds it
        return found

    return term


def test_a_step_by_hand() -> None:
    """Softmax regression, two old classes of three, rows in any order and some of them twice."""
    rng = np.random.default_rng(4)
    x, y = rng.standard_normal((12, 5)), np.array([0, 1] * 3 + [2] * 6)
    examples = Examples(
        np.zeros((12, 1, 1, 5), np.uint8), y, y // 2, mean=[(0.0,)], std=[(1.0,)]
    )  # fmt: skip

    def take(rows: Any, task: Any = None) -> Batch:
        return Batch(torch.tensor(x[rows]), torch.tensor(y[rows]), None, torch.tensor(rows))

    vars(examples)["take"] = take
    model = build(LINEAR, (1, 1, 5), 3).double()
    lwf = LwF(model, torch.optim.SGD(model.parameters(), lr=0.3), examples, alpha=0.6)
    first, second = np.arange(6), np.arange(6, 12)
    lwf.begin_task(0, first)
    for batch in (first, first[::-1].copy()):
        lwf.step(take(*lwf.select_rows(batch)))
    lwf.end_task(0, first)
    weight, bias = (p.detach().clone().numpy() for p in model.parameters())
    w, ones = np.c_[weight, bias], np.c_[x, np.ones(12)]

    def softmax(scores: Any) -> Any:
        return np.exp(scores) / np.exp(scores).sum(1, keepdims=True)

    old = softmax(ones @ w[:2].T / 2)
    lwf.begin_task(1, second)
    for rows in ([11, 6, 8], [7, 7, 9, 10, 7], [6], [11, 10, 9, 8, 7, 6], [8, 6]):
        p, q = softmax(ones[rows] @ w.T), softmax(ones[rows] @ w[:2].T / 2)
        apart = (old[rows] * np.log(old[rows] / q)).sum(1).mean()
        loss = -np.log(p[:, 2]).mean() + 0.6 * apart
        gradient = (p - np.eye(3)[2]).T @ ones[rows] / len(rows)
        gradient[:2] += 0.6 * ((q - old[rows]) / 2).T @ ones[rows] / len(rows)
        assert float(lwf.step(take(*lwf.select_rows(np.array(rows))))) == pytest.approx(
            loss, rel=1e-11
        )
        w = w - 0.3 * gradient
        found = [p.detach().numpy() for p in model.parameters()]
        np.testing.assert_allclose(np.c_[found[0], found[1]], w, rtol=1e-11, atol=1e-13)
    assert apart > 1e-4


# Known limits.


@pytest.mark.parametrize("case", NAIVE)
def test_without_alpha_it_is_naive(case: str) -> None:
    is_naive("lwf", case, alpha="0")


@pytest.mark.parametrize("setting", ["class", "task", "domain"])
def test_copies_are_the_outputs_recorded_for_a_task(setting: Any) -> None:
    """Nothing in the first task; then 4 bytes for each row and old class, and no network."""
    scenario = blobs(setting=setting)
    strategy, plan = made("lwf", scenario, setting=setting)
    rows = [len(task.train) for task in scenario.tasks]
    classes = [0, 2, 2] if setting == "domain" else [0, 2, 4]
    for place in train(scenario, strategy, plan):
        wanted = 4 * rows[place.phase] * classes[place.phase]
        assert sum(each.nbytes for each in strategy.auxiliary_tensors()) == wanted
        assert len(strategy.auxiliary_tensors()) == min(
            place.phase, place.phase if setting == "task" else 1
        )
        assert list(strategy.regularizer_state()) == []
        assert len(strategy.memory_rows()) == 0


@pytest.mark.parametrize(
    "more",
    [{"settings": PUSHED}, {"model": NORMED, "setting": "task", "optimizer": "adam"}],
)
def test_going_on_in_the_second_task(more: Any, tmp_path: Path) -> None:
    goes_on("lwf", tmp_path, **more)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": -1.0}, "alpha is -1, expected 0 or more"),
        ({"alpha": 10**400}, "alpha is 10+, expected 0 or more and a finite number"),
        ({"alpha": float("nan")}, "alpha is nan"),
        ({"alpha": float("inf")}, "alpha is inf, expected 0 or more and a finite number"),
        ({"temperature": 0.0}, "temperature is 0, expected more than 0"),
        ({"temperature": -2.0}, "temperature is -2"),
        ({"temperature": float("nan")}, "temperature is nan"),
    ],
)
def test_values_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    base, _ = made("naive", blobs())
    with pytest.raises(InputError, match=message) as caught:
        LwF(base.model, base.optimizer, base.examples, **options)
    assert "\n" not in str(caught.value)
