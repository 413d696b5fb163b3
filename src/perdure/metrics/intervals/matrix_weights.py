"""Which entries of the score matrix a metric adds up: what an interval needs beside the formula.

The registered functions stay the only formulas; these are their derivatives, and a test compares
the two for every id. `weights[i, j]` belongs to the score on task j after learning task i.
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
    """A linear metric: the value of each task from `parts`, and the metric as their sum by share.

    The value of task k is made of column k of `parts`, or of row k where it is the value after
    task k. A share of 0 is a task that takes no part.
    """

    parts: Floats
    shares: Floats
    by_row: bool = False


def _per_task(terms: Floats) -> Weights:
    """Return the mean over tasks of the sum of each column; empty columns take no part."""
    used = (terms != 0).any(axis=0)
    return Weights(terms, used / max(used.sum(), 1))


def _per_entry(entries: NDArray[np.bool_]) -> Weights:
    """Return the mean over `entries`, which gives each task a share by how many it has."""
    counts = entries.sum(axis=0)
    return Weights(entries / np.maximum(counts, 1), counts / max(counts.sum(), 1))


def _final(tasks: int) -> Floats:
    terms = np.zeros((tasks, tasks))
    terms[-1] = 1.0
    return terms


def _older(terms: Floats) -> Floats:
    terms[:, -1] = 0.0
    return terms


def _later(tasks: int) -> Floats:
    terms = np.eye(tasks)
    terms[0, 0] = 0.0
    return terms


def _before_the_end(entries: NDArray[np.bool_]) -> NDArray[np.bool_]:
    entries[-1] = False
    return entries


def _since_learned(tasks: int) -> Weights:
    mean = _per_entry(np.tri(tasks, k=-1, dtype=bool))
    return mean._replace(parts=mean.parts - np.diag(mean.parts.sum(axis=0)))


def _from_step_to_step(tasks: int) -> Weights:
    change = _older(_final(tasks) - np.eye(tasks))
    later = np.arange(tasks - 1, -1, -1)
    return Weights(change / np.maximum(later, 1), later / max(later.sum(), 1))


def _incremental(tasks: int) -> Weights:
    rows = np.tri(tasks) / np.arange(1, tasks + 1)[:, None]
    return Weights(rows, np.full(tasks, 1 / tasks), by_row=True)


LINEAR: dict[str, Callable[[int], Weights]] = {
    "acc": lambda tasks: _per_task(_final(tasks)),
    "acc.lower": lambda tasks: _per_entry(np.tri(tasks, dtype=bool)),
    "acc.below": lambda tasks: _per_entry(np.tri(tasks, k=-1, dtype=bool)),
    "acc.incremental": _incremental,
    "acc.learning": lambda tasks: _per_task(np.eye(tasks)),
    "acc.all": lambda tasks: _per_entry(np.ones((tasks, tasks), dtype=bool)),
    "bwt": lambda tasks: _per_task(_older(_final(tasks) - np.eye(tasks))),
    "bwt.all": _since_learned,
    "bwt.consecutive": _from_step_to_step,
    "fwt.upper": lambda tasks: _per_entry(~np.tri(tasks, dtype=bool)),
    "fwt.next": lambda tasks: _per_task(np.eye(tasks, k=1)),
    "forgetting.learned": lambda tasks: _per_task(_older(np.eye(tasks) - _final(tasks))),
    "omega.new": lambda tasks: _per_task(_later(tasks)),
}

# After which tasks the largest score of each task is looked for, to be compared with its last one.
LARGEST: dict[str, Callable[[int], NDArray[np.bool_]]] = {
    "forgetting.best": lambda tasks: _before_the_end(np.tri(tasks, dtype=bool)),
    "forgetting.peak": lambda tasks: np.tri(tasks, dtype=bool),
    "forgetting.any": lambda tasks: _before_the_end(np.ones((tasks, tasks), dtype=bool)),
}
