"""Groups of runs: as the user names them, or by their configs."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..metrics import RunsSummary, Summary
from .group_names import (
    count_replicates,
    differing_keys,
    format_seeds,
    format_value,
    list_few,
    make_names,
    parse_order,
)
from .io.files import InputError
from .io.text import visible
from .run_index import RunRef, find_runs, refs_of_array

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    Scores = Mapping[str, object] | ArrayLike

__all__ = ["Groups", "find_groups", "pooling_notes", "seeds_note"]

Groups = dict[str, list[RunRef]]


def find_groups(
    arguments: Sequence[str | Scores],
    *,
    pool: bool = False,
    files_together: bool = False,
    orders_together: bool = False,
) -> tuple[Groups, list[str]]:
    """Return the groups that `name=PATH,PATH… PATH…` or paths without a name stand for, and notes.

    An argument that is no text holds scores: an array of shape (T, T) or (seeds, T, T), or by the
    name of the method such arrays or summaries.

    A path belongs to the name before it. Runs without a name are grouped by their config: runs
    that differ in the seed alone are seeds of one method, named after what distinguishes it from
    the others. A run without a config is a group of its own, named after its folder; so is a
    file, or a pattern of files, unless `files_together` takes all files for one group. A file that
    names methods has a group for each. Runs in another task order are another group, unless
    `orders_together`; the caller then tells the variance over orders from that over seeds.

    Raises InputError if something is not there or is in two groups, and, unless `pool`, if the
    runs of a group differ in more than the seed.
    """
    named: Groups = {}
    unnamed: dict[str, list[RunRef]] = {}
    name: str | None = None
    for k, argument in enumerate(arguments):
        if not isinstance(argument, str):
            source = f"array {k}" if len(arguments) > 1 else "array"
            unnamed[source] = _refs_of_scores(argument, source)
            continue
        own_name, paths = _split_name(argument)
        if own_name is None and not paths:
            raise InputError(
                f"{argument!r:.60}: no path, expected a file, a run or a folder of runs"
            )
        name = name if own_name is None else own_name
        runs = [run for path in paths for run in find_runs(path)]
        runs = [_separate_order(run) for run in runs] if orders_together else runs
        if name is None:
            unnamed.setdefault(argument, []).extend(runs)
        else:
            _check_one_method(name, runs, named=own_name is not None)
            named.setdefault(name, []).extend(runs)
    with_config = [run for runs in unnamed.values() for run in runs if run.config]
    with_config, notes = _drop_validation_runs(with_config)
    groups = _group_by_config(with_config)
    groups |= _group_by_method([run for runs in unnamed.values() for run in runs if run.method])
    without_config = {
        argument: [run for run in runs if not (run.config or run.method)]
        for argument, runs in unnamed.items()
    }
    others, more = _group_by_path(without_config, files_together=files_together)
    groups |= _name_after_files(others, groups)
    if repeated := groups.keys() & named.keys():
        raise InputError(
            f"two groups are called {min(repeated)!r}, expected other names: NAME=PATH"
        )
    groups |= named
    _check_each_once(groups)
    if not pool:
        for name, runs in groups.items():
            _check_seeds(name, runs)
    return groups, [*notes, *more]


def _refs_of_scores(scores: Scores, source: str) -> list[RunRef]:
    """Return the matrices of an array or a mapping, and the runs of summaries by method."""
    if isinstance(scores, Summary | RunsSummary):
        raise InputError("a summary without a name, expected one per method: {'er': summary, …}")
    if not isinstance(scores, Mapping):
        return refs_of_array(scores, source)
    refs, others = [], {}
    for method, value in scores.items():
        if not isinstance(value, Summary | RunsSummary):
            others[method] = value
            continue
        runs = value.runs if isinstance(value, RunsSummary) else [value]
        stated = value.seeds if isinstance(value, RunsSummary) else []
        seeds: Sequence[int | str | None] = stated or [None] * len(runs)
        for k, (seed, run) in enumerate(zip(seeds, runs, strict=True)):
            part = f"{method}, run {k}" if seed is None else f"{method}, seed {seed}"
            refs.append(RunRef(source, seed=seed, method=method, part=part, summary=run))
    return [*refs, *(refs_of_array(others, source) if others else [])]


def _separate_order(run: RunRef) -> RunRef:
    """Return a run whose task order is no longer part of its config."""
    config = {key: value for key, value in run.config.items() if key != "task_order"}
    return replace(run, config=config, order=parse_order(run.config.get("task_order")))


def _split_name(argument: str) -> tuple[str | None, list[str]]:
    """Return the name before the equals sign, if there is one, and the paths."""
    name, equals, rest = argument.partition("=")
    # What is there is a path, whatever its name: lr=0.1 may be a folder.
    if os.path.exists(argument) or not equals or "/" in name or os.sep in name:  # noqa: PTH110
        return None, _split_paths(argument)
    if not name.strip():
        raise InputError(f"{argument!r:.60}: no name before =, expected NAME=PATH")
    return visible(name.strip()), _split_paths(rest)


def _split_paths(text: str) -> list[str]:
    whole = os.path.exists(text)  # noqa: PTH110 - Path raises for odd names
    return [text] if whole else [part.strip() for part in text.split(",") if part.strip()]


def _drop_validation_runs(runs: list[RunRef]) -> tuple[list[RunRef], list[str]]:
    """Return the runs of a store without those that only selected hyperparameters, and a note."""
    kept = [run for run in runs if not run.on_validation_split]
    if not kept or len(kept) == len(runs):
        return runs, []
    left = f"{len(runs) - len(kept)} of {len(runs)} runs"
    return kept, [f"{left} were tested on a held-out part of the training data, and are left out"]


def _group_by_config(runs: Sequence[RunRef]) -> Groups:
    """Return groups of runs that differ in nothing but the seed."""
    same: dict[str, list[RunRef]] = {}
    for run in runs:
        same.setdefault(json.dumps(run.config, sort_keys=True), []).append(run)
    groups = [_sort_by_seed(group) for group in same.values()]
    return dict(zip(make_names([group[0].config for group in groups]), groups, strict=True))


def _group_by_method(runs: Sequence[RunRef]) -> Groups:
    """Return the matrices of files that name methods, by method and in order of their seeds."""
    groups: Groups = {}
    for run in runs:
        groups.setdefault(run.method or "", []).append(run)
    return {name: _sort_by_seed(group) for name, group in groups.items()}


def _sort_by_seed(runs: list[RunRef]) -> list[RunRef]:
    numbered = all(isinstance(run.seed, int) for run in runs)
    return sorted(runs, key=lambda run: run.seed) if numbered else runs  # type: ignore[arg-type, return-value]


def _check_one_method(name: str, runs: Sequence[RunRef], *, named: bool) -> None:
    methods = list(dict.fromkeys(run.method for run in runs if run.method))
    if len(methods) > 1:
        advice = f"omit {name:.60}=" if named else "put it before the first NAME=PATH"
        raise InputError(
            f"{runs[0].path}: holds the methods {list_few(methods)}, expected one under the name "
            f"{name!r:.60}; {advice}"
        )


def _group_by_path(
    runs_by_argument: Mapping[str, list[RunRef]], *, files_together: bool
) -> tuple[Groups, list[str]]:
    """Return files as they were given, and each run without a config by itself, and a note."""
    groups: Groups = {}
    folders = 0
    all_files = ""
    for argument, runs in runs_by_argument.items():
        for run in runs:
            if run.is_folder:
                groups[run.path] = [run]
                folders += 1
                continue
            all_files = all_files or argument
            groups.setdefault(all_files if files_together else argument, []).append(run)
    note = (
        f"{folders} runs state no config and are told apart by their folders' names; to pool some, "
        "name them: NAME=PATH,PATH"
    )
    return groups, [note] if folders > 1 else []


def _name_after_files(groups: Groups, taken: Groups) -> Groups:
    """Return a group for each file or pattern, by its short name where that is unambiguous."""
    short = {}
    for argument in groups:
        path = Path(argument)
        path = path.parent if path.name == "points.csv" else path
        short[argument] = path.stem if path.is_file() else path.name
    names = list(short.values())
    return {
        name if names.count(name) == 1 and name not in taken else argument: groups[argument]
        for argument, name in short.items()
    }


def _check_each_once(groups: Groups) -> None:
    seen: dict[tuple[str, str], str] = {}
    for name, runs in groups.items():
        if not runs:
            raise InputError(f"group {name!r} has no paths, expected {name}=PATH")
        for run in runs:
            key = (os.path.realpath(run.path), run.part)  # Path.resolve raises for a link to itself
            if key in seen:
                both = f"in {seen[key]!r} and in {name!r}" if seen[key] != name else "twice"
                raise InputError(f"{run.name}: given {both}, expected each run once")
            seen[key] = name


def _check_seeds(name: str, runs: Sequence[RunRef]) -> None:
    """Raise InputError unless the runs of one group differ in the seed alone."""
    configs = [run.config for run in runs if run.config]
    if keys := differing_keys(configs):
        values = {key: dict.fromkeys(format_value(c, key) for c in configs) for key in keys[:3]}
        listed = "; ".join(f"{key}: {list_few(list(several))}" for key, several in values.items())
        more = f"; and {len(keys) - 3} more" if len(keys) > 3 else ""
        raise InputError(
            f"the runs of {name!r} differ in more than the seed ({listed}{more}), expected seeds "
            "of one method; give each its own NAME=PATH, or use `pool=True` to average them anyway"
        )
    seen: dict[int | str, RunRef] = {}
    for run in runs:
        if run.replicate is None:
            continue
        if (other := seen.setdefault(run.replicate, run)) is not run:
            raise InputError(
                f"{name!r} has seed {run.seed} twice, {other.name} and {run.name}, expected "
                "each seed once; give each its own NAME=PATH, or use `pool=True`"
            )


def seeds_note(runs: Sequence[RunRef]) -> str:
    """Return a note on what makes several runs or files seeds of one method.

    Example:
        >>> seeds_note([RunRef("s0.csv"), RunRef("s1.csv")])
        '2 files, taken as seeds of one method'
    """
    seeds = [run.seed for run in runs if run.seed is not None]
    if keys := differing_keys([run.config for run in runs if run.config]):
        return f"{len(runs)} runs that differ in {', '.join(keys[:5])}, pooled as asked"
    replicates = [(run.order, run.seed) for run in runs]
    if len({run.replicate for run in runs if run.seed is not None}) < len(seeds):
        return f"{len(runs)} runs that state a seed more than once, pooled as asked"
    if not any(run.ours for run in runs):
        if len(seeds) == len(runs):
            return f"{len(runs)} matrices: seeds {format_seeds(seeds)}"
        kind = "matrices" if any(run.part for run in runs) else "files"
        return f"{len(runs)} {kind}, taken as seeds of one method"
    if len(seeds) < len(runs):
        return f"{len(runs)} runs without a stated seed, taken as seeds of one method"
    if len({run.order for run in runs}) > 1:
        return f"{count_replicates(replicates)} (seeds {format_seeds(set(seeds))})"
    return f"{len(runs)} runs that differ in the seed alone: {format_seeds(seeds)}"


def pooling_notes(groups: Groups) -> list[str]:
    """Return a note on each group of runs that do not state that the seed alone differs."""
    notes = []
    for name, runs in groups.items():
        configs = [run.config for run in runs]
        stated = all(run.seed is not None for run in runs) and not differing_keys(configs)
        if len(runs) > 1 and any(run.ours for run in runs) and not stated:
            notes.append(f"{name}: {seeds_note(runs)}")
    return notes
