"""What a step of each strategy costs, against a step of naive: `make bench-strategies`.

The MLP of Split-MNIST (784-400-400-10), batches of 256, in the third of five tasks, so that there
is something to keep. Rows of MNIST's shape, no evaluation. All strategies take turns, a block of
steps each, in one process; a strategy's figure is the median over rounds of its block's time
against naive's block in the same round. Then what ending a task of 12,000 examples takes.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import time
from typing import TYPE_CHECKING

import numpy as np
import torch

from perdure.data import Dataset, Split
from perdure.scenarios import split
from perdure.strategies import STRATEGIES
from perdure.training import build_learner, make_config

if TYPE_CHECKING:
    from perdure.scenarios import Scenario, Setting
    from perdure.strategies import Strategy

LEAVE_OUT = {"joint", "cumulative", "single", "random", "gdumb"}  # their steps are naive's, or none
EACH = 6000
LIMITS = {"ewc": 1.3, "si": 1.3, "mas": 1.3, "lwf": 1.5, "agem": 2.2}


def rows_like_mnist(setting: Setting) -> Scenario:
    """Return five tasks of two classes with MNIST's shape."""
    rng = np.random.default_rng(0)
    y = np.arange(10).repeat(EACH)
    x = rng.integers(0, 256, (len(y), 1, 28, 28), dtype=np.uint8)
    names = tuple(str(k) for k in range(10))
    return split(Dataset("rows", Split(x, y), Split(x[::60], y[::60]), names), 5, setting=setting)


def in_third_task(name: str, scenario: Scenario, options: dict[str, str]) -> Strategy:
    """Return a learner that has had some steps of two tasks and begun a third."""
    what = make_config("split-mnist", name, setting=scenario.setting, optimizer="sgd", batch=256,
                     settings={"lr": "0.001", **options})  # fmt: skip
    strategy, _ = build_learner(what, scenario)
    for task in range(3):
        rows = scenario.tasks[task].train
        strategy.model.open(task, scenario.tasks[task].classes)
        strategy.begin_task(task, rows)
        if task < 2:
            steps(strategy, rows, task, 5)
            strategy.end_task(task, rows)
    return strategy


def steps(strategy: Strategy, rows: np.ndarray, task: int, count: int) -> float:
    """Return the seconds that `steps` steps take, choosing and taking examples included."""
    start = time.perf_counter()
    for k in range(count):
        first, *others = strategy.select_rows(rows[256 * k : 256 * (k + 1)])
        parts = [strategy.examples.take(part) for part in others]
        strategy.step(strategy.examples.take(first, task), *parts)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--block", type=int, default=40, help="steps in a row")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, ", end="")
    print(f"{options.threads} thread(s), PyTorch {torch.__version__}, ", end="")
    print(f"load {os.getloadavg()[0]:.1f}\n")
    names = [name for name in STRATEGIES if name not in LEAVE_OUT]
    for setting in ("class", "task"):
        print(f"{setting}-incremental\n\n| strategy | ms | against naive | at most |")
        print("|---|---:|---:|---:|")
        scenario = rows_like_mnist(setting)
        same = {"agem": {"sample": "256"}}  # as many old examples as new ones
        learners = {name: in_third_task(name, scenario, same.get(name, {})) for name in names}
        rows = scenario.tasks[2].train
        times: dict[str, list[float]] = {name: [] for name in names}
        for turn in range(options.rounds + 1):
            for name, strategy in learners.items():
                taken = steps(strategy, rows, 2, options.block)
                if turn:
                    times[name].append(taken / options.block)
        for name, mine in times.items():
            ratio = statistics.median(a / b for a, b in zip(mine, times["naive"], strict=True))
            limit = LIMITS.get(name, "")
            print(f"| {name} | {1000 * statistics.median(mine):.2f} | {ratio:.2f} | {limit} |")
        print()
    for name in ("ewc", "mas"):
        start = time.perf_counter()
        learners[name].end_task(2, rows)
        print(f"{name}: importances of {len(rows)} examples {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()
