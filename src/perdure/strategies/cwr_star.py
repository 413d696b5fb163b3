"""CWR*: last-layer weights are kept per class, all other layers are frozen."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from typing_extensions import override

from ..record import InputError
from ._base import Batch, Examples, LossCallback, Network, Rows, Strategy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torch.optim import Optimizer

__all__ = ["CWRStar"]

UNSEEN_BIAS = -32768.0  # the bias of a class without examples so far


class CWRStar(Strategy):
    """Trains the whole network on the first task and only the last layer afterwards, per class.

    A task is learned with temporary last-layer weights: the saved ones for its classes, 0 for all
    others. At the end of the task they are shifted by their mean over the task's classes and saved
    for these; if a class was seen before, the new and the saved weights are averaged, with a weight
    of sqrt(examples seen before / examples seen now) for the saved ones. All other layers are
    frozen after the first task, including the statistics of BatchNorm (Lomonaco et al. 2020).

    At every step, the evaluated model has the last layer that it would have if the task ended
    there. A class without examples so far has no weights and is never predicted (its bias is
    -32768, if the layer has one). With one head per task, the same holds for the rows of each head.
    Plasticity is the loss of the batch; there is no stability term.

    Args:
        model: the network to train; its last operation is an `nn.Linear`.
        optimizer: the optimizer of the model's parameters.
        examples: the training examples of all tasks.
        seed: not used.
    """

    capturable = True

    requires_boundaries: ClassVar[bool] = True

    def __init__(
        self, model: Network, optimizer: Optimizer, examples: Examples, *, seed: int = 0
    ) -> None:
        super().__init__(model, optimizer, examples, seed=seed)
        heads = list(model.head) if isinstance(model.head, nn.ModuleList) else [model.head]
        if not all(isinstance(head, nn.Linear) for head in heads):
            raise InputError(
                "cwr-star requires a model that ends in an nn.Linear, and this one does not; use "
                "another model or strategy"
            )
        self.learned = 0  # the number of tasks learned
        self.seen = torch.zeros(model.outputs, device=examples.device)  # examples per class so far
        self.new = torch.zeros_like(self.seen)  # examples per class of this task
        self._last = [weight for head in heads for weight in head.parameters()]
        numbers = torch.arange(model.outputs, device=examples.device)
        per_head = numbers.split([head.out_features for head in heads])
        self._classes = [  # of each weight in `_last`
            classes
            for head, classes in zip(heads, per_head, strict=True)
            for _ in head.parameters()
        ]
        self.saved = [torch.zeros_like(weight.detach()) for weight in self._last]
        self.temporary = [torch.zeros_like(weight) for weight in self.saved]

    @override
    @torch.no_grad()
    def begin_task(self, task: int, rows: Rows) -> Rows:
        counts = np.bincount(self.examples.labels[rows], minlength=self.model.outputs)
        self.new.copy_(torch.tensor(counts))
        known = (self.new > 0) & (self.seen > 0)
        for weight, saved, classes in zip(self.temporary, self.saved, self._classes, strict=True):
            weight.copy_(torch.where(_align(known[classes], weight), saved, 0.0))
        for last in self._last:  # the weights are replaced: their momentum no longer applies
            self.optimizer.state.pop(last, None)
        self._write(self._merge())
        return rows

    @override
    def step(self, new: Batch, *others: Batch, on_loss_terms: LossCallback | None = None) -> Tensor:
        self._write(self.temporary)
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
        self._write(self._merge())
        return loss.detach()

    @override
    def end_task(self, task: int, rows: Rows) -> None:
        for saved, merged in zip(self.saved, self._merge(), strict=True):
            saved.copy_(merged)
        self.seen += self.new
        self.learned += 1

    @override
    def regularizer_state(self) -> Sequence[Tensor]:
        return [*self.saved, *self.temporary]

    def _merge(self) -> list[Tensor]:
        """Return the last-layer weights that would be saved if the task ended now."""
        result = []
        for weight, saved, classes in zip(self.temporary, self.saved, self._classes, strict=True):
            now, before = _align(self.new[classes], weight), _align(self.seen[classes], weight)
            is_new = (now > 0).expand_as(weight)
            mean = torch.where(is_new, weight, 0.0).sum() / is_new.sum().clamp(min=1)
            past = (before / now.clamp(min=1)).sqrt()
            mixed = (torch.where(before > 0, saved, 0.0) * past + weight - mean) / (past + 1)
            merged = torch.where(is_new, mixed, saved)
            if weight.dim() == 1:  # a bias; that of a head without examples stays 0
                came = (now > 0) | (before > 0)
                merged = torch.where(came | ~came.any(), merged, UNSEEN_BIAS)
            result.append(merged)
        return result

    @torch.no_grad()
    def _write(self, weights: Sequence[Tensor]) -> None:
        """Copy weights into the last layer."""
        for last, weight in zip(self._last, weights, strict=True):
            last.copy_(weight)


def _align(per_class: Tensor, weight: Tensor) -> Tensor:
    """Return one number per class in a shape that broadcasts over the weights or the bias."""
    return per_class.view(-1, *[1] * (weight.dim() - 1))


@contextmanager
def _frozen(body: nn.Module) -> Iterator[None]:
    """Run the body in evaluation mode and without gradients."""
    modes = [(module, module.training) for module in body.modules()]
    body.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, training in modes:
            module.training = training
