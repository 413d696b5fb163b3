"""Stopping a task when a held-out part of it is not learned any better."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .._random_streams import random_stream
from ..evaluation.state.preserve import preserve_state
from ..record import InputError

if TYPE_CHECKING:
    from ..strategies import Rows, Strategy
    from .loop import TrainingPlan

__all__ = ["EarlyStopping", "split_for_early_stopping"]

ROWS = 500  # that go through the model at once


class EarlyStopping:
    """Asks after every epoch whether the held-out accuracy was better in the last few.

    Args:
        patience: epochs without a better one after which a task ends; None never ends it.
    """

    def __init__(self, patience: int | None) -> None:
        self.patience = patience
        self.best, self.waited = -1.0, 0

    def begin(self) -> None:
        """Begin a task."""
        self.best, self.waited = -1.0, 0

    def enough(self, strategy: Strategy, held: Rows) -> bool:
        """Return whether to stop, after an epoch."""
        if self.patience is None:
            return False
        score = accuracy(strategy, held)
        self.waited = 0 if score > self.best else self.waited + 1
        self.best = max(self.best, score)
        return self.waited >= self.patience


def split_for_early_stopping(rows: Rows, plan: TrainingPlan) -> tuple[Rows, Rows]:
    """Return the rows to learn from and those held out: none without patience.

    Example:
        >>> from perdure.training import TrainingPlan
        >>> plan = TrainingPlan(patience=2, early_stopping_split=0.1)
        >>> learn, held = split_for_early_stopping(np.arange(100), plan)
        >>> len(learn), len(held), len(np.union1d(learn, held))
        (90, 10, 100)
    """
    if plan.patience is None:
        return rows, rows[:0]
    if len(rows) < 2:
        raise InputError(
            "a task has one example, and patience needs some to hold out; leave it out"
        )
    chosen = np.zeros(len(rows), dtype=bool)
    rng = random_stream("early_stopping_split", plan.seed)
    count = max(1, min(round(plan.early_stopping_split * len(rows)), len(rows) - 1))
    chosen[rng.choice(len(rows), count, replace=False)] = True
    return rows[~chosen], rows[chosen]


def accuracy(strategy: Strategy, rows: Rows) -> float:
    """Return the share of `rows` that the model gets right, and leave the model as it was."""
    right = 0
    with preserve_state(strategy.model):
        for part in np.split(rows, range(ROWS, len(rows), ROWS)):
            batch = strategy.examples.take(part)
            named = strategy.model(batch.x, batch.task).argmax(1)
            right += int((named == batch.y).sum())
    return right / len(rows)
