"""The finished runs of an entry, and numbers of them as its paper counts."""

from __future__ import annotations

import statistics
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..metrics import (
    SummaryOptions,
    UndefinedMetricError,
    clscore_of,
    clstability_of,
    criteria_weights,
    find_metric,
    summary,
)
from ..record import open_run
from ..record.points import FULL, INITIAL, PROBE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ..metrics import Summary
    from ..record import Points, Run
    from .published import PublishedResult

__all__ = ["CellRuns", "Measurements", "NotMeasuredError", "count_as_de_lange"]


class NotMeasuredError(Exception):
    """Raised where a number is asked for that no finished run has, with the reason."""


class CellRuns(NamedTuple):
    """A cell of a study, by its factors, and the folders of its finished runs."""

    cell: Mapping[str, str | None]
    folders: Sequence[Path]


class Measurements:
    """The finished runs of an entry, and numbers of them in its unit, each computed once."""

    def __init__(self, entry: PublishedResult, cells: Sequence[CellRuns]) -> None:
        self.entry = entry
        self.cells = [each for each in cells if each.folders]
        self._runs: dict[Path, Run] = {}
        self._summaries: dict[tuple[Path, int, bool], Summary] = {}

    def select(self, where: Mapping[str, str]) -> CellRuns:
        """Return the one cell that agrees with what is given, or raise NotMeasuredError."""
        found = [
            each for each in self.cells if all(each.cell.get(k) == v for k, v in where.items())
        ]
        if not found:
            raise NotMeasuredError(f"no finished run of {', '.join(where.values()) or 'it'}")
        if len(found) > 1:
            raise ValueError(f"{self.entry.name}: {dict(where)} names {len(found)} cells, not one")
        return found[0]

    def run(self, folder: Path) -> Run:
        """Return a finished run."""
        if folder not in self._runs:
            self._runs[folder] = open_run(folder)
        return self._runs[folder]

    def summary(self, folder: Path, thin: int = 1, *, ours: bool = False) -> Summary:
        """Return a run's metrics, counted as the entry says, or as we do if `ours`."""
        theirs = self.entry.counting == "De Lange" and not ours
        key = (folder, thin, theirs)
        if key not in self._summaries:
            run = self.run(folder)
            if run.points is None:
                raise NotMeasuredError(f"{folder} has no points")
            stream = None  # a run that was tested at task ends only has none worth its time
            if (run.points.kind == PROBE).any():
                counted = count_as_de_lange(run.points, thin) if theirs else run.points
                stream = counted.stream(thin=1 if theirs else thin)
            options = SummaryOptions(epsilon=self.entry.epsilon)
            made = summary(run.matrix, stream=stream, costs=run.costs, options=options)
            self._summaries[key] = made
        return self._summaries[key]

    def values(
        self,
        id_: str,
        where: Mapping[str, str],
        *,
        thin: int = 1,
        weights: str | None = None,
        ours: bool = False,
    ) -> list[float]:
        """Return a metric of every run of a cell, or raise NotMeasuredError with the reason."""
        found = [self.summary(each, thin, ours=ours) for each in self.select(where).folders]
        if id_ in ("clscore", "clstability"):
            return self._fused(id_, [each.metrics for each in found], weights)
        for each in found:
            if id_ not in each.metrics:
                raise NotMeasuredError(each.undefined.get(id_, "not computed"))
        percent = self.entry.unit == "percent" and find_metric(id_).unit == "score"
        return [each.metrics[id_] * (100 if percent else 1) for each in found]

    def mean(
        self, id_: str, where: Mapping[str, str], *, thin: int = 1, weights: str | None = None
    ) -> float:
        """Return the mean of a metric over the runs of a cell."""
        return statistics.fmean(self.values(id_, where, thin=thin, weights=weights))

    def curve(self, name: str, where: Mapping[str, str]) -> list[float]:
        """Return a curve after each task, the mean over a cell's runs; NaN where undefined."""
        found = [self.summary(each).curves for each in self.select(where).folders]
        if any(name not in each for each in found):
            raise NotMeasuredError(f"{name} is undefined")
        means = np.array([each[name] for each in found], dtype=np.float64).mean(axis=0)
        return [float(value) for value in means]

    @cached_property
    def deviations(self) -> list[str]:
        """What the runs themselves say is not as published."""
        said: dict[str, None] = {}
        for each in self.cells:
            described = self.run(each.folders[0]).description.get("config", {})
            said |= dict.fromkeys(described.get("deviations", []))
        return list(said)

    def _fused(
        self, id_: str, runs: Sequence[Mapping[str, float]], weights: str | None
    ) -> list[float]:
        """Return CLscore of every run, or CLstability, which is one number for all of them."""
        shares = criteria_weights((self.entry.weights[weights] if weights else None) or None)
        try:
            if id_ == "clstability":
                return [clstability_of(runs, shares)]
            return [clscore_of(each, shares) for each in runs]
        except UndefinedMetricError as reason:
            raise NotMeasuredError(str(reason)) from None


def count_as_de_lange(points: Points, every: int = 1) -> Points:
    """Return points as the code of De Lange et al. would have recorded them.

    It tests the task that it enters before the first update and counts that as any other test, and
    then it tests after the updates 1, 1 + every, 1 + 2 every … of each task. Steps are doubled to
    make room for the test before the first one.
    """
    probes = points.kind == PROBE
    first = np.zeros(len(points.step), dtype=np.int64)
    for code in np.unique(points.trained[probes]):
        mine = points.trained == code
        first[mine] = points.step[mine & probes].min()
    entered = (points.kind == INITIAL) & (points.tested == points.trained)
    tested = probes & ((points.step - first) % every == 0)
    keep = np.flatnonzero(entered | tested | (points.kind == FULL))
    step = 2 * points.step + entered
    keep = keep[np.argsort(step[keep], kind="stable")]
    return replace(
        points,
        step=step[keep],
        kind=np.where(entered, PROBE, points.kind).astype(points.kind.dtype)[keep],
        trained=points.trained[keep],
        tested=points.tested[keep],
        score=points.score[keep],
        n=points.n[keep],
    )
