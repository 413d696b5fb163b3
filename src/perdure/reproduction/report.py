"""The report of one reproduction: comparison, claims, deviations, and the data of the figures.

The data of figures is CSV: mean and SD over the runs of a cell.
"""

from __future__ import annotations

import csv
import json
import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .claims import check_claims
from .comparison import Agreement, compare_with_published, count_agreement, list_measured_rows
from .measurements import Claim, forgetting_pairs
from .published import CELL_FACTORS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from ..metrics import Summary
    from ..record import Run
    from .comparison import ComparisonRow
    from .measurements import Measurements
    from .published import PublishedFigure, PublishedResult

__all__ = ["ReproductionReport", "figure_rows", "write_figures", "write_report"]

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


class ReproductionReport(NamedTuple):
    """What was measured for a published result.

    Args:
        result: The published result.
        quick: Whether its quick version was run, which is not compared with the paper.
        rows: Published and measured numbers.
        claims: The paper's claims; none for a quick version.
        deviations: Known differences from the published set-up.
        figures: Files with the data of figures.
        missing_data: Datasets that are not available locally, by scenario.
        failed: Errors of failed runs by the name of their folder.
    """

    result: PublishedResult
    quick: bool
    rows: Sequence[ComparisonRow]
    claims: Sequence[Claim]
    deviations: Sequence[str]
    figures: Sequence[Path]
    missing_data: Mapping[str, Sequence[str]]
    failed: Mapping[str, str]

    @property
    def complete(self) -> bool:
        """Whether no data was missing and no run failed."""
        return not self.missing_data and not self.failed

    @property
    def agreement(self) -> Agreement:
        """How many of the published numbers were reproduced."""
        return count_agreement(self.rows, percent=self.result.unit == "percent")

    def to_dict(self) -> dict[str, object]:
        """Return the report as plain data for JSON."""
        return {
            "name": self.result.name, "paper": self.result.paper, "tables": self.result.tables,
            "quick": self.quick, "quick_about": self.result.quick_about if self.quick else None,
            "unit": self.result.unit,
            "agreement": None if self.quick else self.agreement._asdict(),
            "rows": [_row_as_dict(row, quick=self.quick) for row in self.rows],
            "claims": [claim._asdict() for claim in self.claims],
            "deviations": list(self.deviations),
            "figures": [str(path) for path in self.figures],
            "missing_data": dict(self.missing_data), "failed": dict(self.failed),
        }  # fmt: skip


def write_report(
    measurements: Measurements,
    folder: Path,
    *,
    quick: bool,
    missing_data: Mapping[str, Sequence[str]],
    failed: Mapping[str, str],
) -> ReproductionReport:
    """Write NAME.json and the CSV files of figures into `folder`, and return the report."""
    result = measurements.result
    name = f"{result.name}-quick" if quick else result.name
    if quick:
        rows, claims = list_measured_rows(measurements, result.ids), list[Claim]()
    else:
        rows, claims = compare_with_published(measurements), check_claims(measurements)
    deviations = [*([] if quick else result.deviations), *measurements.deviations]
    figures = write_figures(measurements, folder, name)
    report = ReproductionReport(
        result, quick, rows, claims, deviations, figures, missing_data, failed
    )
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(report.to_dict(), indent=1, allow_nan=False)
    (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    return report


def _row_as_dict(row: ComparisonRow, *, quick: bool) -> dict[str, object]:
    measured: dict[str, object] = {
        **row.cell, "id": row.id, "details": row.details, "measured": row.mean,
        "measured_sd": row.sd, "values": list(row.values),
    }  # fmt: skip
    if quick:
        return measured
    deviation, source = row.deviation or (None, None)
    return {
        **measured, "table": row.table, "published": row.published,
        "published_sd": row.published_sd, "difference": row.difference,
        "difference_in_sds": deviation, "sd_source": source,
        "own_values": list(row.own_values), "not_measured": row.not_measured,
    }  # fmt: skip
