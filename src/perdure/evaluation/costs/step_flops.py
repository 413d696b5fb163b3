"""Operations of training steps, counted on a few steps of each task."""

from __future__ import annotations

import sys

import msgspec
import torch

from .flops import FlopCounter

__all__ = ["StepFlops", "can_count"]


class StepFlopsState(msgspec.Struct):
    """What a checkpoint keeps of the counting."""

    steps: int = 0
    per_step: float | None = None  # of the last step that was counted
    differs: bool = False  # it differed from the one before; the next one decides


class StepFlops:
    """Counts steps 1, 2, 3, 10, 100, 1000, … of a task, and the one after a step that differs.

    A counted step stands for those that follow, up to the next counted one.

    Attributes:
        problem: why operations cannot be counted, None if they can.
    """

    def __init__(self) -> None:
        self.state = StepFlopsState()
        self.problem: str | None = None
        self._counter: FlopCounter | None = None
        self._excluded = 0.0

    @property
    def counting(self) -> bool:
        """Whether the current step is being counted."""
        return self._counter is not None

    @property
    def so_far(self) -> float:
        """Operations counted in the current step."""
        return float(self._counter.total) if self._counter is not None else 0.0

    @property
    def excluded(self) -> float:
        """Operations of the current step that do not count as training."""
        return self._excluded

    def exclude(self, flops: float) -> None:
        """Do not count these operations of the current step as training."""
        self._excluded += flops

    def start(self) -> None:
        """Start counting if the next step is one to count."""
        next_step = self.state.steps + 1
        digits = str(next_step)
        is_power_of_ten = digits[0] == "1" and not digits[1:].strip("0")
        if not (next_step <= 3 or is_power_of_ten or self.state.differs):
            return
        if _is_compiled():  # a counter would make the step run uncompiled: other bits
            self.problem = "compiled code cannot be counted without changing it"
        elif torch._C._len_torch_dispatch_stack():  # noqa: SLF001 - see flops.py
            self.problem = (
                "something else follows the operations of the step, such as another evaluator or "
                "torch.utils.flop_counter; one evaluator can count them (count_flops=False)"
            )
        else:
            self._counter = FlopCounter()
            self._counter.start()

    def stop(self) -> float | None:
        """Stop counting; return the operations since `start`, None if they were not counted."""
        counter, self._counter = self._counter, None
        excluded, self._excluded = self._excluded, 0.0
        if counter is None:
            return None
        flops = counter.stop() - excluded
        if counter.problem:
            self.problem = counter.problem
            return None
        return flops

    def end_step(self, counted: float | None) -> float | None:
        """Return the operations of a step that has ended, None if they are not known."""
        state = self.state
        state.steps += 1
        if counted is not None:
            # A step that differs may be the short last batch of an epoch: the next one decides.
            same = state.per_step in (None, counted)
            if same or state.differs:
                state.per_step = counted
            state.differs = not (same or state.differs)
        if state.per_step is None:
            return None
        return state.per_step if counted is None else counted


def can_count(*, counting: bool) -> bool:
    """Return whether a block can be counted: it is not compiled, nor inside another mode."""
    other_modes = torch._C._len_torch_dispatch_stack() > counting  # noqa: SLF001 - see flops.py
    return not other_modes and not _is_compiled()


def _is_compiled() -> bool:
    """Return whether torch.compile was called in this process.

    PyTorch does not say so publicly; tests/test_private_torch.py fails if these counters go away.
    """
    utils, frames = (sys.modules.get(f"torch._dynamo.{name}") for name in ("utils", "eval_frame"))
    if utils is None or frames is None:
        return False
    backends = getattr(frames, "cached_backends", {}).values()
    return bool(utils.counters["frames"]) or any(backends)
