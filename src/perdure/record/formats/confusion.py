"""confusion.csv: how often each class was predicted for each label, on whole sets at task ends."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from ..io.text import ColumnSpec, as_text, csv_field, read_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

__all__ = ["Confusion", "format_counts", "read_confusion"]


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
