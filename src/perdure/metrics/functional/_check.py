"""What a legal array of scores is, for every function that takes plain arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NoReturn

import numpy as np

from ._value import UndefinedMetricError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import ArrayLike, NDArray

Region = Literal["lower", "below", "upper", "all"]

BLOCK = 1 << 20  # entries that are looked at together


def square(matrix: ArrayLike) -> NDArray[np.float64]:
    """Return `matrix` as a float array to read, or raise if it is not a finite square of numbers.

    It may be the caller's own array: metrics never write to their input.
    """
    try:
        r = np.asarray(matrix, dtype=np.float64)
    except ValueError:
        raise ValueError(
            "score matrix must be rows of numbers of equal length; NaN for what was not measured"
        ) from None
    if r.ndim != 2 or r.shape[0] != r.shape[1] or len(r) == 0:
        raise ValueError(f"score matrix must be square, got shape {r.shape}")
    for some in row_blocks(len(r)):
        if np.isinf(r[some]).any():
            i, j = np.argwhere(np.isinf(r))[0]
            raise ValueError(
                f"score on task {j} after task {i} is {r[i, j]}, expected a finite number"
            )
    return r


def row_blocks(tasks: int) -> Iterator[slice]:
    """Yield the rows of a matrix in blocks: what is made of them then needs no second matrix."""
    rows = max(1, BLOCK // tasks)
    return (slice(start, start + rows) for start in range(0, tasks, rows))


def read(
    matrix: ArrayLike, region: Region, *, min_tasks: int = 1, old: bool = False, later: bool = False
) -> NDArray[np.float64]:
    """Return a copy of `matrix` with NaN outside `region`, so that nothing else can be read.

    With `old`, the last task's column is outside too; with `later`, the first row. Raises
    UndefinedMetricError if an entry inside was never measured or there are too few tasks.
    """
    r = _of_tasks(matrix, min_tasks)
    copy = np.empty_like(r)
    task = np.arange(len(r))
    for some in row_blocks(len(r)):  # what is missing is mostly missing early
        after = task[some, None]
        inside = {
            "lower": task <= after, "below": task < after, "upper": task > after,
            "all": task >= 0 * after,
        }[region]  # fmt: skip
        inside[:, -1] &= not old
        inside[0] &= not (later and some.start == 0)
        missing = np.argwhere(inside & np.isnan(r[some]))
        if len(missing):
            _unmeasured(some.start + missing[0, 0], missing[0, 1])
        copy[some] = np.where(inside, r[some], np.nan)
    return copy


def read_final(matrix: ArrayLike, *, old: bool = False) -> NDArray[np.float64]:
    """Return the last row: the score on every task in the end, without the last task if `old`."""
    r = _of_tasks(matrix, 1 + old)
    return _entries(r, len(r) - 1, np.arange(len(r) - old))


def read_diagonal(
    matrix: ArrayLike, *, old: bool = False, later: bool = False, min_tasks: int = 1
) -> NDArray[np.float64]:
    """Return the score on each task when learned, without the last one or the first one."""
    r = _of_tasks(matrix, min_tasks)
    tasks = np.arange(later, len(r) - old)
    return _entries(r, tasks, tasks)


def read_next(matrix: ArrayLike) -> NDArray[np.float64]:
    """Return the score on each task but the first just before it is learned."""
    r = _of_tasks(matrix, 2)
    tasks = np.arange(1, len(r))
    return _entries(r, tasks - 1, tasks)


def read_first(matrix: ArrayLike) -> NDArray[np.float64]:
    """Return the score on the first task after each later one."""
    r = _of_tasks(matrix, 2)
    return _entries(r, np.arange(1, len(r)), 0)


def _of_tasks(matrix: ArrayLike, count: int) -> NDArray[np.float64]:
    r = square(matrix)
    if len(r) < count:
        raise UndefinedMetricError(f"needs at least {count} tasks, got {len(r)}")
    return r


def _entries(
    r: NDArray[np.float64], after: int | NDArray[np.intp], task: int | NDArray[np.intp]
) -> NDArray[np.float64]:
    """Return the scores on tasks after tasks, or raise UndefinedMetricError if one is missing."""
    scores: NDArray[np.float64] = r[after, task]
    missing = np.flatnonzero(np.isnan(scores))
    if len(missing):
        _unmeasured(*(np.broadcast_to(each, scores.shape)[missing[0]] for each in (after, task)))
    return scores


def _unmeasured(i: int, j: int) -> NoReturn:
    raise UndefinedMetricError(
        f"needs the score on task {j} after task {i}, which was not measured"
    )


def vector(
    values: ArrayLike, tasks: int, what: str, *, first: int = 0, until: int | None = None
) -> NDArray[np.float64]:
    """Return `values` as a float array of one entry a task; `first` to `until` are needed."""
    v = np.array(values, dtype=np.float64)
    if v.shape != (tasks,):
        raise ValueError(f"{what} is needed for each of {tasks} tasks, got {_count(v)}")
    if np.isinf(v).any():
        at = int(np.argmax(np.isinf(v)))
        raise ValueError(f"{what} of task {at} is {v[at]}, expected a finite number")
    missing = np.flatnonzero(np.isnan(v[first:until]))
    if len(missing):
        raise UndefinedMetricError(
            f"needs the {what} of task {missing[0] + first}, which was not measured"
        )
    return v


def class_counts(classes: ArrayLike, tasks: int) -> NDArray[np.float64]:
    """Return how many classes each task brings, or raise if they are not whole numbers >= 1."""
    return counts(classes, tasks, "class count")


def counts(values: ArrayLike, tasks: int, what: str) -> NDArray[np.float64]:
    """Return one whole number of at least 1 a task, or raise naming the first that is not."""
    given = np.array(values, dtype=np.float64)
    c = vector(np.where(np.isnan(given), 0.0, given), tasks, what)
    wrong = np.flatnonzero((c < 1) | (c != np.floor(c)))
    if len(wrong):
        at = wrong[0]
        raise ValueError(
            f"{what} of task {at} is {given[at]:g}, expected a whole number of at least 1"
        )
    return c


def _count(v: NDArray[np.float64]) -> str:
    return str(len(v)) if v.ndim == 1 else f"shape {v.shape}"


def unit(r: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return `r`, or raise UndefinedMetricError if a score lies outside [0, 1]."""
    outside = (r < 0) | (r > 1)
    if outside.any():
        raise UndefinedMetricError(f"is defined for accuracies from 0 to 1, got {r[outside][0]}")
    return r
