"""CWR*: last-layer weights kept for each class, the rest frozen (Lomonaco et al. 2020)."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from typing_extensions import override

from ..record import InputError
from ._base import Strategy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..data.examples import Batch, Examples
    from ..models import Network
    from ._base import LossCallback, Rows

__all__ = ["CWRStar"]

NEVER = -32768.0  # the bias of a class that never came


class CWRStar(Strategy):
    """Learns the first task whole, and of later ones the last layer alone, class by class.

    A task is learned with temporary weights of the last layer: those kept for its classes, 0 for
    all others. When it ends, they are shifted by their mean over the task's classes and kept for
    these; where a class was seen before, new and kept weights are averaged, the kept ones counting
    sqrt(times seen before / times seen now). The layers before are frozen after the first task,
    BatchNorm's statistics included.

    The model that is tested has, at every step, the last layer that it would have if the task ended
    there. A class that never came has no weights and is not named (its bias is -32768, where the
    layer has one). With a head for each task, the same holds for the rows of each head. Plasticity
    is the loss of the batch, stability is nothing.

    Args:
        model: the network to train; its last operation is an `nn.Linear`.
        optimizer: an optimizer over its parameters.
        examples: what the rows stand for.
        seed: not used.
    """

    requires_boundaries: ClassVar[bool] = True

    def __init__(
        self,
        model: Network,
        optimizer: torch.optim.Optimizer,
        examples: Examples,
        *,
        seed: int = 0,
    ) -> None:
        super().__init__(model, optimizer, examples, seed=seed)
        heads = list(model.head) if isinstance(model.head, nn.ModuleList) else [model.head]
        if not all(isinstance(head, nn.Linear) for head in heads):
            raise InputError(
                "cwr-star keeps the weights of a last layer, and the model does not end in an "
                "nn.Linear; end it so, or take another strategy"
            )
        self.learned = 0  # tasks
        self.seen = torch.zeros(model.outputs, device=examples.device)  # examples of each class
        self.new = torch.zeros_like(self.seen)  # those of this task
        self._last = [weight for head in heads for weight in head.parameters()]
        classes = torch.arange(model.outputs, device=examples.device)
        each = classes.split([head.out_features for head in heads])
        self._classes = [
            mine for head, mine in zip(heads, each, strict=True) for _ in head.parameters()
        ]
        self.saved = [torch.zeros_like(weight.detach()) for weight in self._last]
        self.temporary = [torch.zeros_like(weight) for weight in self.saved]

    @override
    @torch.no_grad()
    def begin_task(self, task: int, rows: Rows) -> Rows:
        counts = np.bincount(self.examples.labels[rows], minlength=self.model.outputs)
        self.new.copy_(torch.tensor(counts))
        known = (self.new > 0) & (self.seen > 0)
        for weight, saved, mine in zip(self.temporary, self.saved, self._classes, strict=True):
            weight.copy_(torch.where(_beside(known[mine], weight), saved, 0.0))
        for last in self._last:  # temporary weights are new ones: no momentum of others
            self.optimizer.state.pop(last, None)
        self._show()
        return rows

    @override
    def step(self, new: Batch, *others: Batch, on_loss_terms: LossCallback | None = None) -> Tensor:
        self._put(self.temporary)
        with _frozen(self.model.body) if self.learned else nullcontext():
            features = self.model.body(new.x)
        loss = cross_entropy(self.model.classify(features, new.task), new.y)
        if on_loss_terms is not None:
            on_loss_terms(loss, [])
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        for weight, last in zip(self.temporary, self._last, strict=True):
            weight.copy_(last.detach())
        self._show()
        return loss.detach()

    @override
    def end_task(self, task: int, rows: Rows) -> None:
        for saved, merged in zip(self.saved, self._merged(), strict=True):
            saved.copy_(merged)
        self.seen += self.new
        self.learned += 1

    @override
    def regularizer_state(self) -> Sequence[Tensor]:
        return [*self.saved, *self.temporary]

    def _merged(self) -> list[Tensor]:
        """Return the last layer's weights as they would be kept if the task ended now."""
        found = []
        for weight, saved, mine in zip(self.temporary, self.saved, self._classes, strict=True):
            now, before = _beside(self.new[mine], weight), _beside(self.seen[mine], weight)
            is_new = (now > 0).expand_as(weight)
            mean = torch.where(is_new, weight, 0.0).sum() / is_new.sum().clamp(min=1)
            past = (before / now.clamp(min=1)).sqrt()
            mixed = (torch.where(before > 0, saved, 0.0) * past + weight - mean) / (past + 1)
            kept = torch.where(is_new, mixed, saved)
            if weight.dim() == 1:  # a bias; a head that no class came to stays at 0
                came = (now > 0) | (before > 0)
                kept = torch.where(came | ~came.any(), kept, NEVER)
            found.append(kept)
        return found

    def _show(self) -> None:
        """Let the model have the last layer that it would have if the task ended now."""
        self._put(self._merged())

    @torch.no_grad()
    def _put(self, weights: Sequence[Tensor]) -> None:
        for last, weight in zip(self._last, weights, strict=True):
            last.copy_(weight)


def _beside(of_classes: Tensor, weight: Tensor) -> Tensor:
    """Return a number for each class in a shape that goes with its weights, or its bias."""
    return of_classes.view(-1, *[1] * (weight.dim() - 1))


@contextmanager
def _frozen(body: nn.Module) -> Iterator[None]:
    """Hold a body as in a test, without gradients: BatchNorm's statistics stay."""
    modes = [(module, module.training) for module in body.modules()]
    body.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, training in modes:
            module.training = training
