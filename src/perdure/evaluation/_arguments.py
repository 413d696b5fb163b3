"""What the arguments of the evaluator may be."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["as_json", "check_arguments"]

WORDS: dict[str, tuple[str | None, ...]] = {
    "initial": ("entered", "all", "none"),
    "where": ("inline", "worker"),
    "mode": ("exact", "latest"),
    "on_alarm": ("warn", "stop"),
    "setting": (None, "class", "task", "domain"),
}


def check_arguments(**given: Any) -> None:
    """Raise for an argument that is none of the words it may be, or no number from 1 on.

    Example:
        >>> check_arguments(where="worker", subset=None, audit=100)
        >>> check_arguments(where="gpu")
        Traceback (most recent call last):
        ValueError: where is 'gpu', expected inline or worker
    """
    for name, value in given.items():
        if name in WORDS:
            if value not in WORDS[name]:
                words = " or ".join(str(word) for word in WORDS[name])
                raise ValueError(f"{name} is {value!r}, expected {words}")
        elif value is not None and (
            isinstance(value, bool) or not isinstance(value, int) or value < 1
        ):
            raise ValueError(f"{name} is {value!r}, expected a whole number of at least 1")


def as_json(describe: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what can be written to run.json, or raise naming the entry that cannot.

    Example:
        >>> as_json({"lr": 0.1})
        {'lr': 0.1}
    """
    for key, value in (describe or {}).items():
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError):
            raise ValueError(
                f"describe[{key!r}] is {value!r:.60}, expected text, numbers, lists and dicts"
            ) from None
    return {str(key): value for key, value in (describe or {}).items()}
