"""Intervals of the metrics of control tasks, from examples evaluated before and after training.

The same examples are evaluated twice, so a change is a mean over examples of paired results, as for
bwt (`matrix_intervals`). A ratio is linearised at the observed scores. For the smallest change,
the low end is the lowest of the tasks' own low ends; the high end is the lowest of their high ends,
each at the level at which all of them hold together (Šidák), because the smallest of several noisy
changes lies below the true one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...stats import normal_quantile
from .end_statistics import end_statistics
from .matrix_intervals import Interval, estimate, paired_terms

if TYPE_CHECKING:
    from collections.abc import Collection

    from ..control_scores import ControlScores
    from .end_statistics import EndStatistics

__all__ = ["control_intervals"]

Intervals = tuple[Interval, list[Interval]]  # of the metric, and of each task


def control_intervals(
    control: ControlScores, ids: Collection[str], *, level: float = 0.95
) -> dict[str, Intervals]:
    """Return the intervals of those of `ids` that the per-example results support.

    Example:
        >>> from perdure.metrics import ControlScores, PerExample
        >>> right = np.arange(400) < [[380], [300]]  # 80 of 400 examples are lost
        >>> results = {"a": PerExample.pack([0, 1], right)}
        >>> control = ControlScores(["a"], [0.95], [[0.75]], results)
        >>> total, per_task = control_intervals(control, ["retention"])["retention"]
        >>> [round(end, 3) for end in total], total == per_task[0]
        ([-0.243, -0.155], True)
    """
    last = len(control.scores)
    pairs = {}
    for task in control.tasks:
        results = control.per_example.get(task)
        if results is None or not np.isin((0, last), results.steps).all():
            return {}
        pairs[task] = results.at(np.array([0, last]))
    statistics = end_statistics([pairs], control.tasks, ends=[0, last])
    found = {}
    if "retention" in ids or "retention.worst" in ids:
        found = _of_changes(statistics, level)
    if "retention.relative" in ids:
        found["retention.relative"] = _of_ratios(statistics, level)
    return {id_: ends for id_, ends in found.items() if id_ in ids}


def _of_changes(statistics: EndStatistics, level: float) -> dict[str, Intervals]:
    count = len(statistics.mean)
    terms = paired_terms(np.tile([-1.0, 1.0], (count, 1)), statistics)
    z = normal_quantile(level)
    total = estimate(terms.shared(np.full(count, 1 / count)), z)
    per_task = [estimate(terms.of(j), z)[1:] for j in range(count)]
    together = 2 * ((1 + level) / 2) ** (1 / count) - 1
    highs = [estimate(terms.of(j), normal_quantile(together))[2] for j in range(count)]
    worst = (min(low for low, _ in per_task), min(highs))
    return {"retention": (total[1:], per_task), "retention.worst": (worst, per_task)}


def _of_ratios(statistics: EndStatistics, level: float) -> Intervals:
    before, after = statistics.mean.T
    count, ratio, z = len(before), after / before, normal_quantile(level)
    terms = paired_terms(np.stack([-ratio / before, 1 / before], axis=1), statistics)
    terms = terms._replace(value=ratio)  # of the linearised ratio it is 0
    total = estimate(terms.shared(np.full(count, 1 / count)), z)
    per_task = [estimate(terms.of(j), z)[1:] for j in range(count)]
    return _not_negative(total[1:]), [_not_negative(ends) for ends in per_task]


def _not_negative(ends: Interval) -> Interval:
    return max(ends[0], 0.0), ends[1]
