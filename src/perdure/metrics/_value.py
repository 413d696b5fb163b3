"""What a metric returns: a number that knows its parts, or a reason why there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Undefined(ValueError):  # noqa: N818 - it is a statement about a metric, not a fault
    """Raised by a metric that the data cannot support; the message is the reason."""


class Value(float):
    """A metric's number, with the same quantity for each task in `per_task`.

    `per_task[j]` belongs to task j; it is NaN for a task that takes no part in the metric.

    Example:
        >>> value = Value(0.5, [0.4, 0.6])
        >>> value, value.per_task
        (0.5, array([0.4, 0.6]))
    """

    per_task: NDArray[np.float64]

    def __new__(cls, value: float, per_task: NDArray[np.float64] | list[float]) -> Value:
        self = super().__new__(cls, value)
        self.per_task = np.asarray(per_task, dtype=np.float64)
        return self

    def __getnewargs__(self) -> tuple[float, NDArray[np.float64]]:  # for copy
        return float(self), self.per_task


def average(terms: NDArray[np.float64], weights: NDArray[np.float64] | None = None) -> Value:
    """Return the mean of `terms` that are not NaN, and for each column its own mean.

    `terms` is (T,) with one entry a task, or (T, T) with one column a task.
    """
    part = ~np.isnan(terms)
    if weights is None:
        mean = terms[part].mean()
    else:
        mean = np.average(terms[part], weights=weights[part])
    if terms.ndim == 1:
        return Value(mean, terms)
    count = part.sum(axis=0)
    total = np.where(part, terms, 0.0).sum(axis=0)
    columns = np.divide(total, count, out=np.full(len(count), np.nan), where=count > 0)
    return Value(mean, columns)


def padded(terms: NDArray[np.float64], tasks: int, *, first: int = 0) -> NDArray[np.float64]:
    """Return `terms` as one entry a task, the first of them task `first`'s, NaN elsewhere."""
    full = np.full(tasks, np.nan)
    full[first : first + len(terms)] = terms
    return full
