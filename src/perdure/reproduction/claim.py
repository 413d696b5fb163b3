"""Statements that papers make of their curves and tables, and what they are checked with."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .measurements import NotMeasuredError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .measurements import Measurements

__all__ = ["NAN", "Claim", "below", "mean", "plateau"]

NAN = math.nan  # stands for a number that was not measured


class Claim(NamedTuple):
    """A claim, whether it holds (None where it was not measured), and by which numbers."""

    text: str
    holds: bool | None
    numbers: str


def below(text: str, low: float, high: float) -> Claim:
    """Return a claim that holds if one number is below another.

    Example:
        >>> below("ACC is above 2", 2, 2.5)
        Claim(text='ACC is above 2', holds=True, numbers='2 < 2.5')
    """
    if math.isnan(low + high):
        return Claim(text, None, "not measured")
    return Claim(text, low < high, f"{low:.4g} < {high:.4g}")


def plateau(curve: Sequence[float]) -> int | None:
    """Return the task, counted from 1, from which a curve rises no more; None if it does.

    From there on it rises by no more than a tenth of its whole rise, for a quarter of the tasks at
    least.

    Example:
        >>> plateau([0, 2, 4, 6, 8, 10, 10, 10, 10, 10]), plateau(range(10))
        (6, None)
    """
    values = np.asarray(curve, dtype=np.float64)
    left = np.maximum.accumulate(values[::-1])[::-1] - values  # what it rises after each task
    start = int(np.argmax(left <= 0.1 * (values.max() - values[0])))
    return start + 1 if len(values) - start >= len(values) / 4 else None


def mean(
    found: Measurements,
    id_: str,
    where: Mapping[str, str] | None = None,
    *,
    thin: int = 1,
    weights: str | None = None,
) -> float:
    """Return the mean of a metric over the runs of a cell, NaN where it was not measured."""
    try:
        return found.mean(id_, where or {}, thin=thin, weights=weights)
    except NotMeasuredError:
        return NAN
