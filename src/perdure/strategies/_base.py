"""The interface of every strategy: what the training loop calls, and when."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ..data.examples import Batch, Examples
from ..models import Network

if TYPE_CHECKING:
    from torch.optim import Optimizer

__all__ = ["Batch", "Examples", "LossCallback", "LossTerm", "Network", "Rows", "Strategy"]

Rows: TypeAlias = NDArray[np.int64]  # row numbers of training examples
LossTerm: TypeAlias = Tensor | Iterable[Tensor | None]  # a loss, or the gradients themselves
LossCallback: TypeAlias = Callable[[LossTerm, LossTerm], None]

NO_ROWS: Rows = np.empty(0, dtype=np.int64)


class Strategy(ABC):
    """Base class of all strategies: a model, an optimizer, and a rule for updating on a batch.

    The training loop owns the data order and calls the strategy as follows::

        for task, rows in enumerate(rows_of_each_task):
            rows_to_learn = strategy.begin_task(task, rows)
            for new in shuffled_batches(rows_to_learn):
                batches = [strategy.examples.take(r) for r in strategy.select_rows(new)]
                loss = strategy.step(*batches)
            strategy.end_task(task, rows)

    Only `step` has to be implemented. A strategy neither evaluates nor logs.

    Training examples are identified by their row numbers: `self.examples.take(rows)` returns them
    as a batch (`x`, `y`, `task`), `self.examples.labels[rows]` returns their labels. A strategy's
    hyperparameters are the keyword-only arguments of its constructor.

    Attributes are saved in checkpoints if they hold tensors, arrays, NumPy generators, numbers,
    strings, or lists and dicts of these. Names that start with an underscore are not saved: use
    them for what the constructor computes again.

    Args:
        model: the network to train.
        optimizer: the optimizer of the model's parameters.
        examples: the training examples of all tasks.
        seed: the seed of the strategy's random streams.
    """

    #: Whether the strategy requires task boundaries, so that it cannot learn a stream without them.
    requires_boundaries: ClassVar[bool] = False
    #: Whether the examples of all tasks are available from the first task on.
    trains_on_all_tasks: ClassVar[bool] = False
    #: Whether the model changes only in `end_task`, so that early stopping cannot apply.
    trains_at_task_end: ClassVar[bool] = False
    #: The hyperparameter to lower if training diverges, besides the learning rate.
    penalty_weight: ClassVar[str | None] = None

    def __init__(
        self, model: Network, optimizer: Optimizer, examples: Examples, *, seed: int = 0
    ) -> None:
        self.model = model
        self.optimizer = optimizer
        self.examples = examples
        self.seed = seed

    def begin_task(self, task: int, rows: Rows) -> Rows:  # noqa: ARG002 - for overrides
        """Return the rows to learn from during a task: by default the task's own.

        Args:
            task: the position of the task in the stream, from 0.
            rows: the training examples of the task.
        """
        return rows

    def select_rows(self, new: Rows) -> tuple[Rows, ...]:
        """Return the rows of each batch that the next `step` receives, the new ones first.

        Called on the CPU before every step. Draw with NumPy generators, so that the selection does
        not depend on the device: replay returns `(new, replayed)`.
        """
        return (new,)

    @abstractmethod
    def step(self, new: Batch, *others: Batch, on_loss_terms: LossCallback | None = None) -> Tensor:
        """Update the model on one batch and return the detached loss, a single number.

        A loss that is not finite stops the run. The loop does not wait for a loss on the GPU: it
        checks the losses of several steps together.

        Args:
            new: the current batch of the task.
            others: the other batches that `select_rows` selected.
            on_loss_terms: if given, call it before the update with the plasticity and the stability
                term, each a loss or a list of gradients (`[]` if there is none). The loop records
                their gradient norms (De Lange et al. 2023, eq. 8 and 9).
        """

    def end_task(self, task: int, rows: Rows) -> None:  # noqa: B027 - optional
        """Update the strategy's state at the end of a task; `rows` as in `begin_task`."""

    # What the strategy stores, for the memory costs of a run:

    def memory_rows(self) -> Rows:
        """Return the rows of earlier tasks that are stored for later use."""
        return NO_ROWS

    def regularizer_state(self) -> Sequence[Tensor]:
        """Return the tensors that belong to the model besides its weights, such as importances."""
        return ()

    def auxiliary_tensors(self) -> Sequence[Tensor]:
        """Return other tensors held in memory, such as another model's weights or outputs."""
        return ()
