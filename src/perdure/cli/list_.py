"""`perdure list`: what there is."""

from __future__ import annotations

import sys

from cyclopts import App

from ..metrics import METRICS, TOOLS
from ..report import Grid
from ..report.scores import ARROWS

__all__ = ["list_app"]

list_app = App(name="list", help="List metrics, or the tools whose names are known.")


@list_app.command
def metrics() -> None:
    """List every metric: id, direction, name, what it is computed from, and its source."""
    rows = [
        [id_, ARROWS[metric.better], metric.name, metric.of, metric.source]
        for id_, metric in METRICS.items()
    ]
    Grid(["id", "", "name", "from", "source"], rows).show(sys.stdout)


@list_app.command
def tools() -> None:
    """List the tools and papers that `perdure score --as` knows, with the names they print."""
    rows = [[tool, ", ".join(row.name for row in rows)] for tool, rows in TOOLS.items()]
    Grid(["--as", "prints"], rows).show(sys.stdout)
