"""What scoring costs: import, cold start, many tasks, a long stream, and how cost grows.

python benchmarks/bench.py            # prints a Markdown table; results are kept in RESULTS.md
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from perdure import Stream, SummaryOptions, __version__, summary
from perdure.metrics import LiveWindow, drops
from perdure.record import read_points

PERDURE = Path(sys.executable).with_name("perdure")
MATRIX = "[[.8,.3,.1,.1,.1],[.6,.7,.7,.1,.1],[.9,.6,.6,.2,.1],[.5,.8,.6,.9,.2],[.6,.5,.7,.5,.9]]"


def best(command: list[str], times: int = 10) -> float:
    """Return the shortest wall-clock time of a command in seconds."""
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        taken.append(time.perf_counter() - start)
    return min(taken)


def long_stream(evaluations: int, tasks: int) -> Stream:
    """Return a stream of tasks that are all tested at every evaluation, seen or not."""
    rng = np.random.default_rng(0)
    each = evaluations // tasks
    data, spans = {}, []
    for k in range(tasks):
        steps = np.arange(1, evaluations + 1)
        data[f"task {k}"] = (steps, rng.random(len(steps)))
        spans.append((f"task {k}", (k + 1) * each if k < tasks - 1 else evaluations))
    return Stream(data, spans)


def timed_summary(evaluations: int, tasks: int, windows: tuple[int | None, ...]) -> float:
    stream = long_stream(evaluations, tasks)
    start = time.perf_counter()
    summary(stream, options=SummaryOptions(windows=windows))
    return time.perf_counter() - start


def reading_speed(lines: int) -> float:
    """Return how many lines of a points.csv are read in a second."""
    text = "step,trained,tested,kind,score,n\n" + "".join(
        f"{k // 5},task {k * 5 // lines},task {k % 5},probe,{k * 7919 % 1000 / 1000},1000\n"
        for k in range(5, lines + 5)
    )
    start = time.perf_counter()
    read_points(text, "points.csv")
    return lines / (time.perf_counter() - start)


def many_tasks(folder: Path) -> list[tuple[str, str]]:
    """Time `perdure score` of many tasks: a run that tests few of them at a time, and a matrix."""
    rng = np.random.default_rng(0)
    tasks, lines = 10_000, ["step,trained,tested,kind,score,n"]
    for k in range(tasks):
        for step in (2 * k + 1, 2 * k + 2):
            tested = np.unique(np.append(rng.integers(0, k + 1, 5), k))
            lines += [f"{step},t{k},t{task},probe,{rng.random():.3f},1000" for task in tested]
    lines += [f"{2 * tasks},t{tasks - 1},t{k},full,{rng.random():.3f},1000" for k in range(tasks)]
    points, csv, npy = folder / "points.csv", folder / "matrix.csv", folder / "matrix.npy"
    points.write_text("\n".join(lines) + "\n")
    matrix = rng.random((2000, 2000)).round(4)
    np.savetxt(csv, matrix, "%.4f", delimiter=",")
    np.save(npy, matrix)
    rows = []
    for path, what in (
        (points, f"points.csv, {tasks:,} tasks, {len(lines) - 1:,} lines"),
        (csv, "matrix.csv, 2,000 tasks"),
        (npy, "matrix.npy, 2,000 tasks"),
    ):
        for only in (["--metrics", "acc"], ["--metrics", "min_acc,gap.depth"], []):
            if only[1:] != ["min_acc,gap.depth"] or path == points:
                taken = best([str(PERDURE), "score", str(path), *only], times=3)
                rows.append((f"score {' '.join(only) or 'all'}, {what}", f"{taken:.1f} s"))
    return rows


def memory_of_summary(evaluations: int, tasks: int) -> tuple[float, float]:
    """Return the stream's size and the most memory its summary took beyond it, in MiB."""
    code = (
        "import sys, tracemalloc; sys.path.insert(0, sys.argv[1])\n"
        "from bench import long_stream; from perdure import summary\n"
        f"stream = long_stream({evaluations}, {tasks})\n"
        "size = sum(s.nbytes + a.nbytes for s, a in stream.tasks.values())\n"
        "tracemalloc.start()\n"
        "summary(stream)\n"
        "print(size / 2**20, tracemalloc.get_traced_memory()[1] / 2**20)"
    )
    here = str(Path(__file__).parent)
    out = subprocess.run(
        [sys.executable, "-c", code, here], check=True, capture_output=True, text=True
    ).stdout.split()
    return float(out[0]), float(out[1])


def main() -> None:
    rows: list[tuple[str, str]] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.json"
        path.write_text(json.dumps(json.loads(MATRIX.replace("[.", "[0.").replace(",.", ",0."))))
        rows.append(("python -c pass", f"{best([sys.executable, '-c', 'pass']):.3f} s"))
        rows.append(("import numpy", f"{best([sys.executable, '-c', 'import numpy']):.3f} s"))
        rows.append(("import perdure", f"{best([sys.executable, '-c', 'import perdure']):.3f} s"))
        rows.append(
            ("perdure score, 5x5, cold", f"{best([str(PERDURE), 'score', str(path)]):.3f} s")
        )
        rows += many_tasks(Path(folder))
    timed_summary(1000, 2, (10,))  # imports what a first call imports
    for evaluations in (250_000, 500_000, 1_000_000):
        taken = timed_summary(evaluations, 20, (10, 100, None))
        rows.append((f"summary, {evaluations:,} evaluations x 20 tasks", f"{taken:.2f} s"))
    for window in (10, 1000, 100_000):
        taken = timed_summary(1_000_000, 20, (window,))
        rows.append((f"summary, 1,000,000 x 20, only window {window:,}", f"{taken:.2f} s"))
    size, extra = memory_of_summary(1_000_000, 20)
    rows.append(("stream of 1,000,000 x 20 in memory", f"{size:.0f} MiB"))
    rows.append(
        ("most memory its summary takes on top of it", f"{extra:.0f} MiB ({extra / size:.2f} x)")
    )
    rows.append(("points.csv, lines read in a second", f"{reading_speed(500_000):,.0f}"))
    scores = np.random.default_rng(0).random(1_000_000)
    start = time.perf_counter()
    drops(scores, 100)
    batch = (time.perf_counter() - start) / len(scores)
    live = LiveWindow(100)
    start = time.perf_counter()
    for score in scores[:200_000].tolist():
        live.update(score)
    rows.append(("wf100 whole, an evaluation", f"{1e9 * batch:.0f} ns"))
    rows.append(
        ("wf100 and wp100 live, an evaluation", f"{(time.perf_counter() - start) / 0.2:.2f} µs")
    )
    print(f"perdure {__version__}, Python {platform.python_version()}, NumPy {np.__version__}")
    print(f"{_processor()}, {os.cpu_count()} cores, {platform.system()}\n")
    print("| what | cost |\n|---|---:|")
    for what, cost in rows:
        print(f"| {what} | {cost} |")


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":")[1].strip() for line in lines if "model name" in line), "?")


if __name__ == "__main__":
    main()
