"""The table of costs: time, operations and memory of the runs of each method."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from ...record import ScoreInput
    from ..load import RunsByMethod

__all__ = ["CostsTable", "make_costs_table"]

# Title, divisor, and how the values of the tasks of a run are combined.
COSTS: dict[str, tuple[str, float, Callable[[NDArray[np.float64]], float]]] = {
    "seconds_train": ("training, s", 1.0, np.sum),
    "seconds_eval": ("evaluation, s", 1.0, np.sum),
    "flops_train": ("training, TFLOP", 1e12, np.sum),
    "peak_bytes": ("peak memory, MB", 1e6, np.max),
    "model_bytes": ("model, MB", 1e6, np.max),
    "stored_bytes": ("stored data, MB", 1e6, np.max),
}


class CostsTable(NamedTuple):
    """Header and rows of a table."""

    header: list[str]
    rows: list[list[str]]


def make_costs_table(methods: RunsByMethod) -> CostsTable | None:
    """Return one row per method with means over its runs; None if no costs are known.

    Example:
        >>> make_costs_table({"mine": []}) is None
        True
    """
    costs = {name: {c: _mean_cost(runs, c) for c in COSTS} for name, runs in methods.items()}
    known = [c for c in COSTS if any(own[c] is not None for own in costs.values())]
    rows = [
        [name, *("–" if (value := own[c]) is None else f"{value:.3g}" for c in known)]
        for name, own in costs.items()
    ]
    return CostsTable(["method", *(COSTS[c][0] for c in known)], rows) if known else None


def _mean_cost(runs: Sequence[ScoreInput], name: str) -> float | None:
    """Return the mean over runs of the combined cost of a run's tasks; None if unknown."""
    _, unit, combine = COSTS[name]
    columns = [run.costs.columns.get(name) for run in runs if run.costs is not None]
    known = [column for column in columns if column is not None and not np.isnan(column).any()]
    if not known or len(known) < len(columns):
        return None
    return float(np.mean([combine(column) for column in known])) / unit
