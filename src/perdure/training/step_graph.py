"""The steps of a task, on CUDA captured as graphs: one launch instead of one per kernel."""

from __future__ import annotations

import warnings
from collections import Counter
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

import numpy as np
import torch

from .._devices import use_tf32
from ..evaluation.engine.cuda_graph import GraphPool, capture, release_generator, switch_stream
from .optimizers import is_plain_sgd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray
    from torch import Tensor

    from ..evaluation import Evaluator
    from ..strategies import LossCallback, Rows, Strategy
    from .monitoring import DivergenceCheck

__all__ = ["CapturedStep", "StepGraphs", "TaskSteps", "compute_in"]

MAX_QUEUED = 32  # steps whose rows are copied to the GPU together
WARM_UP = 1  # steps on the stream of the capture: libraries and the optimizer initialise there


@contextmanager
def compute_in(precision: str, device: torch.device) -> Iterator[None]:
    """Compute in a precision; PyTorch's settings are restored at the end."""
    if precision == "bfloat16":
        # The cache would keep the weights of a captured step.
        with torch.autocast(device.type, torch.bfloat16, cache_enabled=False):
            yield
    elif precision == "default":
        yield
    else:
        with use_tf32(enabled=precision == "tf32"):
            yield


class CapturedStep:
    """A step as a CUDA graph, which reads its rows from a queue on the device.

    Args:
        size: the number of rows of a step.
        pool: the memory of the graph.
    """

    def __init__(self, size: int, pool: GraphPool) -> None:
        self._graph, self._pool, device = torch.cuda.CUDAGraph(), pool, pool.device
        self._rows = torch.zeros(MAX_QUEUED, size, dtype=torch.int64, device=device)
        self._losses = torch.zeros(MAX_QUEUED, device=device)
        self._position = torch.zeros(1, dtype=torch.int64, device=device)  # in the queue

    def capture(self, take_step: Callable[[Tensor], Tensor]) -> None:
        """Capture a step, which returns its loss."""
        with switch_stream(self._pool.stream), capture(self._graph, self._pool):
            loss = take_step(self._rows.index_select(0, self._position).squeeze(0))
            self._losses.index_copy_(0, self._position, loss.reshape(1).to(self._losses))
            self._position.add_(1)

    def queue(self, rows: NDArray[np.int64]) -> None:
        """Have the next replays read these rows, one step each."""
        self._position.zero_()
        # Pinned, or the copy could wait for the steps that are under way.
        on_host = torch.from_numpy(rows).pin_memory()
        self._rows[: len(rows)].copy_(on_host, non_blocking=True)

    def replay(self) -> None:
        """Take the next step of the queue."""
        self._graph.replay()

    def losses(self, count: int) -> Tensor:
        """Return the losses of the first steps of the queue, once they have been taken."""
        return self._losses[:count].clone()


