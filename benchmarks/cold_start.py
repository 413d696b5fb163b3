"""How long commands take that train nothing, each in a new process; optionally of two checkouts.

    python benchmarks/cold_start.py [BEFORE]

BEFORE is another checkout. The least of several starts is printed: the time on the clock and the
CPU time, which counts on a machine that is busy with other work.
"""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
STARTS = int(os.environ.get("STARTS", "7"))
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
)
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
        for command in COMMANDS:
            cells = []
            for k, checkout in enumerate(checkouts):
                wall, cpu = measure(checkout, command, Path(folder) / str(k))
                cells.append(f"{wall:.2f} s ({cpu:.2f})")
            write(f"| `perdure {command}` | {' | '.join(cells)} |\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
