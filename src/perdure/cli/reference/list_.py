"""`perdure list`: the names of metrics, tools, scenarios, strategies and models."""

from __future__ import annotations

import sys

from cyclopts import App

from ...metrics import METRICS, TOOLS
from ...models import MODELS, describe_model
from ...report.tables import TextTable
from ...report.tables.scores import ARROWS
from ...scenarios import SCENARIOS
from ...strategies import STRATEGIES, STRATEGY_ALIASES
from .._output import print_lines, print_wrapped

__all__ = ["list_app"]

MAX_ALIAS = 12  # characters: longer ones are names written out, as in the column of papers

list_app = App(name="list", help="List metrics, tools, scenarios, strategies and models.")


@list_app.command
def metrics() -> None:
    """List all metrics with their direction, name, input and source."""
    rows = [
        [id_, ARROWS[metric.better], metric.name, metric.input, metric.source]
        for id_, metric in METRICS.items()
    ]
    TextTable(["id", "", "name", "from", "source"], rows).show(sys.stdout)


@list_app.command
def tools() -> None:
    """List the tools and papers that `perdure score --as` imitates, and the names they print."""
    rows = [[tool, ", ".join(row.name for row in rows)] for tool, rows in TOOLS.items()]
    TextTable(["--as", "prints"], rows).show(sys.stdout)


@list_app.command
def scenarios() -> None:
    """List all scenarios with their tasks, setting, datasets and default model."""
    rows = [
        [name, str(spec.tasks), spec.setting, ", ".join(spec.data), spec.defaults.model, spec.about]
        for name, spec in SCENARIOS.items()
    ]
    header = ["scenario", "tasks", "setting", "data", "model", "what it is"]
    TextTable(header, rows, right={"tasks"}).show(sys.stdout)
    print_lines("")
    print_wrapped(
        "your own data: perdure run ./images STRATEGY (or data.npz, data.parquet, module:function)",
        "  ",
    )


@list_app.command
def strategies() -> None:
    """List all strategies with their other names, what they store, and their papers."""
    others: dict[str, list[str]] = {}
    for alias, name in STRATEGY_ALIASES.items():
        if len(alias) <= MAX_ALIAS:
            others.setdefault(name, []).append(alias)
    rows = [
        [name, entry.about, ", ".join(others.get(name, ())), entry.keeps, entry.paper]
        for name, entry in STRATEGIES.items()
    ]
    header = ["strategy", "what it does", "also called", "stores", "paper"]
    TextTable(header, rows).show(sys.stdout)


@list_app.command
def models() -> None:
    """List all models."""
    TextTable(["model", "what it is"], [[name, describe_model(name)] for name in MODELS]).show(
        sys.stdout
    )
