"""How evaluations are executed: inside the training loop, or on snapshots next to it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import ClassVar, Literal

from .arguments import check_choice, check_integer

__all__ = ["Executor", "Inline", "Worker", "as_executor"]


@dataclass(frozen=True, kw_only=True)
class Inline:
    """Evaluates in the training process, inside `Evaluator.step`.

    On CUDA the forward pass is captured in a CUDA graph where possible. Its results are fetched in
    blocks: live metrics and alarms lag by up to 32 evaluations or 0.2 seconds.

    Args:
        half_precision: evaluate in bfloat16, and again in full precision the examples whose
            prediction rounding could change. For accuracy only.
        verify_every: every n evaluations, compare a CUDA graph or half precision with a plain
            evaluation.
        batch_size: examples per forward pass; None chooses what suits the device.
    """

    half_precision: bool = False
    verify_every: int = 100
    batch_size: int | None = None
    mode: ClassVar[str] = "exact"

    def __post_init__(self) -> None:
        _check_common(self)

    def to_json(self) -> dict[str, object]:
        """Return the options as run.json records them."""
        return {"name": "inline", "mode": self.mode, **asdict(self)}


@dataclass(frozen=True, kw_only=True)
class Worker:
    """Evaluates snapshots of the weights next to training.

    On the CPU a forked process evaluates snapshots in shared memory; on CUDA another stream of
    the same GPU does, or another GPU.

    Args:
        mode: `"exact"` evaluates every snapshot; when the queue is full, the training process
            evaluates the model itself (CPU) or waits (CUDA). `"latest"` drops a snapshot while
            the worker is busy; only steps that were evaluated are recorded.
        queue: how many snapshots may wait for an exact worker.
        device: a second CUDA device to evaluate on.
        half_precision: as for `Inline`.
        verify_every: every n evaluations, compare the worker's results with an evaluation in the
            training process.
        batch_size: as for `Inline`.
    """

    mode: Literal["exact", "latest"] = "exact"
    queue: int = 4
    device: str | None = None
    half_precision: bool = False
    verify_every: int = 100
    batch_size: int | None = None

    def __post_init__(self) -> None:
        check_choice("mode", self.mode, ("exact", "latest"))
        check_integer("queue", self.queue, 1)
        if self.device is not None:
            object.__setattr__(self, "device", str(self.device))  # a torch.device, say
        _check_common(self)

    def to_json(self) -> dict[str, object]:
        """Return the options as run.json records them."""
        return {"name": "worker", **asdict(self)}


Executor = Inline | Worker


def as_executor(executor: object) -> Executor:
    """Return the executor, `Inline()` for None, or raise if it is none."""
    if executor is None:
        return Inline()
    if not isinstance(executor, Inline | Worker):
        raise TypeError(
            f"executor is {executor!r:.60}, expected perdure.Inline(…) or perdure.Worker(…)"
        )
    return executor


def _check_common(executor: Executor) -> None:
    check_integer("verify_every", executor.verify_every, 1)
    if executor.batch_size is not None:
        check_integer("batch_size", executor.batch_size, 1)
