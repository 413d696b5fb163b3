"""Gradient episodic memory: no step may raise the loss of a memory (Lopez-Paz & Ranzato 2017)."""

from __future__ import annotations

from math import inf
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

    from numpy.typing import NDArray

    from ..data.examples import Batch, Examples
    from ..models import Network
    from ._base import LossCallback, Rows

    Reals = NDArray[np.float64]

__all__ = ["GEM", "projected"]

HELD = 1e-12  # added to the diagonal of products of rows of length 1
EXACT = 1e-12  # a product may be below 0 by so much of the gradient's length
MOST = 20  # times that the projection is refined


class GEM(Strategy):
    """Turns the gradient of a batch until it points against the gradient of no old task.

    Each old task has a memory, and its gradient g_k is that of the mean loss over all of it. Where
    the batch's gradient g has a negative product with some g_k, it is replaced by the nearest one
    that has none; otherwise it stays as it is. Plasticity is g, stability what is added to it
    (De Lange et al. 2023, eq. 9).

    A memory holds examples of its task chosen at random; the paper's code keeps the last ones.
    BatchNorm sees each memory as a batch of its own, and its running statistics follow, as in the
    paper's code. The products are solved for on the processor: a step waits for the device.
    Momentum and Adam carry earlier gradients along: only for plain SGD is the step itself without a
    negative product.

    Args:
        model: the network to train.
        optimizer: an optimizer over its parameters.
        examples: what the rows stand for.
        seed: of the memory's choice.
        memory: examples kept of each task; 0 is naive.
        strength: gamma, the least weight of each g_k where a product is negative: more favours
            the old tasks.
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
        strength: float = 0.5,
    ) -> None:
        super().__init__(model, optimizer, examples, seed=seed)
        if memory < 0:
            raise InputError(f"memory is {memory}, expected 0 or more examples of each task")
        if not 0 <= strength < inf:
            raise InputError(f"strength is {strength:g}, expected 0 or more")
        self.capacity, self.strength = memory, strength
        self.memory: list[Rows] = []
        self._priority = np.random.default_rng([seed, 4]).random(len(examples))
        self._weights = weights_of(model)
        self._old = torch.zeros(0)

    @override
    def select_rows(self, new: Rows) -> tuple[Rows, ...]:
        return (new, *self.memory)

    @override
    def step(self, new: Batch, *others: Batch, on_loss_terms: LossCallback | None = None) -> Tensor:
        old = self._gradients(others)
        loss = cross_entropy(self.model(new.x, new.task), new.y)
        self.optimizer.zero_grad()
        loss.backward()
        plasticity, stability = [weight.grad for weight in self._weights], list[Tensor]()
        if others:
            gradient = _flat(plasticity, self._weights)
            turned = projected(gradient, old, self.strength)
            if turned is not gradient:
                plasticity, stability = [gradient], [turned - gradient]
                self._write(turned)
        if on_loss_terms is not None:
            on_loss_terms(plasticity, stability)
        self.optimizer.step()
        return loss.detach()

    @override
    def end_task(self, task: int, rows: Rows) -> None:
        chosen = reservoir_sample(
            rows, np.zeros(len(self.examples), np.int64), self._priority, self.capacity
        )
        if len(chosen):
            self.memory.append(chosen)

    @override
    def memory_rows(self) -> Rows:
        return np.unique(np.concatenate([NOTHING, *self.memory]))

    def _write(self, gradient: Tensor) -> None:
        """Put a flat gradient into those of the weights."""
        parts = gradient.split([weight.numel() for weight in self._weights])
        for weight, part in zip(self._weights, parts, strict=True):
            if weight.grad is None:
                if not part.any():
                    continue  # a head that nothing pulls: no decay, no momentum either
                weight.grad = torch.empty_like(weight)
            weight.grad.copy_(part.view(weight.shape))

    def _gradients(self, memories: tuple[Batch, ...]) -> Tensor:
        """Return the gradient of each memory's mean loss, one flat row each."""
        size = sum(weight.numel() for weight in self._weights)
        if self._old.shape != (len(memories), size):
            self._old = self._weights[0].new_zeros((len(memories), size))
        for row, batch in zip(self._old, memories, strict=True):
            loss = cross_entropy(self.model(batch.x, batch.task), batch.y)
            found = torch.autograd.grad(loss, self._weights, allow_unused=True)
            row.copy_(_flat(found, self._weights))
        return self._old


def projected(gradient: Tensor, old: Tensor, strength: float = 0.0) -> Tensor:
    """Return the gradient nearest to `gradient` that has no negative product with a row of `old`.

    It is gradient + old^T v, where v >= 0 minimises its length: the dual of the projection, a
    non-negative least squares problem with one unknown a row. With `strength`, v >= strength, as
    in the paper's code: no product is negative then either. Without a negative product `gradient`
    itself is returned.

    Example:
        >>> projected(torch.tensor([2.0, -3.0]), torch.tensor([[1.0, 1.0]]))
        tensor([ 2.5000, -2.5000])
    """
    rows, wanted = old.double(), gradient.double()  # in float32 near rows give noise
    products = (rows @ wanted).cpu().numpy()
    if (products >= 0).all():
        return gradient
    gram = (rows @ rows.T).cpu().numpy()
    if not (np.isfinite(products).all() and np.isfinite(gram).all()):
        return gradient  # a loss that is not finite stops the run elsewhere
    # Rows of length 1, so that a short one counts as much as a long one: w = length * v.
    length = np.sqrt(gram.diagonal())
    length[length == 0] = 1
    gram /= np.outer(length, length)
    least = strength * length
    solved = _least_length(gram, products / length + gram @ least, float(wanted.norm()))
    v = torch.tensor((solved + least) / length, device=old.device)
    return (wanted + v @ rows).to(gradient.dtype)


def _least_length(gram: Reals, target: Reals, size: float) -> Reals:
    """Return the u >= 0 that minimises u^T gram u / 2 + target^T u.

    Where rows depend on each other, u would be free to grow without bounds. A little more on the
    diagonal holds it near the last u; that is repeated until it makes no difference.
    """
    from scipy.optimize import nnls  # imported here: it takes half a second

    lower = np.linalg.cholesky(gram + HELD * np.eye(len(gram)))
    found = np.zeros(len(gram))
    for _ in range(MOST):
        last = found
        found, _ = nnls(lower.T, -np.linalg.solve(lower, target - HELD * last))
        if HELD * np.abs(found - last).max() <= EXACT * size:
            break
    return found


def _flat(gradients: Sequence[Tensor | None], weights: Sequence[Tensor]) -> Tensor:
    """Return gradients as one vector, 0 where there is none."""
    pairs = zip(gradients, weights, strict=True)
    return torch.cat([(torch.zeros_like(w) if g is None else g).flatten() for g, w in pairs])
