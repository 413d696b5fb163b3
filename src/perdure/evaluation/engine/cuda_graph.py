"""The evaluation forward captured as a CUDA graph: one launch instead of one a kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from ..state.preserve import preserve_state
from .eval_batches import state_of

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["CudaGraphError", "Graph"]


class CudaGraphError(RuntimeError):
    """Raised when an evaluation cannot be captured; the message says why."""


class Graph:
    """`compute()` captured. Weights are read where they are: they may change, not move."""

    def __init__(
        self, compute: Callable[[], torch.Tensor], model: Any, device: torch.device
    ) -> None:
        self._graph = torch.cuda.CUDAGraph()
        try:
            self._places = _places(model)
            side = torch.cuda.Stream(device)
            side.wait_stream(torch.cuda.current_stream(device))
            with preserve_state(model), torch.cuda.stream(side):
                before = _traces(model, device)
                compute()  # libraries set themselves up on a first call, which cannot be captured
                if _traces(model, device) != before:  # nothing would put that back after a replay
                    raise CudaGraphError(
                        "the forward draws random numbers or writes to its tensors"
                    )
                compute()
                side.synchronize()
                # Other threads (a loader that pins memory, say) go on with their own CUDA calls.
                with torch.cuda.graph(self._graph, stream=side, capture_error_mode="thread_local"):
                    self._values = compute()
            torch.cuda.current_stream(device).wait_stream(side)
        except CudaGraphError:
            raise
        except RuntimeError as error:
            _free_generator(device)
            raise CudaGraphError(str(error).splitlines()[0]) from error

    def fits(self, model: Any) -> bool:
        """Return whether the model's tensors are where they were at the capture."""
        return _places(model) == self._places

    def replay(self) -> torch.Tensor:
        """Return the values for the weights as they are now; overwritten by the next replay."""
        self._graph.replay()
        return self._values


def _free_generator(device: torch.device) -> None:
    """Free the device's random generator from a capture that failed; it would refuse to draw."""
    generator = torch.cuda.default_generators[device.index or 0]
    generator.graphsafe_set_state(generator.clone_state())


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Return whether two tensors are the same bit for bit: NaN is NaN."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    return torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8))


def _places(model: Any) -> list[tuple[Any, ...]]:
    if not isinstance(model, nn.Module):
        return []
    return [(t.data_ptr(), t.shape, t.stride(), t.dtype) for t in state_of(model)]


def _traces(model: Any, device: torch.device) -> tuple[bytes, list[int]]:
    """Return what a forward that draws or writes changes."""
    state = state_of(model) if isinstance(model, nn.Module) else []
    drawn = torch.cuda.get_rng_state(device).numpy().tobytes()
    return drawn, [tensor._version for tensor in state]  # noqa: SLF001
