"""The data of the papers' figures as CSV: mean and SD over the runs of a cell."""

from __future__ import annotations

import csv
import re
from typing import TYPE_CHECKING

import numpy as np

from .. import metrics
from .published import CELL_FACTORS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from ..metrics import Summary
    from ..record import Run
    from .measurements import Measurements
    from .published import PublishedFigure

__all__ = ["figure_rows", "forgetting_pairs", "write_figures"]

Keys = tuple[str | int, ...]
CsvRow = list[str | float | int]
COLUMNS = {
    "scores": ("tested", "step"),
    "gradients": ("term", "trained", "step"),
    "forgetting": ("id", "trained", "tested"),
    "tasks": ("id", "after task"),
    "matrix": ("trained", "tested"),
}  # the columns that name a row, by kind of figure


def write_figures(measurements: Measurements, folder: Path, name: str) -> list[Path]:
    """Write the data of each figure of which any cell is measured, and return the files."""
    written = []
    for figure in measurements.result.figures:
        label = re.sub(r"[^0-9a-z]+", "-", figure.figure.lower()).strip("-")
        path = folder / f"{name}-figure-{label}.csv"
        header, rows = figure_rows(measurements, figure)
        if not rows:
            continue
        folder.mkdir(parents=True, exist_ok=True)
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows([header, *rows])
        written.append(path)
    return written


def figure_rows(
    measurements: Measurements, figure: PublishedFigure
) -> tuple[list[str], list[CsvRow]]:
    """Return header and rows of a figure's data: what it shows, mean, SD, number of runs."""
    rows: list[CsvRow] = []
    for cell in measurements.cells:
        if any(cell.cell.get(name) != value for name, value in figure.factors.items()):
            continue
        factors = [cell.cell.get(name) or "" for name in CELL_FACTORS]
        values: dict[Keys, list[float]] = {}
        for folder in cell.folders:
            for keys, value in _read_run(measurements, folder, figure):
                values.setdefault(keys, []).append(value)
        rows += [[*factors, *keys, *_mean_and_sd(numbers)] for keys, numbers in values.items()]
    return [*CELL_FACTORS, *COLUMNS[figure.kind], "mean", "sd", "runs"], rows


def _mean_and_sd(values: Sequence[float]) -> CsvRow:
    sd = f"{np.std(values, ddof=1):.6g}" if len(values) > 1 else ""
    return [f"{np.mean(values):.6g}", sd, len(values)]


def _read_run(
    measurements: Measurements, folder: Path, figure: PublishedFigure
) -> Iterator[tuple[Keys, float]]:
    """Yield the numbers of a run that a figure shows, with what names them."""
    run = measurements.run(folder)
    if figure.kind == "scores":
        return _read_scores(run, figure.tasks)
    if figure.kind == "gradients":
        return _read_gradients(run)
    if figure.kind == "forgetting":
        return _read_forgetting(run)
    if figure.kind == "matrix":
        return _read_matrix(run)
    return _read_curves(measurements.summary(folder), figure.ids)


def _read_scores(run: Run, tasks: int | None) -> Iterator[tuple[Keys, float]]:
    shown = list(run.stream.tasks.items())[:tasks] if run.stream is not None else []
    for task, (steps, scores) in shown:
        for step, score in zip(steps.tolist(), scores.tolist(), strict=True):
            yield (task, step), score


def _read_gradients(run: Run) -> Iterator[tuple[Keys, float]]:
    norms = run.gradients
    if norms is None:
        return
    for term, values in (("plasticity", norms.plasticity), ("stability", norms.stability)):
        for task, step, norm in zip(norms.trained, norms.step.tolist(), values, strict=True):
            if not np.isnan(norm):
                yield (term, task, step), float(norm)


def _read_forgetting(run: Run) -> Iterator[tuple[Keys, float]]:
    for (trained, tested), (forg, wf10) in forgetting_pairs(run).items():
        yield ("forgetting.learned", trained, tested), forg
        yield ("wf10", trained, tested), wf10


def _read_matrix(run: Run) -> Iterator[tuple[Keys, float]]:
    if run.matrix is None:
        return
    for (i, j), score in np.ndenumerate(run.matrix.scores):
        if not np.isnan(score):
            yield (run.matrix.tasks[i], run.matrix.tasks[j]), float(score)


def _read_curves(summary: Summary, ids: Sequence[str]) -> Iterator[tuple[Keys, float]]:
    for id_ in ids:
        for task, value in enumerate(summary.curves.get(id_, []), start=1):
            if value is not None:
                yield (id_, task), value


def forgetting_pairs(run: Run) -> dict[tuple[str, str], tuple[float, float]]:
    """Return FORG and WF10 of each older task after each task, by (trained, tested)."""
    stream, matrix = run.stream, run.matrix
    if stream is None or matrix is None:
        return {}
    pairs = metrics.forgetting_pairs(matrix, stream, window=10)
    return {(matrix.tasks[k], matrix.tasks[j]): both for (k, j), both in pairs.items()}
