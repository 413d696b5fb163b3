"""RunFolder: the files of a run. No other module knows their names or reads run.json."""

from __future__ import annotations

import hashlib
import json
import os
import time
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from .formats.points import read_points
from .formats.tables import Confusion, Gradients, read_confusion, read_gradients
from .io.files import open_regular, read_file, read_json
from .io.folder import open_run_folder, read_range, replace, stat_file
from .io.folder import read_file as read_in_folder
from .io.lock import is_locked
from .io.text import decode
from .run_metadata import RunMetadata, ScoringMetadata, parse_held_out_accuracy, parse_metadata

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from .io.folder import FileStamp
    from .points import Points

__all__ = ["RunFolder", "RunState", "RunStatus", "holds_training_examples"]

RUN_FILE = "run.json"
POINTS_FILE = "points.csv"
TRAIN_POINTS_FILE = "train_points.csv"
COSTS_FILE = "costs.csv"
GRADIENTS_FILE = "gradients.csv"
CONFUSION_FILE = "confusion.csv"
DONE_FILE = "done.json"
FAILED_FILE = "failed.json"  # only an unfinished run has it
LOCK_FILE = "lock"
SUMMARY_FILE = "scores.json"
PER_EXAMPLE_FOLDER = "per_example"
CHECKPOINT_FOLDER = "checkpoint"
CHECKPOINT_FILE = "checkpoint/state.safetensors"
# The files whose presence makes a folder a run, and those that its status depends on.
MARKER_FILES = (RUN_FILE, POINTS_FILE, FAILED_FILE)
STATUS_FILES = (RUN_FILE, POINTS_FILE, DONE_FILE, FAILED_FILE, LOCK_FILE)  # as in RunFiles

MAX_TABLE = 1 << 30  # bytes of points.csv, gradients.csv or confusion.csv
MAX_JSON_IN_STORE = 4 << 20  # bytes, where many runs are read
MAX_LOCK = 4096
RECENT = 60.0  # seconds: a log of another tool has no lock, so it is running while it grows

RunState = Literal["finished", "failed", "running", "interrupted"]


class RunStatus(NamedTuple):
    """How far a run is. `reason` says why a failed run has failed."""

    state: RunState
    reason: str = ""


def holds_training_examples(path: str) -> bool:
    """Return whether a file has the evaluations of training examples, not of test sets.

    Example:
        >>> holds_training_examples("run/train_points.csv"), holds_training_examples("points.csv")
        (True, False)
    """
    return os.path.basename(path) == TRAIN_POINTS_FILE  # noqa: PTH119


class RunFiles(NamedTuple):
    """Inode, size and time of change of the files that a status depends on, None where missing."""

    metadata: FileStamp | None
    points: FileStamp | None
    done: FileStamp | None
    failed: FileStamp | None
    lock: FileStamp | None

    @property
    def changed_at(self) -> float:
        """When points.csv, or another file if there is none, was changed: seconds since 1970."""
        newest = self.points or next((stamp for stamp in self if stamp is not None), None)
        return 0.0 if newest is None else newest[2] / 1e9


