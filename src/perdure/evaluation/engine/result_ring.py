"""Results of captured evaluations, kept on the GPU and copied to the host a block at a time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import torch

from .eval_batches import EvalResult

if TYPE_CHECKING:
    from .cuda_graph import CudaGraph
    from .eval_batches import EvalBatches

__all__ = ["MAX_BLOCKS", "ResultBlock", "ResultRing"]

MAX_BLOCKS = 3  # on their way to the host at a time, while the slots of another are filled
MAX_SLOTS = 32  # of a block
MAX_BYTES = 2**22
MAX_DELAY = 0.2  # seconds until results are copied, at the next evaluation


class ResultRing:
    """Slots on the device that a CUDA graph fills in turn, so that no evaluation waits.

    Args:
        values: the values of an evaluation, like all that follow.
        batches: the examples that are evaluated.
    """

    def __init__(self, values: torch.Tensor, batches: EvalBatches) -> None:
        self._batches = batches
        self._block = max(1, min(MAX_SLOTS, MAX_BYTES // max(1, values.nbytes)))
        self.size = (MAX_BLOCKS + 1) * self._block
        shape, dtype = (self.size, *values.shape), values.dtype
        self._on_device = torch.empty(shape, dtype=dtype, device=values.device)
        self._on_host = torch.empty(shape, dtype=dtype, pin_memory=True)
        self._slot = torch.zeros(1, dtype=torch.long, device=values.device)  # the next, for graphs
        self._next = 0  # the same, known here without asking the device
        self.is_intact = True  # unless it is not known here which slot is the next there
        self._start = 0  # the first slot that is not copied
        self._steps: list[int] = []  # of the slots from there on
        self._waiting_since = 0.0
        self._stream: torch.cuda.Stream | None = None
        self._times: tuple[torch.cuda.Event, ...] = ()  # around the first evaluation of a block

    def write(self, values: torch.Tensor) -> None:
        """Put `values` into the next slot; a graph captures this."""
        self._on_device.index_copy_(0, self._slot, values.unsqueeze(0))
        self._slot.add_(1).remainder_(self.size)

    def replay(self, graph: CudaGraph, step: int) -> None:
        """Evaluate by `graph`, which writes into the next slot.

        An interrupt here leaves a ring that is not intact; results of before can be copied.
        """
        self.is_intact = False
        if self._steps:
            graph.replay()
        else:
            self._waiting_since = time.monotonic()
            self._stream = torch.cuda.current_stream(self._on_device.device)
            self._times = tuple(torch.cuda.Event(enable_timing=True) for _ in range(2))
            self._times[0].record(self._stream)
            graph.replay()
            self._times[1].record(self._stream)
        self._steps, self._next = [*self._steps, step], self._next + 1
        self.is_intact = True

    def skip(self) -> None:
        """Count a slot that was written to for nothing; no result may be waiting to be copied."""
        assert not self._steps
        self._start = self._next = (self._next + 1) % self.size
        self.is_intact = True

    def is_due(self, *, everything: bool) -> bool:
        """Return whether results should be copied now."""
        if not self._steps:
            return False
        full = len(self._steps) == self._block or self._next == self.size
        return full or everything or time.monotonic() - self._waiting_since > MAX_DELAY

    def copy(self) -> ResultBlock:
        """Begin to copy what was evaluated since the last copy."""
        rows = slice(self._start, self._next)
        arrived = torch.cuda.Event()
        with torch.cuda.stream(self._stream):
            self._on_host[rows].copy_(self._on_device[rows], non_blocking=True)
            arrived.record()
        block = ResultBlock(self._batches, self._steps, self._on_host[rows], arrived, self._times)
        self._steps, self._start = [], self._next % self.size
        self._next = self._start
        return block


class ResultBlock:
    """Results of consecutive evaluations, on their way to the host."""

    def __init__(
        self,
        batches: EvalBatches,
        steps: list[int],
        values: torch.Tensor,
        arrived: torch.cuda.Event,
        times: tuple[torch.cuda.Event, ...],
    ) -> None:
        self._batches, self._steps, self._values, self._times = batches, steps, values, times
        self.arrived = arrived

    def results(self) -> list[EvalResult]:
        """Return the results, once they have arrived."""
        values = self._values.numpy().copy()  # the slots are used again
        begun, ended = self._times
        seconds = begun.elapsed_time(ended) / 1000  # all of them do the same
        return [
            EvalResult(step, self._batches, own, seconds)
            for step, own in zip(self._steps, values, strict=True)
        ]
