"""Training on everything seen so far: the upper bound of what can be kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
from typing_extensions import override

from ._base import NOTHING
from ._restart import initial_state, restart
from .naive import Naive

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch
    from torch import Tensor

    from ..data.examples import Examples
    from ..models import Network
    from ._base import Rows

__all__ = ["Cumulative"]


class Cumulative(Naive):
    """Learns each task's examples together with those of all tasks before.

    Args:
        model: the network to train.
        optimizer: an optimizer over its parameters.
        examples: what the rows stand for.
        seed: not used.
        restart: begin each task from the initial weights, as Diaz-Rodriguez et al. (2018) do;
            False goes on from the last ones, as the code of M2I does.
    """

    requires_boundaries: ClassVar[bool] = True

    def __init__(
        self,
        model: Network,
        optimizer: torch.optim.Optimizer,
        examples: Examples,
        *,
        seed: int = 0,
        restart: bool = True,
    ) -> None:
        super().__init__(model, optimizer, examples, seed=seed)
        self.restart = restart
        self.initial = initial_state(model) if restart else {}
        self.seen = NOTHING

    @override
    def begin_task(self, task: int, rows: Rows) -> Rows:
        if self.restart:
            restart(self.model, self.optimizer, self.initial)
        return np.concatenate([self.seen, rows])

    @override
    def end_task(self, task: int, rows: Rows) -> None:
        self.seen = np.concatenate([self.seen, rows])

    @override
    def memory_rows(self) -> Rows:
        return self.seen

    @override
    def auxiliary_tensors(self) -> Sequence[Tensor]:
        return list(self.initial.values())
