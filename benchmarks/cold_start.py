"""How long commands take that train little or nothing, each in a new process.

    STARTS=7 ONLY=naive python benchmarks/cold_start.py [BEFORE]

BEFORE is another checkout, to compare with; ONLY selects the commands that contain a text. The
least of several starts is printed: the time on the clock and the CPU time, which counts on a
machine that is busy with other work. The last row is the time from the start of a command to the
record of its first iteration.
"""

from __future__ import annotations

import os
import platform
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = Path(__file__).parents[1]
STARTS = int(os.environ.get("STARTS", "7"))
ONLY = os.environ.get("ONLY", "")
RUN = "run split-digits naive --iterations 5 --every 5 --seeds 1"
COMMANDS = (
    "--version",
    "list strategies",
    "reproduce",
    "run --dry-run",
    "run split-mnist ewc --dry-run",
    RUN,  # finished before
    "study status study.toml",
    "study run study.toml",  # finished before
    "run split-digits naive --iterations 1 --seeds 1 --restart",
)
FIRST_ITERATION = "run split-digits naive --seeds 1"
STUDY = """scenarios = ["split-digits"]
strategies = ["naive"]
seeds = 1
[run]
iterations = 5
every = 5
"""


def measure(checkout: Path, command: str, folder: Path) -> tuple[float, float]:
    """Return the least time on the clock and the least CPU time of a command, in seconds."""
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src"), "PERDURE_QUIET": "1"}
    times = []
    for _ in range(STARTS):
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "perdure", *command.split()], cwd=folder, env=environment,
            capture_output=True, check=True,
        )  # fmt: skip
        wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        times.append((wall, cpu))
    return min(wall for wall, _ in times), min(cpu for _, cpu in times)


def measure_first_iteration(checkout: Path) -> tuple[float, float]:
    """Return the least time and CPU time until a run has recorded its first iteration."""
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src"), "PERDURE_QUIET": "1"}
    times = []
    for _ in range(STARTS):
        with tempfile.TemporaryDirectory() as store:
            start = time.perf_counter()
            command = [sys.executable, "-m", "perdure", *FIRST_ITERATION.split(), "--store", store]
            process = subprocess.Popen(
                command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            while not any(map(_has_iteration, Path(store).glob("*/points.csv"))):
                if process.poll() is not None:
                    raise RuntimeError(f"the run ended with {process.returncode}")
                time.sleep(0.005)
            times.append((time.perf_counter() - start, _cpu_seconds(process.pid)))
            process.send_signal(signal.SIGINT)
            process.wait()
    return min(wall for wall, _ in times), min(cpu for _, cpu in times)


def _cpu_seconds(pid: int) -> float:
    """Return the CPU time so far of a process and those that it started (Linux)."""
    folder = Path(f"/proc/{pid}")
    fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
    own = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    children = (folder / "task" / str(pid) / "children").read_text().split()
    return own + sum(_cpu_seconds(int(child)) for child in children)


def _has_iteration(points: Path) -> bool:
    steps = (line.split(",")[0] for line in points.read_text(encoding="utf-8").splitlines()[1:])
    return any(int(step) > 0 for step in steps)


def prepare(checkout: Path, folder: Path) -> None:
    """Run what the commands find finished."""
    folder.mkdir()
    (folder / "study.toml").write_text(STUDY, encoding="utf-8")
    for command in (RUN, "study run study.toml"):
        environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
        subprocess.run(
            [sys.executable, "-m", "perdure", *command.split()], cwd=folder, env=environment,
            capture_output=True, check=True,
        )  # fmt: skip


def main(before: str | None = None) -> None:
    """Print a row per command: seconds on the clock (CPU seconds), before and after."""
    checkouts = [*([Path(before)] if before else []), ROOT]
    write = sys.stdout.write
    write(f"{platform.machine()}, Python {platform.python_version()}, least of {STARTS} starts\n")
    with tempfile.TemporaryDirectory() as folder:
        for k, checkout in enumerate(checkouts):
            prepare(checkout, Path(folder) / str(k))
        titles = ["before", "after"] if before else ["now"]
        write(f"| command | {' | '.join(titles)} |\n|---|{'---:|' * len(titles)}\n")
        for command in (command for command in COMMANDS if ONLY in command):
            cells = (
                measure(checkout, command, Path(folder) / str(k))
                for k, checkout in enumerate(checkouts)
            )
            _write_row(f"`perdure {command}`", cells)
        _write_row(
            f"`perdure {FIRST_ITERATION}`, first iteration", map(measure_first_iteration, checkouts)
        )


def _write_row(title: str, cells: Iterable[tuple[float, float]]) -> None:
    texts = (f"{wall:.2f} s ({cpu:.2f})" for wall, cpu in cells)
    sys.stdout.write(f"| {title} | {' | '.join(texts)} |\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
