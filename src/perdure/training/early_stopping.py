"""Early stopping: a task ends when accuracy on held-out examples no longer improves."""

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

BATCH_ROWS = 500


class EarlyStopping:
    """Decides after every epoch whether to end the task.

    `held_out_accuracy` has the accuracy after each epoch of every task so far.

    Args:
        patience: Epochs without a better held-out accuracy after which a task ends; None for no
            early stopping.
    """

    def __init__(self, patience: int | None) -> None:
        self.patience = patience
        self.best, self.waited = -1.0, 0
        self.task = ""
        self.held_out_accuracy: dict[str, list[float]] = {}

    def start_task(self, name: str) -> None:
        """Forget the best accuracy of the task before."""
        self.best, self.waited, self.task = -1.0, 0, name

    def should_stop(self, strategy: Strategy, held_out: Rows) -> bool:
        """Return whether to end the task, after an epoch."""
        if self.patience is None:
            return False
        accuracy = measure_accuracy(strategy, held_out)
        self.held_out_accuracy.setdefault(self.task, []).append(accuracy)
        self.waited = 0 if accuracy > self.best else self.waited + 1
        self.best = max(self.best, accuracy)
        return self.waited >= self.patience


def split_for_early_stopping(rows: Rows, plan: TrainingPlan) -> tuple[Rows, Rows]:
    """Return the rows to train on and those held out, which are none without early stopping.

    Example:
        >>> from perdure.training import TrainingPlan
        >>> plan = TrainingPlan(patience=2, early_stopping_split=0.1)
        >>> train, held_out = split_for_early_stopping(np.arange(100), plan)
        >>> len(train), len(held_out), len(np.union1d(train, held_out))
        (90, 10, 100)
    """
    if plan.patience is None:
        return rows, rows[:0]
    if len(rows) < 2:
        raise InputError("a task has one example, so none can be held out; leave patience out")
    is_held_out = np.zeros(len(rows), dtype=bool)
    rng = random_stream("early_stopping_split", plan.seed)
    count = max(1, min(round(plan.early_stopping_split * len(rows)), len(rows) - 1))
    is_held_out[rng.choice(len(rows), count, replace=False)] = True
    return rows[~is_held_out], rows[is_held_out]


def measure_accuracy(strategy: Strategy, rows: Rows) -> float:
    """Return the accuracy of the model on some training examples; its state does not change."""
    correct = 0
    with preserve_state(strategy.model):
        for part in np.split(rows, range(BATCH_ROWS, len(rows), BATCH_ROWS)):
            batch = strategy.examples.take(part)
            predicted = strategy.model(batch.x, batch.task).argmax(1)
            correct += int((predicted == batch.y).sum())
    return correct / len(rows)
