"""Small streams to watch, and plain references: own eager loops on copies of the model."""

from __future__ import annotations

import copy
import csv
import json
import time
import warnings
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from perdure import EvaluationWarning

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    import pytest
    from numpy.typing import NDArray

    from perdure import Evaluator

Set = tuple[Tensor, Tensor]


class Clock:
    """A clock that only moves when told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(time, "perf_counter", lambda: self.now)

    def wait(self, seconds: float) -> None:
        self.now += seconds


class Line(NamedTuple):
    """A line of points.csv."""

    step: int
    trained: str
    tested: str
    kind: str
    score: float
    n: int


class Net(nn.Module):
    """A small classifier that behaves otherwise in training mode: dropout, batch statistics."""

    def __init__(self, inputs: int = 4, classes: int = 3) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(inputs, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout())
        self.head = nn.Linear(8, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x))  # type: ignore[no-any-return]


def net(seed: int = 0, inputs: int = 4, classes: int = 3) -> Net:
    torch.manual_seed(seed)
    return Net(inputs, classes)


def rows(count: int = 21, seed: int = 0, inputs: int = 4, classes: int = 3) -> Set:
    """Return examples and labels that a line of thought can tell apart, but not all of them."""
    rng = torch.Generator().manual_seed(seed)
    x = torch.randn(count, inputs, generator=rng)
    return x, (x[:, :classes] + torch.randn(count, classes, generator=rng)).argmax(1)


def sets(names: Iterable[str] = "abc", count: int = 21) -> dict[str, Set]:
    return {name: rows(count + k, seed=k) for k, name in enumerate(names)}


def learn(model: nn.Module, batch: Set | None = None, lr: float = 0.5) -> None:
    """One plain step of training."""
    x, y = rows(16, seed=99) if batch is None else batch
    model.train()
    model.zero_grad()
    loss = cross_entropy(model(x), y)
    loss.backward()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.sub_(lr * parameter.grad)


def watch(
    evaluator: Evaluator,
    model: nn.Module,
    plan: Sequence[tuple[str, int]],
    *,
    hand_in: bool = True,
    before: Callable[[int], None] | None = None,
) -> dict[int, nn.Module]:
    """Learn each task for so many steps; return a copy of the model after each of them."""
    copies = {0: copy.deepcopy(model)}
    step = 0
    for task, steps in plan:
        with evaluator.task(task, model if hand_in else None):
            for _ in range(steps):
                if before is not None:
                    before(step)
                learn(model, rows(16, seed=1000 + step))
                step += 1
                copies[step] = copy.deepcopy(model)
                evaluator.step(model)
    return copies


def still(x: Tensor) -> Tensor:
    """A model that costs nothing: the first three inputs are the class scores."""
    return x[:, :3]


def walk(evaluator: Evaluator, plan: list[tuple[str, int]], model: Any = still) -> None:
    for task, steps in plan:
        with evaluator.task(task, model):
            for _ in range(steps):
                evaluator.step(model)


def accuracy(
    model: nn.Module, x: Any, y: Tensor, forward: Callable[..., Tensor] | None = None
) -> float:
    """Return the share of right predictions, by a loop over rows that knows no batches."""
    mine = copy.deepcopy(model).eval()
    with torch.no_grad():
        outputs = mine(x) if forward is None else forward(mine, x)
    right = sum(int(int(row.argmax()) == int(label)) for row, label in zip(outputs, y, strict=True))
    return right / len(y)


def lines(folder: Path) -> list[Line]:
    """Return the lines of a run's points.csv, read without the package."""
    with (folder / "points.csv").open(newline="") as file:
        found = list(csv.DictReader(file))
    return [
        Line(int(r["step"]), r["trained"], r["tested"], r["kind"], float(r["score"]), int(r["n"]))
        for r in found
    ]


def costs(folder: Path) -> dict[str, dict[str, float | None]]:
    """Return the cells of a run's costs.csv by task, None where one is empty."""
    with (folder / "costs.csv").open(newline="") as file:
        return {
            row.pop("task"): {k: float(v) if v else None for k, v in row.items()}
            for row in csv.DictReader(file)
        }


def subsets(folder: Path) -> dict[str, NDArray[np.int64]]:
    """Return the indices of each task's fixed subset, from the record."""
    names = json.loads((folder / "per_example" / "tasks.json").read_text())
    paths = {name: folder / "per_example" / f"{k}.npy" for k, name in enumerate(names)}
    return {name: np.load(path) for name, path in paths.items() if path.exists()}


def expected_lines(
    plan: Sequence[tuple[str, int]],
    due: Callable[[int, int], bool],
    *,
    known: Sequence[str] | None = None,
    initial: str = "entered",
) -> Counter[tuple[int, str, str, str]]:
    """Return (step, trained, tested, kind) of every line, by walking through the stream.

    `known` are tested throughout (unseen=True), otherwise tasks are once they are learned.
    """
    found: list[tuple[int, str, str, str]] = []
    step, learned = 0, []
    for task, steps in plan:
        if task not in learned:
            learned.append(task)
        if initial == "all" and step == 0:
            found += [(0, task, name, "initial") for name in known or [t for t, _ in plan]]
        elif initial != "none":
            found.append((step, task, task, "initial"))
        tested = known or learned
        for since in range(1, steps + 1):
            step += 1
            if due(step, since):
                found += [(step, task, name, "probe") for name in tested]
        found += [(step, task, name, "full") for name in tested]
    return Counter(found)


def check_scores(
    folder: Path, copies: Mapping[int, nn.Module], data: Mapping[str, Set], subset: int | None
) -> None:
    """Compare every recorded score with the copy of the model at that step, row by row."""
    chosen = subsets(folder) if (folder / "per_example").exists() else {}
    for line in lines(folder):
        x, y = data[line.tested]
        if line.kind != "full" and subset is not None and subset < len(y):
            if line.kind == "initial" and line.tested not in chosen:
                assert line.n == subset  # of a task without probes: which examples is not said
                continue
            assert len(chosen[line.tested]) == subset
            x, y = x[chosen[line.tested]], y[chosen[line.tested]]
        assert line.n == len(y), line
        assert line.score == accuracy(copies[line.step], x, y), line


def keys(folder: Path) -> Counter[tuple[int, str, str, str]]:
    return Counter(line[:4] for line in lines(folder))


def quietly(function: Callable[[], Any], ignored: str | None = None) -> tuple[Any, list[str]]:
    """Return what `function` returns, and what the evaluator said meanwhile."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("error")
        if ignored is not None:
            warnings.filterwarnings("ignore", message=ignored)
        warnings.simplefilter("always", EvaluationWarning)
        found = function()
    return found, [str(warning.message) for warning in heard]


def linear(n: int, inputs: int, outputs: int, *, first: bool) -> tuple[int, int]:
    """Return the operations of a linear layer, forward and backward: 2mnk a product."""
    one = 2 * n * inputs * outputs
    return one, one if first else 2 * one  # weights; and inputs, unless they are the data


def mlp(n: int) -> tuple[int, int]:
    """Return the operations of `Net` on n rows, forward and backward."""
    layers = [linear(n, 4, 8, first=True), linear(n, 8, 3, first=False)]
    return sum(f for f, _ in layers), sum(b for _, b in layers)
