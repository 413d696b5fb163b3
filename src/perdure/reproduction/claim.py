"""A claim that a paper makes in words, as a comparison of measured numbers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Claim", "claim_less", "find_plateau", "not_measured"]


class Claim(NamedTuple):
    """A claim, whether it holds (None if it was not measured), and the numbers that decide it."""

    text: str
    holds: bool | None
    numbers: str


def not_measured(text: str) -> Claim:
    """Return a claim whose runs are missing."""
    return Claim(text, None, "not measured")


def claim_less(text: str, low: float, high: float) -> Claim:
    """Return a claim that holds if `low` is less than `high`; NaN stands for not measured.

    Example:
        >>> claim_less("ACC is above 2", 2, 2.5)
        Claim(text='ACC is above 2', holds=True, numbers='2 < 2.5')
    """
    if math.isnan(low + high):
        return not_measured(text)
    return Claim(text, low < high, f"{low:.4g} < {high:.4g}")


def find_plateau(curve: Sequence[float]) -> int | None:
    """Return the task, counted from 1, from which a curve no longer rises; None if it has none.

    From there on the curve rises by at most a tenth of its whole rise, for at least a quarter of
    the tasks.

    Example:
        >>> find_plateau([0, 2, 4, 6, 8, 10, 10, 10, 10, 10]), find_plateau(range(10))
        (6, None)
    """
    values = np.asarray(curve, dtype=np.float64)
    still_to_rise = np.maximum.accumulate(values[::-1])[::-1] - values
    start = int(np.argmax(still_to_rise <= 0.1 * (values.max() - values[0])))
    return start + 1 if len(values) - start >= len(values) / 4 else None
