"""Avalanche: weights as without a plugin, and the record of a plain loop."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import perdure

from ..evaluator_helpers import Net, lines
from .helpers import (
    OWN,
    TASKS,
    check_law,
    evaluation_data,
    needs,
    record_of,
    replay,
    run_recipe,
    train_data,
    weights,
)

if TYPE_CHECKING:
    from pathlib import Path

if find_spec("torchvision") is not None:  # its compiled part is that of another build of PyTorch
    for operator in ("nms", "qnms"):
        torch.library.define(f"torchvision::{operator}", "(Tensor a, Tensor b, float c) -> Tensor")
benchmarks = needs("avalanche.benchmarks", "avalanche.benchmarks.utils")
training = needs("avalanche.training", "avalanche.training.plugins")
models = needs("avalanche.models")
ContinualEvaluation = needs("perdure.adapters.avalanche").ContinualEvaluation
pytestmark = pytest.mark.filterwarnings("default", "error::perdure.EvaluationWarning")


class Labelled(TensorDataset):
    """Rows and labels, with the labels under the name that Avalanche looks for."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        super().__init__(x, y)
        self.targets = y


def make_benchmark() -> Any:
    make = benchmarks.utils.as_classification_dataset
    train = [make(Labelled(*train_data(task))) for task in TASKS]
    test = [make(Labelled(*data)) for data in evaluation_data().values()]
    return benchmarks.benchmark_from_datasets(train=train, test=test)


class Snapshots(training.plugins.SupervisedPlugin):  # type: ignore[misc, name-defined]
    """Keeps the weights before the first and after each step of an experience."""

    def __init__(self) -> None:
        super().__init__()
        self.states: list[tuple[str, list[dict[str, Tensor]]]] = []

    def before_training_exp(self, strategy: Any, *args: Any, **kwargs: Any) -> None:
        number = strategy.experience.current_experience
        self.states.append((str(number), [weights(strategy.model)]))

    def after_training_iteration(self, strategy: Any, *args: Any, **kwargs: Any) -> None:
        self.states[-1][1].append(weights(strategy.model))


def learn(plugins: list[Any], *, eval_every: int = -1, periodic: bool = False) -> dict[str, Tensor]:
    """Return the weights after two experiences; own evaluation after each or every iteration."""
    torch.manual_seed(0)
    benchmark, model = make_benchmark(), Net()
    optimizer = torch.optim.SGD(model.parameters(), 0.3, momentum=0.9)
    strategy = training.Naive(
        model=model, optimizer=optimizer, criterion=nn.CrossEntropyLoss(), train_mb_size=8,
        train_epochs=2, eval_mb_size=8, plugins=plugins, eval_every=eval_every if periodic else -1,
        evaluator=training.plugins.EvaluationPlugin(loggers=[]), peval_mode="iteration",
    )  # fmt: skip
    for experience in benchmark.train_stream:
        streams = [benchmark.test_stream] if periodic else []
        strategy.train(experience, eval_streams=streams, num_workers=0)
        if eval_every > 0 and not periodic:
            strategy.eval(benchmark.test_stream, num_workers=0)
    return weights(model)


def train(mode: str) -> dict[str, Tensor]:
    if mode == "perdure":
        with ContinualEvaluation(make_benchmark().test_stream) as evaluation:
            return learn([evaluation])
    return learn([], eval_every=1 if mode == OWN else -1)


def train_periodically(mode: str) -> dict[str, Tensor]:
    return learn([], eval_every=2, periodic=True) if mode == OWN else train(mode)


@pytest.mark.parametrize("train", [train, train_periodically])
def test_weights_are_those_of_a_training_without_evaluation(train: Any) -> None:
    check_law(train)


def test_the_record_is_that_of_a_plain_loop(tmp_path: Path) -> None:
    benchmark = make_benchmark()
    with ContinualEvaluation(benchmark.test_stream, record=tmp_path / "plugin") as evaluation:
        learn([evaluation])
    snapshots = Snapshots()
    learn([snapshots])
    data = dict(zip("01", evaluation_data().values(), strict=True))
    replay(tmp_path / "loop", Net(), snapshots.states, data)
    assert record_of(tmp_path / "plugin") == record_of(tmp_path / "loop")
    assert perdure.open_run(tmp_path / "plugin").finished


def test_the_page_shows_a_program_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model = Net()
    names: dict[str, Any] = {
        "Naive": training.Naive, "model": model, "benchmark": make_benchmark(),
        "optimizer": torch.optim.SGD(model.parameters(), 0.3),
        "options": {"criterion": nn.CrossEntropyLoss(), "train_mb_size": 8,
                    "evaluator": training.plugins.EvaluationPlugin(loggers=[])},
    }  # fmt: skip
    run_recipe("Avalanche", names)
    assert perdure.open_run("runs/avalanche").finished


class Heads(models.MultiTaskModule):  # type: ignore[misc, name-defined]
    """A head per task label, and nothing in common."""

    def __init__(self) -> None:
        super().__init__()
        self.heads, self.max_class_label = nn.ModuleList([nn.Linear(4, 3) for _ in TASKS]), 3

    def adaptation(self, experience: Any) -> None:
        """There is a head for every task already."""

    def forward_single_task(self, x: Tensor, task_label: int) -> Any:
        return self.heads[task_label](x)


def test_a_model_with_a_head_per_task_is_evaluated_with_each(tmp_path: Path) -> None:
    data, benchmark = evaluation_data(), benchmarks.task_incremental_benchmark(make_benchmark())
    torch.manual_seed(0)
    model = Heads()
    with ContinualEvaluation(benchmark.test_stream, record=tmp_path / "run") as evaluation:
        strategy = training.Naive(
            model=model, optimizer=torch.optim.SGD(model.parameters(), 0.3),
            criterion=nn.CrossEntropyLoss(), train_mb_size=8, plugins=[evaluation],
            evaluator=training.plugins.EvaluationPlugin(loggers=[]),
        )  # fmt: skip
        for experience in benchmark.train_stream:
            strategy.train(experience, num_workers=0)
    model.eval()
    ends = {line.tested: line.score for line in lines(tmp_path / "run") if line.kind == "full"}
    for number, (x, y) in enumerate(data.values()):
        predicted = model(x, torch.full((len(x),), number)).argmax(1)
        assert ends[str(number)] == int((predicted == y).sum()) / len(y)
