"""SI, synaptic intelligence: importances are accumulated during training."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from typing_extensions import override

from ._base import Batch, Examples, LossCallback, Network, Rows, Strategy
from ._importance import trainable_weights
from ._penalty import empty_buffers, penalty_gradient
from .registry import check_ranges

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch.optim import Optimizer

__all__ = ["SI"]


class SI(Strategy):
    """Penalizes changes of weights in proportion to how much their movement lowered the loss.

    The loss is the loss of the batch + strength x the sum of Omega (weight - anchor)^2 (Zenke et
    al. 2017). During a task, every weight accumulates -gradient x change, its contribution to
    lowering the loss of the batches (the gradient is that without the penalty, the change that of
    the optimizer including momentum). At the end of the task, Omega increases by this path
    integral, or by 0 if it is negative, divided by (change over the task)^2 + eps. Plasticity is
    the first term, stability the second without its strength.

    The path integrals are needed during a task only, like an optimizer's momentum, and do not count
    as stored.

    Args:
        model: the network to train.
        optimizer: the optimizer of the model's parameters.
        examples: the training examples of all tasks.
        seed: not used.
        strength: c, the weight of the penalty; 0 is naive.
        eps: xi, which bounds the importance of weights that hardly moved.
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
        eps: float = 0.001,
    ) -> None:
        super().__init__(model, optimizer, examples, seed=seed)
        check_ranges("si", {"strength": strength, "eps": eps})
        self.strength, self.eps = strength, eps
        self._weights = trainable_weights(model)
        self._previous = empty_buffers(self._weights)
        self._gradients = empty_buffers(self._weights)
        self.importance: list[Tensor] = []
        self.anchor = [weight.detach().clone() for weight in self._weights]
        self.path_integral = [torch.zeros_like(weight) for weight in self.anchor]

    @override
    def step(self, new: Batch, *others: Batch, on_loss_terms: LossCallback | None = None) -> Tensor:
        loss = cross_entropy(self.model(new.x, new.task), new.y)
        if on_loss_terms is not None:
            penalty = penalty_gradient(self._weights, self.importance, self.anchor)
            on_loss_terms(loss, [2 * gradient for gradient in penalty])
        self.optimizer.zero_grad()
        loss.backward()
        gradients = [weight.grad for weight in self._weights]  # of the batch's loss alone
        with torch.no_grad():
            if self.importance and self.strength:
                self._add_penalty_gradient()
            for weight, previous in zip(self._weights, self._previous, strict=True):
                previous.copy_(weight)
            self.optimizer.step()
            for weight, previous, path_integral, gradient in zip(
                self._weights, self._previous, self.path_integral, gradients, strict=True
            ):
                if gradient is not None:
                    path_integral.addcmul_(gradient, previous.sub_(weight))
        return loss.detach()

    def _add_penalty_gradient(self) -> None:
        """Add the penalty to a copy of each gradient: those of the loss are needed afterwards."""
        for weight, omega, anchor, buffer in zip(
            self._weights, self.importance, self.anchor, self._gradients, strict=True
        ):
            if weight.grad is not None:  # a head of another task has none
                drift = torch.sub(weight, anchor, out=buffer)
                weight.grad = torch.addcmul(
                    weight.grad, omega, drift, value=2 * self.strength, out=buffer
                )

    @override
    @torch.no_grad()
    def end_task(self, task: int, rows: Rows) -> None:
        if not self.importance:
            self.importance = [torch.zeros_like(weight) for weight in self.anchor]
        for omega, path_integral, weight, anchor in zip(
            self.importance, self.path_integral, self._weights, self.anchor, strict=True
        ):
            omega += path_integral.clamp_(min=0) / ((weight - anchor).square() + self.eps)
            anchor.copy_(weight)
            path_integral.zero_()

    @override
    def regularizer_state(self) -> Sequence[Tensor]:
        return [*self.importance, *self.anchor] if self.importance else []
