"""Which examples a memory of limited size keeps: row numbers, never copies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ._base import Rows

__all__ = ["balanced_quota", "reservoir_sample"]


def reservoir_sample(
    rows: Rows, groups: Rows, priority: NDArray[np.float64], capacity: int
) -> Rows:
    """Return the rows a memory of `capacity` keeps of those it has seen, shared out by group.

    Each row has a random priority; of every group the rows with the lowest are kept. So at any
    time a group's rows are a uniform sample of those seen (a reservoir), and what is dropped now
    is never missed later. What a small group leaves empty goes to the others, and where the rest
    does not divide, groups with lower numbers get one row more.

    Args:
        rows: seen so far: what was kept before, and what is new; a row may come twice.
        groups: of every example, by row number: its class, its task, or all the same.
        priority: of every example, by row number.
        capacity: how many rows are kept at most.

    Example:
        >>> groups, priority = np.array([0, 0, 0, 1]), np.array([0.3, 0.1, 0.2, 0.9])
        >>> reservoir_sample(np.arange(4), groups, priority, capacity=2)
        array([1, 3])
        >>> reservoir_sample(np.arange(4), groups, priority, capacity=3)
        array([1, 2, 3])
    """
    rows = np.unique(rows)
    rows = rows[np.lexsort((priority[rows], groups[rows]))]
    _, start, counts = np.unique(groups[rows], return_index=True, return_counts=True)
    rank = np.arange(len(rows)) - np.repeat(start, counts)
    chosen: Rows = rows[rank < np.repeat(balanced_quota(capacity, counts), counts)]
    return chosen


def balanced_quota(capacity: int, counts: Rows) -> Rows:
    """Return how many places each group gets: as equally as its number of rows allows.

    Example:
        >>> balanced_quota(10, np.array([1, 9, 9]))
        array([1, 5, 4])
    """
    shares = np.zeros_like(counts)
    while (left := capacity - int(shares.sum())) > 0:
        (wanting,) = np.nonzero(counts > shares)
        if not len(wanting):
            break
        each = left // len(wanting)
        if each == 0:
            shares[wanting[:left]] += 1
        else:
            shares[wanting] = np.minimum(counts[wanting], shares[wanting] + each)
    return shares
