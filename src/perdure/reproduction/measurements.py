"""Numbers of finished runs, counted as in the publication, and claims in words that they decide."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .. import metrics
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
from ..record.points import INITIAL, PROBE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ..metrics import Summary
    from ..record import JSON, Points, Run
    from .published import PublishedResult

__all__ = [
    "CellRuns",
    "Claim",
    "Measurements",
    "NotMeasuredError",
    "claim_less",
    "count_as_de_lange",
    "find_plateau",
    "forgetting_pairs",
    "not_measured",
]

# What the paper's code computes under the name of another metric: it pools all test examples.
DE_LANGE_IDS = {"acc": "acc.pooled"}


class Claim(NamedTuple):
    """A claim, whether it holds (None if it was not measured), and the numbers that decide it."""

    text: str
    holds: bool | None
    numbers: str


def not_measured(text: str) -> Claim:
    """Return a claim whose runs are missing."""
    return Claim(text, None, "not measured")


def claim_less(text: str, low: float, high: float) -> Claim:
    """Return a claim that holds if `low` is less than `high`; NaN stands for not measured.

    Example:
        >>> claim_less("ACC is above 2", 2, 2.5)
        Claim(text='ACC is above 2', holds=True, numbers='2 < 2.5')
    """
    if math.isnan(low + high):
        return not_measured(text)
    return Claim(text, low < high, f"{low:.4g} < {high:.4g}")


def find_plateau(curve: Sequence[float]) -> int | None:
    """Return the task, counted from 1, from which a curve no longer rises; None if it has none.

    From there on the curve rises by at most a tenth of its whole rise, for at least a quarter of
    the tasks.

    Example:
        >>> find_plateau([0, 2, 4, 6, 8, 10, 10, 10, 10, 10]), find_plateau(range(10))
        (6, None)
    """
    values = np.asarray(curve, dtype=np.float64)
    still_to_rise = np.maximum.accumulate(values[::-1])[::-1] - values
    start = int(np.argmax(still_to_rise <= 0.1 * (values.max() - values[0])))
    return start + 1 if len(values) - start >= len(values) / 4 else None


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
        self._summaries: dict[tuple[Path, int, bool, bool], Summary] = {}

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

    def summary(
        self, folder: Path, subsample: int = 1, *, as_published: bool = True, on_train: bool = False
    ) -> Summary:
        """Return a run's metrics.

        Args:
            folder: Folder of the run.
            subsample: Count only every n-th evaluation.
            as_published: Count evaluations as the paper does, not as `perdure explain` defines.
            on_train: Of the evaluations of training examples instead of test sets.
        """
        as_de_lange = as_published and self.result.counting == "De Lange"
        key = (folder, subsample, as_de_lange, on_train)
        if key not in self._summaries:
            run = self.run(folder)
            points = run.train_points if on_train else run.points
            if points is None:
                what = "was not evaluated on training examples" if on_train else "has no points"
                raise NotMeasuredError(f"{folder} {what}")
            stream = None  # runs evaluated only at task ends: a stream takes time and adds nothing
            if (points.kind == PROBE).any():
                stream = points.stream(subsample=subsample)
                if as_de_lange:
                    epochs = _count_epochs(run.metadata.config)
                    stream = count_as_de_lange(points, subsample, epochs).stream()
            options = SummaryOptions(epsilon=self.result.epsilon)
            matrix = points.matrix() if on_train else run.matrix
            self._summaries[key] = summary(matrix, stream=stream, costs=run.costs, options=options)
        return self._summaries[key]

    def values(
        self,
        id_: str,
        factors: Mapping[str, str],
        *,
        subsample: int = 1,
        weights: str | None = None,
        as_published: bool = True,
        on_train: bool = False,
    ) -> list[float]:
        """Return a metric of every run of a cell, or raise NotMeasuredError with the reason."""
        folders = self.find_cell(factors).folders
        counting = {"as_published": as_published, "on_train": on_train}
        runs = [self.summary(folder, subsample, **counting) for folder in folders]
        if as_published and self.result.counting == "De Lange":
            id_ = DE_LANGE_IDS.get(id_, id_)
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


def count_as_de_lange(points: Points, every: int = 1, epochs: int = 1) -> Points:
    """Return the evaluations that the code of De Lange et al. 2023 would have counted.

    It evaluates where the iteration *within the epoch*, counted from 0, is a multiple of rho: with
    47 iterations per epoch, rho = 100 and 1000 both mean after the first update of every epoch.
    The very first task alone is also evaluated before its first update, and that counts;
    evaluations of whole sets at the ends of tasks do not.

    Args:
        points: a run that was evaluated after every update.
        every: the periodicity rho.
        epochs: how many epochs each task was trained for.
    """
    probes = points.kind == PROBE
    due = np.zeros(len(points.step), dtype=np.bool_)
    for task in np.unique(points.trained[probes]):
        mine = probes & (points.trained == task)
        iteration = points.step[mine] - points.step[mine].min()
        per_epoch, rest = divmod(int(iteration.max()) + 1, epochs)
        if rest:
            raise ValueError(
                f"task {points.names[task]!r} has {iteration.max() + 1} iterations, expected a "
                f"multiple of {epochs} epochs"
            )
        due[mine] = iteration % per_epoch % every == 0
    before = (points.kind == INITIAL) & (points.tested == 0) & (points.trained == 0)
    step = 2 * points.step + before  # room for the evaluation before the first update
    keep = np.flatnonzero(before | due)
    keep = keep[np.argsort(step[keep], kind="stable")]
    return replace(
        points,
        step=step[keep],
        kind=np.full(len(keep), PROBE, points.kind.dtype),
        trained=points.trained[keep],
        tested=points.tested[keep],
        score=points.score[keep],
        n=points.n[keep],
    )


def _count_epochs(config: Mapping[str, JSON]) -> int:
    """Return the epochs per task of a run; one if it counts iterations instead."""
    epochs = config.get("epochs")
    return epochs if isinstance(epochs, int) and not config.get("iterations") else 1


def forgetting_pairs(run: Run) -> dict[tuple[str, str], tuple[float, float]]:
    """Return FORG and WF10 of each older task after each task, by (trained, tested)."""
    stream, matrix = run.stream, run.matrix
    if stream is None or matrix is None:
        return {}
    pairs = metrics.forgetting_pairs(matrix, stream, window=10)
    return {(matrix.tasks[k], matrix.tasks[j]): both for (k, j), both in pairs.items()}
