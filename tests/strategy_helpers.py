"""Small streams, learners and whole states; run as a program it goes on from checkpoints."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from perdure.data import Dataset, Split
from perdure.scenarios import Scenario, split
from perdure.strategies import STRATEGIES, Strategy, find_strategy
from perdure.training import (
    EarlyStopping,
    Position,
    RunConfig,
    TrainingPlan,
    build_learner,
    load_checkpoint,
    make_config,
    save_checkpoint,
    train,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from perdure import Evaluator
    from perdure.scenarios import Setting

ALL = list(STRATEGIES)
GUESSES = {"random"}  # no weights: nothing is learned, nothing is drawn while training
REPLAYS = {"replay", "gem", "agem"}  # take more than the new rows in a step
TRAINS_AT_ENDS = {"gdumb"}  # of tasks, where its dropout draws from PyTorch
REFUSE_PATIENCE = {name for name in ALL if find_strategy(name).trains_on_all_tasks} | TRAINS_AT_ENDS

# Small memories, so that rows are dropped; what is not named here has its defaults.
SMALL: dict[str, dict[str, str]] = {
    "replay": {"memory": "13"},
    "gdumb": {"memory": "23", "passes": "15", "batch_size": "8"},
    "gem": {"memory": "7"},
    "agem": {"memory": "7", "sample": "5"},
    "ewc": {"strength": "1"},
    "si": {"strength": "0.01"},
    "mas": {"strength": "0.01"},
}


def normed(shape: tuple[int, int, int], outputs: int, *, hidden: int = 16) -> nn.Module:
    """Return a network that behaves otherwise while training: batch statistics, dropout."""
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(int(np.prod(shape)), hidden),
        nn.BatchNorm1d(hidden),
        nn.ReLU(),
        nn.Dropout(0.3),
        nn.Linear(hidden, outputs),
    )


def linear(shape: tuple[int, int, int], outputs: int) -> nn.Module:
    """Return softmax regression: its gradient can be written down."""
    return nn.Sequential(nn.Flatten(), nn.Linear(int(np.prod(shape)), outputs))


NORMED = "tests.strategy_helpers:normed"
LINEAR = "tests.strategy_helpers:linear"


def blobs(
    tasks: int = 3,
    *,
    classes: int = 6,
    each: int | list[int] = 17,
    setting: Setting = "class",
    noise: float = 12.0,
) -> Scenario:
    """Return a stream of classes that a line can tell apart; nothing in it can be written to."""
    rng = np.random.default_rng(2024)
    centres = rng.integers(30, 226, (classes, 1, 4, 4))
    sizes = [each] * classes if isinstance(each, int) else each

    def drawn(counts: list[int]) -> Split:
        y = rng.permutation(np.repeat(np.arange(classes), counts))
        x = centres[y] + noise * rng.standard_normal((len(y), 1, 4, 4))
        return Split(x.clip(0, 255).astype(np.uint8), y.astype(np.int64))

    names = tuple(str(k) for k in range(classes))
    data = Dataset("blobs", drawn(sizes), drawn([9] * classes), names, "bundled", None, {})
    made = split(data, tasks, setting=setting)
    return frozen(replace(made, mean=((0.4,),), std=((0.3,),)))


def frozen(scenario: Scenario) -> Scenario:
    """Return the scenario with arrays that raise when they are written to."""
    for array in arrays(scenario):
        array.setflags(write=False)
    return scenario


def arrays(scenario: Scenario) -> list[NDArray[Any]]:
    """Return every array a scenario holds."""
    rows = [part for task in scenario.tasks for part in (task.train, task.test)]
    return [*scenario.train, *scenario.test, *rows]


def short_config(strategy: str, **more: Any) -> RunConfig:
    """Return a short run of a small network."""
    model = more.pop("model", "mlp")
    settings = {"hidden": "16"} if model in ("mlp", NORMED) else {}
    settings |= {"lr": "0.05"} | SMALL.get(strategy, {}) | more.pop("settings", {})
    usual: dict[str, Any] = {"epochs": 2, "batch": 8}
    return make_config("split-digits", strategy, model=model, settings=settings, **usual | more)


def made(strategy: str, scenario: Scenario, **more: Any) -> tuple[Strategy, TrainingPlan]:
    """Return a learner and its plan before the first step."""
    return build_learner(short_config(strategy, **more), scenario)


def finish(steps: Iterable[Position]) -> list[Position]:
    """Return where training was after every step."""
    return list(steps)


def done(strategy: str, scenario: Scenario, **more: Any) -> Strategy:
    """Return a learner that has learned a whole stream."""
    learned, plan = made(strategy, scenario, **more)
    finish(train(scenario, learned, plan))
    return learned


def everything(strategy: Strategy) -> dict[str, str]:
    """Return all there is to a learner, bit for bit: weights, optimizer, memory, generators.

    What begins with _ follows from the rest, or is room to work in: the contract says so.
    """
    found: dict[str, str] = {}
    kept = {k: v for k, v in vars(strategy).items() if k != "examples" and k[0] != "_"}
    _flatten("", {**kept, "random": torch.get_rng_state()}, found)
    return found


def _flatten(name: str, value: Any, found: dict[str, str]) -> None:
    if isinstance(value, Tensor):
        value = value.detach().cpu()
        value = (value.view(torch.int16) if value.dtype is torch.bfloat16 else value).numpy()
    if isinstance(value, np.ndarray):
        found[name] = f"{value.dtype}{value.shape}{np.ascontiguousarray(value).tobytes().hex()}"
    elif isinstance(value, np.random.Generator):
        found[name] = repr(value.bit_generator.state)
    elif isinstance(value, nn.Module):
        modes = {f"{path} trains": part.training for path, part in value.named_modules()}
        _flatten(name, {**value.state_dict(), **modes}, found)
    elif isinstance(value, torch.optim.Optimizer):
        weights = [p for group in value.param_groups for p in group["params"]]
        _flatten(name, {"state": value.state_dict(), "weights": weights}, found)
    elif isinstance(value, dict):
        for key, each in value.items():
            _flatten(f"{name}/{key}", each, found)
    elif isinstance(value, list | tuple):
        for key, each in enumerate(value):
            _flatten(f"{name}/{key}", each, found)
    elif not callable(value):
        found[name] = repr(value)


def differing(one: dict[str, str], other: dict[str, str]) -> list[str]:
    """Return the names of what is not bit for bit the same."""
    return sorted(k for k in one.keys() | other.keys() if one.get(k) != other.get(k))


class Chosen:
    """Remembers which rows every step takes: the new ones, and the others."""

    def __init__(self, strategy: Strategy) -> None:
        self.new: list[NDArray[np.int64]] = []
        self.others: list[tuple[NDArray[np.int64], ...]] = []
        self._choose = strategy.select_rows
        vars(strategy)["select_rows"] = self

    def __call__(self, new: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
        parts = self._choose(new)
        self.new.append(parts[0].copy())
        self.others.append(tuple(part.copy() for part in parts[1:]))
        return parts

    def lists(self) -> list[list[list[int]]]:
        """Return everything as plain lists."""
        pairs = zip(self.new, self.others, strict=True)
        return [[new.tolist(), *(part.tolist() for part in others)] for new, others in pairs]


def accuracy(strategy: Strategy, rows: NDArray[np.int64]) -> float:
    """Return the share of training rows that a learner names right."""
    model = strategy.model
    model.eval()
    with torch.no_grad():
        batch = strategy.examples.take(np.array(rows))
        right = (model(batch.x, batch.task).argmax(1) == batch.y).double().mean()
    model.train()
    return float(right)


def held_for(scenario: Scenario) -> dict[str, tuple[Tensor, Tensor]]:
    """Return evaluation data as anyone would make it."""
    mean, std = scenario.mean[0][0], scenario.std[0][0]
    x = torch.tensor(scenario.test.x).float().div(255).sub(mean).div(std)
    y = torch.tensor(scenario.test.y)
    return {t.name: (x[torch.tensor(t.test)], y[torch.tensor(t.test)]) for t in scenario.tasks}


def saving(
    scenario: Scenario,
    strategy: Strategy,
    plan: TrainingPlan,
    folder: Path,
    *,
    stopping: EarlyStopping | None = None,
    evaluator: Evaluator | None = None,
) -> Iterator[Position]:
    """Train, with a checkpoint after every step in a folder of its own."""
    for place in train(scenario, strategy, plan, evaluator, stopping=stopping):
        save_checkpoint(folder / str(place.step), strategy, place, stopping)
        yield place


def go_on(
    what: RunConfig, scenario: Scenario, folder: Path
) -> tuple[Strategy, list[list[list[int]]]]:
    """Return a learner that went on from a checkpoint to the end, and which rows it took."""
    strategy, plan = build_learner(what, scenario)
    torch.manual_seed(987)  # what a new process has drawn before is not known
    torch.rand(3)
    stopping = EarlyStopping(plan.patience)
    place = load_checkpoint(folder, strategy, stopping)
    chosen = Chosen(strategy)
    finish(train(scenario, strategy, plan, start=place, stopping=stopping))
    del vars(strategy)["select_rows"]
    return strategy, chosen.lists()


def refuse_pickles() -> Callable[[], None]:
    """Make this process raise where anything is unpickled; return what ends that."""
    on = True

    def heard(event: str, _arguments: tuple[Any, ...]) -> None:
        if on and event == "pickle.find_class":
            raise AssertionError("something is unpickled")

    def end() -> None:
        nonlocal on
        on = False

    sys.addaudithook(heard)
    return end


def main() -> None:
    """Go on from each checkpoint named on the input and print everything there is at the end."""
    import msgspec

    torch.set_num_threads(1)
    asked = json.load(sys.stdin)
    refuse_pickles()
    answers = {}
    for name, (told, folder) in asked.items():
        what = msgspec.convert(told, RunConfig)
        strategy, chosen = go_on(what, blobs(), Path(folder))
        answers[name] = [everything(strategy), chosen]
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
