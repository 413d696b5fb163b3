"""What all metrics share: the values that they return, and checks of the arrays that they take."""

from __future__ import annotations

from collections.abc import Sized
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NoReturn, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import ArrayLike, NDArray

__all__ = ["UndefinedMetricError", "Value"]

Entry = TypeVar("Entry")
Region = Literal["lower", "below", "upper", "all"]
BLOCK_ENTRIES = 1 << 20  # entries of a matrix that are processed together
MAX_CACHED_TASKS = 64  # masks of larger matrices are not cached; these take 4 kB each at most
UNTRAINED = "untrained model's score"


class UndefinedMetricError(ValueError):
    """Raised by a metric that the data does not support; the message is the reason.

    `entry` is the row and column of a score that was not measured, if that is the reason; `task` is
    the task that the reason calls "task 3", which may have a name.
    """

    def __init__(
        self, reason: str, entry: tuple[int, int] | None = None, *, task: int | None = None
    ) -> None:
        super().__init__(reason)
        self.entry, self.task = entry, task


class Value(float):
    """The number of a metric, with the same quantity for each task in `per_task`.

    `per_task[j]` belongs to task j; it is NaN for a task that is not part of the metric. `curve` is
    the value after each task, where computing it costs nothing extra.

    Example:
        >>> value = Value(0.5, [0.4, 0.6])
        >>> value, value.per_task
        (0.5, array([0.4, 0.6]))
    """

    per_task: NDArray[np.float64]
    curve: NDArray[np.float64] | None

    def __new__(
        cls,
        value: float,
        per_task: NDArray[np.float64] | list[float],
        curve: NDArray[np.float64] | None = None,
    ) -> Value:
        """Return a number with its values per task and, if known, its curve."""
        self = super().__new__(cls, value)
        self.per_task = np.asarray(per_task, dtype=np.float64)
        self.curve = curve
        return self

    def __reduce__(self) -> tuple[type[Value], tuple[object, ...]]:
        return Value, (float(self), self.per_task, self.curve)


def average(terms: NDArray[np.float64], weights: NDArray[np.float64] | None = None) -> Value:
    """Return the mean of all `terms` that are not NaN, with the mean of each column.

    `terms` is (T,) with one entry per task, or (T, T) with one column per task.
    """
    measured = ~np.isnan(terms)
    used = terms[measured]
    mean = used.mean() if weights is None else np.average(used, weights=weights[measured])
    if terms.ndim == 1:
        return Value(mean, terms)
    total = np.where(measured, terms, 0.0).sum(axis=0)
    return Value(mean, divide(total, measured.sum(axis=0)))


