"""Several runs: means over the seeds of a method, with SDs and intervals, and methods compared.

Methods are compared by one metric: means over seeds, ranks, pairwise tests and letters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from ..stats import (
    Comparison,
    compare_pairs,
    find_pair_test,
    mean_over_seeds,
    mean_ranks,
    significance_letters,
    variance_components,
)
from .functional.common import UndefinedMetricError
from .registry import better_direction, find_metric
from .score_matrix import ACCURACY, ScoreScale
from .summary_options import check_criteria_scale, clstability_of, criteria_weights
from .summary_types import RunsSummary, to_list

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from ..stats import IntervalMethod, MeanOverSeeds, PairTestName
    from .summary_types import Summary

    Seed = int | str

__all__ = [
    "MethodsComparison",
    "common_seeds",
    "compare_methods",
    "describe_components",
    "mean_of_metric",
    "note_equal_runs",
    "summary_of_runs",
]

MAIN_METRICS = ("acc", "bwt", "forgetting.best", "min_acc")


def summary_of_runs(
    runs: Sequence[Summary],
    *,
    weights: Mapping[str, float] | None = None,
    method: IntervalMethod = "t",
    level: float = 0.95,
    replicates: Sequence[tuple[Hashable, Hashable]] | None = None,
) -> RunsSummary:
    """Return the means over the seeds of one method of everything that all runs have.

    Args:
        runs: The summaries of the runs.
        weights: Weights of the criteria of clstability.
        method: Interval over seeds.
        level: Confidence level.
        replicates: Task order and seed of each run, to tell their variances apart.

    Example:
        >>> from perdure.metrics import summary
        >>> result = summary_of_runs([summary([[0.5]]), summary([[0.75]])])
        >>> result.metrics["acc"], round(result.sd["acc"], 6)
        (0.625, 0.176777)
    """
    if len(runs) < 2:
        raise ValueError(f"several runs are needed, got {len(runs)}")
    counts = [len(run.tasks) for run in runs]
    if len(set(counts)) > 1:
        raise ValueError(f"runs of one method must have the same number of tasks, got {counts}")
    result = RunsSummary(tasks=runs[0].tasks, runs=list(runs))
    for id_ in dict.fromkeys(id_ for run in runs for id_ in (*run.metrics, *run.undefined)):
        missing = [k for k, run in enumerate(runs) if id_ not in run.metrics]
        if missing:
            reason = runs[missing[0]].undefined.get(id_, "not computed")
            prefix = "" if len(missing) == len(runs) else f"in run {missing[0]}: "
            result.undefined[id_] = prefix + reason
            continue
        values = [run.metrics[id_] for run in runs]
        over = mean_of_metric(id_, values, runs[0].scale, method=method, level=level)
        result.metrics[id_], result.sd[id_] = over.mean, over.sd
        result.intervals[id_] = (over.low, over.high)
        if replicates is not None and len({order for order, _ in replicates}) > 1:
            _add_components(result, id_, values, replicates, level)
    try:
        by_id = criteria_weights(weights)
        check_criteria_scale(by_id, runs[0].scale)
        result.metrics["clstability"] = clstability_of([run.metrics for run in runs], by_id)
        result.undefined.pop("clstability", None)
    except UndefinedMetricError as undefined:
        result.undefined["clstability"] = str(undefined)
    result.curves = _means([run.curves for run in runs])
    result.per_task = _means([run.per_task for run in runs])
    result.notes = list(dict.fromkeys(note for run in runs for note in run.notes))
    result.notes += note_equal_runs(runs)
    if method == "bca" and len(runs) < 10:
        result.notes.append(f"BCa intervals of {len(runs)} seeds are too narrow; use about ten")
    if result.components:
        if any(run.tasks != result.tasks for run in runs):
            result.tasks = tuple(f"position {k}" for k in range(len(result.tasks)))
        result.notes.append(describe_components(result))
    elif any(run.tasks != result.tasks for run in runs):
        result.notes.append("task names or orders differ between runs; tasks match by position")
    if any(run.control != result.control for run in runs):
        result.notes.append("retention: the control tasks differ between runs")
    return result


def _add_components(
    result: RunsSummary,
    id_: str,
    values: Sequence[float],
    replicates: Sequence[tuple[Hashable, Hashable]],
    level: float,
) -> None:
    orders, seeds = zip(*replicates, strict=True)
    parts = variance_components(values, orders, seeds, level=level)
    if result.runs[0].scale.is_accuracy:
        metric = find_metric(id_)
        parts = parts._replace(low=max(parts.low, metric.low), high=min(parts.high, metric.high))
    result.components[id_] = parts
    result.intervals[id_] = (parts.low, parts.high)


def note_equal_runs(runs: Sequence[Summary]) -> list[str]:
    """Return a note on main metrics that are equal in all runs: their intervals have no width."""
    first = runs[0].metrics
    equal = [
        id_
        for id_ in MAIN_METRICS
        if id_ in first and all(run.metrics.get(id_) == first[id_] for run in runs[1:])
    ]
    if len(runs) < 2 or not equal:
        return []
    trust = "so intervals over them have no width and cannot be trusted"
    every = len(equal) == sum(id_ in first for id_ in MAIN_METRICS)
    question = "; do their seeds differ?" if every else ""
    return [f"{', '.join(equal)}: equal in all {len(runs)} runs, {trust}{question}"]


def describe_components(summary: RunsSummary) -> str:
    """Return in one line how much the main metrics vary over task orders and over seeds."""
    ids = [id_ for id_ in MAIN_METRICS if id_ in summary.components][:2]
    ids = ids or list(summary.components)[:1]
    first = summary.components[ids[0]]
    if math.isnan(first.order_sd):
        return (
            f"{first.orders} task orders with one seed each: SD over both "
            + ", ".join(f"{summary.sd[id_]:.3g} ({id_})" for id_ in ids)
            + "; more seeds would tell them apart"
        )
    told = (
        f"SD over orders {parts.order_sd:.3g}, over seeds {parts.seed_sd:.3g} ({id_})"
        for id_, parts in ((id_, summary.components[id_]) for id_ in ids)
    )
    return f"{first.orders} task orders: {'; '.join(told)}"


def mean_of_metric(
    id_: str,
    values: Sequence[float],
    scale: ScoreScale,
    *,
    method: IntervalMethod = "t",
    level: float = 0.95,
) -> MeanOverSeeds:
    """Return a metric over seeds; for accuracies the interval stays in the metric's range.

    Example:
        >>> from perdure.metrics import ACCURACY
        >>> mean_of_metric("acc", [0.5, 0.75, 1.0], ACCURACY).high
        1.0
    """
    over = mean_over_seeds(values, method=method, level=level)
    if not scale.is_accuracy or over.seeds < 2:
        return over
    metric = find_metric(id_)
    return over._replace(low=max(over.low, metric.low), high=min(over.high, metric.high))


def _means(per_run: list[dict[str, list[float | None]]]) -> dict[str, list[float | None]]:
    """Return the mean of every list that all runs have, None where any of them is."""
    means = {}
    for name, first in per_run[0].items():
        if all(name in run and len(run[name]) == len(first) for run in per_run):
            values = np.array([run[name] for run in per_run], dtype=np.float64)  # None becomes NaN
            means[name] = to_list(values.mean(axis=0))
    return means


@dataclass(frozen=True)
class MethodsComparison:
    """The comparison of several methods by one metric.

    `means` are over all seeds of a method. `ranks`, and `pairs` of a paired test, are over `seeds`,
    those that all methods have. Methods that share a letter are not distinguishable; there are no
    letters if no pair was tested or all methods were compared with one of them, `against`.
    """

    id: str
    better: Literal["higher", "lower"]
    seeds: tuple[Seed, ...]
    means: dict[str, MeanOverSeeds]
    ranks: dict[str, float]
    pairs: dict[tuple[str, str], Comparison]
    letters: dict[str, str]
    against: str | None = None

    @property
    def best_first(self) -> list[str]:
        """The names of the methods, ordered by their means."""
        sign = 1 if self.better == "lower" else -1
        return sorted(self.means, key=lambda name: sign * self.means[name].mean)

    def mark(self, name: str) -> str:
        """Return the letters of a method, or a star if it differs from `against`."""
        if self.against is None:
            return self.letters.get(name, "")
        pair = self.pairs.get((name, self.against))
        return "*" if pair is not None and pair.distinguishable else ""


def compare_methods(
    id_: str,
    methods: Mapping[str, Mapping[Seed, float]],
    *,
    scale: ScoreScale = ACCURACY,
    alpha: float = 0.05,
    interval: IntervalMethod = "t",
    level: float = 0.95,
    test: PairTestName = "t",
    unpaired: bool = False,
    against: str | None = None,
) -> MethodsComparison:
    """Return how methods compare by the metric `id_`.

    Args:
        id_: id of the metric.
        methods: for each method, its value on every seed.
        scale: range and direction of the scores.
        alpha: methods are distinguishable where p after Holm's correction is below it.
        interval: method of the intervals of the means over seeds.
        level: confidence level of these intervals, and of those of the differences.
        test: name of the test, see `compare_pairs`.
        unpaired: whether to use all seeds of each method instead of those in common.
        against: compare all others with this method only.

    Example:
        >>> er, naive = {0: 0.8, 1: 0.9, 2: 0.7}, {0: 0.2, 1: 0.31}
        >>> result = compare_methods("acc", {"er": er, "naive": naive})
        >>> result.seeds, result.ranks, result.letters
        ((0, 1), {'er': 1.0, 'naive': 2.0}, {'er': 'a', 'naive': 'b'})
    """
    paired = find_pair_test(test, unpaired=unpaired).paired
    seeds = common_seeds(methods)
    if paired and not seeds:
        raise ValueError(f"methods have no seed in common: {', '.join(methods)}")
    means = {
        name: mean_of_metric(id_, list(values.values()), scale, method=interval, level=level)
        for name, values in methods.items()
    }
    tested = {
        name: [values[seed] for seed in (seeds if paired else values)]
        for name, values in methods.items()
    }
    pairs = compare_pairs(
        tested, alpha=alpha, test=test, unpaired=unpaired, against=against, level=level
    )
    better = better_direction(id_, scale)
    ranks: dict[str, float] = {}
    if seeds:
        common = {name: [values[seed] for seed in seeds] for name, values in methods.items()}
        ranks = mean_ranks(common, lower_is_better=better == "lower")
    result = MethodsComparison(id_, better, seeds, means, ranks, pairs, {}, against)
    if against is None and any(pair.p is not None for pair in pairs.values()):
        different = [names for names, pair in pairs.items() if pair.distinguishable]
        result.letters.update(significance_letters(result.best_first, different))
    return result


def common_seeds(methods: Mapping[str, Mapping[Seed, object]]) -> tuple[Seed, ...]:
    """Return the seeds that every method has, in the order of the first.

    Example:
        >>> common_seeds({"er": {2: "a", 0: "b", 1: "c"}, "ewc": {0: "d", 2: "e"}})
        (2, 0)
    """
    first, *others = methods.values()
    return tuple(seed for seed in first if all(seed in values for values in others))
