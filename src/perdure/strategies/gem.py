"""GEM, gradient episodic memory: no step may increase the loss on the memory of an old task."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from typing_extensions import override

from .._random_streams import random_stream
from ._base import NO_ROWS, Batch, Examples, LossCallback, Network, Rows, Strategy
from ._importance import trainable_weights
from .registry import check_ranges, follows_avalanche
from .replay import reservoir_sample

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from torch.optim import Optimizer

    Reals = NDArray[np.float64]

__all__ = ["GEM", "project_gradient"]

RIDGE = 1e-12  # added to the diagonal of the Gram matrix of unit vectors
TOLERANCE = 1e-12  # of the constraints, relative to the length of the gradient
MAX_REFINEMENTS = 20
AVALANCHE_RIDGE = 1e-3


class GEM(Strategy):
    """Projects the gradient of a batch so that it does not oppose the gradient of any old task.

    Each old task has a memory; g_k is the gradient of the mean loss over all of it. If the batch's
    gradient g has a negative inner product with any g_k, it is replaced by the closest vector that
    has none (Lopez-Paz & Ranzato 2017). Plasticity is g, stability the correction (De Lange et al.
    2023, eq. 9).

    A memory holds randomly chosen examples of its task; the paper's code keeps the last ones. As in
    that code, BatchNorm sees each memory as a separate batch, which updates its running statistics.
    The projection is computed on the CPU, so a step waits for the device. Momentum and Adam add
    earlier gradients, so that only with plain SGD the update itself satisfies the constraints.

    With `implementation="avalanche-0.2.1"` the strategy computes what that version of Avalanche
    does: a memory holds the first examples of its task in the order of the dataset (of one class,
    where the dataset is sorted by class), and .001 is added to the diagonal of the Gram matrix of
    the g_k, which weakens the correction where gradients are short.

    Args:
        model: the network to train.
        optimizer: the optimizer of the model's parameters.
        examples: the training examples of all tasks.
        seed: the seed of which examples are stored.
        memory: the number of stored examples per task; 0 is naive.
        strength: gamma, the minimum weight of each g_k in a projection; larger values favor the old
            tasks.
        implementation: `perdure` or `avalanche-0.2.1`.
    """

    requires_boundaries: ClassVar[bool] = True

    def __init__(
        self,
        model: Network,
        optimizer: Optimizer,
        examples: Examples,
        *,
        seed: int = 0,
        memory: int = 256,
        strength: float = 0.5,
        implementation: Literal["perdure", "avalanche-0.2.1"] = "perdure",
    ) -> None:
        super().__init__(model, optimizer, examples, seed=seed)
        check_ranges("gem", {"memory": memory, "strength": strength})
        self.capacity, self.strength = memory, strength
        self._avalanche = follows_avalanche(implementation)
        self.memory: list[Rows] = []
        self._priority = random_stream("memory_priority", seed).random(len(examples))
        self._weights = trainable_weights(model)
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
            gradient = _flatten(plasticity, self._weights)
            ridge = AVALANCHE_RIDGE if self._avalanche else 0.0
            projected = project_gradient(gradient, old, self.strength, ridge)
            if projected is not gradient:
                plasticity, stability = [gradient], [projected - gradient]
                self._write(projected)
        if on_loss_terms is not None:
            on_loss_terms(plasticity, stability)
        self.optimizer.step()
        return loss.detach()

    @override
    def end_task(self, task: int, rows: Rows) -> None:
        if self._avalanche:
            chosen = np.sort(rows)[: self.capacity]
        else:
            chosen = reservoir_sample(rows, None, self._priority, self.capacity)
        if len(chosen):
            self.memory.append(chosen)

    @override
    def memory_rows(self) -> Rows:
        return np.unique(np.concatenate([NO_ROWS, *self.memory]))

    def _write(self, gradient: Tensor) -> None:
        """Write a flat gradient into the gradients of the weights."""
        parts = gradient.split([weight.numel() for weight in self._weights])
        for weight, part in zip(self._weights, parts, strict=True):
            if weight.grad is None:
                if not part.any():
                    continue  # a zero would let decay and momentum move an old head
                weight.grad = torch.empty_like(weight)
            weight.grad.copy_(part.view(weight.shape))

    def _gradients(self, memories: tuple[Batch, ...]) -> Tensor:
        """Return the gradients of the memories' mean losses as rows of a matrix."""
        size = sum(weight.numel() for weight in self._weights)
        if self._old.shape != (len(memories), size):
            self._old = self._weights[0].new_zeros((len(memories), size))
        for row, batch in zip(self._old, memories, strict=True):
            loss = cross_entropy(self.model(batch.x, batch.task), batch.y)
            gradients = torch.autograd.grad(loss, self._weights, allow_unused=True)
            row.copy_(_flatten(gradients, self._weights))
        return self._old


def project_gradient(
    gradient: Tensor, old: Tensor, strength: float = 0.0, ridge: float = 0.0
) -> Tensor:
    """Return the vector closest to `gradient` with no negative inner product with a row of `old`.

    It is gradient + old^T v, where v >= 0 minimizes its length: the dual of the projection, a
    non-negative least squares problem with one unknown per row. With `strength`, v >= strength as
    in the paper's code, which satisfies the constraints as well. If no inner product is negative,
    `gradient` itself is returned. With `ridge`, ridge x v^2 / 2 is minimized too: v is smaller, and
    the constraints hold only approximately.

    Example:
        >>> project_gradient(torch.tensor([2.0, -3.0]), torch.tensor([[1.0, 1.0]]))
        tensor([ 2.5000, -2.5000])
    """
    # float32 is too coarse for similar rows; MPS has nothing else
    device = torch.device("cpu") if old.device.type == "mps" else old.device
    rows, target = old.to(device, torch.float64), gradient.to(device, torch.float64)
    products = (rows @ target).cpu().numpy()
    if (products >= 0).all():
        return gradient
    gram = (rows @ rows.T).cpu().numpy() + ridge * np.eye(len(rows))
    if not (np.isfinite(products).all() and np.isfinite(gram).all()):
        return gradient  # the training loop reports a loss that is not finite
    # Rows are scaled to unit length, so that all count alike: u + least = length * v.
    length = np.sqrt(gram.diagonal())
    length[length == 0] = 1
    gram /= np.outer(length, length)
    least = strength * length
    solution = _minimize_length(gram, products / length + gram @ least, float(target.norm()))
    v = torch.tensor((solution + least) / length, device=device)
    return (target + v @ rows).to(gradient)


def _minimize_length(gram: Reals, target: Reals, size: float) -> Reals:
    """Return the u >= 0 that minimizes u^T gram u / 2 + target^T u.

    If rows are linearly dependent, u is not unique and could grow without bound. A small ridge
    keeps it close to the previous u; this proximal step is repeated until it converges.
    """
    from scipy.optimize import nnls  # imported here because it takes half a second

    lower = np.linalg.cholesky(gram + RIDGE * np.eye(len(gram)))
    u = np.zeros(len(gram))
    for _ in range(MAX_REFINEMENTS):
        previous = u
        u, _ = nnls(lower.T, -np.linalg.solve(lower, target - RIDGE * previous))
        if RIDGE * np.abs(u - previous).max() <= TOLERANCE * size:
            break
    return u


def _flatten(gradients: Sequence[Tensor | None], weights: Sequence[Tensor]) -> Tensor:
    """Return gradients as one vector, with zeros for missing ones."""
    pairs = zip(gradients, weights, strict=True)
    return torch.cat([(torch.zeros_like(w) if g is None else g).flatten() for g, w in pairs])
