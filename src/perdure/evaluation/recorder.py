"""From the values of an evaluation to the record, the live numbers and what there is to say."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
import warnings
import weakref
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch

from ..record import RecordError, RunWriter, csv_field, read_json
from .live import Live

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from ..metrics import ScoreScale
    from .tasks import EvaluationTask

__all__ = ["EvaluationWarning", "Recorder"]

SCHEMA = 3


class EvaluationWarning(UserWarning):
    """What a user should know about an evaluation that goes on."""


class Recorder:
    """Writes a run's folder and keeps its live numbers.

    Args:
        describe: what ran, for run.json.
        scale: range, direction and name of the scores.
        windows: of the live wf and wp.
        hits: whether to record which examples are right.
        redraw: whether subsets are drawn anew each time: then only whole sets have hits.
    """

    writer: RunWriter

    def __init__(
        self,
        describe: Mapping[str, Any],
        scale: ScoreScale,
        *,
        windows: Sequence[int],
        hits: bool,
        redraw: bool = False,
    ) -> None:
        self.live = Live(scale, tuple(windows))
        self.notes: list[str] = []
        self._scale, self._hits, self._redraw = scale, hits, redraw
        self._with_hits: dict[str, list[bool]] = {}  # of whole sets or not, by task
        self._learned: dict[str, EvaluationTask] = {}
        self._classes: Mapping[str, Sequence[int]] = {}
        self._describe = {**_surroundings(), **describe}

    def open(
        self,
        folder: str | os.PathLike[str] | None,
        *,
        overwrite: bool | Literal["unfinished"],
        resume: Mapping[str, Any] | None = None,
    ) -> None:
        """Begin the record in `folder`, or go on with it; None: one that goes with this object."""
        if resume is not None:
            if folder is None:
                raise ValueError("going on needs the folder of the record; give record=")
            state = resume["record"]
            _check_begun(Path(folder), state["created"])
            self.notes = list(state["notes"])
            self._with_hits = {task: list(files) for task, files in state["with_hits"]}
            self.live.load(state["live"])
            self._describe["created"] = state["created"]
            self._describe["resumed"] = [*state["resumed"], self._resumed(resume["step"])]
            self.writer = RunWriter(
                folder, self._description(), overwrite=overwrite, go_on=state["position"]
            )
            return
        if folder is None:
            folder = tempfile.mkdtemp(prefix="perdure-")
            weakref.finalize(self, _remove, folder, os.getpid())
        self.writer = RunWriter(folder, self._description(), overwrite=overwrite)

    def state(self) -> dict[str, Any]:
        """Return how far the record is, as plain data for a checkpoint."""
        return {
            "position": self.writer.position(),
            "notes": list(self.notes),
            "with_hits": [[task, list(files)] for task, files in self._with_hits.items()],
            "live": self.live.state(),
            "created": self._describe["created"],
            "resumed": list(self._describe.get("resumed", [])),
        }

    @staticmethod
    def _resumed(step: int) -> dict[str, Any]:
        """Return when a run goes on, and after which step, with what."""
        now = _surroundings()
        return {"at": now["created"], "after_step": step, "versions": now["versions"]}

    def say(self, message: str) -> None:
        """Tell the user, and whoever reads the record."""
        self.note(message)
        warnings.warn(message, EvaluationWarning, stacklevel=2)

    def note(self, message: str) -> None:
        """Tell whoever reads the record."""
        self.notes.append(" ".join(message.split()))
        self.writer.describe(self._description())

    def entered(
        self, task: EvaluationTask, step: int, classes: Mapping[str, Sequence[int]]
    ) -> None:
        """Note in run.json that `task` is learned from here on."""
        self._learned[task.name] = task
        self._classes = classes
        self.live.entered(task.name, step)
        self.writer.describe(self._description())

    def known(self, tasks: Sequence[EvaluationTask], classes: Mapping[str, Sequence[int]]) -> None:
        """Note which tasks were learned before the run goes on."""
        self._learned, self._classes = {task.name: task for task in tasks}, classes
        self.writer.describe(self._description())

    def forget(self, task: str) -> None:
        """Take a task that had no step out of run.json."""
        self._learned.pop(task, None)
        self.writer.describe(self._description())

    def write(
        self, kind: str, step: int, trained: str | None, tested: Mapping[str, NDArray[Any]],
        tasks: Mapping[str, EvaluationTask],
    ) -> None:  # fmt: skip
        """Record one evaluation: the values of the rows of each task that was tested."""
        lines = []
        hits: list[tuple[int, int, NDArray[np.bool_]]] = []
        whole: list[tuple[int, int, NDArray[np.bool_]]] = []
        learned = csv_field(trained) if trained is not None else ""
        scores = {task: self._score(task, step, values) for task, values in tested.items()}
        for task, values in tested.items():
            lines.append(
                f"{step},{learned},{csv_field(task)},{kind},{scores[task]!r},{len(values)}"
            )
            if self._hits and values.dtype == np.bool_:
                file = self._file_of_hits(kind, tasks[task], step, scores[task])
                if file is not None:
                    number = self._number(tasks[task], whole=file == "whole")
                    (whole if file == "whole" else hits).append((number, step, values))
        if kind != "initial":
            for task, score in scores.items():
                mine = self.live.tasks.get(task)
                if mine is None or mine.tested_at != step:  # a probe at this step goes first
                    self.live.update(step, task, score, len(tested[task]))
        self.writer.points(lines, hits, whole)

    def gradient(self, step: int, trained: str | None, norms: Sequence[str]) -> None:
        """Record the gradient norms of a step."""
        learned = csv_field(trained) if trained is not None else ""
        self.writer.gradient(f"{step},{learned},{','.join(norms)}")

    def _score(self, task: str, step: int, values: NDArray[Any]) -> float:
        if values.dtype == np.bool_:
            return int(np.count_nonzero(values)) / len(values)
        score = float(values.astype(np.float64).mean())
        if not isfinite(score) or not self._scale.low <= score <= self._scale.high:
            raise ValueError(
                f"score of task {task!r} after step {step} is {score}, expected a finite number "
                f"from {self._scale.low:g} to {self._scale.high:g}; this test was not recorded"
            )
        return score

    def _file_of_hits(
        self, kind: str, task: EvaluationTask, step: int, score: float
    ) -> Literal["subset", "whole"] | None:
        """Return where the hits of an evaluation go; None where they need not be written.

        A subset that is the whole set has one file for both, and what a probe of this step has
        recorded already is not written twice.
        """
        if kind == "initial" or (kind == "probe" and self._redraw):
            return None
        if kind == "probe":
            return "subset"
        if self._redraw or not task.subset_is_whole:
            return "whole"
        probe = self.live.tasks.get(task.name)
        if probe is None or probe.tested_at != step:
            return "subset"
        same = probe.score == (-score if self._scale.lower_is_better else score)
        return None if same else "whole"  # other rounding in other batches, or random transforms

    def _number(self, task: EvaluationTask, *, whole: bool) -> int:
        """Return the number of a task's hits, whose file begins with its first evaluation."""
        if task.name not in self._with_hits:
            self._with_hits[task.name] = []
        number = list(self._with_hits).index(task.name)
        if whole not in self._with_hits[task.name]:
            tasks = list(self._with_hits)[: number + 1]
            self.writer.add_per_example(tasks, task.ids(whole=whole), whole=whole)
            self._with_hits[task.name].append(whole)
        return number

    def _description(self) -> dict[str, Any]:
        said = {
            **self._describe,
            "tasks": list(self._learned),
            "scale": {
                "low": self._scale.low if isfinite(self._scale.low) else None,
                "high": self._scale.high if isfinite(self._scale.high) else None,
                "lower_is_better": self._scale.lower_is_better,
                "name": self._scale.label,
            },
            "notes": self.notes,
        }
        prints = {name: task.fingerprint() for name, task in self._learned.items()}
        if known := {name: each for name, each in prints.items() if each is not None}:
            said["evaluation_data"] = known
        classes = self._class_counts()
        return said | ({"classes": classes} if classes else {})

    def _class_counts(self) -> list[int]:
        """Return how many classes each task brings, nothing where that is not known of all."""
        seen: set[int] = set()
        counts = []
        for name, task in self._learned.items():
            labels = self._classes.get(name)
            if labels is None:
                found = task.labels()
                labels = [] if found is None else np.unique(found).tolist()
            new = set(labels) if self._describe.get("setting") == "task" else set(labels) - seen
            counts.append(len(new))
            seen |= set(labels)
        return counts if counts and min(counts) > 0 else []


def _check_begun(folder: Path, created: str) -> None:
    """Raise unless the record in `folder` is the one that was begun then: it will be cut."""
    try:
        found = read_json(folder / "run.json")["created"]
    except (OSError, ValueError, KeyError, TypeError):
        raise RecordError(
            f"{folder}: no record to go on with; give the folder that the state was saved with"
        ) from None
    if found != created:
        raise RecordError(
            f"{folder}: a run begun at {found}, expected the one of the state, begun at {created}; "
            "give that one's folder"
        )


def _remove(folder: str, owner: int) -> None:
    if os.getpid() == owner:  # not a forked child
        shutil.rmtree(folder, ignore_errors=True)


def _surroundings() -> dict[str, Any]:
    """Return with what and when a run was made."""
    from .. import __version__

    return {
        "schema": SCHEMA,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "program": sys.argv[0],
        "threads": torch.get_num_threads(),
        "cpu": torch.backends.cpu.get_cpu_capability(),  # other instructions, other bits
        "versions": {
            "perdure": __version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": np.__version__,
        },
    }
