"""MAS, memory aware synapses: importances without labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
import torch
from torch.nn.functional import cross_entropy
from typing_extensions import override

from ..models.network import HIDDEN
from ._base import Batch, Examples, LossCallback, Network, Rows, Strategy
from ._importance import (
    add_penalty_gradient,
    empty_buffers,
    estimate_batch_importance,
    estimate_importance,
    iterate_batches,
    penalty_gradient,
    trainable_weights,
)
from .registry import check_ranges, follows_avalanche

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor
    from torch.optim import Optimizer

__all__ = ["MAS"]

TENSORS_PER_BATCH = 3  # inputs, labels and tasks: by their number, Avalanche multiplies


class MAS(Strategy):
    """Penalizes changes of weights in proportion to how sensitive the outputs are to them.

    The loss is the loss of the batch + strength x the sum of Omega (weight - anchor)^2 (Aljundi et
    al. 2018). Omega is the mean over a task's examples of |gradient of the squared length of the
    scores|, computed at the end of the task with BatchNorm in evaluation mode. Plasticity is the
    first term, stability the second without its strength. With one head per task the scores are
    those of the example's head; with a shared head they are those of all classes that are not
    masked.

    With `implementation="avalanche-0.2.1"` the strategy computes what that version of Avalanche
    does: Omega of a task is the mean over batches of |gradient of the batch's mean length of the
    scores, not squared|, times 3, the number of tensors in a batch of Avalanche. The batches have
    the training batch size and the order of the dataset, with BatchNorm in training mode: its
    running statistics are those of this pass afterwards. The first task is averaged too, with an
    old importance of 0. Its importances are an order of magnitude smaller than those of the paper.

    Args:
        model: the network to train.
        optimizer: the optimizer of the model's parameters.
        examples: the training examples of all tasks.
        seed: not used.
        strength: lambda, the weight of the penalty; 0 is naive.
        alpha: None adds up the importances of the tasks, as the paper does; a number averages them,
            alpha x old + (1 - alpha) x new, as Avalanche does, whose default is 0.5.
        implementation: `perdure`, as in the paper, or `avalanche-0.2.1`.
    """

    capturable = True

    requires_boundaries: ClassVar[bool] = True
    penalty_weight: ClassVar[str | None] = "strength"

    def __init__(
        self,
        model: Network,
        optimizer: Optimizer,
        examples: Examples,
        *,
        seed: int = 0,
        strength: float = 1.0,
        alpha: float | None = None,
        implementation: Literal["perdure", "avalanche-0.2.1"] = "perdure",
    ) -> None:
        super().__init__(model, optimizer, examples, seed=seed)
        check_ranges("mas", {"strength": strength, "alpha": alpha})
        self._avalanche = follows_avalanche(implementation)
        self.strength, self.alpha = strength, 0.5 if self._avalanche and alpha is None else alpha
        self.batch_size = 1  # the largest so far
        self.importance: list[Tensor] = []
        self.anchor: list[Tensor] = []
        self._weights = trainable_weights(model)
        self._buffers = empty_buffers(self._weights)

    @override
    def select_rows(self, new: Rows) -> tuple[Rows, ...]:
        self.batch_size = max(self.batch_size, len(new))
        return (new,)

    @override
    def step(self, new: Batch, *others: Batch, on_loss_terms: LossCallback | None = None) -> Tensor:
        loss = cross_entropy(self.model(new.x, new.task), new.y)
        if on_loss_terms is not None:
            penalty = penalty_gradient(self._weights, self.importance, self.anchor)
            on_loss_terms(loss, [2 * gradient for gradient in penalty])
        self.optimizer.zero_grad()
        loss.backward()
        if self.importance and self.strength:
            strength = 2 * self.strength
            add_penalty_gradient(
                self._weights, self.importance, self.anchor, strength, self._buffers
            )
        self.optimizer.step()
        return loss.detach()

    @override
    def end_task(self, task: int, rows: Rows) -> None:
        sensitivity = self._estimate_sensitivity(rows)
        if not self.importance:
            first = 1 - self.alpha if self._avalanche and self.alpha is not None else 1.0
            self.importance = [first * new for new in sensitivity]
            self.anchor = [weight.detach().clone() for weight in self._weights]
            return
        for omega, new in zip(self.importance, sensitivity, strict=True):
            if self.alpha is None:
                omega.add_(new)
            else:
                omega.lerp_(new, 1 - self.alpha)
        for anchor, weight in zip(self.anchor, self._weights, strict=True):
            anchor.copy_(weight.detach())

    def _estimate_sensitivity(self, rows: Rows) -> list[Tensor]:
        """Return the importances of one task."""
        if not self._avalanche:
            batches = iterate_batches(self.examples, rows)
            return estimate_importance(
                self.model, batches, lambda scores, _: scores.square().sum(1), power=1
            )
        batches = iterate_batches(self.examples, np.sort(rows), self.batch_size)
        sensitivity = estimate_batch_importance(self.model, batches, _length, power=1)
        return [TENSORS_PER_BATCH * new for new in sensitivity]

    @override
    def regularizer_state(self) -> Sequence[Tensor]:
        return [*self.importance, *self.anchor]


def _length(scores: Tensor, _: Tensor) -> Tensor:
    """Return the length of each example's scores, without those of hidden classes."""
    lengths: Tensor = torch.linalg.vector_norm(scores.where(scores > HIDDEN, 0.0), dim=1)
    return lengths
