"""Whether groups of runs can be compared at all, and which of their runs belong together."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from .grouping import Groups, in_words, pooling_notes, unlike
from .io.text import InputError

if TYPE_CHECKING:
    from .run_index import RunRef

    Seed = int | str

__all__ = ["only_finished", "paired", "remarks", "same_scenario"]


def only_finished(groups: Groups) -> tuple[Groups, list[str]]:
    """Return the groups without their unfinished runs, and the paths of those."""
    kept = {name: [m for m in members if m.finished] for name, members in groups.items()}
    left = [m.path for members in groups.values() for m in members if not m.finished]
    return {name: members for name, members in kept.items() if members}, left


def same_scenario(groups: Groups) -> str | None:
    """Return why the runs are not of one scenario, setting and kind of test; None if they are."""
    members = [member for several in groups.values() for member in several]
    for what, values in (
        ("scenarios", [member.scenario for member in members]),
        ("settings", [member.setting for member in members]),
        ("kinds", [_tested_on(member) for member in members]),
    ):
        counts = Counter(value for value in values if value is not None)
        if len(counts) > 1:
            each = ", ".join(f"{value} ({count})" for value, count in counts.most_common(5))
            return f"the runs are of {len(counts)} {what}: {each}"
    return None


def _tested_on(member: RunRef) -> str | None:
    if not member.said:
        return None
    return "tested on held-out training data" if member.held_out else "tested on the test set"


def paired(groups: Groups, *, force: bool = False) -> tuple[dict[str, dict[Seed, RunRef]], str]:
    """Return the runs of each group by seed, and by what they are paired: run.json or file order.

    Raises InputError where that is not clear: a seed twice, none in common, or files that are not
    as many in each group (`force` pairs the first of them).
    """
    by_seed: dict[str, dict[Seed, RunRef]] = {}
    if all(member.seed is not None for members in groups.values() for member in members):
        for name, members in groups.items():
            by_seed[name] = {}
            for member in members:
                assert member.seed is not None
                if member.seed in by_seed[name]:
                    raise _twice(name, by_seed[name][member.seed], member)
                by_seed[name][member.seed] = member
        first, *others = by_seed.values()
        if not set(first).intersection(*others):
            each = "; ".join(f"{name} has {in_words(mine)}" for name, mine in by_seed.items())
            raise InputError(
                f"no seed is in all groups: {each:.400}; expected runs of the same seeds"
            )
        return by_seed, "run.json"
    counts = {name: len(members) for name, members in groups.items()}
    if len(set(counts.values())) > 1 and not force:
        each = ", ".join(f"{name} has {count}" for name, count in counts.items())
        raise InputError(
            f"runs without a seed in a run.json are paired by their order, and {each:.400}; "
            f"expected as many in each group, or --force for the first {min(counts.values())}"
        )
    return {name: dict(enumerate(members)) for name, members in groups.items()}, "file order"


def _twice(name: str, one: RunRef, other: RunRef) -> InputError:
    keys = unlike([one.said, other.said])
    differ = f"their {', '.join(keys[:3])} differ: " if keys else ""
    return InputError(
        f"group {name!r} has seed {one.seed} twice, {one.path} and {other.path}, expected each "
        f"seed once; {differ}give each its own NAME=PATH"
    )


def remarks(groups: Groups) -> list[str]:
    """Return what else differs between groups or inside one, where a description says it."""
    notes = []
    every = [member for members in groups.values() for member in members]
    without = [member.path for member in every if member.seed is None]
    if 0 < len(without) < len(every):
        notes.append(f"{without[0]}: no seed in a run.json, so no run is paired by its seed")
    notes += pooling_notes(groups) + _also_differ(groups)
    used = [member.data for member in every if member.data]
    if any(data != used[0] for data in used[1:]):
        notes.append("the runs did not all use the same bytes of data (sha256 in run.json)")
    return notes


def _also_differ(groups: Groups) -> list[str]:
    """Return what differs between groups beside the method and what their names say."""
    first = {name: members[0].said for name, members in groups.items() if members[0].said}
    notes = []
    for key in unlike(list(first.values())):
        if key.startswith(("options.", "code.")) or key in ("strategy", "scenario", "setting"):
            continue
        label = key.rpartition(".")[2]
        named = any(f"{label}={said.get(key)}" in name for name, said in first.items())
        if named or all(str(said.get(key)) in name for name, said in first.items()):
            continue
        values: dict[str, list[str]] = {}
        for name, said in first.items():
            values.setdefault(str(said.get(key)), []).append(name)
        each = "; ".join(f"{value} ({', '.join(names)})" for value, names in values.items())
        notes.append(f"groups differ in {key} too: {each:.300}")
    return notes
