"""An evaluation captured as a CUDA graph: one launch instead of one per kernel."""

from __future__ import annotations

import ctypes
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from ..state.preserve import pause_garbage_collection, preserve_state
from ..state.tensors import unique_tensors
from .result_ring import ResultRing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .eval_batches import EvalBatches
    from .result_ring import ResultBlock

__all__ = [
    "CudaGraph",
    "CudaGraphError",
    "EvalGraph",
    "GraphPool",
    "capture",
    "differ_in_bits",
    "release_generator",
    "switch_generator",
    "switch_stream",
]


class CudaGraphError(RuntimeError):
    """Raised when an evaluation cannot be captured; the message says why."""


class GraphPool:
    """Memory that CUDA graphs share, and the stream on which they are captured.

    Its graphs must run one after the other: each uses the memory of the temporary tensors of the
    others. With a pool per graph, PyTorch would keep the memory of every graph that ever was.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._stream: torch.cuda.Stream | None = None
        self._first: torch.cuda.CUDAGraph | None = None

    @property
    def stream(self) -> torch.cuda.Stream:
        """The stream of all captures."""
        if self._stream is None:
            self._stream = torch.cuda.Stream(self.device)
        return self._stream

    def handle(self) -> Any:
        """Return what `capture_begin` takes; the current stream must be that of the pool."""
        if self._first is None:
            first = torch.cuda.CUDAGraph()
            with capture(first):
                torch.zeros(1, device=self.device)
            self._first = first  # the pool exists as long as one of its graphs
        return self._first.pool()

    def discard(self) -> None:
        """Use other memory from here on: after a capture that failed, this cannot be used."""
        self._stream = self._first = None


class CudaGraph:
    """A captured `compute()`. It reads the weights in place: they may change, but not move.

    Args:
        compute: returns a tensor.
        model: what it reads.
        pool: the memory of the graph.
    """

    def __init__(self, compute: Callable[[], torch.Tensor], model: object, pool: GraphPool) -> None:
        self._graph, device = torch.cuda.CUDAGraph(), pool.device
        try:
            self._addresses = _addresses(model)
            with preserve_state(model), switch_stream(pool.stream):
                before = _side_effects(model, device)
                compute()  # libraries initialise on a first call, which cannot be captured
                if _side_effects(model, device) != before:  # a replay would not undo it
                    raise CudaGraphError(
                        "the forward draws random numbers or writes to its tensors"
                    )
                with switch_generator(device), capture(self._graph, pool):  # it draws nothing
                    self._values = compute()
        except CudaGraphError:
            raise
        except RuntimeError as error:
            raise CudaGraphError(str(error).splitlines()[0]) from error

    def fits(self, model: object) -> bool:
        """Return whether the tensors of the model are where they were at the capture."""
        return _addresses(model) == self._addresses

    def replay(self) -> torch.Tensor:
        """Return the values for the weights of now; the next replay overwrites them."""
        self._graph.replay()
        return self._values


class EvalGraph:
    """A captured evaluation, whose results gather on the device.

    Args:
        compute: returns the values of an evaluation.
        model: as for `CudaGraph`.
        values: what `compute` returned for these batches.
        batches: the examples that it evaluates.
        pool: the memory of the graph.
    """

    def __init__(
        self,
        compute: Callable[[], torch.Tensor],
        model: object,
        values: torch.Tensor,
        batches: EvalBatches,
        pool: GraphPool,
    ) -> None:
        try:
            self._ring = ResultRing(values, batches)
        except RuntimeError as error:  # such as a lack of memory
            raise CudaGraphError(str(error).splitlines()[0]) from error

        def compute_and_write() -> torch.Tensor:
            values = compute()
            self._ring.write(values)
            return values

        self._graph = CudaGraph(compute_and_write, model, pool)
        self._ring.skip()  # what was written before the capture

    def fits(self, model: object) -> bool:
        """Return whether the tensors of the model are where they were at the capture."""
        return self._ring.is_intact and self._graph.fits(model)

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
        self._ring.is_intact = False  # an interrupt may come before `skip`
        values = self._graph.replay()
        self._ring.skip()
        return values


@contextmanager
def capture(graph: torch.cuda.CUDAGraph, pool: GraphPool | None = None) -> Iterator[None]:
    """Capture what is submitted to the current stream, which must be that of the pool, if any.

    Unlike `torch.cuda.graph`, this waits neither for the GPU nor empties its cache, so that other
    streams continue; and other threads (a loader that pins memory, say) with their own CUDA calls.
    No garbage is collected meanwhile: freeing another graph would end the capture.
    """
    with pause_garbage_collection():
        try:
            _begin_capture(graph, None if pool is None else pool.handle())
            try:
                yield
            except BaseException:  # it is the one to see, an interrupt too
                with suppress(RuntimeError):
                    _end_capture(graph)
                raise
            _end_capture(graph)
        except BaseException:
            if pool is not None:
                pool.discard()
            raise


def _begin_capture(graph: torch.cuda.CUDAGraph, handle: Any) -> None:
    try:
        graph.capture_begin(pool=handle, capture_error_mode="thread_local")
    except RuntimeError:
        _keep_forever(graph)  # PyTorch 2.11 ends the process when it frees such a graph
        raise


def _end_capture(graph: torch.cuda.CUDAGraph) -> None:
    try:
        graph.capture_end()
    except RuntimeError:
        _keep_forever(graph)  # PyTorch's allocator still asks it which memory to use
        raise


def _keep_forever(graph: torch.cuda.CUDAGraph) -> None:
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(graph))


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


@contextmanager
def switch_generator(
    device: torch.device, state: torch.Generator | None = None
) -> Iterator[torch.Generator]:
    """Draw the random numbers of the device from `state`, or from a copy; yield its generator.

    Graphs that were captured with one state share a seed and an offset in the memory of the device:
    they must not run at the same time, and a capture resets the offset.
    """
    generator = torch.cuda.default_generators[device.index or 0]
    before = generator.graphsafe_get_state()
    generator.graphsafe_set_state(generator.clone_state() if state is None else state)
    try:
        yield generator
    finally:
        generator.graphsafe_set_state(before)


def release_generator(device: torch.device) -> None:
    """Release the random generator of the device from a failed capture, or it refuses to draw.

    Graphs that were captured with it before cannot be replayed any more.
    """
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
