"""The tables of `perdure compare`."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

from ...metrics import display_name, find_metric
from .scores import ARROWS, format_value
from .text_table import TextTable

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...metrics import MethodsComparison
    from ...stats import Comparison
    from .comparison import ComparisonReport

__all__ = ["MAX_DETAILED_PAIRS", "make_comparison_tables"]

MAX_DETAILED_PAIRS = 10  # of more, people see the p-values of all metrics in one table


def make_comparison_tables(
    found: ComparisonReport,
    form: str,
    *,
    percent: bool = False,
    digits: int = 4,
    details: bool = False,
) -> list[TextTable]:
    """Return the tables of a form: people, markdown, latex or csv.

    For people two tables per metric, its methods and their differences; for papers one table,
    best means marked, and if `details`, intervals, ranks, p-values and differences too; as CSV a
    line for each metric and method.
    """
    if form == "csv":
        return [_lines(found), *([_pair_lines(found)] if details else [])]
    shown = partial(_shown, percent=percent, digits=digits)
    if form == "text":
        short = found.comparisons > MAX_DETAILED_PAIRS and not details
        each = []
        for one in found.metrics.values():
            each.append(_one_metric(found, one, shown, percent))
            each += [] if short else [_differences(found, one, shown)]
        return [*each, _tests(found)] if short and each else each
    if not found.metrics:
        return []
    more = [_intervals(found, shown), _ranks(found), _tests(found)] if details else []
    if details:
        more += [_differences(found, one, shown) for one in found.metrics.values()]
    return [_means(found, shown, percent=percent), *more]


def _shown(value: float, id_: str, *, percent: bool, digits: int) -> str:
    """Return a value with so many digits as printed, in percent too; nothing for NaN."""
    if math.isnan(value):
        return ""
    unit = find_metric(id_).unit
    return format_value(
        value, unit, percent=percent, digits=digits + 2 * (percent and unit != "none")
    )


def _between(low: float | None, high: float | None, id_: str, shown: Callable[..., str]) -> str:
    ends = ["" if end is None else shown(end, id_) for end in (low, high)]
    return " to ".join(ends) if all(ends) else ""


def _percent(found: ComparisonReport) -> str:
    return f"{100 * found.level:g}% interval"


def _one_metric(
    found: ComparisonReport, one: MethodsComparison, shown: Callable[..., str], percent: bool
) -> TextTable:
    """Return a metric's table for people, the best method first."""
    name = display_name(find_metric(one.id), found.scale)
    header = ["method", "mean", "SD", _percent(found)]
    header += ["rank"] if one.ranks else []
    header += ["n", *(["letters"] if one.letters else [])]
    rows = []
    for method in one.best_first:
        mean = one.means[method]
        row = [method, shown(mean.mean, one.id), shown(mean.sd, one.id)]
        row += [_between(mean.low, mean.high, one.id, shown)]
        row += [f"{one.ranks[method]:.2f}"] if one.ranks else []
        row += [str(mean.seeds), *([one.letters[method]] if one.letters else [])]
        rows.append(row)
    title = _titled(one, percent=percent)
    right = set(header) - {"method", "letters"}
    return TextTable(header, rows, title=f"{title} {name}", right=right)


def _differences(
    found: ComparisonReport, one: MethodsComparison, shown: Callable[..., str]
) -> TextTable:
    """Return a metric's differences with interval, effect and p, a star where distinguishable."""
    p = "p after Holm" if found.comparisons > 1 else "p"
    header = ["pair", "difference", _percent(found), found.pair_test.effect_name, p]
    rows = []
    for (first, second), pair in one.pairs.items():
        size = shown(pair.difference, one.id)
        ends = _between(pair.low, pair.high, one.id, shown)
        ends = "unbounded" if pair.p is not None and not ends else ends
        effect = "" if pair.effect is None else f"{pair.effect:+.2f}"
        rows.append([
            f"{first} - {second}", size if size.startswith("-") else f"+{size}", ends, effect,
            _p(pair),
        ])  # fmt: skip
    return TextTable(header, rows, title=f"{one.id} differences", right=set(header[1:]))


