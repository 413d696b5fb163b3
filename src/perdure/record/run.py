"""A run folder, opened: everything it holds as arrays."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .gradients_file import Gradients, read_gradients
from .inputs import FAILED, MAX_POINTS, ScoreInput, failure_of, read_input
from .io.files import InputError, read_file, read_json
from .io.text import decode

__all__ = ["FAILED", "Run", "failure_of", "open_run"]


@dataclass
class Run(ScoreInput):
    """What a run folder holds: arrays, costs, per-example results, gradients, description.

    `summary()` gives every metric; `finished` says whether the run has ended.
    """

    folder: Path = Path()
    finished: bool = False
    description: dict[str, Any] = field(default_factory=dict)
    gradients: Gradients | None = None


def open_run(path: str | os.PathLike[str], *, per_example: bool = True) -> Run:
    r"""Return what the run folder at `path` holds, also while it is being written.

    Without `per_example`, the per-example results are not read: only the intervals of a single
    run need them.

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
        raise InputError(f"{folder}: no such folder, expected a run with a points.csv in it")
    finished = (folder / "done.json").exists()  # asked first: a writer goes on
    found = read_input(str(folder), per_example=None if per_example else False)
    return Run(
        **vars(found),
        folder=folder,
        finished=finished,
        description=_description(folder / "run.json"),
        gradients=_gradients(folder / "gradients.csv"),
    )


def _description(path: Path) -> dict[str, Any]:
    if not os.path.lexists(path):
        return {}
    said = read_json(path)
    return said if isinstance(said, dict) else {}


def _gradients(path: Path) -> Gradients | None:
    if not os.path.lexists(path):
        return None
    text = decode(read_file(path, MAX_POINTS), str(path), growing=True)
    return read_gradients(text, str(path))[0] if "\n" in text else None  # being begun
