"""Tables of a run that not every run has: confusion.csv, costs.csv and gradients.csv."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from ...metrics import Costs
from ..io.files import InputError
from ..io.text import ColumnSpec, as_text, csv_field, read_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

__all__ = [
    "COST_COLUMNS",
    "Confusion",
    "Gradients",
    "format_counts",
    "read_confusion",
    "read_costs",
    "read_gradients",
]

MAX_COST = 1e100  # sums and products of larger numbers could overflow
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


@dataclass(frozen=True, eq=False)
class Confusion:
    """Counts of examples of `tested` by label and predicted class, after learning `trained`."""

    step: NDArray[np.int64]
    trained: tuple[str, ...]
    tested: tuple[str, ...]
    label: NDArray[np.int64]
    predicted: NDArray[np.int64]
    count: NDArray[np.int64]


def format_counts(
    step: int, trained: str | None, pairs: Mapping[str, NDArray[np.generic]]
) -> list[str]:
    """Return lines that count (2, examples) labels and predicted classes, by tested task.

    Example:
        >>> format_counts(9, "a", {"b": np.array([[0, 0, 1], [0, 0, 0]])})
        ['9,a,b,0,0,2', '9,a,b,1,0,1']
    """
    lines = []
    for name, examples in pairs.items():
        start = f"{step},{csv_field(trained or '')},{csv_field(name)}"
        counts = Counter(zip(*examples.tolist(), strict=True))  # faster than np.unique of pairs
        lines += [f"{start},{label},{guess},{n}" for (label, guess), n in sorted(counts.items())]
    return lines


def read_confusion(text: str, source: str) -> Confusion:
    r"""Return the counts in the text of a confusion.csv; a truncated last line is dropped.

    Example:
        >>> text = "step,trained,tested,label,predicted,count\n9,a,a,0,1,5\n"
        >>> read_confusion(text, "confusion.csv").count
        array([5])
    """
    name = ColumnSpec("the name of a task", partial(np.array, dtype=object), required=True)
    number = ColumnSpec("a whole number of at most 18 digits", _parse_numbers, required=True)
    columns = ("step", "trained", "tested", "label", "predicted", "count")
    spec = {column: name if column in ("trained", "tested") else number for column in columns}
    table = read_table(text, source, spec, ours=True).columns
    step, label, predicted, count = (
        table[column].astype(np.int64) for column in ("step", "label", "predicted", "count")
    )
    trained, tested = (tuple(map(str, table[column])) for column in ("trained", "tested"))
    return Confusion(step, trained, tested, label, predicted, count)


def _parse_numbers(values: Sequence[str]) -> NDArray[np.int64]:
    # A label may be negative, as one that marks examples to ignore.
    digits = [value.strip().removeprefix("-") for value in values]
    if not all(d.isdecimal() and len(d) <= 18 for d in digits):
        raise ValueError
    return as_text(values).astype(np.int64)


def read_costs(text: str, source: str, *, ours: bool = False) -> tuple[Costs, str | None]:
    r"""Return the costs in the text of a costs.csv, and a warning if its last line was cut off.

    Example:
        >>> costs, _ = read_costs("task,model_bytes\na,100\nb,200\n", "costs.csv")
        >>> costs.column("model_bytes")
        array([100., 200.])
    """
    spec = {"task": ColumnSpec("the name of a task", _parse_names, required=True)}
    spec |= {
        name: ColumnSpec(f"a number from 0 to {MAX_COST:g}, or nothing", _parse_costs)
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
    if not ((costs[given] >= 0) & (costs[given] <= MAX_COST)).all():
        raise ValueError
    return costs


@dataclass(frozen=True, eq=False)
class Gradients:
    """Gradient norms of the two terms of the loss; NaN where there is no term, "" for no task."""

    step: NDArray[np.int64]
    trained: tuple[str, ...]
    plasticity: NDArray[np.float64]
    stability: NDArray[np.float64]


def read_gradients(text: str, source: str) -> tuple[Gradients, str | None]:
    r"""Return the norms in the text of a gradients.csv, and a warning if it is truncated.

    Example:
        >>> norms, _ = read_gradients("step,trained,plasticity,stability\n1,a,0.5,\n", "g.csv")
        >>> norms.plasticity, norms.stability
        (array([0.5]), array([nan]))
    """
    norm = ColumnSpec("a norm, or nothing", _parse_norms, required=True)
    spec = {
        "step": ColumnSpec("a whole number of iterations", _parse_steps, required=True),
        "trained": ColumnSpec("the name of a task", partial(np.array, dtype=object)),
        "plasticity": norm,
        "stability": norm,
    }
    table = read_table(text, source, spec, ours=True)
    steps = table.columns["step"].astype(np.int64)
    trained = table.columns.get("trained", np.full(len(steps), ""))
    norms = (table.columns[name].astype(np.float64) for name in ("plasticity", "stability"))
    return Gradients(steps, tuple(str(task) for task in trained), *norms), table.warning


def _parse_steps(values: Sequence[str]) -> NDArray[np.int64]:
    if not all(value.strip().isdecimal() for value in values):
        raise ValueError
    return as_text(values).astype(np.int64)


def _parse_norms(values: Sequence[str]) -> NDArray[np.float64]:
    norms = as_text([value.strip() or "nan" for value in values]).astype(np.float64)
    if "_" in "".join(values) or (norms < 0).any():  # infinite where training diverged
        raise ValueError
    return norms
