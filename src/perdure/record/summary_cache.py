"""The metrics of a finished run, cached in its folder: a study reads hundreds of runs, often."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from ..metrics import SummaryOptions, UndefinedMetricError
from .io.append import RecordError
from .run import open_run
from .run_folder import RunFolder

if TYPE_CHECKING:
    from pathlib import Path

    from .run import Run

__all__ = ["RunSummary", "load_summary"]


class RunSummary(msgspec.Struct, frozen=True):
    """Metrics by id, why the others are undefined, and what the run cost, where measured."""

    metrics: dict[str, float]
    undefined: dict[str, str]
    costs: dict[str, float]


class CachedSummary(RunSummary, frozen=True):
    """A summary with the version of perdure and the digest of the files it was computed from."""

    of: tuple[str, str]


def load_summary(folder: Path, *, keep: bool = False) -> RunSummary:
    """Return the metrics of a finished run, from its cache if nothing has changed since.

    Args:
        folder: of the run.
        keep: write them to the cache; only for whoever has made the run.
    """
    from .. import __version__

    run_folder = RunFolder(folder)
    of = (__version__, run_folder.scoring_digest())
    with suppress(OSError, ValueError):
        cached = msgspec.convert(run_folder.cached_summary(), CachedSummary)
        if cached.of == of:
            return cached
    run = open_run(folder, per_example=False)  # they give intervals, no values
    result = run.summary(SummaryOptions(intervals=False, curves=False))
    metrics = {id_: float(value) for id_, value in result.metrics.items()}
    summary = CachedSummary(metrics, dict(result.undefined), _sum_costs(run), of)
    if keep:
        with suppress(RecordError):  # it can be computed again
            run_folder.write_cached_summary(msgspec.to_builtins(summary))
    return summary


def _sum_costs(run: Run) -> dict[str, float]:
    """Return seconds of training and the largest numbers of bytes, over all tasks."""
    costs: dict[str, float] = {}
    if run.costs is None:
        return costs
    for name, combine in (("seconds_train", sum), ("peak_bytes", max), ("model_bytes", max)):
        with suppress(UndefinedMetricError):  # not measured
            costs[name] = float(combine(float(value) for value in run.costs.column(name)))
    return costs
