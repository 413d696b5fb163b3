"""The training loop. A test shows that it equals a few lines of your own."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from .._random_streams import random_stream
from ..evaluation.engine.cuda_graph import GraphPool
from ..scenarios import order_drifting_stream
from .hyperparameters import LearningRateSchedule, set_learning_rates
from .monitoring import (
    DivergenceCheck,
    EarlyStopping,
    check_batches,
    check_rows,
    split_for_early_stopping,
)
from .step_graph import StepGraphs, TaskSteps, compute_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ..evaluation import Evaluator
    from ..scenarios import Scenario
    from ..strategies import Rows, Strategy
    from .checkpoint import Checkpointer

__all__ = [
    "Phase",
    "Position",
    "TrainingPlan",
    "count_steps",
    "iterate_batches",
    "list_phases",
    "train",
]


class TrainingPlan(NamedTuple):
    """How long to train on each task, and in which batches."""

    batch: int = 256
    epochs: int = 1
    iterations: int | None = None  # per task, instead of epochs
    seed: int = 0
    patience: int | None = None  # epochs without a better held-out accuracy; None: train to the end
    early_stopping_split: float = 0.1  # fraction of each task's examples that is held out
    boundaries: bool = True  # False: one stream, in which tasks have no known ends
    blur: float = 0.0  # of a stream without boundaries
    schedule: LearningRateSchedule = LearningRateSchedule()  # of the learning rate
    precision: str = "default"  # of training: PyTorch's settings, float32, tf32 or bfloat16
    capture: bool = True  # steps on CUDA in graphs, where the strategy allows it


class Phase(NamedTuple):
    """A part of the stream: its training examples, and the tasks whose classes occur in it."""

    name: str | None
    rows: Rows
    tasks: Sequence[int]


class Position(NamedTuple):
    """Where training is: after `done` steps of a phase, and `step` steps in total."""

    phase: int = 0
    done: int = 0
    step: int = 0
    rows: Rows | None = None  # the training examples of the phase


def train(
    scenario: Scenario,
    strategy: Strategy,
    plan: TrainingPlan,
    evaluator: Evaluator | None = None,
    *,
    gradients: int | None = None,
    start: Position | None = None,
    stopping: EarlyStopping | None = None,
    checkpointer: Checkpointer | None = None,
) -> Iterator[Position]:
    """Yield the position after every step, or after several that are taken together on a GPU.

    Args:
        scenario: The tasks.
        strategy: The learner.
        plan: How long to train, and in which batches.
        evaluator: Evaluates the model after steps at which it is due.
        gradients: Record gradient norms every this many steps.
        start: Where to resume, after the state of the strategy was loaded.
        stopping: The state of early stopping, for checkpoints.
        checkpointer: Saves checkpoints.
    """
    if start is not None and plan.patience and stopping is None:
        raise ValueError("resuming with patience needs the `stopping` that was saved")
    start = start or Position()
    step, stopping = start.step, stopping or EarlyStopping(plan.patience)
    counted = nullcontext if evaluator is None else evaluator.costs.count_as_training
    device = strategy.examples.device
    compute = partial(compute_in, plan.precision, device)
    captures = device.type == "cuda" and plan.capture and plan.schedule.is_constant
    pool = GraphPool(device) if captures else None
    for index, phase in list(enumerate(list_phases(scenario, plan)))[start.phase :]:
        for task in range(len(scenario.tasks)) if strategy.trains_on_all_tasks else phase.tasks:
            strategy.model.open(task, scenario.tasks[task].classes)
        task_rows, held_out = split_for_early_stopping(phase.rows, plan)
        if index == start.phase and start.rows is not None:
            rows, done = start.rows, start.done
        else:
            with counted(), compute():
                rows, done = check_rows(strategy, strategy.begin_task(index, task_rows)), 0
            stopping.start_task(phase.name or "")
        check = DivergenceCheck(strategy, phase.name, step)
        on_loss_terms = None
        if evaluator is not None and gradients:
            on_loss_terms = partial(check.record_gradients, evaluator, gradients)
        graphs = StepGraphs(strategy, compute, pool=pool)
        steps = TaskSteps(
            strategy, graphs, check, task=_only_task(strategy, rows), evaluator=evaluator,
            on_loss_terms=on_loss_terms, singly=bool(plan.patience),
        )  # fmt: skip
        should_stop = partial(stopping.should_stop, strategy, held_out)
        with _evaluate_phase(evaluator, phase, strategy):
            for new in iterate_batches(rows, plan, index, skip=done, should_stop=should_stop):
                batches = check_batches(strategy, strategy.select_rows(new))
                if not plan.schedule.is_constant:
                    factor = plan.schedule.factor(done, count_steps(rows, plan))
                    set_learning_rates(strategy.optimizer, factor)
                step, done = step + 1, done + 1
                if not steps.add(batches):
                    continue
                if checkpointer is not None and checkpointer.is_due():
                    check.check_losses()  # weights that are not finite are not worth saving
                    checkpointer.save(Position(index, done, step, rows))
                yield Position(index, done, step, rows)
            if steps.flush():
                yield Position(index, done, step, rows)
            check.check_losses()
            with counted(), compute():
                strategy.end_task(index, task_rows)
            check.check_weights()
        if checkpointer is not None and checkpointer.is_due(task_ended=True):
            checkpointer.save(Position(index + 1, 0, step))


def list_phases(scenario: Scenario, plan: TrainingPlan) -> list[Phase]:
    """Return the phases of a stream: one per task, or a single one without boundaries."""
    if plan.boundaries:
        task_of_row = scenario.train.task  # blurred tasks contain examples of others
        return [
            Phase(
                task.name, task.train, np.flatnonzero(np.bincount(task_of_row[task.train])).tolist()
            )
            for task in scenario.tasks
        ]
    order = order_drifting_stream(scenario, plan.blur, passes=plan.epochs, seed=plan.seed)
    return [Phase(None, order, range(len(scenario.tasks)))]


def iterate_batches(
    rows: Rows,
    plan: TrainingPlan,
    phase: int,
    *,
    skip: int = 0,
    should_stop: Callable[[], bool] = lambda: False,
) -> Iterator[Rows]:
    """Yield the batches of a phase, in an order that depends on the seed and the phase alone.

    Args:
        rows: The training examples, shuffled in each epoch; a stream keeps its order.
        plan: How long to train, and in which batches.
        phase: Its index.
        skip: How many batches to leave out: those trained on before a resumed run was stopped.
        should_stop: Called after each epoch.

    Example:
        >>> plan = TrainingPlan(batch=2, epochs=2)
        >>> [len(batch) for batch in iterate_batches(np.arange(5), plan, 0)]
        [2, 3, 2, 3]
        >>> batches = list(iterate_batches(np.arange(5), plan, 0))
        >>> all(map(np.array_equal, batches[3:], iterate_batches(np.arange(5), plan, 0, skip=3)))
        True
    """
    per_epoch, steps = _count_batches(rows, plan), count_steps(rows, plan)
    for epoch in range(-(-steps // per_epoch)):
        if (epoch + 1) * per_epoch < skip:
            continue
        order = rows
        if plan.boundaries:
            order = random_stream("batch_order", plan.seed, phase, epoch).permutation(rows)
        for k in range(min(per_epoch, steps - epoch * per_epoch)):
            if epoch * per_epoch + k >= skip:
                is_last = k == per_epoch - 1
                yield order[k * plan.batch : None if is_last else (k + 1) * plan.batch]
        if should_stop():
            return


def count_steps(rows: Rows, plan: TrainingPlan) -> int:
    """Return how many steps a phase has at most.

    Example:
        >>> count_steps(np.arange(513), TrainingPlan(batch=256, epochs=10))
        20
    """
    return plan.iterations or _count_batches(rows, plan) * (plan.epochs if plan.boundaries else 1)


def _count_batches(rows: Rows, plan: TrainingPlan) -> int:
    """Return the number of batches per epoch."""
    # A last batch of one example joins the one before: BatchNorm cannot be trained on one.
    return max(1, -(-len(rows) // plan.batch) - (len(rows) % plan.batch == 1))


def _only_task(strategy: Strategy, rows: Rows) -> int | None:
    """Return the task of all examples at these rows, None if they are of several."""
    tasks = strategy.examples.tasks[rows]
    return int(tasks[0]) if len(tasks) and (tasks == tasks[0]).all() else None


def _evaluate_phase(
    evaluator: Evaluator | None, phase: Phase, strategy: Strategy
) -> AbstractContextManager[None]:
    """Return the evaluator's context of a phase, with the sizes of its data and memory."""
    if evaluator is None or phase.name is None:
        return nullcontext()
    examples = strategy.examples
    data = (  # only their size matters
        torch.empty((len(phase.rows), *examples.shape), dtype=examples.dtype, device="meta"),
        torch.empty(len(phase.rows), dtype=torch.int64, device="meta"),
    )
    stored = len(strategy.memory_rows()) * examples.bytes_each
    evaluator.costs.report_memory(
        regularizer_state=list(strategy.regularizer_state()),
        auxiliary_tensors=list(strategy.auxiliary_tensors()),
    )
    return evaluator.task(phase.name, strategy.model, train_data=data, stored_samples=stored)
