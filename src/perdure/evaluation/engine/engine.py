"""Evaluates models: right here, or through a worker that evaluates snapshots next to training.

A forward pass goes from `Evaluator.step` through `Engine.submit` to `Scorer.values`.
"""

from __future__ import annotations

import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import nn

from ..._devices import use_tf32
from ..eval_data import check_types
from ..schedules import Inline
from ..state.preserve import preserve_state
from ..state.tensors import first_tensor, model_device
from .cuda_graph import CudaGraphError, EvalGraph, GraphPool, differ_in_bits
from .eval_batches import EvalBatches, EvalResult, Predictions, Values
from .half_precision import HalfPrecisionError
from .precision import PrecisionControl
from .result_ring import MAX_BLOCKS
from .side_stream import SideStream
from .worker import ProcessWorker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from torch import Tensor

    from ..eval_set import EvalSet
    from ..schedules import Executor
    from .result_ring import ResultBlock
    from .scoring import Scorer

__all__ = ["Engine"]

FIRST_VERIFIED = (1, 2, 8)  # evaluations of the same tasks, by number; the second is captured
MAX_PENDING = 32  # evaluations a GPU may have queued before the training process waits


class _Pending(NamedTuple):
    """An evaluation in a GPU's queue."""

    step: int
    batches: EvalBatches
    values: Tensor
    differs: Tensor | None  # whether the graph's results do, if the evaluation verified them
    arrived: torch.cuda.Event
    begun: torch.cuda.Event
    ended: torch.cuda.Event

    def results(self) -> list[EvalResult]:
        """Return the result, once it has arrived."""
        seconds = self.begun.elapsed_time(self.ended) / 1000
        return [EvalResult(self.step, self.batches, self.values.numpy(), seconds)]


