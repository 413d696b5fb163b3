"""GDumb: keep a balanced memory, and train on nothing else when asked (Prabhu et al. 2020)."""

from __future__ import annotations

from math import cos, pi
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
from torch.nn.functional import cross_entropy
from typing_extensions import override

from ..record import InputError
from ._base import NOTHING, Strategy
from ._memory import reservoir_sample
from ._restart import initial_state, restart

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from ..data.examples import Batch, Examples
    from ..models import Network
    from ._base import LossCallback, Rows

__all__ = ["GDumb"]

LOWEST = 0.01  # share of the learning rate that annealing ends at


class GDumb(Strategy):
    """Learns nothing while a task streams by; when it ends, trains from scratch on a memory.

    So whoever tests the model in the middle of a task tests the one trained after the task before,
    or the initial one; and what is tested after every step (min_acc, wf, the stability gap) sees a
    task's model from the first step of the next task on, the last one's only in whole sets. The
    memory holds the same number of examples of each class seen, as far as
    there are so many. Each training begins with the initial weights, a new optimizer state, and the
    run's own optimizer and learning rate. There are no terms of a loss to record while tasks stream
    by. The paper's CutMix, its clipping of gradients and its first pass at a tenth of the learning
    rate are left out.

    Args:
        model: the network to train.
        optimizer: an optimizer over its parameters.
        examples: what the rows stand for.
        seed: of the memory's choice and of the order it is learned in.
        memory: how many examples are kept in all; 0 leaves the initial weights.
        passes: over the memory, when a task ends; the paper's code has 256, of which 255 are
            whole cosines.
        portion: examples in a step of these, at most; steps of a pass are equally large.
        annealed: lower the learning rate to a hundredth along a cosine, again and again over 1, 2,
            4, 8, … passes, as the paper does.
    """

    requires_boundaries: ClassVar[bool] = True
    trains_at_task_end: ClassVar[bool] = True

    def __init__(
        self,
        model: Network,
        optimizer: torch.optim.Optimizer,
        examples: Examples,
        *,
        seed: int = 0,
        memory: int = 1000,
        passes: int = 255,
        portion: int = 16,
        annealed: bool = True,
    ) -> None:
        super().__init__(model, optimizer, examples, seed=seed)
        for name, value, least in (
            ("memory", memory, 0), ("passes", passes, 1), ("portion", portion, 1),
        ):  # fmt: skip
            if value < least:
                raise InputError(f"{name} is {value}, expected a whole number of at least {least}")
        self.capacity, self.passes, self.portion = memory, passes, portion
        self.annealed = annealed
        self.memory = NOTHING
        self.initial = initial_state(model)
        self._priority = np.random.default_rng([seed, 4]).random(len(examples))

    @override
    def step(self, new: Batch, *others: Batch, on_loss_terms: LossCallback | None = None) -> Tensor:
        if on_loss_terms is not None:
            on_loss_terms([], [])
        return torch.zeros((), device=new.x.device)

    @override
    def end_task(self, task: int, rows: Rows) -> None:
        seen = np.concatenate([self.memory, rows])
        self.memory = reservoir_sample(seen, self.examples.labels, self._priority, self.capacity)
        restart(self.model, self.optimizer, self.initial)
        order = np.random.default_rng([self.seed, 8, task])
        rates = [group["lr"] for group in self.optimizer.param_groups]
        for turn in range(self.passes if len(self.memory) else 0):
            factor = annealing(turn) if self.annealed else 1.0
            for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
                group["lr"] = rate * factor
            shuffled = order.permutation(self.memory)
            for part in np.array_split(shuffled, -(-len(shuffled) // self.portion)):
                self._learn(self.examples.take(part))
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate

    @override
    def memory_rows(self) -> Rows:
        return self.memory

    @override
    def auxiliary_tensors(self) -> Sequence[Tensor]:
        return list(self.initial.values())

    def _learn(self, batch: Batch) -> None:
        loss = cross_entropy(self.model(batch.x, batch.task), batch.y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


def annealing(turn: int) -> float:
    """Return the factor of the learning rate in a pass: cosines over 1, 2, 4, 8, … passes.

    Example:
        >>> [round(annealing(turn), 3) for turn in range(6)]
        [1.0, 1.0, 0.505, 1.0, 0.855, 0.505]
    """
    length = 1
    while turn >= length:
        turn, length = turn - length, 2 * length
    return LOWEST + (1 - LOWEST) * (1 + cos(pi * turn / length)) / 2
