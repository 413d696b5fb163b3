"""The report of one reproduction: comparison, claims, deviations and the data of figures."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from .claim import Claim
from .claims import check_claims
from .comparison import Agreement, compare_with_published, count_agreement, list_measured_rows
from .figure_data import write_figures

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from .comparison import ComparisonRow
    from .measurements import Measurements
    from .published import PublishedResult

__all__ = ["ReproductionReport", "write_report"]


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
