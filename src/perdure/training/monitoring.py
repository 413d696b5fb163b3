"""Watching training: what a strategy returns, whether it diverges, and when a task stops early."""

from __future__ import annotations

from functools import partial
from numbers import Real
from typing import TYPE_CHECKING

import numpy as np
import torch

from .._random_streams import random_stream
from ..evaluation.state.preserve import preserve_state
from ..record import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from ..evaluation import Evaluator
    from ..strategies import LossTerm, Rows, Strategy
    from .loop import TrainingPlan

__all__ = [
    "DivergedError",
    "DivergenceCheck",
    "EarlyStopping",
    "check_batches",
    "check_loss",
    "check_rows",
    "split_for_early_stopping",
]

CUDA_STEPS = 50  # between two checks of the losses on a GPU
BATCH_ROWS = 500


class DivergedError(ValueError):
    """A loss, a weight or a gradient is not finite."""


class DivergenceCheck:
    """Raises DivergedError when training on a task diverges; `step` steps came before the task."""

    def __init__(self, strategy: Strategy, task: str | None, step: int) -> None:
        self._strategy, self._task, self._step = strategy, task, step
        self._losses: list[Tensor] = []  # of the last steps, in order
        self._arriving: _Finite | None = None  # whether the losses before these are finite

    def add_loss(self, loss: Tensor) -> None:
        """Take the loss that a strategy returned for a step."""
        place = partial(self._place, self._step + 1)
        self.add_losses(check_loss(self._strategy, loss, place).reshape(1))

    def add_losses(self, losses: Tensor) -> None:
        """Take the losses of steps; on a GPU, many are checked together, once it has them."""
        is_first = self._step == 0
        self._step += len(losses)
        self._losses.append(losses)
        if not losses.is_cuda or is_first:
            self.check_losses()
        elif sum(map(len, self._losses)) >= CUDA_STEPS:  # the GPU may still be at work on them
            self._check(self._arriving)
            self._arriving = self._take_losses()

    def check_losses(self) -> None:
        """Raise if one of the losses since the last check is not finite."""
        self._check(self._arriving)
        self._arriving = None
        if self._losses:
            self._check(self._take_losses())

    def _take_losses(self) -> _Finite:
        losses, self._losses = self._losses, []
        return _Finite(losses, last_step=self._step)

    def _check(self, losses: _Finite | None) -> None:
        if losses is None or (found := losses.first_that_is_not()) is None:
            return
        step, value = found
        raise self._error(f"loss of {type(self._strategy).__name__} is {value}", step)

    def check_weights(self) -> None:
        """Raise if a weight is not finite, after a strategy has trained at the end of a task."""
        finite = [weight.isfinite().all() for weight in self._strategy.model.parameters()]
        if finite and not bool(torch.stack(finite).all()):
            name = type(self._strategy).__name__
            raise self._error(f"weights of {name} are not finite after end_task", self._step)

    def record_gradients(
        self, evaluator: Evaluator, every: int, plasticity: LossTerm, stability: LossTerm
    ) -> None:
        """Record gradient norms; those of a diverged step come before its loss."""
        try:
            evaluator.record_gradients(self._strategy.model, plasticity, stability, every=every)
        except ValueError as error:
            self.check_losses()
            name = type(self._strategy).__name__
            reason = f"gradient of {name} cannot be recorded ({error})"
            raise self._error(reason, self._step + 1) from error

    def _place(self, step: int) -> str:
        return f" at step {step}" + (f" of task {self._task!r}" if self._task else "")

    def _error(self, reason: str, step: int) -> DivergedError:
        advice = "try a smaller lr (`settings={'lr': …}`)"
        if name := self._strategy.penalty_weight:
            weight = getattr(self._strategy, name)
            advice += f" or {name}, which is {weight:g} (`settings={{'{name}': …}}`)"
        return DivergedError(
            f"the {reason}{self._place(step)}, expected a finite number. No recorded data was "
            f"lost; {advice}"
        )


class _Finite:
    """Whether losses of consecutive steps are finite; a GPU is asked without waiting for it."""

    def __init__(self, losses: list[Tensor], last_step: int) -> None:
        self._values = torch.cat([part.to(losses[0].device) for part in losses])
        self._first_step = last_step - len(self._values) + 1
        self._finite, self._arrived = self._values.isfinite().all(), None
        if self._finite.is_cuda:
            on_device, self._arrived = self._finite, torch.cuda.Event()
            self._finite = torch.empty_like(on_device, device="cpu", pin_memory=True)
            self._finite.copy_(on_device, non_blocking=True)
            self._arrived.record()

    def first_that_is_not(self) -> tuple[int, float] | None:
        """Return the step and value of the first loss that is not finite, None if all are."""
        if self._arrived is not None:
            self._arrived.synchronize()
        if bool(self._finite):
            return None
        at = int((~self._values.isfinite()).nonzero()[0])
        return self._first_step + at, float(self._values[at])