class Engine:
    """Evaluates a model on the subsets of tasks while it is trained, and on whole sets.

    Args:
        scorer: how examples are scored.
        executor: how evaluations are executed.
        warn: called with anything the user should know.
    """

    def __init__(self, scorer: Scorer, executor: Executor, warn: Callable[[str], None]) -> None:
        self.scorer, self.executor, self.warn = scorer, executor, warn
        self._device = _worker_device(executor)
        self._background: ProcessWorker | SideStream | None = None
        self._runs_here = isinstance(executor, Inline)
        self._batches: EvalBatches | None = None  # prepared for the tasks of now
        self._evaluated: EvalBatches | None = None  # those that were evaluated here last
        self._count = 0  # how often
        self.precision = PrecisionControl(scorer, executor)
        self._graph: EvalGraph | None = None
        self._graph_pool: GraphPool | None = None
        self._graph_differs: Tensor | None = None  # from the evaluation under way
        self._rejected_at: int | None = None  # the step at which a verification failed
        self._graph_allowed = scorer.batch_size is None
        self._pending: deque[_Pending | ResultBlock] = deque()
        self._completed: deque[EvalResult] = deque()

    @property
    def runs_here(self) -> bool:
        """Whether evaluations take the training process's own time."""
        return self._runs_here

    def submit(self, model: object, tasks: Sequence[EvalSet], step: int) -> None:
        """Evaluate the subsets of `tasks` on the weights of now; `collect` has the results."""
        device = self._device or model_device(model)
        batches = self._batches
        if batches is None or batches.device != device or batches.tasks != tuple(tasks):
            with preserve_state(model):
                batches = EvalBatches(tasks, self.scorer, device)
                batches.at(step)
            self._batches = batches
        if not self._runs_here and self._background is None:
            self._background = self._start_background(model)
        try:
            if self._background is not None:
                assert isinstance(model, nn.Module)
                self._background.submit(model, batches, step)
            else:
                self.evaluate(model, batches, step)
        except Exception as error:
            check_types(error, model, tasks)
            names = ", ".join(task.name for task in tasks)
            error.add_note(f"while evaluating {names} after step {step}")
            raise

    def replay(self, tasks: Sequence[EvalSet], step: int) -> bool:
        """Evaluate by the last evaluation's CUDA graph, whose model has not moved since.

        Return False where there is none, it is of other tasks, or it is due to be verified.
        """
        batches = self._batches
        if self._graph is None or self._background is not None or batches is not self._evaluated:
            return False
        if batches is None or batches.tasks != tuple(tasks) or self._verifies(self._count + 1):
            return False
        self._count += 1
        self._submit_to(self._graph, step)
        return True

    def _start_background(self, model: object) -> ProcessWorker | SideStream | None:
        if not isinstance(model, nn.Module):
            self.warn("the model has no tensors to take snapshots of; it is evaluated inline")
            self._runs_here = True
            return None
        device = model_device(model)
        if device.type == "cuda":
            return SideStream(self)
        if self._device is not None:
            raise ValueError(
                f"device={self._device} is for models on CUDA, this one is on {device}"
            )
        return ProcessWorker(self)

    def wait(self) -> None:
        """Wait for a worker process, if there is one, until it has evaluated everything."""
        if isinstance(self._background, ProcessWorker):
            self._background.wait()

    def has_results(self, *, everything: bool) -> bool:
        """Return whether `collect` may have results; with `everything`, if it waits for all."""
        if isinstance(self._background, ProcessWorker):
            return self._background.has_results
        graph = self._graph is not None and self._graph.has_results(everything=everything)
        return bool(self._completed or self._pending or graph or self._rejected_at is not None)

    def collect(self, *, wait: bool = False) -> list[EvalResult]:
        """Return completed evaluations in order; with `wait`, all that were submitted."""
        if self._background is not None:
            return self._background.collect(wait=wait)
        return self.collect_here(wait=wait)

    def next_error(self) -> Exception | None:
        """Return the next error that the user's own code raised in the background, each once."""
        return None if self._background is None else self._background.next_error()

    def evaluate_now(
        self, model: object, tasks: Iterable[EvalSet], *, whole: bool
    ) -> tuple[dict[str, Values], dict[str, Predictions]]:
        """Return the values of the examples of each task: of whole sets, or of fixed subsets.

        A metric of whole sets is always computed on these, and is the value of every example.
        Labels and predicted classes come with the values where each example has one label.
        """
        device = model_device(model)
        values, predictions = dict[str, Values](), dict[str, Predictions]()
        with preserve_state(model), use_tf32(enabled=False):
            for task in tasks:
                try:
                    values[task.name], pairs = self._task_values(model, task, device, whole=whole)
                except Exception as error:
                    check_types(error, model, [task])
                    if repr(task.name) not in str(error):
                        error.add_note(f"while evaluating {task.name}")
                    raise
                if pairs is not None:
                    predictions[task.name] = pairs
        return values, predictions

    def _task_values(
        self, model: object, task: EvalSet, device: torch.device, *, whole: bool
    ) -> tuple[Values, Predictions | None]:
        if self.scorer.metric is not None:
            score = self.scorer.metric.compute(self._outputs(model, task, device), task.name)
            return np.full(task.size, score), None
        parts, pairs = list[Values](), list[Predictions]()
        size = self.scorer.part_size(task)
        for x, y in task.batches(size) if whole else task.fixed_rows(size):
            (rows,) = self.scorer.group([(task.name, x, y)], device)
            predicted: list[Tensor] = []
            parts.append(self.scorer.values(model, rows, predicted).numpy(force=True))
            if predicted and predicted[0].dim() == 1:
                pair = (first_tensor(rows.y), torch.cat(predicted))
                pairs.append(np.stack([part.numpy(force=True) for part in pair]))
        return np.concatenate(parts), np.concatenate(pairs, axis=1) if pairs else None

    def _outputs(
        self, model: object, task: EvalSet, device: torch.device
    ) -> Iterator[tuple[Tensor, object]]:
        """Yield the outputs and labels of a whole set, a batch at a time."""
        for x, y in task.batches(self.scorer.part_size(task)):
            (rows,) = self.scorer.group([(task.name, x, y)], device)
            yield from self.scorer.outputs(model, rows)

    def close(self) -> None:
        """Stop what runs in the background, and free the memory of CUDA graphs."""
        if self._background is not None:
            self._background.close()
        if self._graph_pool is not None:
            self._graph = self._graph_pool = None
            self.precision.close()
            with suppress(RuntimeError):  # some versions refuse after a capture that failed
                torch.cuda.empty_cache()

    # Evaluating in this process, which a worker's process does as well.

    def evaluate(self, model: object, batches: EvalBatches, step: int) -> None:
        """Evaluate `model` here; on CUDA the result is fetched by `collect_here` once ready."""
        if batches is not self._evaluated:
            self._drain()
            self._evaluated, self._count, self._graph = batches, 0, None
        self._count += 1
        start = time.perf_counter()
        if batches.device.type != "cuda":
            values = self._values(model, batches, step).numpy(force=True)
            seconds = time.perf_counter() - start
            self._completed.append(EvalResult(step, batches, values, seconds))
            return
        verifies = self._verifies(self._count)
        if self._graph is not None and not verifies and self._graph.fits(model):
            self._submit_to(self._graph, step)
            return
        self._drain()
        self._await_room(MAX_PENDING)
        with torch.cuda.device(batches.device):
            begun, ended, arrived = (torch.cuda.Event(enable_timing=True) for _ in range(3))
            begun.record()
            on_device = self._values(model, batches, step)
            ended.record()
            host = _begin_copy(on_device)
            differs = None if self._graph_differs is None else _begin_copy(self._graph_differs)
            arrived.record()
        self._graph_differs = None
        self._pending.append(_Pending(step, batches, host, differs, arrived, begun, ended))

    def collect_here(self, *, wait: bool = False) -> list[EvalResult]:
        """Return the completed results of `evaluate` in order; with `wait`, all of them."""
        self._drain(everything=wait)
        while self._pending and (wait or self._pending[0].arrived.query()):
            self._complete_first()
        if self._rejected_at is not None:
            self._drain()  # what the graph still has is recorded, with the warning
            step, self._rejected_at = self._rejected_at, None
            self._graph, self._graph_allowed = None, False
            self.warn(
                f"no CUDA graph from here on, evaluation is eager: at step {step} its results "
                "differ from a plain evaluation; those since the verification before may be wrong"
            )
        results = list(self._completed)
        self._completed.clear()
        return results

    def _drain(self, *, everything: bool = True) -> None:
        """Have results that a graph keeps on the device copied: enough of them, or everything."""
        if self._graph is not None and self._graph.has_results(everything=everything):
            self._await_room(MAX_BLOCKS)  # the memory on the host is used again
            self._pending.append(self._graph.copy_results())

    def _await_room(self, size: int) -> None:
        while len(self._pending) >= size:
            self._complete_first()

    def _complete_first(self) -> None:
        first, *others = self._pending
        first.arrived.synchronize()
        results = first.results()
        # In one statement: no interrupt loses these results, or has them recorded twice.
        self._pending, self._completed = deque(others), deque([*self._completed, *results])
        if isinstance(first, _Pending) and first.differs is not None and self._graph_allowed:
            self._rejected_at = self._rejected_at or (first.step if first.differs else None)

    def _values(self, model: object, batches: EvalBatches, step: int) -> Tensor:
        precision = self.precision
        try:
            if self._count > 1 and precision.screens(model, batches):
                often = self._count & (self._count - 1) == 0  # the bound is measured there
                verify = often or self._verifies(self._count)
                pool = self._pool(batches.device)
                return precision.screened_values(model, batches, step, verify=verify, pool=pool)
            with preserve_state(model):
                values = precision.eager_values(model, batches, step)
        except HalfPrecisionError as reason:
            if precision.disable(reason):
                self.warn(f"half precision is off from step {step} on: {reason}")
            return self._values(model, batches, step)
        if batches.device.type == "cuda" and self._graph_allowed and not batches.resample:
            self._capture_or_verify(model, batches, values, step)
        return values

    def _pool(self, device: torch.device) -> GraphPool | None:
        """Return the memory of all graphs of this engine; None on a CPU."""
        if device.type != "cuda":
            return None
        if self._graph_pool is None or self._graph_pool.device != device:
            self._graph_pool = GraphPool(device)
        return self._graph_pool

    def _submit_to(self, graph: EvalGraph, step: int) -> None:
        graph.submit(step)
        self._drain(everything=False)

    def _verifies(self, count: int) -> bool:
        """Return whether to verify an evaluation: a few at first, then every n evaluations."""
        return count in FIRST_VERIFIED or count % self.executor.verify_every == 0

    def _capture_or_verify(
        self, model: object, batches: EvalBatches, values: Tensor, step: int
    ) -> None:
        """Capture the evaluation in a graph, or compare the captured one with `values`."""
        try:
            if self._graph is None or not self._graph.fits(model):
                pool = self._pool(batches.device) if self._count > 1 else None
                if pool is not None:  # a single evaluation is not worth a capture
                    self._graph = EvalGraph(
                        lambda: self.precision.eager_values(model, batches, step),
                        model, values, batches, pool,
                    )  # fmt: skip
            else:
                self._graph_differs = differ_in_bits(self._graph.values(), values)
        except CudaGraphError as reason:
            self._graph, self._graph_allowed = None, False
            self.warn(f"no CUDA graph from step {step} on, evaluation is eager: {reason}")


def _begin_copy(tensor: Tensor) -> Tensor:
    """Return a tensor on the host that has the values once the GPU has come so far."""
    on_host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    return on_host.copy_(tensor, non_blocking=True)


def _worker_device(executor: Executor) -> torch.device | None:
    """Return the second GPU that a worker shall use, or raise if there is none."""
    if isinstance(executor, Inline) or executor.device is None:
        return None
    device = torch.device(executor.device)
    if device.type != "cuda" or (device.index or 0) >= torch.cuda.device_count():
        raise ValueError(f"device is {executor.device!r}, expected an available CUDA device")
    return device
