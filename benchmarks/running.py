"""What an iteration of `perdure run split-mnist replay --every 1` costs, against the floor.

The floor is that of watching.py: the same work written out by hand, without momentum, on rows of
MNIST's shape. Both take turns in one process, a block of iterations each. Then three seeds as
processes, and how much of the machine's cores they keep busy.

python benchmarks/running.py --threads 2      # needs MNIST: perdure data fetch mnist
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent))
import watching

from perdure.training import make_config, run


def measure(threads: int, iterations: int, block: int) -> tuple[float, float]:
    """Return milliseconds an iteration of ours and of the floor, means over tasks of medians."""
    torch.set_num_threads(threads)
    work = watching.make_work(iterations)
    floor = watching.floor(work)
    ours: list[list[float]] = [[] for _ in range(watching.TASKS)]
    hand: list[list[float]] = [[] for _ in range(watching.TASKS)]
    taken = [0] * watching.TASKS
    began = 0.0

    def turn(share: float, _: Any) -> None:
        """Note the iteration that ends here; after a block of them, run one of the floor's."""
        nonlocal began
        now = time.perf_counter()
        task = min(int(share * watching.TASKS - 1e-9), watching.TASKS - 1)
        taken[task] += 1
        if taken[task] > 1:  # the first one includes the test before it
            ours[task].append(now - began)
        if taken[task] % block == 0:
            for rows in work.plans[task][taken[task] - block : taken[task]]:
                start = time.perf_counter()
                floor.train(rows)
                floor.evaluate(task + 1)
                hand[task].append(time.perf_counter() - start)
        began = time.perf_counter()

    config = make_config("split-mnist", "replay", iterations=iterations, threads=threads)
    with TemporaryDirectory() as folder:
        run(config, Path(folder) / "run", on_progress=turn)

    def mean(samples: list[list[float]]) -> float:
        return 1000 * statistics.fmean(statistics.median(each) for each in samples)

    return mean(ours), mean(hand)


def side_by_side(seeds: int, iterations: int) -> tuple[float, float]:
    """Return seconds that n seeds take as processes, and the cores they keep busy."""
    with TemporaryDirectory() as store:
        before, start = os.times(), time.perf_counter()
        command = [
            sys.executable,
            "-m",
            "perdure",
            "run",
            "split-mnist",
            "replay",
            "--store",
            store,
        ]
        command += ["--seeds", str(seeds), "--iterations", str(iterations), "--format", "json"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        wall, after = time.perf_counter() - start, os.times()
    busy = after.children_user + after.children_system
    busy -= before.children_user + before.children_system
    return wall, busy / wall


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--iterations", type=int, default=100, help="of each task")
    parser.add_argument("--block", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, ", end="")
    print(f"PyTorch {torch.__version__}, load {os.getloadavg()[0]:.1f}\n")
    print("| threads | perdure run, ms | floor, ms | against the floor |\n|---:|---:|---:|---:|")
    for threads in options.threads:
        ours, hand = measure(threads, options.iterations, options.block)
        print(f"| {threads} | {ours:.1f} | {hand:.1f} | {ours / hand:.2f} |", flush=True)
    if options.seeds:
        for seeds in (1, options.seeds):
            wall, cores = side_by_side(seeds, options.iterations)
            print(f"\n{seeds} seed(s) as processes: {wall:.0f} s, {cores:.2f} cores busy")


if __name__ == "__main__":
    main()