def divide(
    total: NDArray[np.float64], count: NDArray[np.float64] | NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return `total / count`, NaN where the count is 0."""
    result: NDArray[np.float64] = np.full(total.shape, np.nan)
    np.divide(total, count, out=result, where=count > 0)
    return result


def pad_tasks(terms: NDArray[np.float64], tasks: int, *, first: int = 0) -> NDArray[np.float64]:
    """Return `terms` with one entry per task, the first for task `first` and NaN for others."""
    full = np.full(tasks, np.nan)
    full[first : first + len(terms)] = terms
    return full


def square(matrix: ArrayLike) -> NDArray[np.float64]:
    """Return `matrix` as a float array, or raise if it is not square or has infinite entries.

    Rows of growing length are the lower triangle of a matrix. The result may be the caller's own
    array: metrics never write to their input.
    """
    if isinstance(matrix, list | tuple) and is_triangle(matrix):
        matrix = fill_triangle(matrix, np.nan)
    try:
        r = np.asarray(matrix, dtype=np.float64)
    except ValueError:
        raise ValueError(
            "score matrix must have rows of numbers of equal length, NaN where not measured, or of "
            "lengths 1, 2, 3, … (a lower triangle)"
        ) from None
    if r.ndim != 2 or r.shape[0] != r.shape[1] or len(r) == 0:
        raise ValueError(
            f"score matrix must be square, got shape {r.shape}; expected a row and column per task"
        )
    for rows in row_blocks(len(r)):
        if np.isinf(r[rows]).any():
            i, j = np.argwhere(np.isinf(r))[0]
            raise ValueError(
                f"score on task {j} after task {i} is {r[i, j]}, expected a finite number"
            )
    return r


def is_triangle(rows: Sequence[object]) -> bool:
    """Return whether rows have the lengths 1, 2, 3, …: the lower triangle of a matrix.

    Example:
        >>> is_triangle([[0.9], [0.6, 0.8]]), is_triangle([[0.9]])
        (True, False)
    """
    return len(rows) > 1 and all(
        isinstance(row, Sized) and not isinstance(row, str) and len(row) == k
        for k, row in enumerate(rows, start=1)
    )


def fill_triangle(rows: Sequence[object], blank: Entry) -> list[list[Entry]]:
    """Return the rows of a lower triangle at full length, with `blank` above the diagonal.

    Example:
        >>> fill_triangle([["0.9"], ["0.6", "0.8"]], "")
        [['0.9', ''], ['0.6', '0.8']]
    """
    return [[*row, *[blank] * (len(rows) - len(row))] for row in rows]  # type: ignore[misc, arg-type]


def row_blocks(tasks: int) -> Iterator[slice]:
    """Return slices of rows that are small enough to need no second matrix in memory."""
    rows = max(1, BLOCK_ENTRIES // tasks)
    return (slice(start, start + rows) for start in range(0, tasks, rows))


def read(
    matrix: ArrayLike, region: Region, *, min_tasks: int = 1, old: bool = False, later: bool = False
) -> NDArray[np.float64]:
    """Return a copy of `matrix` with NaN outside `region`, so that nothing else can be used.

    With `old`, the last column is outside too; with `later`, the first row. Raises
    UndefinedMetricError if an entry inside was never measured or there are too few tasks.
    """
    r = _check_tasks(matrix, min_tasks)
    copy = np.empty_like(r)
    for rows in row_blocks(len(r)):
        make = _cached_mask if len(r) <= MAX_CACHED_TASKS else _make_mask
        inside = make(len(r), rows.start, rows.stop, region, old, later)
        missing = np.argwhere(inside & np.isnan(r[rows]))
        if len(missing):
            _raise_missing(rows.start + missing[0, 0], missing[0, 1])
        copy[rows] = np.where(inside, r[rows], np.nan)
    return copy


def _make_mask(
    tasks: int, start: int, stop: int, region: Region, old: bool, later: bool
) -> NDArray[np.bool_]:
    """Return which entries of the rows from `start` to `stop` are in a region, as in `read`."""
    task = np.arange(tasks)
    after = task[start:stop, None]
    inside = {
        "lower": task <= after, "below": task < after, "upper": task > after,
        "all": task >= 0 * after,
    }[region]  # fmt: skip
    inside[:, -1] &= not old
    inside[0] &= not (later and start == 0)
    return inside


_cached_mask = lru_cache(maxsize=1024)(_make_mask)  # of all runs with as many tasks


def read_final(matrix: ArrayLike, *, old: bool = False) -> NDArray[np.float64]:
    """Return the final scores, without that of the last task if `old`."""
    r = _check_tasks(matrix, 1 + old)
    return _entries(r, len(r) - 1, np.arange(len(r) - old))


def read_diagonal(
    matrix: ArrayLike, *, old: bool = False, later: bool = False, min_tasks: int = 1
) -> NDArray[np.float64]:
    """Return the score on each task when it was learned, without the last (`old`) or first."""
    r = _check_tasks(matrix, min_tasks)
    tasks = np.arange(later, len(r) - old)
    return _entries(r, tasks, tasks)


def read_next(matrix: ArrayLike) -> NDArray[np.float64]:
    """Return the score on each task but the first, just before it is learned."""
    r = _check_tasks(matrix, 2)
    tasks = np.arange(1, len(r))
    return _entries(r, tasks - 1, tasks)


def read_first(matrix: ArrayLike) -> NDArray[np.float64]:
    """Return the score on the first task after each later one."""
    r = _check_tasks(matrix, 2)
    return _entries(r, np.arange(1, len(r)), 0)


def _check_tasks(matrix: ArrayLike, min_tasks: int) -> NDArray[np.float64]:
    r = square(matrix)
    if len(r) < min_tasks:
        raise UndefinedMetricError(f"needs at least {min_tasks} tasks, got {len(r)}")
    return r


def _entries(
    r: NDArray[np.float64], after: int | NDArray[np.intp], task: int | NDArray[np.intp]
) -> NDArray[np.float64]:
    """Return `r[after, task]`, or raise UndefinedMetricError if an entry was not measured."""
    scores: NDArray[np.float64] = r[after, task]
    missing = np.flatnonzero(np.isnan(scores))
    if len(missing):
        _raise_missing(*(np.broadcast_to(x, scores.shape)[missing[0]] for x in (after, task)))
    return scores


def _raise_missing(i: int, j: int) -> NoReturn:
    raise UndefinedMetricError(not_measured(f"task {i}", f"task {j}"), (int(i), int(j)))


def not_measured(after: str, task: str) -> str:
    """Return the reason of a metric that is undefined because a score was not measured."""
    return f"needs the score on {task} after {after}, which was not measured"


def vector(
    values: ArrayLike, tasks: int, name: str, *, first: int = 0, until: int | None = None
) -> NDArray[np.float64]:
    """Return `values` as a float array with one entry per task; `first` to `until` are needed."""
    v = np.array(values, dtype=np.float64)
    if v.shape != (tasks,):
        count = str(len(v)) if v.ndim == 1 else f"shape {v.shape}"
        raise ValueError(f"{name} is needed for each of {tasks} tasks, got {count}")
    if np.isinf(v).any():
        at = int(np.argmax(np.isinf(v)))
        raise ValueError(f"{name} of task {at} is {v[at]}, expected a finite number")
    missing = np.flatnonzero(np.isnan(v[first:until]))
    if len(missing):
        task = int(missing[0]) + first
        missed = (
            ": an `initial` line at step 0 (`unseen=True` records one per task), or `initial=`"
            if name == UNTRAINED
            else ", which was not measured"
        )
        raise UndefinedMetricError(f"needs the {name} on task {task}{missed}", task=task)
    return v


def class_counts(classes: ArrayLike, tasks: int) -> NDArray[np.float64]:
    """Return the number of classes of each task, or raise if they are not counts."""
    return counts(classes, tasks, "class count")


def counts(values: ArrayLike, tasks: int, name: str) -> NDArray[np.float64]:
    """Return one count of at least 1 per task, or raise naming the first that is not."""
    given = np.array(values, dtype=np.float64)
    c = vector(np.where(np.isnan(given), 0.0, given), tasks, name)
    wrong = np.flatnonzero((c < 1) | (c != np.floor(c)))
    if len(wrong):
        at = wrong[0]
        raise ValueError(
            f"{name} of task {at} is {given[at]:g}, expected a whole number of at least 1"
        )
    return c


def check_unit_range(r: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return `r`, or raise UndefinedMetricError if a score lies outside [0, 1]."""
    outside = (r < 0) | (r > 1)
    if outside.any():
        raise UndefinedMetricError(f"is defined for accuracies from 0 to 1, got {r[outside][0]}")
    return r
