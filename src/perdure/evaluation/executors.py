"""How evaluations are executed: inside the training loop, or on snapshots next to it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import ClassVar, Literal, get_args

from .arguments import check_choice, check_integer

__all__ = ["Executor", "Inline", "Precision", "Worker", "as_executor"]

Precision = Literal["auto", "screened", "float32", "tf32", "float16", "bfloat16"]


@dataclass(frozen=True, kw_only=True)
class Inline:
    """Evaluates in the training process, inside `Evaluator.step`.

    On CUDA the forward pass is captured in a CUDA graph where possible. Its results are fetched in
    blocks: live metrics and alarms lag by 32 evaluations or 0.2 seconds, or by up to 128
    evaluations while the GPU is behind.

    Args:
        precision: of evaluations while training; whole sets are evaluated in float32.
            `"auto"`: predictions as float32 gives them; on CUDA, models with convolutions are
            screened where that is faster. `"screened"`: evaluate in half precision (float16 on
            CUDA, bfloat16 on a CPU), and again in float32 the examples whose prediction rounding
            could change. `"float32"`: everything in float32. `"tf32"`, `"float16"`, `"bfloat16"`:
            everything in that precision, which may change predictions.
        verify_every: every n evaluations, compare a CUDA graph or screening with a plain
            evaluation.
        batch_size: examples per forward pass; None chooses what suits the device.
    """

    precision: Precision = "auto"
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
        precision: as for `Inline`, but `"auto"` does not screen.
        verify_every: every n evaluations, compare the worker's results with an evaluation in the
            training process.
        batch_size: as for `Inline`.
    """

    mode: Literal["exact", "latest"] = "exact"
    queue: int = 4
    device: str | None = None
    precision: Precision = "auto"
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
    check_choice("precision", executor.precision, get_args(Precision))
    check_integer("verify_every", executor.verify_every, 1)
    if executor.batch_size is not None:
        check_integer("batch_size", executor.batch_size, 1)
