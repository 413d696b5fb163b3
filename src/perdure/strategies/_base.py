"""The contract every strategy keeps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

if TYPE_CHECKING:
    import torch

    from ..data.examples import Batch, Examples
    from ..models import Network

__all__ = ["LossCallback", "LossTerm", "Rows", "Strategy"]

Rows: TypeAlias = NDArray[np.int64]
LossTerm: TypeAlias = Tensor | Iterable[Tensor | None]
LossCallback: TypeAlias = Callable[[LossTerm, LossTerm], None]

NOTHING: Rows = np.empty(0, dtype=np.int64)


class Strategy(ABC):
    """A learner: a model, an optimizer, and a rule for using one batch.

    The caller owns the loop. For each task it calls `begin_task`, then for every batch
    `select_rows` (which examples, decided on the CPU from the seed alone) and `step` (the update, a
    fixed program on tensors), then `end_task`. Only `step` is required.
    Nothing here evaluates or logs.

    What a strategy keeps besides model and optimizer are attributes that hold tensors, arrays,
    generators, numbers, text, and lists or dicts of those: `training.checkpoint` saves them,
    except where a name begins with _, for what follows from the rest.
    """

    trains_on_all_tasks: ClassVar[bool] = (
        False  # learns from all tasks of a scenario from the start
    )
    requires_boundaries: ClassVar[bool] = False  # is nothing without being told where tasks end
    trains_at_task_end: ClassVar[bool] = False  # of tasks alone: its steps learn nothing
    penalty: ClassVar[str | None] = None  # the hyperparameter that weighs a penalty

    def __init__(
        self,
        model: Network,
        optimizer: torch.optim.Optimizer,
        examples: Examples,
        *,
        seed: int = 0,
    ) -> None:
        self.model = model
        self.optimizer = optimizer
        self.examples = examples
        self.seed = seed

    def begin_task(self, task: int, rows: Rows) -> Rows:  # noqa: ARG002 - for those that use it
        """Prepare for task number `task` and return the rows to learn from: those given, here."""
        return rows

    def select_rows(self, new: Rows) -> tuple[Rows, ...]:
        """Return the rows of each batch that the next step takes; the new ones come first."""
        return (new,)

    @abstractmethod
    def step(self, new: Batch, *others: Batch, on_loss_terms: LossCallback | None = None) -> Tensor:
        """Learn from one batch and return its detached loss, by which divergence is noticed.

        Anything but one number is refused at the first step. A tensor on the GPU is not waited
        for: every fifty steps the losses are looked at together.

        Args:
            new: examples of the task.
            others: what else `select_rows` chose.
            on_loss_terms: called before the update with the plasticity and the stability term:
                losses, or the gradients themselves where a method works on those.
        """

    def end_task(self, task: int, rows: Rows) -> None:  # noqa: B027 - most have nothing to do
        """Consolidate what was learned; `rows` are the task's own."""

    def memory_rows(self) -> Rows:
        """Return the rows that are kept from earlier tasks."""
        return NOTHING

    def regularizer_state(self) -> Sequence[Tensor]:
        """Return what belongs to the model beside its weights: importances, anchors."""
        return ()

    def auxiliary_tensors(self) -> Sequence[Tensor]:
        """Return what else stays in memory: the weights of another network, or its outputs."""
        return ()
