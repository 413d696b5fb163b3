"""GDumb: train from scratch on a balanced memory at the end of every task."""

from __future__ import annotations

from math import cos, pi
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
from torch.nn.functional import cross_entropy
from typing_extensions import override

from .._random_streams import random_stream
from ._base import NO_ROWS, Batch, Examples, LossCallback, Network, Rows, Strategy
from .baselines import copy_initial_state, reset_model
from .registry import check_ranges
from .replay import reservoir_sample

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor
    from torch.optim import Optimizer

__all__ = ["GDumb"]

FINAL_FACTOR = 0.01  # of the learning rate at the end of a cosine


class GDumb(Strategy):
    """Trains only at the end of a task: from scratch, on a memory (Prabhu et al. 2020).

    An evaluation during a task therefore sees the model trained at the end of the previous task, or
    the initial one. Metrics of every step (min_acc, wf, the stability gap) see a task's model from
    the first step of the next task on; only whole test sets see the last one. The memory holds
    equally many examples of each seen class, as far as available. Each training starts from the
    initial weights and a new optimizer state, with the run's optimizer and learning rate. No loss
    terms are recorded during a task. CutMix, gradient clipping and the first pass at a tenth of the
    learning rate, which the paper uses, are left out.

    Args:
        model: the network to train.
        optimizer: the optimizer of the model's parameters.
        examples: the training examples of all tasks.
        seed: the seed of which examples are stored and of the order of training on them.
        memory: the total number of stored examples; 0 leaves the initial weights.
        passes: the number of passes over the memory at the end of a task; the paper's code has 256,
            of which 255 are complete cosines.
        batch_size: the maximum batch size of this training; all batches of a pass have about the
            same size.
        cosine_annealing: decrease the learning rate to a hundredth along cosines over 1, 2, 4, 8, …
            passes, as the paper does.
    """

    requires_boundaries: ClassVar[bool] = True
    trains_at_task_end: ClassVar[bool] = True

    def __init__(
        self,
        model: Network,
        optimizer: Optimizer,
        examples: Examples,
        *,
        seed: int = 0,
        memory: int = 1000,
        passes: int = 255,
        batch_size: int = 16,
        cosine_annealing: bool = True,
    ) -> None:
        super().__init__(model, optimizer, examples, seed=seed)
        check_ranges("gdumb", {"memory": memory, "passes": passes, "batch_size": batch_size})
        self.capacity, self.passes, self.batch_size = memory, passes, batch_size
        self.cosine_annealing = cosine_annealing
        self.memory = NO_ROWS
        self.initial = copy_initial_state(model)
        self._priority = random_stream("memory_priority", seed).random(len(examples))

    @override
    def step(self, new: Batch, *others: Batch, on_loss_terms: LossCallback | None = None) -> Tensor:
        if on_loss_terms is not None:
            on_loss_terms([], [])
        return torch.zeros((), device=new.x.device)

    @override
    def end_task(self, task: int, rows: Rows) -> None:
        seen = np.concatenate([self.memory, rows])
        self.memory = reservoir_sample(seen, self.examples.labels, self._priority, self.capacity)
        reset_model(self.model, self.optimizer, self.initial)
        order = random_stream("gdumb_order", self.seed, task)
        rates = [group["lr"] for group in self.optimizer.param_groups]
        for epoch in range(self.passes if len(self.memory) else 0):
            factor = cosine_factor(epoch) if self.cosine_annealing else 1.0
            for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
                group["lr"] = rate * factor
            shuffled = order.permutation(self.memory)
            for part in np.array_split(shuffled, -(-len(shuffled) // self.batch_size)):
                self._train_on(self.examples.take(part))
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate

    @override
    def memory_rows(self) -> Rows:
        return self.memory

    @override
    def auxiliary_tensors(self) -> Sequence[Tensor]:
        return list(self.initial.values())

    def _train_on(self, batch: Batch) -> None:
        loss = cross_entropy(self.model(batch.x, batch.task), batch.y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


def cosine_factor(epoch: int) -> float:
    """Return the factor of the learning rate: cosines over 1, 2, 4, 8, … passes over the memory.

    Example:
        >>> [round(cosine_factor(epoch), 3) for epoch in range(6)]
        [1.0, 1.0, 0.505, 1.0, 0.855, 0.505]
    """
    length = 1
    while epoch >= length:
        epoch, length = epoch - length, 2 * length
    return FINAL_FACTOR + (1 - FINAL_FACTOR) * (1 + cos(pi * epoch / length)) / 2