def _means(found: ComparisonReport, shown: Callable[..., str], *, percent: bool) -> TextTable:
    """Return mean ± SD of every method and metric, the best bold and the second underlined."""
    header = [_titled(one, percent=percent) for one in found.metrics.values()]
    grid = TextTable(["method", *header], [[name] for name in found.runs], right=set(header))
    for k, (id_, one) in enumerate(found.metrics.items(), start=1):
        means = {name: shown(one.means[name].mean, id_) for name in found.runs}
        # As printed: two equal numbers of which one is bold would puzzle a reader.
        order = list(dict.fromkeys(means[name] for name in one.best_first))
        for i, name in enumerate(found.runs):
            sd = shown(one.means[name].sd, id_)
            grid.rows[i].append(f"{means[name]} ± {sd}" if sd else means[name])
            grid.raised[i, k] = one.mark(name)
            if means[name] == order[0]:
                grid.best.add((i, k))
            elif means[name] == order[1]:
                grid.second.add((i, k))
    return grid


def _titled(one: MethodsComparison, *, percent: bool = False) -> str:
    in_percent = percent and find_metric(one.id).unit != "none"
    return f"{one.id}{' (%)' if in_percent else ''} {ARROWS[one.better]}"


def _intervals(found: ComparisonReport, shown: Callable[..., str]) -> TextTable:
    header = [_titled(one) for one in found.metrics.values()]
    rows = [
        [
            name,
            *(
                _between(one.means[name].low, one.means[name].high, one.id, shown)
                for one in found.metrics.values()
            ),
        ]
        for name in found.runs
    ]
    return TextTable(["method", *header], rows, title=_percent(found), right=set(header))


def _ranks(found: ComparisonReport) -> TextTable:
    header = [_titled(one) for one in found.metrics.values()]
    rows = [
        [name, *(f"{one.ranks[name]:.2f}" for one in found.metrics.values() if one.ranks)]
        for name in found.runs
    ]
    return TextTable(["method", *header], rows, title="mean rank over seeds", right=set(header))


def _tests(found: ComparisonReport) -> TextTable:
    """Return the corrected p-values, a star where methods are distinguishable."""
    every = list(found.metrics.values())
    rows = [[" - ".join(pair), *(_p(one.pairs[pair]) for one in every)] for pair in every[0].pairs]
    title = f"p after Holm (* below {found.alpha:g})"
    header = list(found.metrics)
    return TextTable(["pair", *header], rows, title=title, right=set(header))


def _p(pair: Comparison) -> str:
    if pair.p is None:
        return "not tested"
    size = f"{pair.p:.4f}" if pair.p >= 0.0001 else "<0.0001"
    return size + ("*" if pair.distinguishable else " ")


def _lines(found: ComparisonReport) -> TextTable:
    header = ["id", "better", "method", "n", "mean", "SD", "low", "high", "rank", "letters"]
    rows = []
    for id_, one in found.metrics.items():
        for name, mean in one.means.items():
            numbers = [mean.mean, mean.sd, mean.low, mean.high, one.ranks.get(name)]
            cells = [_plain(value) for value in numbers]
            letters = one.letters.get(name, "")
            rows.append([id_, one.better, name, str(mean.seeds), *cells, letters])
    return TextTable(header, rows)


def _pair_lines(found: ComparisonReport) -> TextTable:
    header = ["id", "first", "second", "difference", "low", "high", "effect", "p"]
    rows = []
    for id_, one in found.metrics.items():
        for names, pair in one.pairs.items():
            numbers = [pair.difference, pair.low, pair.high, pair.effect, pair.p]
            cells = [*map(_plain, numbers), str(pair.distinguishable).lower()]
            rows.append([id_, *names, *cells, pair.verdict, pair.test])
    return TextTable([*header, "distinguishable", "verdict", "test"], rows)


def _plain(value: float | None) -> str:
    return "" if value is None or math.isnan(value) else repr(float(value))
