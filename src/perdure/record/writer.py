"""Writing a run folder: appended and flushed at each evaluation, readable at any time."""

from __future__ import annotations

import csv
import io
import json
import os
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ._append import Appender, Lock, RecordError, explained, replace
from .costs_file import COST_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

__all__ = ["RunWriter", "csv_field"]

OURS = ("run.json", "points.csv", "costs.csv", "gradients.csv", "done.json")


class RunWriter:
    """The one writer of a run folder.

    Args:
        folder: where the record goes; made if it is not there.
        description: what ran, for run.json.
        overwrite: replace a run that is already there.

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
        overwrite: bool = False,
    ) -> None:
        self.folder = Path(folder)
        self._owner = os.getpid()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = Lock(self.folder)
        except OSError as error:
            raise explained(self.folder, error) from None
        try:
            _make_room(self.folder, overwrite=overwrite)
            self.describe(description)
            header = b"step,trained,tested,kind,score,n\n"
            self._points = Appender(self.folder / "points.csv", header)
        except OSError as error:
            self._lock.release()
            raise explained(self.folder, error) from None
        except RecordError:
            self._lock.release()
            raise
        self._hits: list[Appender] = []
        self._gradients: Appender | None = None

    def describe(self, description: Mapping[str, Any]) -> None:
        """Replace run.json."""
        text = json.dumps(description, indent=1, allow_nan=False, ensure_ascii=False)
        replace(self.folder / "run.json", text + "\n")

    def points(
        self, lines: Sequence[str], hits: Sequence[tuple[int, int, NDArray[np.bool_]]] = ()
    ) -> None:
        """Append the lines of one evaluation, and (task's number, step, right or wrong) of each.

        Hits go first: an evaluation that has its lines has its hits. If the disk refuses, all of
        it waits for the next call.
        """
        records = [
            (
                self._hits[number],
                step.to_bytes(8, "little", signed=True) + np.packbits(right).tobytes(),
            )
            for number, step, right in hits
        ]
        failed = None
        for file, data in [*records, (self._points, ("\n".join(lines) + "\n").encode())]:
            try:
                file.append(data)
            except RecordError as error:
                failed = failed or error
        if failed is not None:
            raise failed

    def add_hits(self, tasks: Sequence[str], indices: NDArray[np.int64]) -> None:
        """Begin the hits of the last of `tasks`, whose examples stand at `indices` of its set."""
        try:
            folder = self.folder / "hits"
            folder.mkdir(exist_ok=True)
            number = len(tasks) - 1
            np.save(folder / f"{number}.npy", indices)
            replace(folder / "tasks.json", json.dumps(list(tasks), ensure_ascii=False))
            self._hits.append(Appender(folder / f"{number}.bin"))
        except OSError as error:
            raise explained(self.folder / "hits", error) from None

    def gradient(self, line: str) -> None:
        """Append a line to gradients.csv."""
        if self._gradients is None:
            header = b"step,trained,plasticity,stability\n"
            self._gradients = Appender(self.folder / "gradients.csv", header)
        self._gradients.append((line + "\n").encode())

    def costs(self, rows: Mapping[str, Mapping[str, float | None]]) -> None:
        """Replace costs.csv: a line a task in order of learning, empty where not measured."""
        lines = ["task," + ",".join(COST_COLUMNS)]
        for task, row in rows.items():
            cells = ["" if row.get(name) is None else f"{row[name]:.12g}" for name in COST_COLUMNS]
            lines.append(",".join([csv_field(task), *cells]))
        replace(self.folder / "costs.csv", "\n".join(lines) + "\n")

    def sync(self) -> None:
        """Wait until the disk has everything."""
        for file in self._files():
            file.sync()

    def done(self, **said: Any) -> None:
        """Write done.json: nothing follows."""
        self.sync()
        replace(self.folder / "done.json", json.dumps(said, indent=1, ensure_ascii=False) + "\n")

    def close(self) -> None:
        """Close the files and let go of the folder; a second call does nothing."""
        for file in self._files():
            with suppress(RecordError):
                file.append(b"")  # what waited for room
            file.close()
        if os.getpid() == self._owner:  # a forked child does not hold it
            self._lock.release()
        self._hits, self._gradients = [], None

    def __enter__(self) -> RunWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _files(self) -> list[Appender]:
        gradients = [] if self._gradients is None else [self._gradients]
        return [*self._hits, self._points, *gradients]


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


def _make_room(folder: Path, *, overwrite: bool) -> None:
    """Raise if `folder` holds a run, or remove that run if it may be replaced."""
    there = [name for name in OURS if (folder / name).exists()]
    hits = [*folder.glob("hits/*.bin"), *folder.glob("hits/*.npy"), *folder.glob("hits/tasks.json")]
    if not (there or hits):
        return
    if not overwrite:
        state = "a finished" if "done.json" in there else "an unfinished"
        raise RecordError(
            f"{folder}: holds {state} run already; choose another record folder, or "
            "overwrite=True to replace it"
        )
    for name in reversed(there):  # points go before run.json: never a log that looks foreign
        (folder / name).unlink()
    for path in hits:
        path.unlink()
