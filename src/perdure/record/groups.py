"""Groups of runs to compare: as the user names them, or told apart by their descriptions."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._text import BadInput
from .members import Member, members_of, visible

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Groups", "find_groups", "unlike"]

Groups = dict[str, list[Member]]

NAMED = ("scenario", "setting", "strategy", "model")  # whose values need no name beside them
LONG = 24  # characters; a value in a name is cut beyond


def find_groups(arguments: Sequence[str]) -> tuple[Groups, list[str]]:
    """Return the groups that `name=PATH,PATH… PATH…` or paths without a name stand for, and notes.

    A path belongs to the name before it. Runs without a name form groups by what they are: those
    that differ in the seed only are one method, named after what tells it from the others. A file
    or pattern without a name is a method of its own.

    Raises BadInput where something is not there, or stands in two groups.
    """
    groups: Groups = {}
    unnamed: dict[str, list[Member]] = {}
    name: str | None = None
    for argument in arguments:
        given, paths = _parsed(argument)
        name = name if given is None else given
        found = [member for path in paths for member in members_of(path)]
        if name is None:
            unnamed[argument] = found
        else:
            groups.setdefault(name, []).extend(found)
    described, notes = _on_test_sets([m for several in unnamed.values() for m in several if m.said])
    own = _told_apart(described)
    rest = {item: [m for m in members if not m.said] for item, members in unnamed.items()}
    own |= _named_after_files({item: members for item, members in rest.items() if members}, own)
    if twice := own.keys() & groups.keys():
        raise BadInput(f"two groups are called {min(twice)!r}, expected other names: NAME=PATH")
    groups = own | groups
    _check_members(groups)
    return groups, notes


def _on_test_sets(members: list[Member]) -> tuple[list[Member], list[str]]:
    """Return the runs of a store without those that only chose hyperparameters, and a note."""
    kept = [member for member in members if not member.held_out]
    if not kept or len(kept) == len(members):
        return members, []
    left = f"{len(members) - len(kept)} of {len(members)} runs"
    return kept, [f"{left} were tested on a held-out part of the training data, and are left out"]


def _parsed(argument: str) -> tuple[str | None, list[str]]:
    """Return the name in front, if there is one, and the paths."""
    name, equals, rest = argument.partition("=")
    # What is there is a path, whatever its name: lr=0.1 may be a folder.
    if os.path.exists(argument) or not equals or "/" in name or os.sep in name:  # noqa: PTH110
        return None, _paths(argument)
    if not name.strip():
        raise BadInput(f"{argument!r:.60}: no name before =, expected NAME=PATH")
    return visible(name.strip()), _paths(rest)


def _paths(text: str) -> list[str]:
    whole = os.path.exists(text)  # noqa: PTH110 - Path raises for odd names
    return [text] if whole else [part.strip() for part in text.split(",") if part.strip()]


def _check_members(groups: Groups) -> None:
    seen: dict[Path, str] = {}
    for name, members in groups.items():
        if not members:
            raise BadInput(f"group {name!r} has no paths, expected {name}=PATH")
        for member in members:
            path = Path(member.path).resolve()
            if path in seen:
                both = f"in {seen[path]!r} and in {name!r}" if seen[path] != name else "twice"
                raise BadInput(f"{member.path}: given {both}, expected each run once")
            seen[path] = name


def _named_after_files(items: Mapping[str, list[Member]], taken: Groups) -> Groups:
    """Return a group for each file or pattern, by its short name where that tells them apart."""
    short = {}
    for item in items:
        path = Path(item)
        path = path.parent if path.name == "points.csv" else path
        short[item] = path.stem if path.is_file() else path.name
    names = list(short.values())
    return {
        short[item] if names.count(short[item]) == 1 and short[item] not in taken else item: members
        for item, members in items.items()
    }


def _told_apart(members: Sequence[Member]) -> Groups:
    """Return groups of runs that differ in nothing but the seed."""
    alike: dict[str, list[Member]] = {}
    for member in members:
        alike.setdefault(json.dumps(member.said, sort_keys=True), []).append(member)
    groups = []
    for group in alike.values():
        known = all(isinstance(member.seed, int) for member in group)
        groups.append(sorted(group, key=lambda m: m.seed) if known else group)  # type: ignore[arg-type, return-value]
    return dict(zip(_names([group[0].said for group in groups]), groups, strict=True))


def _names(several: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a name for each description, made of what differs.

    Example:
        >>> er, ewc = {"strategy": "er", "lr": 1}, {"strategy": "ewc", "lr": 1}
        >>> _names([er, ewc, er | {"lr": 0.1}])
        ['er lr=1', 'ewc', 'er lr=0.1']
    """
    by_value: dict[str, list[int]] = {}
    shown = [
        key for key in NAMED if len({str(said[key]) for said in several if key in said}) > 1
    ] or ["strategy"]
    for k, said in enumerate(several):
        start = " ".join(str(said[key]) for key in shown if key in said)
        by_value.setdefault(start, []).append(k)
    names = [""] * len(several)
    for start, places in by_value.items():
        keys = [key for key in unlike([several[k] for k in places]) if key not in shown]
        for cut in (LONG, None):
            for k in places:
                names[k] = " ".join([start, *(_told(several[k], key, cut) for key in keys)]).strip()
            if len({names[k] for k in places}) == len(places):
                break
    return [name or "runs" for name in names]


def _told(said: Mapping[str, Any], key: str, cut: int | None) -> str:
    value = said.get(key, "unsaid")
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
    if cut is None:
        return f"{key}={text}"
    return f"{key.rpartition('.')[2]}={text if len(text) <= cut else text[: cut - 1] + '…'}"


def unlike(several: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names whose values are not the same in all descriptions.

    Example:
        >>> unlike([{"lr": 1, "batch": 8}, {"lr": 0.1, "batch": 8}])
        ['lr']
    """
    keys = dict.fromkeys(key for said in several for key in said)
    nothing = object()
    return [
        key
        for key in keys
        if any(said.get(key, nothing) != several[0].get(key, nothing) for said in several[1:])
    ]
