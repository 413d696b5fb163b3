"""per_example/: which examples were right at each evaluation, one pair of files a task."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ..metrics import PerExample
from .io.arrays import MAX_EXAMPLES, load_ids
from .io.files import InputError, open_regular, read_json
from .points import FULL

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from ..metrics import Stream
    from .points import Points

__all__ = [
    "check_per_example",
    "check_whole_sets",
    "per_example_at_ends",
    "read_per_example",
    "read_whole_sets",
]

PIECE = 1 << 16  # records


def read_per_example(folder: Path, tasks: Sequence[str]) -> tuple[dict[str, PerExample], list[str]]:
    """Return the hits of each task, memory-mapped, and warnings about records cut off.

    `k.bin` holds the evaluations of task number k on a fixed subset, `k.npy` its examples' ids.
    Numbers count the names in `tasks.json` or, where there is none, in `tasks`, all that were
    tested.
    """
    return _read(folder, tasks, "")


def read_whole_sets(folder: Path, tasks: Sequence[str]) -> tuple[dict[str, PerExample], list[str]]:
    """Return the same for whole evaluation sets: `k.full.bin` and `k.full.npy`.

    A subset that is the whole set has no such files, or they hold only what it lacks.
    """
    return _read(folder, tasks, ".full")


def _read(folder: Path, tasks: Sequence[str], kind: str) -> tuple[dict[str, PerExample], list[str]]:
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder, expected one with 0.bin, 0.npy, …")
    found, warnings = {}, []
    paths = sorted(folder.glob("*.bin"))
    if not paths:
        raise InputError(
            f"{folder}: no per-example results, expected 0.bin and 0.npy for the first task"
        )
    names = _names(folder / "tasks.json") or tasks
    examples = 0
    for path in paths:
        number, _, rest = path.stem.partition(".")
        if not number.isdecimal() or int(number) >= len(names) or rest not in ("", "full"):
            raise InputError(f"{path}: expected a task's number from 0 to {len(names) - 1}")
        if path.stem != number + kind:
            continue
        hits, cut_off = _read_task(path)
        if cut_off:
            warnings.append(f"{path}: the last record is cut off and was left out")
        examples += hits.examples
        if examples > MAX_EXAMPLES:
            raise InputError(f"{folder}: more than {MAX_EXAMPLES} examples in all, expected fewer")
        name = names[int(number)]
        if len(hits) and name in tasks:  # a writer may have stopped between hits and points
            found[name] = hits
    return found, warnings


def check_per_example(hits: dict[str, PerExample], stream: Stream, folder: Path) -> None:
    """Raise InputError if hits and recorded scores are not of the same evaluations.

    `stream` must hold every probe.
    """
    for task, mine in hits.items():
        _check(task, mine, *stream.tasks[task], stream.sizes.get(task), folder)


def check_whole_sets(hits: dict[str, PerExample], points: Points, folder: Path) -> None:
    """Raise InputError if hits of whole sets and their recorded scores are not the same."""
    by_task = dict(zip(points.names, points.by_task(points.kind == FULL), strict=True))
    for task, mine in hits.items():
        rows = by_task[task]
        n = points.n[rows]
        size = int(n.min()) if len(n) and n.min() > 0 else None
        _check(task, mine, points.step[rows], points.score[rows], size, folder)


def _check(
    task: str,
    mine: PerExample,
    steps: NDArray[np.int64],
    scores: NDArray[np.float64],
    n: int | None,
    folder: Path,
) -> None:
    if n not in (None, mine.examples):
        raise InputError(
            f"{folder}: task {task!r} has results of {mine.examples} examples, the points say "
            f"{n}: per-example results of another run?"
        )
    common, at_hits, at_scores = np.intersect1d(mine.steps, steps, return_indices=True)
    right = mine.accuracy()[at_hits]
    differ = np.abs(right - scores[at_scores]) > _tolerance(mine)
    if differ.any():
        k = int(np.argmax(differ))
        raise InputError(
            f"{folder}: task {task!r} at step {common[k]} has {right[k]:.4f} right, the points "
            f"say {scores[at_scores][k]:.4f}: per-example results of another run?"
        )


def _tolerance(hits: PerExample) -> float:
    return 0.5 / hits.examples + 1e-6  # scores may be rounded


def per_example_at_ends(
    points: Points, hits: dict[str, PerExample], whole: dict[str, PerExample]
) -> tuple[dict[str, PerExample], str | None]:
    """Return the hits behind the matrix of `points`, with its rows as steps, and what is missing.

    Each entry is looked for where its own evaluation was recorded, and the entries of one task
    must be of the same examples.
    """
    tasks = list(dict.fromkeys(task for task, _ in points.spans()))
    found: dict[str, PerExample] = {}
    missing = None
    rows = points.matrix_rows(len(tasks))
    ends = np.searchsorted(points.tested[rows], np.arange(1, len(tasks)))
    for j, column in enumerate(np.split(rows, ends)):
        mine: list[tuple[int, PerExample]] = []
        for row, i in zip(column.tolist(), points.trained[column].tolist(), strict=True):
            one = _evaluation(points, row, hits.get(tasks[j]), whole.get(tasks[j]))
            if one is None:
                missing = missing or (
                    f"it is not recorded which examples of {tasks[j]!r} were right at the end of "
                    f"{tasks[i]!r}"
                )
            elif mine and not np.array_equal(one.ids, mine[0][1].ids):  # type: ignore[arg-type]
                missing = missing or f"{tasks[j]!r} is not tested on the same examples each time"
                mine = []
                break
            else:
                mine.append((i, one))
        if mine:
            steps = np.array([i for i, _ in mine])
            packed = np.concatenate([one.packed for _, one in mine])
            found[tasks[j]] = replace(mine[0][1], steps=steps, packed=packed)
    return found, missing


def _evaluation(
    points: Points, row: int, hits: PerExample | None, whole: PerExample | None
) -> PerExample | None:
    """Return the hits of one of the points; None where they are not recorded."""
    for mine in (whole, hits) if points.kind[row] == FULL else (hits,):
        if mine is None or points.n[row] not in (0, mine.examples):
            continue
        one = mine.at(points.step[row : row + 1])
        if len(one) and abs(one.accuracy()[0] - points.score[row]) <= _tolerance(mine):
            return one
    return None


def _names(path: Path) -> list[str] | None:
    try:
        names = read_json(path)
    except FileNotFoundError:
        return None
    if not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise InputError(f"{path}: expected a list of task names")
    return names


def _read_task(path: Path) -> tuple[PerExample, bool]:
    ids = load_ids(path.with_suffix(".npy"))
    if ids.ndim != 1 or not len(ids) or not np.issubdtype(ids.dtype, np.integer):
        raise InputError(f"{path.with_suffix('.npy')}: expected the ids of the examples")
    ids = ids.astype(np.int64)
    record = np.dtype([("step", "<i8"), ("bits", "u1", (-(-len(ids) // 8),))])
    with open_regular(path) as file:
        count, rest = divmod(os.fstat(file.fileno()).st_size, record.itemsize)
        if not count:
            packed = np.empty((0, record["bits"].shape[0]), np.uint8)
            return PerExample(np.empty(0, np.int64), packed, len(ids)), bool(rest)
        table = np.memmap(file, dtype=record, mode="r", shape=(count,))
    return PerExample(_steps(table["step"], path), table["bits"], len(ids), ids), bool(rest)


def _steps(mapped: NDArray[np.int64], path: Path) -> NDArray[np.int64]:
    """Return the steps of the records, or raise unless they count on.

    Piece by piece: a file may have a hole of gigabytes, and then the first piece shows it.
    """
    for start in range(0, len(mapped), PIECE):
        piece = mapped[max(start - 1, 0) : start + PIECE]
        back = np.flatnonzero(np.diff(piece) <= 0)
        if len(back):
            before, step = piece[back[0]], piece[back[0] + 1]
            at = max(start - 1, 0) + int(back[0]) + 1
            raise InputError(f"{path} record {at}: step {step} does not follow {before}")
    return np.array(mapped, dtype=np.int64)
