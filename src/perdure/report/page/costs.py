"""What runs cost, as a table: time, operations, memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...record import ScoreInput
    from ..load import RunsByMethod

__all__ = ["make_costs_table"]

# Title, divisor, and how the tasks of a run come together.
COSTS: dict[str, tuple[str, float, Callable[[Any], float]]] = {
    "seconds_train": ("training, s", 1.0, np.sum),
    "seconds_eval": ("testing, s", 1.0, np.sum),
    "flops_train": ("training, TFLOP", 1e12, np.sum),
    "peak_bytes": ("peak memory, MB", 1e6, np.max),
    "model_bytes": ("model, MB", 1e6, np.max),
    "stored_bytes": ("stored data, MB", 1e6, np.max),
}


def make_costs_table(methods: RunsByMethod) -> dict[str, Any] | None:
    """Return header and rows, a method each, means over its runs; None where nothing is known.

    Example:
        >>> make_costs_table({"mine": []}) is None
        True
    """
    found = {name: {c: _cost(runs, c) for c in COSTS} for name, runs in methods.items()}
    known = [c for c in COSTS if any(mine[c] is not None for mine in found.values())]
    rows = [
        [name, *("" if (v := mine[c]) is None else f"{v:.3g}" for c in known)]
        for name, mine in found.items()
    ]
    return {"header": ["method", *(COSTS[c][0] for c in known)], "rows": rows} if known else None


def _cost(runs: Sequence[ScoreInput], name: str) -> float | None:
    """Return the mean over runs of what the tasks of a run cost together, None where unknown."""
    _, unit, whole = COSTS[name]
    each = [run.costs.columns.get(name) for run in runs if run.costs is not None]
    if not each or any(column is None or np.isnan(column).any() for column in each):
        return None
    return float(np.mean([whole(column) for column in each])) / unit
