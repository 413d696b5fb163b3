"""What a legal array of scores is, for every function that takes plain arrays."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import numpy as np

from ._value import Undefined

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

Region = Literal["final", "first", "diagonal", "lower", "below", "next", "upper", "all"]


@lru_cache(maxsize=32)
def region(name: Region, tasks: int) -> NDArray[np.bool_]:
    """Return which entries of a (tasks, tasks) matrix belong to the named region."""
    lower = np.tri(tasks, dtype=bool)
    below = np.tri(tasks, k=-1, dtype=bool)
    mask = np.zeros((tasks, tasks), dtype=bool)
    if name == "final":
        mask[-1] = True
    elif name == "first":
        mask[1:, 0] = True
    elif name == "diagonal":
        mask = lower & ~below
    elif name == "lower":
        mask = lower
    elif name == "below":
        mask = below
    elif name == "next":
        mask = np.eye(tasks, k=1, dtype=bool)
    elif name == "upper":
        mask = ~lower
    else:
        mask[:] = True
    mask.setflags(write=False)  # shared by all callers
    return mask


def square(matrix: ArrayLike) -> NDArray[np.float64]:
    """Return `matrix` as a new float array, or raise if it is not a finite square of numbers."""
    try:
        r = np.array(matrix, dtype=np.float64)  # a copy: metrics never write to their input
    except ValueError:
        raise ValueError(
            "score matrix must be rows of numbers of equal length; NaN for what was not measured"
        ) from None
    if r.ndim != 2 or r.shape[0] != r.shape[1] or len(r) == 0:
        raise ValueError(f"score matrix must be square, got shape {r.shape}")
    if np.isinf(r).any():
        i, j = np.argwhere(np.isinf(r))[0]
        raise ValueError(f"score on task {j} after task {i} is {r[i, j]}, expected a finite number")
    return r


def read(
    matrix: ArrayLike,
    *regions: Region,
    min_tasks: int = 1,
    old: bool = False,
    later: bool = False,
) -> NDArray[np.float64]:
    """Return a copy of `matrix` with NaN outside `regions`, so that nothing else can be read.

    With `old`, the last task's column is outside too; with `later`, the first row. Raises
    Undefined if an entry inside was never measured or there are too few tasks.
    """
    r = square(matrix)
    if len(r) < min_tasks:
        raise Undefined(f"needs at least {min_tasks} tasks, got {len(r)}")
    wanted = np.logical_or.reduce([region(name, len(r)) for name in regions])
    wanted[:, -1] &= not old
    wanted[0] &= not later
    missing = wanted & np.isnan(r)
    if missing.any():
        i, j = np.argwhere(missing)[0]
        raise Undefined(f"needs the score on task {j} after task {i}, which was not measured")
    return np.where(wanted, r, np.nan)


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
        raise Undefined(f"needs the {what} of task {missing[0] + first}, which was not measured")
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
    """Return `r`, or raise Undefined if a score lies outside [0, 1]."""
    outside = (r < 0) | (r > 1)
    if outside.any():
        raise Undefined(f"is made for accuracies from 0 to 1, got {r[outside][0]}")
    return r
