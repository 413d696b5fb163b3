"""Writing a run folder: appended and flushed at each evaluation, readable at any time."""

from __future__ import annotations

import csv
import io
import json
import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from .costs_file import COST_COLUMNS
from .io.append import BEING_WRITTEN, Appender, Lock, RecordError, check_folder, explained, replace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    Hit = tuple[int, int, NDArray[np.bool_]]

__all__ = ["RunWriter", "csv_field"]

POINTS_HEADER = b"step,trained,tested,kind,score,n\n"
GRADIENTS_HEADER = b"step,trained,plasticity,stability\n"
OURS = ("run.json", "points.csv", "costs.csv", "gradients.csv", "failed.json", "done.json")


class RunWriter:
    """The one writer of a run folder.

    Args:
        folder: where the record goes; made if it is not there.
        description: what ran, for run.json.
        overwrite: replace a run that is already there; "unfinished" replaces no finished one.
        go_on: keep the unfinished run that is there up to this `position`.

    Example:
        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> with RunWriter(folder, {"setting": "class"}) as writer:
        ...     writer.points(["1,a,a,probe,0.5,2"])
        ...     writer.done()
        >>> (Path(folder) / "points.csv").read_text().splitlines()
        ['step,trained,tested,kind,score,n', '1,a,a,probe,0.5,2']
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        description: Mapping[str, Any],
        *,
        overwrite: bool | Literal["unfinished"] = False,
        go_on: Mapping[str, Any] | None = None,
    ) -> None:
        self.folder = Path(folder).absolute()  # a program may change its own folder
        self._owner, self._open = os.getpid(), False
        self._per_example: dict[
            tuple[int, bool], _PerExampleFile
        ] = {}  # by task's number, whole set or not
        self._recorded_tasks: list[str] = []
        self._gradients: Appender | None = None
        if self.folder.is_file():
            raise RecordError(
                f"{folder}: file exists, expected a folder; choose another record folder"
            )
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = Lock(self.folder)
        except OSError as error:
            raise explained(self.folder, error) from None
        try:  # what is there is asked now that nobody else can change it
            _tidy(self.folder)
            if go_on is None:
                _make_room(self.folder, overwrite=overwrite)
            elif (self.folder / "done.json").exists() and overwrite is not True:
                raise RecordError(
                    f"{folder}: holds a finished run; overwrite=True resumes it from the state "
                    "given, and drops what it recorded after that"
                )
        except BaseException as error:
            self._lock.release()
            if isinstance(error, OSError):
                raise explained(self.folder, error) from None
            raise
        if go_on is not None:
            self._go_on(description, go_on)
            return
        try:
            self._open = True
            self.describe(description)  # first: points without it would look like another tool's
            self._points = Appender(self.folder / "points.csv", POINTS_HEADER)
            self._points.flush()
        except BaseException:  # what could not begin is no run
            for name in ("points.csv", "run.json"):
                (self.folder / name).unlink(missing_ok=True)
            self.close()
            raise

    def _go_on(self, description: Mapping[str, Any], position: Mapping[str, Any]) -> None:
        """Cut every file back to where it was, so that what follows is not there twice."""
        try:
            self._open = True
            for name in ("done.json", "failed.json"):
                (self.folder / name).unlink(missing_ok=True)
            self._points = Appender(self.folder / "points.csv", keep=position["points"])
            gradients = self.folder / "gradients.csv"
            if position["gradients"] is None:
                gradients.unlink(missing_ok=True)
            else:
                self._gradients = Appender(gradients, keep=position["gradients"])
            self._recorded_tasks = [task for task, _, _ in position["per_example"]]
            self._per_example = _cut_per_example(
                self.folder / "per_example", self._recorded_tasks, position["per_example"]
            )
            self.describe(description)
        except BaseException:
            self.close()
            raise

    def position(self) -> dict[str, Any]:
        """Return how far every file is, for going on from here; the disk has it all."""
        self.sync()
        return {
            "points": self._points.position,
            "gradients": None if self._gradients is None else self._gradients.position,
            "per_example": [
                [
                    task,
                    *(self._per_example_position(number, whole=whole) for whole in (False, True)),
                ]
                for number, task in enumerate(self._recorded_tasks)
            ],
        }

    def _per_example_position(self, number: int, *, whole: bool) -> tuple[int, str] | None:
        file = self._per_example.get((number, whole))
        return None if file is None else file.position

    def describe(self, description: Mapping[str, Any]) -> None:
        """Replace run.json."""
        self._check_open()
        text = json.dumps(description, indent=1, allow_nan=False, ensure_ascii=False)
        replace(self.folder / "run.json", text + "\n")

    def points(
        self,
        lines: Sequence[str],
        hits: Sequence[Hit] = (),
        whole: Sequence[Hit] = (),
    ) -> None:
        """Append the lines of one evaluation, and (task's number, step, right or wrong) of each.

        `hits` are those of subsets, `whole` those of whole evaluation sets.

        Per-example results go first: an evaluation that has its lines has its hits. If the disk
        refuses, what is left waits for the next call.
        """
        self._check_open()
        for of_whole, several in ((False, hits), (True, whole)):
            for number, step, right in several:
                record = step.to_bytes(8, "little", signed=True) + np.packbits(right).tobytes()
                self._per_example[number, of_whole].queue(record)
        self._points.queue(("\n".join(lines) + "\n").encode())
        self._flush()

    def add_per_example(
        self, tasks: Sequence[str], ids: NDArray[np.integer[Any]], *, whole: bool = False
    ) -> None:
        """Begin the hits of the last of `tasks`, of its subset or its whole set, with these ids."""
        self._check_open()
        self._recorded_tasks += tasks[len(self._recorded_tasks) :]
        file = _PerExampleFile(
            self.folder / "per_example", self._recorded_tasks, len(tasks) - 1, ids, whole=whole
        )
        self._per_example[len(tasks) - 1, whole] = file

    def gradient(self, line: str) -> None:
        """Append a line to gradients.csv."""
        self._check_open()
        if self._gradients is None:
            self._gradients = Appender(self.folder / "gradients.csv", GRADIENTS_HEADER)
        self._gradients.append((line + "\n").encode())

    def costs(self, rows: Mapping[str, Mapping[str, float | None]]) -> None:
        """Replace costs.csv: a line a task in order of learning, empty where not measured."""
        self._check_open()
        lines = ["task," + ",".join(COST_COLUMNS)]
        for task, row in rows.items():
            cells = ["" if row.get(name) is None else f"{row[name]:.12g}" for name in COST_COLUMNS]
            lines.append(",".join([csv_field(task), *cells]))
        if rows:
            replace(self.folder / "costs.csv", "\n".join(lines) + "\n")
        else:
            (self.folder / "costs.csv").unlink(missing_ok=True)

    def sync(self) -> None:
        """Write what waits, and wait until the disk has everything."""
        self._check_open()
        self._flush()
        for file in self._files():
            file.sync()

    def done(self, **said: Any) -> None:
        """Write done.json: nothing follows. Raises if what was written is not there any more."""
        self.sync()
        for file in self._files():
            file.check()
        replace(self.folder / "done.json", json.dumps(said, indent=1, ensure_ascii=False) + "\n")

    def close(self) -> None:
        """Close the files and let go of the folder; a second call does nothing.

        In a forked child nothing is written: the run is its parent's.
        """
        mine, self._open = self._open and os.getpid() == self._owner, False
        try:
            if mine:
                self._flush()  # what waited for room
        finally:
            for file in self._files():
                file.close()
            if os.getpid() == self._owner:
                self._lock.release()

    def _flush(self) -> None:
        for file in self._files():
            file.flush()

    def _check_open(self) -> None:
        if not self._open:
            raise RecordError(f"{self.folder}: the record is closed; nothing can follow")

    def __enter__(self) -> RunWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _files(self) -> list[Appender | _PerExampleFile]:
        points = [self._points] if hasattr(self, "_points") else []
        gradients = [] if self._gradients is None else [self._gradients]
        return [*self._per_example.values(), *points, *gradients]


class _PerExampleFile:
    """The hits of one task: begun when there is something to write, and again if that failed.

    `tasks` are those of the writer, which has more of them by and by.
    """

    def __init__(
        self,
        folder: Path,
        tasks: list[str],
        number: int,
        ids: NDArray[np.integer[Any]],
        *,
        whole: bool,
    ) -> None:
        self._folder, self._tasks, self._ids = folder, tasks, ids
        self._name = f"{number}.full" if whole else f"{number}"
        self._file: Appender | None = None
        self._early = b""

    @property
    def position(self) -> tuple[int, str]:
        assert self._file is not None  # the writer has flushed
        return self._file.position

    def go_on(self, keep: tuple[int, str]) -> None:
        self._file = Appender(self._folder / f"{self._name}.bin", keep=keep)

    def queue(self, data: bytes) -> None:
        if self._file is None:
            self._early += data
        else:
            self._file.queue(data)

    def flush(self) -> None:
        if self._file is None:
            self._begin()
        assert self._file is not None
        self._file.flush()

    def _begin(self) -> None:
        try:
            self._folder.mkdir(exist_ok=True)
        except OSError as error:
            raise explained(self._folder, error) from None
        ids = io.BytesIO()
        np.save(ids, self._ids)
        replace(self._folder / f"{self._name}.npy", ids.getvalue())  # first: no hits without it
        replace(self._folder / "tasks.json", json.dumps(self._tasks, ensure_ascii=False))
        self._file = Appender(self._folder / f"{self._name}.bin", self._early)

    def sync(self) -> None:
        if self._file is not None:
            self._file.sync()

    def check(self) -> None:
        if self._file is not None:
            self._file.check()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _cut_per_example(
    folder: Path,
    tasks: list[str],
    position: Sequence[tuple[str, tuple[int, str] | None, tuple[int, str] | None]],
) -> dict[tuple[int, bool], _PerExampleFile]:
    """Return the files of hits, cut back; those that were begun later are removed."""
    found = {}
    for number, (_, *sizes) in enumerate(position):
        for whole, size in enumerate(sizes):
            if size is not None:
                empty = np.empty(0, np.int64)
                file = _PerExampleFile(folder, tasks, number, empty, whole=bool(whole))
                file.go_on(size)
                found[number, bool(whole)] = file
    kept = {f"{number}.full" if whole else f"{number}" for number, whole in found}
    for path in [*folder.glob("*.bin"), *folder.glob("*.npy")]:
        if path.stem not in kept and path.stem.removesuffix(".full").isdecimal():
            path.unlink()
    if tasks:
        replace(folder / "tasks.json", json.dumps(tasks, ensure_ascii=False))
    else:
        (folder / "tasks.json").unlink(missing_ok=True)
    return found


@cache
def csv_field(text: str) -> str:
    """Return `text` as a field of a CSV line, quoted where it must be.

    Example:
        >>> csv_field("digits 0-1"), csv_field("a, b")
        ('digits 0-1', '"a, b"')
    """
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow([text])
    return line.getvalue()


def _tidy(folder: Path) -> None:
    """Remove what a process was writing when it was killed; raise if a folder leads elsewhere."""
    for name in ("per_example", "checkpoint"):
        check_folder(folder / name)
        for stale in (*folder.glob(BEING_WRITTEN), *folder.glob(f"{name}/{BEING_WRITTEN}")):
            stale.unlink()


def _make_room(folder: Path, *, overwrite: bool | Literal["unfinished"]) -> None:
    """Raise if `folder` holds a run, or remove that run if it may be replaced."""
    there = [name for name in OURS if (folder / name).exists()]
    hits = [
        *folder.glob("per_example/*.bin"),
        *folder.glob("per_example/*.npy"),
        *folder.glob("per_example/tasks.json"),
    ]
    saved = [*folder.glob("checkpoint/state.safetensors")]
    if not (there or hits or saved):
        return
    finished = "done.json" in there
    if not overwrite or (finished and overwrite == "unfinished"):
        state = "a finished" if finished else "an unfinished"
        raise RecordError(
            f"{folder}: holds {state} run already; choose another record folder, or "
            "overwrite=True to replace it"
        )
    for path in saved:  # first: there is no going on with what is removed now
        path.unlink()
    for name in reversed(there):  # points go before run.json: never a log that looks foreign
        (folder / name).unlink()
    for path in hits:
        path.unlink()
