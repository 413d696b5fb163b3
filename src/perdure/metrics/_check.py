"""What a legal array of scores is, for every function that takes plain arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from ._value import Undefined

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

Region = Literal["final", "first", "diagonal", "lower", "below", "next", "upper", "all"]


def region(name: Region, tasks: int) -> NDArray[np.bool_]:
    """Return which entries of a (tasks, tasks) matrix belong to the named region."""
    i, j = np.indices((tasks, tasks))
    masks: dict[Region, Callable[[], NDArray[np.bool_]]] = {
        "final": lambda: i == tasks - 1,
        "first": lambda: (j == 0) & (i > 0),
        "diagonal": lambda: i == j,
        "lower": lambda: i >= j,
        "below": lambda: i > j,
        "next": lambda: i == j - 1,
        "upper": lambda: i < j,
        "all": lambda: i >= 0,
    }
    return masks[name]()


def square(matrix: ArrayLike) -> NDArray[np.float64]:
    """Return `matrix` as a new float array, or raise if it is not a finite square of numbers."""
    r = np.array(matrix, dtype=np.float64)  # a copy: metrics never write to their input
    if r.ndim != 2 or r.shape[0] != r.shape[1] or len(r) == 0:
        raise ValueError(f"score matrix must be square, got shape {r.shape}")
    if np.isinf(r).any():
        i, j = np.argwhere(np.isinf(r))[0]
        raise ValueError(f"score on task {j} after task {i} is {r[i, j]}, expected a finite number")
    return r


def read(
    matrix: ArrayLike, *regions: Region, min_tasks: int = 1, old: bool = False
) -> NDArray[np.float64]:
    """Return a copy of `matrix` with NaN outside `regions`, so that nothing else can be read.

    With `old`, the last task's column is outside too. Raises Undefined if an entry inside was
    never measured or there are too few tasks.
    """
    r = square(matrix)
    if len(r) < min_tasks:
        raise Undefined(f"needs at least {min_tasks} tasks, got {len(r)}")
    wanted = np.logical_or.reduce([region(name, len(r)) for name in regions])
    if old:
        wanted[:, -1] = False
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
        raise ValueError(f"{what} must have one value for each of {tasks} tasks, got {v.shape}")
    if np.isinf(v).any():
        at = int(np.argmax(np.isinf(v)))
        raise ValueError(f"{what} of task {at} is {v[at]}, expected a finite number")
    missing = np.flatnonzero(np.isnan(v[first:until]))
    if len(missing):
        raise Undefined(f"needs the {what} of task {missing[0] + first}, which was not measured")
    return v


def class_counts(classes: ArrayLike, tasks: int) -> NDArray[np.float64]:
    """Return how many classes each task brings, or raise if they are not whole numbers >= 1."""
    c = vector(classes, tasks, "class count")
    if not ((c >= 1) & (c == np.floor(c))).all():
        raise ValueError(f"class counts must be whole numbers of at least 1, got {c.tolist()}")
    return c


def unit(r: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return `r`, or raise Undefined if a score lies outside [0, 1]."""
    outside = (r < 0) | (r > 1)
    if outside.any():
        raise Undefined(f"is made for accuracies from 0 to 1, got {r[outside][0]}")
    return r
