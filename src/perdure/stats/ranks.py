"""Ranks of methods, critical differences (Demšar 2006) and compact letters (Piepho 2004)."""

from __future__ import annotations

from itertools import combinations
from math import inf, sqrt
from string import ascii_letters
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

__all__ = [
    "critical_difference",
    "friedman_p",
    "indistinguishable_groups",
    "letter_groups",
    "mean_ranks",
    "significance_letters",
]


def mean_ranks(
    methods: Mapping[str, Sequence[float]], *, lower_is_better: bool = False
) -> dict[str, float]:
    """Return the rank of each method, 1 for the best, averaged over the seeds; ties share ranks.

    Values that differ only by rounding count as ties.

    Example:
        >>> mean_ranks({"er": [0.8, 0.9], "ewc": [0.5, 0.6], "lwf": [0.8, 0.7]})
        {'er': 1.25, 'ewc': 3.0, 'lwf': 1.75}
    """
    scores = np.array([round_values(values) for values in methods.values()])
    if not np.isfinite(scores).all():
        raise ValueError(f"ranks need finite numbers, got {dict(methods)}")
    ranks = average_ranks(scores if lower_is_better else -scores)
    return dict(zip(methods, ranks.mean(axis=1).tolist(), strict=True))


def average_ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the ranks along the first axis, 1 for the smallest; ties share their mean rank.

    It is `scipy.stats.rankdata` by hand: importing scipy.stats takes longer than a comparison.

    Example:
        >>> average_ranks(np.array([0.8, 0.5, 0.8]))
        array([2.5, 1. , 2.5])
    """
    below = (values[:, None] > values[None]).sum(axis=1)
    tied = (values[:, None] == values[None]).sum(axis=1)
    ranks: NDArray[np.float64] = below + (tied + 1) / 2
    return ranks


def round_values(values: ArrayLike) -> NDArray[np.float64]:
    """Return the values rounded to twelve digits, so that rounding errors are no differences."""
    return np.array([float(f"{value:.12g}") for value in np.asarray(values).tolist()])


def critical_difference(methods: int, seeds: int, *, alpha: float = 0.05) -> float:
    r"""Return the smallest significant difference of two mean ranks: $q_\alpha \sqrt{k(k+1)/6N}$.

    With k methods ranked on N seeds; $q_\alpha$ is the studentized range over $\sqrt 2$.

    Example:
        >>> round(critical_difference(4, 14), 3)
        1.254
    """
    if methods < 2 or seeds < 1:
        raise ValueError(
            f"got {methods} methods and {seeds} seeds, expected 2 or more and 1 or more"
        )
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must lie between 0 and 1, got {alpha}")
    from scipy.stats import studentized_range  # imported here: it takes a second

    q = float(studentized_range.isf(alpha, methods, inf)) / sqrt(2)
    return q * sqrt(methods * (methods + 1) / (6 * seeds))


def indistinguishable_groups(ranks: Mapping[str, float], difference: float) -> list[list[str]]:
    """Return the largest groups whose mean ranks lie within less than `difference`, best first.

    Methods that differ from all others are in no group.

    Example:
        >>> indistinguishable_groups({"er": 1.2, "ewc": 2.0, "naive": 2.8}, difference=1.0)
        [['er', 'ewc'], ['ewc', 'naive']]
    """
    names = sorted(ranks, key=ranks.__getitem__)
    groups: list[list[str]] = []
    last_end = 0  # a group that ends before it is part of an earlier one
    for first, name in enumerate(names):
        near = [other for other in names[first:] if ranks[other] - ranks[name] < difference]
        if first + len(near) > last_end and len(near) > 1:
            groups.append(near)
        last_end = max(last_end, first + len(near))
    return groups


def friedman_p(scores: Sequence[Sequence[float]]) -> float | None:
    """Return the p-value of Friedman's test that all methods are equal; None below 3 methods.

    `scores` has one row per seed and one column per method. Values that differ only by rounding
    count as ties.

    Example:
        >>> round(friedman_p([[0.9, 0.5, 0.1], [0.8, 0.6, 0.2], [0.7, 0.5, 0.3]]), 4)
        0.0498
    """
    table = np.array([round_values(row) for row in scores])
    if table.ndim != 2 or table.shape[1] < 3:
        return None
    if (table == table[:, :1]).all():
        return 1.0  # everything is tied; the statistic would be 0 / 0
    from scipy.stats import friedmanchisquare

    return float(friedmanchisquare(*table.T).pvalue)


def significance_letters(
    names: Sequence[str], different: Iterable[tuple[str, str]]
) -> dict[str, str]:
    """Return the letters of each name: two names share a letter unless they are `different`.

    No letter is superfluous. Letters follow the order of the names, so list the best one first.

    Example:
        >>> significance_letters(["er", "ewc", "naive"], [("er", "naive")])
        {'er': 'a', 'ewc': 'ab', 'naive': 'b'}
    """
    letters = dict.fromkeys(names, "")
    for k, group in enumerate(letter_groups(names, different)):
        for name in group:
            letters[name] += ascii_letters[k] if k < len(ascii_letters) else f"({k + 1})"
    return letters


def letter_groups(names: Sequence[str], different: Iterable[tuple[str, str]]) -> list[list[str]]:
    """Return one group of names per letter: names share a group unless they are `different`.

    Example:
        >>> letter_groups(["er", "ewc", "naive"], [("er", "naive")])
        [['er', 'ewc'], ['ewc', 'naive']]
    """
    if len(set(names)) < len(names):
        raise ValueError(f"names must be unique, got {list(names)}")
    unlike = {frozenset(pair) for pair in different}
    if unknown := {name for pair in unlike for name in pair} - set(names):
        raise ValueError(f"different pairs name {sorted(unknown)}, expected names in {list(names)}")
    if any(len(pair) < 2 for pair in unlike):
        raise ValueError("a name differs from itself, expected pairs of two names")
    similar = [
        {j for j in range(len(names)) if frozenset((names[i], names[j])) not in unlike}
        for i in range(len(names))
    ]
    return [[names[i] for i in group] for group in _cover_pairs(similar)]


def _cover_pairs(similar: list[set[int]]) -> list[list[int]]:
    """Return groups without a different pair in which every similar pair occurs.

    Finding the fewest such groups is hard; this takes polynomial time and leaves no group that
    the others make superfluous.
    """
    uncovered = set(_similar_pairs(similar, range(len(similar))))
    groups: list[list[int]] = []
    while uncovered:
        groups.append(_grow_group(min(uncovered), similar, uncovered))
        uncovered -= set(_similar_pairs(similar, groups[-1]))
    for group in reversed(list(groups)):
        others = [set(other) for other in groups if other is not group]
        pairs = _similar_pairs(similar, group)
        if all(any({i, j} <= other for other in others) for i, j in pairs):
            groups.remove(group)
    return sorted(groups)


def _similar_pairs(similar: list[set[int]], members: Iterable[int]) -> list[tuple[int, int]]:
    """Return each member paired with itself and with every later member similar to it."""
    members = list(members)
    return [(i, i) for i in members] + [
        (i, j) for i, j in combinations(members, 2) if j in similar[i]
    ]


def _grow_group(
    pair: tuple[int, int], similar: list[set[int]], uncovered: set[tuple[int, int]]
) -> list[int]:
    """Return the pair with all others that fit, those that cover most uncovered pairs first."""
    group, joined = set(pair), set(pair)
    gains = dict.fromkeys(sorted(set.intersection(*(similar[i] for i in group)) - group), 0)
    while gains:
        for k in gains:
            gains[k] += sum((min(i, k), max(i, k)) in uncovered for i in joined)
        best = max(gains, key=gains.__getitem__)
        group.add(best)
        joined = {best}
        gains = {k: gain for k, gain in gains.items() if k != best and k in similar[best]}
    return sorted(group)
