"""Toy tasks for every framework, and the bits of what was trained."""

from __future__ import annotations

import re
import warnings
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor, nn

import perdure

from ..evaluator_helpers import rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

TASKS = ("a", "b")
TRAIN = {"a": 1, "b": 2}  # seeds of the data
TEST = {"a": 11, "b": 12}
OWN = "its own evaluation"


PAGE = (Path(__file__).parents[2] / "docs" / "frameworks.md").read_text(encoding="utf-8")


def run_recipe(heading: str, names: dict[str, Any]) -> None:
    """Run the code below a heading of the page, and add what it defines to `names`."""
    sections = re.split(r"^#{2,3} ", PAGE, flags=re.MULTILINE)
    (text,) = [section for section in sections if section.startswith(f"{heading}\n")]
    code = text.partition("```python\n")[2].partition("```")[0]
    exec(compile(code, heading, "exec"), names)


def needs(*names: str) -> Any:
    """Return the first of some modules, whatever importing them warns of; skip without one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            first, *_ = [import_module(name) for name in names]
            return first
        except ModuleNotFoundError as error:
            raise pytest.skip.Exception(
                f"needs {error.name}, see `make test-frameworks`", allow_module_level=True
            ) from None


def train_data(task: str) -> tuple[Tensor, Tensor]:
    return rows(32, seed=TRAIN[task])


def evaluation_data() -> dict[str, tuple[Tensor, Tensor]]:
    return {task: rows(30, seed=seed) for task, seed in TEST.items()}


def weights(model: nn.Module) -> dict[str, Tensor]:
    """Return a copy of everything that training changed."""
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def same(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> bool:
    assert list(one) == list(other)
    return all(torch.equal(one[name], other[name]) for name in one)


def distance(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> float:
    """Return the largest difference of a weight."""
    return max(float((one[name].double() - other[name].double()).abs().max()) for name in one)


def check_law(train: Callable[[str], dict[str, Tensor]]) -> None:
    """Compare the weights after training with each way to evaluate meanwhile.

    The second comparison is what docs/frameworks.md prints. Where it fails, the framework has
    learned to leave training alone: say so there.
    """
    alone = train("none")
    assert same(train("none"), alone), "training itself is not reproducible"
    assert same(train("perdure"), alone)
    assert not same(train(OWN), alone), "its own evaluation no longer changes training"


def record_of(folder: Path) -> dict[str, bytes]:
    """Return the measured part of a record: scores and results per example, byte for byte."""
    files = [folder / "points.csv", *sorted(folder.glob("per_example/*"))]
    return {path.name: path.read_bytes() for path in files}


def replay(
    folder: Path, model: nn.Module, states: Iterable[tuple[str, list[dict[str, Tensor]]]],
    tasks: Any, **options: Any,
) -> None:  # fmt: skip
    """Record what a plain loop would have, from the weights before and after each of its steps."""
    with perdure.Evaluator(tasks, record=folder, count_flops=False, **options) as evaluator:
        for task, (before, *after) in states:
            model.load_state_dict(before)
            with evaluator.task(task, model):
                for state in after:
                    model.load_state_dict(state)
                    evaluator.step(model)
