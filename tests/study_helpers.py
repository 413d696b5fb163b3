"""An executor that computes nothing: it writes run folders with prescribed scores."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any, NamedTuple

from perdure.execution import ExitEvent, ProgressEvent, RunEvent
from perdure.studies import Study, make_study

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from perdure.execution import Job
    from perdure.execution.events import OnEvent
    from perdure.training import RunConfig

BARE: dict[str, Any] = {"scenarios": ["split-digits"], "strategies": ["naive", "ewc"]}


class Scores(NamedTuple):
    """Task a when it was learned, a at the end, b at the end; without b there is one task."""

    learned: float
    kept: float
    last: float | None = None


class Failure(NamedTuple):
    """What a run that does not come to its end says."""

    error: str
    kind: str = "DivergedError"
    code: int = 2


def flat(acc: float) -> Scores:
    """Return scores whose average accuracy is `acc`, and nothing is forgotten."""
    return Scores(acc, acc, acc)


class Fake:
    """Does jobs by writing what `answer` says of each; an exception of it comes through."""

    def __init__(self, answer: Callable[[RunConfig], Scores | Failure | BaseException]) -> None:
        self.answer = answer
        self.waves: list[list[Job]] = []
        self.began: list[RunConfig] = []

    def __call__(self, jobs: Sequence[Job], on_event: OnEvent) -> None:
        self.waves.append(list(jobs))
        for job in jobs:
            found = self.answer(job.config)
            if isinstance(found, BaseException):
                raise found
            self.began.append(job.config)
            on_event(job, ProgressEvent(0.5))
            if isinstance(found, Failure):
                job.error, job.error_type, job.code = found.error, found.kind, found.code
            else:
                made_run(job.folder, found, job.config)
                job.code = 0
            on_event(job, ExitEvent(job.code))

    def take(self) -> list[tuple[Any, ...]]:
        """Return strategy, lr, seed, held-out share of each run since the last time, in order."""
        found = [
            (each.strategy, each.optimizer_options["lr"], each.seed, each.validation_split)
            for each in self.began
        ]
        self.began.clear()
        return found


def made_run(folder: Path, scores: Scores, config: RunConfig | None = None) -> None:
    """Write a finished run by hand."""
    folder.mkdir(parents=True, exist_ok=True)
    said = {
        "setting": "class", "order": None, "examples": {"a": [10, 10]},
        "data": {"made-up": {"sha256": {"all": "0"}}},
    }  # fmt: skip
    seed = 0 if config is None else config.seed
    (folder / "run.json").write_text(json.dumps({"setting": "class", "config": said}))
    rows = ["step,trained,tested,kind,score,n", f"1,a,a,full,{scores.learned},10"]
    if scores.last is not None:
        rows += [f"2,b,a,full,{scores.kept},10", f"2,b,b,full,{scores.last},10"]
    (folder / "points.csv").write_text("\n".join(rows) + "\n")
    (folder / "costs.csv").write_text(
        f"task,seconds_train,peak_bytes\na,{1 + seed},2000000\nb,1,3000000\n"
    )
    (folder / "done.json").write_text(json.dumps({"steps": 2}))


def study(name: str = "mine", **plain: Any) -> Study:
    """Return a study of naive and ewc on split-digits, with these changes."""
    return make_study({**BARE, **plain}, name)


def nobody(job: Job, event: RunEvent) -> None:
    """Ignore an event."""


def table_of(text: str) -> list[dict[str, str]]:
    """Return the lines of a table that was printed as CSV."""
    return list(csv.DictReader(io.StringIO(text)))


def snapshot(store: Path) -> dict[str, tuple[int, bytes]]:
    """Return every file of a store with its time and its bytes; computed scores are left out."""
    return {
        str(path.relative_to(store)): (path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(store.rglob("*"))
        if path.is_file() and path.name != "scores.json"
    }
