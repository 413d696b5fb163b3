"""Groups of runs to compare: as the user names them, or told apart by their descriptions."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .io.text import InputError
from .run_index import RunRef, find_runs, visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["Groups", "find_groups", "in_words", "pooling_notes", "seeds_note", "unlike"]

Groups = dict[str, list[RunRef]]

NAMED = ("scenario", "setting", "strategy", "model")  # whose values need no name beside them
LONG = 24  # characters; a value in a name is cut beyond


def find_groups(
    arguments: Sequence[str], *, pool: bool = False, files_together: bool = False
) -> tuple[Groups, list[str]]:
    """Return the groups that `name=PATH,PATH… PATH…` or paths without a name stand for, and notes.

    A path belongs to the name before it. Runs without a name are grouped by their config: runs
    that differ in the seed alone are seeds of one method, named after what tells it from the
    others. A run that states nothing about itself is a group of its own, named after its folder;
    so is a file, or a pattern of files, unless `files_together` takes all files for one group.

    Raises InputError if something is not there or is in two groups, and, unless `pool`, if the runs
    of a group differ in more than the seed.
    """
    groups: Groups = {}
    unnamed: dict[str, list[RunRef]] = {}
    name: str | None = None
    for argument in arguments:
        given, paths = _parsed(argument)
        if given is None and not paths:
            raise InputError(
                f"{argument!r:.60}: no path, expected a file, a run or a folder of runs"
            )
        name = name if given is None else given
        found = [member for path in paths for member in find_runs(path)]
        if name is None:
            unnamed.setdefault(argument, []).extend(found)
        else:
            groups.setdefault(name, []).extend(found)
    described, notes = _on_test_sets([m for several in unnamed.values() for m in several if m.said])
    own = _told_apart(described)
    silent = {item: [m for m in several if not m.said] for item, several in unnamed.items()}
    rest, more = _by_folder(silent, files_together=files_together)
    own |= _named_after_files(rest, own)
    if twice := own.keys() & groups.keys():
        raise InputError(f"two groups are called {min(twice)!r}, expected other names: NAME=PATH")
    groups = own | groups
    _check_members(groups)
    if not pool:
        for name, members in groups.items():
            _check_seeds(name, members)
    return groups, [*notes, *more]


def _check_seeds(name: str, members: Sequence[RunRef]) -> None:
    """Raise InputError unless the runs of one group differ in the seed alone."""
    configs = [member.said for member in members if member.said]
    if keys := unlike(configs):
        values = {key: dict.fromkeys(_value(said, key) for said in configs) for key in keys[:3]}
        each = "; ".join(f"{key}: {_few(list(several))}" for key, several in values.items())
        more = f"; and {len(keys) - 3} more" if len(keys) > 3 else ""
        raise InputError(
            f"the runs of {name!r} differ in more than the seed ({each}{more}), expected seeds of "
            "one method; give each its own NAME=PATH, or add --pool to average them anyway"
        )
    seen: dict[int | str, RunRef] = {}
    for member in members:
        if member.seed is None:
            continue
        if (other := seen.setdefault(member.seed, member)) is not member:
            raise InputError(
                f"{name!r} has seed {member.seed} twice, {other.path} and {member.path}, expected "
                "each seed once; give each its own NAME=PATH, or add --pool"
            )


def seeds_note(members: Sequence[RunRef]) -> str:
    """Return what makes several runs or files seeds of one method, in words.

    Example:
        >>> seeds_note([RunRef("s0.csv"), RunRef("s1.csv")])
        '2 files, taken as seeds of one method'
    """
    seeds = [member.seed for member in members if member.seed is not None]
    if keys := unlike([member.said for member in members if member.said]):
        return f"{len(members)} runs that differ in {', '.join(keys[:5])}, pooled as asked"
    if len(set(seeds)) < len(seeds):
        return f"{len(members)} runs that state a seed more than once, pooled as asked"
    if not any(member.ours for member in members):
        return f"{len(members)} files, taken as seeds of one method"
    if len(seeds) < len(members):
        return f"{len(members)} runs without a stated seed, taken as seeds of one method"
    return f"{len(members)} runs that differ in the seed alone: {in_words(seeds)}"


def pooling_notes(groups: Groups) -> list[str]:
    """Return a note for each group of runs that do not state that the seed alone differs."""
    notes = []
    for name, members in groups.items():
        stated = all(m.seed is not None for m in members) and not unlike([m.said for m in members])
        if len(members) > 1 and any(m.ours for m in members) and not stated:
            notes.append(f"{name}: {seeds_note(members)}")
    return notes


def in_words(seeds: Iterable[int | str]) -> str:
    """Return seeds as text, those in a row as a range.

    Example:
        >>> in_words([0, 1, 2, 5, 7, 8])
        '0-2, 5, 7, 8'
    """
    several = list(seeds)
    numbers = sorted(seed for seed in several if isinstance(seed, int))
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][-1] == number - 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    words = []
    for part in parts:
        words += [f"{part[0]}-{part[-1]}"] if len(part) > 2 else [str(number) for number in part]
    return ", ".join([*words, *(seed for seed in several if isinstance(seed, str))])


def _by_folder(
    items: Mapping[str, list[RunRef]], *, files_together: bool
) -> tuple[dict[str, list[RunRef]], list[str]]:
    """Return files as they were named, runs that state nothing about themselves apart, a note."""
    apart: dict[str, list[RunRef]] = {}
    folders = 0
    together = ""
    for item, members in items.items():
        for member in members:
            if Path(member.path).is_dir():
                apart[member.path] = [member]
                folders += 1
                continue
            together = together or item
            apart.setdefault(together if files_together else item, []).append(member)
    note = (
        f"{folders} runs state no config and are told apart by their folders' names; to pool some, "
        "name them: NAME=PATH,PATH"
    )
    return apart, [note] if folders > 1 else []


def _on_test_sets(members: list[RunRef]) -> tuple[list[RunRef], list[str]]:
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
        raise InputError(f"{argument!r:.60}: no name before =, expected NAME=PATH")
    return visible(name.strip()), _paths(rest)


def _paths(text: str) -> list[str]:
    whole = os.path.exists(text)  # noqa: PTH110 - Path raises for odd names
    return [text] if whole else [part.strip() for part in text.split(",") if part.strip()]


def _check_members(groups: Groups) -> None:
    seen: dict[str, str] = {}
    for name, members in groups.items():
        if not members:
            raise InputError(f"group {name!r} has no paths, expected {name}=PATH")
        for member in members:
            path = os.path.realpath(member.path)  # Path.resolve raises for a link to itself
            if path in seen:
                both = f"in {seen[path]!r} and in {name!r}" if seen[path] != name else "twice"
                raise InputError(f"{member.path}: given {both}, expected each run once")
            seen[path] = name


def _named_after_files(items: Mapping[str, list[RunRef]], taken: Groups) -> Groups:
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


def _told_apart(members: Sequence[RunRef]) -> Groups:
    """Return groups of runs that differ in nothing but the seed."""
    alike: dict[str, list[RunRef]] = {}
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


def _few(values: Sequence[str]) -> str:
    shown = ", ".join(_cut(value, LONG) for value in values[:3])
    return f"{shown}, …" if len(values) > 3 else shown


def _told(said: Mapping[str, Any], key: str, cut: int | None) -> str:
    text = _value(said, key)
    return f"{key}={text}" if cut is None else f"{key.rpartition('.')[2]}={_cut(text, cut)}"


def _value(said: Mapping[str, Any], key: str) -> str:
    value = said.get(key, "unstated")
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


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
