"""Names of groups of runs, made of what differs between their configs, and lists of seeds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from .._display import count_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from .run_metadata import JSON

    Config = Mapping[str, JSON]

__all__ = [
    "count_replicates",
    "differing_keys",
    "format_order",
    "format_seeds",
    "format_value",
    "list_few",
    "make_names",
    "name_replicate",
    "parse_order",
]

UNLABELLED_KEYS = ("scenario", "setting", "strategy", "model")  # whose values speak for themselves
MAX_VALUE = 24  # characters of a value in a name


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


def format_order(order: Iterable[int] | None) -> str:
    """Return a task order as text, such as 2,0,1: with hyphens it would look like names of tasks.

    Example:
        >>> format_order((2, 0, 1)), format_order(None)
        ('2,0,1', 'published')
    """
    return "published" if order is None else ",".join(map(str, order))


def parse_order(value: object) -> tuple[int, ...] | None:
    """Return the task order in a config, None for the scenario's own.

    Example:
        >>> parse_order([2, 0, 1]), parse_order(None)
        ((2, 0, 1), None)
    """
    numbers = [k for k in value if isinstance(k, int)] if isinstance(value, list) else []
    return tuple(numbers) or None


def name_replicate(seed: int | str, order: Iterable[int] | None) -> str:
    """Return what tells a run from the others of its method.

    Example:
        >>> name_replicate(0, None), name_replicate(3, (2, 0, 1))
        ('seed 0', 'seed 3 (task order 2,0,1)')
    """
    return f"seed {seed}" + ("" if order is None else f" (task order {format_order(order)})")


def count_replicates(replicates: Iterable[tuple[Hashable, Hashable]]) -> str:
    """Return how many seeds and task orders there are among runs of one method.

    Example:
        >>> count_replicates([(None, 0), (None, 1)])
        '2 seeds'
        >>> count_replicates([((0, 1), 0), ((0, 1), 1), ((1, 0), 0), ((1, 0), 1)])
        '2 seeds x 2 task orders'
    """
    runs = list(replicates)
    orders, seeds = ({*several} for several in zip(*runs, strict=True))
    if len(orders) == 1:
        return count_of(len(runs), "seed")
    if len(set(runs)) == len(runs) == len(orders) * len(seeds):
        return f"{count_of(len(seeds), 'seed')} x {len(orders)} task orders"
    return f"{len(runs)} runs in {len(orders)} task orders"


def differing_keys(configs: Sequence[Mapping[str, object]]) -> list[str]:
    """Return the keys whose values are not the same in all configs.

    Example:
        >>> differing_keys([{"lr": 1, "batch": 8}, {"lr": 0.1, "batch": 8}])
        ['lr']
    """
    if all(config == configs[0] for config in configs[1:]):
        return []
    missing = object()
    return [
        key
        for key in dict.fromkeys(key for config in configs for key in config)
        if any(config.get(key, missing) != configs[0].get(key, missing) for config in configs[1:])
    ]


def make_names(configs: Sequence[Config]) -> list[str]:
    """Return a name for each config, made of what differs.

    An option that is null was not chosen, and is named only where the names would be equal.

    Example:
        >>> er, ewc = {"strategy": "er", "lr": 1}, {"strategy": "ewc", "lr": 1}
        >>> make_names([er, ewc, er | {"lr": 0.1}])
        ['er lr=1', 'ewc', 'er lr=0.1']
        >>> make_names([er | {"num_tasks": None}, er | {"num_tasks": 2}])
        ['er', 'er num_tasks=2']
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
        for limit, nulls in ((MAX_VALUE, False), (MAX_VALUE, True), (None, True)):
            for k in places:
                chosen = (key for key in keys if nulls or configs[k].get(key, "") is not None)
                labels = (_label(configs[k], key, limit) for key in chosen)
                names[k] = " ".join([start, *labels]).strip()
            if len({names[k] for k in places}) == len(places):
                break
    return [name or "runs" for name in names]


def list_few(values: Sequence[str]) -> str:
    """Return the first three values, with an ellipsis for the rest."""
    shown = ", ".join(_truncate(value, MAX_VALUE) for value in values[:3])
    return f"{shown}, …" if len(values) > 3 else shown


def _label(config: Config, key: str, limit: int | None) -> str:
    text = format_value(config, key)
    return (
        f"{key}={text}" if limit is None else f"{key.rpartition('.')[2]}={_truncate(text, limit)}"
    )


def format_value(config: Config, key: str) -> str:
    """Return a value of a config as text."""
    value = config.get(key, "unstated")
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def _truncate(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
