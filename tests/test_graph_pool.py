"""The memory that CUDA graphs share, with graphs that only remember what they were asked."""

from __future__ import annotations

import gc
import itertools
import weakref
from contextlib import nullcontext
from typing import Any

import pytest
import torch

from perdure.evaluation.engine import cuda_graph
from perdure.evaluation.engine.cuda_graph import CudaGraph, CudaGraphError, GraphPool, capture

NUMBERS = itertools.count(1)
drawn_from: list[object] = []  # the state of the generator at each capture


class FakeGenerator:
    """The generator of a device, or a state of it, which captured graphs remember."""

    def __init__(self, state: object) -> None:
        self.state = state

    def graphsafe_get_state(self) -> FakeGenerator:
        return FakeGenerator(self.state)

    def graphsafe_set_state(self, state: FakeGenerator) -> None:
        self.state = state.state

    def clone_state(self) -> FakeGenerator:
        return FakeGenerator(object())


class FakeGraph:
    """Fails at the beginning or at the end of a capture if it is told to."""

    fails_at = ""

    def __init__(self) -> None:
        self.handle: Any = None

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global") -> None:
        assert capture_error_mode == "thread_local"
        drawn_from.append(torch.cuda.default_generators[0].state)  # type: ignore[attr-defined]
        if self.fails_at == "begin":
            raise RuntimeError("out of memory")
        self.handle = pool or (next(NUMBERS), 0)

    def capture_end(self) -> None:
        """Fail, or do nothing."""
        if self.fails_at == "end":
            raise RuntimeError("the capture was invalidated")

    def pool(self) -> Any:
        return self.handle


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> GraphPool:
    monkeypatch.setattr(torch.cuda, "CUDAGraph", FakeGraph)
    monkeypatch.setattr(torch.cuda, "Stream", lambda _: object())
    monkeypatch.setattr(torch.cuda, "default_generators", (FakeGenerator("training"),))
    monkeypatch.setattr(torch.cuda, "get_rng_state", lambda _: torch.zeros(1))
    monkeypatch.setattr(cuda_graph, "switch_stream", lambda _: nullcontext())
    drawn_from.clear()
    return GraphPool(torch.device("cpu"))


def capture_one(pool: GraphPool, error: Exception | None = None) -> Any:
    graph: Any = FakeGraph()
    with capture(graph, pool):
        if error is not None:
            raise error
    return graph


def test_graphs_share_the_memory_of_their_pool(pool: GraphPool) -> None:
    first, second = capture_one(pool), capture_one(pool)
    other = capture_one(GraphPool(torch.device("cpu")))
    assert first.handle == second.handle
    assert other.handle != first.handle


def test_memory_and_stream_are_not_used_again_after_a_failed_capture(pool: GraphPool) -> None:
    before, stream = capture_one(pool), pool.stream
    with pytest.raises(RuntimeError, match="invalidated"):
        capture_one(pool, RuntimeError("the capture was invalidated"))
    after = capture_one(pool)
    assert after.handle != before.handle
    assert pool.stream is not stream
    assert gc.isenabled()


@pytest.mark.parametrize("where", ["begin", "end"])
def test_a_graph_that_could_not_be_captured_is_never_freed(
    pool: GraphPool, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    capture_one(pool)
    monkeypatch.setattr(FakeGraph, "fails_at", where)
    graph: Any = FakeGraph()
    with pytest.raises(RuntimeError, match=r"memory|invalidated"), capture(graph, pool):
        pass
    alive = weakref.ref(graph)
    del graph
    gc.collect()
    assert alive() is not None
    assert gc.isenabled()


def test_the_error_of_a_capture_is_seen_even_if_it_cannot_end(
    pool: GraphPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    capture_one(pool)
    monkeypatch.setattr(FakeGraph, "fails_at", "end")
    with pytest.raises(KeyboardInterrupt), capture(FakeGraph(), pool):  # type: ignore[arg-type]
        raise KeyboardInterrupt


@pytest.mark.parametrize("fails_at", ["", "begin", "end"])
def test_captured_evaluations_leave_the_generator_to_training(
    pool: GraphPool, monkeypatch: pytest.MonkeyPatch, fails_at: str
) -> None:
    """A capture resets the offset of the generator, and one that fails spoils it."""
    monkeypatch.setattr(FakeGraph, "fails_at", fails_at)
    with pytest.raises(CudaGraphError) if fails_at else nullcontext():
        CudaGraph(lambda: torch.zeros(1), torch.nn.Linear(1, 1), pool)
    assert drawn_from
    assert "training" not in drawn_from
    assert torch.cuda.default_generators[0].state == "training"  # type: ignore[attr-defined]
