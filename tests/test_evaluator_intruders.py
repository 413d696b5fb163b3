"""Scores, data and models that reach for what is not theirs: training never notices."""

from __future__ import annotations

import random
import warnings
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - as everyone writes it
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack
from torch.utils.data import DataLoader, Dataset

import perdure

from .evaluator_loops import (
    CLASSES,
    ROWS,
    SETTINGS,
    WORKER,
    alone,
    changed,
    data,
    right,
    train,
    watched,
)
from .evaluator_models import MODELS, Body, frozen_norm, mlp, normed

if TYPE_CHECKING:
    from collections.abc import Callable

PLACES = pytest.mark.parametrize("place", [{}, WORKER], ids=["inline", "worker"])


def noise() -> float:
    """Return a number that Python, NumPy and PyTorch draw together."""
    return random.random() + float(np.random.rand()) + float(torch.rand(()))  # noqa: NPY002


def draws(model: Any, x: Tensor, y: Tensor) -> Tensor:
    return right(model, x, y) * noise()


def reseeds(model: Any, x: Tensor, y: Tensor) -> Tensor:
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002
    return right(model, x, y)


def trains(model: Any, x: Tensor, y: Tensor) -> Tensor:
    model.train()  # dropout at test time, say
    return right(model, x, y)


def evaluates(model: Any, x: Tensor, y: Tensor) -> Tensor:
    return right(model.eval(), x, y)


def freezes(model: Any, x: Tensor, y: Tensor) -> Tensor:
    return right(model.requires_grad_(requires_grad=False), x, y)


def attacks(model: Any, x: Tensor, y: Tensor) -> Tensor:
    with torch.enable_grad():
        moved = x.clone().requires_grad_()
        F.cross_entropy(model(moved), y).backward()
    assert moved.grad is not None
    return right(model, x + 0.1 * moved.grad.sign(), y)


def switches(model: Any, x: Tensor, y: Tensor) -> Tensor:
    torch.set_grad_enabled(mode=True)
    with torch.autocast("cpu", torch.bfloat16):
        return right(model, x, y)


SCORES = {f.__name__: f for f in (draws, reseeds, trains, evaluates, freezes, attacks, switches)}


@PLACES
@pytest.mark.parametrize(
    ("make", "accumulate"),
    [(normed, 1), (frozen_norm, 3)],
    ids=["norm", "frozen norm, accumulated"],
)
@pytest.mark.parametrize("score", SCORES)
def test_whatever_a_score_does(
    score: str, make: Callable[[], nn.Module], accumulate: int, place: dict[str, Any]
) -> None:
    found = watched(make, {"score": SCORES[score], **place}, accumulate=accumulate)
    assert not changed(found, alone(make, accumulate=accumulate))


