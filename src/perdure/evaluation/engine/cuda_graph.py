"""An evaluation captured as a CUDA graph: one launch instead of one per kernel."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch import nn

from ..state.preserve import preserve_state
from ..state.tensors import unique_tensors
from .result_ring import ResultRing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .eval_batches import EvalBatches
    from .result_ring import ResultBlock

__all__ = [
    "CudaGraph",
    "CudaGraphError",
    "capture",
    "differ_in_bits",
    "release_generator",
    "switch_stream",
]


class CudaGraphError(RuntimeError):
    """Raised when an evaluation cannot be captured; the message says why."""


class CudaGraph:
    """A captured `compute()`. It reads the weights in place: they may change, but not move.

    Args:
        compute: returns the values of an evaluation.
        model: what it reads.
        batches: the examples that it evaluates.
    """

    def __init__(
        self, compute: Callable[[], torch.Tensor], model: object, batches: EvalBatches
    ) -> None:
        self._graph, device = torch.cuda.CUDAGraph(), batches.device
        try:
            self._addresses = _addresses(model)
            side = torch.cuda.Stream(device)
            with preserve_state(model), switch_stream(side):
                before = _side_effects(model, device)
                compute()  # libraries initialise on a first call, which cannot be captured
                if _side_effects(model, device) != before:  # a replay would not undo it
                    raise CudaGraphError(
                        "the forward draws random numbers or writes to its tensors"
                    )
                self._ring = ResultRing(compute(), batches)
                with capture(self._graph):
                    self._values = compute()
                    self._ring.write(self._values)
        except CudaGraphError:
            raise
        except RuntimeError as error:
            release_generator(device)
            raise CudaGraphError(str(error).splitlines()[0]) from error

    def fits(self, model: object) -> bool:
        """Return whether the tensors of the model are where they were at the capture."""
        return _addresses(model) == self._addresses

    def submit(self, step: int) -> None:
        """Evaluate the weights of now; the results stay on the device for a while."""
        self._ring.replay(self._graph, step)

    def has_results(self, *, everything: bool) -> bool:
        """Return whether there are results to copy: enough to do so, or any with `everything`."""
        return self._ring.is_due(everything=everything)

    def copy_results(self) -> ResultBlock:
        """Return the results that were not copied yet, on their way to the host."""
        return self._ring.copy()

    def values(self) -> torch.Tensor:
        """Return the values for the weights of now; the next evaluation overwrites them."""
        self._graph.replay()
        self._ring.skip()
        return self._values


@contextmanager
def capture(graph: torch.cuda.CUDAGraph) -> Iterator[None]:
    """Capture what is submitted to the current stream, which must not be the default one.

    Unlike `torch.cuda.graph`, this waits neither for the GPU nor empties its cache, so that other
    streams continue; and other threads (a loader that pins memory, say) with their own CUDA calls.
    No garbage is collected meanwhile: freeing another graph would end the capture.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        graph.capture_begin(capture_error_mode="thread_local")
        try:
            yield
        finally:
            graph.capture_end()
    finally:
        if collects:
            gc.enable()


@contextmanager
def switch_stream(side: torch.cuda.Stream) -> Iterator[None]:
    """Work on `side`, after what was submitted so far and before what is submitted later."""
    current = torch.cuda.current_stream(side.device)
    side.wait_stream(current)
    try:
        with torch.cuda.stream(side):
            yield
    finally:
        current.wait_stream(side)


def release_generator(device: torch.device) -> None:
    """Release the random generator of the device from a failed capture, or it refuses to draw."""
    generator = torch.cuda.default_generators[device.index or 0]
    generator.graphsafe_set_state(generator.clone_state())


def differ_in_bits(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return whether two tensors differ in any bit, without waiting for a GPU; NaN equals NaN.

    Example:
        >>> nan = torch.tensor([float("nan"), 1.0])
        >>> differ_in_bits(nan, nan.clone()), differ_in_bits(nan, -nan)
        (tensor(False), tensor(True))
    """
    if (a.shape, a.dtype) != (b.shape, b.dtype):
        raise CudaGraphError(f"its results are {a.dtype}, those of a plain evaluation {b.dtype}")
    return (a.contiguous().view(torch.uint8) != b.contiguous().view(torch.uint8)).any()


def _addresses(model: object) -> list[tuple[object, ...]]:
    if not isinstance(model, nn.Module):
        return []
    return [(t.data_ptr(), t.shape, t.stride(), t.dtype) for t in unique_tensors(model)]


def _side_effects(model: object, device: torch.device) -> tuple[bytes, list[int]]:
    """Return the random state and the version counters of the tensors of the model."""
    tensors = unique_tensors(model) if isinstance(model, nn.Module) else []
    random_state = torch.cuda.get_rng_state(device).numpy().tobytes()
    return random_state, [tensor._version for tensor in tensors]  # noqa: SLF001
