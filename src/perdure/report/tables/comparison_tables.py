"""The tables of `perdure compare`."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

from ...metrics import display_name, find_metric
from .scores import ARROWS, PERCENT_UNITS, format_value
from .text_table import TextTable

if TYPE_CHECKING:
    from ...metrics import MethodsComparison
    from ...stats import Comparison
    from .comparison import ComparisonReport
    from .scores import Format

__all__ = ["MAX_DETAILED_PAIRS", "make_comparison_tables"]

MAX_DETAILED_PAIRS = 10  # with more, the p-values of all metrics are in one table


def make_comparison_tables(
    report: ComparisonReport,
    form: str,
    *,
    percent: bool = False,
    digits: int = 4,
    details: bool = False,
) -> list[TextTable]:
    """Return the tables in one format: people, markdown, latex or csv.

    For people there are two tables per metric, its methods and their differences; for papers one
    table with the best means marked, and with `details` also intervals, ranks, p-values and
    differences; CSV has one line per metric and method.
    """
    if form == "csv":
        return [_csv_table(report), *([_csv_pair_table(report)] if details else [])]
    write = partial(_format, percent=percent, digits=digits)
    if form == "text":
        short = report.comparisons > MAX_DETAILED_PAIRS and not details
        tables = []
        for one in report.metrics.values():
            tables.append(_metric_table(report, one, write, percent))
            tables += [] if short else [_difference_table(report, one, write)]
        return [*tables, _p_value_table(report)] if short and tables else tables
    if not report.metrics:
        return []
    tables = [_mean_table(report, write, percent=percent)]
    if details:
        tables += [_interval_table(report, write), _rank_table(report), _p_value_table(report)]
        tables += [_difference_table(report, one, write) for one in report.metrics.values()]
    return tables


def _format(value: float, id_: str, *, percent: bool, digits: int) -> str:
    """Return a value with `digits` digits, also in percent; an empty string for NaN."""
    if math.isnan(value):
        return ""
    unit = find_metric(id_).unit
    return format_value(
        value, unit, percent=percent, digits=digits + 2 * (percent and unit != "none")
    )


def _join_ends(low: float | None, high: float | None, id_: str, write: Format) -> str:
    ends = ["" if end is None else write(end, id_) for end in (low, high)]
    return " to ".join(ends) if all(ends) else ""


def _interval_title(report: ComparisonReport) -> str:
    return f"{100 * report.level:g}% interval"


def _metric_table(
    report: ComparisonReport, one: MethodsComparison, write: Format, percent: bool
) -> TextTable:
    """Return the table of one metric, the best method first."""
    name = display_name(find_metric(one.id), report.scale)
    header = ["method", "mean", "SD", _interval_title(report)]
    header += ["rank"] if one.ranks else []
    header += ["n", *(["letters"] if one.letters else [])]
    rows = []
    for method in one.best_first:
        mean = one.means[method]
        row = [method, write(mean.mean, one.id), write(mean.sd, one.id)]
        row += [_join_ends(mean.low, mean.high, one.id, write)]
        row += [f"{one.ranks[method]:.2f}"] if one.ranks else []
        row += [str(mean.seeds), *([one.letters[method]] if one.letters else [])]
        rows.append(row)
    title = _metric_title(one, percent=percent)
    right = set(header) - {"method", "letters"}
    return TextTable(header, rows, title=f"{title} {name}", right=right)


def _difference_table(report: ComparisonReport, one: MethodsComparison, write: Format) -> TextTable:
    """Return the differences of one metric with interval, effect and p; * if distinguishable."""
    p = "p after Holm" if report.comparisons > 1 else "p"
    header = ["pair", "difference", _interval_title(report), report.pair_test.effect_name, p]
    rows = []
    for (first, second), pair in one.pairs.items():
        size = write(pair.difference, one.id)
        ends = _join_ends(pair.low, pair.high, one.id, write)
        ends = "unbounded" if pair.p is not None and not ends else ends
        effect = "" if pair.effect is None else f"{pair.effect:+.2f}"
        rows.append([
            f"{first} - {second}", size if size.startswith("-") else f"+{size}", ends, effect,
            _format_p(pair),
        ])  # fmt: skip
    return TextTable(header, rows, title=f"{one.id} differences", right=set(header[1:]))


def _mean_table(report: ComparisonReport, write: Format, *, percent: bool) -> TextTable:
    """Return mean ± SD per method and metric, the best bold and the second underlined."""
    header = [_metric_title(one, percent=percent) for one in report.metrics.values()]
    table = TextTable(
        ["method", *header], [[name] for name in report.runs], right=set(header),
        ids=_heading_ids(report),
    )  # fmt: skip
    for k, (id_, one) in enumerate(report.metrics.items(), start=1):
        means = {name: write(one.means[name].mean, id_) for name in report.runs}
        # Ranked as printed: of two equal numbers, neither alone may be bold.
        order = list(dict.fromkeys(means[name] for name in one.best_first))
        for i, name in enumerate(report.runs):
            sd = write(one.means[name].sd, id_)
            table.rows[i].append(f"{means[name]} ± {sd}" if sd else means[name])
            table.superscripts[i, k] = one.mark(name)
            if means[name] == order[0]:
                table.best.add((i, k))
            elif means[name] == order[1]:
                table.second.add((i, k))
    return table


def _metric_title(one: MethodsComparison, *, percent: bool = False) -> str:
    unit = PERCENT_UNITS[find_metric(one.id).unit]
    return f"{one.id}{f' ({unit})' if percent and unit else ''} {ARROWS[one.better]}"


def _interval_table(report: ComparisonReport, write: Format) -> TextTable:
    header = [_metric_title(one) for one in report.metrics.values()]
    rows = [
        [
            name,
            *(
                _join_ends(one.means[name].low, one.means[name].high, one.id, write)
                for one in report.metrics.values()
            ),
        ]
        for name in report.runs
    ]
    return TextTable(
        ["method", *header], rows, title=_interval_title(report), right=set(header),
        ids=_heading_ids(report),
    )  # fmt: skip


def _rank_table(report: ComparisonReport) -> TextTable:
    header = [_metric_title(one) for one in report.metrics.values()]
    rows = [
        [name, *(f"{one.ranks[name]:.2f}" for one in report.metrics.values() if one.ranks)]
        for name in report.runs
    ]
    return TextTable(
        ["method", *header], rows, title="mean rank over seeds", right=set(header),
        ids=_heading_ids(report),
    )  # fmt: skip


def _p_value_table(report: ComparisonReport) -> TextTable:
    """Return the corrected p-values; * if methods are distinguishable."""
    every = list(report.metrics.values())
    rows = [
        [" - ".join(pair), *(_format_p(one.pairs[pair]) for one in every)]
        for pair in every[0].pairs
    ]
    title = f"p after Holm (* below {report.alpha:g})"
    header = list(report.metrics)
    return TextTable(
        ["pair", *header], rows, title=title, right=set(header), ids=_heading_ids(report)
    )


def _heading_ids(report: ComparisonReport) -> dict[tuple[int, int], str]:
    """Return which columns are headed by which id; the first column names methods."""
    return {(-1, k): id_ for k, id_ in enumerate(report.metrics, start=1)}


def _format_p(pair: Comparison) -> str:
    if pair.p is None:
        return "not tested"
    size = f"{pair.p:.4f}" if pair.p >= 0.0001 else "<0.0001"
    return size + ("*" if pair.distinguishable else " ")


def _csv_table(report: ComparisonReport) -> TextTable:
    header = ["id", "better", "method", "n", "mean", "SD", "low", "high", "rank", "letters"]
    rows = []
    for id_, one in report.metrics.items():
        for name, mean in one.means.items():
            numbers = [mean.mean, mean.sd, mean.low, mean.high, one.ranks.get(name)]
            cells = [_format_precise(value) for value in numbers]
            letters = one.letters.get(name, "")
            rows.append([id_, one.better, name, str(mean.seeds), *cells, letters])
    return TextTable(header, rows)


def _csv_pair_table(report: ComparisonReport) -> TextTable:
    header = ["id", "first", "second", "difference", "low", "high", "effect", "p"]
    rows = []
    for id_, one in report.metrics.items():
        for names, pair in one.pairs.items():
            numbers = [pair.difference, pair.low, pair.high, pair.effect, pair.p]
            cells = [*map(_format_precise, numbers), str(pair.distinguishable).lower()]
            rows.append([id_, *names, *cells, pair.verdict, pair.test])
    return TextTable([*header, "distinguishable", "verdict", "test"], rows)


def _format_precise(value: float | None) -> str:
    return "" if value is None or math.isnan(value) else repr(float(value))
