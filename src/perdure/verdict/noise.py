"""The noise of the scorer itself, measured by evaluating the same model twice."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np

from ..record import InputError
from ..stats import OneSidedBounds, normal_quantile
from .checked_run import pair_examples

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .checked_run import CheckedRun
    from .estimates import Estimate

__all__ = ["ScorerNoise", "add_noise", "measure_noise"]


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
