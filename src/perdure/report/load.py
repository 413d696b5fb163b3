"""What is to be shown, opened: methods by name, each with its runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from ..record import InputError, Run, failure_of, open_run, read_input
from ..record.grouping import find_groups, pooling_notes
from .filtering import summarize_reasons

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..record import InputOptions, ScoreInput

    Seed = int | str
    RunsByMethod = Mapping[str, Sequence[ScoreInput]]  # seeds of one method together

__all__ = ["get_config", "get_strategy", "index_by_seed", "open_methods"]


def open_methods(
    arguments: Sequence[str], given: InputOptions | None = None, *, pool: bool = False
) -> tuple[dict[str, list[ScoreInput]], list[str]]:
    r"""Return methods by name, each with its runs, and notes on what was left out.

    Args:
        arguments: NAME=PATH,PATH… or PATH: runs, folders of runs, score matrices, points.csv.
            Runs without a name that differ in the seed alone are seeds of one method.
        given: what the user says about files that are no runs of ours.
        pool: let runs under one name differ in more than the seed.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "mine.csv"
        >>> _ = path.write_text("0.9,\n0.6,0.8\n")
        >>> methods, notes = open_methods([str(path)])
        >>> methods["mine"][0].matrix.scores[1, 0]
        np.float64(0.6)
    """
    groups, notes = find_groups(arguments, pool=pool)
    notes += pooling_notes(groups)
    methods: dict[str, list[ScoreInput]] = {}
    left: list[str] = []
    for name, members in groups.items():
        alone = len(members) == 1  # the seeds of several say how sure a number is
        for member in members:
            try:
                run = (
                    open_run(member.path, per_example=alone)
                    if member.ours
                    else read_input(member.path, given)
                )
            except InputError as error:
                left.append(_reason(member.path, error))
            else:
                methods.setdefault(name, []).append(run)
    if not methods:
        raise InputError(summarize_reasons(left))
    return methods, [*notes, *(f"left out: {each}" for each in left), *_failed(methods)]


def _failed(methods: RunsByMethod) -> list[str]:
    """Return a note on every run that is shown as far as it came before it failed."""
    return [
        f"{run.folder}: {note}"
        for runs in methods.values()
        for run in runs
        if isinstance(run, Run) and not run.finished
        for note in run.notes
        if note.startswith("the run failed")
    ]


def _reason(path: str, error: InputError) -> str:
    """Return why a run cannot be shown: why it failed, where it did, or what is wrong with it."""
    why = failure_of(Path(path))
    return str(error) if why is None else f"{path}: the run failed: {' '.join(why.split())}"


def get_config(run: ScoreInput) -> dict[str, object]:
    """Return what a run's description says of it; nothing for a file.

    Example:
        >>> from perdure.record import ScoreInput
        >>> get_config(ScoreInput())
        {}
    """
    said = run.description.get("config") if isinstance(run, Run) else None
    return said if isinstance(said, dict) else {}


def get_strategy(name: str, runs: Sequence[ScoreInput]) -> str:
    """Return the strategy of a method: as its runs say, or the first word of its name.

    Example:
        >>> get_strategy("GEM lr=0.1", [])
        'gem'
    """
    for run in runs:
        said = get_config(run).get("strategy")
        if isinstance(said, str):
            return said
    return re.split(r"[\s,=]", name.strip().lower(), maxsplit=1)[0]


def index_by_seed(methods: RunsByMethod, *, unpaired: bool = False) -> dict[str, dict[Seed, int]]:
    """Return for each method where in its runs each seed is.

    Runs are paired by their order where any of them says no seed; where they need no partner,
    such runs have no seed in common.
    """
    said: dict[str, list[Seed]] = {name: [] for name in methods}
    for name, runs in methods.items():
        for run in runs:
            seed = get_config(run).get("seed")
            said[name] += [seed] if isinstance(seed, int | str) else []
    if any(len(said[name]) < len(runs) for name, runs in methods.items()):
        return _by_order(methods, unpaired=unpaired)
    places = {name: {seed: k for k, seed in enumerate(seeds)} for name, seeds in said.items()}
    for name, mine in places.items():
        if len(mine) < len(methods[name]):
            raise InputError(
                f"{name} has a seed twice, expected each seed once; give each its own NAME=PATH"
            )
    return places


def _by_order(methods: RunsByMethod, *, unpaired: bool) -> dict[str, dict[Seed, int]]:
    if unpaired:
        return {
            name: {f"{name} {k}": k for k in range(len(runs))} for name, runs in methods.items()
        }
    counts = {name: len(runs) for name, runs in methods.items()}
    if len(set(counts.values())) > 1:
        each = ", ".join(f"{name} has {count}" for name, count in counts.items())
        raise InputError(
            f"runs that say no seed are paired by their order, and {each:.300}; "
            "expected as many of each method, or --unpaired"
        )
    return {name: {k: k for k in range(len(runs))} for name, runs in methods.items()}
