"""Estimates over several seeds: what other seeds of the same method would give."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..metrics import UndefinedMetricError
from ..record import InputError
from ..stats import OneSidedBounds, t_interval, welch_t
from .estimates import Estimate

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["check_seed_counts", "seeds_estimate"]

MIN_SEEDS = 3
STUDENT = "Student's t over {} seeds"
WELCH = "Welch's t over {} and {} seeds"


def check_seed_counts(runs: int, baselines: int) -> None:
    """Raise InputError if one side is several seeds and the other a single run."""
    if baselines and (runs > 1) != (baselines > 1):
        raise InputError(
            f"{runs} and {baselines} runs are compared, expected one run and one baseline, or "
            "several seeds of both (`baseline=[…]`)"
        )


def seeds_estimate(values: Sequence[float], base: Sequence[float] = ()) -> Estimate:
    """Return the mean over seeds, minus that of the baseline's seeds, with bounds over seeds.

    Raises UndefinedMetricError where seeds cannot show how much others would differ.
    """
    if min(len(values), len(base) or MIN_SEEDS) < MIN_SEEDS:
        raise UndefinedMetricError(f"it takes {MIN_SEEDS} seeds or more, got {len(values)}")
    if not max(np.ptp(values), np.ptp(base) if base else 0.0):
        raise UndefinedMetricError(
            f"all {len(values)} seeds have the same value {values[0]:g}, so they do not show how "
            "much other seeds would differ; check one run, whose bounds are about examples"
        )
    if base:
        test = welch_t(values, base)
        method = WELCH.format(len(values), len(base))

        def bounds(alpha: float) -> OneSidedBounds:
            return OneSidedBounds(*welch_t(values, base, level=1 - 2 * alpha)[:3])

        return Estimate(test.difference, bounds, method, min(len(values), len(base)), unit="seeds")
    mean = sum(values) / len(values)

    def bounds_of_mean(alpha: float) -> OneSidedBounds:
        return OneSidedBounds(mean, *t_interval(values, level=1 - 2 * alpha))

    return Estimate(mean, bounds_of_mean, STUDENT.format(len(values)), len(values), unit="seeds")
