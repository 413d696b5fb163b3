"""What an iteration of `perdure run split-mnist replay --every 1` costs, against two loops by hand.

The autograd loop is what one writes first: bytes that are normalised in every step, autograd,
torch.optim with momentum, a call of the model for each task, no record. The floor is that of
watching.py: no autograd, no momentum, no normalisation. Both work on rows of MNIST's shape. All
three take turns in one process, a block of iterations each. Then three seeds as processes, and how
much of the machine's cores they keep busy.

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
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

sys.path.insert(0, str(Path(__file__).parent))
import watching

from perdure.training import make_config, run


def autograd_loop(work: watching.Work, options: dict[str, Any]) -> watching.Variant:
    """Return a plain loop with the loss, the momentum and the normalisation of the run."""
    model, alpha = watching.make_model(), 0.3
    optimizer = torch.optim.SGD(model.parameters(), **options)
    images = work.train_x.mul(64).add(128).clamp(0, 255).byte()

    def train(rows: Tensor) -> None:
        x, y = images[rows].float().div_(255).sub_(0.1307).div_(0.3081), work.train_y[rows]
        scores = model(x)
        loss = F.cross_entropy(scores[: watching.BATCH], y[: watching.BATCH])
        if len(rows) > watching.BATCH:
            replayed = F.cross_entropy(scores[watching.BATCH :], y[watching.BATCH :])
            loss = alpha * loss + (1 - alpha) * replayed
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return watching.Variant(train, watching.evaluate_by_task(model, work), list)


def measure(threads: int, iterations: int, block: int) -> tuple[float, float, float]:
    """Return milliseconds an iteration, means over tasks of medians: ours, the loop, the floor."""
    torch.set_num_threads(threads)
    work = watching.make_work(iterations)
    config = make_config("split-mnist", "replay", iterations=iterations, threads=threads)
    others = [autograd_loop(work, config.optimizer_options), watching.floor(work)]
    samples: list[list[list[float]]] = [[[] for _ in range(watching.TASKS)] for _ in range(3)]
    taken = [0] * watching.TASKS
    began = 0.0

    def turn(share: float, _: Any) -> None:
        """Note the iteration that ends here; after a block of them, run one of each loop."""
        nonlocal began
        now = watching.seconds()
        task = min(int(share * watching.TASKS - 1e-9), watching.TASKS - 1)
        taken[task] += 1
        if taken[task] > 1:  # the first one includes the test before it
            samples[0][task].append(now - began)
        if taken[task] % block == 0:
            for k, other in enumerate(others, 1):
                for rows in work.plans[task][taken[task] - block : taken[task]]:
                    start = watching.seconds()
                    other.train(rows)
                    other.evaluate(task + 1)
                    samples[k][task].append(watching.seconds() - start)
        began = watching.seconds()

    with TemporaryDirectory() as folder:
        run(config, Path(folder) / "run", on_progress=turn)

    def mean(tasks: list[list[float]]) -> float:
        return 1000 * statistics.fmean(statistics.median(each) for each in tasks)

    ours, loop, floor = map(mean, samples)
    return ours, loop, floor


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
    parser.add_argument("--cpu-time", action="store_true", help=watching.CPU_TIME)
    options = parser.parse_args()
    watching.use_cpu_time(options.cpu_time)
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, ", end="")
    print(f"PyTorch {torch.__version__}, load {os.getloadavg()[0]:.1f}\n")
    print("| threads | perdure run, ms | autograd loop, ms | floor, ms | against both |")
    print("|---:|---:|---:|---:|---:|")
    with watching.company() as others:
        for threads in [1] if options.cpu_time else options.threads:
            ours, loop, floor = measure(threads, options.iterations, options.block)
            print(f"| {threads} | {ours:.1f} | {loop:.1f} | {floor:.1f}", end=" | ")
            print(f"{ours / loop:.2f}, {ours / floor:.2f} |", flush=True)
    print(f"\n{watching.company_note(others)}")
    if options.seeds:
        for seeds in (1, options.seeds):
            wall, cores = side_by_side(seeds, options.iterations)
            print(f"\n{seeds} seed(s) as processes: {wall:.0f} s, {cores:.2f} cores busy")


if __name__ == "__main__":
    main()
