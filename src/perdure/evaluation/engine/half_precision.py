"""Accuracy in half precision, with full precision where rounding could change a prediction.

A prediction cannot change if the two largest outputs of an example are further apart than the
spread (largest minus smallest) of its rounding errors. A verification evaluates every example in
both precisions; the largest spread, times a safety factor, is the bound until the next one, scaled
up if outputs grow. The examples are the same at every evaluation, and verifications are dense
after a task switch, when weights change most. The bound is measured, not proven; so every
verification also counts the predictions that the bound in force would have got wrong, and a single
one switches half precision off.
"""

from __future__ import annotations

import copy
import time
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from ..state.tensors import all_tensors, copy_into
from ..state.trees import first_tensor, map_tree, take_rows
from .scoring import correct

if TYPE_CHECKING:
    from .scoring import Rows, Scorer

__all__ = ["HalfPrecision", "HalfPrecisionError"]

SAFETY_FACTOR = 2.0
TIE = 1e-5  # of the largest output: a smaller margin is a tie in full precision, too
MAX_SLOWER = 3  # verifications in a row at which half precision was slower


class HalfPrecisionError(RuntimeError):
    """Raised when half precision cannot be used any longer; the message says why."""


class _ErrorBound:
    """The largest spread of rounding errors at a verification, and how large outputs were."""

    def __init__(self, half: Tensor, full: Tensor) -> None:
        errors = (half - full).nan_to_num(0.0)  # masked classes are infinite in both
        self.spread = SAFETY_FACTOR * (errors.amax(1) - errors.amin(1)).amax()
        self.scale = _magnitude(full)

    def uncertain(self, logits: Tensor) -> Tensor:
        """Return which predictions rounding could change."""
        grown = (_magnitude(logits) / self.scale).clamp(min=1.0)
        top = logits.topk(2, dim=1).values
        return ~(top[:, 0] - top[:, 1] > self.spread * grown)  # true for NaN as well


class HalfPrecision:
    """Evaluates a half-precision copy of a model, and close predictions in full precision."""

    def __init__(self, scorer: Scorer, dtype: torch.dtype = torch.bfloat16) -> None:
        if scorer.score is not None:
            raise ValueError("half_precision=True is for accuracy; a score has no margin to check")
        self._scorer, self._dtype = scorer, dtype
        self._half: nn.Module | None = None
        self._shapes: list[torch.Size] = []
        self._inputs: WeakKeyDictionary[Rows, list[Any]] = WeakKeyDictionary()
        self._bounds: WeakKeyDictionary[Rows, _ErrorBound] = WeakKeyDictionary()
        self._slower: WeakKeyDictionary[Rows, int] = WeakKeyDictionary()

    def values(self, model: object, rows: Rows) -> Tensor:
        """Return which rows are correct, as full precision would have it."""
        bound = self._bounds.get(rows)
        if bound is None:
            return self.verify(model, rows)
        logits = self._half_logits(model, rows)
        matches = correct(logits, rows.y, rows)
        close = bound.uncertain(logits).nonzero().squeeze(1)
        for some in torch.split(close, rows.batch_size):
            full = self._scorer.logits(model, rows, some, take_rows(rows.x, some))
            matches[some] = correct(full, take_rows(rows.y, some), rows)
        return matches

    def verify(self, model: object, rows: Rows) -> Tensor:
        """Return which rows are correct in full precision, and measure the bound again.

        Raises HalfPrecisionError if the bound in force would have missed a wrong prediction, or
        if half precision is not faster on this machine.
        """
        self._copy(model)  # before the clock starts
        start = _now(rows)
        half = self._half_logits(model, rows)
        middle = _now(rows)
        try:
            parts = [self._scorer.logits(model, rows, at, x) for at, x, _ in rows.batches]
        except torch.OutOfMemoryError:
            raise HalfPrecisionError("there is not enough memory for both precisions") from None
        full = torch.cat(parts)
        end = _now(rows)
        matches = correct(full, rows.y, rows)
        bound = self._bounds.get(rows)
        if bound is not None:
            self._compare(bound, half, full)
        bound = self._bounds[rows] = _ErrorBound(half, full.float())
        uncertain = float(bound.uncertain(half).float().mean())
        slower = middle - start + uncertain * (end - middle) >= end - middle
        self._slower[rows] = self._slower.get(rows, 0) + 1 if slower else 0
        if self._slower[rows] >= MAX_SLOWER:
            raise HalfPrecisionError(
                f"{self._dtype} is not faster here ({1e3 * (middle - start):.2g} ms, "
                f"{uncertain:.0%} of rows repeated, against {1e3 * (end - middle):.2g} ms in full "
                "precision)"
            )
        return matches

    def _compare(self, bound: _ErrorBound, half: Tensor, full: Tensor) -> None:
        top = full.topk(2, dim=1).values
        clear = top[:, 0] - top[:, 1] > TIE * _magnitude(full)
        wrong = (half.argmax(1) != full.argmax(1)) & ~bound.uncertain(half) & clear
        if bool(wrong.any()):
            raise HalfPrecisionError(
                f"a verification found {int(wrong.sum())} of {len(full)} predictions that differ "
                "from full precision although the bound excluded it; evaluations since "
                "the last verification may be off by as much"
            )

    def _half_logits(self, model: object, rows: Rows) -> Tensor:
        half = self._copy(model)
        if rows not in self._inputs:
            self._inputs[rows] = [map_tree(self._round, x) for _, x, _ in rows.batches]
        inputs = zip(rows.batches, self._inputs[rows], strict=True)
        try:
            parts = [self._scorer.logits(half, rows, at, x).float() for (at, _, _), x in inputs]
        except torch.OutOfMemoryError:
            raise HalfPrecisionError("there is not enough memory for both precisions") from None
        except (RuntimeError, TypeError) as error:
            raise HalfPrecisionError(f"the model does not run in {self._dtype}: {error}") from error
        if parts[0].dim() != 2:
            raise HalfPrecisionError(
                f"outputs have {parts[0].dim()} dimensions, expected rows and classes"
            )
        return torch.cat(parts)

    def _round(self, a: Tensor) -> Tensor:
        return a.to(self._dtype) if a.is_floating_point() else a

    def _copy(self, model: object) -> nn.Module:
        """Return the half-precision copy with the current weights."""
        if not isinstance(model, nn.Module):
            raise HalfPrecisionError(
                f"the model is {type(model).__name__}, expected a torch.nn.Module"
            )
        state = all_tensors(model)
        shapes = [tensor.shape for tensor in state]
        if self._half is None or shapes != self._shapes:
            try:
                self._half = copy.deepcopy(model).to(self._dtype)
            except (RuntimeError, TypeError) as error:
                raise HalfPrecisionError(f"the model cannot be copied: {error}") from error
            self._shapes = shapes
        for own, current in zip(all_tensors(self._half), state, strict=True):
            copy_into(own, current)
        return self._half


def _magnitude(logits: Tensor) -> Tensor:
    return logits.masked_fill(logits.isinf(), 0.0).abs().amax().float()


def _now(rows: Rows) -> float:
    device = first_tensor(rows.x).device
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
