"""The optimizers of runs: PyTorch's own, bit for bit, without importing its compiler."""

from __future__ import annotations

import subprocess
import sys
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch.nn.functional import cross_entropy

from .strategy_helpers import blobs, made

if TYPE_CHECKING:
    from pathlib import Path

    from torch import nn
    from torch.optim import Optimizer

KINDS: dict[str, tuple[type[Optimizer], dict[str, str]]] = {
    "sgd": (torch.optim.SGD, {"momentum": "0.9", "weight_decay": "0.01"}),
    "adam": (torch.optim.Adam, {}),
    "adamw": (torch.optim.AdamW, {}),
}


def take_steps(model: nn.Module, optimizer: Optimizer, steps: int, *, seed: int) -> None:
    rng = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        x, y = torch.randn(8, 1, 4, 4, generator=rng), torch.randint(6, (8,), generator=rng)
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        optimizer.step()


def same(first: Any, second: Any) -> bool:
    """Return whether two states have the same keys, numbers and bits."""
    if isinstance(first, torch.Tensor):
        return torch.equal(first, second)
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(same(first[k], second[k]) for k in first)
    return bool(first == second)


@pytest.mark.parametrize("name", KINDS)
def test_steps_and_states_are_those_of_pytorch(name: str) -> None:
    kind, settings = KINDS[name]
    strategy, _ = made("naive", blobs(), optimizer=name, settings=settings)
    ours, model = strategy.optimizer, strategy.model
    assert isinstance(ours, kind)
    theirs_model = deepcopy(model)
    options = {key: ours.defaults[key] for key in ("lr", "weight_decay", "fused")}
    options |= {"momentum": 0.9} if name == "sgd" else {}
    theirs = kind(theirs_model.parameters(), **options)

    take_steps(model, ours, 3, seed=0)
    take_steps(theirs_model, theirs, 3, seed=0)
    assert same(ours.state_dict(), theirs.state_dict())
    theirs.load_state_dict(ours.state_dict())  # each reads the other's state
    ours.load_state_dict(deepcopy(theirs.state_dict()))
    take_steps(model, ours, 3, seed=1)
    take_steps(theirs_model, theirs, 3, seed=1)
    assert same(model.state_dict(), theirs_model.state_dict())


@pytest.mark.parametrize("name", KINDS)
def test_steps_call_hooks_once_and_record_no_gradients(name: str) -> None:
    strategy, _ = made("naive", blobs(), optimizer=name)
    calls: list[bool] = []
    strategy.optimizer.register_step_post_hook(lambda *_: calls.append(torch.is_grad_enabled()))
    take_steps(strategy.model, strategy.optimizer, 2, seed=0)
    assert calls == [True, True]
    assert all(weight.is_leaf for weight in strategy.model.parameters())
    assert torch.is_grad_enabled()


def test_pytorchs_own_classes_are_unchanged() -> None:
    """A user's optimizer in the same process is excluded from compilation as before."""
    made("naive", blobs())
    for method in ("add_param_group", "zero_grad", "state_dict", "load_state_dict"):
        function = getattr(torch.optim.SGD, method)
        assert function is getattr(torch.optim.Optimizer, method)
        assert hasattr(function, "__wrapped__")


RUNS = """
import csv, sys
from pathlib import Path
from perdure.strategies import STRATEGIES
from perdure.training import make_config, run

def flops(name):
    with (Path(sys.argv[1]) / name / "costs.csv").open() as file:
        return [float(row["flops_train"]) for row in csv.DictReader(file)]

short = {"iterations": 2, "num_tasks": 2, "batch": 8}
for name in STRATEGIES:
    settings = {"passes": "1"} if name == "gdumb" else {}
    config = make_config("split-digits", name, settings=settings, **short)
    run(config, Path(sys.argv[1]) / name, checkpoint_every=0)
    assert "torch._dynamo" not in sys.modules, name
for name in ("adam", "adamw"):
    run(make_config("split-digits", "naive", optimizer=name, **short), Path(sys.argv[1]) / name)
    assert "torch._dynamo" not in sys.modules, name

import torch._dynamo
run(make_config("split-digits", "naive", **short), Path(sys.argv[1]) / "with compiler")
assert flops("with compiler") == flops("naive") and min(flops("naive")) > 0
"""


def test_runs_import_no_compiler(tmp_path: Path) -> None:
    """Importing it takes as long as importing PyTorch, before the first step of every run.

    The operations of a run, which are counted by other code then, are the same.
    """
    command = [sys.executable, "-c", RUNS, str(tmp_path)]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stderr
