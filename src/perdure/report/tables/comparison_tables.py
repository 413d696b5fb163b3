"""The tables of `perdure compare`: of methods, and of two runs on the same examples."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ...metrics import better_direction, display_name, find_metric
from .scores import ARROWS, PERCENT_UNITS, format_metric, format_value
from .text_table import TextTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...metrics import MethodsComparison, RunDifference, ScoreScale
    from ...stats import Comparison
    from .comparison import ComparisonReport
    from .scores import Format

__all__ = [
    "MAX_DETAILED_PAIRS",
    "ExampleComparison",
    "describe_example_comparison",
    "example_comparison_to_dict",
    "make_comparison_tables",
    "make_example_tables",
]

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
    table = _table_by_metric(report, [[name] for name in report.runs], percent=percent)
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


def _table_by_metric(
    report: ComparisonReport, rows: list[list[str]], title: str = "", *, percent: bool = False
) -> TextTable:
    header = [_metric_title(one, percent=percent) for one in report.metrics.values()]
    return TextTable(
        ["method", *header], rows, title=title, right=set(header), ids=_heading_ids(report)
    )


def _metric_title(one: MethodsComparison, *, percent: bool = False) -> str:
    unit = PERCENT_UNITS[find_metric(one.id).unit]
    return f"{one.id}{f' ({unit})' if percent and unit else ''} {ARROWS[one.better]}"


def _interval_table(report: ComparisonReport, write: Format) -> TextTable:
    rows = []
    for name in report.runs:
        means = [(one.means[name], one.id) for one in report.metrics.values()]
        rows.append([name, *(_join_ends(mean.low, mean.high, id_, write) for mean, id_ in means)])
    return _table_by_metric(report, rows, _interval_title(report))


def _rank_table(report: ComparisonReport) -> TextTable:
    rows = [
        [name, *(f"{one.ranks[name]:.2f}" for one in report.metrics.values() if one.ranks)]
        for name in report.runs
    ]
    return _table_by_metric(report, rows, "mean rank over seeds")


def _p_value_table(report: ComparisonReport) -> TextTable:
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


@dataclass
class ExampleComparison:
    """The difference of two runs on the same examples, or the reason why there is none."""

    first: str
    second: str
    difference: RunDifference | None = None
    reason: str = ""
    level: float = 0.95


def make_example_tables(
    comparison: ExampleComparison,
    ids: Sequence[str],
    scale: ScoreScale,
    *,
    percent: bool = False,
    digits: int | None = 4,
    per_task: bool = False,
) -> list[TextTable]:
    """Return the differences of two runs with intervals, and a table per task if `per_task`."""
    difference = comparison.difference
    if difference is None:
        return []
    write = partial(format_metric, percent=percent, digits=digits)
    title = f"{comparison.first} - {comparison.second}, on the same examples"
    interval = f"{100 * comparison.level:g}% interval"
    value = "difference (%)" if percent else "difference"
    known = [id_ for id_ in ids if id_ in difference.intervals]
    rows = []
    for id_ in known:
        low, high = ends = difference.intervals[id_]
        numbers = [write(difference.metrics[id_], id_), _join(ends, id_, write)]
        numbers.append("yes" if low > 0 or high < 0 else "no")
        arrow = ARROWS[better_direction(id_, scale)]
        rows.append([id_, arrow, *numbers, display_name(find_metric(id_), scale)])
    header = ["id", "better", value, interval, "apart", "name"]
    cells = {(i, 0): id_ for i, id_ in enumerate(known)}
    tables = [TextTable(header, rows, title=title, right={value, interval}, ids=cells)]
    if per_task:
        tasks = difference.tasks
        cells_of = [
            [id_, *(_task_cell(difference, id_, k, write) for k in range(len(tasks)))]
            for id_ in known
        ]
        tables.append(
            TextTable(["each task", *tasks], cells_of, title=title, right=set(tasks), ids=cells)
        )
    return tables


def describe_example_comparison(comparison: ExampleComparison) -> str:
    """Return in words what the differences are about, or why there are none."""
    first, second = comparison.first, comparison.second
    if comparison.difference is None:
        return f"{first} and {second} are not compared example by example: {comparison.reason}"
    return (
        f"{first} - {second}: intervals are paired on examples and are about these two trained "
        "models, not about the methods: another seed may differ by more; compare several seeds "
        "for that"
    )


def example_comparison_to_dict(comparison: ExampleComparison) -> dict[str, object]:
    """Return plain lists and numbers, ready for JSON."""
    difference = comparison.difference
    header = {"first": comparison.first, "second": comparison.second, "level": comparison.level}
    if difference is None:
        return {**header, "undefined": comparison.reason}
    return {**header, **difference.to_dict()}


def _join(ends: tuple[float, float], id_: str, write: Format) -> str:
    return " to ".join(write(end, id_) for end in ends)


def _task_cell(difference: RunDifference, id_: str, k: int, write: Format) -> str:
    value, ends = difference.per_task[id_][k], difference.per_task_intervals[id_][k]
    return (
        "" if value is None or ends is None else f"{write(value, id_)} ({_join(ends, id_, write)})"
    )
