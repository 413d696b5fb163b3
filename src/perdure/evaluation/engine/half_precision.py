"""The forward pass of a model in half precision, from the operations that were recorded once."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from ..state.tensors import all_tensors
from .forward_recorder import NotRecordableError, record
from .inference import InferenceForward, RoundedWeights
from .scoring import correct

if TYPE_CHECKING:
    from .scoring import Rows, Scorer

__all__ = ["HalfPrecision", "HalfPrecisionError"]


class HalfPrecisionError(RuntimeError):
    """Raised when half precision cannot be used any longer; the message says why."""


class _Prepared(NamedTuple):
    """What is known about some rows: the forward pass of each batch, and its inputs."""

    forwards: list[tuple[InferenceForward, list[Tensor]]]
    tensors: list[tuple[Tensor, torch.Size]]  # of the model

    def fits(self, tensors: list[Tensor]) -> bool:
        """Return whether the model still consists of the same tensors."""
        return len(tensors) == len(self.tensors) and all(
            now is then and now.shape == shape
            for now, (then, shape) in zip(tensors, self.tensors, strict=True)
        )


class HalfPrecision:
    """Evaluates a model in half precision.

    Args:
        scorer: how examples are scored.
        dtype: float16 or bfloat16.
    """

    def __init__(self, scorer: Scorer, dtype: torch.dtype) -> None:
        self._scorer, self.dtype = scorer, dtype
        self._prepared: WeakKeyDictionary[Rows, list[_Prepared]] = WeakKeyDictionary()

    def values(self, model: object, rows: Rows) -> Tensor:
        """Return which rows are correct in half precision."""
        return correct(self.logits(model, rows), rows.y, rows)

    def logits(self, model: object, rows: Rows) -> Tensor:
        """Return the outputs of all rows, as float32."""
        prepared, weights = self.prepare(model, rows), RoundedWeights(self.dtype)
        try:
            parts = [forward.run(inputs, weights).float() for forward, inputs in prepared.forwards]
        except torch.OutOfMemoryError:
            raise HalfPrecisionError("there is not enough memory for both precisions") from None
        except (RuntimeError, TypeError) as error:
            reason = str(error).splitlines()[0]
            raise HalfPrecisionError(f"the model does not run in {self.dtype}: {reason}") from error
        return torch.cat(parts) if len(parts) > 1 else parts[0]

    def prepare(self, model: object, rows: Rows) -> _Prepared:
        """Return how the rows pass through the model, recorded if it was not or has changed."""
        if not isinstance(model, nn.Module):
            raise HalfPrecisionError(
                f"the model is {type(model).__name__}, expected a torch.nn.Module"
            )
        tensors, known = all_tensors(model), self._prepared.get(rows, [])
        for prepared in known:
            if prepared.fits(tensors):
                return prepared
        shapes = [(tensor, tensor.shape) for tensor in tensors]
        prepared = _Prepared(self._record(model, rows, tensors), shapes)
        # A copy of the model takes turns with the model, and its CUDA graph reads these inputs.
        self._prepared[rows] = [*known[-1:], prepared]
        return prepared

    def _record(
        self, model: nn.Module, rows: Rows, tensors: list[Tensor]
    ) -> list[tuple[InferenceForward, list[Tensor]]]:
        forwards = []
        for at, x, _ in rows.batches:
            try:
                recording, full = record(partial(self._scorer.logits, model, rows, at), x, tensors)
            except NotRecordableError as reason:
                raise HalfPrecisionError(f"the forward pass cannot be recorded: {reason}") from None
            except torch.OutOfMemoryError:
                raise HalfPrecisionError("there is not enough memory for both precisions") from None
            if full.dim() != 2:
                raise HalfPrecisionError(
                    f"outputs have {full.dim()} dimensions, expected rows and classes"
                )
            forward = InferenceForward(recording)
            forwards.append((forward, forward.prepare(x, self.dtype)))
        return forwards
