"""costs.csv: one line per task, empty where a cost could not be measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...metrics import Costs
from ..io.files import InputError
from ..io.text import ColumnSpec, as_text, read_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["COST_COLUMNS", "read_costs"]

COST_COLUMNS = (
    "seconds_train",
    "seconds_eval",
    "flops_train",
    "flops_eval",
    "flops_one_pass",
    "peak_bytes",
    "model_bytes",
    "copies_bytes",
    "stored_bytes",
    "data_bytes",
)


def read_costs(text: str, source: str, *, ours: bool = False) -> tuple[Costs, str | None]:
    r"""Return the costs in the text of a costs.csv, and a warning if its last line was cut off.

    Example:
        >>> costs, _ = read_costs("task,model_bytes\na,100\nb,200\n", "costs.csv")
        >>> costs.column("model_bytes")
        array([100., 200.])
    """
    spec = {"task": ColumnSpec("the name of a task", _parse_names, required=True)}
    spec |= {
        name: ColumnSpec("a number of at least 0, or nothing", _parse_costs)
        for name in COST_COLUMNS
    }
    table = read_table(text, source, spec, ours=ours)
    if not table.rows and not ours:  # before its first task has ended, a run has none
        raise InputError(f"{source}: no tasks, expected one line per task under {','.join(spec)}")
    tasks = tuple(table.columns.pop("task").tolist())
    first: dict[str, int] = {}
    for row, task in enumerate(tasks):
        if first.setdefault(task, row) != row:
            raise InputError(f"{table.where(row)}: task {task!r} is there twice, expected once")
    return Costs(tasks, table.columns), table.warning


def _parse_names(values: Sequence[str]) -> NDArray[np.object_]:
    if "" in values:
        raise ValueError
    return np.array(values, dtype=object)  # as text, all would take the space of the longest


def _parse_costs(values: Sequence[str]) -> NDArray[np.float64]:
    costs = as_text([value.strip() or "nan" for value in values]).astype(np.float64)
    given = np.array([bool(value.strip()) for value in values])
    if not (np.isfinite(costs[given]) & (costs[given] >= 0)).all():
        raise ValueError
    return costs
