"""Memory aware synapses: importance without labels (Aljundi et al. 2018)."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, ClassVar

from torch.nn.functional import cross_entropy
from typing_extensions import override

from ..record import InputError
from ._base import Strategy
from ._importance import importances, parts, weights_of
from ._penalty import add_penalty_gradient, empty_buffers, penalty_gradient

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch
    from torch import Tensor

    from ..data.examples import Batch, Examples
    from ..models import Network
    from ._base import LossCallback, Rows

__all__ = ["MAS"]


class MAS(Strategy):
    """Pulls each weight towards its last value, as hard as the outputs depend on it.

    The loss is that of the batch + strength x sum of Omega (weight - anchor)^2. Omega is the mean
    over a task's examples of |gradient of the squared length of the scores|, taken when the task
    ends, BatchNorm as in a test. Plasticity is the first term, stability the second without its
    strength. With heads the scores are those of the example's own head; with one head they are
    those of all classes but hidden ones.

    Args:
        model: the network to train.
        optimizer: an optimizer over its parameters.
        examples: what the rows stand for.
        seed: not used.
        strength: lambda, weight of the penalty; 0 is naive.
        alpha: None adds the importances of tasks up, as the paper does; a number mixes them,
            alpha x old + (1 - alpha) x new, as Avalanche does.
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
        alpha: float | None = None,
    ) -> None:
        super().__init__(model, optimizer, examples, seed=seed)
        if not 0 <= strength < inf:
            raise InputError(f"strength is {strength:g}, expected 0 or more")
        if alpha is not None and not 0 <= alpha <= 1:
            raise InputError(f"alpha is {alpha:g}, expected a weight from 0 to 1, or none")
        self.strength, self.alpha = strength, alpha
        self.importance: list[Tensor] = []
        self.anchor: list[Tensor] = []
        self._weights = weights_of(model)
        self._room = empty_buffers(self._weights)

    @override
    def step(self, new: Batch, *others: Batch, on_loss_terms: LossCallback | None = None) -> Tensor:
        loss = cross_entropy(self.model(new.x, new.task), new.y)
        if on_loss_terms is not None:
            pull = penalty_gradient(self._weights, self.importance, self.anchor)
            on_loss_terms(loss, [2 * each for each in pull])
        self.optimizer.zero_grad()
        loss.backward()
        if self.importance and self.strength:
            strength = 2 * self.strength
            add_penalty_gradient(self._weights, self.importance, self.anchor, strength, self._room)
        self.optimizer.step()
        return loss.detach()

    @override
    def end_task(self, task: int, rows: Rows) -> None:
        batches = (batch for _, batch in parts(self.examples, rows))
        found = importances(self.model, batches, lambda scores, _: scores.square().sum(1), power=1)
        if not self.importance:
            self.importance = found
            self.anchor = [weight.detach().clone() for weight in self._weights]
            return
        for omega, more in zip(self.importance, found, strict=True):
            if self.alpha is None:
                omega.add_(more)
            else:
                omega.lerp_(more, 1 - self.alpha)
        for anchor, weight in zip(self.anchor, self._weights, strict=True):
            anchor.copy_(weight.detach())

    @override
    def regularizer_state(self) -> Sequence[Tensor]:
        return [*self.importance, *self.anchor]
