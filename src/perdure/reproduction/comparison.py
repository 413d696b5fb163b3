"""Published numbers next to measured ones: which runs belong to which row, and how far apart."""

from __future__ import annotations

import statistics
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from .._display import count_of
from ..studies import make_study
from .measurements import CellRuns, Measurements, NotMeasuredError
from .published import find_missing_data

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ..studies import Cell, Study
    from .published import PublishedResult, PublishedRow

__all__ = [
    "Agreement",
    "ComparisonRow",
    "build_study",
    "collect_measurements",
    "compare_with_published",
    "count_agreement",
    "count_sds",
    "list_measured_rows",
]


def build_study(
    result: PublishedResult, *, quick: bool = False, device: str = "cpu"
) -> tuple[Study | None, dict[str, list[str]]]:
    """Return the study of a published result, and the missing datasets by scenario.

    Scenarios whose data is missing are left out of the study, which is None if none is left.

    Args:
        result: The result to reproduce.
        quick: Build the quick version.
        device: The device of the runs.

    Example:
        >>> from perdure.reproduction import find_published_result
        >>> _, missing = build_study(find_published_result("delange-mnist"))
        >>> set(missing) <= {"split-mnist"}
        True
    """
    missing = find_missing_data(result.scenarios(quick=quick))
    plain = result.study_dict(quick=quick, without=list(missing), run={"device": device})
    if not plain["scenarios"]:
        return None, missing
    return make_study(plain, f"{result.name}-quick" if quick else result.name), missing


def collect_measurements(
    result: PublishedResult, done: Mapping[Cell, Sequence[Path]]
) -> Measurements:
    """Return the measurements of a study's finished runs."""
    cells = [
        CellRuns({name: value or None for name, value in cell._asdict().items()}, folders)
        for cell, folders in done.items()
    ]
    return Measurements(result, cells)


