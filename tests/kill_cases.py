"""Runs that are killed at random moments, finished by the same command, and compared."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

import perdure

from . import killed_command
from .cli_helpers import environment
from .kill_helpers import asked, state_of, until
from .run_helpers import Command

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).parents[1]
TIMED = ("seconds_train", "seconds_eval", "peak_bytes")  # of costs.csv: another time, others
OWN = ("created", "program", "resumed")  # of run.json
SHORT = ("--epochs", "3", "--every", "2", "--seeds", "1")


class Kill(NamedTuple):
    """What was killed at which moment, how far its record was, and what there was to go on from."""

    moment: str
    step: int
    saved: int


class Runner:
    """Starts `perdure run` again and again, as a process each; PyTorch is imported once."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", killed_command.__name__],
            env=environment() | {"PYTHONWARNINGS": "default", "OMP_NUM_THREADS": "1"},
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, **what: object) -> int:
        return asked(self._process, what)

    def start(
        self, arguments: Sequence[str], store: Path, moment: tuple[str, int] | None = None
    ) -> int:
        """Return the id of a process that does a run, and kills itself at some moment."""
        store.mkdir(exist_ok=True)
        given = [*arguments, "--store", str(store)]
        return self.ask(start=given, moment=moment, out=str(store / "said"))

    def end(self, pid: int) -> int:
        """Return the exit code of a process once it has ended."""
        until(lambda: state_of(pid) is None, f"process {pid} hangs")
        return self.ask(wait=pid)

    def finish(self, arguments: Sequence[str], store: Path) -> Path:
        """Return the folder of a run that is done to its end."""
        code = self.end(self.start(arguments, store))
        assert code == 0, (store / "said").read_text()
        (folder,) = folders(store)
        return folder

    def kill(self, arguments: Sequence[str], store: Path, moment: tuple[str, float]) -> Kill:
        """Start a run, kill it, and return what it left; a kill that comes too late fails."""
        kind, when = moment
        outside = kind in ("folder", "reach")
        before = {path.name for path in store.iterdir()} if store.exists() else set()
        pid = self.start(arguments, store, None if outside else (kind, int(when)))
        if outside:

            def come() -> bool:
                there = folders(store)
                if kind == "folder":
                    return any(path.name not in before for path in there)
                return bool(there) and writer_of(there[0]) == pid and last_step(there[0]) >= when

            until(lambda: come() or state_of(pid) is None, f"{kind} {when} does not come")
            os.kill(pid, signal.SIGKILL)
        code = self.end(pid)
        said = (store / "said").read_text()
        assert code == -signal.SIGKILL, f"{kind} {when} came too late, or: {said}"
        return left(store, kind)

    def close(self) -> None:
        self._process.communicate(timeout=60)


def left(store: Path, moment: str) -> Kill:
    """Return what a killed run left, after making sure that it was killed before its end."""
    there = folders(store)
    assert not [path for path in there if (path / "done.json").exists()], "it was finished"
    return Kill(moment, *((last_step(there[0]), saved_step(there[0])) if there else (0, 0)))


def writer_of(folder: Path) -> int:
    """Return the process that says it writes into a folder, 0 where none does yet."""
    with suppress(OSError, ValueError):
        return int(json.loads((folder / "lock").read_bytes())["pid"])
    return 0


def folders(store: Path) -> list[Path]:
    """Return the runs in a store; a kill may leave the hidden folder that tried to write."""
    paths = store.iterdir() if store.exists() else ()
    return sorted(p for p in paths if p.is_dir() and not p.name.startswith(".write-test-"))


def last_step(folder: Path) -> int:
    """Return the step of the last whole line of points.csv."""
    path = folder / "points.csv"
    whole = path.read_bytes().split(b"\n")[1:-1] if path.exists() else []
    return int(whole[-1].split(b",")[0]) if whole else 0


def saved_step(folder: Path) -> int:
    """Return the step of a checkpoint, read by nothing of ours; 0 where there is none."""
    path = folder / "checkpoint" / "state.safetensors"
    if not path.exists():
        return 0
    data = path.read_bytes()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    state = dict(json.loads(header["__metadata__"]["state"])["dict"])
    return int(dict(state["position"]["dict"])["step"])


