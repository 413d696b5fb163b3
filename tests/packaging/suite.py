"""Runs the tests with some Python, and says what came of it."""

from __future__ import annotations

import os
import platform
import subprocess
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET

from .environments import ROOT

# Left out by every log: tests that take minutes, or start processes and browsers.
QUICK = ("-m", "not slow and not long", "-n", "2", "--dist", "loadfile", "-q")


class Outcome(NamedTuple):
    """What a run of the suite came to."""

    passed: int
    failed: list[str]
    skipped: int
    seconds: float


def run_suite(python: str | Path, environment: dict[str, str], *arguments: str) -> Outcome:
    """Run the suite with a Python and return what came of it."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [str(python), "-m", "pytest", f"--junitxml={report}", *arguments]
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


def one_thread() -> dict[str, str]:
    """Return the environment for tests: two processes of two threads take too long on two cores."""
    return os.environ | {"OMP_NUM_THREADS": "1"}


def where() -> str:
    """Return the date and the machine, as a log begins."""
    cores = len(os.sched_getaffinity(0))
    return f"{datetime.now(UTC):%Y-%m-%d}, {processor()}, {cores} cores"


def processor() -> str:
    """Return the name of the processor."""
    info = Path("/proc/cpuinfo")
    for line in info.read_text().splitlines() if info.exists() else []:
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
