"""Writing per_example/: files of records, one or two per task, created with their first record."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

import numpy as np

from .io.folder import Appender, FilePosition, explain_os_error, replace

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    Ids = NDArray[np.integer]
    # The number of a task, steps, and a row per step: which examples were right.
    Results = tuple[int, Sequence[int], NDArray[np.bool_]]

__all__ = ["PerExampleWriter", "TaskPosition"]

TaskPosition = tuple[str, FilePosition | None, FilePosition | None]  # of subset and whole set


class PerExampleWriter:
    """The files of per_example/, by the number of the task and whether they hold whole sets.

    Args:
        folder: per_example/ of a run.
        position: what `position` returned; later records are removed. None begins a new record.
    """

    def __init__(self, folder: Path, position: Sequence[TaskPosition] | None = None) -> None:
        self.files: dict[tuple[int, bool], PerExampleFile] = {}
        self._folder = folder
        self._tasks: list[str] = []
        if position is not None:
            self._resume(position)

    def _resume(self, position: Sequence[TaskPosition]) -> None:
        """Cut every file back to its position, and remove those that were begun later."""
        self._tasks = [task for task, *_ in position]
        for number, (_, *positions) in enumerate(position):
            for whole, at in zip((False, True), positions, strict=True):
                if at is not None:
                    file = PerExampleFile(self._folder, self._tasks, _file_stem(number, whole))
                    file.resume(at)
                    self.files[number, whole] = file
        kept = {_file_stem(number, whole) for number, whole in self.files}
        for path in [*self._folder.glob("*.bin"), *self._folder.glob("*.npy")]:
            if path.stem not in kept and path.stem.removesuffix(".full").isdecimal():
                path.unlink()
        if self._tasks:
            replace(self._folder / "tasks.json", json.dumps(self._tasks, ensure_ascii=False))
        else:
            (self._folder / "tasks.json").unlink(missing_ok=True)

    def add_task(self, tasks: Sequence[str], ids: Ids, *, whole: bool) -> None:
        """Begin the file of the last of `tasks`, for its subset or whole set of these ids."""
        self._tasks += tasks[len(self._tasks) :]
        number = len(tasks) - 1
        stem = _file_stem(number, whole)
        self.files[number, whole] = PerExampleFile(self._folder, self._tasks, stem, ids)

    def queue(self, results: Sequence[Results], *, whole: bool) -> None:
        """Have the results of evaluations written by the next `flush` of the files."""
        for number, steps, right in results:
            starts = np.array(steps, dtype="<i8").view(np.uint8).reshape(-1, 8)
            records = np.concatenate([starts, np.packbits(right, axis=1)], axis=1)
            self.files[number, whole].queue(records.tobytes())

    def position(self) -> list[TaskPosition]:
        """Return how far the files of each task are; they must have been flushed."""
        positions = {key: file.position for key, file in self.files.items()}
        return [
            (task, positions.get((number, False)), positions.get((number, True)))
            for number, task in enumerate(self._tasks)
        ]


class PerExampleFile:
    """The records of one task: created when there is one to write, and again if that failed.

    `tasks` is the list of the writer, which grows.
    """

    def __init__(self, folder: Path, tasks: list[str], stem: str, ids: Ids | None = None) -> None:
        self._folder, self._tasks, self._stem, self._ids = folder, tasks, stem, ids
        self._file: Appender | None = None
        self._waiting = b""  # until the file is there

    @property
    def position(self) -> FilePosition:
        """How far the file is."""
        assert self._file is not None  # the writer has flushed
        return self._file.position

    def resume(self, position: FilePosition) -> None:
        """Open the file and cut it back to `position`."""
        self._file = Appender(self._folder / f"{self._stem}.bin", keep=position)

    def queue(self, data: bytes) -> None:
        """Have a record written by the next `flush`."""
        if self._file is None:
            self._waiting += data
        else:
            self._file.queue(data)

    def flush(self) -> None:
        """Write what waits, or raise RecordError and keep it."""
        if self._file is None:
            self._file = self._create()
        self._file.flush()

    def _create(self) -> Appender:
        try:
            self._folder.mkdir(exist_ok=True)
        except OSError as error:
            raise explain_os_error(self._folder, error) from None
        ids = io.BytesIO()
        assert self._ids is not None
        np.save(ids, self._ids)
        replace(self._folder / f"{self._stem}.npy", ids.getvalue())  # first: records need it
        replace(self._folder / "tasks.json", json.dumps(self._tasks, ensure_ascii=False))
        return Appender(self._folder / f"{self._stem}.bin", self._waiting)

    def sync(self) -> None:
        """Make sure that the disk has it."""
        if self._file is not None:
            self._file.sync()

    def check(self) -> None:
        """Raise RecordError if the file is not the one that was written here."""
        if self._file is not None:
            self._file.check()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


def _file_stem(number: int, whole: bool) -> str:
    return f"{number}.full" if whole else f"{number}"
