"""Details of a run: its config in short lines of text, and its costs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ...record import RunMetadata, read_costs
from .list_row import MAX_TEXT, escape_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ...record import JSON, RunFolder

__all__ = ["list_details", "read_details", "read_task_costs"]

MAX_COSTS = 4 << 20
MAX_LINES = 40
MAX_TASKS = 200
GROUPS = ("options", "optimizer_options", "model_options")
FIELDS = (
    "scenario", "setting", "strategy", "options", "model", "model_options", "optimizer",
    "optimizer_options", "seed", "epochs", "iterations", "batch", "every", "subset", "device",
    "threads",
)  # fmt: skip


def read_details(run: RunFolder) -> list[tuple[str, str]]:
    """Return the details in run.json; none if it cannot be read."""
    try:
        return list_details(run.metadata())
    except (OSError, ValueError, RecursionError):
        return []


def list_details(metadata: RunMetadata) -> list[tuple[str, str]]:
    """Return the details of a run, one name and value per line.

    Example:
        >>> config = {"strategy": "gem", "options": {"memory": 400}, "epochs": None}
        >>> list_details(RunMetadata(config))
        [('strategy', 'gem'), ('memory', '400')]
    """
    lines = list(_list_config(metadata.config))
    if metadata.created:
        lines.append(("started", metadata.created))
    if metadata.versions:
        named = [f"{k} {v}" for k, v in metadata.versions.items() if isinstance(v, str)]
        lines.append(("versions", ", ".join(named[:8])))
    return [
        (escape_name(name)[:80], escape_name(value)[:MAX_TEXT]) for name, value in lines[:MAX_LINES]
    ]


def _list_config(config: Mapping[str, JSON]) -> Iterator[tuple[str, str]]:
    for name in FIELDS:
        value = config.get(name)
        if name in GROUPS and isinstance(value, dict):
            yield from ((str(k), _format(v)) for k, v in list(value.items())[:MAX_LINES])
        elif isinstance(value, str | int | float):
            yield name, _format(value)


def _format(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(str(item) for item in value[:20] if isinstance(item, str | int | float))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value) if isinstance(value, str | int | float) else "…"


def read_task_costs(run: RunFolder) -> list[dict[str, float | None]]:
    """Return the costs of each finished task, in order; none if they cannot be read."""
    try:
        costs, _ = read_costs(run.read_costs_text(MAX_COSTS), "costs.csv", ours=True)
    except (OSError, ValueError):
        return []
    rows = []
    for row in range(min(len(costs.tasks), MAX_TASKS)):
        values = {name: float(column[row]) for name, column in costs.columns.items()}
        rows.append({name: None if math.isnan(v) else v for name, v in values.items()})
    return rows
