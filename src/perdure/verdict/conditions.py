"""What a requirement says about a run: one estimate for a metric, one per task for drops.

The noise of the scorer itself is measured by evaluating the same model twice.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np

from ..metrics import UndefinedMetricError, find_metric
from ..record import InputError
from ..stats import OneSidedBounds, normal_quantile
from .checked_run import pair_examples
from .estimates import (
    Estimate,
    check_seed_counts,
    difference_estimate,
    drop_estimate,
    metric_estimate,
    seeds_estimate,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..metrics import PerExample
    from .checked_run import CheckedRun, TaskScore
    from .requirement import Requirement

__all__ = [
    "CheckInputs",
    "Condition",
    "ScorerNoise",
    "add_noise",
    "check_inputs",
    "make_conditions",
    "measure_noise",
]


@dataclass(frozen=True)
class ScorerNoise:
    """The variance of one evaluation of each task, and how many results flipped of how many."""

    variances: Mapping[str, float]
    flipped: int
    examples: int

    def describe(self) -> str:
        """Return the measured noise in words."""
        share = self.flipped / self.examples
        return (
            f"noise of the scorer: {self.flipped} of {self.examples} results ({share:.2%}) differ "
            "between two evaluations of the same model; the bounds are wider by that"
        )


def measure_noise(run: CheckedRun, again: CheckedRun) -> ScorerNoise:
    """Return the noise from the last evaluations of a run and of the same model again.

    If each result flips on its own, the difference of the two scores has the variance flipped / n².
    A difference larger than that, as of a scorer that was stricter throughout, counts instead. One
    evaluation has half of it.
    """
    variances, flipped, examples = {}, 0, 0
    for task, score in run.last.items():
        if task not in again.last:
            raise InputError(
                f"`noise=` {again.name}: task {task!r} is missing, expected the tasks of {run.name}"
            )
        if score.right is None or again.last[task].right is None:
            raise InputError(
                f"`noise=` {again.name}: task {task!r} needs per-example results in both "
                "evaluations, record them with `per_example=True`"
            )
        first, second = pair_examples(task, run, again)
        n, flips = first.examples, int(np.count_nonzero(first[0] ^ second[0]))
        difference = float(first.accuracy()[0] - second.accuracy()[0])
        variances[task] = max(flips / n**2, difference**2) / 2
        flipped, examples = flipped + flips, examples + n
    return ScorerNoise(variances, flipped, examples)


def add_noise(estimate: Estimate, noise: ScorerNoise | None) -> Estimate:
    """Return an estimate whose bounds are wider by the noise of the evaluations behind it."""
    if noise is None or not estimate.tasks:
        return estimate
    variance = sum(noise.variances.get(task, 0.0) for task in estimate.tasks)
    variance *= estimate.evaluations / len(estimate.tasks) ** 2
    if not variance:
        return estimate

    def bounds(alpha: float) -> OneSidedBounds:
        value, low, high = estimate.bounds(alpha)
        extra = normal_quantile(1 - 2 * alpha) ** 2 * variance
        down, up = (sqrt(half**2 + extra) for half in (value - low, high - value))
        return OneSidedBounds(value, value - down, value + up)

    return replace(estimate, bounds=bounds, method=f"{estimate.method}, wider by the noise")


@dataclass(frozen=True)
class Condition:
    """An estimate that must be on one side of the limit; `task` is empty for a metric."""

    estimate: Estimate
    task: str = ""


@dataclass(frozen=True)
class CheckInputs:
    """The runs that are checked: one, or several seeds of a method, and what they are held against.

    Attributes:
        runs: The checked runs.
        baselines: The baseline, or several seeds of it; none if there is no baseline.
        noise: The noise of the scorer, None if it was not measured.
        point_values: Whether a value without an interval is decided by itself.
    """

    runs: Sequence[CheckedRun]
    baselines: Sequence[CheckedRun] = ()
    noise: ScorerNoise | None = None
    point_values: bool = False

    @property
    def seeds(self) -> bool:
        """Whether the uncertainty is that of seeds, not of examples."""
        return len(self.runs) > 1

    @property
    def reference(self) -> str:
        """What drops of tasks are measured against."""
        if self.baselines:
            return "the baseline"
        return "its score when learned (tasks that are never learned: before training)"


def check_inputs(inputs: CheckInputs) -> list[str]:
    """Return notes on the runs; raise InputError if they were evaluated on other examples."""
    check_seed_counts(len(inputs.runs), len(inputs.baselines))
    notes = []
    for one in (*inputs.runs, *inputs.baselines):
        if one.scale != inputs.runs[0].scale:
            raise InputError(
                f"{one.name}: scores of another scale than {inputs.runs[0].name}, expected the same"
            )
    for run, base in () if inputs.seeds else zip(inputs.runs, inputs.baselines, strict=False):
        for task in run.last:
            if task in base.last and _has_examples(task, run, base):
                pair_examples(task, base, run)
        new = [task for task in run.last if task not in base.last]
        if new:
            notes.append(f"not in the baseline, so their drops are not checked: {', '.join(new)}")
    return notes


def make_conditions(requirement: Requirement, inputs: CheckInputs) -> list[Condition]:
    """Return what a requirement says; raises UndefinedMetricError with the reason if it cannot.

    Raises InputError for a limit that the scores can never reach, and for a missing baseline.
    """
    _check_limit(requirement, inputs.runs[0])
    if requirement.metric is None:
        return _drop_conditions(inputs)
    if requirement.relative and not inputs.baselines:
        raise InputError(
            f"requirement {requirement.text!r} needs a baseline, expected `baseline=` (a run folder"
            " or a file of `perdure freeze`)"
        )
    baselines = inputs.baselines if requirement.relative else ()
    if inputs.seeds:
        values, base = (_values(runs, requirement.metric) for runs in (inputs.runs, baselines))
        return [Condition(seeds_estimate(values, base))]
    if baselines:
        estimate = difference_estimate(
            inputs.runs[0], baselines[0], requirement.metric, point_values=inputs.point_values
        )
    else:
        estimate = metric_estimate(
            inputs.runs[0], requirement.metric, point_values=inputs.point_values
        )
    return [Condition(add_noise(estimate, inputs.noise))]


def _check_limit(requirement: Requirement, run: CheckedRun) -> None:
    """Raise InputError if percentages seem to be meant."""
    limit = abs(requirement.limit)
    metric = None if requirement.metric is None else find_metric(requirement.metric)
    high = 1.0 if metric is None else max(abs(metric.low), metric.high)
    if run.scale.is_accuracy and limit > high >= 1:
        raise InputError(
            f"requirement {requirement.text!r}: the limit is {requirement.limit:g}, expected at "
            f"most {high:g}; scores are fractions, so write {requirement.limit / 100:g} for "
            f"{requirement.limit:g}%"
        )


def _values(runs: Sequence[CheckedRun], id_: str) -> list[float]:
    values = []
    for run in runs:
        value, reason = run.metric(id_)
        if value is None:
            raise UndefinedMetricError(f"{run.name}: {reason}")
        values.append(value)
    return values


def _drop_conditions(inputs: CheckInputs) -> list[Condition]:
    """Return a condition per task: how far its score is below the baseline or its own first one."""
    if inputs.seeds:
        return _drop_conditions_over_seeds(inputs)
    run = inputs.runs[0]
    base = inputs.baselines[0] if inputs.baselines else None
    conditions = []
    for task, before in _scores_before(run, base).items():
        estimate = drop_estimate(
            task, before, run.last[task], run.scale, _find_pair(task, run, base),
            point_values=inputs.point_values,
        )  # fmt: skip
        conditions.append(Condition(add_noise(estimate, inputs.noise), task))
    return conditions


def _scores_before(run: CheckedRun, base: CheckedRun | None) -> Mapping[str, TaskScore]:
    """Return the score of each task that its last one is compared with; a task without raises."""
    before = run.first if base is None else base.last
    whose = "it had before" if base is None else "the baseline has"
    missing = next((task for task in before if task not in run.last), None)
    if missing is not None:
        raise UndefinedMetricError(f"{run.name} has no last score of {missing!r}, which {whose}")
    if base is not None:
        return before
    newest = run.learned[-1:]  # nothing was trained after it
    unknown = next((task for task in run.last if task not in (*before, *newest)), None)
    if unknown is not None:
        raise UndefinedMetricError(
            f"{unknown!r} is never learned and has no score before training to compare with; give "
            "a `baseline=`"
        )
    older = {task: score for task, score in before.items() if task not in newest}
    if not older:
        raise UndefinedMetricError(
            "no task has an earlier score to compare with; give a `baseline=`"
        )
    return older


def _find_pair(
    task: str, run: CheckedRun, base: CheckedRun | None
) -> tuple[PerExample, PerExample] | None:
    """Return the results before and after on the same examples, None if not recorded."""
    if base is not None:
        return pair_examples(task, base, run) if _has_examples(task, run, base) else None
    before, after = run.first[task].right, run.last[task].right
    if before is None or after is None or before.examples != after.examples:
        return None
    same = before.ids is None or after.ids is None or (before.ids == after.ids).all()
    return (before, after) if same else None


def _has_examples(task: str, run: CheckedRun, base: CheckedRun) -> bool:
    return run.last[task].right is not None and base.last[task].right is not None


def _drop_conditions_over_seeds(inputs: CheckInputs) -> list[Condition]:
    sign = -1.0 if inputs.runs[0].scale.lower_is_better else 1.0
    conditions = []
    tasks = _scores_before(inputs.runs[0], inputs.baselines[0] if inputs.baselines else None)
    for task in tasks:
        for one in (*inputs.runs, *inputs.baselines):
            if task not in one.last or (not inputs.baselines and task not in one.first):
                raise UndefinedMetricError(f"{one.name} lacks a score of {task!r}")
        after = [-sign * run.last[task].score for run in inputs.runs]
        before = [-sign * base.last[task].score for base in inputs.baselines]
        if not before:
            drops = [sign * (run.first[task].score - run.last[task].score) for run in inputs.runs]
            conditions.append(Condition(seeds_estimate(drops), task))
        else:
            conditions.append(Condition(seeds_estimate(after, before), task))
    return conditions
