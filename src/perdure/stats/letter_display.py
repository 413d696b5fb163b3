"""Which methods cannot be told apart, as letters: the compact letter display (Piepho, 2004)."""

from __future__ import annotations

from itertools import combinations
from string import ascii_letters
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["letter_groups", "significance_letters"]


def significance_letters(
    names: Sequence[str], different: Iterable[tuple[str, str]]
) -> dict[str, str]:
    """Return letters for each name: two names share one exactly where they are not `different`.

    No letter can be left out; they are given in the order of the names, so name the best first.

    Example:
        >>> significance_letters(["er", "ewc", "naive"], [("er", "naive")])
        {'er': 'a', 'ewc': 'ab', 'naive': 'b'}
    """
    given = dict.fromkeys(names, "")
    for k, group in enumerate(letter_groups(names, different)):
        for name in group:
            given[name] += ascii_letters[k] if k < len(ascii_letters) else f"({k + 1})"
    return given


def letter_groups(names: Sequence[str], different: Iterable[tuple[str, str]]) -> list[list[str]]:
    """Return groups of names, one per letter: two names share one where they are not `different`.

    Example:
        >>> letter_groups(["er", "ewc", "naive"], [("er", "naive")])
        [['er', 'ewc'], ['ewc', 'naive']]
    """
    if len(set(names)) < len(names):
        raise ValueError(f"names must be told apart, got {list(names)}")
    apart = {frozenset(pair) for pair in different}
    if unknown := {name for pair in apart for name in pair} - set(names):
        raise ValueError(f"{sorted(unknown)} differ from others, expected names in {list(names)}")
    if any(len(pair) < 2 for pair in apart):
        raise ValueError("a name differs from itself, expected pairs of two names")
    alike = [
        {j for j in range(len(names)) if frozenset((names[i], names[j])) not in apart}
        for i in range(len(names))
    ]
    return [[names[i] for i in group] for group in _cover(alike)]


def _cover(alike: list[set[int]]) -> list[list[int]]:
    """Return sets without a different pair in them, every pair that is alike in one of them.

    To cover with the fewest such sets is hard; this takes polynomial time and leaves none that
    the others make superfluous.
    """
    open_ = set(_pairs(alike, range(len(alike))))
    groups: list[list[int]] = []
    while open_:
        groups.append(_grown(min(open_), alike, open_))
        open_ -= set(_pairs(alike, groups[-1]))
    for group in reversed(list(groups)):
        others = [set(other) for other in groups if other is not group]
        if all(any({i, j} <= other for other in others) for i, j in _pairs(alike, group)):
            groups.remove(group)
    return sorted(groups)


def _pairs(alike: list[set[int]], members: Iterable[int]) -> list[tuple[int, int]]:
    """Return each of the members with itself, and with every later one that is like it."""
    several = list(members)
    return [(i, i) for i in several] + [
        (i, j) for i, j in combinations(several, 2) if j in alike[i]
    ]


def _grown(pair: tuple[int, int], alike: list[set[int]], open_: set[tuple[int, int]]) -> list[int]:
    """Return a pair with all that still fit beside it, first those with most pairs to cover."""
    group = set(pair)
    while fit := set.intersection(*(alike[i] for i in group)) - group:
        worth = {k: sum((min(i, k), max(i, k)) in open_ for i in group) for k in fit}
        group.add(max(sorted(fit), key=worth.__getitem__))
    return sorted(group)
