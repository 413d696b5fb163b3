"""Curves for the eye: the mean and spread over seeds, and fewer points with the same extremes."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .._html import extremes as thinned

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Curve = tuple[NDArray[np.int64], NDArray[np.float64]]  # steps, values

__all__ = ["Band", "band", "thinned"]


class Band(NamedTuple):
    """A curve over runs: mean and sample SD (zero for one run) at the steps all of them have."""

    steps: NDArray[np.int64]
    mean: NDArray[np.float64]
    sd: NDArray[np.float64]
    runs: int


def band(curves: Sequence[Curve]) -> Band:
    """Return mean and SD of several curves, at the steps that all of them have.

    Example:
        >>> one, two = ([1, 2, 3], [0.5, 0.6, 0.7]), ([2, 3], [0.8, 0.9])
        >>> found = band([tuple(map(np.array, one)), tuple(map(np.array, two))])
        >>> found.steps, found.mean.round(2)
        (array([2, 3]), array([0.7, 0.8]))
    """
    if not curves:
        return Band(np.empty(0, np.int64), np.empty(0), np.empty(0), 0)
    steps = reduce(np.intersect1d, [steps for steps, _ in curves])
    values = np.array([scores[np.searchsorted(mine, steps)] for mine, scores in curves])
    sd = values.std(axis=0, ddof=1) if len(curves) > 1 else np.zeros(len(steps))
    return Band(steps, values.mean(axis=0), sd, len(curves))
