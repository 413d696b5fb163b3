"""hits/: which examples were right at each evaluation, one pair of files a task."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from ..metrics import Hits
from ._arrays import load_npy
from ._text import BadInput, read_limited

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ..metrics import Stream

__all__ = ["check_hits", "read_hits"]


def read_hits(folder: Path, tasks: Sequence[str]) -> tuple[dict[str, Hits], list[str]]:
    """Return the hits of each task, memory-mapped, and warnings about records cut off.

    `k.bin` holds the evaluations of task number k, `k.npy` its examples' indices. Numbers count
    the names in `tasks.json` or, where there is none, in `tasks`, all that were tested.
    """
    if not folder.is_dir():
        raise BadInput(f"{folder}: no such folder, expected one with 0.bin, 0.npy, …")
    found, warnings = {}, []
    paths = sorted(folder.glob("*.bin"))
    if not paths:
        raise BadInput(f"{folder}: no hits, expected 0.bin and 0.npy for the first task")
    names = _names(folder / "tasks.json") or tasks
    for path in paths:
        if not path.stem.isdecimal() or int(path.stem) >= len(names):
            raise BadInput(f"{path}: expected a task's number from 0 to {len(names) - 1}")
        hits, cut_off = _read_task(path)
        if cut_off:
            warnings.append(f"{path}: the last record is cut off and was left out")
        name = names[int(path.stem)]
        if len(hits) and name in tasks:  # a writer may have stopped between hits and points
            found[name] = hits
    return found, warnings


def check_hits(hits: dict[str, Hits], stream: Stream, folder: Path) -> None:
    """Raise BadInput if hits and recorded scores are not of the same evaluations.

    `stream` must hold every probe: a whole set at a task's end has no hits.
    """
    for task, mine in hits.items():
        steps, scores = stream.tasks[task]
        n = stream.sizes.get(task, mine.examples)
        if n != mine.examples:
            raise BadInput(
                f"{folder}: task {task!r} has hits of {mine.examples} examples, the points say "
                f"{n}: hits of another run?"
            )
        common, at_hits, at_scores = np.intersect1d(mine.steps, steps, return_indices=True)
        right = mine.accuracy()[at_hits]
        differ = np.abs(right - scores[at_scores]) > 0.5 / mine.examples + 1e-6
        if differ.any():
            k = int(np.argmax(differ))
            raise BadInput(
                f"{folder}: task {task!r} at step {common[k]} has {right[k]:.4f} right, the points "
                f"say {scores[at_scores][k]:.4f}: hits of another run?"
            )


def _names(path: Path) -> list[str] | None:
    try:
        with path.open("rb") as file:
            names = json.loads(read_limited(file, str(path), 16 << 20))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise BadInput(f"{path}: {error}, expected a list of task names") from None
    if not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise BadInput(f"{path}: expected a list of task names")
    return names


def _read_task(path: Path) -> tuple[Hits, bool]:
    indices = load_npy(path.with_suffix(".npy"))
    if indices.ndim != 1 or not len(indices) or not np.issubdtype(indices.dtype, np.integer):
        raise BadInput(f"{path.with_suffix('.npy')}: expected the indices of the examples")
    record = np.dtype([("step", "<i8"), ("bits", "u1", (-(-len(indices) // 8),))])
    size = path.stat().st_size
    count, rest = divmod(size, record.itemsize)
    if not count:
        return Hits(np.empty(0, np.int64), np.empty((0, record["bits"].shape[0]), np.uint8),
                    len(indices)), bool(rest)  # fmt: skip
    table = np.memmap(path, dtype=record, mode="r", shape=(count,))
    steps = np.array(table["step"], dtype=np.int64)
    if (np.diff(steps) <= 0).any():
        at = int(np.argmax(np.diff(steps) <= 0)) + 1
        raise BadInput(f"{path} record {at}: step {steps[at]} does not follow {steps[at - 1]}")
    return Hits(steps, table["bits"], len(indices)), bool(rest)
