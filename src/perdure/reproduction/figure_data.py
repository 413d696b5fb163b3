"""The data behind the papers' figures, as rows for a CSV: mean and SD over the runs of a cell."""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import metrics
from .published import CELL

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from ..record import Run
    from .measurements import CellRuns, Measurements
    from .published import PublishedFigure

__all__ = ["figure_rows", "forgetting_pairs", "write_figures"]

Keys = tuple[str | int, ...]
Numbers = dict[Keys, list[float]]  # by what names a row, the number of every run


def write_figures(found: Measurements, folder: Path, name: str) -> list[Path]:
    """Return the files written: one a figure of the entry, for the cells that are measured."""
    written = []
    for figure in found.entry.figures:
        label = re.sub(r"[^0-9a-z]+", "-", figure.figure.lower()).strip("-")
        path = folder / f"{name}-figure-{label}.csv"
        header, rows = figure_rows(found, figure)
        if not rows:
            continue
        folder.mkdir(parents=True, exist_ok=True)
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerows([header, *rows])
        written.append(path)
    return written


def figure_rows(found: Measurements, figure: PublishedFigure) -> tuple[list[str], list[list[Any]]]:
    """Return header and rows of the data behind a figure: what it shows, mean, SD, runs."""
    names, read = KINDS[figure.of]
    rows: list[list[Any]] = []
    for each in found.cells:
        if any(each.cell.get(name) != value for name, value in figure.given.items()):
            continue
        cell = [each.cell.get(name) or "" for name in CELL]
        rows += [
            [*cell, *keys, *_spread(values)] for keys, values in read(found, each, figure).items()
        ]
    return [*CELL, *names, "mean", "sd", "runs"], rows


def _spread(values: Sequence[float]) -> list[float | int | str]:
    sd = f"{np.std(values, ddof=1):.6g}" if len(values) > 1 else ""
    return [f"{np.mean(values):.6g}", sd, len(values)]


def _scores(found: Measurements, cell: CellRuns, figure: PublishedFigure) -> Numbers:
    """Return the score on every evaluation task after every iteration that was tested."""
    rows: Numbers = defaultdict(list)
    for folder in cell.folders:
        stream = found.run(folder).stream
        tasks = list(stream.tasks.items())[: figure.tasks] if stream is not None else []
        for task, (steps, scores) in tasks:
            for step, score in zip(steps.tolist(), scores.tolist(), strict=True):
                rows[task, step].append(score)
    return rows


def _gradients(found: Measurements, cell: CellRuns, figure: PublishedFigure) -> Numbers:  # noqa: ARG001
    """Return the norms of both terms after every iteration at which they were recorded."""
    rows: Numbers = defaultdict(list)
    for folder in cell.folders:
        norms = found.run(folder).gradients
        if norms is None:
            continue
        for term in ("plasticity", "stability"):
            each = zip(norms.trained, norms.step.tolist(), getattr(norms, term), strict=True)
            for task, step, norm in each:
                if not np.isnan(norm):
                    rows[term, task, step].append(float(norm))
    return rows


def forgetting_pairs(run: Run) -> dict[tuple[str, str], tuple[float, float]]:
    """Return FORG and WF10 of every older task after each task, by (trained, tested)."""
    stream, matrix = run.stream, run.matrix
    if stream is None or matrix is None:
        return {}
    pairs = metrics.forgetting_pairs(matrix, stream, window=10)
    return {(matrix.tasks[k], matrix.tasks[j]): both for (k, j), both in pairs.items()}


def _forgetting(found: Measurements, cell: CellRuns, figure: PublishedFigure) -> Numbers:  # noqa: ARG001
    rows: Numbers = defaultdict(list)
    for folder in cell.folders:
        for (trained, tested), both in forgetting_pairs(found.run(folder)).items():
            for id_, value in zip(("forgetting.learned", "wf10"), both, strict=True):
                rows[id_, trained, tested].append(value)
    return rows


def _tasks(found: Measurements, cell: CellRuns, figure: PublishedFigure) -> Numbers:
    """Return curves of metrics after each task."""
    rows: Numbers = defaultdict(list)
    for folder in cell.folders:
        one = found.summary(folder)
        for id_ in figure.ids:
            for k, value in enumerate(one.curves.get(id_, []), start=1):
                if value is not None:
                    rows[id_, k].append(value)
    return rows


def _matrix(found: Measurements, cell: CellRuns, figure: PublishedFigure) -> Numbers:  # noqa: ARG001
    """Return the score on every task after each task."""
    rows: Numbers = defaultdict(list)
    for folder in cell.folders:
        matrix = found.run(folder).matrix
        if matrix is None:
            continue
        for (i, j), score in np.ndenumerate(matrix.scores):
            if not np.isnan(score):
                rows[matrix.tasks[i], matrix.tasks[j]].append(float(score))
    return rows


KINDS: dict[
    str, tuple[tuple[str, ...], Callable[[Measurements, CellRuns, PublishedFigure], Numbers]]
] = {
    "scores": (("tested", "step"), _scores),
    "gradients": (("term", "trained", "step"), _gradients),
    "forgetting": (("id", "trained", "tested"), _forgetting),
    "tasks": (("id", "after task"), _tasks),
    "matrix": (("trained", "tested"), _matrix),
}
