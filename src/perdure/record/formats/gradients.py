"""gradients.csv: L2 norms of the gradients of the two terms of the loss, at some steps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from ..io.text import ColumnSpec, as_text, read_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["Gradients", "read_gradients"]


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
