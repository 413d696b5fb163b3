"""Names of groups of runs, made of what differs between their configs, and lists of seeds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .run_metadata import JSON

    Config = Mapping[str, JSON]

__all__ = ["differing_keys", "format_seeds", "format_value", "list_few", "make_names"]

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


def make_names(configs: Sequence[Config]) -> list[str]:
    """Return a name for each config, made of what differs.

    Example:
        >>> er, ewc = {"strategy": "er", "lr": 1}, {"strategy": "ewc", "lr": 1}
        >>> make_names([er, ewc, er | {"lr": 0.1}])
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
