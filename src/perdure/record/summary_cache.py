"""The metrics of a finished run, kept in its folder: a study looks at hundreds of runs, often."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from ..metrics import UndefinedMetricError
from .io.append import RecordError, replace
from .io.files import open_regular, read_json
from .run import open_run

if TYPE_CHECKING:
    from pathlib import Path

    from .run import Run

__all__ = ["RunSummary", "load_summary"]

FILE = "scores.json"
FILES = ("run.json", "points.csv", "costs.csv")


class RunSummary(NamedTuple):
    """Metrics by id, why the others are undefined, and what the run cost, where measured."""

    metrics: dict[str, float]
    undefined: dict[str, str]
    costs: dict[str, float]


def load_summary(folder: Path, *, keep: bool = False) -> RunSummary:
    """Return the metrics of a finished run, as kept in its folder if they are of what is there.

    Args:
        folder: of the run.
        keep: write them into the folder; only for whoever has made the run.
    """
    of = _computed_from(folder)
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        said = read_json(folder / FILE)
        if said["of"] == of:
            metrics, costs = (
                {name: float(value) for name, value in said[part].items()}
                for part in ("metrics", "costs")
            )
            why = {name: str(reason) for name, reason in said["undefined"].items()}
            return RunSummary(metrics, why, costs)
    run = open_run(folder, per_example=False)  # they give intervals, no values
    found = run.summary()
    metrics = {id_: float(value) for id_, value in found.metrics.items()}
    scores = RunSummary(metrics, dict(found.undefined), _costs(run))
    if keep:
        with suppress(RecordError):  # they can be computed again
            replace(folder / FILE, json.dumps({"of": of, **scores._asdict()}) + "\n")
    return scores


def _computed_from(folder: Path) -> list[str]:
    """Return the version of the program, and the SHA-256 of everything that metrics depend on."""
    from .. import __version__

    digest = hashlib.sha256()
    for name in FILES:
        with suppress(FileNotFoundError), open_regular(folder / name) as file:
            digest.update(f"{name} {hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
    return [__version__, digest.hexdigest()]


def _costs(run: Run) -> dict[str, float]:
    """Return seconds of training and the largest numbers of bytes, over all tasks."""
    found: dict[str, float] = {}
    if run.costs is None:
        return found
    for name, whole in (("seconds_train", sum), ("peak_bytes", max), ("model_bytes", max)):
        with suppress(UndefinedMetricError):  # not measured
            found[name] = float(whole(float(value) for value in run.costs.column(name)))
    return found
