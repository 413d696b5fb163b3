"""The metrics of a finished run, kept beside it: a study looks at hundreds of runs, often."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from ._append import RecordError, replace
from .source import read_source

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Scores", "scores_of"]

FILE = "scores.json"


class Scores(NamedTuple):
    """Metrics by id, and why the others are undefined."""

    metrics: dict[str, float]
    undefined: dict[str, str]


def scores_of(folder: Path) -> Scores:
    """Return the metrics of a finished run, computed once for this version of the program."""
    from .. import __version__

    when = [__version__, (folder / "done.json").stat().st_mtime_ns]
    kept = folder / FILE
    with suppress(OSError, ValueError, KeyError, TypeError):
        said = json.loads(kept.read_bytes())
        if said["of"] == when:
            return Scores(dict(said["metrics"]), dict(said["undefined"]))
    found = read_source(str(folder)).summary()
    scores = Scores({id_: float(v) for id_, v in found.metrics.items()}, dict(found.undefined))
    with suppress(RecordError):  # a store that may only be read
        replace(kept, json.dumps({"of": when, **scores._asdict()}) + "\n")
    return scores
