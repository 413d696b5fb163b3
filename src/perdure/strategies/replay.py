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
from .registry import check_ranges

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor
    from torch.optim import Optimizer

__all__ = ["Replay", "balanced_quota", "reservoir_sample"]

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


def reservoir_sample(
    rows: Rows, groups: Rows | None, priority: NDArray[np.float64], capacity: int
) -> Rows:
    """Return the rows that a memory of `capacity` examples keeps, balanced over groups.

    Each row has a random priority, and every group keeps the rows with the lowest. At any time the
    rows of a group are therefore a uniform sample of those seen (a reservoir), and a row dropped
    now would never be kept later. Capacity that a small group does not use goes to the others.

    Args:
        rows: the rows kept so far and the new ones; duplicates are allowed.
        groups: the group of every example by row number, such as its class; None for one group.
        priority: the priority of every example by row number.
        capacity: the maximum number of rows to keep.

    Example:
        >>> groups, priority = np.array([0, 0, 0, 1]), np.array([0.3, 0.1, 0.2, 0.9])
        >>> reservoir_sample(np.arange(4), groups, priority, capacity=2)
        array([1, 3])
        >>> reservoir_sample(np.arange(4), groups, priority, capacity=3)
        array([1, 2, 3])
    """
    rows = np.unique(rows)
    group = np.zeros_like(rows) if groups is None else groups[rows]
    order = np.lexsort((priority[rows], group))
    rows, group = rows[order], group[order]
    _, start, counts = np.unique(group, return_index=True, return_counts=True)
    rank = np.arange(len(rows)) - np.repeat(start, counts)
    kept: Rows = rows[rank < np.repeat(balanced_quota(capacity, counts), counts)]
    return kept


def balanced_quota(capacity: int, counts: Rows) -> Rows:
    """Return how many of its `counts` rows each group may keep, as equally as possible.

    Groups with lower numbers get one row more where the capacity does not divide evenly.

    Example:
        >>> balanced_quota(10, np.array([1, 9, 9]))
        array([1, 5, 4])
    """
    quota = np.zeros_like(counts)
    while (left := capacity - int(quota.sum())) > 0:
        (unfilled,) = np.nonzero(counts > quota)
        if not len(unfilled):
            break
        share = left // len(unfilled)
        if share == 0:
            quota[unfilled[:left]] += 1
        else:
            quota[unfilled] = np.minimum(counts[unfilled], quota[unfilled] + share)
    return quota
