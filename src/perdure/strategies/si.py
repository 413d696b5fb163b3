"""Synaptic intelligence: importance collected along the way (Zenke et al. 2017)."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from typing_extensions import override

from ..record import InputError
from ._base import Strategy
from ._importance import weights_of
from ._penalty import empty_buffers, penalty_gradient

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..data.examples import Batch, Examples
    from ..models import Network
    from ._base import LossCallback, Rows

__all__ = ["SI"]


class SI(Strategy):
    """Pulls each weight towards its last value, as hard as moving it lowered the loss before.

    The loss is that of the batch + strength x sum of Omega (weight - anchor)^2. While a task is
    learned, each weight adds up -gradient x change, its share in lowering the batches' loss (the
    penalty is left out of the gradient; the change is the optimizer's, momentum included). When
    the task ends, Omega grows by that share, or by 0 where it is negative, divided by (change over
    the task)^2 + eps. Plasticity is the first term, stability the second without its strength.

    The shares are needed within a task only, like an optimizer's momentum, and do not count as
    kept.

    Args:
        model: the network to train.
        optimizer: an optimizer over its parameters.
        examples: what the rows stand for.
        seed: not used.
        strength: c, weight of the penalty; 0 is naive.
        eps: xi, which bounds the importance of weights that hardly moved.
    """

    requires_boundaries: ClassVar[bool] = True
    penalty: ClassVar[str | None] = "strength"

    def __init__(
        self,
        model: Network,
        optimizer: torch.optim.Optimizer,
        examples: Examples,
        *,
        seed: int = 0,
        strength: float = 1.0,
        eps: float = 0.001,
    ) -> None:
        super().__init__(model, optimizer, examples, seed=seed)
        if not 0 <= strength < inf:
            raise InputError(f"strength is {strength:g}, expected 0 or more")
        if not 0 < eps < inf:
            raise InputError(f"eps is {eps:g}, expected more than 0")
        self.strength, self.eps = strength, eps
        self._weights = weights_of(model)
        self._before, self._new = empty_buffers(self._weights), empty_buffers(self._weights)
        self.importance: list[Tensor] = []
        self.anchor = [weight.detach().clone() for weight in self._weights]
        self.share = [torch.zeros_like(weight) for weight in self.anchor]

    @override
    def step(self, new: Batch, *others: Batch, on_loss_terms: LossCallback | None = None) -> Tensor:
        loss = cross_entropy(self.model(new.x, new.task), new.y)
        if on_loss_terms is not None:
            pull = penalty_gradient(self._weights, self.importance, self.anchor)
            on_loss_terms(loss, [2 * each for each in pull])
        self.optimizer.zero_grad()
        loss.backward()
        gradients = [weight.grad for weight in self._weights]  # of the batch's loss alone
        with torch.no_grad():
            if self.importance and self.strength:
                self._add_penalty_gradient()
            for weight, before in zip(self._weights, self._before, strict=True):
                before.copy_(weight)
            self.optimizer.step()
            for weight, before, share, gradient in zip(
                self._weights, self._before, self.share, gradients, strict=True
            ):
                if gradient is not None:
                    share.addcmul_(gradient, before.sub_(weight))
        return loss.detach()

    def _add_penalty_gradient(self) -> None:
        """Let every weight have a new gradient, with the penalty's added to the old one."""
        for weight, omega, anchor, new in zip(
            self._weights, self.importance, self.anchor, self._new, strict=True
        ):
            if weight.grad is not None:  # else a head that took no part
                drift = torch.sub(weight, anchor, out=new)
                weight.grad = torch.addcmul(
                    weight.grad, omega, drift, value=2 * self.strength, out=new
                )

    @override
    @torch.no_grad()
    def end_task(self, task: int, rows: Rows) -> None:
        if not self.importance:
            self.importance = [torch.zeros_like(weight) for weight in self.anchor]
        for omega, share, weight, anchor in zip(
            self.importance, self.share, self._weights, self.anchor, strict=True
        ):
            omega += share.clamp_(min=0) / ((weight - anchor).square() + self.eps)
            anchor.copy_(weight)
            share.zero_()

    @override
    def regularizer_state(self) -> Sequence[Tensor]:
        return [*self.importance, *self.anchor] if self.importance else []
