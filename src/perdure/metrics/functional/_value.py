"""What a metric returns: a number that knows its parts, or a reason why there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


class UndefinedMetricError(ValueError):
    """Raised by a metric that the data cannot support; the message is the reason."""


class Value(float):
    """A metric's number, with the same quantity for each task in `per_task`.

    `per_task[j]` belongs to task j; it is NaN for a task that takes no part in the metric.
    `curve` is the value as it stood after each task, where it comes at no further cost.

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
        self = super().__new__(cls, value)
        self.per_task = np.asarray(per_task, dtype=np.float64)
        self.curve = curve
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return Value, (float(self), self.per_task, self.curve)


def average(terms: NDArray[np.float64], weights: NDArray[np.float64] | None = None) -> Value:
    """Return the mean of `terms` that are not NaN, and for each column its own mean.

    `terms` is (T,) with one entry a task, or (T, T) with one column a task.
    """
    part = ~np.isnan(terms)
    mean = np.average(terms[part], weights=None if weights is None else weights[part])
    if terms.ndim == 1:
        return Value(mean, terms)
    total = np.where(part, terms, 0.0).sum(axis=0)
    return Value(mean, ratio(total, part.sum(axis=0)))


def ratio(total: NDArray[np.float64], count: NDArray[Any]) -> NDArray[np.float64]:
    """Return `total / count`, NaN where the count is 0."""
    result: NDArray[np.float64] = np.full(total.shape, np.nan)
    np.divide(total, count, out=result, where=count > 0)
    return result


def padded(terms: NDArray[np.float64], tasks: int, *, first: int = 0) -> NDArray[np.float64]:
    """Return `terms` as one entry a task, the first of them task `first`'s, NaN elsewhere."""
    full = np.full(tasks, np.nan)
    full[first : first + len(terms)] = terms
    return full
