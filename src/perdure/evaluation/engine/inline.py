"""Testing in the trainer's own process, on the weights as they are."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from ..state.preserve import preserve_state
from .cuda_graph import CudaGraphError, Graph, same_bits
from .half_precision import HalfPrecision, HalfPrecisionError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray
    from torch import Tensor

    from .eval_batches import EvalBatches
    from .scoring import Scorer

__all__ = ["EvalResult", "Inline"]

AHEAD = 32  # evaluations a GPU may have in its queue before the trainer waits


class EvalResult(NamedTuple):
    """An evaluation that is done: the values of all rows in the order of the tasks."""

    step: int
    prepared: EvalBatches
    values: NDArray[Any]
    seconds: float


class Inline:
    """Tests a model where it is. On CUDA results are fetched when they are ready, not waited for.

    Args:
        scorer: how rows are scored.
        screen: whether to test in half precision and re-check what is close.
        audit: every so many evaluations a shortcut is compared with a plain evaluation.
        say: called with anything the user should know.
    """

    def __init__(
        self, scorer: Scorer, *, screen: bool, audit: int, say: Callable[[str], None]
    ) -> None:
        self._scorer, self._audit, self.say = scorer, audit, say
        self._screen = HalfPrecision(scorer) if screen else None
        self._graph: Graph | None = None
        self._may_capture = scorer.batch is None and not screen
        self._pending: deque[tuple[int, EvalBatches, Tensor, Any, Any]] = deque()
        self._finished: deque[EvalResult] = deque()
        self._prepared: EvalBatches | None = None
        self._count = 0  # evaluations since the prepared rows changed

    def submit(self, model: Any, prepared: EvalBatches, step: int) -> None:
        """Test `model` after `step` steps."""
        if prepared is not self._prepared:
            self._prepared, self._count, self._graph = prepared, 0, None
        self._count += 1
        start = time.perf_counter()
        if prepared.device.type != "cuda":
            array = self._values(model, prepared, step).numpy(force=True)
            self._finished.append(EvalResult(step, prepared, array, time.perf_counter() - start))
            return
        with torch.cuda.device(prepared.device):
            begun, ended, arrived = (torch.cuda.Event(enable_timing=True) for _ in range(3))
            begun.record()
            values = self._values(model, prepared, step)
            ended.record()
            host = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
            host.copy_(values, non_blocking=True)
            arrived.record()
        self._pending.append((step, prepared, host, arrived, (begun, ended)))

    def collect(self, *, wait: bool = False) -> list[EvalResult]:
        """Return the evaluations that are done, in order; all of them if told to wait."""
        while self._pending:
            step, prepared, host, arrived, (begun, ended) = self._pending[0]
            if wait or len(self._pending) > AHEAD:
                arrived.synchronize()
            elif not arrived.query():
                break
            self._pending.popleft()
            seconds = begun.elapsed_time(ended) / 1000
            self._finished.append(EvalResult(step, prepared, host.numpy(), seconds))
        found = list(self._finished)
        self._finished.clear()
        return found

    def close(self) -> None:
        """Nothing to close."""

    def _values(self, model: Any, prepared: EvalBatches, step: int) -> Tensor:
        if self._graph is not None and not self._audited() and self._graph.fits(model):
            return self._graph.replay()
        with preserve_state(model):
            if self._screen is not None:
                return self._screened(self._screen, model, prepared, step)
            values = self._plain(model, prepared, step)
        if prepared.device.type == "cuda" and self._may_capture and not prepared.redraw:
            self._captured(model, prepared, values, step)
        return values

    def _plain(self, model: Any, prepared: EvalBatches, step: int) -> Tensor:
        parts = [self._scorer.values(model, rows) for rows in prepared.at(step)]
        return torch.cat(parts) if len(parts) > 1 else parts[0]

    def _audited(self) -> bool:
        """Return whether this evaluation is one to check: often at first, then every so many."""
        return self._count & (self._count - 1) == 0 or self._count % self._audit == 0

    def _screened(
        self, screen: HalfPrecision, model: Any, prepared: EvalBatches, step: int
    ) -> Tensor:
        groups = prepared.at(step)
        try:
            if not self._audited():
                return torch.cat([screen.values(model, rows) for rows in groups])
            return torch.cat([screen.audit(model, rows) for rows in groups])
        except HalfPrecisionError as reason:
            self.say(f"screening is off from step {step} on: {reason}")
            self.screen_off()
            return self._plain(model, prepared, step)

    @property
    def screens(self) -> bool:
        """Whether half precision is tried first."""
        return self._screen is not None

    def screen_off(self) -> None:
        """Test in full precision only, from here on."""
        self._screen = None
        self._may_capture = self._scorer.batch is None

    def _captured(self, model: Any, prepared: EvalBatches, values: Tensor, step: int) -> None:
        """Capture the evaluation in a graph, or compare a captured one with `values`."""
        try:
            if self._graph is None or not self._graph.fits(model):
                if self._count > 1:  # what is tested once is not worth a capture
                    self._graph = Graph(
                        lambda: self._plain(model, prepared, step), model, prepared.device
                    )
            elif not same_bits(self._graph.replay(), values):
                raise CudaGraphError(
                    "its results differ from a plain evaluation; those since the audit before may "
                    "be off"
                )
        except CudaGraphError as reason:
            self.say(f"no CUDA graph from step {step} on, evaluation is eager: {reason}")
            self._graph, self._may_capture = None, False
