"""Mean ranks told apart: Nemenyi's critical difference, as in Demšar (2006)."""

from __future__ import annotations

from math import inf, sqrt
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["critical_difference", "friedman_p", "indistinguishable_groups"]


def critical_difference(methods: int, seeds: int, *, alpha: float = 0.05) -> float:
    r"""Return by how much two mean ranks must differ at least: $q_\alpha \sqrt{k(k+1)/6N}$.

    With k methods, each ranked on N seeds; $q_\alpha$ is the studentized range over $\sqrt 2$.

    Example:
        >>> round(critical_difference(4, 14), 3)
        1.254
    """
    if methods < 2 or seeds < 1:
        raise ValueError(
            f"got {methods} method(s) on {seeds} seed(s), expected 2 or more on 1 or more"
        )
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must lie between 0 and 1, got {alpha}")
    from scipy.stats import studentized_range  # imported here: a second

    q = float(studentized_range.isf(alpha, methods, inf)) / sqrt(2)
    return q * sqrt(methods * (methods + 1) / (6 * seeds))


def indistinguishable_groups(ranks: Mapping[str, float], difference: float) -> list[list[str]]:
    """Return the largest groups whose mean ranks lie within less than `difference`, best first.

    Groups of one are left out: such a method differs from all others.

    Example:
        >>> indistinguishable_groups({"er": 1.2, "ewc": 2.0, "naive": 2.8}, difference=1.0)
        [['er', 'ewc'], ['ewc', 'naive']]
    """
    names = sorted(ranks, key=ranks.__getitem__)
    groups: list[list[str]] = []
    reached = 0  # what lies before it is in an earlier group together with all that follows
    for first, name in enumerate(names):
        near = [other for other in names[first:] if ranks[other] - ranks[name] < difference]
        if first + len(near) > reached and len(near) > 1:
            groups.append(near)
        reached = max(reached, first + len(near))
    return groups


def friedman_p(scores: Sequence[Sequence[float]]) -> float | None:
    """Return Friedman's p: that all methods are alike; a row for each seed, None below 3 methods.

    Example:
        >>> round(friedman_p([[0.9, 0.5, 0.1], [0.8, 0.6, 0.2], [0.7, 0.5, 0.3]]), 4)
        0.0498
    """
    table = np.array(scores, dtype=np.float64)
    if table.ndim != 2 or table.shape[1] < 3:
        return None
    if (table == table[:, :1]).all():
        return 1.0  # all are tied everywhere; the statistic would be 0 / 0
    from scipy.stats import friedmanchisquare

    return float(friedmanchisquare(*table.T).pvalue)
