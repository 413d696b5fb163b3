"""Learning-rate schedules: a factor of the learning rate per step, starting over in every task."""

from __future__ import annotations

import inspect
import math
from typing import TYPE_CHECKING, Final, NamedTuple

from ..record import InputError
from .hyperparameters import Hyperparameter

if TYPE_CHECKING:
    from torch.optim import Optimizer

__all__ = ["SCHEDULES", "LearningRateSchedule", "set_learning_rates"]

_WARMUP = {"warmup": Hyperparameter((int,), 0)}

# The hyperparameters of each schedule.
SCHEDULES: Final[dict[str, dict[str, Hyperparameter]]] = {
    "constant": _WARMUP,
    "cosine": _WARMUP,
    "step": {
        **_WARMUP,
        "decay_every": Hyperparameter((int,), inspect.Parameter.empty),
        "gamma": Hyperparameter((float,), 0.1),
    },
}


class LearningRateSchedule(NamedTuple):
    """How the learning rate changes within a task.

    Args:
        name: `constant`; `cosine`, from the learning rate to 0 at the end of the task; or `step`,
            multiplied by `gamma` every `decay_every` iterations.
        warmup: Iterations in which it first grows linearly to its full value.
        decay_every: Iterations between two steps.
        gamma: Factor of a step.
    """

    name: str = "constant"
    warmup: int = 0
    decay_every: int = 1
    gamma: float = 0.1

    @property
    def is_constant(self) -> bool:
        """Whether the learning rate never changes."""
        return self.name == "constant" and not self.warmup

    def check(self) -> None:
        """Raise InputError for values out of range."""
        for name, value, least in (
            ("warmup", self.warmup, 0), ("decay_every", self.decay_every, 1),
        ):  # fmt: skip
            if value < least:
                raise InputError(f"{name} is {value}, expected a whole number of at least {least}")
        if not 0 < self.gamma <= 1:
            raise InputError(f"gamma is {self.gamma:g}, expected a factor above 0, at most 1")

    def factor(self, step: int, steps: int) -> float:
        """Return the factor of the learning rate in a step of a task.

        Args:
            step: Number of steps of the task before this one.
            steps: Number of steps of the task.

        Example:
            >>> [round(LearningRateSchedule("cosine", warmup=2).factor(k, 6), 3) for k in range(6)]
            [0.5, 1.0, 1.0, 0.854, 0.5, 0.146]
        """
        if step < self.warmup:
            return (step + 1) / self.warmup
        step, steps = step - self.warmup, steps - self.warmup
        if self.name == "cosine":
            return (1 + math.cos(math.pi * step / steps)) / 2
        if self.name == "step":
            return float(self.gamma ** (step // self.decay_every))
        return 1.0


def set_learning_rates(optimizer: Optimizer, factor: float) -> None:
    """Set every learning rate to this factor of its initial value, which the optimizer keeps.

    A resumed optimizer has its initial values from the checkpoint.
    """
    for group in optimizer.param_groups:
        group["lr"] = group.setdefault("initial_lr", group["lr"]) * factor
