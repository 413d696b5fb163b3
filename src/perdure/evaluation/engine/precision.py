"""In which precision examples are evaluated."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

import torch
from torch import nn

from ..._devices import use_tf32
from ..schedules import Inline
from ..state.preserve import preserve_state
from ..state.tensors import submodules
from .half_precision import HalfPrecision
from .screening import MissedPredictionError, Screening

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from ..schedules import Executor
    from .cuda_graph import GraphPool
    from .eval_batches import EvalBatches
    from .half_precision import HalfPrecisionError
    from .scoring import Rows, Scorer

__all__ = ["PrecisionControl"]

HALF_PRECISIONS = ("screened", "float16", "bfloat16")


class PrecisionControl:
    """Evaluates in the precision of an executor, and in float32 once that has failed.

    Args:
        scorer: how examples are scored.
        executor: says the precision.
    """

    def __init__(self, scorer: Scorer, executor: Executor) -> None:
        self._name: str = executor.precision
        if self._name in HALF_PRECISIONS and scorer.score is not None:
            raise ValueError(f"precision={self._name!r} is for accuracy; leave it out with score=")
        self._scorer = scorer
        self._is_inline = isinstance(executor, Inline)
        self._half_precision: HalfPrecision | None = None
        self._screening: Screening | None = None
        self.has_missed = False  # a wrong prediction, so that half precision was disabled

    @property
    def is_half(self) -> bool:
        """Whether half precision was asked for and works so far."""
        return self._name in HALF_PRECISIONS

    def close(self) -> None:
        """Free what evaluations in half precision keep."""
        self._half_precision = self._screening = None

    def disable(self, reason: HalfPrecisionError | None = None) -> bool:
        """Use float32 only, from here on; return whether the user should know the reason."""
        missed = isinstance(reason, MissedPredictionError)
        self.has_missed |= missed
        matters = self.is_half or missed
        self._name = "float32"
        self.close()
        return matters

    def eager_values(self, model: object, batches: EvalBatches, step: int) -> Tensor:
        """Return the values of all rows, without a graph and without screening."""
        evaluate: Callable[[object, Rows], Tensor] = self._scorer.values
        if self._name in ("float16", "bfloat16"):
            if self._half_precision is None:
                self._half_precision = HalfPrecision(self._scorer, getattr(torch, self._name))
            evaluate = self._half_precision.values
        with use_tf32(enabled=self._name == "tf32"):
            parts = [evaluate(model, rows) for rows in batches.at(step)]
        return torch.cat(parts) if len(parts) > 1 else parts[0]

    def screens(self, model: object, batches: EvalBatches) -> bool:
        """Return whether examples are screened: as asked for, or where it is likely to pay."""
        if self._name != "auto":
            return self._name == "screened"
        possible = self._is_inline and self._scorer.score is None and not batches.resample
        return possible and batches.device.type == "cuda" and _has_convolutions(model)

    def screened_values(
        self,
        model: object,
        batches: EvalBatches,
        step: int,
        *,
        verify: bool,
        pool: GraphPool | None,
    ) -> Tensor:
        """Return the values of all rows as float32 gives them, most from half precision.

        Args:
            model: evaluated as it is now.
            batches: the examples.
            step: after how many training steps.
            verify: measure again how far half precision is off.
            pool: the memory of CUDA graphs, on CUDA.
        """
        on_cuda = pool is not None
        if self._screening is None or self._screening.pool is not pool:
            dtype = torch.float16 if on_cuda else torch.bfloat16
            self._screening = Screening(self._scorer, HalfPrecision(self._scorer, dtype), pool)
        verify |= not self._screening.is_ready(batches, step)
        evaluate = self._screening.verify if verify else self._screening.values
        # Graphs leave the state of the model alone.
        preserved = nullcontext() if on_cuda and not verify else preserve_state(model)
        with preserved, use_tf32(enabled=False):
            return torch.cat([evaluate(model, rows) for rows in batches.at(step)])


def _has_convolutions(model: object) -> bool:
    return any(isinstance(module, nn.Conv2d) for module in submodules(model))
