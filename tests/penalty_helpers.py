"""Plain training with a penalty that autograd differentiates, alongside the real thing."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from perdure.data.examples import Batch, Examples
from perdure.strategies import find_strategy
from perdure.training import build_learner, train

from .strategy_helpers import (
    NORMED,
    blobs,
    differing,
    done,
    everything,
    finish,
    go_on,
    made,
    saving,
    short_config,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from perdure.scenarios import Scenario
    from perdure.strategies import Strategy
    from perdure.training import TrainingPlan

# Networks, optimizers and settings in which a strategy without its term is naive.
PUSHED = {"momentum": "0.9", "weight_decay": "0.01"}
NAIVE: dict[str, dict[str, Any]] = {
    "class-sgd": {"settings": PUSHED},
    "class-adam": {"optimizer": "adam", "settings": {"lr": "0.01", "weight_decay": "0.01"}},
    "task-sgd": {"setting": "task", "settings": PUSHED},
    "task-adam": {"setting": "task", "optimizer": "adam", "settings": {"lr": "0.01"}},
    "normed-sgd": {"model": NORMED, "settings": PUSHED},
    "normed-adam": {"model": NORMED, "optimizer": "adam", "settings": {"weight_decay": "0.01"}},
    "normed-task": {"model": NORMED, "setting": "task", "settings": PUSHED},
}


class Doubled(Examples):
    """Examples in float64."""

    def take_on_device(self, chosen: torch.Tensor, task: int | None = None) -> Batch:
        batch = super().take_on_device(chosen, task)
        return batch._replace(x=batch.x.double())


def doubled(name: str, scenario: Scenario, **more: Any) -> tuple[Strategy, TrainingPlan]:
    """Return a learner in float64 and its plan before the first step."""
    what = short_config(name, setting=scenario.setting, **more)
    base, plan = build_learner(what, scenario)
    base.model.double()
    examples = Doubled(
        *scenario.train, mean=scenario.mean, std=scenario.std, heads=scenario.heads is not None
    )
    kind = find_strategy(name)
    return kind(base.model, base.optimizer, examples, seed=what.seed, **what.options), plan


class Plain:
    """The same network, trained on the loss of each batch + factor x a term, by autograd."""

    def __init__(self, strategy: Strategy, factor: float) -> None:
        self.model, self.factor = deepcopy(strategy.model), factor
        self.weights = list(self.model.parameters())
        kind, options = type(strategy.optimizer), dict(strategy.optimizer.param_groups[0])
        known = ("lr", "momentum", "weight_decay")
        self.optimizer = kind(  # one that is not fused
            self.weights, **{k: options[k] for k in known if k in options}
        )
        self.importance: list[list[Tensor]] = []  # of each penalty
        self.anchor: list[list[Tensor]] = []

    def now(self) -> list[Tensor]:
        return [weight.detach().clone() for weight in self.weights]

    def term(self, batch: Batch, rows: Any) -> Tensor:
        """Return the sum of importance x (weight - anchor)^2 over all penalties."""
        total = torch.zeros((), dtype=torch.float64)
        for importance, anchor in zip(self.importance, self.anchor, strict=True):
            for much, weight, old in zip(importance, self.weights, anchor, strict=True):
                total = total + (much * (weight - old) ** 2).sum()
        return total

    def step(self, batch: Batch, rows: Any) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """Return the loss of the batch, its gradient and that of the term; learn from both."""
        loss = cross_entropy(self.model(batch.x, batch.task), batch.y)
        term = self.term(batch, rows)
        found = [self.of(loss), self.of(term) if term.requires_grad else [None] * len(self.weights)]
        self.optimizer.zero_grad()
        whole = loss + self.factor * term
        whole.backward()
        self.before, self.total = self.now(), float(whole.detach())
        self.optimizer.step()
        return loss.detach(), self.zeros(found[0]), self.zeros(found[1])

    def of(self, value: Tensor) -> Sequence[Tensor | None]:
        return torch.autograd.grad(value, self.weights, retain_graph=True, allow_unused=True)

    def zeros(self, gradients: Sequence[Tensor | None]) -> list[Tensor]:
        """Return gradients with 0 where there is none."""
        pairs = zip(self.weights, gradients, strict=True)
        return [torch.zeros_like(w) if g is None else g for w, g in pairs]

    def gradients(
        self, batch: Batch, objective: Callable[[Tensor, Tensor], Tensor]
    ) -> list[list[Tensor]]:
        """Return the gradients of each example's objective."""
        self.model.eval()
        found = []
        for k in range(len(batch.x)):
            of = batch.task[k : k + 1] if isinstance(batch.task, Tensor) else batch.task
            value = objective(self.model(batch.x[k : k + 1], of), batch.y[k : k + 1])
            found.append(self.zeros(self.of(value)))
        self.model.train()
        return found


class Step:
    """What a strategy said of a step, and what the plain one did."""

    def __init__(self, task: int, loss: float, terms: tuple[Any, Any], plain: Any) -> None:
        self.task, self.loss, self.whole = task, loss, float(plain[0])
        self.total = self.whole  # with the term
        self.plasticity, self.stability = terms
        self.wanted: tuple[list[Tensor], list[Tensor]] = plain[1:]


