"""Fine-tuning: each batch is learned, nothing is done against forgetting. The lower bound."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch.nn.functional import cross_entropy
from typing_extensions import override

from ._base import Strategy

if TYPE_CHECKING:
    from torch import Tensor

    from ..data.examples import Batch
    from ._base import LossCallback

__all__ = ["Naive"]


class Naive(Strategy):
    """Plain gradient descent on the batch at hand.

    Plasticity is the loss of the batch, stability is nothing (De Lange et al. 2023, section 5).
    """

    @override
    def step(self, new: Batch, *others: Batch, on_loss_terms: LossCallback | None = None) -> Tensor:
        loss = cross_entropy(self.model(new.x, new.task), new.y)
        if on_loss_terms is not None:
            on_loss_terms(loss, [])
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()
