# mypy: disable-error-code="import-not-found"
# ruff: noqa: E402
"""The work of watching.py done by Avalanche, with its own replay and its own periodic evaluation.

`make bench-peers` runs it in an environment of its own. The rows are watching.py's, in memory, and
the floor is timed in the same process, before and after each of Avalanche's tasks. To Avalanche's
advantage a test batch is a whole task, and there is no logger and no metric but a task's accuracy.

Avalanche imports torchvision, whose compiled part is linked against CUDA and does not load next
to a PyTorch without it. Its import then fails for want of two operators that nothing here calls, so
they are declared.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import TensorDataset

sys.path.insert(0, str(Path(__file__).parents[1]))
import watching

warnings.simplefilter("ignore")  # a QP solver, a logger and a codec are missed; none is used
for operator in ("nms", "qnms"):
    torch.library.define(f"torchvision::{operator}", "(Tensor a, Tensor b, float c) -> Tensor")

import avalanche
from avalanche.benchmarks import benchmark_from_datasets
from avalanche.benchmarks.utils import as_classification_dataset
from avalanche.evaluation.metrics import accuracy_metrics
from avalanche.training import Naive
from avalanche.training.plugins import EvaluationPlugin, ReplayPlugin


class Labelled(TensorDataset):
    """Rows and labels, with the labels under the name that Avalanche looks for."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        super().__init__(x, y)
        self.targets = y


def make_benchmark(work: watching.Work, iterations: int) -> Any:
    """Return a benchmark whose experiences last the given number of iterations each."""
    rows, tested = watching.ROWS, watching.TESTED
    train, test = [], []
    for k in range(watching.TASKS):
        new = slice(k * rows, k * rows + iterations * watching.BATCH)
        train.append(as_classification_dataset(Labelled(work.train_x[new], work.train_y[new])))
        old = slice(k * tested, (k + 1) * tested)
        test.append(as_classification_dataset(Labelled(work.test_x[old], work.test_y[old])))
    return benchmark_from_datasets(train=train, test=test)


def make_strategy() -> Any:
    model = watching.make_model()
    replay = ReplayPlugin(
        mem_size=watching.KEPT * watching.TASKS,
        batch_size=watching.BATCH,
        batch_size_mem=watching.BATCH,
    )
    return Naive(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=watching.LR),
        train_mb_size=watching.BATCH,
        eval_mb_size=watching.TESTED,
        plugins=[replay],
        evaluator=EvaluationPlugin(accuracy_metrics(experience=True), loggers=[]),
        eval_every=1,
        peval_mode="iteration",
    )


def clocked(strategy: Any) -> list[tuple[float, float]]:
    """Return a list to which every evaluation from now on adds when it began and ended."""
    marks: list[tuple[float, float]] = []
    evaluate = strategy.eval

    def timed(*args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        result = evaluate(*args, **kwargs)
        marks.append((start, time.perf_counter()))
        return result

    strategy.eval = timed
    return marks


def between(marks: list[tuple[float, float]], iterations: int) -> list[tuple[float, float]]:
    """Return (train, evaluate) in seconds for each iteration of a task but the first.

    Avalanche also tests before the first iteration and again after the last; what lies between
    the former and the first iteration's evaluation includes setting up the task.
    """
    if len(marks) != iterations + 2:
        raise RuntimeError(f"{len(marks)} evaluations in {iterations} iterations, expected 2 more")
    return [(start - last, end - start) for (_, last), (start, end) in pairwise(marks[1:-1])]


def run(iterations: int) -> tuple[watching.Samples, watching.Samples]:
    """Return the floor's samples and Avalanche's."""
    work = watching.make_work(iterations)
    benchmark, strategy = make_benchmark(work, iterations), make_strategy()
    marks, floor = clocked(strategy), watching.floor(work)
    ours: watching.Samples = []
    theirs: watching.Samples = []
    for k, experience in enumerate(benchmark.train_stream):
        before, after = torch.tensor_split(work.plans[k], 2)
        ours.append(watching.run_block(floor, before, k + 1)[0])
        marks.clear()
        strategy.train(experience, eval_streams=[benchmark.test_stream[: k + 1]])
        theirs.append(between(marks, iterations))
        ours[k] += watching.run_block(floor, after, k + 1)[0]
    return ours, theirs


def main() -> None:
    parser = argparse.ArgumentParser(description="Avalanche at the work of watching.py.")
    parser.add_argument(
        "--iterations", type=int, default=30, help="iterations per task, at most 46"
    )
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    with warnings.catch_warnings(record=True), watching.company() as others:
        ours, theirs = map(watching.cost, run(args.iterations))
    print(f"\nPyTorch {torch.__version__}, {args.threads} threads")
    print(f"{args.iterations} iterations per task; {watching.company_note(others)}\n")
    print(watching.TABLE_HEAD)
    print(watching.table_row("floor, in Avalanche's environment", ours, ours.total))
    name = f"Avalanche {avalanche.__version__}, tensors in memory"
    print(watching.table_row(name, theirs, ours.total))


if __name__ == "__main__":
    main()
