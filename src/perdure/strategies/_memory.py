"""Which examples a memory of limited size keeps. Memories hold row numbers, never copies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ._base import Rows

__all__ = ["balanced_quota", "reservoir_sample"]


def reservoir_sample(
    rows: Rows, groups: Rows | None, priority: NDArray[np.float64], capacity: int
) -> Rows:
    """Return the rows that a memory of `capacity` examples keeps, balanced over groups.

    Each row has a random priority, and every group keeps the rows with the lowest. At any time the
    rows of a group are therefore a uniform sample of those seen (a reservoir), and a row dropped
    now would never be kept later. Capacity that a small group does not use goes to the others.

    Args:
        rows: the rows kept so far and the new ones; duplicates are allowed.
        groups: the group of every example by row number, such as its class; None for one group.
        priority: the priority of every example by row number.
        capacity: the maximum number of rows to keep.

    Example:
        >>> groups, priority = np.array([0, 0, 0, 1]), np.array([0.3, 0.1, 0.2, 0.9])
        >>> reservoir_sample(np.arange(4), groups, priority, capacity=2)
        array([1, 3])
        >>> reservoir_sample(np.arange(4), groups, priority, capacity=3)
        array([1, 2, 3])
    """
    rows = np.unique(rows)
    group = np.zeros_like(rows) if groups is None else groups[rows]
    order = np.lexsort((priority[rows], group))
    rows, group = rows[order], group[order]
    _, start, counts = np.unique(group, return_index=True, return_counts=True)
    rank = np.arange(len(rows)) - np.repeat(start, counts)
    kept: Rows = rows[rank < np.repeat(balanced_quota(capacity, counts), counts)]
    return kept


def balanced_quota(capacity: int, counts: Rows) -> Rows:
    """Return how many of its `counts` rows each group may keep, as equally as possible.

    Groups with lower numbers get one row more where the capacity does not divide evenly.

    Example:
        >>> balanced_quota(10, np.array([1, 9, 9]))
        array([1, 5, 4])
    """
    quota = np.zeros_like(counts)
    while (left := capacity - int(quota.sum())) > 0:
        (unfilled,) = np.nonzero(counts > quota)
        if not len(unfilled):
            break
        share = left // len(unfilled)
        if share == 0:
            quota[unfilled[:left]] += 1
        else:
            quota[unfilled] = np.minimum(counts[unfilled], quota[unfilled] + share)
    return quota
