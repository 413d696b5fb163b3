# mypy: disable-error-code="import-not-found"
# ruff: noqa: E402
"""The work of watching.py done by Avalanche, with its own replay and its own periodic evaluation.

`make bench-peers` runs it in an environment of its own. The rows are watching.py's, in memory, and
the floor is timed in the same process, before and after each of Avalanche's tasks. To Avalanche's
advantage a test batch is a whole task, and there is no logger and no metric but a task's accuracy.

With `--device cuda` Avalanche runs twice, with its rows in the host's memory and on the GPU, and
the floor is that of running_cuda.py, captured in one CUDA graph.

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
for operator in () if torch.version.cuda else ("nms", "qnms"):
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


def make_strategy(device: str) -> Any:
    model = watching.make_model().to(device)
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
        device=device,
        plugins=[replay],
        evaluator=EvaluationPlugin(accuracy_metrics(experience=True), loggers=[]),
        eval_every=1,
        peval_mode="iteration",
    )


def now() -> float:
    """Return the time at which all that was asked of the GPU, if one is used, is done."""
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
    return time.perf_counter()


def clocked(strategy: Any) -> list[tuple[float, float]]:
    """Return a list to which every evaluation from now on adds when it began and ended."""
    marks: list[tuple[float, float]] = []
    evaluate = strategy.eval

    def timed(*args: Any, **kwargs: Any) -> Any:
        start = now()
        result = evaluate(*args, **kwargs)
        marks.append((start, now()))
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
    benchmark, strategy = make_benchmark(work, iterations), make_strategy("cpu")
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


def run_cuda(iterations: int, rows_on: str) -> watching.Samples:
    """Return the samples of Avalanche on the GPU, with its rows there or in the host's memory."""
    work = watching.make_work(iterations)
    train_x, train_y, test_x, test_y = (part.to(rows_on) for part in work[:4])
    work = watching.Work(train_x, train_y, test_x, test_y, work.plans)
    benchmark = make_benchmark(work, iterations)
    strategy = make_strategy("cuda")
    marks, samples = clocked(strategy), []
    for k, experience in enumerate(benchmark.train_stream):
        marks.clear()
        seen = [benchmark.test_stream[: k + 1]]
        # By default Avalanche pins what it loads, which rows on a GPU do not allow.
        strategy.train(experience, eval_streams=seen, pin_memory=rows_on == "cpu")
        samples.append(between(marks, iterations))
    return samples


def print_cuda(iterations: int) -> None:
    """Print the table for the GPU, each row once it is measured."""
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}")
    try:
        from running_cuda import floor  # here, as it imports perdure

        limit = floor(200, "float32")
    except ImportError as error:
        print(f"no floor: {error}")
        limit = float("nan")
    print(f"{iterations} iterations per task\n\n{watching.TABLE_HEAD}")
    print(f"| floor, captured by hand | | | {limit:.3f} | 1.0 |")
    for place, rows_on in (("the host's memory", "cpu"), ("the GPU's memory", "cuda")):
        spent = watching.cost(run_cuda(iterations, rows_on))
        cells = " | ".join(f"{ms:.3f}" for ms in spent)
        name = f"Avalanche {avalanche.__version__}, tensors in {place}"
        print(f"| {name} | {cells} | {spent.total / limit:.1f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Avalanche at the work of watching.py.")
    parser.add_argument(
        "--iterations", type=int, default=30, help="iterations per task, at most 46"
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    if args.device == "cuda":
        with warnings.catch_warnings(record=True):
            print_cuda(args.iterations)
        return
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
