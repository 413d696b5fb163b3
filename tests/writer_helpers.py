"""Disks that are full, operations that are interrupted, and runs to write."""

from __future__ import annotations

import errno
import linecache
import os
import signal
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from perdure.record import RecordError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from numpy.typing import NDArray

    from perdure.record import RunWriter

HEADER = "step,trained,tested,kind,score,n\n"
EXAMPLES = 11  # not a multiple of 8


class Disk:
    """A disk that does as it is told: each write takes the next of `plan`.

    None writes everything, a number that many bytes, -1 nothing: no space left.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.plan: list[int | None] = []
        self.then: int | None = None
        self.written: list[str] = []  # names of files, in order
        self.after: Callable[[], object] = lambda: None
        self._real = os.pwrite
        monkeypatch.setattr(os, "pwrite", self._pwrite)

    def _pwrite(self, file: int, data: bytes, at: int) -> int:
        room = self.plan.pop(0) if self.plan else self.then
        if room == -1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.written.append(name_of(file))
        done = self._real(file, data if room is None else data[: max(room, 1)], at)
        self.after()
        return done


def name_of(file: int) -> str:
    """Return the name of an open file."""
    return Path(f"/proc/self/fd/{file}").readlink().name


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def right(step: int, task: int) -> NDArray[np.bool_]:
    """Return which examples of a task are right after so many steps."""
    return np.random.default_rng([step, task]).random(EXAMPLES) < 0.6


def evaluate(writer: RunWriter, step: int, trained: str, tasks: list[str]) -> None:
    """Record one evaluation of all tasks by probe, with hits."""
    rows = [right(step, task) for task in range(len(tasks))]
    writer.append_points(
        [
            f"{step},{trained},{task},probe,{int(row.sum()) / EXAMPLES!r},{EXAMPLES}"
            for task, row in zip(tasks, rows, strict=True)
        ],
        [(number, [step], row[None]) for number, row in enumerate(rows)],
    )


def recorded(folder: Path) -> list[str]:
    """Return the lines of points.csv, all of which are whole."""
    text = (folder / "points.csv").read_text()
    assert text.endswith("\n")
    assert text.startswith(HEADER)
    return text.splitlines()[1:]


def hits_of(folder: Path, number: int) -> dict[int, NDArray[np.bool_]]:
    """Return the hits of a task by step, read by other means than ours; none is there twice."""
    data = (folder / f"per_example/{number}.bin").read_bytes()
    size = 8 + -(-EXAMPLES // 8)
    assert len(data) % size == 0
    found = {}
    for start in range(0, len(data), size):
        step = int.from_bytes(data[start : start + 8], "little")
        bits = np.unpackbits(np.frombuffer(data[start + 8 : start + size], np.uint8))
        assert step not in found
        found[step] = bits[:EXAMPLES].astype(bool)
    return found


@contextmanager
def one_line(*words: str) -> Iterator[None]:
    """Expect a RecordError of one line that says what is wrong and what to do about it."""
    with pytest.raises(RecordError) as caught:
        yield
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    assert len(message) < 400
    assert any(advice in message for advice in ("choose another", "overwrite=True", "close it"))
    for word in words:
        assert word in message, f"{word!r} is not in {message!r}"


def may_interrupt(frame: FrameType) -> bool:
    """Return whether Python itself would: never between the end of a block and its `__exit__`."""
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
    return not line.lstrip().startswith("with ")


class Interrupt:
    """An interrupt at the given line, counted from 0, that is executed in one of `files`.

    Says where that was: nowhere if fewer lines were executed. No generator: a frame that an error
    is thrown into keeps, since Python 3.13, everything alive that the error has come through.
    """

    def __init__(self, number: int, *files: str) -> None:
        self._left, self._files = number, files
        self.at: list[str] = []

    def _trace(self, frame: FrameType, event: str, _: object) -> object:
        name = frame.f_code.co_filename
        if not name.endswith(self._files):
            return None
        if event == "line" and not self.at and may_interrupt(frame):
            if self._left == 0:
                self.at.append(f"{Path(name).name}:{frame.f_lineno}")
                signal.raise_signal(signal.SIGINT)
                return self._trace
            self._left -= 1
        return self._trace

    def __enter__(self) -> list[str]:
        self._before = sys.gettrace()
        self._handler = signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.settrace(self._trace)  # type: ignore[arg-type]
        return self.at

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        sys.settrace(self._before)
        signal.signal(signal.SIGINT, self._handler)
        assert kind is not KeyboardInterrupt or self.at, "an interrupt of somebody else's"
        return kind is KeyboardInterrupt
