"""The compact letter display (Piepho 2004): methods that cannot be distinguished share a letter."""

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
