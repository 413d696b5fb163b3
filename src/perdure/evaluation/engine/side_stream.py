"""Evaluating snapshots of the weights on another CUDA stream, or another GPU."""

from __future__ import annotations

import copy
from collections import deque
from typing import TYPE_CHECKING, Any

import torch

from ..schedules import Worker
from ..state.preserve import UnknownModuleError, preserve_state
from ..state.tensors import all_tensors, copy_into

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import nn

    from .engine import Engine
    from .eval_batches import EvalBatches, EvalResult

__all__ = ["SideStream"]


class SideStream:
    """Evaluates snapshots on a second stream. The training stream never waits for it.

    Exact: every snapshot is evaluated, and the training process waits while all slots are in use.
    Latest: a snapshot that finds no free slot is dropped.
    """

    def __init__(self, engine: Engine) -> None:
        assert isinstance(engine.executor, Worker)
        self._engine, self._verify_every = engine, engine.executor.verify_every
        self._latest = engine.executor.mode == "latest"
        self._slots = 1 if self._latest else engine.executor.queue
        self._batches: EvalBatches | None = None
        self._shapes: list[tuple[torch.Size, torch.dtype]] = []
        self._model: Any = None
        self._count = 0
        self._expected: dict[int, NDArray[Any]] = {}  # by step, of evaluations to verify
        self._snapshots: list[list[torch.Tensor]] = []
        self._busy: deque[Any] = deque()  # one event per snapshot in use, oldest first
        self._stream: Any = None
        self._replica: Any = None
        self._disabled = False

    def submit(self, model: nn.Module, batches: EvalBatches, step: int) -> None:
        """Take a snapshot of `model` after `step` steps and have it evaluated."""
        tensors = all_tensors(model)
        shapes = [(tensor.shape, tensor.dtype) for tensor in tensors]
        if batches is not self._batches or shapes != self._shapes or model is not self._model:
            self._prepare(model, batches, shapes)
        self._count += 1
        if (
            self._count % self._verify_every == 0
            and batches.device == tensors[0].device
            and not self._disabled
        ):
            with preserve_state(model):
                expected = self._engine.precision.eager_values(model, batches, step)
            self._expected[step] = expected.numpy(force=True)
        if self._disabled:
            self._evaluate_inline(model, batches, step)
            return
        while self._busy and self._busy[0].query():
            self._busy.popleft()
        if len(self._busy) >= self._slots:
            if self._latest:
                return
            self._busy.popleft().synchronize()
        snapshot = self._snapshots.pop(0)
        self._snapshots.append(snapshot)
        with torch.no_grad():
            for own, current in zip(snapshot, tensors, strict=True):
                copy_into(own, current)
        taken = torch.cuda.current_stream(tensors[0].device).record_event()
        with torch.cuda.device(batches.device), torch.cuda.stream(self._stream), torch.no_grad():
            self._stream.wait_event(taken)
            for own, current in zip(all_tensors(self._replica), snapshot, strict=True):
                copy_into(own, current)
            try:
                self._engine.evaluate(self._replica, batches, step)
            except UnknownModuleError:  # of `modules=`, or refused below
                self._disable("its forward pass reaches modules that a copy of it does not hold")
            self._busy.append(self._stream.record_event())
        if self._disabled:
            self._evaluate_inline(model, batches, step)

    def _evaluate_inline(self, model: nn.Module, batches: EvalBatches, step: int) -> None:
        """Evaluate on the training stream, once graphs of the same memory have run on the other."""
        torch.cuda.current_stream(batches.device).wait_stream(self._stream)
        self._engine.evaluate(model, batches, step)

    def _prepare(
        self, model: nn.Module, batches: EvalBatches, shapes: list[tuple[torch.Size, torch.dtype]]
    ) -> None:
        """Copy the model for new tasks, or because it is another one or has grown."""
        if self._stream is not None:
            self._stream.synchronize()
        self._busy.clear()
        self._batches, self._shapes, self._model = batches, shapes, model
        self._stream = torch.cuda.Stream(batches.device)
        try:
            self._replica = copy.deepcopy(model).to(batches.device)
        except (RuntimeError, TypeError) as error:
            self._disable(str(error))
            return
        self._snapshots = [
            [
                torch.empty_like(tensor, device=batches.device)
                for tensor in all_tensors(self._replica)
            ]
            for _ in range(self._slots)
        ]
        torch.cuda.synchronize(batches.device)

    def _disable(self, reason: str) -> None:
        self._disabled = True
        self._engine.warn(
            f"the model cannot be copied ({reason}); it is evaluated on the training stream"
        )

    def collect(self, *, wait: bool = False) -> list[EvalResult]:
        """Return completed evaluations in order; with `wait`, all of them."""
        results = []
        for result in self._engine.collect_here(wait=wait):
            expected = self._expected.pop(result.step, result.values)
            if expected.tobytes() != result.values.tobytes():
                self._disabled = True
                self._engine.warn(
                    f"the copy's results differ from those of the model at step {result.step}: "
                    "it has state that is no parameter or buffer. It is evaluated inline from here "
                    "on; results since the last verification may be wrong"
                )
            results.append(result._replace(values=expected))
        return results

    def next_error(self) -> Exception | None:
        """Return None: errors are raised where they happen."""
        return None

    def close(self) -> None:
        """Nothing to close."""
