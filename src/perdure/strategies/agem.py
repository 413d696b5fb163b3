"""Averaged gradient episodic memory: one constraint for all old tasks (Chaudhry et al. 2019)."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from typing_extensions import override

from ..record import InputError
from ._base import NOTHING, Strategy
from ._importance import weights_of
from ._memory import reservoir_sample

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..data.examples import Batch, Examples
    from ..models import Network
    from ._base import LossCallback, Rows

__all__ = ["AGEM"]


class AGEM(Strategy):
    """Turns the gradient of a batch until it does not point against that of old examples.

    In each step some examples are drawn from the memories of all old tasks; g_ref is the gradient
    of their mean loss. Where the batch's gradient g has a negative product with it, the step takes
    g - (g . g_ref / g_ref . g_ref) g_ref. Plasticity is g, stability what is added to it (De Lange
    et al. 2023, eq. 9).

    A memory holds examples of its task chosen at random. BatchNorm sees the drawn examples as a
    batch of their own, and its running statistics follow. Momentum and Adam carry earlier
    gradients along: only for plain SGD is the step itself without a negative product. With heads
    a step waits for the device, to see whether an old head is pulled.

    Args:
        model: the network to train.
        optimizer: an optimizer over its parameters.
        examples: what the rows stand for.
        seed: of the memory's choices and draws.
        memory: examples kept of each task; 0 is naive.
        sample: how many are drawn a step, without replacement.
    """

    requires_boundaries: ClassVar[bool] = True

    def __init__(
        self,
        model: Network,
        optimizer: torch.optim.Optimizer,
        examples: Examples,
        *,
        seed: int = 0,
        memory: int = 256,
        sample: int = 64,
    ) -> None:
        super().__init__(model, optimizer, examples, seed=seed)
        if memory < 0:
            raise InputError(f"memory is {memory}, expected 0 or more examples of each task")
        if sample < 1:
            raise InputError(f"sample is {sample}, expected 1 or more examples")
        self.capacity, self.sample = memory, sample
        self.memory = NOTHING
        self.draws = np.random.default_rng([seed, 3])
        self._priority = np.random.default_rng([seed, 4]).random(len(examples))
        self._weights = weights_of(model)

    @override
    def select_rows(self, new: Rows) -> tuple[Rows, ...]:
        if not len(self.memory):
            return (new,)
        wanted = min(self.sample, len(self.memory))
        return new, self.draws.choice(self.memory, wanted, replace=False, shuffle=False)

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
        share = _share(gradients, old) if others else loss.new_zeros(())
        if on_loss_terms is not None:
            on_loss_terms(gradients, [None if each is None else share * each for each in old])
        for weight, each in zip(self._weights, old, strict=False):
            if each is None:
                continue
            if weight.grad is not None:
                weight.grad.addcmul_(each, share)
            elif (more := each * share).any():  # else no decay, no momentum of an old head either
                weight.grad = more
        self.optimizer.step()
        return loss.detach()

    @override
    def end_task(self, task: int, rows: Rows) -> None:
        chosen = reservoir_sample(
            rows, np.zeros(len(self.examples), np.int64), self._priority, self.capacity
        )
        self.memory = np.union1d(self.memory, chosen)

    @override
    def memory_rows(self) -> Rows:
        return self.memory


def _share(gradients: Sequence[Tensor | None], old: Sequence[Tensor | None]) -> Tensor:
    """Return how much of `old` brings a negative product of both up to 0, else 0."""
    pairs = [(g, o.flatten()) for g, o in zip(gradients, old, strict=True) if o is not None]
    products = [torch.dot(g.flatten(), o) for g, o in pairs if g is not None]
    length = torch.stack([torch.dot(o, o) for _, o in pairs]).sum()
    product = torch.stack([length.new_zeros(()), *products]).sum()
    # No branch, so that nothing waits for the device.
    return -product.clamp(max=0) / length.clamp(min=torch.finfo(length.dtype).tiny)
