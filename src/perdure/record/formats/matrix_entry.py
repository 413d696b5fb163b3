"""One score matrix of a source that may hold several, and what the source says about it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple, Required

from ..points import MatrixFields

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

__all__ = ["MAX_MATRICES", "MatrixEntry", "MatrixFile", "parse_seed"]

MAX_MATRICES = 10_000  # in one source
SEED_NAME = re.compile(r"(?:(?:seed|run|s)[ _-]?)?(\d{1,18})", re.IGNORECASE)


class MatrixFile(MatrixFields, total=False):
    """What a source states about one matrix."""

    matrix: Required[NDArray[np.float64]]
    tasks: Sequence[str]


class MatrixEntry(NamedTuple):
    """One matrix of a source: its fields, and whose it is.

    `part` names it among several, for errors; `row_tasks` are the names of the tasks if rows turn
    out to be the evaluated tasks; `percent` says that every score has a percent sign, `oriented`
    that the source says which tasks were trained.
    """

    fields: MatrixFile
    method: str | None = None
    seed: int | str | None = None
    part: str = ""
    row_tasks: Sequence[str] = ()
    percent: bool = False
    oriented: bool = False
    notes: tuple[str, ...] = ()


def parse_seed(name: object) -> int | None:
    """Return the number of a seed, as in 3, "3" or "seed 3"; None for the name of a method.

    Example:
        >>> parse_seed("seed 3"), parse_seed("ewc")
        (3, None)
    """
    match = SEED_NAME.fullmatch(str(name).strip())
    return int(match[1]) if match else None