@PLACES
def test_a_score_sees_a_model_at_rest(place: dict[str, Any]) -> None:
    """In evaluation mode as a whole, without gradients, autocast or a gradient of before."""

    def at_rest(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        assert not any(module.training for module in model.modules())
        assert not torch.is_grad_enabled()
        assert not torch.is_autocast_enabled("cpu")
        assert all(parameter.grad is None for parameter in model.parameters())
        return right(model, x, y)

    half = partial(torch.autocast, "cpu", torch.bfloat16)
    found = watched(normed, {"score": at_rest, **place}, around=half, accumulate=3)
    assert not changed(found, alone(normed, around=half, accumulate=3))


class Forgiving(perdure.Evaluator):
    """Lets a loop go on when a score fails."""

    caught = 0

    def step(self, model: Any, *, replayed: bool = False) -> None:
        for call in (partial(super().step, model, replayed=replayed), self.flush):
            try:
                call()
            except ZeroDivisionError:
                self.caught += 1


def counted(make: Callable[[], nn.Module]) -> nn.Module:
    """Return a model that carries the number of the step, also into the snapshots of a worker."""
    model = make()
    model.register_buffer("steps", torch.zeros((), dtype=torch.int64))
    return model


def count(model: Any, step: int) -> None:
    model.steps.fill_(step)


@PLACES
@pytest.mark.parametrize("model", ["batch norm", "frozen batch norm", "counting", "noisy"])
def test_a_score_that_raises_leaves_everything_as_it_was(model: str, place: dict[str, Any]) -> None:
    def raises(model: Any, x: Tensor, y: Tensor) -> Tensor:
        trains(model, x, y)
        if len(x) < ROWS and int(model.steps) % 2:  # the trainer meets the error of a worker again
            raise ZeroDivisionError
        return draws(model, x, y)

    make = partial(counted, MODELS[model])
    watcher = Forgiving(data(), score=raises, subset=7, initial="none", count_flops=False, **place)
    with watcher:
        found = train(make, watcher, change=count)
    assert watcher.caught == 4  # of eight steps
    assert not changed(found, alone(make, change=count))


class Drawing(Dataset[tuple[Tensor, int]]):
    """A set that draws from every global generator for each example, as augmentations do."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        self.x, self.y = x, y

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, k: int) -> tuple[Tensor, int]:
        return self.x[k] + noise(), int(self.y[k])


@pytest.mark.parametrize("given", [ROWS, None])
@pytest.mark.parametrize("setting", ["every step", "worker", "all before", "resampled"])
def test_evaluation_data_may_draw(setting: str, given: int | None) -> None:
    tasks = {name: Drawing(*pair) for name, pair in data().items()}
    found = watched(normed, {"tasks": tasks, **SETTINGS[setting]}, train_data=given)
    assert not changed(found, alone(normed))


@pytest.mark.parametrize("setting", ["every step", "all before"])
def test_a_function_that_returns_evaluation_data_may_draw(setting: str) -> None:
    def opened(x: Tensor, y: Tensor) -> Callable[[], tuple[Tensor, Tensor]]:
        return lambda: (x + noise(), y)

    tasks = {name: opened(*pair) for name, pair in data().items()}
    found = watched(normed, {"tasks": tasks, **SETTINGS[setting]}, train_data=ROWS)
    assert not changed(found, alone(normed))


@pytest.mark.parametrize("wrap", [lambda d: d, DataLoader], ids=["set", "loader"])
def test_training_data_given_for_the_costs_may_draw(wrap: Callable[[Any], Any]) -> None:
    found = watched(normed, {}, train_data=wrap(Drawing(*data()["a"])))
    assert not changed(found, alone(normed))


def test_counting_a_pass_leaves_every_gradient_alone() -> None:
    head, model = nn.Linear(CLASSES, CLASSES), mlp()
    with (
        perdure.Evaluator(data(), forward=lambda model, x: head(model(x))) as evaluator,
        evaluator.task("a", model, train_data=ROWS),
        torch.no_grad(),
    ):
        model(data()["a"][0])
        evaluator.step(model)
    assert [p.grad for p in (*model.parameters(), *head.parameters())] == [None] * 6


class InPlace(Body):
    """Works in place on what it is given."""

    def forward(self, x: Tensor) -> Any:
        return self.body(x.mul_(0.5))


@pytest.mark.parametrize("setting", ["every step", "worker, one slot", "all before", "none before"])
def test_evaluation_data_stays_as_it_was(setting: str) -> None:
    tasks, fresh = data(), data()
    found = watched(InPlace, {"tasks": tasks, **SETTINGS[setting]}, tasks=tasks, train_data=ROWS)
    assert all(torch.equal(tasks[name][0], fresh[name][0]) for name in tasks)
    assert not changed(found, alone(InPlace))


class Casting(Body):
    """Insists on single precision."""

    def forward(self, x: Tensor) -> Any:
        return self.body(x.float())


@pytest.mark.parametrize("setting", ["half precision", "half precision in a worker"])
def test_a_model_that_cannot_run_in_half_precision_is_trained_on(setting: str) -> None:
    assert not changed(watched(Casting, SETTINGS[setting]), alone(Casting))


@pytest.mark.filterwarnings("ignore:Lazy modules are a new feature")
def test_parameters_that_do_not_exist_yet_are_drawn_as_ever() -> None:
    def lazy() -> nn.Module:
        return nn.Sequential(nn.LazyLinear(8), nn.ReLU(), nn.LazyLinear(CLASSES))

    assert not changed(watched(lazy, {}), alone(lazy))


class Mode(TorchDispatchMode):
    """Counts operations, as a profiler of the user's own."""

    seen = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen += 1
        return func(*args, **(kwargs or {}))


def test_a_dispatch_mode_of_the_users_own_stays_where_it_is() -> None:
    model, seen = mlp(), []
    mode = Mode()  # type: ignore[no-untyped-call]
    x, y = data()["a"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", perdure.EvaluationWarning)
        with perdure.Evaluator(data()) as evaluator, evaluator.task("a", model), mode:
            for _ in range(3):
                mode.seen = 0
                F.cross_entropy(model(x), y).backward()
                seen.append(mode.seen)
                evaluator.step(model)
                assert mode in _get_current_dispatch_mode_stack()
    assert seen[0] > 0
    assert seen == [seen[0]] * 3


class Scaled(Body):
    """Takes its input in parts, and moves a buffer."""

    def forward(self, x: Tensor, scale: float | Tensor = 1.0) -> Any:
        self.seen += x.detach().mean(0)
        return self.body(x * scale)


@pytest.mark.parametrize("wrap", [lambda x, k: (x, k), lambda x, k: {"x": x, "scale": k}])
def test_inputs_may_have_parts(wrap: Callable[[Tensor, Tensor], Any]) -> None:
    tasks = {name: (wrap(x, torch.ones(len(x), 1)), y) for name, (x, y) in data().items()}
    assert not changed(watched(Scaled, {"tasks": tasks}, train_data=ROWS), alone(Scaled))
