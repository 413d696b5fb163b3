"""A run folder, opened: everything it holds as arrays."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ._text import BadInput, Column, decode, read_limited, read_table
from .source import MAX_POINTS, Source, read_source

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["Gradients", "Run", "open_run"]


@dataclass(frozen=True, eq=False)
class Gradients:
    """L2 norms of the gradients of the two terms of the loss; NaN where there was none."""

    step: NDArray[np.int64]
    trained: tuple[str, ...]
    plasticity: NDArray[np.float64]
    stability: NDArray[np.float64]


@dataclass
class Run(Source):
    """What a run folder holds: `matrix`, `stream`, `costs`, `hits`, `gradients`, `description`.

    `summary()` gives every metric; `finished` says whether the run has ended.
    """

    folder: Path = Path()
    finished: bool = False
    description: dict[str, Any] = field(default_factory=dict)
    gradients: Gradients | None = None


def open_run(path: str | os.PathLike[str]) -> Run:
    r"""Return what the run folder at `path` holds, also while it is being written.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "points.csv").write_text(
        ...     "step,trained,tested,score\n1,a,a,0.5\n2,b,a,0.25\n2,b,b,0.75\n"
        ... )
        >>> open_run(folder).matrix.scores[1]
        array([0.25, 0.75])
    """
    folder = Path(path)
    if not folder.is_dir():
        raise BadInput(f"{folder}: no such folder, expected a run with a points.csv in it")
    found = read_source(str(folder))
    return Run(
        **vars(found),
        folder=folder,
        finished=(folder / "done.json").exists(),
        description=_description(folder / "run.json"),
        gradients=_gradients(folder / "gradients.csv"),
    )


def _description(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    said = json.loads(path.read_bytes())  # read_source has judged it
    return said if isinstance(said, dict) else {}


def _gradients(path: Path) -> Gradients | None:
    if not path.exists():
        return None
    spec = {
        "step": Column("a whole number of iterations", _whole, required=True),
        "trained": Column("the name of a task", np.array),
        "plasticity": Column("a norm, or nothing", _norms, required=True),
        "stability": Column("a norm, or nothing", _norms, required=True),
    }
    with path.open("rb") as file:
        text = decode(read_limited(file, str(path), MAX_POINTS), str(path), growing=True)
    columns = read_table(text, str(path), spec, ours=True).columns
    step = columns["step"].astype(np.int64)
    trained = columns.get("trained", np.full(len(step), ""))
    return Gradients(step, tuple(trained.tolist()), columns["plasticity"], columns["stability"])


def _whole(values: Sequence[str]) -> NDArray[np.int64]:
    steps = np.array(values).astype(np.int64)
    if (steps < 0).any():
        raise ValueError
    return steps


def _norms(values: Sequence[str]) -> NDArray[np.float64]:
    norms = np.array([value.strip() or "nan" for value in values]).astype(np.float64)
    if (norms < 0).any():
        raise ValueError
    return norms
