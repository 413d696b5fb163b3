"""A-GEM, averaged gradient episodic memory: one constraint for all old tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from typing_extensions import override

from .._random_streams import random_stream
from ._base import NO_ROWS, Batch, Examples, LossCallback, Network, Rows, Strategy
from ._importance import trainable_weights
from .registry import check_ranges
from .replay import reservoir_sample

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch.optim import Optimizer

__all__ = ["AGEM"]


class AGEM(Strategy):
    """Projects the gradient of a batch so that it does not oppose that of old examples.

    In each step, examples are sampled from the memories of all old tasks; g_ref is the gradient of
    their mean loss. If the inner product of the batch's gradient g with g_ref is negative, the step
    uses g - (g . g_ref / g_ref . g_ref) g_ref (Chaudhry et al. 2019). Plasticity is g, stability
    the correction (De Lange et al. 2023, eq. 9).

    A memory holds randomly chosen examples of its task. BatchNorm sees the sampled examples as a
    separate batch, which updates its running statistics. Momentum and Adam add earlier gradients,
    so that only with plain SGD the update itself never opposes g_ref. With one head per task a step
    waits for the device to find out whether an old head has to be updated.

    Args:
        model: the network to train.
        optimizer: the optimizer of the model's parameters.
        examples: the training examples of all tasks.
        seed: the seed of which examples are stored and sampled.
        memory: the number of stored examples per task; 0 is naive.
        sample: the number of examples sampled per step, without replacement.
    """

    capturable = True

    requires_boundaries: ClassVar[bool] = True

    def __init__(
        self,
        model: Network,
        optimizer: Optimizer,
        examples: Examples,
        *,
        seed: int = 0,
        memory: int = 256,
        sample: int = 64,
    ) -> None:
        super().__init__(model, optimizer, examples, seed=seed)
        self.capturable = model.opened is None  # `step` waits for the GPU to learn about heads
        check_ranges("agem", {"memory": memory, "sample": sample})
        self.capacity, self.sample = memory, sample
        self.memory = NO_ROWS
        self.draws = random_stream("memory_draws", seed)
        self._priority = random_stream("memory_priority", seed).random(len(examples))
        self._weights = trainable_weights(model)

    @override
    def select_rows(self, new: Rows) -> tuple[Rows, ...]:
        if not len(self.memory):
            return (new,)
        size = min(self.sample, len(self.memory))
        return new, self.draws.choice(self.memory, size, replace=False, shuffle=False)

    @override
    def step(self, new: Batch, *others: Batch, on_loss_terms: LossCallback | None = None) -> Tensor:
        old: tuple[Tensor | None, ...] = ()
        if others:
            reference = cross_entropy(self.model(others[0].x, others[0].task), others[0].y)
            old = torch.autograd.grad(reference, self._weights, allow_unused=True)
        loss = cross_entropy(self.model(new.x, new.task), new.y)
        self.optimizer.zero_grad()
        loss.backward()
        gradients = [weight.grad for weight in self._weights]
        scale = _correction(gradients, old) if others else loss.new_zeros(())
        if on_loss_terms is not None:
            on_loss_terms(gradients, [None if g is None else scale * g for g in old])
        for weight, reference_gradient in zip(self._weights, old, strict=False):
            if reference_gradient is None:
                continue
            if weight.grad is not None:
                weight.grad.addcmul_(reference_gradient, scale)
            elif (correction := reference_gradient * scale).any():
                weight.grad = correction  # a zero would let decay and momentum move an old head
        self.optimizer.step()
        return loss.detach()

    @override
    def end_task(self, task: int, rows: Rows) -> None:
        chosen = reservoir_sample(rows, None, self._priority, self.capacity)
        self.memory = np.union1d(self.memory, chosen)

    @override
    def memory_rows(self) -> Rows:
        return self.memory


def _correction(gradients: Sequence[Tensor | None], old: Sequence[Tensor | None]) -> Tensor:
    """Return the multiple of `old` that raises a negative inner product to 0, else 0."""
    pairs = [(g, o.flatten()) for g, o in zip(gradients, old, strict=True) if o is not None]
    products = [torch.dot(g.flatten(), o) for g, o in pairs if g is not None]
    length = torch.stack([torch.dot(o, o) for _, o in pairs]).sum()
    product = torch.stack([length.new_zeros(()), *products]).sum()
    # Written without a branch, which would wait for the device.
    return -product.clamp(max=0) / length.clamp(min=torch.finfo(length.dtype).tiny)
