"""Published numbers beside measured ones: which runs belong to which line, and how far off."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, NamedTuple

from ..studies.study import make_study
from .measurements import CellRuns, Measurements, NotMeasuredError
from .published import find_missing_data

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ..studies.study import Cell, Study
    from .published import PublishedResult, PublishedRow

__all__ = [
    "ComparisonRow",
    "build_study",
    "collect_measurements",
    "compare_with_published",
    "list_measured_rows",
]


def build_study(
    entry: PublishedResult, *, quick: bool = False, device: str = "cpu"
) -> tuple[Study | None, dict[str, list[str]]]:
    """Return the study of an entry, as far as its data is at hand, and what is not, by scenario.

    Args:
        entry: what to run.
        quick: the small version.
        device: of the runs.

    Example:
        >>> from perdure.reproduction import find_published_result
        >>> _, missing = build_study(find_published_result("delange-mnist"))
        >>> set(missing) <= {"split-mnist"}
        True
    """
    missing = find_missing_data(entry.mapping(quick=quick)["scenarios"])
    plain = entry.mapping(quick=quick, without=list(missing))
    if not plain["scenarios"]:
        return None, missing
    plain["run"] = {**plain["run"], "device": device}
    return make_study(plain, f"{entry.name}-quick" if quick else entry.name), missing


def collect_measurements(
    entry: PublishedResult, done: Mapping[Cell, Sequence[Path]]
) -> Measurements:
    """Return what was found in the finished runs of a study's cells."""
    cells = [
        CellRuns({name: value or None for name, value in cell._asdict().items()}, folders)
        for cell, folders in done.items()
    ]
    return Measurements(entry, cells)


class ComparisonRow(NamedTuple):
    """One number: as published, as measured in each run, and why not where it was not."""

    table: str
    cell: Mapping[str, str]
    how: str  # thinned or weighted otherwise
    id: str
    published: float | None
    sd: float | None
    values: Sequence[float]
    ours: Sequence[float] = ()  # by our own definition, where the paper counts in another way
    missing: str = ""

    @property
    def mean(self) -> float | None:
        """Mean over the runs."""
        return statistics.fmean(self.values) if self.values else None

    @property
    def own_sd(self) -> float | None:
        """Sample SD over the runs."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    @property
    def difference(self) -> float | None:
        """Measured less published."""
        if self.mean is None or self.published is None:
            return None
        return self.mean - self.published

    @property
    def deviation(self) -> tuple[float, str] | None:
        """The difference in SDs, and whose: the paper's, or ours where it prints none or 0.

        Example:
            >>> ComparisonRow("3", {}, "", "acc", 90.0, 2.0, [91.0, 95.0]).deviation
            (1.5, 'paper')
            >>> ComparisonRow("3", {}, "", "acc", 90.0, None, [91.0, 93.0]).deviation[1]
            'ours'
        """
        if self.difference is None:
            return None
        for sd, whose in ((self.sd, "paper"), (self.own_sd, "ours")):
            if sd:
                return self.difference / sd, whose
        return None


def compare_with_published(found: Measurements) -> list[ComparisonRow]:
    """Return every published number beside what was measured, then what else was measured."""
    lines = [line for row in found.entry.published for line in _of_row(found, row)]
    return lines + list_measured_rows(found, found.entry.also)


def list_measured_rows(found: Measurements, ids: Sequence[str]) -> list[ComparisonRow]:
    """Return some metrics of every cell, with nothing beside them."""
    lines = []
    for each in found.cells:
        cell = {name: value for name, value in each.cell.items() if value is not None}
        for id_ in ids:
            values, missing = _measured(found, id_, cell)
            if not missing:
                lines.append(ComparisonRow("", cell, "", id_, None, None, values))
    return lines


def _of_row(found: Measurements, row: PublishedRow) -> list[ComparisonRow]:
    how = [f"every {row.thin}"] if row.thin > 1 else []
    how += [row.weights] if row.weights else []
    lines = []
    for id_ in row.values:
        mean, sd = row.mean_and_sd(id_)
        values: Sequence[float] = ()
        ours: Sequence[float] = ()
        missing = row.missing or ""
        if not missing:
            values, missing = _measured(found, id_, row.given, row.thin, row.weights)
        if values and found.entry.counting == "De Lange":
            ours = found.values(id_, row.given, thin=row.thin, ours=True)
        made = ComparisonRow(
            row.table, row.given, ", ".join(how), id_, mean, sd, values, ours, missing
        )
        lines.append(made)
    return lines if row.rank is None else [*lines, _rank(found, row)]


def _measured(
    found: Measurements,
    id_: str,
    where: Mapping[str, str],
    thin: int = 1,
    weights: str | None = None,
) -> tuple[Sequence[float], str]:
    """Return a metric of every run, or why there is none."""
    try:
        return found.values(id_, where, thin=thin, weights=weights), ""
    except NotMeasuredError as reason:
        return (), str(reason)


def _rank(found: Measurements, row: PublishedRow) -> ComparisonRow:
    """Return the rank of a strategy by accuracy among all of its table and setting."""
    peers = [
        other.given
        for other in found.entry.published
        if (other.table, other.setting) == (row.table, row.setting)
    ]
    values: list[float] = []
    missing = ""
    try:
        mine = found.mean("acc.lower", row.given)
        values = [1.0 + sum(found.mean("acc.lower", each) > mine for each in peers)]
    except NotMeasuredError as reason:
        missing = str(reason)
    return ComparisonRow(
        row.table, row.given, "", "rank", float(row.rank or 0), None, values, (), missing
    )
