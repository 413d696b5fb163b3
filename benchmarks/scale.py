"""How cost grows: iterations, tasks, the length of a stream, and the number of runs.

python benchmarks/scale.py                      # all of it; the stores take 2 GB in /dev/shm
python benchmarks/scale.py stores --runs 1000   # or training, streams, reports

Seconds are those of the clock and, in brackets, of the processors: where others use the machine,
only the second number says something. Memory is the most that a process had.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

import perdure
from perdure.studies import read_study, study_status

PERDURE = [sys.executable, "-m", "perdure"]
# Commands run in other folders, with the package that is imported here.
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(perdure.__file__).parents[1])}
SHARED_MEMORY = Path("/dev/shm")
TASKS, METHODS = 5, 100
IN_MEMORY = """
import sys
import numpy as np
from perdure import Stream, summary
n, tasks = int(sys.argv[1]) // 5, range(5)
steps, rng = np.arange(1, n + 1), np.random.default_rng(0)
stream = Stream(
    {f"t{k}": (steps, rng.random(n)) for k in tasks},
    [(f"t{k}", (k + 1) * n // 5) for k in tasks],
)
print(len(summary(stream).metrics))
"""
TRAINING = """
import sys, tempfile, time
import numpy as np, torch
from perdure import Evaluator
steps, seen, rows = int(sys.argv[1]), int(sys.argv[2]), 1000
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(64, 100), torch.nn.ReLU(), torch.nn.Linear(100, 2))
rng = torch.Generator().manual_seed(0)
data = {
    f"t{k}": (torch.rand(rows, 64, generator=rng), torch.zeros(rows, dtype=torch.long))
    for k in range(seen)
}
with tempfile.TemporaryDirectory() as folder:
    evaluator = Evaluator(data, record=folder + "/run")
    for k in range(seen):
        with evaluator.task(f"t{k}", model):
            start = time.process_time()
            for _ in range(steps if k == seen - 1 else 1):
                evaluator.step(model)
            spent = time.process_time() - start
    evaluator.close()
print(spent)
"""


class Cost(NamedTuple):
    """What a process took."""

    seconds: float
    cpu: float
    mebibytes: float
    output: str

    def __str__(self) -> str:
        return f"{self.seconds:.1f} s ({self.cpu:.1f}) | {self.mebibytes:,.0f} MiB"


def measure(command: list[str], folder: Path) -> Cost:
    """Return what a command took in a new process."""
    with (folder / "output").open("w+") as output:
        start = time.perf_counter()
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.DEVNULL, cwd=folder, env=ENVIRONMENT
        )
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0, command
        output.seek(0)
        cpu, peak = usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024
        return Cost(seconds, cpu, peak, output.read())


def print_table(*header: str) -> None:
    """Print the head of a table whose rows follow."""
    print(f"\n| {' | '.join(header)} |\n|---{'|---:' * (len(header) - 1)}|", flush=True)


def print_row(*cells: object) -> None:
    """Print a row; a cost fills two cells."""
    print(f"| {' | '.join(map(str, cells))} |", flush=True)


def write_points(path: Path, lines: int) -> None:
    """Write about `lines` lines in which every learned task is evaluated after every step."""
    per_task = lines // sum(range(1, TASKS + 1))
    rng = np.random.default_rng(0)
    with path.open("w") as file:
        file.write("step,trained,tested,kind,score,n\n")
        for now in range(TASKS):
            scores = rng.integers(0, 1001, (per_task, now + 1)) / 1000
            file.writelines(
                f"{now * per_task + k + 1},t{now},t{task},probe,{score},1000\n"
                for k, row in enumerate(scores)
                for task, score in enumerate(row.tolist())
            )


def make_store(folder: Path, runs: int, lines: int, seeds: int) -> tuple[Path, Path]:
    """Write a study of finished runs, all with the same points; return its file and the store."""
    file, store, points = folder / "study.toml", folder / "runs", folder / "points.csv"
    text = ['scenarios = ["split-digits"]', f"seeds = {seeds}", 'strategies = ["naive", "replay"]']
    variants = range(max(1, runs // (2 * seeds)))
    text += [f"[variant.v{k}]\nlr = {0.0001 * (k + 1):.4f}" for k in variants]
    file.write_text("\n".join(text) + "\n")
    write_points(points, lines)
    data = points.read_bytes()
    store.mkdir()
    for _, config in study_status(read_study(file), store).planned:
        run = store / config.folder
        run.mkdir()
        metadata = {
            "schema": 3, "setting": "class", "config": msgspec.to_builtins(config), "notes": [],
            "tasks": [f"t{k}" for k in range(TASKS)], "classes": [2] * TASKS,
            "evaluation": {"every": 1, "subset": 1000},
            "scale": {"low": 0.0, "high": 1.0, "lower_is_better": False, "name": "accuracy"},
        }  # fmt: skip
        (run / "run.json").write_text(json.dumps(metadata, indent=1))
        (run / "points.csv").write_bytes(data)
        (run / "done.json").write_text("{}\n")
    return file, store


def sizes_up_to(most: int) -> list[int]:
    """Return a hundredth, a tenth and the whole of a size."""
    return [size for size in (most // 100, most // 10, most) if size]


def training(folder: Path, options: argparse.Namespace) -> None:
    """The cost of evaluating after every iteration: by iterations, and by tasks seen."""
    print_table("iterations, 5 tasks seen", "CPU time", "per iteration", "most memory")
    for steps in (options.iterations // 4, options.iterations // 2, options.iterations):
        cost = measure([sys.executable, "-c", TRAINING, str(steps), "5"], folder)
        spent = float(cost.output)
        each, memory = f"{1e3 * spent / steps:.2f} ms", f"{cost.mebibytes:,.0f} MiB"
        print_row(f"{steps:,}", f"{spent:.2f} s", each, memory)
    print_table("tasks seen, 1000 examples each", "per iteration", "per task")
    steps = options.iterations // 4
    for seen in (5, 10, 20, 40):
        spent = float(
            measure([sys.executable, "-c", TRAINING, str(steps), str(seen)], folder).output
        )
        each = 1e3 * spent / steps
        print_row(seen, f"{each:.2f} ms", f"{each / seen:.3f} ms")


def streams(folder: Path, options: argparse.Namespace) -> None:
    """The cost of scoring a points.csv, and a stream in memory, by its length."""
    print_table(
        "evaluations", "`perdure score points.csv`", "memory", "`Stream` in memory", "memory"
    )
    for lines in sizes_up_to(options.evaluations):
        path = folder / f"{lines}.csv"
        write_points(path, lines)
        score = measure([*PERDURE, "score", path.name], folder)
        print_row(
            f"{lines:,}", score, measure([sys.executable, "-c", IN_MEMORY, str(lines)], folder)
        )
        path.unlink()


def stores(folder: Path, options: argparse.Namespace) -> None:
    """The cost of commands over a store, by its number of runs."""
    group = "from perdure.record.grouping import find_groups; find_groups(['runs'])"
    for runs in sizes_up_to(options.runs):
        with tempfile.TemporaryDirectory(dir=folder) as name:
            here = Path(name)
            make_store(here, runs, lines=60, seeds=max(1, runs // METHODS))
            print_table(f"{len(list((here / 'runs').iterdir())):,} runs", "seconds", "memory")
            commands = {
                "perdure runs list": [*PERDURE, "runs", "list"],
                "the runs grouped by method": [sys.executable, "-c", group],
                "perdure study status": [*PERDURE, "study", "status", "study.toml"],
                "perdure report of ten seeds": [*PERDURE, "report", "runs/*-s[0-9]-*"],
            }
            if runs <= options.scored:
                metric = [*PERDURE, "score", "runs", "--metrics", "acc"]
                commands |= {"perdure score --metrics acc": metric}
                commands |= {"perdure score": [*PERDURE, "score", "runs"]}
            for what, command in commands.items():
                print_row(f"`{what}`", measure(command, here))


def reports(folder: Path, options: argparse.Namespace) -> None:
    """The cost of a report, by its number of runs, with ten seeds of each method."""
    print_table("runs in a report, 3000 points each", "written in", "memory", "size")
    for runs in sizes_up_to(options.reported):
        with tempfile.TemporaryDirectory(dir=folder) as name:
            make_store(Path(name), runs, lines=3000, seeds=min(10, max(2, runs // 2)))
            cost = measure([*PERDURE, "report", "runs"], Path(name))
            size = (Path(name) / "report.html").stat().st_size / 1e6
            print_row(runs, cost, f"{size:.1f} MB")


def describe_machine() -> str:
    """Return versions, the processor, and how busy it is."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    processor = next((line.split(":")[1].strip() for line in lines if "model name" in line), "?")
    return (
        f"perdure {perdure.__version__}, Python {platform.python_version()}, "
        f"NumPy {np.__version__}, {processor}, {os.cpu_count()} cores, {platform.system()}, "
        f"load {os.getloadavg()[0]:.1f}"
    )


def main() -> None:
    """Measure what is named on the command line, or everything."""
    parts = {"training": training, "streams": streams, "stores": stores, "reports": reports}
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("parts", nargs="*", help=f"some of {', '.join(parts)}; all by default")
    parser.add_argument("--iterations", type=int, default=4000)
    parser.add_argument("--evaluations", type=int, default=10_000_000, help="lines of a points.csv")
    parser.add_argument("--runs", type=int, default=100_000, help="in the largest store")
    parser.add_argument("--scored", type=int, default=1000, help="runs that are scored at most")
    parser.add_argument("--reported", type=int, default=1000, help="runs in the largest report")
    options = parser.parse_args()
    print(describe_machine())
    base = SHARED_MEMORY if SHARED_MEMORY.is_dir() else None
    for name in options.parts or parts:
        with tempfile.TemporaryDirectory(dir=base) as folder:
            parts[name](Path(folder), options)


if __name__ == "__main__":
    main()
