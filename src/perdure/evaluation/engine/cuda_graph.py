"""An evaluation captured as a CUDA graph: one launch instead of one per kernel."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch import nn

from ..state.preserve import preserve_state
from ..state.tensors import unique_tensors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["CudaGraph", "CudaGraphError", "same_bits"]


class CudaGraphError(RuntimeError):
    """Raised when an evaluation cannot be captured; the message says why."""


class CudaGraph:
    """A captured `compute()`. It reads the weights in place: they may change, but not move."""

    def __init__(
        self, compute: Callable[[], torch.Tensor], model: object, device: torch.device
    ) -> None:
        self._graph = torch.cuda.CUDAGraph()
        try:
            self._addresses = _addresses(model)
            side = torch.cuda.Stream(device)
            with preserve_state(model), _switch_stream(side):
                before = _side_effects(model, device)
                compute()  # libraries initialise on a first call, which cannot be captured
                if _side_effects(model, device) != before:  # a replay would not undo it
                    raise CudaGraphError(
                        "the forward draws random numbers or writes to its tensors"
                    )
                compute()
                side.synchronize()
                # Other threads (a loader that pins memory, say) continue with their own CUDA calls.
                with torch.cuda.graph(self._graph, stream=side, capture_error_mode="thread_local"):
                    self._values = compute()
        except CudaGraphError:
            raise
        except RuntimeError as error:
            _release_generator(device)
            raise CudaGraphError(str(error).splitlines()[0]) from error

    def fits(self, model: object) -> bool:
        """Return whether the tensors of the model are where they were at the capture."""
        return _addresses(model) == self._addresses

    def replay(self) -> torch.Tensor:
        """Return the values for the weights of now; the next replay overwrites them."""
        self._graph.replay()
        return self._values


@contextmanager
def _switch_stream(side: torch.cuda.Stream) -> Iterator[None]:
    """Work on `side`, after what was submitted so far and before what is submitted later."""
    current = torch.cuda.current_stream(side.device)
    side.wait_stream(current)
    try:
        with torch.cuda.stream(side):
            yield
    finally:
        current.wait_stream(side)


def _release_generator(device: torch.device) -> None:
    """Release the random generator of the device from a failed capture, or it refuses to draw."""
    generator = torch.cuda.default_generators[device.index or 0]
    generator.graphsafe_set_state(generator.clone_state())


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Return whether two tensors are equal bit for bit; NaN equals NaN."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    return torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8))


def _addresses(model: object) -> list[tuple[object, ...]]:
    if not isinstance(model, nn.Module):
        return []
    return [(t.data_ptr(), t.shape, t.stride(), t.dtype) for t in unique_tensors(model)]


def _side_effects(model: object, device: torch.device) -> tuple[bytes, list[int]]:
    """Return the random state and the version counters of the tensors of the model."""
    tensors = unique_tensors(model) if isinstance(model, nn.Module) else []
    random_state = torch.cuda.get_rng_state(device).numpy().tobytes()
    return random_state, [tensor._version for tensor in tensors]  # noqa: SLF001
