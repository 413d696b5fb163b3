"""What each task costs: operations, seconds and bytes, measured next to training."""

from __future__ import annotations

import time
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

import msgspec
from torch import nn

from ..progress import format_costs
from ..state.preserve import preserve_state
from ..state.tensors import model_device, nbytes, row_layout, tensor_bytes, unique_tensors
from .flops import FlopCounter
from .readings import (
    StepFlops,
    StepFlopsState,
    can_count,
    data_size,
    evaluation_flops,
    peak_memory,
    training_pass_flops,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from ..engine.scoring import Scorer
    from ..eval_set import EvalSet

__all__ = ["CostMeter", "CostRow"]

CostRow = dict[str, int | float | None]  # a row of costs.csv by column


class _CostState(msgspec.Struct):
    """What a checkpoint keeps of the costs."""

    rows: dict[str, CostRow] = {}
    task: str | None = None
    step_flops: StepFlopsState = msgspec.field(default_factory=StepFlopsState)
    unmeasurable: list[str] = []  # columns whose reason was reported
    examples: int | None = None  # of the task's training data
    flops_per_example: dict[str, float] = {}  # of evaluating each task
    evaluated_examples: dict[str, int] = {}  # by task, since the current task began
    seconds_before: float = 0.0  # training work between tasks, for the next one
    flops_before: float = 0.0
    has_work_before: bool = False
    stored_bytes: int | None = None
    regularizer_bytes: int = 0
    auxiliary_bytes: int | None = None


class CostMeter:
    """Measures the costs of each task; `evaluator.costs` is one.

    Call `report_memory`, `count_as_training` and `exclude_from_costs` from the training loop for
    what only the loop knows. The evaluator calls the other methods.

    Args:
        count_flops: count the operations of some training steps.
        warn: called with anything the user should know.
    """

    def __init__(self, *, count_flops: bool, warn: Callable[[str], None]) -> None:
        self.count_flops, self._warn = count_flops, warn
        self._state = _CostState()
        self._row: CostRow = {}  # of the current task; empty between tasks
        self._steps = StepFlops()
        self._counted: dict[tuple[object, ...], float] = {}  # operations per example
        self._lap_start = self._excluded_seconds = 0.0

    def __repr__(self) -> str:
        return format_costs(self.rows)

    def report_memory(
        self, *, stored_samples: object = None, regularizer_state: object = None,
        auxiliary_tensors: object = None,
    ) -> None:  # fmt: skip
        """Report what the method keeps, as tensors or as a number of bytes.

        Call it before a task for what that task starts with. What a method creates at the end of
        a task for later ones is reported after the task. None leaves a value as it was.

        Args:
            stored_samples: examples of earlier tasks (for `sss`).
            regularizer_state: what extends the model, such as importances and anchors (for `ms`).
            auxiliary_tensors: other networks or their outputs, such as a teacher (`ms.copies`).
        """
        state = self._state
        if stored_samples is not None:
            state.stored_bytes = nbytes(stored_samples)
        if regularizer_state is not None:
            state.regularizer_bytes = nbytes(regularizer_state)
        if auxiliary_tensors is not None:
            state.auxiliary_bytes = nbytes(auxiliary_tensors)

    @contextmanager
    def count_as_training(self) -> Iterator[None]:
        """Count all operations inside this block as training of the current or the next task.

        For work outside of training steps: importances at the end of a task, training on a memory.
        """
        start, flops = time.perf_counter(), FlopCounter()
        count = self.count_flops and can_count(counting=self._steps.counting)
        with flops if count else nullcontext():
            yield
        if flops.problem:
            self._report_unmeasurable("flops_train", flops.problem)
        if self._row:
            if flops.problem:
                self._row["flops_train"] = None
            self._add("flops_train", flops.total)
            if self._steps.counting:
                self._steps.excluded += flops.total  # counted there, too
        else:
            self._state.seconds_before += time.perf_counter() - start
            self._state.flops_before += flops.total
            self._state.has_work_before = True

    @contextmanager
    def exclude_from_costs(self) -> Iterator[None]:
        """Exclude the time and operations of this block, such as saving a checkpoint."""
        start, flops = time.perf_counter(), self._steps.so_far
        excluded_before, excluded_flops = self._excluded_seconds, self._steps.excluded
        try:
            yield
        finally:
            nested = self._excluded_seconds - excluded_before  # excluded by blocks inside
            seconds = time.perf_counter() - start - nested
            self._lap_start += seconds
            self._excluded_seconds += seconds
            self._add("seconds_eval", seconds)
            nested_flops = self._steps.excluded - excluded_flops
            self._steps.excluded += max(0.0, self._steps.so_far - flops - nested_flops)

    # What follows is for the evaluator.

    @property
    def has_work_between_tasks(self) -> bool:
        """Whether work since the last task was counted as training."""
        return self._state.has_work_before

    @property
    def counts_step(self) -> bool:
        """Whether the operations of the current step are being counted, one by one."""
        return self._steps.counting

    @property
    def rows(self) -> dict[str, CostRow]:
        """The costs by task, in order of training."""
        return self._state.rows

    @property
    def seconds(self) -> tuple[float, float]:
        """The seconds of training and of evaluation so far."""
        rows = self.rows.values()
        training = sum(row["seconds_train"] or 0.0 for row in rows)
        return training, sum(row["seconds_eval"] or 0.0 for row in rows)

    @property
    def finished_rows(self) -> dict[str, CostRow]:
        """The costs of the tasks that have ended."""
        return {name: row for name, row in self.rows.items() if row is not self._row}

    def begin_task(self, task: str, train_data: object) -> None:
        """Begin a task; if it was trained before, its costs add up."""
        state = self._state
        size = data_size(train_data)
        state.examples = size.examples
        columns = ("seconds_train", "seconds_eval", "flops_train", "flops_eval")
        new: CostRow = dict.fromkeys(columns, 0.0)
        new |= {"stored_bytes": state.stored_bytes, "data_bytes": size.bytes}
        self._row, state.task = self.rows.setdefault(task, new), task
        self._add("seconds_train", state.seconds_before)
        self._add("flops_train", state.flops_before)
        state.seconds_before = state.flops_before = 0.0
        state.has_work_before = False
        self._steps.state = StepFlopsState()
        state.flops_per_example, state.evaluated_examples = {}, {}
        self._counted.clear()  # the forward pass may depend on the task
        self._lap()

    def end_task(self, model: object) -> None:
        """End the task: its evaluations, and what the model and its state take now."""
        state, row = self._state, self._row
        self._add("seconds_eval", self._lap())
        if self.count_flops and row["flops_train"] == 0:  # neither in steps nor at the end
            self._report_unmeasurable("flops_train", "no operations were seen between two steps")
            row["flops_train"] = None
        row["flops_eval"] = self._evaluation_flops()
        tensors = unique_tensors(model) if isinstance(model, nn.Module) else []
        row["model_bytes"] = sum(map(tensor_bytes, tensors)) + state.regularizer_bytes or None
        row["copies_bytes"] = state.auxiliary_bytes
        row["peak_bytes"] = peak_memory(model_device(model))
        self._row, state.task = {}, None

    def _evaluation_flops(self) -> float | None:
        """Return the operations of all evaluations of the task, None if some are not known."""
        known = 0.0
        for task, examples in self._state.evaluated_examples.items():
            per_example = self._state.flops_per_example.get(task)
            if per_example is None:
                return None
            known += examples * per_example
        return known + (self._row.get("flops_eval") or 0.0)

    def discard_task(self, task: str) -> None:
        """Remove a task that had no step."""
        self.rows.pop(task, None)
        self._row, self._state.task = {}, None

    def resume(self, *, replayed: bool = False) -> None:
        """Count the time from here on as training.

        After a step that was the replay of a CUDA graph the operations of the next are not counted:
        they would be the same.
        """
        if self._row:
            if self.count_flops and not replayed:
                self._steps.start()
                self._report_step_problem()
            self._add("seconds_eval", self._lap())

    def pause(self, *, steps: int = 0) -> None:
        """Count the time from here on as evaluation, after this many steps."""
        flops = self._steps.stop()
        self._report_step_problem()
        if not self._row:
            return
        self._add("seconds_train", self._lap())
        if steps > 1:
            flops = None  # of all of them together
        for _ in range(steps):
            step_flops = self._steps.end_step(flops)
            if step_flops is None:
                self._row["flops_train"] = None
            else:
                self._add("flops_train", step_flops)

    def add_background_time(self, seconds: float, *, in_training_time: bool) -> None:
        """Add the time of an evaluation next to training, or in the queue of the GPU."""
        self._add("seconds_eval", seconds)
        if in_training_time:
            self._add("seconds_train", -seconds)

    def add_evaluated(self, task: str, examples: int) -> None:
        """Add the number of examples of `task` that were evaluated."""
        evaluated = self._state.evaluated_examples
        evaluated[task] = evaluated.get(task, 0) + examples

    @property
    def evaluated_tasks(self) -> list[str]:
        """The tasks that were evaluated since the current one began."""
        return list(self._state.evaluated_examples)

    def estimate(
        self, model: object, task: EvalSet, evaluated: Iterable[EvalSet], scorer: Scorer
    ) -> None:
        """Count evaluations per example, and one pass over the training data of `task`."""
        if not self.count_flops:
            return
        for other in evaluated:
            try:
                flops = self._count_once(evaluation_flops, model, other, scorer)
            except Exception as error:  # a score that needs more examples, say
                self._report_unmeasurable("flops_eval", f"{type(error).__name__}: {error}")
                continue
            self._state.flops_per_example[other.name] = flops
        if self._state.examples is None or self._row.get("flops_one_pass") is not None:
            return
        try:
            flops = self._count_once(training_pass_flops, model, task, scorer)
            self._row["flops_one_pass"] = flops * self._state.examples
        except Exception as error:  # whatever the user's model does here, training continues
            self._report_unmeasurable("flops_one_pass", f"{type(error).__name__}: {error}")

    def _count_once(
        self, count: Callable[[object, EvalSet, Scorer], float], model: object, task: EvalSet,
        scorer: Scorer,
    ) -> float:  # fmt: skip
        """Return what `count` does, once per task for a model and examples like these."""
        if not isinstance(model, nn.Module):
            return count(model, task, scorer)
        tensors = [(tensor.shape, tensor.requires_grad) for tensor in unique_tensors(model)]
        name = task.name if scorer.takes_task or task.name in scorer.classes else None
        with preserve_state(model):  # reading examples may run the user's code
            layout = row_layout(task.fixed_rows(scorer.part_size(task))[0])
        key = (count, tuple(tensors), name, layout)
        if key not in self._counted:
            self._counted[key] = count(model, task, scorer)
        return self._counted[key]

    def state(self) -> dict[str, object]:
        """Return everything as plain data, for a checkpoint."""
        self._state.step_flops = self._steps.state
        state: dict[str, object] = msgspec.to_builtins(self._state)
        return state

    def load(self, state: Mapping[str, object]) -> None:
        """Continue from `state`."""
        self._state = msgspec.convert(state, _CostState)
        self._steps.state = self._state.step_flops
        self._row = {} if self._state.task is None else self.rows[self._state.task]
        self._lap()

    def close(self) -> None:
        """Stop counting."""
        self._steps.stop()
        self._report_step_problem()

    def _lap(self) -> float:
        """Return the seconds since the last call."""
        before, self._lap_start = self._lap_start, time.perf_counter()
        return self._lap_start - before

    def _add(self, column: str, amount: float) -> None:
        before = self._row.get(column)
        if before is not None:
            self._row[column] = max(before + amount, 0.0)

    def _report_step_problem(self) -> None:
        if self._steps.problem is not None:
            self._report_unmeasurable("flops_train", self._steps.problem)

    def _report_unmeasurable(self, column: str, reason: str) -> None:
        if column not in self._state.unmeasurable:
            self._state.unmeasurable.append(column)
            self._warn(f"{column} is not measured: {reason}")
