"""The weights with which a metric adds up the entries of the score matrix, for its interval.

The functions in the registry remain the only formulas; these are their derivatives, and a test
compares the two for every id. `weights[i, j]` belongs to the score on task j after learning task i.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = ["LARGEST", "LINEAR", "Weights"]


class Weights(NamedTuple):
    """A linear metric: the value of each task is given by `parts`, the metric by their `shares`.

    The value of task k uses column k of `parts`, or row k if it is the value after task k. A share
    of 0 is a task that is not part of the metric.
    """

    parts: Floats
    shares: Floats
    by_row: bool = False


def _per_task(terms: Floats) -> Weights:
    """Return the weights of the mean over tasks of the sum of each column that is not empty."""
    used = (terms != 0).any(axis=0)
    return Weights(terms, used / max(used.sum(), 1))


def _per_entry(entries: NDArray[np.bool_]) -> Weights:
    """Return the weights of the mean over `entries`; a task's share is its number of entries."""
    counts = entries.sum(axis=0)
    return Weights(entries / np.maximum(counts, 1), counts / max(counts.sum(), 1))


def _final_row(tasks: int) -> Floats:
    terms = np.zeros((tasks, tasks))
    terms[-1] = 1.0
    return terms


def _without_last_task(terms: Floats) -> Floats:
    terms[:, -1] = 0.0
    return terms


def _diagonal_after_first(tasks: int) -> Floats:
    terms = np.eye(tasks)
    terms[0, 0] = 0.0
    return terms


def _without_last_row(entries: NDArray[np.bool_]) -> NDArray[np.bool_]:
    entries[-1] = False
    return entries


def _changes_since_learning(tasks: int) -> Weights:
    mean = _per_entry(np.tri(tasks, k=-1, dtype=bool))
    return mean._replace(parts=mean.parts - np.diag(mean.parts.sum(axis=0)))


def _consecutive_changes(tasks: int) -> Weights:
    change = _without_last_task(_final_row(tasks) - np.eye(tasks))
    later = np.arange(tasks - 1, -1, -1)
    return Weights(change / np.maximum(later, 1), later / max(later.sum(), 1))


def _incremental_means(tasks: int) -> Weights:
    rows = np.tri(tasks) / np.arange(1, tasks + 1)[:, None]
    return Weights(rows, np.full(tasks, 1 / tasks), by_row=True)


LINEAR: dict[str, Callable[[int], Weights]] = {
    "acc": lambda tasks: _per_task(_final_row(tasks)),
    "acc.lower": lambda tasks: _per_entry(np.tri(tasks, dtype=bool)),
    "acc.below": lambda tasks: _per_entry(np.tri(tasks, k=-1, dtype=bool)),
    "acc.incremental": _incremental_means,
    "acc.learning": lambda tasks: _per_task(np.eye(tasks)),
    "acc.all": lambda tasks: _per_entry(np.ones((tasks, tasks), dtype=bool)),
    "bwt": lambda tasks: _per_task(_without_last_task(_final_row(tasks) - np.eye(tasks))),
    "bwt.all": _changes_since_learning,
    "bwt.consecutive": _consecutive_changes,
    "fwt.upper": lambda tasks: _per_entry(~np.tri(tasks, dtype=bool)),
    "fwt.next": lambda tasks: _per_task(np.eye(tasks, k=1)),
    "forgetting.learned": lambda tasks: _per_task(
        _without_last_task(np.eye(tasks) - _final_row(tasks))
    ),
    "omega.new": lambda tasks: _per_task(_diagonal_after_first(tasks)),
}

# The task ends among which the largest score of each task is taken.
LARGEST: dict[str, Callable[[int], NDArray[np.bool_]]] = {
    "forgetting.best": lambda tasks: _without_last_row(np.tri(tasks, dtype=bool)),
    "forgetting.peak": lambda tasks: np.tri(tasks, dtype=bool),
    "forgetting.any": lambda tasks: _without_last_row(np.ones((tasks, tasks), dtype=bool)),
}
