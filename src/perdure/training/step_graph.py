"""A training step captured as a CUDA graph: one launch instead of one per kernel."""

from __future__ import annotations

import warnings
from collections import Counter
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from .._devices import use_tf32
from ..evaluation.engine.cuda_graph import capture, release_generator, switch_stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from torch import Tensor

    from ..strategies import LossCallback, Rows, Strategy

__all__ = ["StepGraphs", "compute_in"]

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


class _Captured(NamedTuple):
    graph: torch.cuda.CUDAGraph
    rows: Tensor  # the graph reads which examples to take from here
    loss: Tensor  # and writes the loss there


class StepGraphs:
    """Takes the steps of one task, on CUDA by graphs: one for each combination of batch sizes.

    Only strategies that say so are captured (`Strategy.capturable`), with plain SGD and a constant
    learning rate; every other step is eager. The steps before a capture are real ones.

    Args:
        strategy: the learner.
        compute: returns a context in which steps are computed, in the precision of training.
        enabled: whether steps may be captured.
    """

    def __init__(
        self,
        strategy: Strategy,
        compute: Callable[[], AbstractContextManager[None]] = nullcontext,
        *,
        enabled: bool,
    ) -> None:
        self._strategy, self._compute = strategy, compute
        self._device = strategy.examples.device
        # A class that inherits from a capturable one may do more in its step: it has to say so.
        capturable = strategy.capturable and "capturable" in vars(type(strategy))
        sgd = type(strategy.optimizer) is torch.optim.SGD
        self._enabled = enabled and self._device.type == "cuda" and capturable and sgd
        self._taken: Counter[tuple[int | None, ...]] = Counter()
        self._captured: dict[tuple[int | None, ...], _Captured] = {}
        self.replayed = False  # whether the last step was
        self._side = torch.cuda.Stream(self._device) if self._enabled else None

    def step(
        self,
        batches: Sequence[Rows],
        task: int | None,
        on_loss_terms: LossCallback | None,
        *,
        eager: bool = False,
    ) -> Tensor:
        """Take a training step on the examples at these rows; return its loss.

        Args:
            batches: the rows of each batch, the new examples first.
            task: the task of all new examples, if it is one.
            on_loss_terms: passed to the strategy.
            eager: do not use a graph, for a step whose operations are counted.
        """
        self.replayed, sizes = False, [len(rows) for rows in batches]
        if not self._enabled or eager or on_loss_terms is not None:
            chosen = self._strategy.examples.rows_on_device(np.concatenate(batches))
            return self._take_step(chosen, sizes, task, on_loss_terms)
        key = (task, *sizes)
        rows = torch.from_numpy(np.concatenate(batches))
        if key in self._captured:
            return self._replay(self._captured[key], rows)
        self._taken[key] += 1
        if self._taken[key] <= WARM_UP:
            return self._warm_up(rows.to(self._device, non_blocking=True), sizes, task)
        try:
            self._captured[key] = self._capture(rows, sizes, task)
        except RuntimeError as error:
            self._enabled = False
            release_generator(self._device)
            reason = str(error).splitlines()[0]
            message = f"training steps are not captured in a CUDA graph: {reason}"
            warnings.warn(message, stacklevel=2)
            return self.step(batches, task, on_loss_terms)
        return self._replay(self._captured[key], rows)

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

    def _warm_up(self, rows: Tensor, sizes: Sequence[int], task: int | None) -> Tensor:
        assert self._side is not None
        with switch_stream(self._side):
            return self._take_step(rows, sizes, task)

    def _capture(self, rows: Tensor, sizes: Sequence[int], task: int | None) -> _Captured:
        graph, static_rows = torch.cuda.CUDAGraph(), rows.to(self._device)
        self._strategy.optimizer.zero_grad()  # gradients are to live in the memory of the graph
        assert self._side is not None
        with switch_stream(self._side), capture(graph):
            loss = self._take_step(static_rows, sizes, task)
        return _Captured(graph, static_rows, loss)

    def _replay(self, captured: _Captured, rows: Tensor) -> Tensor:
        self.replayed = True
        captured.rows.copy_(rows, non_blocking=True)
        captured.graph.replay()
        return captured.loss.clone()
