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
                loss = strategy.step(*batches, on_loss_terms=…)
            strategy.end_task(task, rows)

    A stream without boundaries is a single task. Only `step` has to be implemented; this is that
    of fine-tuning::

        def step(self, new, *others, on_loss_terms=None):
            loss = cross_entropy(self.model(new.x, new.task), new.y)
            if on_loss_terms is not None:
                on_loss_terms(loss, [])  # no stability term
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            return loss.detach()

    `self.model(x, task)` returns the logits of all classes, with the unseen ones masked if the run
    is configured so. The model is in training mode, on the same device as the batches. A strategy
    neither evaluates nor logs.

    Training examples are identified by their row numbers: `self.examples.take(rows)` returns them
    as a batch (`x`, `y`, `task`), `self.examples.labels[rows]` returns their labels. The
    keyword-only arguments of a strategy's constructor are its hyperparameters, except for `seed`,
    which every constructor accepts and passes on.

    Attributes are saved in checkpoints if they hold tensors, arrays, NumPy generators, numbers,
    strings, or lists and dicts of these; attributes of other types raise an error when a checkpoint
    is written. On resume the constructor runs first, with a new model, and the saved attributes
    replace those it has set. Attributes whose names start with an underscore are not saved: use
    them for what the constructor computes from its arguments.

    Args:
        model: the network to train.
        optimizer: the optimizer of the model's parameters.
        examples: the training examples of all tasks.
        seed: the seed of the strategy's random streams.
    """

    #: Whether the strategy requires task boundaries and cannot learn a stream without them.
    requires_boundaries: ClassVar[bool] = False
    #: Whether the strategy may train on examples of later tasks, as joint training does.
    trains_on_all_tasks: ClassVar[bool] = False
    #: Whether the model changes only in `end_task`, so that early stopping cannot apply.
    trains_at_task_end: ClassVar[bool] = False
    #: Whether a CUDA graph may replay `step`: it only works on tensors, in the same way for every
    #: batch of a task, and `select_rows` may be called for several steps before the first of them
    #: is taken. Not inherited.
    capturable: bool = False
    #: The name of the hyperparameter that weights a penalty: if training diverges, the error
    #: message suggests lowering it.
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

        Called on the CPU, once for every step, in order. Draw with NumPy generators, so that the
        selection does not depend on the device: replay returns `(new, replayed)`.
        """
        return (new,)

    @abstractmethod
    def step(self, new: Batch, *others: Batch, on_loss_terms: LossCallback | None = None) -> Tensor:
        """Perform one training step and return the detached loss, a tensor with one element.

        The loss is only used to detect divergence; penalties may be left out. Do not call
        `.item()`, which would synchronize the GPU: the loop checks the losses of several steps
        together, and stops the run if one of them is not finite.

        Args:
            new: a batch of new examples of the current task.
            others: the other batches that `select_rows` selected.
            on_loss_terms: if given, call `on_loss_terms(plasticity, stability)` before `backward`.
                Plasticity is the loss on new data, stability the loss that protects earlier tasks,
                without its weight; each may also be a list of gradients (`[]` for none). The loop
                records their gradient norms (De Lange et al. 2023, eq. 8 and 9); the graph is
                retained and no `.grad` is touched.
        """

    def end_task(self, task: int, rows: Rows) -> None:  # noqa: B027 - optional
        """Update the strategy's state at the end of a task; `rows` as in `begin_task`."""

    # What the strategy stores; only used to report the memory costs of a run:

    def memory_rows(self) -> Rows:
        """Return the rows of earlier tasks that are stored for later use."""
        return NO_ROWS

    def regularizer_state(self) -> Sequence[Tensor]:
        """Return tensors kept between tasks, such as importances, for the metric `ms`."""
        return ()

    def auxiliary_tensors(self) -> Sequence[Tensor]:
        """Return other tensors held in memory, such as a teacher's weights, for `ms.copies`."""
        return ()
