"""SI, synaptic intelligence: importances are accumulated during training."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.modules.batchnorm import _NormBase
from typing_extensions import override

from ._base import Batch, Examples, LossCallback, Network, Rows, Strategy
from ._importance import empty_buffers, penalty_gradient, trainable_weights
from .registry import check_ranges, follows_avalanche

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch.optim import Optimizer

__all__ = ["SI"]

MAX_IMPORTANCE = 0.001  # of Avalanche


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

    With `implementation="avalanche-0.2.1"` the strategy computes what that version of Avalanche
    does: the gradient of a path integral includes the penalty, the quotients of the tasks are added
    up whatever their sign, and Omega is that sum where it is below .001 and .001 elsewhere, so that
    it can be negative. The penalty is halved, and the weights of BatchNorm have none.

    Args:
        model: the network to train.
        optimizer: the optimizer of the model's parameters.
        examples: the training examples of all tasks.
        seed: not used.
        strength: c, the weight of the penalty; 0 is naive.
        eps: xi, which bounds the importance of weights that hardly moved.
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
        eps: float = 0.001,
        implementation: Literal["perdure", "avalanche-0.2.1"] = "perdure",
    ) -> None:
        super().__init__(model, optimizer, examples, seed=seed)
        check_ranges("si", {"strength": strength, "eps": eps})
        self.strength, self.eps = strength, eps
        self._avalanche = follows_avalanche(implementation)
        self._weights = trainable_weights(model)
        if self._avalanche:
            self._weights = _without_normalization(model, self._weights)
        self._previous = empty_buffers(self._weights)
        self._gradients = empty_buffers(self._weights)
        self.importance: list[Tensor] = []
        self.anchor = [weight.detach().clone() for weight in self._weights]
        self.path_integral = [torch.zeros_like(weight) for weight in self.anchor]
        self.unclipped: list[Tensor] = []  # the importances before they are clipped, for Avalanche

    @override
    def step(self, new: Batch, *others: Batch, on_loss_terms: LossCallback | None = None) -> Tensor:
        loss = cross_entropy(self.model(new.x, new.task), new.y)
        if on_loss_terms is not None:
            penalty = penalty_gradient(self._weights, self.importance, self.anchor)
            on_loss_terms(loss, penalty if self._avalanche else [2 * part for part in penalty])
        self.optimizer.zero_grad()
        loss.backward()
        gradients = [weight.grad for weight in self._weights]  # of the batch's loss alone
        with torch.no_grad():
            if self.importance and self.strength:
                self._add_penalty_gradient()
            if self._avalanche:
                gradients = [weight.grad for weight in self._weights]  # with that of the penalty
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
        strength = self.strength if self._avalanche else 2 * self.strength
        for weight, omega, anchor, buffer in zip(
            self._weights, self.importance, self.anchor, self._gradients, strict=True
        ):
            if weight.grad is not None:  # a head of another task has none
                drift = torch.sub(weight, anchor, out=buffer)
                weight.grad = torch.addcmul(weight.grad, omega, drift, value=strength, out=buffer)

    @override
    @torch.no_grad()
    def end_task(self, task: int, rows: Rows) -> None:
        if not self.importance:
            self.importance = [torch.zeros_like(weight) for weight in self.anchor]
            self.unclipped = empty_buffers(self.anchor) if self._avalanche else []
        for k, (path_integral, weight, anchor) in enumerate(
            zip(self.path_integral, self._weights, self.anchor, strict=True)
        ):
            new = path_integral / ((weight - anchor).square() + self.eps)
            if self._avalanche:
                self.unclipped[k] += new
                torch.clamp(self.unclipped[k], max=MAX_IMPORTANCE, out=self.importance[k])
            else:
                self.importance[k] += new.clamp_(min=0)
            anchor.copy_(weight)
            path_integral.zero_()

    @override
    def regularizer_state(self) -> Sequence[Tensor]:
        return [*self.importance, *self.unclipped, *self.anchor] if self.importance else []


def _without_normalization(model: nn.Module, weights: Sequence[nn.Parameter]) -> list[nn.Parameter]:
    """Return the weights that do not belong to a layer of BatchNorm or InstanceNorm."""
    layers = [layer for layer in model.modules() if isinstance(layer, _NormBase)]
    excluded = {id(weight) for layer in layers for weight in layer.parameters(recurse=False)}
    return [weight for weight in weights if id(weight) not in excluded]
