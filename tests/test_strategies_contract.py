"""What a strategy of one's own returns is judged at once, in one line that names it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from perdure.record import InputError
from perdure.strategies import STRATEGIES, find_strategy
from perdure.training import DivergedError, make_config, train
from perdure.training.config_checks import outline_strategy

from .cli_helpers import start
from .strategy_helpers import blobs, made

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from torch import Tensor

REFUSED: dict[str, tuple[Callable[[Tensor], Any], str]] = {
    "nothing": (lambda loss: None, "None"),
    "text": (lambda loss: "fine", "'fine'"),
    "a list": (lambda loss: [1.0], "[1.0]"),
    "a pair": (lambda loss: (1.0, 2.0), "(1.0, 2.0)"),
    "several": (lambda loss: loss.repeat(3), "a float32 tensor of shape (3,)"),
    "none at all": (lambda loss: loss.repeat(0), "a float32 tensor of shape (0,)"),
    "a bool": (lambda loss: True, "True"),
    "a tensor of bools": (lambda loss: loss > 0, "a bool tensor of shape ()"),
    "complex": (lambda loss: loss + 0j, "a complex64 tensor of shape ()"),
    "an array": (lambda loss: np.zeros(3), "array([0., 0., 0.])"),
    "many lines": (lambda loss: [np.eye(3)], "[array([[1., 0., 0.], [0., 1., 0.], [0.…"),
}
TAKEN: dict[str, Callable[[Tensor], Any]] = {
    "a tensor": lambda loss: loss,
    "one element": lambda loss: loss.reshape(1, 1),
    "a float": float,
    "an int": lambda loss: 1,
    "a NumPy number": lambda loss: np.float32(loss),
    "double": lambda loss: loss.double(),
    "a tensor of ints": lambda loss: loss.long(),
    "not detached": lambda loss: loss.requires_grad_(),
}


@pytest.mark.parametrize("name", STRATEGIES)
def test_numbers_out_of_range_are_refused_by_config_and_strategy_alike(name: str) -> None:
    """The config, which does not import PyTorch, and the class state the same ranges."""
    numbers = {
        option: parameter.types
        for option, parameter in outline_strategy(name).hyperparameters.items()
        if int in parameter.types or float in parameter.types
    }
    assert numbers.keys() == STRATEGIES[name].ranges.keys()
    base, _ = made("naive", blobs())
    for option in numbers:
        with pytest.raises(InputError, match=f"{option} is -5, expected ") as planned:
            make_config("split-digits", name, settings={option: -5})
        with pytest.raises(InputError) as built:
            find_strategy(name)(base.model, base.optimizer, base.examples, **{option: -5})
        assert str(planned.value) == str(built.value)


def learning(change: Callable[[Tensor], Any], first: int = 1) -> list[int]:
    """Return the steps done by a strategy whose step returns something else from `first` on."""
    scenario = blobs()
    strategy, plan = made("naive", scenario)
    step, calls = strategy.step, []

    def other(*batches: Any, **named: Any) -> Any:
        loss = step(*batches, **named)
        calls.append(1)
        return change(loss) if len(calls) >= first else loss

    strategy.step = other  # type: ignore[method-assign]
    for _ in train(scenario, strategy, plan):
        pass
    return calls


@pytest.mark.parametrize("first", [1, 3])
@pytest.mark.parametrize("what", REFUSED)
def test_a_step_that_returns_no_number_is_refused(what: str, first: int) -> None:
    change, shown = REFUSED[what]
    with pytest.raises(InputError) as caught:
        learning(change, first)
    assert str(caught.value) == (
        f"Naive.step returned {shown} at step {first} of task '0-1', expected one finite number: "
        "return loss.detach(). No recorded data was lost"
    )


@pytest.mark.parametrize("what", TAKEN)
def test_a_step_that_returns_one_number_is_not(what: str) -> None:
    assert len(learning(TAKEN[what])) == len(learning(TAKEN[what], 10**9))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), torch.tensor(float("-inf"))])
def test_a_number_that_is_not_finite_is_divergence(value: Any) -> None:
    with pytest.raises(
        DivergedError, match=r"the loss of Naive is -?(nan|inf) at step 1 of task '0-1'"
    ):
        learning(lambda loss: value)


BEGUN: list[Any] = [None, [], [0.5], np.eye(2, dtype=int), np.ones(3, dtype=bool), "rows"]
CHOSEN: list[Any] = [None, (), np.arange(4), [None], (np.arange(4), 3), (np.ones(4),)]


@pytest.mark.parametrize(
    ("method", "value", "expected"),
    [
        *(("begin_task", value, "the rows to train on: return rows") for value in BEGUN),
        *(("select_rows", value, "the rows of each batch: return (new,)") for value in CHOSEN),
    ],
)
def test_rows_that_are_none_are_refused(method: str, value: Any, expected: str) -> None:
    scenario = blobs()
    strategy, plan = made("naive", scenario)
    setattr(strategy, method, lambda *_: value)
    with pytest.raises(InputError) as caught:
        next(train(scenario, strategy, plan))
    said = str(caught.value)
    assert said.startswith(f"Naive.{method} returned ")
    assert said.endswith(f"expected {expected}")
    assert "\n" not in said


OWN = """
from torch.nn.functional import cross_entropy
from perdure.strategies import Strategy

class Mine(Strategy):
    def step(self, new, *others, on_loss_terms=None):
        loss = cross_entropy(self.model(new.x, new.task), new.y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        {last}
"""


COMMAND = (
    "run", "split-digits", "mine:Mine", "--seeds", "1", "--epochs", "1", "--set", "hidden=16",
)  # fmt: skip


def refused(folder: Path) -> None:
    """Run a strategy whose step returns two numbers."""
    (folder / "mine.py").write_text(OWN.format(last="return loss.detach().repeat(2)"))
    answer = start(*COMMAND, cwd=folder, OMP_NUM_THREADS="1")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == (
        "perdure: training mine:Mine on split-digits, 1 seed\n"
        "perdure: seed 0 failed: Mine.step returned a float32 tensor of shape (2,) at step 1 of "
        "task '0-1', expected one finite number: return loss.detach(). No recorded data was lost\n"
    )


def test_the_command_refuses_in_one_line(tmp_path: Path) -> None:
    refused(tmp_path)


@pytest.mark.slow
def test_the_same_command_runs_once_the_strategy_is_mended(tmp_path: Path) -> None:
    refused(tmp_path)
    (tmp_path / "mine.py").write_text(OWN.format(last="return loss.detach()"))
    answer = start(*COMMAND, "--format", "json", cwd=tmp_path, OMP_NUM_THREADS="1")
    assert answer.code == 0, answer.err
    assert json.loads(answer.out)