def alongside(
    scenario: Scenario,
    strategy: Strategy,
    plan: TrainingPlan,
    plain: Plain,
    *,
    begin: Callable[[int, Any], None] = lambda task, rows: None,
    after: Callable[[list[Tensor]], None] = lambda gradient: None,
    end: Callable[[int, Any], None] = lambda task, rows: None,
) -> list[Step]:
    """Train both; after every step they have the same weights and the same two gradients."""
    steps: list[Step] = []
    inner = {
        name: getattr(strategy, name) for name in ("begin_task", "select_rows", "step", "end_task")
    }
    at: dict[str, Any] = {}

    def begin_task(task: int, rows: Any) -> Any:
        at["task"] = task
        for number in np.unique(strategy.examples.tasks[rows]).tolist():
            plain.model.open(number, scenario.tasks[number].classes)
        begin(task, rows)
        return inner["begin_task"](task, rows)

    def select_rows(new: Any) -> Any:
        at["rows"] = new
        return inner["select_rows"](new)

    def step(batch: Batch, **_: Any) -> Tensor:
        terms: list[Any] = []
        mine = list(strategy.model.parameters())

        def on_loss_terms(*both: Any) -> None:
            for term in both:
                if isinstance(term, Tensor):
                    found = torch.autograd.grad(term, mine, retain_graph=True, allow_unused=True)
                    terms.append(list(found))
                else:
                    terms.append([each if each is None else each.clone() for each in term])

        loss = inner["step"](batch, on_loss_terms=on_loss_terms)
        wanted = plain.step(batch, at["rows"])
        steps.append(Step(at["task"], float(loss), (terms[0], terms[1]), wanted))
        steps[-1].total = plain.total
        close(terms[0], wanted[1])
        close(terms[1] or [None] * len(mine), wanted[2])
        close([weight.detach() for weight in mine], plain.now())
        after(wanted[1])
        return loss  # type: ignore[no-any-return]

    def end_task(task: int, rows: Any) -> None:
        inner["end_task"](task, rows)
        end(task, rows)

    vars(strategy).update(
        begin_task=begin_task, select_rows=select_rows, step=step, end_task=end_task
    )
    finish(train(scenario, strategy, plan))
    for name in inner:
        del vars(strategy)[name]
    return steps


def close(found: Any, wanted: Any) -> None:
    """Raise unless two lists of tensors are the same but for rounding; None is 0."""
    for a, b in zip(found, wanted, strict=True):
        zero = torch.zeros_like(b)
        torch.testing.assert_close(zero if a is None else a, b, rtol=1e-7, atol=1e-11)


# Laws of every strategy with a term of its own.


def is_naive(name: str, case: str, **without: str) -> None:
    """Raise unless a strategy without its term is naive, bit for bit."""
    more = dict(NAIVE[case])
    settings = more.pop("settings")
    scenario = blobs(setting=more.get("setting", "class"))
    one = everything(done(name, scenario, settings=settings | without, **more))
    other = everything(done("naive", scenario, settings=settings, **more))
    differ = [k for k in differing(one, other) if k.startswith(("/model", "/optimizer", "/random"))]
    assert differ == []
    assert len(one) > len([k for k in other if k.startswith("/optimizer/state/")]) > 0


def goes_on(name: str, folder: Path, **more: Any) -> None:
    """Raise unless a run goes on from every other step of its second task bit for bit."""
    what = short_config(name, **more)
    scenario = blobs(setting=more.get("setting", "class"))
    strategy, plan = build_learner(what, scenario)
    places = finish(saving(scenario, strategy, plan, folder))
    end = everything(strategy)
    middle = [place for place in places if place.phase == 1][::2]
    assert len(middle) >= 3
    for place in middle:
        again, _ = go_on(what, scenario, folder / str(place.step))
        assert differing(end, everything(again)) == [], place


def old_heads_rest(name: str, **more: Any) -> None:
    """Raise unless the heads of other tasks have no gradient and do not move."""
    scenario = blobs(setting="task")
    strategy, plan = made(name, scenario, setting="task", **more)
    heads: Any = strategy.model.head
    before = [[p.detach().clone() for p in head.parameters()] for head in heads]
    moved = 0
    for place in train(scenario, strategy, plan):
        for task, head in enumerate(heads):
            for p, old in zip(head.parameters(), before[task], strict=True):
                if task == place.phase:
                    assert p.grad is not None
                    moved += not torch.equal(p, old)
                    old.copy_(p.detach())
                else:
                    assert p.grad is None
                    assert torch.equal(p, old)
    assert moved > 50


def first_pull(name: str, **more: Any) -> list[list[Any]]:
    """Return the stability gradients of the second task, a list a step."""
    scenario = blobs(setting=more.get("setting", "class"))
    strategy, plan = made(name, scenario, **more)
    found: list[list[Any]] = []
    inner = strategy.step

    def on_loss_terms(_plasticity: Any, stability: Any) -> None:
        found.append([each.clone() for each in stability])

    vars(strategy)["step"] = lambda *batches, **_: inner(*batches, on_loss_terms=on_loss_terms)
    phases = [place.phase for place in train(scenario, strategy, plan)]
    assert all(found[k] == [] for k, phase in enumerate(phases) if phase == 0)
    return [found[k] for k, phase in enumerate(phases) if phase == 1]
