"""Groups of runs: as the user names them, or by their configs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from .io.files import InputError
from .io.text import visible
from .run_index import RunRef, find_runs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .run_metadata import JSON

    Config = Mapping[str, JSON]

__all__ = ["Groups", "differing_keys", "find_groups", "format_seeds", "pooling_notes", "seeds_note"]

Groups = dict[str, list[RunRef]]

UNLABELLED_KEYS = ("scenario", "setting", "strategy", "model")  # whose values speak for themselves
MAX_VALUE = 24  # characters of a value in a name


def find_groups(
    arguments: Sequence[str], *, pool: bool = False, files_together: bool = False
) -> tuple[Groups, list[str]]:
    """Return the groups that `name=PATH,PATH… PATH…` or paths without a name stand for, and notes.

    A path belongs to the name before it. Runs without a name are grouped by their config: runs
    that differ in the seed alone are seeds of one method, named after what distinguishes it from
    the others. A run without a config is a group of its own, named after its folder; so is a
    file, or a pattern of files, unless `files_together` takes all files for one group.

    Raises InputError if something is not there or is in two groups, and, unless `pool`, if the
    runs of a group differ in more than the seed.
    """
    named: Groups = {}
    unnamed: dict[str, list[RunRef]] = {}
    name: str | None = None
    for argument in arguments:
        own_name, paths = _split_name(argument)
        if own_name is None and not paths:
            raise InputError(
                f"{argument!r:.60}: no path, expected a file, a run or a folder of runs"
            )
        name = name if own_name is None else own_name
        runs = [run for path in paths for run in find_runs(path)]
        if name is None:
            unnamed.setdefault(argument, []).extend(runs)
        else:
            named.setdefault(name, []).extend(runs)
    with_config = [run for runs in unnamed.values() for run in runs if run.config]
    with_config, notes = _drop_validation_runs(with_config)
    groups = _group_by_config(with_config)
    without_config = {
        argument: [run for run in runs if not run.config] for argument, runs in unnamed.items()
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
    groups = []
    for group in same.values():
        numbered = all(isinstance(run.seed, int) for run in group)
        groups.append(sorted(group, key=lambda run: run.seed) if numbered else group)  # type: ignore[arg-type, return-value]
    return dict(zip(_make_names([group[0].config for group in groups]), groups, strict=True))


def _group_by_path(
    runs_by_argument: Mapping[str, list[RunRef]], *, files_together: bool
) -> tuple[Groups, list[str]]:
    """Return files as they were given, and each run without a config by itself, and a note."""
    groups: Groups = {}
    folders = 0
    all_files = ""
    for argument, runs in runs_by_argument.items():
        for run in runs:
            if Path(run.path).is_dir():
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
    seen: dict[str, str] = {}
    for name, runs in groups.items():
        if not runs:
            raise InputError(f"group {name!r} has no paths, expected {name}=PATH")
        for run in runs:
            path = os.path.realpath(run.path)  # Path.resolve raises for a link to itself
            if path in seen:
                both = f"in {seen[path]!r} and in {name!r}" if seen[path] != name else "twice"
                raise InputError(f"{run.path}: given {both}, expected each run once")
            seen[path] = name


def _check_seeds(name: str, runs: Sequence[RunRef]) -> None:
    """Raise InputError unless the runs of one group differ in the seed alone."""
    configs = [run.config for run in runs if run.config]
    if keys := differing_keys(configs):
        values = {key: dict.fromkeys(_format_value(c, key) for c in configs) for key in keys[:3]}
        listed = "; ".join(f"{key}: {_list_few(list(several))}" for key, several in values.items())
        more = f"; and {len(keys) - 3} more" if len(keys) > 3 else ""
        raise InputError(
            f"the runs of {name!r} differ in more than the seed ({listed}{more}), expected seeds "
            "of one method; give each its own NAME=PATH, or use `pool=True` to average them anyway"
        )
    seen: dict[int | str, RunRef] = {}
    for run in runs:
        if run.seed is None:
            continue
        if (other := seen.setdefault(run.seed, run)) is not run:
            raise InputError(
                f"{name!r} has seed {run.seed} twice, {other.path} and {run.path}, expected "
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
    if len(set(seeds)) < len(seeds):
        return f"{len(runs)} runs that state a seed more than once, pooled as asked"
    if not any(run.ours for run in runs):
        return f"{len(runs)} files, taken as seeds of one method"
    if len(seeds) < len(runs):
        return f"{len(runs)} runs without a stated seed, taken as seeds of one method"
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


def format_seeds(seeds: Iterable[int | str]) -> str:
    """Return seeds as text, consecutive ones as a range.

    Example:
        >>> format_seeds([0, 1, 2, 5, 7, 8])
        '0-2, 5, 7, 8'
    """
    several = list(seeds)
    ranges: list[list[int]] = []
    for number in sorted(seed for seed in several if isinstance(seed, int)):
        if ranges and ranges[-1][-1] == number - 1:
            ranges[-1].append(number)
        else:
            ranges.append([number])
    words = []
    for part in ranges:
        words += [f"{part[0]}-{part[-1]}"] if len(part) > 2 else [str(number) for number in part]
    return ", ".join([*words, *(seed for seed in several if isinstance(seed, str))])


def differing_keys(configs: Sequence[Mapping[str, object]]) -> list[str]:
    """Return the keys whose values are not the same in all configs.

    Example:
        >>> differing_keys([{"lr": 1, "batch": 8}, {"lr": 0.1, "batch": 8}])
        ['lr']
    """
    missing = object()
    return [
        key
        for key in dict.fromkeys(key for config in configs for key in config)
        if any(config.get(key, missing) != configs[0].get(key, missing) for config in configs[1:])
    ]


def _make_names(configs: Sequence[Config]) -> list[str]:
    """Return a name for each config, made of what differs.

    Example:
        >>> er, ewc = {"strategy": "er", "lr": 1}, {"strategy": "ewc", "lr": 1}
        >>> _make_names([er, ewc, er | {"lr": 0.1}])
        ['er lr=1', 'ewc', 'er lr=0.1']
    """
    shown = [
        key for key in UNLABELLED_KEYS if len({str(c[key]) for c in configs if key in c}) > 1
    ] or ["strategy"]
    by_start: dict[str, list[int]] = {}
    for k, config in enumerate(configs):
        start = " ".join(str(config[key]) for key in shown if key in config)
        by_start.setdefault(start, []).append(k)
    names = [""] * len(configs)
    for start, places in by_start.items():
        keys = [key for key in differing_keys([configs[k] for k in places]) if key not in shown]
        for limit in (MAX_VALUE, None):
            for k in places:
                labels = (_label(configs[k], key, limit) for key in keys)
                names[k] = " ".join([start, *labels]).strip()
            if len({names[k] for k in places}) == len(places):
                break
    return [name or "runs" for name in names]


def _list_few(values: Sequence[str]) -> str:
    shown = ", ".join(_truncate(value, MAX_VALUE) for value in values[:3])
    return f"{shown}, …" if len(values) > 3 else shown


def _label(config: Config, key: str, limit: int | None) -> str:
    text = _format_value(config, key)
    return (
        f"{key}={text}" if limit is None else f"{key.rpartition('.')[2]}={_truncate(text, limit)}"
    )


def _format_value(config: Config, key: str) -> str:
    value = config.get(key, "unstated")
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def _truncate(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
