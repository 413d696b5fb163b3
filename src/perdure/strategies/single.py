"""Each task by itself, from scratch: what a task's own data can teach."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from typing_extensions import override

from ._restart import initial_state, restart
from .naive import Naive

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch
    from torch import Tensor

    from ..data.examples import Examples
    from ..models import Network
    from ._base import Rows

__all__ = ["Single"]


class Single(Naive):
    """A new start for each task, every time from the same initial weights.

    Its diagonal R[k, k] is the single-task accuracy that forward transfer and intransigence
    compare with.
    """

    requires_boundaries: ClassVar[bool] = True

    def __init__(
        self,
        model: Network,
        optimizer: torch.optim.Optimizer,
        examples: Examples,
        *,
        seed: int = 0,
    ) -> None:
        super().__init__(model, optimizer, examples, seed=seed)
        self.initial = initial_state(model)

    @override
    def begin_task(self, task: int, rows: Rows) -> Rows:
        restart(self.model, self.optimizer, self.initial)
        return rows

    @override
    def auxiliary_tensors(self) -> Sequence[Tensor]:
        return list(self.initial.values())
