"""What a run says of itself, in short lines of plain text."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import msgspec

from ...record import read_costs
from .list_row import MAX_JSON, MAX_TEXT, escape_name
from .safe_paths import read_file

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["list_details", "read_details", "read_task_costs"]

MAX_COSTS = 4 << 20
MOST = 40  # lines
GROUPS = ("options", "optimizer_options", "model_options")
PLAIN = (
    "scenario", "setting", "strategy", "options", "model", "model_options", "optimizer",
    "optimizer_options", "seed", "epochs", "iterations", "batch", "every", "subset", "device",
    "threads",
)  # fmt: skip


def read_details(folder: int) -> list[tuple[str, str]]:
    """Return what run.json says of a run; nothing if it cannot be read."""
    try:
        said = msgspec.json.decode(read_file(folder, "run.json", MAX_JSON))
    except (OSError, ValueError, RecursionError):
        return []
    return list_details(said) if isinstance(said, dict) else []


def list_details(said: dict[str, Any]) -> list[tuple[str, str]]:
    """Return what a run is, a name and a value a line.

    Example:
        >>> config = {"strategy": "gem", "options": {"memory": 400}, "epochs": None}
        >>> list_details({"config": config})
        [('strategy', 'gem'), ('memory', '400')]
    """
    what = said.get("config")
    lines = list(_lines(what)) if isinstance(what, dict) else []
    versions, created = said.get("versions"), said.get("created")
    if isinstance(created, str):
        lines.append(("started", created))
    if isinstance(versions, dict):
        named = [f"{k} {v}" for k, v in versions.items() if isinstance(v, str)]
        lines.append(("versions", ", ".join(named[:8])))
    return [(escape_name(name)[:80], escape_name(value)[:MAX_TEXT]) for name, value in lines[:MOST]]


def _lines(what: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name in PLAIN:
        value = what.get(name)
        if name in GROUPS and isinstance(value, dict):
            yield from ((str(k), _word(v)) for k, v in list(value.items())[:MOST])
        elif isinstance(value, str | int | float):
            yield name, _word(value)


def _word(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(str(each) for each in value[:20] if isinstance(each, str | int | float))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value) if isinstance(value, str | int | float) else "…"


def read_task_costs(folder: int) -> list[dict[str, float | None]]:
    """Return what each task cost so far, in order; nothing if it cannot be read."""
    try:
        text = read_file(folder, "costs.csv", MAX_COSTS).decode()
        costs, _ = read_costs(text, "costs.csv", ours=True)
    except (OSError, ValueError):
        return []
    found = []
    for row in range(min(len(costs.tasks), 200)):
        values = {name: float(column[row]) for name, column in costs.columns.items()}
        found.append({name: None if math.isnan(v) else v for name, v in values.items()})
    return found
