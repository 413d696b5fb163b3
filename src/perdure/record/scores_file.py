"""The metrics of a finished run, kept beside it: a study looks at hundreds of runs, often."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from ..metrics import Undefined
from ._append import RecordError, replace
from ._files import read_json
from .run import open_run

if TYPE_CHECKING:
    from pathlib import Path

    from .run import Run

__all__ = ["Scores", "scores_of"]

FILE = "scores.json"


class Scores(NamedTuple):
    """Metrics by id, why the others are undefined, and what the run cost, where measured."""

    metrics: dict[str, float]
    undefined: dict[str, str]
    costs: dict[str, float]


def scores_of(folder: Path) -> Scores:
    """Return the metrics of a finished run, computed once for this version of the program."""
    from .. import __version__

    when = [__version__, (folder / "done.json").stat().st_mtime_ns]
    kept = folder / FILE
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        said = read_json(kept)
        if said["of"] == when:
            metrics, costs = (
                {name: float(value) for name, value in said[part].items()}
                for part in ("metrics", "costs")
            )
            why = {name: str(reason) for name, reason in said["undefined"].items()}
            return Scores(metrics, why, costs)
    run = open_run(folder)
    found = run.summary()
    metrics = {id_: float(value) for id_, value in found.metrics.items()}
    scores = Scores(metrics, dict(found.undefined), _costs(run))
    with suppress(RecordError):  # a store that may only be read
        replace(kept, json.dumps({"of": when, **scores._asdict()}) + "\n")
    return scores


def _costs(run: Run) -> dict[str, float]:
    """Return seconds of training and the largest numbers of bytes, over all tasks."""
    found: dict[str, float] = {}
    if run.costs is None:
        return found
    for name, whole in (("seconds_train", sum), ("peak_bytes", max), ("model_bytes", max)):
        with suppress(Undefined):  # not measured
            found[name] = float(whole(float(value) for value in run.costs.column(name)))
    return found
