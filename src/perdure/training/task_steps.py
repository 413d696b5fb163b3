"""The steps of a task: each is checked and evaluated; captured ones are taken several at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .step_graph import MAX_QUEUED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..evaluation import Evaluator
    from ..strategies import LossCallback, Rows, Strategy
    from .step_checks import DivergenceCheck
    from .step_graph import CapturedStep, StepGraphs

__all__ = ["TaskSteps"]


class TaskSteps:
    """Takes the steps of one task, and evaluates after each.

    Steps that a CUDA graph replays wait until there are some of them: their rows are copied to the
    GPU at once, and their losses and evaluations come back together.

    Args:
        strategy: the learner.
        graphs: takes steps, and captures them.
        check: is given every loss.
        task: the task of all new examples, if it is one.
        evaluator: evaluates the model after each step.
        on_loss_terms: passed to the strategy.
    """

    def __init__(
        self,
        strategy: Strategy,
        graphs: StepGraphs,
        check: DivergenceCheck,
        *,
        task: int | None,
        evaluator: Evaluator | None,
        on_loss_terms: LossCallback | None,
    ) -> None:
        self._strategy, self._graphs, self._check = strategy, graphs, check
        self._task, self._evaluator, self._on_loss_terms = task, evaluator, on_loss_terms
        self._waiting: list[Rows] = []  # of each step, the rows of all its batches
        self._captured: CapturedStep | None = None  # replays them

    def add(self, batches: Sequence[Rows]) -> bool:
        """Take a step on these rows, now or later; return whether none is waiting."""
        captured = self._graphs.find(batches, self._task)
        counts = self._evaluator is not None and self._evaluator.costs.counts_step
        if captured is None or counts or self._on_loss_terms is not None:
            self.flush()
            self._take(batches)
            return True
        is_other = bool(self._waiting) and captured is not self._captured
        if is_other:  # the short batch at the end of an epoch, say: it does not wait for the next
            self.flush()
        self._captured = captured
        self._waiting.append(np.concatenate(batches))
        if is_other or len(self._waiting) == MAX_QUEUED:
            self.flush()
        return not self._waiting

    def flush(self) -> bool:
        """Take the steps that wait; return whether there were any."""
        if not self._waiting:
            return False
        assert self._captured is not None
        rows, self._waiting = np.stack(self._waiting), []
        self._captured.queue(rows)
        if self._evaluator is None:
            for _ in rows:
                self._captured.replay()
        else:
            self._evaluator.replay_steps(self._strategy.model, self._captured.replay, len(rows))
        self._check.add_losses(self._captured.losses(len(rows)))
        return True

    def _take(self, batches: Sequence[Rows]) -> None:
        loss = self._graphs.step(batches, self._task, self._on_loss_terms)
        self._check.add_loss(loss)
        if self._evaluator is not None:
            self._evaluator.step(self._strategy.model, replayed=self._graphs.replayed)
