"""The fast tests as other processors would run them, and without PyTorch on Python 3.13.

`make test-processors` prints a line per setting, writes the lines to LOG, and fails if a test
does. Arguments are handed to pytest, and then nothing is written.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET

import numpy as np
import torch

import perdure

ROOT = Path(__file__).parents[1]
LOG = ROOT / "studies" / "processors" / "processors.txt"
# The kernels of PyTorch and those of oneDNN; at last this processor's own, with one thread. The
# others have one as well, as in `make test`: two processes of two threads take too long on two
# cores.
SETTINGS = {
    "ATEN_CPU_CAPABILITY=default": {"ATEN_CPU_CAPABILITY": "default"},
    "ATEN_CPU_CAPABILITY=avx2": {"ATEN_CPU_CAPABILITY": "avx2"},
    "ONEDNN_MAX_CPU_ISA=AVX2": {"ONEDNN_MAX_CPU_ISA": "AVX2"},
    "one thread": {"MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
}
WITHOUT_TORCH = "Python 3.13 without PyTorch"
SUITE = ("-m", "not slow", "-n", "2", "--dist", "loadfile", "--no-loadscope-reorder", "-q")
COLUMNS = "{:27}  {:8}  {:>6}  {:>6}  {:>7}  {:>7}"


class Outcome(NamedTuple):
    """What a run of the suite came to."""

    passed: int
    failed: list[str]
    skipped: int
    seconds: float


def main() -> int:
    """Run the suite under each setting and return 1 if a test failed, else 0."""
    lines, failed = header(), False
    for setting in (*SETTINGS, WITHOUT_TORCH):
        if setting == WITHOUT_TORCH:
            kernels, outcome = "", outcome_without_torch()
        else:
            kernels, outcome = kernels_of(setting), outcome_of(sys.executable, variables(setting))
        if outcome is None:
            new = [f"{WITHOUT_TORCH}: skipped, there is no python3.13 on PATH"]
        else:
            counts = outcome.passed, len(outcome.failed), outcome.skipped, f"{outcome.seconds:.0f}"
            new = [COLUMNS.format(setting, kernels, *counts)]
            new += [f"  failed: {name}" for name in outcome.failed]
            failed |= bool(outcome.failed or not outcome.passed)
        print(*new, sep="\n", flush=True)
        lines += new
    print("", *lines, sep="\n")
    if not sys.argv[1:]:
        LOG.parent.mkdir(exist_ok=True)
        LOG.write_text("\n".join(lines) + "\n")
    return int(failed)


def header() -> list[str]:
    """Return what the log begins with: where and with what it was made."""
    cores = len(os.sched_getaffinity(0))
    versions = f"perdure {perdure.__version__}, Python {platform.python_version()}, "
    versions += f"torch {torch.__version__}, numpy {np.__version__}"
    return [
        "# The fast tests under settings of the processor, written by `make test-processors`.",
        f"# {datetime.now(UTC):%Y-%m-%d}, {processor()}, {cores} cores, {versions}",
        COLUMNS.format("setting", "kernels", "passed", "failed", "skipped", "seconds"),
    ]


def processor() -> str:
    """Return the name of the processor."""
    info = Path("/proc/cpuinfo")
    for line in info.read_text().splitlines() if info.exists() else []:
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def variables(setting: str) -> dict[str, str]:
    """Return the environment with this setting and nothing of the others."""
    known = {name for each in SETTINGS.values() for name in each}
    kept = {name: value for name, value in os.environ.items() if name not in known}
    return kept | {"OMP_NUM_THREADS": "1"} | SETTINGS.get(setting, {})


def kernels_of(setting: str) -> str:
    """Return which kernels PyTorch chooses."""
    code = "import torch; print(torch.backends.cpu.get_cpu_capability())"
    command = [sys.executable, "-c", code]
    return subprocess.check_output(command, env=variables(setting), text=True).strip()


def outcome_of(python: str, environment: dict[str, str]) -> Outcome:
    """Run the suite and return what came of it."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [python, "-m", "pytest", *SUITE, f"--junitxml={report}", *sys.argv[1:]]
        subprocess.run(command, env=environment, cwd=ROOT, check=False)
        suite = ET.parse(report).getroot().find("testsuite")
    assert suite is not None
    names = [
        f"{case.get('classname')}::{case.get('name')}"
        for case in suite.iter("testcase")
        if case.find("failure") is not None or case.find("error") is not None
    ]
    count = {key: int(suite.get(key, 0)) for key in ("tests", "failures", "errors", "skipped")}
    passed = count["tests"] - count["failures"] - count["errors"] - count["skipped"]
    return Outcome(passed, names, count["skipped"], float(suite.get("time", 0)))


def outcome_without_torch() -> Outcome | None:
    """Run what needs no PyTorch, in an environment of its own; None without a Python for it."""
    python = next(filter(is_python, (f"{path}/python3.13" for path in os.get_exec_path())), None)
    if python is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([python, "-m", "venv", folder], check=True)
        install = [f"{folder}/bin/python", "-m", "pip", "--disable-pip-version-check", "-qq"]
        locked = Path(folder) / "requirements.txt"
        lock = (ROOT / "requirements.lock").read_text().splitlines()
        locked.write_text("\n".join(line for line in lock if not line.startswith("torch==")))
        subprocess.run([*install, "install", "-r", str(locked)], check=True)
        own = ["install", "--no-deps", "--no-build-isolation", "-e", str(ROOT)]
        subprocess.run([*install, *own], check=True)
        return outcome_of(f"{folder}/bin/python", variables(WITHOUT_TORCH))


def is_python(path: str) -> bool:
    """Return whether a program runs as Python 3.13; one that only names a missing one does not."""
    command = [path, "-c", "import sys; sys.exit(sys.version_info[:2] != (3, 13))"]
    try:
        return subprocess.run(command, check=False, capture_output=True).returncode == 0
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(main())
