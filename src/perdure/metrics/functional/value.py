"""What a metric returns: a number with its values per task, or a reason why there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


__all__ = ["UndefinedMetricError", "Value"]


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
