"""Experience replay: old examples alongside the new ones in every step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from torch.nn.functional import cross_entropy
from typing_extensions import override

from .._random_streams import random_stream
from ..data.examples import concatenate
from ..record import InputError
from ._base import NO_ROWS, Batch, Examples, LossCallback, Network, Rows, Strategy
from ._memory import reservoir_sample
from .registry import check_ranges

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer

__all__ = ["Replay"]

FILLS, BALANCES = ("end", "reservoir"), ("class", "task", "none")


class Replay(Strategy):
    """Trains on each batch together with examples drawn from a memory of fixed size.

    The loss is alpha x the mean loss of the new examples + (1 - alpha) x the mean loss of the
    replayed ones (De Lange et al. 2023, eq. 8), also in the first task, when nothing is replayed
    yet. Plasticity and stability are these two means. BatchNorm sees both as one batch.

    The defaults are those of De Lange et al. for Split-MNIST, whose code fills the memory at the
    end of a task; their text describes `fill="reservoir"`. Online replay as in Michel et al. (2023)
    is `alpha=None, fill="reservoir", balance="none"`; M2I uses `memory=200, alpha=None,
    balance="task", replacement=True`.

    Args:
        model: the network to train.
        optimizer: the optimizer of the model's parameters.
        examples: the training examples of all tasks.
        seed: the seed of which examples are stored and replayed.
        memory: the number of stored examples; 0 stores none.
        alpha: the weight of the new examples; None takes the mean over all examples of the step.
        fill: add a task's examples to the memory at its end (`end`) or batch by batch
            (`reservoir`).
        balance: divide the memory equally over the seen classes (`class`), over the tasks (`task`),
            or not at all (`none`).
        replay_batch: the number of examples drawn per step; None for as many as there are new ones.
        replacement: whether an example may be drawn twice in a step; if not, a memory with fewer
            examples than requested is replayed completely.
    """

    capturable = True

    def __init__(
        self,
        model: Network,
        optimizer: Optimizer,
        examples: Examples,
        *,
        seed: int = 0,
        memory: int = 2000,
        alpha: float | None = 0.3,
        fill: Literal["end", "reservoir"] = "end",
        balance: Literal["class", "task", "none"] = "class",
        replay_batch: int | None = None,
        replacement: bool = False,
    ) -> None:
        super().__init__(model, optimizer, examples, seed=seed)
        check_ranges("replay", {"memory": memory, "alpha": alpha, "replay_batch": replay_batch})
        if fill not in FILLS:
            raise InputError(f"fill is {fill!r}, expected {' or '.join(FILLS)}")
        if balance not in BALANCES:
            raise InputError(f"balance is {balance!r}, expected {' or '.join(BALANCES)}")
        self.capacity, self.alpha, self.fill, self.balance = memory, alpha, fill, balance
        self.replay_batch, self.replacement = replay_batch, replacement
        self.memory = NO_ROWS
        self.draws = random_stream("memory_draws", seed)
        self._groups = {"class": examples.labels, "task": examples.tasks}.get(balance)
        self._priority = random_stream("memory_priority", seed).random(len(examples))

    @override
    def select_rows(self, new: Rows) -> tuple[Rows, ...]:
        size = len(new) if self.replay_batch is None else self.replay_batch
        if not self.replacement or not len(self.memory):
            size = min(size, len(self.memory))
        old = self.draws.choice(self.memory, size, replace=self.replacement, shuffle=False)
        if self.fill == "reservoir":
            self._update_memory(new)
        return (new, old) if len(old) else (new,)

    @override
    def step(self, new: Batch, *others: Batch, on_loss_terms: LossCallback | None = None) -> Tensor:
        batch, n = (concatenate(new, others[0]) if others else new), len(new.y)
        scores = self.model(batch.x, batch.task)
        plasticity = cross_entropy(scores[:n], batch.y[:n])
        stability = cross_entropy(scores[n:], batch.y[n:]) if others else None
        alpha = n / len(batch.y) if self.alpha is None else self.alpha
        loss = alpha * plasticity
        if stability is not None:
            loss = loss + (1 - alpha) * stability
        if on_loss_terms is not None:
            on_loss_terms(plasticity, [] if stability is None else stability)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    @override
    def end_task(self, task: int, rows: Rows) -> None:
        if self.fill == "end":
            self._update_memory(rows)

    @override
    def memory_rows(self) -> Rows:
        return self.memory

    def _update_memory(self, rows: Rows) -> None:
        seen = np.concatenate([self.memory, rows])
        self.memory = reservoir_sample(seen, self._groups, self._priority, self.capacity)
