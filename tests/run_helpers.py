"""Packs made by hand and real ones, and `perdure run` inside this process or really started."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import time
from collections import defaultdict
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest.mock import patch

import numpy as np

from perdure import execution
from perdure.data import Dataset, Split
from perdure.scenarios import Scenario, make_scenario

from .cli_helpers import Answer, environment, installed, run
from .data_helpers import mirror

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from perdure.execution import Job
    from perdure.execution.events import OnEvent

# An interrupt may come while Python reads a file to import it, which then nobody closes.
UNTIL_INTERRUPTED = {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "error,ignore::ResourceWarning"}
PATIENCE = 600.0  # seconds: a busy machine is slow, and only a fault waits so long
SMALL = ("--epochs", "1", "--every", "10", "--set", "hidden=16")
_FOLDER = TemporaryDirectory(prefix="perdure-tests-")  # of decoded packs, shared by all tests


class Point(NamedTuple):
    """A line of points.csv."""

    step: int
    trained: str
    tested: str
    kind: str
    score: float


@contextmanager
def real_data() -> Iterator[None]:
    """Let the real packs be found, or skip; what is decoded is kept for the session."""
    with patch.dict(os.environ, {"PERDURE_DATA": str(mirror()), "PERDURE_CACHE": _FOLDER.name}):
        yield


@cache
def named(name: str, setting: Any = None, size: int | None = None) -> Scenario:
    """Return a named scenario made of real packs, once a session."""
    with real_data():
        return make_scenario(name, setting=setting, size=size)


def made_up(
    classes: int = 6, n: int = 60, shape: tuple[int, int, int] = (1, 4, 4), name: str = "made-up"
) -> Dataset:
    """Return random images with random labels; every class is there in both splits."""
    rng = np.random.default_rng([classes, n, *shape])
    splits = []
    for count in (n, n // 2):
        x = rng.integers(0, 256, (count, *shape), dtype=np.uint8)
        splits.append(Split(x, rng.permutation(np.arange(count) % classes)))
    return Dataset(
        name=name, train=splits[0], test=splits[1], classes=tuple(f"c{k}" for k in range(classes)),
        source="bundled", revision=None, sha256={"all": "0" * 64}, notes=(f"{name}: made up",),
    )  # fmt: skip


def inside(*arguments: str | Path, terminal: bool = False) -> Answer:
    """Run `perdure run` with the children's work done in this process, which spares seconds."""

    def here(jobs: Sequence[Job], on_event: OnEvent, *, max_parallel: int | None) -> None:
        execution.run_serially(jobs, lambda *_: None)

    with patch.object(execution, "run_in_processes", here):
        return run("run", *arguments, terminal=terminal)


def done(*arguments: str | Path) -> list[Path]:
    """Return the folders of runs that `inside` finished."""
    answer = inside(*arguments, "--format", "json")
    assert answer.code == 0, answer.err
    return [Path(folder) for folder in json.loads(answer.out)["runs"]]


def points(folder: Path) -> list[Point]:
    """Return the lines of points.csv, read by nothing of ours."""
    with (folder / "points.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return [
        Point(int(r["step"]), r["trained"], r["tested"], r["kind"], float(r["score"])) for r in rows
    ]


def kept_by_hand(folder: Path) -> dict[str, dict[str, float]]:
    """Return learned, lowest, end and lost of each task, straight from the definitions.

    Learned and end: the whole set at the end of its own task and of the last. Lowest: the lowest
    of all tests after its own task had ended; at a step that has a probe, the whole set is not
    counted again.
    """
    rows = [row for row in points(folder) if row.kind != "initial"]
    order = list(dict.fromkeys(row.trained for row in rows))
    full = {(row.trained, row.tested): row.score for row in rows if row.kind == "full"}
    probed = {(row.step, row.tested) for row in rows if row.kind == "probe"}
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for k, task in enumerate(order):
        found[task]["learned"], found[task]["at the end"] = full[task, task], full[order[-1], task]
        later = [
            row.score
            for row in rows
            if row.tested == task
            and row.trained in order[k + 1 :]
            and (row.kind == "probe" or (row.step, task) not in probed)
        ]
        if later:
            found[task]["lowest since"] = min(later)
            found[task]["lost"] = full[task, task] - full[order[-1], task]
    return found


def printed_table(text: str) -> dict[str, dict[str, str]]:
    """Return the cells of the first table in what was printed, by task and column."""
    lines = text.splitlines()
    first = next(k for k, line in enumerate(lines) if line.startswith("task "))
    header = re.split(r"\s{2,}", lines[first].strip())
    table = {}
    for line in lines[first + 1 :]:
        if not line.strip():
            break
        cells = re.split(r"\s{2,}", line.strip())
        if len(cells) == 3:  # the last task: nothing came after it
            cells = [*cells[:2], "", cells[2], ""]
        table[cells[0]] = dict(zip(header[1:], cells[1:], strict=True))
    return table


class Command:
    """`perdure run`, or another command, really started in a process group of its own."""

    def __init__(
        self, *arguments: str | Path, cwd: Path, words: Sequence[str] = ("run",), **variables: str
    ) -> None:
        self.process = subprocess.Popen(
            [*installed(), *words, *map(str, arguments)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=cwd, start_new_session=True,
            env=environment() | UNTIL_INTERRUPTED | variables,
        )  # fmt: skip
        self._known: set[int] = set()

    def children(self) -> set[int]:
        """Return the processes of all seeds so far."""
        for path in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                if int(path.read_text().rsplit(")", 1)[1].split()[1]) == self.process.pid:
                    self._known.add(int(path.parent.name))
        return self._known

    def left(self) -> set[int]:
        """Return those that still run."""
        return {pid for pid in self._known if is_alive(pid)}

    def interrupt(self, *, group: bool) -> None:
        self.children()
        with suppress(ProcessLookupError):
            (os.killpg if group else os.kill)(self.process.pid, signal.SIGINT)

    def end(self) -> Answer:
        """Wait for the end and return what was said."""
        out, err = self.process.communicate(timeout=PATIENCE)
        return Answer(self.process.returncode, out.decode(), err.decode())

    def __enter__(self) -> Command:
        return self

    def __exit__(self, *_: object) -> None:
        self.children()
        for pid in (self.process.pid, *self._known):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.communicate(timeout=PATIENCE)


def is_alive(pid: int) -> bool:
    """Return whether a process runs; one that only waits to be asked about does not."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    return False


def until(come: Callable[[], Any], what: str) -> None:
    """Wait for something, or fail."""
    end = time.monotonic() + PATIENCE
    while not come():
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.01)


def recorded(store: Path, least: int = 30) -> list[Path]:
    """Return the runs in a store that have at least so many points."""
    files = store.glob("*/points.csv")
    return [path.parent for path in files if path.read_bytes().count(b"\n") > least]
