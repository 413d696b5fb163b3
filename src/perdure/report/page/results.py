"""The tables of results, of which methods differ (as in `perdure compare`), and of costs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...metrics import better_direction, common_seeds, compare_methods, display_name, find_metric
from ...record import InputError
from ...stats import find_pair_test, min_attainable_p
from ..load import index_by_seed
from ..tables.comparison import describe_test
from ..tables.scores import ARROWS, format_metric

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from ...metrics import MethodsComparison, ScoreScale
    from ...record import ScoreInput
    from ...stats import PairTestName
    from ..load import RunsByMethod
    from .summaries import MethodSummary

__all__ = [
    "CostsTable",
    "MetricColumn",
    "PairTestOptions",
    "ResultRow",
    "compare_summaries",
    "describe_significance",
    "describe_verdicts",
    "make_columns",
    "make_costs_table",
    "make_rows",
    "percent_unit",
]


class MetricColumn(NamedTuple):
    """The header of a metric; `parts` is its id where a line may break."""

    id: str
    parts: list[str]
    unit: str
    name: str
    arrow: str
    direction: str


class ResultCell(NamedTuple):
    """A value of a metric, or the reason why it is undefined."""

    text: str = ""
    letters: str = ""
    interval: str = ""
    best: bool = False
    undefined: str = ""


class ResultRow(NamedTuple):
    """A method; `label` is its name, shortened."""

    name: str
    label: str
    runs: int
    cells: list[ResultCell]


def make_columns(
    ids: Sequence[str], methods: Sequence[MethodSummary], scale: ScoreScale
) -> list[MetricColumn]:
    """Return the header of each metric."""
    columns = []
    for id_ in ids:
        directions = {better_direction(id_, method.scale) for method in methods}
        direction = directions.pop() if len(directions) == 1 else ""  # both losses and accuracies
        columns.append(
            MetricColumn(
                id=id_,
                parts=[*(f"{part}." for part in id_.split(".")[:-1]), id_.rpartition(".")[2]],
                unit=percent_unit(id_, scale),
                name=display_name(find_metric(id_), scale),
                arrow=ARROWS.get(direction, ""),
                direction=f"{direction} is better",
            )
        )
    return columns


def percent_unit(id_: str, scale: ScoreScale) -> str:
    """Return what follows the id of a metric that is shown in percent."""
    return " (%)" if scale.percent and find_metric(id_).unit != "none" else ""


def make_rows(
    methods: Sequence[MethodSummary],
    ids: Sequence[str],
    compared: Mapping[str, MethodsComparison],
) -> list[ResultRow]:
    """Return a row per method; the best is marked."""
    return [
        ResultRow(
            method.name,
            method.label,
            len(method.runs),
            [_make_cell(method, id_, methods, compared.get(id_)) for id_ in ids],
        )
        for method in methods
    ]


def _make_cell(
    method: MethodSummary,
    id_: str,
    methods: Sequence[MethodSummary],
    compared: MethodsComparison | None,
) -> ResultCell:
    summary, percent = method.summary, method.scale.percent
    value = summary.metrics.get(id_)
    if value is None:
        return ResultCell(undefined=summary.undefined.get(id_, "not computed"))
    write = partial(format_metric, id_=id_, percent=percent, digits=3 + percent)
    sd = getattr(summary, "sd", {}).get(id_)
    return ResultCell(
        text=write(value) if sd is None else f"{write(value)} ± {write(sd)}",
        letters=compared.letters.get(method.name, "") if compared is not None else "",
        interval=" to ".join(map(write, summary.intervals.get(id_, ()))),
        best=_is_best(method, id_, methods),
    )


def _is_best(method: MethodSummary, id_: str, methods: Sequence[MethodSummary]) -> bool:
    values = [m.summary.metrics[id_] for m in methods if id_ in m.summary.metrics]
    if len(values) < 2:
        return False
    best = max(values) if better_direction(id_, method.scale) == "higher" else min(values)
    # Compared as printed: of two equal numbers, neither alone may be bold.
    write = partial(format_metric, id_=id_, percent=False, digits=3)
    return write(method.summary.metrics[id_]) == write(best)


class PairTestOptions(NamedTuple):
    """The test of each pair of methods, as in `perdure compare`."""

    test: PairTestName = "t"
    unpaired: bool = False
    alpha: float = 0.05


def compare_summaries(
    methods: Sequence[MethodSummary], ids: Sequence[str], options: PairTestOptions
) -> tuple[dict[str, MethodsComparison], str]:
    """Return a comparison per metric that all runs have, and the reason if there is none."""
    if len(methods) < 2:
        return {}, ""
    test = find_pair_test(options.test, unpaired=options.unpaired)
    try:
        indices = index_by_seed({m.name: m.runs for m in methods}, unpaired=not test.paired)
    except InputError as error:
        return {}, str(error)
    if test.paired and not common_seeds(indices):
        return {}, f"no seed is in all of {', '.join(indices)}"
    comparisons = {}
    for id_ in ids:
        if all(id_ in summary.metrics for m in methods for summary in m.run_summaries):
            values = {
                m.name: {s: m.run_summaries[k].metrics[id_] for s, k in indices[m.name].items()}
                for m in methods
            }
            comparisons[id_] = compare_methods(
                id_, values, scale=methods[0].scale, **options._asdict()
            )
    for comparison in comparisons.values():
        if not comparison.letters:  # the seeds, and so the reason, are the same for all metrics
            verdict = next(iter(comparison.pairs.values())).verdict
            return {}, verdict.removeprefix("not tested: ")
    return comparisons, ""


def describe_significance(
    comparisons: Mapping[str, MethodsComparison], reason: str, options: PairTestOptions
) -> str:
    """Return what the letters mean and which test they come from, or why there are none."""
    if reason:
        return f"Methods are not tested against each other: {reason}."
    if not comparisons:
        return ""
    test = find_pair_test(options.test, unpaired=options.unpaired)
    one = next(iter(comparisons.values()))
    seeds = len(one.seeds) if test.paired else max(mean.seeds for mean in one.means.values())
    over = f"over the {seeds} seeds in common" if test.paired else "over all runs"
    pairs = f"{len(one.pairs)} pairs" if len(one.pairs) > 1 else "one pair"
    least = min_attainable_p(
        seeds, comparisons=len(one.pairs), test=options.test, unpaired=options.unpaired
    )
    limit = f" So few seeds cannot go below p = {least:.3g}." if least >= options.alpha else ""
    return (
        "Methods that share a superscript letter are not distinguishable at alpha = "
        f"{options.alpha:g} ({describe_test(test)}; {over}, with Holm's correction for the "
        f"{pairs} per metric, as in perdure compare).{limit} The best mean is bold."
    )


def describe_verdicts(
    comparisons: Mapping[str, MethodsComparison], labels: Mapping[str, str]
) -> dict[str, str]:
    """Return per metric which method is best, and which ones the test cannot separate from it.

    Args:
        comparisons: comparisons by metric.
        labels: what each method is called on the page.
    """
    return {id_: _describe_best(comparison, labels) for id_, comparison in comparisons.items()}


def _describe_best(comparison: MethodsComparison, labels: Mapping[str, str]) -> str:
    best, *others = comparison.best_first
    if not any(pair.distinguishable for pair in comparison.pairs.values()):
        return "no two methods are distinguishable"
    pairs = {frozenset(names): pair for names, pair in comparison.pairs.items()}
    ties = [name for name in others if not pairs[frozenset((best, name))].distinguishable]
    behind = [name for name in others if name not in ties]
    remarks = {pair.remark for pair in pairs.values() if pair.distinguishable and pair.remark}
    # Without variance p is 0, and on a small test set a few seeds agree by chance.
    doubt = f" ({', '.join(sorted(remarks))}: may be chance on a small test set)" if remarks else ""
    if not ties:
        return f"{labels[best]} is better than {_list_methods(behind, labels)}{doubt}"
    better = f"; better than {_list_methods(behind, labels)}" if behind else ""
    listed = ", ".join(labels[name] for name in ties)
    return f"{labels[best]} is best, but not distinguishable from {listed}{better}{doubt}"


def _list_methods(names: Sequence[str], labels: Mapping[str, str]) -> str:
    if len(names) > 3:
        return f"the other {len(names)} methods"
    return ", ".join(labels[name] for name in names)


# Title, divisor, and how the values of the tasks of a run are combined.
COSTS: dict[str, tuple[str, float, Callable[[NDArray[np.float64]], float]]] = {
    "seconds_train": ("training, s", 1.0, np.sum),
    "seconds_eval": ("evaluation, s", 1.0, np.sum),
    "flops_train": ("training, TFLOP", 1e12, np.sum),
    "peak_bytes": ("peak memory, MB", 1e6, np.max),
    "model_bytes": ("model, MB", 1e6, np.max),
    "stored_bytes": ("stored data, MB", 1e6, np.max),
}


class CostsTable(NamedTuple):
    """Header and rows of a table."""

    header: list[str]
    rows: list[list[str]]


def make_costs_table(methods: RunsByMethod) -> CostsTable | None:
    """Return one row per method with means over its runs; None if no costs are known.

    Example:
        >>> make_costs_table({"mine": []}) is None
        True
    """
    costs = {name: {c: _mean_cost(runs, c) for c in COSTS} for name, runs in methods.items()}
    known = [c for c in COSTS if any(own[c] is not None for own in costs.values())]
    rows = [
        [name, *("–" if (value := own[c]) is None else f"{value:.3g}" for c in known)]
        for name, own in costs.items()
    ]
    return CostsTable(["method", *(COSTS[c][0] for c in known)], rows) if known else None


def _mean_cost(runs: Sequence[ScoreInput], name: str) -> float | None:
    """Return the mean over runs of the combined cost of a run's tasks; None if unknown."""
    _, unit, combine = COSTS[name]
    columns = [run.costs.columns.get(name) for run in runs if run.costs is not None]
    known = [column for column in columns if column is not None and not np.isnan(column).any()]
    if not known or len(known) < len(columns):
        return None
    return float(np.mean([combine(column) for column in known])) / unit
