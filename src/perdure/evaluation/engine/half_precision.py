"""Accuracy in half precision, with full precision where rounding could change the answer.

A row's answer cannot change if its two largest outputs are further apart than the spread (largest
minus smallest) of the row's rounding errors. At an audit every row goes through both precisions;
the largest spread of all rows, times a safety factor, is the bound until the next audit, scaled up
if outputs grow. The rows are the same at every evaluation, and audits are dense after a switch,
when weights move most. It is a bound that was measured, not one that was proven; so every audit
also counts answers that the bound in force would have got wrong, and one turns screening off.
"""

from __future__ import annotations

import copy
import time
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from ..state.tensors import write
from ..state.trees import first_tensor, mapped, taken
from .eval_batches import all_state_of
from .scoring import right

if TYPE_CHECKING:
    from .scoring import Rows, Scorer

__all__ = ["HalfPrecision", "HalfPrecisionError"]

SAFETY = 2.0
TIES = 1e-5  # of the largest output: full precision itself is not sure below
PATIENCE = 3  # audits in a row at which screening was slower


class HalfPrecisionError(RuntimeError):
    """Raised when screening cannot go on; the message says why."""


class _Bound:
    """The largest spread of rounding errors that an audit saw, and how large outputs were."""

    def __init__(self, half: Tensor, full: Tensor) -> None:
        errors = (half - full).nan_to_num(0.0)  # masked classes are infinite in both
        self.spread = SAFETY * (errors.amax(1) - errors.amin(1)).amax()
        self.scale = _size(full)

    def doubtful(self, logits: Tensor) -> Tensor:
        """Return which rows rounding could change."""
        grown = (_size(logits) / self.scale).clamp(min=1.0)
        top = logits.topk(2, dim=1).values
        return ~(top[:, 0] - top[:, 1] > self.spread * grown)  # true for NaN as well


class HalfPrecision:
    """Tests a half-precision copy of a model and re-checks rows that are close."""

    def __init__(self, scorer: Scorer, dtype: torch.dtype = torch.bfloat16) -> None:
        if scorer.score is not None:
            raise ValueError("screen=True is for accuracy; with score= there is no margin to check")
        self._scorer, self._dtype = scorer, dtype
        self._half: nn.Module | None = None
        self._shapes: list[torch.Size] = []
        self._inputs: WeakKeyDictionary[Rows, list[Any]] = WeakKeyDictionary()
        self._bounds: WeakKeyDictionary[Rows, _Bound] = WeakKeyDictionary()
        self._slower: WeakKeyDictionary[Rows, int] = WeakKeyDictionary()

    def values(self, model: Any, rows: Rows) -> Tensor:
        """Return which rows are right, as full precision would have it."""
        bound = self._bounds.get(rows)
        if bound is None:
            return self.audit(model, rows)
        logits = self._half_logits(model, rows)
        found = right(logits, rows.y, rows)
        close = bound.doubtful(logits).nonzero().squeeze(1)
        for some in torch.split(close, rows.size):
            full = self._scorer.logits(model, rows, some, taken(rows.x, some))
            found[some] = full.argmax(1) == rows.y[some]
        return found

    def audit(self, model: Any, rows: Rows) -> Tensor:
        """Return which rows are right in full precision, and set the bound anew.

        Raises HalfPrecisionError if the bound in force would have let a wrong answer through, or
        if half precision does not pay on this machine.
        """
        self._copy(model)  # made before the clock starts
        start = _now(rows)
        half = self._half_logits(model, rows)
        middle = _now(rows)
        try:
            parts = [self._scorer.logits(model, rows, at, x) for at, x, _ in rows.batches]
        except torch.OutOfMemoryError:
            raise HalfPrecisionError("there is not enough memory for both precisions") from None
        full = torch.cat(parts)
        end = _now(rows)
        found = right(full, rows.y, rows)
        bound = self._bounds.get(rows)
        if bound is not None:
            self._compare(bound, half, full)
        bound = self._bounds[rows] = _Bound(half, full.float())
        share = float(bound.doubtful(half).float().mean())
        slower = middle - start + share * (end - middle) >= end - middle
        self._slower[rows] = self._slower.get(rows, 0) + 1 if slower else 0
        if self._slower[rows] >= PATIENCE:
            raise HalfPrecisionError(
                f"{self._dtype} is not faster here ({1e3 * (middle - start):.2g} ms, {share:.0%} "
                f"of rows re-checked, against {1e3 * (end - middle):.2g} ms in full precision)"
            )
        return found

    def _compare(self, bound: _Bound, half: Tensor, full: Tensor) -> None:
        top = full.topk(2, dim=1).values
        sure = top[:, 0] - top[:, 1] > TIES * _size(full)
        wrong = (half.argmax(1) != full.argmax(1)) & ~bound.doubtful(half) & sure
        if bool(wrong.any()):
            raise HalfPrecisionError(
                f"an audit found {int(wrong.sum())} of {len(full)} rows that the bound let "
                "through with another answer than full precision; evaluations since the audit "
                "before may be off by as much"
            )

    def _half_logits(self, model: Any, rows: Rows) -> Tensor:
        half = self._copy(model)
        if rows not in self._inputs:
            self._inputs[rows] = [mapped(self._rounded, x) for _, x, _ in rows.batches]
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

    def _rounded(self, a: Tensor) -> Tensor:
        return a.to(self._dtype) if a.is_floating_point() else a

    def _copy(self, model: Any) -> nn.Module:
        """Return the half-precision copy with the weights of now."""
        if not isinstance(model, nn.Module):
            raise HalfPrecisionError(
                f"the model is {type(model).__name__}, expected a torch.nn.Module"
            )
        state = all_state_of(model)
        shapes = [tensor.shape for tensor in state]
        if self._half is None or shapes != self._shapes:
            try:
                self._half = copy.deepcopy(model).to(self._dtype)
            except (RuntimeError, TypeError) as error:
                raise HalfPrecisionError(f"the model cannot be copied: {error}") from error
            self._shapes = shapes
        for mine, theirs in zip(all_state_of(self._half), state, strict=True):
            write(mine, theirs)
        return self._half


def _size(logits: Tensor) -> Tensor:
    return logits.masked_fill(logits.isinf(), 0.0).abs().amax().float()


def _now(rows: Rows) -> float:
    device = first_tensor(rows.x).device
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
