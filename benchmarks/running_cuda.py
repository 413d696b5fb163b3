"""What `perdure run split-mnist replay --every 1` costs on a GPU, against the floor.

The floor is the work of watching.py with step and evaluation captured in one CUDA graph by hand:
no momentum, no replay memory, no record. The runs train as published and write their records.

python benchmarks/running_cuda.py      # needs MNIST: perdure data fetch mnist
"""

from __future__ import annotations

import argparse
import platform
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch.nn.functional import cross_entropy

sys.path.insert(0, str(Path(__file__).parent))
import watching

from perdure.execution import Job, run_together
from perdure.training import make_config


def floor(iterations: int, precision: str) -> float:
    """Return the milliseconds per iteration of a captured step and evaluation, mean over tasks."""
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    on_cpu = watching.make_work(iterations)
    plans = [plan.cuda() for plan in on_cpu.plans]
    train_x, train_y, test_x, test_y = (part.cuda() for part in on_cpu[:4])
    work = watching.Work(train_x, train_y, test_x, test_y, plans)
    model = watching.make_model().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, fused=True)
    spent = 0.0
    for task, plan in enumerate(plans):
        rows, tested = plan[0].clone(), (task + 1) * watching.TESTED
        hits = torch.zeros(tested, dtype=torch.bool, device="cuda")

        def iterate(rows: torch.Tensor = rows, hits: torch.Tensor = hits, n: int = tested) -> None:
            optimizer.zero_grad()
            cross_entropy(model(work.train_x[rows]), work.train_y[rows]).backward()
            optimizer.step()
            with torch.no_grad():
                torch.eq(model(work.test_x[:n]).argmax(1), work.test_y[:n], out=hits)

        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            for _ in range(3):
                iterate()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            iterate()
        start = time.perf_counter()
        for chosen in plan:
            rows.copy_(chosen)
            graph.replay()
        torch.cuda.synchronize()
        spent += time.perf_counter() - start
    torch.backends.cuda.matmul.allow_tf32 = False
    return 1000 * spent / (iterations * len(plans))


def runs(seeds: int, epochs: int, precision: str = "default") -> tuple[float, int]:
    """Return the seconds of this many seeds in this process, and the iterations of each."""
    configs = [
        make_config(
            "split-mnist", "replay", seed=seed, epochs=epochs, device="cuda", precision=precision
        )
        for seed in range(seeds)
    ]
    with TemporaryDirectory() as store:
        jobs = [Job(config, Path(store) / config.folder) for config in configs]
        start = time.perf_counter()
        run_together(jobs, lambda *_: None)
        seconds = time.perf_counter() - start
        assert all(job.error is None for job in jobs), [job.error for job in jobs]
        done = (jobs[0].folder / "points.csv").read_text().splitlines()
    return seconds, int(done[-1].split(",")[0])


def command(seeds: int) -> float:
    """Return the seconds from the command to its table."""
    with TemporaryDirectory() as store:
        arguments = ["run", "split-mnist", "replay", "--seeds", str(seeds), "--store", store]
        start = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "perdure", *arguments, "--device", "cuda"],
            check=True,
            capture_output=True,
        )
        return time.perf_counter() - start


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=10, help="per task")
    options = parser.parse_args()
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, {platform.processor()}")
    print("| | ms per iteration and seed | seconds |\n|---|---|---|")
    for precision in ("float32", "tf32"):
        spent = floor(200, precision)
        print(f"| floor in {precision}: captured by hand | {spent:.3f} | |", flush=True)
    cold = runs(1, 1)[0]
    print(f"| first run of a process, 1 epoch: libraries load | | {cold:.1f} |", flush=True)
    for precision, seeds in [(name, count) for name in ("default", "tf32") for count in (1, 5, 10)]:
        seconds, steps = runs(seeds, options.epochs, precision)
        each = 1000 * seconds / (steps * seeds)
        print(f"| {seeds} seeds, precision {precision} | {each:.3f} | {seconds:.1f} |", flush=True)
    for _ in range(2):
        print(f"| 5 seeds, from the command to the table | | {command(5):.1f} |", flush=True)


if __name__ == "__main__":
    main()
