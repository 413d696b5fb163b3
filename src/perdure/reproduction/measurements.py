"""Numbers of finished runs, counted as in the publication they are compared with."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace
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
    """Raised with the reason why no finished run has a number."""


class CellRuns(NamedTuple):
    """The factors of a study's cell, and the folders of its finished runs."""

    cell: Mapping[str, str | None]
    folders: Sequence[Path]


class Measurements:
    """Numbers of finished runs in the unit of a published result, each computed once."""

    def __init__(self, result: PublishedResult, cells: Sequence[CellRuns]) -> None:
        self.result = result
        self.cells = [cell for cell in cells if cell.folders]
        self._runs: dict[Path, Run] = {}
        self._summaries: dict[tuple[Path, int, bool], Summary] = {}

    def find_cell(self, factors: Mapping[str, str]) -> CellRuns:
        """Return the one cell that has these factors, or raise NotMeasuredError."""
        wanted = factors.items()
        cells = [cell for cell in self.cells if all(cell.cell.get(k) == v for k, v in wanted)]
        if not cells:
            name = ", ".join(factors.values()) or self.result.name
            raise NotMeasuredError(f"no finished run of {name}")
        if len(cells) > 1:
            raise ValueError(f"{self.result.name}: {dict(factors)} matches {len(cells)} cells")
        return cells[0]

    def run(self, folder: Path) -> Run:
        """Return a finished run."""
        if folder not in self._runs:
            self._runs[folder] = open_run(folder)
        return self._runs[folder]

    def summary(self, folder: Path, subsample: int = 1, *, as_published: bool = True) -> Summary:
        """Return a run's metrics.

        Args:
            folder: Folder of the run.
            subsample: Count only every n-th evaluation.
            as_published: Count evaluations as the paper does, not as `perdure explain` defines.
        """
        as_de_lange = as_published and self.result.counting == "De Lange"
        key = (folder, subsample, as_de_lange)
        if key not in self._summaries:
            run = self.run(folder)
            if run.points is None:
                raise NotMeasuredError(f"{folder} has no points")
            stream = None  # runs evaluated only at task ends: a stream takes time and adds nothing
            if (run.points.kind == PROBE).any():
                points = count_as_de_lange(run.points, subsample) if as_de_lange else run.points
                stream = points.stream(subsample=1 if as_de_lange else subsample)
            options = SummaryOptions(epsilon=self.result.epsilon)
            self._summaries[key] = summary(
                run.matrix, stream=stream, costs=run.costs, options=options
            )
        return self._summaries[key]

    def values(
        self,
        id_: str,
        factors: Mapping[str, str],
        *,
        subsample: int = 1,
        weights: str | None = None,
        as_published: bool = True,
    ) -> list[float]:
        """Return a metric of every run of a cell, or raise NotMeasuredError with the reason."""
        folders = self.find_cell(factors).folders
        runs = [self.summary(folder, subsample, as_published=as_published) for folder in folders]
        if id_ in ("clscore", "clstability"):
            return self._weighted_scores(id_, [run.metrics for run in runs], weights)
        for run in runs:
            if id_ not in run.metrics:
                raise NotMeasuredError(run.undefined.get(id_, "not computed"))
        percent = self.result.unit == "percent" and find_metric(id_).unit == "score"
        return [run.metrics[id_] * (100 if percent else 1) for run in runs]

    def mean(
        self, id_: str, *, subsample: int = 1, weights: str | None = None, **factors: str
    ) -> float:
        """Return the mean of a metric over the runs of a cell, NaN if it was not measured."""
        try:
            values = self.values(id_, factors, subsample=subsample, weights=weights)
        except NotMeasuredError:
            return math.nan
        return statistics.fmean(values)

    def curve(self, name: str, factors: Mapping[str, str]) -> list[float]:
        """Return the mean curve after each task over a cell's runs; NaN where undefined."""
        curves = [self.summary(folder).curves for folder in self.find_cell(factors).folders]
        if any(name not in curve for curve in curves):
            raise NotMeasuredError(f"{name} is undefined")
        means = np.array([curve[name] for curve in curves], dtype=np.float64).mean(axis=0)
        return [float(value) for value in means]

    @property
    def deviations(self) -> list[str]:
        """The differences from the published set-up that the runs themselves record."""
        deviations: dict[str, None] = {}
        for cell in self.cells:
            deviations |= dict.fromkeys(self.run(cell.folders[0]).metadata.deviations)
        return list(deviations)

    def _weighted_scores(
        self, id_: str, runs: Sequence[Mapping[str, float]], name: str | None
    ) -> list[float]:
        """Return CLscore of every run, or CLstability, which is one number for all of them."""
        weights = criteria_weights((self.result.weights[name] if name else None) or None)
        try:
            if id_ == "clstability":
                return [clstability_of(runs, weights)]
            return [clscore_of(run, weights) for run in runs]
        except UndefinedMetricError as error:
            raise NotMeasuredError(str(error)) from None


def count_as_de_lange(points: Points, every: int = 1) -> Points:
    """Return points as the code of De Lange et al. 2023 would have recorded them.

    It evaluates each task before its first update, counts that as any other evaluation, and then
    evaluates after updates 1, 1 + every, 1 + 2 every, … of each task. Steps are doubled to make
    room for the evaluation before the first update.
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