def whole_record(folder: Path) -> dict[str, Any]:
    """Return all that a finished run left: bytes by file, costs and run.json as far as they last.

    done.json says the sha256 of the weights.
    """
    found: dict[str, Any] = {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    found.pop("scores.json", None)  # what readers keep there
    rows = list(csv.DictReader(found.get("costs.csv", b"").decode().splitlines()))
    found["costs.csv"] = [  # none in a stream without boundaries
        {k: v for k, v in row.items() if k not in TIMED} for row in rows
    ]
    said = json.loads(found["run.json"])
    found["run.json"] = {k: v for k, v in said.items() if k not in OWN}
    assert len(json.loads(found["done.json"])["weights"]) == 64
    return found


def differences(one: Path, other: Path) -> list[str]:
    """Return which files of two finished runs are not the same, bit for bit."""
    mine, theirs = whole_record(one), whole_record(other)
    return sorted(k for k in mine | theirs if mine.get(k) != theirs.get(k))


def resumed(folder: Path) -> list[int]:
    """Return the steps after which a run went on, as it says itself."""
    said = json.loads((folder / "run.json").read_text()).get("resumed", [])
    return [each["after_step"] for each in said]


def moments(chance: random.Random, steps: int, count: int) -> Iterator[tuple[str, float]]:
    """Yield moments to kill at, later ones further on: half anywhere, half where it hurts."""
    hurts = ["half", "between", "renamed", "torn", "operation", "operation"]
    for k in range(count):
        if k == 0 and count > 3 and chance.random() < 0.4:
            yield "folder", 0
        elif k == count - 1 and chance.random() < 0.3:
            yield "closing", 0
        elif chance.random() < 0.5:
            yield "reach", chance.uniform(0.9 * k, 0.9 * k + 0.8) * steps / count
        else:
            kind = chance.choice(hurts)
            yield kind, chance.randint(1 + (k == 0), {"torn": 60, "operation": 45}.get(kind, 3))


def killed_and_finished(
    runner: Runner, arguments: Sequence[str], home: Path, kills: Sequence[tuple[str, float]]
) -> tuple[list[Kill], list[str]]:
    """Return how a run was killed again and again, and what of its record is not as it should be.

    One that nobody disturbed, and that saves at the ends of tasks at most, is what it should be.
    """
    arguments, store = ["split-digits", *arguments], home / "killed"
    expected = runner.finish(arguments, home / "whole")
    often = [*arguments, "--checkpoint-every", "0.03"]
    done = [runner.kill(often, store, moment) for moment in kills]
    folder = runner.finish(often, store)
    assert not resumed(expected)
    went_on = resumed(folder)
    assert went_on[-1:] == [done[-1].saved] * (done[-1].saved > 0), (went_on, done)
    return done, differences(folder, expected)


def killed_command_and_finished(
    runner: Runner, arguments: Sequence[str], home: Path, kills: Sequence[tuple[str, float]]
) -> tuple[list[Kill], list[str]]:
    """Do the same with the command itself, really started: `kills` says who, at which step."""
    arguments, found = ["split-digits", *arguments], list[Kill]()
    expected = runner.finish(arguments, home / "whole")
    often = [*arguments, "--checkpoint-every", "0.03", "--store", str(home / "killed")]
    for who, step in kills:
        with Command(*often, cwd=ROOT) as command:

            def come(command: Command = command, step: float = step) -> bool:
                there = folders(home / "killed")
                mine = any(writer_of(folder) in command.children() for folder in there)
                return mine and last_step(there[0]) >= step

            until(come, f"step {step} does not come")
            _kill(command, who)
        found.append(left(home / "killed", who))
    with Command(*often, cwd=ROOT) as command:
        answer = command.end()
    assert answer.code == 0, answer.err
    assert "resuming from a checkpoint: seed 0" in answer.err
    (folder,) = folders(home / "killed")
    return found, differences(folder, expected)


def _kill(command: Command, who: str) -> None:
    """Kill the command with its child, or one of the two alone."""
    pid = command.process.pid
    (child,) = command.children()
    if who == "both":
        os.killpg(pid, signal.SIGKILL)
    elif who == "parent":
        os.kill(pid, signal.SIGKILL)
    else:
        os.kill(child, signal.SIGKILL)
        answer = command.end()
        assert answer.code == 1, answer.err
        assert "killed by signal 9 before the run was finished" in answer.err
    until(lambda: not command.left(), "its child does not end")


def in_words(number: int, arguments: Sequence[str], kills: Sequence[Kill], wrong: list[str]) -> str:
    """Return the line of a case in the log."""
    how = ", ".join(f"{kill.moment} {kill.step} from {kill.saved}" for kill in kills)
    equal = "equal" if not wrong else f"NOT EQUAL ({', '.join(wrong)})"
    options = " ".join(arguments[: -len(SHORT)])
    return f"{number:2}  {equal}  {len(kills)} kills: {how}  |  {options}"


def heading() -> str:
    """Return the first lines of the log."""
    versions = f"torch {torch.__version__}, numpy {np.__version__}"
    return f"""\
# SIGKILL at random moments of runs of split-digits. Each is then resumed by the same command and
# compared with an uninterrupted run (tests/test_training_kills.py): points, per-example results,
# gradients, the sha256 of the weights, run.json, and costs except seconds and peaks.
# All of them: {" ".join(SHORT)} --checkpoint-every 0.03
# {datetime.now(UTC):%Y-%m-%d}, perdure {perdure.__version__}, {versions}
#
# A kill: where, the last step in the record, and the step of the checkpoint that the next process
# resumes from (0: from scratch). folder: when it appears. reach: at some step. half: half of a
# checkpoint is written. between: the record is synced, the checkpoint is not begun. renamed: the
# checkpoint is complete. torn: half of an append is written. operation: before a file is opened,
# truncated, renamed or removed. closing: before done.json. both, parent, child: what is killed.
"""