class RunFolder:
    """The folder of a run: its status, what run.json says, and where its other files are.

    Nothing is read before it is asked for, so that a store of ten thousand runs is listed quickly.

    Args:
        path: the folder.
        descriptor: of the folder, opened by `RunFolder.open_without_links`.

    Example:
        >>> import tempfile
        >>> run = RunFolder(tempfile.mkdtemp())
        >>> run.is_run(), run.is_finished(), run.status().state
        (False, False, 'interrupted')
    """

    def __init__(self, path: str | os.PathLike[str], *, descriptor: int | None = None) -> None:
        self._path, self._descriptor = os.fspath(path), descriptor

    def __repr__(self) -> str:
        return f"RunFolder({self._path!r})"

    @classmethod
    @contextmanager
    def open_without_links(cls, path: str) -> Iterator[RunFolder]:
        """Open a folder in a store that may hold anything: no link is followed, no pipe waits.

        Raises OSError if the folder, or the one it is in, is a link or not there.
        """
        with open_run_folder(path) as descriptor:
            yield cls(path, descriptor=descriptor)

    @cached_property
    def path(self) -> Path:
        """The folder."""
        return Path(self._path)

    @property
    def name(self) -> str:
        """The name of the folder."""
        return self.path.name

    @property
    def metadata_path(self) -> Path:
        """run.json: what ran, and with what."""
        return self.path / RUN_FILE

    @property
    def points_path(self) -> Path:
        """points.csv: every evaluation."""
        return self.path / POINTS_FILE

    @property
    def costs_path(self) -> Path:
        """costs.csv: what each task cost."""
        return self.path / COSTS_FILE

    @property
    def per_example_path(self) -> Path:
        """per_example/: which examples were right."""
        return self.path / PER_EXAMPLE_FOLDER

    @property
    def checkpoint_path(self) -> Path:
        """checkpoint/: from where an unfinished run resumes."""
        return self.path / CHECKPOINT_FOLDER

    # Status. `os.path` takes half the time of `Path`: studies ask it of ten thousand runs.

    def is_run(self) -> bool:
        """Return whether the folder holds a run, ours or a log of another tool."""
        return any(os.path.isfile(f"{self._path}/{name}") for name in MARKER_FILES)  # noqa: PTH113

    def has_metadata(self) -> bool:
        """Return whether there is a run.json: the run is one of ours."""
        return os.path.lexists(f"{self._path}/{RUN_FILE}")  # a broken link is named when read

    def has_checkpoint(self) -> bool:
        """Return whether there is a checkpoint to resume from."""
        return os.path.exists(f"{self._path}/{CHECKPOINT_FILE}")  # noqa: PTH110

    def is_finished(self) -> bool:
        """Return whether the run has ended."""
        return all(os.path.exists(f"{self._path}/{name}") for name in (DONE_FILE, RUN_FILE))  # noqa: PTH110

    def finished_at(self) -> float:
        """Return when the run has ended, in seconds since 1970."""
        return os.stat(f"{self._path}/{DONE_FILE}").st_mtime  # noqa: PTH116

    def is_locked(self) -> bool:
        """Return whether a process writes into the folder."""
        return is_locked(self.path)

    def failure(self) -> str | None:
        """Return why the run has failed, None if it has not."""
        if not os.path.lexists(f"{self._path}/{FAILED_FILE}"):
            return None
        try:
            return str(self._read_json(FAILED_FILE)["error"])  # type: ignore[index]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return "it failed, and the reason cannot be read"

    def stat_files(self) -> RunFiles:
        """Return which of the files that the status depends on are there."""
        return RunFiles(*map(self._stat, STATUS_FILES))

    def status(self, files: RunFiles | None = None) -> RunStatus:
        """Return how far the run is; `files` are those of `stat_files`, where they are at hand."""
        files = files or self.stat_files()
        if files.done and files.metadata:
            return RunStatus("finished")
        if files.failed:
            return RunStatus("failed", self.failure() or "")
        if files.lock:
            alive = files.lock[1] <= MAX_LOCK and self.is_locked()
        else:
            alive = not files.metadata and abs(time.time() - files.changed_at) < RECENT
        return RunStatus("running" if alive else "interrupted")

    def stamps(self) -> tuple[int, ...]:
        """Return numbers that change when files are added, removed or replaced, or points grow.

        No file is opened: the live page asks it of every run, again and again.
        """
        numbers = [os.lstat(self._path).st_mtime_ns]
        with suppress(OSError):
            points = os.lstat(f"{self._path}/{POINTS_FILE}")
            numbers += [points.st_ino, points.st_size, points.st_mtime_ns]
        return tuple(numbers)

    # Contents.

    def metadata(self) -> RunMetadata:
        """Return what run.json says; raises FileNotFoundError, or InputError if it is broken."""
        return parse_metadata(self._read_json(RUN_FILE), f"{self.path}/{RUN_FILE}")

    def scoring_metadata(self) -> ScoringMetadata:
        """Return the fields of run.json that scoring depends on; raises as `metadata`."""
        return ScoringMetadata.parse(self._read_json(RUN_FILE), self.metadata_path)

    def gradients(self) -> Gradients | None:
        """Return the recorded gradient norms, None if there are none."""
        text, path = self._read_growing_table(GRADIENTS_FILE)
        return read_gradients(text, path)[0] if text else None

    def train_points(self) -> Points | None:
        """Return the evaluations of training examples, None if there are none."""
        text, path = self._read_growing_table(TRAIN_POINTS_FILE)
        if not text[text.find("\n") + 1 :].strip():  # at most a header
            return None
        scale = self.scoring_metadata().score_scale(self.metadata_path)
        return read_points(text, path, scale=scale, ours=True)

    def confusion(self) -> Confusion | None:
        """Return how often each class was predicted at task ends, None if it is not recorded."""
        text, path = self._read_growing_table(CONFUSION_FILE)
        return read_confusion(text, path) if text else None

    def _read_growing_table(self, name: str) -> tuple[str, str]:
        """Return the text of a table, empty if it is not there or just created, and its path."""
        path = self.path / name
        if not os.path.lexists(path):
            return "", str(path)
        text = decode(read_file(path, MAX_TABLE), str(path), growing=True)
        return text if "\n" in text else "", str(path)

    def held_out_accuracy(self) -> dict[str, list[float]]:
        """Return the accuracy that early stopping saw after each epoch of each task, if any."""
        if not os.path.lexists(self.path / DONE_FILE):
            return {}
        return parse_held_out_accuracy(self._read_json(DONE_FILE), self.path / DONE_FILE)

    def read_costs_text(self, limit: int) -> str:
        """Return the text of costs.csv, of at most `limit` bytes, or raise OSError."""
        return self._read(COSTS_FILE, limit).decode()

    def stat_points(self) -> FileStamp | None:
        """Return inode, size and time of change of points.csv, None if there is none."""
        return self._stat(POINTS_FILE)

    def read_points_range(self, start: int, size: int) -> bytes:
        """Return at most `size` bytes of points.csv from `start`."""
        assert self._descriptor is not None
        return read_range(self._descriptor, POINTS_FILE, start, size)

    def scoring_digest(self) -> str:
        """Return a SHA-256 digest of every file that metrics are computed from."""
        digest = hashlib.sha256()
        for name in (RUN_FILE, POINTS_FILE, COSTS_FILE):
            with suppress(FileNotFoundError), open_regular(self.path / name) as file:
                line = f"{name} {hashlib.file_digest(file, 'sha256').hexdigest()}\n"
                digest.update(line.encode())
        return digest.hexdigest()

    def cached_summary(self) -> object:
        """Return the contents of the summary cache; raises OSError or InputError."""
        return read_json(self.path / SUMMARY_FILE)

    # Files that are not written by a RunWriter.

    def write_failure(self, reason: str, code: int | None) -> None:
        """Write why the run has failed, so that it is not tried again unasked."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        text = json.dumps({"error": reason, "code": code, "at": now}, indent=1)
        self.path.mkdir(parents=True, exist_ok=True)
        replace(self.path / FAILED_FILE, text + "\n")

    def write_cached_summary(self, contents: Mapping[str, object]) -> None:
        """Replace the summary cache."""
        replace(self.path / SUMMARY_FILE, json.dumps(contents) + "\n")

    def _stat(self, name: str) -> FileStamp | None:
        if self._descriptor is not None:
            return stat_file(self._descriptor, name)
        try:
            status = os.stat(f"{self._path}/{name}")  # noqa: PTH116
        except OSError:
            return None
        return status.st_ino, status.st_size, status.st_mtime_ns

    def _read(self, name: str, limit: int) -> bytes:
        if self._descriptor is None:
            return read_file(f"{self.path}/{name}", limit)
        return read_in_folder(self._descriptor, name, limit)

    def _read_json(self, name: str) -> object:
        if self._descriptor is None:
            contents: object = read_json(f"{self.path}/{name}")
        else:
            contents = msgspec.json.decode(self._read(name, MAX_JSON_IN_STORE))
        return contents
