"""Validation of arguments: each function returns nothing, or raises naming the argument."""

from __future__ import annotations

import json
from collections.abc import Mapping
from numbers import Integral

__all__ = ["check_choice", "check_integer", "config_as_json", "named_tasks"]


def check_integer(name: str, value: object, least: int) -> None:
    """Raise for anything but an integer of at least `least`.

    Example:
        >>> check_integer("queue", 4, least=1)
        >>> check_integer("queue", 0, least=1)
        Traceback (most recent call last):
        ValueError: queue is 0, expected an integer of at least 1
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < least:
        raise ValueError(f"{name} is {value!r:.60}, expected an integer of at least {least}")


def check_choice(name: str, value: object, choices: tuple[str | None, ...]) -> None:
    """Raise unless `value` is one of `choices`.

    Example:
        >>> check_choice("mode", "exact", ("exact", "latest"))
        >>> check_choice("mode", "fast", ("exact", "latest"))
        Traceback (most recent call last):
        ValueError: mode is 'fast', expected exact or latest
    """
    if value not in choices:
        words = " or ".join(str(choice) for choice in choices)
        raise ValueError(f"{name} is {value!r:.60}, expected {words}")


def named_tasks(tasks: object) -> list[tuple[object, object]]:
    """Return the name and the data of each task; the tasks of a list are numbered.

    Example:
        >>> named_tasks({"a": 1}), named_tasks([1, 2])
        ([('a', 1)], [(0, 1), (1, 2)])
    """
    if tasks is None:
        return []
    if isinstance(tasks, Mapping):
        return list(tasks.items())
    is_pair = isinstance(tasks, tuple) and any(hasattr(part, "dtype") for part in tasks)
    if is_pair or not isinstance(tasks, list | tuple):
        raise TypeError(f"tasks is {type(tasks).__name__}, expected data by name: {{name: (x, y)}}")
    return list(enumerate(tasks))


def config_as_json(config: Mapping[str, object] | None) -> dict[str, object]:
    """Return `config` with text keys, or raise naming the entry that JSON cannot hold.

    Example:
        >>> config_as_json({"lr": 0.1})
        {'lr': 0.1}
    """
    config = config or {}
    for key, value in config.items():
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError):
            raise ValueError(
                f"config[{key!r}] is {value!r:.60}, expected text, numbers, lists and dicts"
            ) from None
    settings = (None, "class", "task", "domain")
    check_choice("config['setting']", config.get("setting"), settings)
    return {str(key): value for key, value in config.items()}
