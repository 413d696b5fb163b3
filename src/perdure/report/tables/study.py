"""The tables of a study, and published numbers next to measured ones."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

import msgspec

from ...metrics import find_metric
from .scores import format_value
from .text_table import TextTable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...reproduction.comparison import ComparisonRow
    from ...reproduction.measurements import Claim
    from ...studies import GuidelineCheck, Study, StudyRow, StudyStatus

__all__ = ["claims_table", "comparison_table", "study_tables", "study_to_dict"]

COLUMNS = ("acc", "acc.learning", "bwt", "forgetting.best", "min_acc", "wc_acc")
CONTROL_COLUMNS = ("retention", "retention.worst")  # of runs with control tasks
COSTS = {"seconds_train": ("train s", 1.0), "peak_bytes": ("peak MB", 1e6)}
FACTORS = ("scenario", "setting", "model")  # one table per combination


def study_tables(
    rows: Sequence[StudyRow], ids: Sequence[str] = (), *, together: bool = False
) -> list[TextTable]:
    """Return a table per scenario, setting and model: mean and SD over seeds.

    Args:
        rows: The rows of the study.
        ids: The metrics to show; a default selection if empty.
        together: Put all rows into one table, for formats without titles.
    """
    if together:
        return [_table("", rows, ids)]
    groups: dict[tuple[str, ...], list[StudyRow]] = {}
    for row in rows:
        groups.setdefault(tuple(row.cell[:3]), []).append(row)
    return [
        _table(f"{scenario}, {setting}-incremental, {model}", group, ids)
        for (scenario, setting, model), group in groups.items()
    ]


def _table(title: str, rows: Sequence[StudyRow], ids: Sequence[str]) -> TextTable:
    shown = [id_ for id_ in ids or COLUMNS if ids or any(row.has(id_) for row in rows)]
    factors = [name for name in FACTORS if len({getattr(row.cell, name) for row in rows}) > 1]
    factors += ["strategy", *(["variant"] if any(row.cell.variant for row in rows) else [])]
    costs = {name: cost for name, cost in COSTS.items() if any(row.costs(name) for row in rows)}
    header = [*factors, "seeds", *shown, *(column for column, _ in costs.values())]
    body = []
    for row in rows:
        cells = [getattr(row.cell, name) for name in factors]
        cells.append(f"{len(row.runs)} of {row.seeds}")
        cells += [_format_metric(row, id_) for id_ in shown]
        for name, (_, unit) in costs.items():
            values = row.costs(name)
            cells.append(f"{sum(values) / len(values) / unit:.3g}" if values else "")
        body.append(cells)
    headings = {(-1, k): id_ for k, id_ in enumerate(shown, start=len(factors) + 1)}
    return TextTable(header, body, title=title, right={*header} - {*factors}, ids=headings)


def _format_metric(row: StudyRow, id_: str) -> str:
    values = row.mean_and_sd(id_)
    if values is None:
        return ""
    unit = find_metric(id_).unit
    numbers = [
        format_value(value, unit, percent=False, digits=3) for value in values if value is not None
    ]
    return " ± ".join(numbers)


def study_to_dict(
    study: Study,
    rows: Sequence[StudyRow],
    status: StudyStatus,
    checks: Sequence[GuidelineCheck],
) -> dict[str, object]:
    """Return plain lists and numbers, ready for JSON."""
    return {
        "study": study.name,
        "cells": [
            {
                **row.cell._asdict(), "seeds": row.seeds, "selected": row.selected,
                "runs": msgspec.to_builtins(row.runs),
            }
            for row in rows
        ],
        "failed": {folder.name: error for folder, error in status.failed.items()},
        "waiting": [folder.name for folder in status.waiting],
        "undecided": [str(cell) for cell in status.undecided],
        "guidelines": [
            {"guideline": check.guideline, "met": check.met, "violations": list(check.violations)}
            for check in checks
        ],
    }  # fmt: skip


def comparison_table(
    rows: Sequence[ComparisonRow], digits: int, *, quick: bool = False
) -> TextTable:
    """Return a table with a row per number: published, measured, and the difference in SDs.

    Args:
        rows: The numbers to show.
        digits: Number of decimals.
        quick: Leave out everything that is the paper's.
    """
    factors = varying_factors([row.cell for row in rows])
    own = not quick and any(row.own_values for row in rows)
    header = ["table", "cell", "id", "published", "measured", "difference", "in SDs"]
    header += ["by our definition"] if own else []
    body = []
    for row in rows:
        label = " ".join(row.cell[name] for name in factors if name in row.cell)
        cells = [row.table, f"{label} {row.details}".strip(), row.id, *_format_numbers(row, digits)]
        if own:
            cells.append(f"{statistics.fmean(row.own_values):.{digits}f}" if row.own_values else "")
        body.append(cells)
    if quick:
        header, body = ["cell", "id", "measured"], [[row[1], row[2], row[4]] for row in body]
    return TextTable(header, body, right={*header} - {"table", "cell", "id"})


def varying_factors(cells: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the factors that take more than one value, in order.

    Example:
        >>> varying_factors([{"model": "mlp", "strategy": "ewc"},
        ...                  {"model": "mlp", "strategy": "si"}])
        ['strategy']
    """
    names = dict.fromkeys(name for cell in cells for name in cell)
    return [name for name in names if len({cell[name] for cell in cells if name in cell}) > 1]


def _format_numbers(row: ComparisonRow, digits: int) -> list[str]:
    places = 0 if row.id == "rank" else digits

    def format_mean(mean: float | None, sd: float | None) -> str:
        if mean is None:
            return ""
        return f"{mean:.{places}f}" + (f" ± {sd:.{places}f}" if sd is not None else "")

    return [
        format_mean(row.published, row.published_sd),
        format_mean(row.mean, row.sd) if row.values else f"not measured: {row.not_measured}",
        f"{row.difference:+.{places}f}" if row.difference is not None else "",
        f"{row.deviation[0]:+.1f} ({row.deviation[1]})" if row.deviation else "",
    ]


def claims_table(claims: Sequence[Claim]) -> TextTable:
    """Return a table with a row per claim: whether it holds, and the numbers that decide it."""
    holds = {True: "yes", False: "NO", None: "?"}
    rows = [[holds[claim.holds], claim.text, claim.numbers] for claim in claims]
    return TextTable(["holds", "claim", "measured"], rows)
