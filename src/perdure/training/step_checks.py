"""Checks of every step: what a strategy returns, and whether loss and weights are finite."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING

import numpy as np
import torch

from ..record import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from ..evaluation import Evaluator
    from ..strategies import LossTerm, Rows, Strategy

__all__ = ["DivergedError", "DivergenceCheck", "check_batches", "check_loss", "check_rows"]

CUDA_STEPS = 50  # between two checks of the losses on a GPU


class DivergedError(ValueError):
    """A loss, a weight or a gradient is not finite."""


class DivergenceCheck:
    """Raises DivergedError when training on a task diverges.

    Args:
        strategy: The learner.
        task: The name of the task.
        step: The number of steps before the task.
    """

    def __init__(self, strategy: Strategy, task: str | None, step: int) -> None:
        self._strategy, self._task, self._step = strategy, task, step
        self._losses: list[tuple[int, Tensor]] = []

    def add_loss(self, loss: Tensor) -> None:
        """Take the loss of a step; on a GPU, many are checked together, once it has them."""
        self._step += 1
        loss = check_loss(self._strategy, loss, lambda: self._place(self._step))
        self._losses.append((self._step, loss))
        if not loss.is_cuda or self._step == 1:
            self.check_losses()
        elif len(self._losses) >= 2 * CUDA_STEPS:  # the GPU is still at work on the last ones
            self.check_losses(CUDA_STEPS)

    def check_losses(self, count: int | None = None) -> None:
        """Raise if one of the losses since the last check, or of the first ones, is not finite."""
        losses = self._losses[:count]
        self._losses = self._losses[len(losses) :]
        values = [loss.to(losses[0][1].device) for _, loss in losses]
        if not values or bool(torch.stack(values).isfinite().all()):
            return
        step, value = next((step, float(loss)) for step, loss in losses if not loss.isfinite())
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
