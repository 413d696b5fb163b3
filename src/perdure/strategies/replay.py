"""Experience replay: old examples beside the new ones in every step (Chaudhry et al. 2019)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from torch.nn.functional import cross_entropy
from typing_extensions import override

from ..data.examples import joined
from ..record import InputError
from ._base import NOTHING, Strategy
from ._memory import reservoir_sample

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from ..data.examples import Batch, Examples
    from ..models import Network
    from ._base import LossCallback, Rows

__all__ = ["Replay"]

FILLS, BALANCES = ("end", "reservoir"), ("class", "task", "none")


class Replay(Strategy):
    """Learns each batch together with as many examples drawn from a memory of fixed size.

    The loss is alpha x the mean over the new examples + (1 - alpha) x the mean over the replayed
    ones (De Lange et al. 2023, eq. 8), in the first task too, when nothing is replayed yet.
    Plasticity and stability are these two means. BatchNorm sees both as one batch.

    The defaults are De Lange et al.'s for Split-MNIST, whose code fills the memory at task ends;
    their text has `fill="reservoir"`. Michel et al., online: `alpha=none fill=reservoir
    balance=none`.
    M2I: `memory=200 alpha=none balance=task replacement=true`.

    Args:
        model: the network to train.
        optimizer: an optimizer over its parameters.
        examples: what the rows stand for.
        seed: of the memory's choices and draws.
        memory: how many examples are kept; 0 keeps none.
        alpha: weight of the new examples; None takes one mean over new and old.
        fill: the memory takes a task's examples when it ends, or while they stream by.
        balance: the memory is shared out equally over the classes seen, over the tasks, or not.
        replayed: how many are drawn a step; None for as many as there are new ones.
        replacement: an example may be drawn twice in a step; if not, a memory that holds fewer
            gives all it has.
    """

    def __init__(
        self,
        model: Network,
        optimizer: torch.optim.Optimizer,
        examples: Examples,
        *,
        seed: int = 0,
        memory: int = 2000,
        alpha: float | None = 0.3,
        fill: Literal["end", "reservoir"] = "end",
        balance: Literal["class", "task", "none"] = "class",
        replayed: int | None = None,
        replacement: bool = False,
    ) -> None:
        super().__init__(model, optimizer, examples, seed=seed)
        if memory < 0:
            raise InputError(f"memory is {memory}, expected 0 or more examples")
        if alpha is not None and not 0 <= alpha <= 1:
            raise InputError(f"alpha is {alpha:g}, expected a weight from 0 to 1, or none")
        if replayed is not None and replayed < 0:
            raise InputError(f"replayed is {replayed}, expected 0 or more examples")
        if fill not in FILLS:
            raise InputError(f"fill is {fill!r}, expected {' or '.join(FILLS)}")
        if balance not in BALANCES:
            raise InputError(f"balance is {balance!r}, expected {' or '.join(BALANCES)}")
        self.capacity, self.alpha, self.fill, self.balance = memory, alpha, fill, balance
        self.replayed, self.replacement = replayed, replacement
        self.memory = NOTHING
        self.draws = np.random.default_rng([seed, 3])
        groups = {"class": examples.labels, "task": examples.tasks}
        self._groups = groups.get(balance, np.zeros(len(examples), dtype=np.int64))
        self._priority = np.random.default_rng([seed, 4]).random(len(examples))

    @override
    def select_rows(self, new: Rows) -> tuple[Rows, ...]:
        wanted = len(new) if self.replayed is None else self.replayed
        if not self.replacement or not len(self.memory):
            wanted = min(wanted, len(self.memory))
        old = self.draws.choice(self.memory, wanted, replace=self.replacement, shuffle=False)
        if self.fill == "reservoir":
            self._keep(new)
        return (new, old) if len(old) else (new,)

    @override
    def step(self, new: Batch, *others: Batch, on_loss_terms: LossCallback | None = None) -> Tensor:
        batch, n = (joined(new, others[0]) if others else new), len(new.y)
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
            self._keep(rows)

    @override
    def memory_rows(self) -> Rows:
        return self.memory

    def _keep(self, rows: Rows) -> None:
        """Let the memory see some rows."""
        seen = np.concatenate([self.memory, rows])
        self.memory = reservoir_sample(seen, self._groups, self._priority, self.capacity)