def check_rows(strategy: Strategy, value: object) -> Rows:
    """Return the rows that `begin_task` returned, or raise."""
    rows = _as_rows(value)
    if rows is None:
        raise _error(strategy, "begin_task", value, "", "the rows to train on: return rows")
    return rows


def check_batches(strategy: Strategy, value: object) -> list[Rows]:
    """Return the rows of each batch that `select_rows` returned, or raise."""
    batches = [_as_rows(part) for part in value] if isinstance(value, tuple | list) else []
    valid = [rows for rows in batches if rows is not None]
    if not valid or len(valid) < len(batches):
        raise _error(strategy, "select_rows", value, "", "the rows of each batch: return (new,)")
    return valid


def check_loss(strategy: Strategy, value: object, place: Callable[[], str]) -> torch.Tensor:
    """Return the loss that `step` returned as a tensor without dimensions, or raise.

    Whether it is finite is not checked here: that would wait for a GPU.
    """
    if isinstance(value, Real) and not isinstance(value, bool):
        value = torch.tensor(float(value))
    if (
        isinstance(value, torch.Tensor)
        and value.numel() == 1
        and value.dtype is not torch.bool
        and not value.is_complex()
    ):
        return value.detach().reshape(())
    expected = "one finite number: return loss.detach(). No recorded data was lost"
    raise _error(strategy, "step", value, place(), expected)


def _as_rows(value: object) -> Rows | None:
    """Return an array of row numbers, None if `value` is not one."""
    try:
        rows = np.asarray(value)
    except (TypeError, ValueError):  # a tensor on a GPU, lists of several lengths
        return None
    return rows if rows.dtype.kind in "iu" and rows.ndim == 1 else None


def _error(strategy: Strategy, method: str, value: object, place: str, expected: str) -> InputError:
    shown = " ".join(repr(value).split())
    shown = shown if len(shown) <= 40 else f"{shown[:39]}…"
    if isinstance(value, torch.Tensor):
        kind = str(value.dtype).removeprefix("torch.")
        shown = f"a {kind} tensor of shape {tuple(value.shape)}"
    name = type(strategy).__name__
    return InputError(f"{name}.{method} returned {shown}{place}, expected {expected}")


class EarlyStopping:
    """Decides after every epoch whether to end the task.

    `held_out_accuracy` has the accuracy after each epoch of every task so far.

    Args:
        patience: Epochs without a better held-out accuracy after which a task ends; None for no
            early stopping.
    """

    def __init__(self, patience: int | None) -> None:
        self.patience = patience
        self.best, self.waited = -1.0, 0
        self.task = ""
        self.held_out_accuracy: dict[str, list[float]] = {}

    def start_task(self, name: str) -> None:
        """Forget the best accuracy of the task before."""
        self.best, self.waited, self.task = -1.0, 0, name

    def should_stop(self, strategy: Strategy, held_out: Rows) -> bool:
        """Return whether to end the task, after an epoch."""
        if self.patience is None:
            return False
        accuracy = measure_accuracy(strategy, held_out)
        self.held_out_accuracy.setdefault(self.task, []).append(accuracy)
        self.waited = 0 if accuracy > self.best else self.waited + 1
        self.best = max(self.best, accuracy)
        return self.waited >= self.patience


def split_for_early_stopping(rows: Rows, plan: TrainingPlan) -> tuple[Rows, Rows]:
    """Return the rows to train on and those held out, which are none without early stopping.

    Example:
        >>> from perdure.training import TrainingPlan
        >>> plan = TrainingPlan(patience=2, early_stopping_split=0.1)
        >>> train, held_out = split_for_early_stopping(np.arange(100), plan)
        >>> len(train), len(held_out), len(np.union1d(train, held_out))
        (90, 10, 100)
    """
    if plan.patience is None:
        return rows, rows[:0]
    if len(rows) < 2:
        raise InputError("a task has one example, so none can be held out; leave patience out")
    is_held_out = np.zeros(len(rows), dtype=bool)
    rng = random_stream("early_stopping_split", plan.seed)
    count = max(1, min(round(plan.early_stopping_split * len(rows)), len(rows) - 1))
    is_held_out[rng.choice(len(rows), count, replace=False)] = True
    return rows[~is_held_out], rows[is_held_out]


def measure_accuracy(strategy: Strategy, rows: Rows) -> float:
    """Return the accuracy of the model on some training examples; its state does not change."""
    correct = 0
    with preserve_state(strategy.model):
        for part in np.split(rows, range(BATCH_ROWS, len(rows), BATCH_ROWS)):
            batch = strategy.examples.take(part)
            predicted = strategy.model(batch.x, batch.task).argmax(1)
            correct += int((predicted == batch.y).sum())
    return correct / len(rows)
