"""Testing on another CUDA stream, or another GPU, on snapshots of the weights."""

from __future__ import annotations

import copy
from collections import deque
from typing import TYPE_CHECKING, Any

import torch

from ..state.preserve import preserve_state
from ..state.tensors import write
from .eval_batches import all_state_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from .eval_batches import EvalBatches
    from .inline import EvalResult, Inline

__all__ = ["SideStream"]


class SideStream:
    """Tests snapshots on a stream beside the trainer's. The trainer's stream never waits for it.

    Exact: every snapshot is tested, and the trainer's process waits when all slots are in use.
    Latest: a snapshot that finds none free is dropped.
    """

    def __init__(
        self, inline: Inline, *, latest: bool, slots: int, audit: int, say: Callable[[str], None]
    ) -> None:
        self._inline, self._latest, self._say, self._audit = inline, latest, say, audit
        self._slots = 1 if latest else slots
        self._prepared: EvalBatches | None = None
        self._shapes: list[Any] = []
        self._model: Any = None
        self._count = 0
        self._expected: dict[int, NDArray[Any]] = {}  # audits
        self._snapshots: list[list[torch.Tensor]] = []
        self._busy: deque[Any] = deque()  # an event for each snapshot in use, oldest first
        self._stream: Any = None
        self._replica: Any = None
        self._off = False

    def submit(self, model: Any, prepared: EvalBatches, step: int) -> None:
        """Take a snapshot of `model` after `step` steps and have it tested."""
        state = all_state_of(model)
        shapes = [(tensor.shape, tensor.dtype) for tensor in state]
        if prepared is not self._prepared or shapes != self._shapes or model is not self._model:
            self._begin(model, prepared, shapes)
        self._count += 1
        if self._count % self._audit == 0 and prepared.device == state[0].device and not self._off:
            with preserve_state(model):
                parts = [prepared.scorer.values(model, rows) for rows in prepared.at(step)]
            self._expected[step] = torch.cat(parts).numpy(force=True)
        if self._off:
            self._inline.submit(model, prepared, step)
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
            for mine, theirs in zip(snapshot, state, strict=True):
                write(mine, theirs)
        taken = torch.cuda.current_stream(state[0].device).record_event()
        with torch.cuda.device(prepared.device), torch.cuda.stream(self._stream), torch.no_grad():
            self._stream.wait_event(taken)
            for mine, theirs in zip(all_state_of(self._replica), snapshot, strict=True):
                write(mine, theirs)
            self._inline.submit(self._replica, prepared, step)
            self._busy.append(self._stream.record_event())

    def _begin(self, model: Any, prepared: EvalBatches, shapes: list[Any]) -> None:
        """Make the copy of the model that is tested, for new tasks or a model that has grown."""
        if self._stream is not None:
            self._stream.synchronize()
        self._busy.clear()
        self._prepared, self._shapes, self._model = prepared, shapes, model
        self._stream = torch.cuda.Stream(prepared.device)
        try:
            self._replica = copy.deepcopy(model).to(prepared.device)
        except (RuntimeError, TypeError) as error:
            self._say(f"the model cannot be copied ({error}); it is tested on the trainer's stream")
            self._off = True
            return
        self._snapshots = [
            [
                torch.empty_like(tensor, device=prepared.device)
                for tensor in all_state_of(self._replica)
            ]
            for _ in range(self._slots)
        ]
        torch.cuda.synchronize(prepared.device)

    def collect(self, *, wait: bool = False) -> list[EvalResult]:
        """Return the evaluations that are done, in order; all of them if told to wait."""
        found = []
        for done in self._inline.collect(wait=wait):
            expected = self._expected.pop(done.step, done.values)
            if expected.tobytes() != done.values.tobytes():
                self._say(
                    f"the copy's results differ from the model's at step {done.step}: it has state "
                    "that is no parameter or buffer. Tests go on inline; results since the audit "
                    "before may be off"
                )
                self._off = True
            found.append(done._replace(values=expected))
        return found

    def close(self) -> None:
        """Nothing to close."""
