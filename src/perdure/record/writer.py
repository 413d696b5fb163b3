"""Writing a run folder: appended and flushed at each evaluation, readable at any time."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypedDict

from .formats.tables import COST_COLUMNS
from .io.folder import (
    OTHER_FOLDER,
    UNFINISHED_PATTERN,
    Appender,
    FilePosition,
    RecordError,
    check_folder,
    explain_os_error,
    replace,
)
from .io.lock import Lock
from .io.text import csv_field
from .per_example_writer import PerExampleWriter, TaskPosition
from .run_folder import (
    CHECKPOINT_FILE,
    CHECKPOINT_FOLDER,
    CONFUSION_FILE,
    COSTS_FILE,
    DONE_FILE,
    FAILED_FILE,
    GRADIENTS_FILE,
    PER_EXAMPLE_FOLDER,
    POINTS_FILE,
    RUN_FILE,
    TRAIN_POINTS_FILE,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from .per_example_writer import Ids, PerExampleFile, Results

__all__ = ["RunWriter", "WriterPosition"]

POINTS_HEADER = b"step,trained,tested,kind,score,n\n"
# Tables that not every run has; each begins with its first line.
HEADERS = {
    GRADIENTS_FILE: b"step,trained,plasticity,stability\n",
    CONFUSION_FILE: b"step,trained,tested,label,predicted,count\n",
    TRAIN_POINTS_FILE: POINTS_HEADER,
}
OUR_FILES = (RUN_FILE, POINTS_FILE, COSTS_FILE, *HEADERS, FAILED_FILE, DONE_FILE)


class WriterPosition(TypedDict):
    """How far every file of a run is: bytes and their SHA-256, as plain data for a checkpoint."""

    points: FilePosition
    tables: dict[str, FilePosition]
    per_example: list[TaskPosition]


class RunWriter:
    """The one writer of a run folder.

    Args:
        folder: where the record goes; created if it is not there.
        metadata: what ran, for run.json.
        overwrite: replace a run that is already there; "unfinished" replaces no finished one.
        resume: keep the unfinished run that is there up to this `position`.

    Example:
        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> with RunWriter(folder, {"setting": "class"}) as writer:
        ...     writer.append_points(["1,a,a,probe,0.5,2"])
        ...     writer.finish()
        >>> (Path(folder) / "points.csv").read_text().splitlines()
        ['step,trained,tested,kind,score,n', '1,a,a,probe,0.5,2']
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        metadata: Mapping[str, object],
        *,
        overwrite: bool | Literal["unfinished"] = False,
        resume: WriterPosition | None = None,
    ) -> None:
        self.folder = Path(folder).absolute()  # a program may change its working directory
        self._owner, self._open = os.getpid(), False
        self._batched = False
        self._points: Appender | None = None
        self._tables: dict[str, Appender] = {}
        self._per_example = PerExampleWriter(self.folder / PER_EXAMPLE_FOLDER)
        self._lock = self._take_folder(overwrite=overwrite, resume=resume is not None)
        self._open = True
        try:
            if resume is None:
                self._begin(metadata)
            else:
                self._resume(metadata, resume)
        except BaseException:
            self.close()
            raise

    def _take_folder(self, *, overwrite: bool | Literal["unfinished"], resume: bool) -> Lock:
        """Return the lock of the folder, in which a run may now begin or be resumed."""
        folder = self.folder
        if folder.is_file():
            raise RecordError(f"{folder}: file exists, expected a folder; {OTHER_FOLDER}")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = Lock(folder)
        except OSError as error:
            raise explain_os_error(folder, error) from None
        try:  # now that nobody else can change what is there
            _remove_unfinished_files(folder)
            if not resume:
                _remove_run(folder, overwrite=overwrite)
            elif (folder / DONE_FILE).exists() and overwrite is not True:
                raise RecordError(
                    f"{folder}: holds a finished run; overwrite=True resumes it from the state "
                    "given, and drops what it recorded after that"
                )
        except BaseException as error:
            lock.release()
            if isinstance(error, OSError):
                raise explain_os_error(folder, error) from None
            raise
        return lock

    def _begin(self, metadata: Mapping[str, object]) -> None:
        try:
            self.write_metadata(metadata)  # first: points without it look like another tool's
            self._points = Appender(self.folder / POINTS_FILE, POINTS_HEADER)
            self._points.flush()
        except BaseException:  # what could not begin is no run
            for name in (POINTS_FILE, RUN_FILE):
                (self.folder / name).unlink(missing_ok=True)
            raise

    def _resume(self, metadata: Mapping[str, object], position: WriterPosition) -> None:
        """Cut every file back to where it was, so that what follows is not there twice."""
        for name in (DONE_FILE, FAILED_FILE):
            (self.folder / name).unlink(missing_ok=True)
        self._points = Appender(self.folder / POINTS_FILE, keep=position["points"])
        for name, keep in position["tables"].items():
            self._tables[name] = Appender(self.folder / name, keep=keep)
        for name in HEADERS.keys() - self._tables.keys():
            (self.folder / name).unlink(missing_ok=True)
        results = position["per_example"]
        self._per_example = PerExampleWriter(self.folder / PER_EXAMPLE_FOLDER, results)
        self.write_metadata(metadata)

    def position(self) -> WriterPosition:
        """Return how far every file is, to resume from here; all of it is on the disk."""
        self.sync()
        assert self._points is not None
        return {
            "points": self._points.position,
            "tables": {name: file.position for name, file in self._tables.items()},
            "per_example": self._per_example.position(),
        }

    def write_metadata(self, metadata: Mapping[str, object]) -> None:
        """Replace run.json."""
        self._check_open()
        text = json.dumps(metadata, indent=1, allow_nan=False, ensure_ascii=False)
        replace(self.folder / RUN_FILE, text + "\n")

    def append_points(
        self,
        lines: Sequence[str],
        subsets: Sequence[Results] = (),
        whole_sets: Sequence[Results] = (),
        confusion: Sequence[str] = (),
        train: Sequence[str] = (),
    ) -> None:
        """Append the lines of evaluations, and what belongs to them in other files.

        Results are (number of the task, steps, which examples were right in a row per step), on
        subsets and on whole sets. `confusion` are lines of confusion.csv and `train` of
        train_points.csv. All of these are written first: an evaluation that has its lines has its
        results. If the disk refuses, what is left is written by the next call.
        """
        self._check_open()
        assert self._points is not None
        self._per_example.queue(subsets, whole=False)
        self._per_example.queue(whole_sets, whole=True)
        for name, more in ((CONFUSION_FILE, confusion), (TRAIN_POINTS_FILE, train)):
            if more:
                self._queue_lines(name, more)
        if lines:
            self._points.queue(("\n".join(lines) + "\n").encode())
        if not self._batched:
            self._flush()

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Write what is appended inside this block at its end, in one go."""
        self._batched = True
        try:
            yield
        finally:
            self._batched = False
            self._flush()

    def add_per_example(self, tasks: Sequence[str], ids: Ids, *, whole: bool = False) -> None:
        """Begin the results of the last of `tasks`, on its subset or whole set of these ids."""
        self._check_open()
        self._per_example.add_task(tasks, ids, whole=whole)

    def append_gradients(self, line: str) -> None:
        """Append a line to gradients.csv."""
        self._check_open()
        self._queue_lines(GRADIENTS_FILE, [line])
        self._tables[GRADIENTS_FILE].flush()

    def _queue_lines(self, name: str, lines: Sequence[str]) -> None:
        if name not in self._tables:
            self._tables[name] = Appender(self.folder / name, HEADERS[name])
        self._tables[name].queue(("\n".join(lines) + "\n").encode())

    def write_costs(self, rows: Mapping[str, Mapping[str, float | None]]) -> None:
        """Replace costs.csv: one line per task in order of learning, empty where not measured."""
        self._check_open()
        lines = ["task," + ",".join(COST_COLUMNS)]
        for task, row in rows.items():
            cells = ["" if row.get(name) is None else f"{row[name]:.12g}" for name in COST_COLUMNS]
            lines.append(",".join([csv_field(task), *cells]))
        if rows:
            replace(self.folder / COSTS_FILE, "\n".join(lines) + "\n")
        else:
            (self.folder / COSTS_FILE).unlink(missing_ok=True)

    def sync(self) -> None:
        """Write what waits, and wait until the disk has everything."""
        self._check_open()
        self._flush()
        for file in self._files():
            file.sync()

    def finish(self, **details: object) -> None:
        """Write done.json: nothing follows. Raises if another process has changed the record."""
        self.sync()
        for file in self._files():
            file.check()
        replace(self.folder / DONE_FILE, json.dumps(details, indent=1, ensure_ascii=False) + "\n")

    def close(self) -> None:
        """Close the files and release the folder; a second call does nothing.

        In a forked child nothing is written: the run belongs to its parent.
        """
        own, self._open = self._open and os.getpid() == self._owner, False
        try:
            if own:
                self._flush()  # what waited for disk space
        finally:
            for file in self._files():
                file.close()
            if os.getpid() == self._owner:
                self._lock.release()

    def _flush(self) -> None:
        for file in self._files():
            file.flush()

    @property
    def is_open(self) -> bool:
        """Whether anything can still be written."""
        return self._open

    def _check_open(self) -> None:
        if not self._open:
            raise RecordError(f"{self.folder}: the record is closed; nothing can follow")

    def __enter__(self) -> RunWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _files(self) -> list[Appender | PerExampleFile]:
        """Return the open files in the order they are written in: points after their results."""
        points = [] if self._points is None else [self._points]
        return [*self._per_example.files.values(), *self._tables.values(), *points]


def _remove_unfinished_files(folder: Path) -> None:
    """Remove what a process was writing when it was killed; raise if a folder is a link."""
    for name in (PER_EXAMPLE_FOLDER, CHECKPOINT_FOLDER):
        check_folder(folder / name)
        for pattern in (UNFINISHED_PATTERN, f"{name}/{UNFINISHED_PATTERN}"):
            for path in folder.glob(pattern):
                path.unlink()


def _remove_run(folder: Path, *, overwrite: bool | Literal["unfinished"]) -> None:
    """Remove the run in `folder` if it may be replaced; raise if it may not."""
    files = [name for name in OUR_FILES if (folder / name).exists()]
    results = [
        path
        for pattern in ("*.bin", "*.npy", "tasks.json")
        for path in folder.glob(f"{PER_EXAMPLE_FOLDER}/{pattern}")
    ]
    checkpoint = folder / CHECKPOINT_FILE
    if not (files or results or checkpoint.exists()):
        return
    finished = DONE_FILE in files
    if not overwrite or (finished and overwrite == "unfinished"):
        state = "a finished" if finished else "an unfinished"
        raise RecordError(
            f"{folder}: holds {state} run already; {OTHER_FOLDER}, or replace it with "
            "overwrite=True in perdure.Record(…) or perdure.Log(…)"
        )
    (folder / DONE_FILE).unlink(missing_ok=True)  # first: a part of a run is not finished
    checkpoint.unlink(missing_ok=True)  # nor can it be resumed
    for name in reversed(files):  # points before run.json: never a log that looks foreign
        (folder / name).unlink(missing_ok=True)
    for path in results:
        path.unlink()
