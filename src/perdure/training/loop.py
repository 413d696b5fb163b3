"""The training loop. A caller's own few lines would be the same; a test proves it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from .._random_streams import random_stream
from ..scenarios import order_drifting_stream
from .contract import check_batches, check_loss, check_rows
from .early_stopping import EarlyStopping, split_for_early_stopping

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from torch import Tensor

    from ..evaluation import Evaluator
    from ..scenarios import Scenario
    from ..strategies import LossTerm, Rows, Strategy
    from .checkpointer import Checkpointer

__all__ = [
    "DivergedError",
    "Phase",
    "Position",
    "TrainingPlan",
    "count_steps",
    "iterate_batches",
    "list_phases",
    "train",
]

LOOK = 50  # steps between two looks at the losses on a GPU, which has to wait for them


class DivergedError(ValueError):
    """A loss that is not a finite number."""


class TrainingPlan(NamedTuple):
    """How long to train on each task, and in what portions."""

    batch: int = 256
    epochs: int = 1
    iterations: int | None = None  # of each task, instead of epochs
    seed: int = 0
    patience: int | None = None  # epochs without a better score on a held-out part
    early_stopping_split: float = 0.1  # that part, where there is patience
    boundaries: bool = True  # False: one stream, and nobody is told where a task ends
    blur: float = 0.0  # of a stream without boundaries


class Phase(NamedTuple):
    """A stretch of the stream: rows to learn from, and the tasks whose classes come up in it."""

    name: str | None
    rows: Rows
    tasks: Sequence[int]


class Position(NamedTuple):
    """Where training is: after so many steps of a phase, and in all."""

    phase: int = 0
    done: int = 0
    step: int = 0
    rows: Rows | None = None  # what this phase learns from


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
    """Yield where training is after every step; the model is tested at the steps that are due.

    Args:
        scenario: the tasks.
        strategy: the learner.
        plan: how long, in what portions.
        evaluator: who tests; None for nobody.
        gradients: record gradient norms every so many steps.
        start: where to go on, once the strategy's state was loaded.
        stopping: what early stopping remembers; one's own, to save it.
        checkpointer: who saves the learner now and then.
    """
    if start is not None and plan.patience and stopping is None:
        raise ValueError("going on with patience needs the `stopping` that was saved")
    at = start or Position()
    step, stopping = at.step, stopping or EarlyStopping(plan.patience)
    counted = nullcontext if evaluator is None else evaluator.costs.count_as_training
    for number, phase in list(enumerate(list_phases(scenario, plan)))[at.phase :]:
        for task in range(len(scenario.tasks)) if strategy.trains_on_all_tasks else phase.tasks:
            strategy.model.open(task, scenario.tasks[task].classes)
        own, held = split_for_early_stopping(phase.rows, plan)
        if number == at.phase and at.rows is not None:
            rows, done = at.rows, at.done
        else:
            with counted():
                rows, done = check_rows(strategy, strategy.begin_task(number, own)), 0
            stopping.begin()
        finite = _Finite(strategy, phase.name, step)
        watch = None
        if evaluator is not None and gradients:
            watch = partial(finite.watch, evaluator, gradients)
        tasks = np.unique(strategy.examples.tasks[rows])
        only = int(tasks[0]) if len(tasks) == 1 else None
        with _tested(evaluator, phase, strategy):
            enough = partial(stopping.enough, strategy, held)
            for new in iterate_batches(rows, plan, number, skip=done, enough=enough):
                first, *others = check_batches(strategy, strategy.select_rows(new))
                parts = [strategy.examples.take(chosen) for chosen in others]
                loss = strategy.step(
                    strategy.examples.take(first, only), *parts, on_loss_terms=watch
                )
                step, done = step + 1, done + 1
                finite.look(loss)
                if evaluator is not None:
                    evaluator.step(strategy.model)
                if checkpointer is not None and checkpointer.due():
                    finite.look_now()  # weights that are no numbers are not worth saving
                    checkpointer.save(Position(number, done, step, rows))
                yield Position(number, done, step, rows)
            finite.look_now()
            with counted():
                strategy.end_task(number, own)
            finite.look_at_weights()
        if checkpointer is not None and checkpointer.due(ended=True):
            checkpointer.save(Position(number + 1, 0, step))


def list_phases(scenario: Scenario, plan: TrainingPlan) -> list[Phase]:
    """Return the stretches of a stream: one a task, or one for all without boundaries."""
    if plan.boundaries:
        of = scenario.train.task  # blurred tasks hold examples of others
        return [Phase(t.name, t.train, np.unique(of[t.train]).tolist()) for t in scenario.tasks]
    order = order_drifting_stream(scenario, plan.blur, passes=plan.epochs, seed=plan.seed)
    return [Phase(None, order, range(len(scenario.tasks)))]


def iterate_batches(
    rows: Rows,
    plan: TrainingPlan,
    phase: int,
    *,
    skip: int = 0,
    enough: Callable[[], bool] = lambda: False,
) -> Iterator[Rows]:
    """Yield the batches of a phase, in an order that depends on the seed and the phase alone.

    Args:
        rows: to learn from; in another order each epoch, or as they are in a stream.
        plan: how long, in what portions.
        phase: its number.
        skip: so many batches were learned before.
        enough: asked after each epoch whether to stop.

    Example:
        >>> plan = TrainingPlan(batch=2, epochs=2)
        >>> [len(part) for part in iterate_batches(np.arange(5), plan, 0)]
        [2, 3, 2, 3]
        >>> whole = list(iterate_batches(np.arange(5), plan, 0))
        >>> all(map(np.array_equal, whole[3:], iterate_batches(np.arange(5), plan, 0, skip=3)))
        True
    """
    each, wanted = _each(rows, plan), count_steps(rows, plan)
    for epoch in range(-(-wanted // each)):
        if (epoch + 1) * each < skip:
            continue
        order = rows
        if plan.boundaries:
            order = random_stream("batch_order", plan.seed, phase, epoch).permutation(rows)
        for k in range(min(each, wanted - epoch * each)):
            if epoch * each + k >= skip:
                last = k == each - 1
                yield order[k * plan.batch : None if last else (k + 1) * plan.batch]
        if enough():
            return


def count_steps(rows: Rows, plan: TrainingPlan) -> int:
    """Return how many steps a phase has at most.

    Example:
        >>> count_steps(np.arange(513), TrainingPlan(batch=256, epochs=10))
        20
    """
    return plan.iterations or _each(rows, plan) * (plan.epochs if plan.boundaries else 1)


def _each(rows: Rows, plan: TrainingPlan) -> int:
    """Return how many batches an epoch has."""
    # A last batch of one example goes with the one before: BatchNorm cannot learn from one.
    return max(1, -(-len(rows) // plan.batch) - (len(rows) % plan.batch == 1))


class _Finite:
    """Stops training when a loss is no finite number."""

    def __init__(self, strategy: Strategy, task: str | None, step: int) -> None:
        self._strategy, self._task, self._step = strategy, task, step
        self._losses: list[tuple[int, Tensor]] = []

    def look(self, loss: Tensor) -> None:
        self._step += 1
        loss = check_loss(self._strategy, loss, self._where(self._step))
        self._losses.append((self._step, loss))
        if len(self._losses) >= (LOOK if loss.is_cuda and self._step > 1 else 1):
            self.look_now()

    def look_now(self) -> None:
        losses, self._losses = self._losses, []
        together = [loss.to(losses[0][1].device) for _, loss in losses]
        if not together or bool(torch.stack(together).isfinite().all()):
            return
        step, loss = next((s, float(v)) for s, v in losses if not v.isfinite())
        raise self._diverged(f"loss of {type(self._strategy).__name__} is {loss}", step)

    def look_at_weights(self) -> None:
        """Stop if what is done at a task's end, training from scratch say, went wrong."""
        found = [weight.isfinite().all() for weight in self._strategy.model.parameters()]
        if found and not bool(torch.stack(found).all()):
            name = type(self._strategy).__name__
            raise self._diverged(f"weights of {name} are not finite after end_task", self._step)

    def watch(
        self, evaluator: Evaluator, every: int, plasticity: LossTerm, stability: LossTerm
    ) -> None:
        """Record gradient norms; one that is not finite comes before the loss is looked at."""
        try:
            evaluator.record_gradients(self._strategy.model, plasticity, stability, every=every)
        except ValueError as error:
            self.look_now()
            what = f"gradient of {type(self._strategy).__name__} cannot be recorded ({error})"
            raise self._diverged(what, self._step + 1) from error

    def _where(self, step: int) -> str:
        return f" at step {step}" + (f" of task {self._task!r}" if self._task else "")

    def _diverged(self, what: str, step: int) -> DivergedError:
        name = self._strategy.penalty_weight
        weaker = (
            f" or {name}, {getattr(self._strategy, name):g} now (--set {name}=…)" if name else ""
        )
        return DivergedError(
            f"the {what}{self._where(step)}, expected a finite number; what was recorded "
            f"stays; try a smaller lr (--set lr=…){weaker}"
        )


def _tested(
    evaluator: Evaluator | None, phase: Phase, strategy: Strategy
) -> AbstractContextManager[None]:
    """Return the evaluator's block of a phase, with what the phase's data and memory take."""
    if evaluator is None or phase.name is None:
        return nullcontext()
    examples = strategy.examples
    data = (  # only their size matters
        torch.empty((len(phase.rows), *examples.shape), dtype=torch.uint8, device="meta"),
        torch.empty(len(phase.rows), dtype=torch.int64, device="meta"),
    )
    stored = len(strategy.memory_rows()) * examples.bytes_each
    evaluator.costs.report_memory(
        regularizer_state=list(strategy.regularizer_state()),
        auxiliary_tensors=list(strategy.auxiliary_tensors()),
    )
    return evaluator.task(phase.name, strategy.model, train_data=data, stored_samples=stored)
