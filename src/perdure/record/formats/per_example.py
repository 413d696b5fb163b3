"""per_example/: which examples were right at each evaluation, one pair of files per task."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ...metrics import PerExample
from ..io.files import MAX_EXAMPLES, InputError, load_ids, open_regular, read_json
from ..io.text import first_few
from ..points import FULL, INITIAL

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from ..points import Points
    from ..score_input import ScoreInput

__all__ = ["add_per_example", "read_per_example", "read_whole_sets"]

CHECKED_RECORDS = 1 << 16  # whose steps are read at a time


def read_per_example(folder: Path, tasks: Sequence[str]) -> tuple[dict[str, PerExample], list[str]]:
    """Return the results of each task, memory-mapped, and warnings about truncated records.

    `k.bin` holds the evaluations of task number k on a fixed subset, `k.npy` the ids of its
    examples. Numbers count the names in `tasks.json` or, without it, in `tasks`: all that were
    evaluated.
    """
    return _read(folder, tasks, "")


def read_whole_sets(folder: Path, tasks: Sequence[str]) -> tuple[dict[str, PerExample], list[str]]:
    """Return the same for whole evaluation sets: `k.full.bin` and `k.full.npy`.

    A subset that is the whole set has no such files, or they hold only what it lacks.
    """
    return _read(folder, tasks, ".full")


def _read(
    folder: Path, tasks: Sequence[str], suffix: str
) -> tuple[dict[str, PerExample], list[str]]:
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder, expected one with 0.bin, 0.npy, …")
    results, warnings = {}, []
    paths = sorted(folder.glob("*.bin"))
    if not paths:
        raise InputError(
            f"{folder}: no per-example results, expected 0.bin and 0.npy for the first task"
        )
    names = _task_names(folder / "tasks.json") or tasks
    examples = 0
    for path in paths:
        number, _, rest = path.stem.partition(".")
        if not number.isdecimal() or int(number) >= len(names) or rest not in ("", "full"):
            raise InputError(f"{path}: expected a task's number from 0 to {len(names) - 1}")
        if path.stem != number + suffix:
            continue
        result, truncated = _read_task(path)
        if truncated:
            warnings.append(f"{path}: the last record is cut off and was left out")
        examples += result.examples
        if examples > MAX_EXAMPLES:
            raise InputError(f"{folder}: more than {MAX_EXAMPLES} examples in all, expected fewer")
        name = names[int(number)]
        if len(result) and name in tasks:  # a writer may have stopped before the points
            results[name] = result
    return results, warnings


def _task_names(path: Path) -> list[str] | None:
    try:
        names = read_json(path)
    except FileNotFoundError:
        return None
    if not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise InputError(f"{path}: expected a list of task names")
    return names


def _read_task(path: Path) -> tuple[PerExample, bool]:
    """Return the results in one file, and whether its last record is truncated."""
    numbers = load_ids(path.with_suffix(".npy"))
    if numbers.ndim != 1 or not len(numbers) or not np.issubdtype(numbers.dtype, np.integer):
        raise InputError(f"{path.with_suffix('.npy')}: expected the ids of the examples")
    ids = numbers.astype(np.int64)
    record = np.dtype([("step", "<i8"), ("bits", "u1", (-(-len(ids) // 8),))])
    with open_regular(path) as file:
        count, rest = divmod(os.fstat(file.fileno()).st_size, record.itemsize)
        if not count:
            no_bits = np.empty((0, record["bits"].shape[0]), np.uint8)
            return PerExample(np.empty(0, np.int64), no_bits, len(ids)), bool(rest)
        table = np.memmap(file, dtype=record, mode="r", shape=(count,))
    return PerExample(_read_steps(table["step"], path), table["bits"], len(ids), ids), bool(rest)


def _read_steps(mapped: NDArray[np.int64], path: Path) -> NDArray[np.int64]:
    """Return the steps of the records, or raise InputError unless they increase.

    In pieces: a file may have a hole of gigabytes, which the first piece already shows.
    """
    for start in range(0, len(mapped), CHECKED_RECORDS):
        piece = mapped[max(start - 1, 0) : start + CHECKED_RECORDS]
        back = np.flatnonzero(np.diff(piece) <= 0)
        if len(back):
            before, step = piece[back[0]], piece[back[0] + 1]
            at = max(start - 1, 0) + int(back[0]) + 1
            raise InputError(f"{path} record {at}: step {step} does not follow {before}")
    return np.array(mapped, dtype=np.int64)


def add_per_example(result: ScoreInput, folder: Path) -> None:
    """Add the per-example results in a folder, or raise InputError if they are of another run."""
    if result.points is None or result.stream is None:
        raise InputError(
            f"{folder}: per-example results belong to evaluations, expected a points.csv"
        )
    names = [*result.stream.names, *result.points.control]
    subsets, warnings = read_per_example(folder, names)
    whole_sets, more = read_whole_sets(folder, names)
    result.notes += warnings + more
    for stream in (result.points.stream(), result.points.stream(control=True)):
        for task in [name for name in subsets if name in stream.tasks]:  # in order
            mine, size = subsets[task], stream.sizes.get(task)
            _check(task, mine, *stream.tasks[task], size, folder)
    _check_whole_sets(whole_sets, result.points, folder)

    def add_data(results: dict[str, PerExample]) -> dict[str, PerExample]:
        prints = result.evaluation_data
        return {task: replace(mine, data=prints.get(task)) for task, mine in results.items()}

    for name, rows in (("last", result.points.last_rows()), ("first", result.points.first_rows())):
        single = {
            task: one
            for task, row in rows.items()
            if (one := _find_evaluation(result.points, row, subsets, whole_sets))
        }
        setattr(result, f"per_example_{name}", add_data(single))
    if result.control is not None:
        results = add_data(_find_control_results(result.points, subsets, whole_sets))
        result.control = replace(result.control, per_example=results)
    subsets = {task: mine for task, mine in subsets.items() if task in result.stream.tasks}
    if result.matrix is not None:
        ends, missing = _find_results_at_ends(result.points, subsets, whole_sets)
        result.per_example_at_ends = add_data(ends)
        if missing:
            result.notes.append(f"not all metrics have an interval from examples: {missing}")
    # The same evaluations as in the stream: fewer of them if it was subsampled or cut.
    tasks = result.stream.tasks
    used = {task: mine.at(tasks[task][0]) for task, mine in subsets.items()}
    # An interval from other evaluations than the estimate might not contain it.
    partial = [
        task
        for task, mine in used.items()
        if len(mine) and np.count_nonzero(tasks[task][0] >= mine.steps[0]) > len(mine)
    ]
    if partial:
        result.notes.append(
            f"no intervals from examples on extremes: some evaluations of {first_few(partial, 3)} "
            "are of whole sets, not of the fixed subset; evaluate at every task's last step as "
            "well (every=1, or a divisor of it)"
        )
        return
    result.per_example = {task: mine for task, mine in used.items() if len(mine)}


def _check_whole_sets(results: dict[str, PerExample], points: Points, folder: Path) -> None:
    whole = (points.kind == FULL) | ((points.kind == INITIAL) & (points.step == 0))
    by_task = dict(zip(points.names, points.by_task(whole), strict=True))
    control = frozenset(points.control)
    for task, mine in results.items():
        rows = by_task[task]
        has_initial = task in control and 0 in mine.steps
        rows = rows if has_initial else rows[points.kind[rows] == FULL]
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
    common, at_results, at_scores = np.intersect1d(mine.steps, steps, return_indices=True)
    accuracy = mine.accuracy()[at_results]
    differ = np.abs(accuracy - scores[at_scores]) > _tolerance(mine)
    if differ.any():
        k = int(np.argmax(differ))
        raise InputError(
            f"{folder}: task {task!r} at step {common[k]} has {accuracy[k]:.4f} right, the points "
            f"say {scores[at_scores][k]:.4f}: per-example results of another run?"
        )


def _tolerance(results: PerExample) -> float:
    return 0.5 / results.examples + 1e-6  # scores may be rounded


def _find_results_at_ends(
    points: Points, subsets: dict[str, PerExample], whole_sets: dict[str, PerExample]
) -> tuple[dict[str, PerExample], str | None]:
    """Return the results behind the matrix, with its rows as steps, and what is missing.

    Each entry is looked for where its own evaluation was recorded, and the entries of one task
    must be of the same examples.
    """
    tasks = list(dict.fromkeys(task for task, _ in points.spans()))
    at_ends: dict[str, PerExample] = {}
    missing = None
    rows = points.matrix_rows(len(tasks))
    ends = np.searchsorted(points.tested[rows], np.arange(1, len(tasks)))
    for task, column in zip(tasks, np.split(rows, ends), strict=True):
        entries: list[tuple[int, PerExample]] = []
        for row, trained in zip(column.tolist(), points.trained[column].tolist(), strict=True):
            entry = _find_evaluation(points, row, subsets, whole_sets)
            if entry is None:
                missing = missing or (
                    f"it is not recorded which examples of {task!r} were right at the end of "
                    f"{tasks[trained]!r}"
                )
            elif entries and not np.array_equal(entry.ids, entries[0][1].ids):  # type: ignore[arg-type]
                missing = missing or f"{task!r} is not tested on the same examples each time"
                entries = []
                break
            else:
                entries.append((trained, entry))
        if entries:
            at_ends[task] = _merge(entries)
    return at_ends, missing


def _merge(entries: Sequence[tuple[int, PerExample]]) -> PerExample:
    steps = np.array([step for step, _ in entries])
    packed = np.concatenate([entry.packed for _, entry in entries])
    return replace(entries[0][1], steps=steps, packed=packed)


def _find_control_results(
    points: Points, subsets: dict[str, PerExample], whole_sets: dict[str, PerExample]
) -> dict[str, PerExample]:
    """Return the results of control tasks, with step 0 before training and k + 1 at end k."""
    results = {}
    for task, rows in zip(points.control, points.control_rows().T.tolist(), strict=True):
        entries = [
            (step, entry)
            for step, row in enumerate(rows)
            if row >= 0 and (entry := _find_evaluation(points, row, subsets, whole_sets))
        ]
        ids = entries[0][1].ids if entries else None
        entries = [one for one in entries if np.array_equal(one[1].ids, ids)]  # type: ignore[arg-type]
        if entries:
            results[task] = _merge(entries)
    return results


def _find_evaluation(
    points: Points, row: int, subsets: dict[str, PerExample], whole_sets: dict[str, PerExample]
) -> PerExample | None:
    """Return the results of one of the points; None where they are not recorded."""
    task, kind = points.names[points.tested[row]], int(points.kind[row])
    for files in {FULL: (whole_sets, subsets), INITIAL: (whole_sets,)}.get(kind, (subsets,)):
        results = files.get(task)
        if results is None or points.n[row] not in (0, results.examples):
            continue
        one = results.at(points.step[row : row + 1])
        if len(one) and abs(one.accuracy()[0] - points.score[row]) <= _tolerance(results):
            return one
    return None
