"""Stopping a run whose loss, weights or gradients are not finite."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from .contract import check_loss

if TYPE_CHECKING:
    from torch import Tensor

    from ..evaluation import Evaluator
    from ..strategies import LossTerm, Strategy

__all__ = ["DivergedError", "DivergenceCheck"]

CUDA_STEPS = 50  # between two checks of the losses on a GPU, each of which waits for it


class DivergedError(ValueError):
    """A loss, a weight or a gradient is not finite."""


class DivergenceCheck:
    """Raises DivergedError when training on a task diverges.

    Args:
        strategy: The learner.
        task: The name of the task.
        step: The number of steps before the task.
    """

    def __init__(self, strategy: Strategy, task: str | None, step: int) -> None:
        self._strategy, self._task, self._step = strategy, task, step
        self._losses: list[tuple[int, Tensor]] = []

    def add_loss(self, loss: Tensor) -> None:
        """Take the loss of a step; on a GPU, many are checked together."""
        self._step += 1
        loss = check_loss(self._strategy, loss, self._place(self._step))
        self._losses.append((self._step, loss))
        if len(self._losses) >= (CUDA_STEPS if loss.is_cuda and self._step > 1 else 1):
            self.check_losses()

    def check_losses(self) -> None:
        """Raise if a loss since the last check is not finite."""
        losses, self._losses = self._losses, []
        values = [loss.to(losses[0][1].device) for _, loss in losses]
        if not values or bool(torch.stack(values).isfinite().all()):
            return
        step, value = next((step, float(loss)) for step, loss in losses if not loss.isfinite())
        raise self._error(f"loss of {type(self._strategy).__name__} is {value}", step)

    def check_weights(self) -> None:
        """Raise if a weight is not finite, after a strategy has trained at the end of a task."""
        finite = [weight.isfinite().all() for weight in self._strategy.model.parameters()]
        if finite and not bool(torch.stack(finite).all()):
            name = type(self._strategy).__name__
            raise self._error(f"weights of {name} are not finite after end_task", self._step)

    def record_gradients(
        self, evaluator: Evaluator, every: int, plasticity: LossTerm, stability: LossTerm
    ) -> None:
        """Record gradient norms; those of a diverged step come before its loss."""
        try:
            evaluator.record_gradients(self._strategy.model, plasticity, stability, every=every)
        except ValueError as error:
            self.check_losses()
            name = type(self._strategy).__name__
            reason = f"gradient of {name} cannot be recorded ({error})"
            raise self._error(reason, self._step + 1) from error

    def _place(self, step: int) -> str:
        return f" at step {step}" + (f" of task {self._task!r}" if self._task else "")

    def _error(self, reason: str, step: int) -> DivergedError:
        advice = "try a smaller lr (`settings={'lr': …}`)"
        if name := self._strategy.penalty_weight:
            weight = getattr(self._strategy, name)
            advice += f" or {name}, which is {weight:g} (`settings={{'{name}': …}}`)"
        return DivergedError(
            f"the {reason}{self._place(step)}, expected a finite number. No recorded data was "
            f"lost; {advice}"
        )