class ComparisonRow(NamedTuple):
    """One number: as published and as measured in each run.

    Args:
        table: The paper's number of the table.
        cell: The factors of the cell that was measured.
        details: How the number was computed, if subsampled or weighted.
        id: Id of the metric.
        published: Mean in the paper.
        published_sd: SD in the paper.
        values: The measured values, one per run.
        own_values: The values by our own definition, if the paper counts evaluations differently or
            calls the setting by another name.
        not_measured: Why there are no values.
    """

    table: str
    cell: Mapping[str, str]
    details: str
    id: str
    published: float | None
    published_sd: float | None
    values: Sequence[float]
    own_values: Sequence[float] = ()
    not_measured: str = ""

    @property
    def mean(self) -> float | None:
        """Mean over the runs."""
        return statistics.fmean(self.values) if self.values else None

    @property
    def sd(self) -> float | None:
        """Sample SD over the runs."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    @property
    def difference(self) -> float | None:
        """Measured minus published."""
        if self.mean is None or self.published is None:
            return None
        return self.mean - self.published

    @property
    def deviation(self) -> tuple[float, str] | None:
        """The difference in SDs, and whose SD: the paper's, or ours if it prints none or 0.

        Example:
            >>> ComparisonRow("3", {}, "", "acc", 90.0, 2.0, [91.0, 95.0]).deviation
            (1.5, 'paper')
            >>> ComparisonRow("3", {}, "", "acc", 90.0, None, [91.0, 93.0]).deviation[1]
            'ours'
        """
        if self.difference is None:
            return None
        for sd, source in ((self.published_sd, "paper"), (self.sd, "ours")):
            if sd:
                return self.difference / sd, source
        return None


class Agreement(NamedTuple):
    """How many published numbers the measured ones agree with.

    The SD is the paper's, or ours over three seeds or more if it prints none or 0; with fewer
    seeds, .03 (3 percent) counts as two SDs.
    """

    within_one_sd: int
    within_two_sds: int  # but not within one
    beyond: int
    not_measured: int

    def __str__(self) -> str:
        measured = self.within_one_sd + self.within_two_sds + self.beyond
        text = f"{self.within_one_sd} of {count_of(measured, 'number')} within one SD"
        text += f", {self.within_two_sds} more within two, {self.beyond} beyond"
        return text + (f"; {self.not_measured} not measured" if self.not_measured else "")


def count_agreement(rows: Sequence[ComparisonRow], *, percent: bool) -> Agreement:
    """Return how many published numbers the measured ones agree with; ranks are left out.

    Example:
        >>> rows = [
        ...     ComparisonRow("3", {}, "", "acc", 90.0, 1.0, [90.5]),
        ...     ComparisonRow("3", {}, "", "acc", 90.0, None, [92.5]),
        ...     ComparisonRow("3", {}, "", "acc", 90.0, None, [94.0, 95.0]),
        ...     ComparisonRow("3", {}, "", "acc", 90.0, None, [], not_measured="no finished run"),
        ... ]
        >>> print(count_agreement(rows, percent=True))
        1 of 3 numbers within one SD, 1 more within two, 1 beyond; 1 not measured
    """
    counts = {"within_one_sd": 0, "within_two_sds": 0, "beyond": 0, "not_measured": 0}
    for row in rows:
        if row.published is not None and row.id != "rank":
            counts[_agreement(count_sds(row, percent=percent))] += 1
    return Agreement(**counts)


def count_sds(row: ComparisonRow, *, percent: bool) -> float | None:
    """Return the difference in the SDs of `Agreement`; None if the number was not measured.

    Example:
        >>> count_sds(ComparisonRow("3", {}, "", "acc", 90.0, None, [93.0]), percent=True)
        2.0
    """
    if row.difference is None:
        return None
    own_sd = row.sd if len(row.values) >= 3 else None
    fallback = 1.5 if percent else 0.015
    # 92.7 - 92.3 is a little more than .4
    return round(row.difference / (row.published_sd or own_sd or fallback), 9)


def _agreement(sds: float | None) -> str:
    if sds is None:
        return "not_measured"
    return "within_one_sd" if abs(sds) <= 1 else "within_two_sds" if abs(sds) <= 2 else "beyond"


def compare_with_published(measurements: Measurements) -> list[ComparisonRow]:
    """Return every published number next to what was measured, then the extra metrics."""
    result = measurements.result
    rows = [row for published in result.published for row in _compare_row(measurements, published)]
    return rows + list_measured_rows(measurements, result.extra_metrics)


def list_measured_rows(measurements: Measurements, ids: Sequence[str]) -> list[ComparisonRow]:
    """Return some metrics of every cell, without published numbers."""
    rows = []
    for cell in measurements.cells:
        factors = {name: value for name, value in cell.cell.items() if value is not None}
        for id_ in ids:
            with suppress(NotMeasuredError):
                values = measurements.values(id_, factors)
                rows.append(ComparisonRow("", factors, "", id_, None, None, values))
    return rows


def _compare_row(measurements: Measurements, published: PublishedRow) -> list[ComparisonRow]:
    details = ["training examples"] if published.on == "train" else []
    details += [f"every {published.subsample}"] if published.subsample > 1 else []
    details += [published.weights] if published.weights else []
    rows = []
    for id_ in published.values:
        mean, sd = published.mean_and_sd(id_)
        values, reason = _measure(measurements, id_, published)
        own_values: Sequence[float] = ()
        if values and measurements.result.counting == "De Lange":
            own_values, _ = _measure(measurements, id_, published, as_published=False)
        if own_setting := measurements.result.own_settings.get(published.setting or ""):
            named = msgspec.structs.replace(published, setting=own_setting)
            own_values, _ = _measure(measurements, id_, named)
        rows.append(
            ComparisonRow(
                published.table, published.factors, ", ".join(details), id_, mean, sd, values,
                own_values, reason,
            )
        )  # fmt: skip
    return rows if published.rank is None else [*rows, _compare_rank(measurements, published)]


def _measure(
    measurements: Measurements, id_: str, row: PublishedRow, *, as_published: bool = True
) -> tuple[Sequence[float], str]:
    """Return a metric of every run of a published row, or the reason why there is none."""
    try:
        values = measurements.values(
            id_, row.factors, subsample=row.subsample, weights=row.weights,
            as_published=as_published, on_train=row.on == "train",
        )  # fmt: skip
    except NotMeasuredError as error:
        return (), str(error)
    return values, ""


def _compare_rank(measurements: Measurements, published: PublishedRow) -> ComparisonRow:
    """Return the rank of a strategy by accuracy among all of its table and setting."""
    peers = [
        row.factors
        for row in measurements.result.published
        if (row.table, row.setting) == (published.table, published.setting)
    ]
    rank: list[float] = []
    reason = ""
    try:
        own, *others = (
            statistics.fmean(measurements.values("acc.lower", factors))
            for factors in (published.factors, *peers)
        )
        rank = [1.0 + sum(other > own for other in others)]
    except NotMeasuredError as error:
        reason = str(error)
    return ComparisonRow(
        published.table, published.factors, "", "rank", float(published.rank or 0), None, rank,
        (), reason,
    )  # fmt: skip