class StepGraphs:
    """Takes the steps of one task, on CUDA by graphs: one for each combination of batch sizes.

    Only strategies that say so are captured (`Strategy.capturable`), with plain SGD and a constant
    learning rate; every other step is eager. The steps before a capture are real ones.

    Args:
        strategy: the learner.
        compute: returns a context in which steps are computed, in the precision of training.
        pool: the memory of graphs; None if no step may be captured.
    """

    def __init__(
        self,
        strategy: Strategy,
        compute: Callable[[], AbstractContextManager[None]] = nullcontext,
        *,
        pool: GraphPool | None,
    ) -> None:
        self._strategy, self._compute = strategy, compute
        # A class that inherits from a capturable one may do more in its step: it has to say so.
        capturable = strategy.capturable and "capturable" in vars(type(strategy))
        self._pool = pool if capturable and is_plain_sgd(strategy.optimizer) else None
        self._taken: Counter[tuple[int | None, ...]] = Counter()
        self._captured: dict[tuple[int | None, ...], CapturedStep] = {}
        self.replayed = False  # whether the last step replayed a graph

    def find(self, batches: Sequence[Rows], task: int | None) -> CapturedStep | None:
        """Return the graph of steps like this one, None as long as there is none.

        Args:
            batches: the rows of each batch, the new examples first.
            task: the task of all new examples, if it is one.
        """
        return self._captured.get((task, *map(len, batches)))

    def step(
        self, batches: Sequence[Rows], task: int | None, on_loss_terms: LossCallback | None
    ) -> Tensor:
        """Take a training step on the examples at these rows; return its loss.

        The first steps of a kind prepare for a graph: one is taken on the stream of the capture,
        and the second is captured.

        Args:
            batches: as for `find`.
            task: likewise.
            on_loss_terms: passed to the strategy; such a step is eager.
        """
        rows, sizes = np.concatenate(batches), [len(rows) for rows in batches]
        key, self.replayed = (task, *sizes), False
        pool = self._pool
        if pool is None or on_loss_terms is not None or key in self._captured:
            chosen = self._strategy.examples.rows_on_device(rows)
            return self._take_step(chosen, sizes, task, on_loss_terms)
        self._taken[key] += 1
        if self._taken[key] <= WARM_UP:
            chosen = self._strategy.examples.rows_on_device(rows)
            with switch_stream(pool.stream):
                return self._take_step(chosen, sizes, task)
        captured = CapturedStep(len(rows), pool)
        self._strategy.optimizer.zero_grad()  # gradients are to live in the memory of the graph
        try:
            captured.capture(lambda chosen: self._take_step(chosen, sizes, task))
        except RuntimeError as error:
            self._pool = None
            self._captured.clear()
            release_generator(pool.device)
            reason = str(error).splitlines()[0]
            message = f"training steps are not captured in a CUDA graph: {reason}"
            warnings.warn(message, stacklevel=2)
            return self.step(batches, task, on_loss_terms)
        self._captured[key] = captured
        captured.queue(rows[None])
        captured.replay()
        self.replayed = True
        return captured.losses(1)

    def _take_step(
        self,
        rows: Tensor,
        sizes: Sequence[int],
        task: int | None,
        on_loss_terms: LossCallback | None = None,
    ) -> Tensor:
        batches = self._strategy.examples.take_batches(rows, sizes, task)
        with self._compute():
            return self._strategy.step(*batches, on_loss_terms=on_loss_terms)


class TaskSteps:
    """Takes the steps of one task, and evaluates after each.

    Steps that a CUDA graph replays wait until there are some of them: their rows are copied to the
    GPU at once, and their losses and evaluations come back together.

    Args:
        strategy: the learner.
        graphs: takes steps, and captures them.
        check: is given every loss.
        task: the task of all new examples, if it is one.
        evaluator: evaluates the model after each step.
        on_loss_terms: passed to the strategy.
        singly: let no step wait, since something else needs the weights after it.
    """

    def __init__(
        self,
        strategy: Strategy,
        graphs: StepGraphs,
        check: DivergenceCheck,
        *,
        task: int | None,
        evaluator: Evaluator | None,
        on_loss_terms: LossCallback | None,
        singly: bool = False,
    ) -> None:
        by_time = evaluator is not None and evaluator.evaluates_by_time
        self._max_queued = 1 if singly or by_time else MAX_QUEUED
        self._strategy, self._graphs, self._check = strategy, graphs, check
        self._task, self._evaluator, self._on_loss_terms = task, evaluator, on_loss_terms
        self._waiting: list[Rows] = []  # of each step, the rows of all its batches
        self._captured: CapturedStep | None = None  # replays them

    def add(self, batches: Sequence[Rows]) -> bool:
        """Take a step on these rows, now or later; return whether none is waiting."""
        captured = self._graphs.find(batches, self._task)
        counts = self._evaluator is not None and self._evaluator.costs.counts_step
        if captured is None or counts or self._on_loss_terms is not None:
            self.flush()
            self._take(batches)
            return True
        is_other = bool(self._waiting) and captured is not self._captured
        if is_other:  # the short batch at the end of an epoch, say: it does not wait for the next
            self.flush()
        self._captured = captured
        self._waiting.append(np.concatenate(batches))
        if is_other or len(self._waiting) >= self._max_queued:
            self.flush()
        return not self._waiting

    def flush(self) -> bool:
        """Take the steps that wait; return whether there were any."""
        if not self._waiting:
            return False
        assert self._captured is not None
        rows, self._waiting = np.stack(self._waiting), []
        self._captured.queue(rows)
        if self._evaluator is None:
            for _ in rows:
                self._captured.replay()
        else:
            self._evaluator.replay_steps(self._strategy.model, self._captured.replay, len(rows))
        self._check.add_losses(self._captured.losses(len(rows)))
        return True

    def _take(self, batches: Sequence[Rows]) -> None:
        loss = self._graphs.step(batches, self._task, self._on_loss_terms)
        self._check.add_loss(loss)
        if self._evaluator is not None:
            self._evaluator.step(self._strategy.model, replayed=self._graphs.replayed)
