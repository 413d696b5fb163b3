"""Results of captured evaluations when an interrupt comes, with a CPU in place of a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

import perdure
from perdure.evaluation.engine.cuda_graph import EvalGraph
from perdure.evaluation.engine.eval_batches import EvalResult
from perdure.evaluation.engine.result_ring import ResultRing

if TYPE_CHECKING:
    from collections.abc import Callable


class FakeEvent:
    """An event of a stream that has always happened."""

    def record(self, _: object = None) -> None:
        """Do nothing."""

    def elapsed_time(self, _: FakeEvent) -> float:
        return 1.0


class FakeGraph:
    """Evaluates, and calls something at once after that."""

    def __init__(self, evaluate: Callable[[], None]) -> None:
        self.evaluate = evaluate
        self.after: Callable[[], None] = lambda: None

    def replay(self) -> None:
        self.evaluate()
        self.after()

    def fits(self, _: object) -> bool:
        return True


@pytest.fixture
def ring(monkeypatch: pytest.MonkeyPatch) -> ResultRing:
    def empty(*shape: Any, pin_memory: bool = False, **options: Any) -> torch.Tensor:
        return torch.zeros(*shape, **options)

    monkeypatch.setattr(torch, "empty", empty)
    monkeypatch.setattr(torch.cuda, "Event", lambda **_: FakeEvent())
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _: None)
    return ResultRing(torch.zeros(1), batches=None)  # type: ignore[arg-type]


def interrupt() -> None:
    raise KeyboardInterrupt


def test_a_ring_that_was_interrupted_is_not_used_again(ring: ResultRing) -> None:
    """Its results would be those of the steps before; what it had can be recorded."""
    values = iter(range(1, 10))
    fake = FakeGraph(lambda: ring.write(torch.tensor([float(next(values))])))
    graph = object.__new__(EvalGraph)
    graph._ring, graph._graph = ring, fake  # type: ignore[assignment]
    graph.submit(1)
    graph.submit(2)
    assert graph.fits(None)
    fake.after = interrupt
    with pytest.raises(KeyboardInterrupt):
        graph.submit(3)
    assert not graph.fits(None)
    results = graph.copy_results().results()
    assert [(result.step, result.values.tolist()) for result in results] == [(1, [1.0]), (2, [2.0])]


def test_a_verification_that_was_interrupted_leaves_no_ring_to_use(ring: ResultRing) -> None:
    graph = object.__new__(EvalGraph)
    graph._ring = ring
    graph._graph = FakeGraph(lambda: ring.write(torch.ones(1)))  # type: ignore[assignment]
    graph.values()
    assert graph.fits(None)
    graph._graph.after = interrupt  # type: ignore[attr-defined]
    with pytest.raises(KeyboardInterrupt):
        graph.values()
    assert not graph.fits(None)


class FakeBlock:
    """A block of results; waiting for it may be interrupted."""

    def __init__(self, *steps: int, wait: Callable[[], None] = lambda: None) -> None:
        self.arrived, self._steps = self, steps
        self.synchronize = wait

    def results(self) -> list[EvalResult]:
        batches: Any = None
        return [EvalResult(step, batches, np.ones(1), 0.0) for step in self._steps]


def test_an_interrupt_while_the_host_waits_for_results_loses_none() -> None:
    tasks = {"a": (torch.zeros(2, 3), torch.zeros(2).long())}
    with perdure.Evaluator(tasks, count_flops=False) as evaluator:
        engine: Any = evaluator._engine
    first = FakeBlock(1, 2, wait=interrupt)
    engine._pending.extend([first, FakeBlock(3)])
    with pytest.raises(KeyboardInterrupt):
        engine._await_room(1)
    first.synchronize = lambda: None
    engine._await_room(1)
    assert [result.step for result in engine.collect_here()] == [1, 2, 3]
