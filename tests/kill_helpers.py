"""Starting trainers, finding their processes and killing them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from . import killed_trainer
from .cli_helpers import environment

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE = 600.0  # seconds: a busy machine is slow, and only a fault waits so long
Moment = tuple[str, float]  # what the trainer has said, and seconds after that


class Trainer:
    """One training process, and what it has said."""

    def __init__(self, server: Server, home: Path, where: str, then: str) -> None:
        home.mkdir()
        self.folder, self._side, self._errors = home / "run", home / "side", home / "errors"
        self._server = server
        arguments = [str(self.folder), str(self._side), where, then]
        self.pid = server.ask(start=arguments, errors=str(self._errors))
        self.code: int | None = None  # how it ended

    def said(self) -> list[str]:
        """Return what it said of how far it has come, oldest first."""
        with suppress(FileNotFoundError):
            return self._side.read_text().splitlines()
        return []

    def steps(self) -> int:
        """Return how many steps were complete for sure."""
        return max((int(mark[5:]) for mark in self.said() if mark.startswith("step ")), default=0)

    def errors(self) -> str:
        return self._errors.read_text()

    def has_points(self) -> bool:
        path = self.folder / "points.csv"
        return path.exists() and path.read_bytes().count(b"\n") > 1

    def wait_for(self, moment: Moment) -> None:
        """Wait for a moment of its life; `points` is when the first ones appear."""
        mark, delay = moment

        def come() -> bool:
            return self.has_points() if mark == "points" else mark in self.said()

        until(lambda: come() or state_of(self.pid) is None, f"{mark!r} does not come")
        assert come(), f"it ended before {mark!r}: {self.errors()}"
        time.sleep(delay)

    def wait(self) -> int:
        """Return its exit code once it has ended."""
        if self.code is None:
            until(lambda: state_of(self.pid) is None, f"it hangs after {self.said()[-1:]}")
            self.code = self._server.ask(wait=self.pid)
        return self.code

    def kill(self) -> int:
        """Kill it, and return its exit code."""
        os.kill(self.pid, signal.SIGKILL)
        return self.wait()

    def children(self) -> list[int]:
        """Return the processes it started that live."""
        return [pid for pid, (parent, _) in alive().items() if parent == self.pid]

    def family(self) -> list[int]:
        """Return it and every process it started that lives, also if the parent is gone."""
        return [pid for pid, (_, session) in alive().items() if session == self.pid]

    def shared_files(self) -> list[Path]:
        """Return the files in memory that its family has mapped or open."""
        found = set()
        for pid in self.family():
            with suppress(OSError):  # it ended just now
                maps = Path(f"/proc/{pid}/maps").read_text().splitlines()
                found |= {line.split()[-1] for line in maps if line}
                found |= {str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir()}
        return [Path(name) for name in found if name.startswith("/dev/shm/")]


class Server:
    """The process that starts trainers, with PyTorch already imported."""

    def __init__(self, temporary: Path) -> None:
        self.temporary = temporary
        self._trainers: list[Trainer] = []
        self._process = subprocess.Popen(
            [sys.executable, "-m", killed_trainer.__name__],
            env=environment() | {"PYTHONWARNINGS": "default", "TMPDIR": str(temporary)},
            cwd=Path(__file__).parents[1],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, **what: object) -> int:
        return asked(self._process, what)

    def start(self, home: Path, where: str = "inline", then: str = "go") -> Trainer:
        self._trainers.append(Trainer(self, home, where, then))
        return self._trainers[-1]

    def close(self) -> None:
        for trainer in self._trainers:
            for pid in trainer.family():  # what a failed test left
                with suppress(OSError):
                    if killed_trainer.__name__ in Path(f"/proc/{pid}/cmdline").read_text():
                        os.kill(pid, signal.SIGKILL)
        self._process.communicate(timeout=PATIENCE)


def asked(process: subprocess.Popen[str], what: dict[str, object]) -> int:
    """Return what a serving process answers to a request of one line."""
    asks, answers = process.stdin, process.stdout
    assert asks is not None
    assert answers is not None
    asks.write(json.dumps(what) + "\n")
    asks.flush()
    return int(answers.readline())


def until(true: Callable[[], object], else_: str) -> None:
    """Wait until something is true."""
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, else_
        time.sleep(0.001)


def alive() -> dict[int, tuple[int, int]]:
    """Return parent and session of every process that has not ended."""
    pids = [int(path.name) for path in Path("/proc").glob("[0-9]*")]
    return {pid: state for pid in pids if (state := state_of(pid)) is not None}


def is_stopped(pid: int) -> bool:
    """Return whether a process waits for SIGCONT."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def state_of(pid: int) -> tuple[int, int] | None:
    """Return parent and session of a process, None if it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    state, parent, _, session = text.rpartition(")")[2].split()[:4]
    return None if state in "ZX" else (int(parent), int(session))
