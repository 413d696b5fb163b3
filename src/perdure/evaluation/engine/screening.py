"""Accuracy in half precision first, and in full precision where rounding could change a prediction.

A prediction cannot change if the two largest outputs of an example are further apart than the
spread (largest minus smallest) of its rounding errors, which grows with the size of its outputs. A
verification evaluates every example in both precisions; the largest ratio of spread to size, times
a safety factor, is the bound until the next one. The examples are the same at every evaluation, and
verifications are dense after a task switch, when weights change most. The bound is measured, not
proven; so every verification also counts the predictions that the bound in force would have got
wrong, and a single one ends screening.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from ..state.tensors import take_rows
from .cuda_graph import CudaGraph, CudaGraphError
from .half_precision import HalfPrecisionError
from .scoring import correct

if TYPE_CHECKING:
    from collections.abc import Callable

    from .cuda_graph import GraphPool
    from .eval_batches import EvalBatches
    from .half_precision import HalfPrecision
    from .scoring import Rows, Scorer

__all__ = ["MissedPredictionError", "Screening"]

SAFETY_FACTOR = 2.0
TIE = 1e-5  # of the largest output: a smaller margin is a tie in full precision, too
MASKED = 3e4  # outputs of this size are those of masked classes
MAX_SLOWER = 3  # verifications in a row at which half precision was slower
MAX_REPEATED = 50  # at which too many rows were repeated, as is so for a while after a task switch
MIN_SECONDS = 3e-3  # of an evaluation on CUDA: a shorter one is better captured as it is
MIN_REPEATED = 64  # rows of a CUDA graph that repeats some in full precision


class MissedPredictionError(HalfPrecisionError):
    """Raised when the bound missed a prediction that half precision gets wrong."""


class _ErrorBound:
    """The largest ratio of rounding errors to outputs at a verification."""

    def __init__(self, half: Tensor, full: Tensor) -> None:
        errors = (half - full).nan_to_num(0.0)  # masked classes are infinite in both
        spread = errors.amax(1) - errors.amin(1)
        measured = torch.isfinite(half.amax(1)) & torch.isfinite(spread)
        ratios = torch.where(measured, spread / _size(half), 0.0)
        self.ratio = SAFETY_FACTOR * ratios.amax()
        self.pays = True  # to evaluate in half precision first

    def uncertain(self, logits: Tensor) -> Tensor:
        """Return which predictions rounding could change."""
        top = logits.topk(2, dim=1).values
        certain = top[:, 0] - top[:, 1] > self.ratio * _size(logits)  # false for NaN
        return ~(certain & torch.isfinite(top[:, 0]))


class Screening:
    """Evaluates in half precision, and close predictions in full precision.

    On CUDA both are captured in graphs.

    Args:
        scorer: how examples are scored.
        half_precision: the forward pass in half precision.
        pool: the memory of CUDA graphs, on CUDA.
    """

    def __init__(
        self, scorer: Scorer, half_precision: HalfPrecision, pool: GraphPool | None
    ) -> None:
        self._scorer, self._half, self.pool = scorer, half_precision, pool
        self._bounds: WeakKeyDictionary[Rows, _ErrorBound] = WeakKeyDictionary()
        self._slower: WeakKeyDictionary[Rows, int] = WeakKeyDictionary()
        self._graphs: WeakKeyDictionary[Rows, dict[int, _RowsGraph]] = WeakKeyDictionary()

    def is_ready(self, batches: EvalBatches, step: int) -> bool:
        """Return whether to evaluate these examples by `values`, or by `verify`."""
        bounds = [self._bounds.get(rows) for rows in batches.at(step)]
        return all(bound is not None and bound.pays for bound in bounds)

    def values(self, model: object, rows: Rows) -> Tensor:
        """Return which rows are correct, as full precision would have it."""
        logits = self._half_logits(model, rows)
        matches = correct(logits, rows.y, rows)
        close = self._bounds[rows].uncertain(logits).nonzero().squeeze(1)
        if len(close):
            full = self._full_logits(model, rows, close)
            matches[close] = correct(full, take_rows(rows.y, close), rows)
        return matches

    def verify(self, model: object, rows: Rows) -> Tensor:
        """Return which rows are correct in full precision, and measure the bound again.

        Raises MissedPredictionError if the bound in force would have missed a wrong prediction,
        and HalfPrecisionError if half precision is not faster on this machine.
        """
        if self.pool is not None:
            self._half_graph(model, rows, self.pool)  # captured before the clock starts
        else:
            self._half.prepare(model, rows)
        start = self._now()
        try:
            full = torch.cat([self._scorer.logits(model, rows, at, x) for at, x, _ in rows.batches])
        except torch.OutOfMemoryError:
            raise HalfPrecisionError("there is not enough memory for both precisions") from None
        middle = self._now()
        half = self._half_logits(model, rows)
        seconds = self._now() - middle, middle - start
        matches, full = correct(full, rows.y, rows), full.float()
        if rows in self._bounds:
            self._compare(self._bounds[rows], half, full)
        bound = self._bounds[rows] = _ErrorBound(half, full)
        repeated = float(bound.uncertain(half).float().mean())
        self._decide(rows, *seconds, repeated)
        return matches

    def _decide(
        self, rows: Rows, half_seconds: float, full_seconds: float, repeated: float
    ) -> None:
        """Decide whether screening pays; raise HalfPrecisionError if it has not for long."""
        is_short = self.pool is not None and full_seconds < MIN_SECONDS
        is_slow = half_seconds >= full_seconds or is_short
        pays = not is_slow and half_seconds + repeated * full_seconds < full_seconds
        self._bounds[rows].pays = pays
        self._slower[rows] = 0 if pays else self._slower.get(rows, 0) + 1
        if self._slower[rows] < (MAX_SLOWER if is_slow else MAX_REPEATED):
            return
        if is_short:
            raise HalfPrecisionError(
                f"an evaluation takes {1e3 * full_seconds:.2g} ms in full precision, and screening "
                f"pays from {1e3 * MIN_SECONDS:g} ms on"
            )
        raise HalfPrecisionError(
            f"{self._half.dtype} is not faster here ({1e3 * half_seconds:.2g} ms, "
            f"{repeated:.0%} of rows repeated, against {1e3 * full_seconds:.2g} ms in full "
            "precision)"
        )

    def _compare(self, bound: _ErrorBound, half: Tensor, full: Tensor) -> None:
        top = full.topk(2, dim=1).values
        clear = top[:, 0] - top[:, 1] > TIE * _size(full)
        wrong = (half.argmax(1) != full.argmax(1)) & ~bound.uncertain(half) & clear
        if bool(wrong.any()):
            raise MissedPredictionError(
                f"a verification found {int(wrong.sum())} of {len(full)} predictions that differ "
                "from full precision although the bound excluded it; evaluations since "
                "the last verification may be off by as much"
            )

    def _half_logits(self, model: object, rows: Rows) -> Tensor:
        if self.pool is None:
            return self._half.logits(model, rows)
        return self._half_graph(model, rows, self.pool).values()

    def _half_graph(self, model: object, rows: Rows, pool: GraphPool) -> _RowsGraph:
        """Return the graph of all rows; if the model has moved, the others are of no use either."""
        graph = self._graphs.get(rows, {}).get(0)
        if graph is not None and not graph.fits(model):
            del self._graphs[rows]
        return self._graph(0, model, rows, pool, lambda _: self._half.logits(model, rows))

    def _full_logits(self, model: object, rows: Rows, some: Tensor) -> Tensor:
        """Return the outputs of some rows in full precision."""
        parts = []
        for part in some.split(rows.batch_size):
            if self.pool is None:
                x = take_rows(rows.x, part)
                parts.append(self._scorer.logits(model, rows, part, x))
                continue
            size = min(len(rows), max(MIN_REPEATED, 1 << (len(part) - 1).bit_length()))
            graph = self._graph(
                size, model, rows, self.pool,
                lambda at: self._scorer.logits(model, rows, at, take_rows(rows.x, at)),
            )  # fmt: skip
            parts.append(graph.values(part)[: len(part)].clone())
        return torch.cat(parts)

    def _graph(
        self,
        size: int,
        model: object,
        rows: Rows,
        pool: GraphPool,
        compute: Callable[[Tensor], Tensor],
    ) -> _RowsGraph:
        """Return the graph that evaluates so many rows, captured if it was not yet."""
        graphs = self._graphs.setdefault(rows, {})
        if size not in graphs:
            try:
                graphs[size] = _RowsGraph(size, model, pool, compute)
            except CudaGraphError as reason:
                raise HalfPrecisionError(f"there is no CUDA graph: {reason}") from reason
        return graphs[size]

    def _now(self) -> float:
        if self.pool is not None:
            torch.cuda.synchronize(self.pool.device)
        return time.perf_counter()


class _RowsGraph:
    """A CUDA graph that evaluates a fixed number of rows, which may be others each time."""

    def __init__(
        self, size: int, model: object, pool: GraphPool, compute: Callable[[Tensor], Tensor]
    ) -> None:
        self._index = torch.zeros(size, dtype=torch.long, device=pool.device)
        self._graph = CudaGraph(lambda: compute(self._index), model, pool)

    def fits(self, model: object) -> bool:
        """Return whether the tensors of the model are where they were at the capture."""
        return self._graph.fits(model)

    def values(self, rows: Tensor | None = None) -> Tensor:
        """Return the outputs, the first of which are those of `rows`."""
        if rows is not None:
            self._index[: len(rows)].copy_(rows)
        return self._graph.replay()


def _size(logits: Tensor) -> Tensor:
    """Return the size of the outputs of each row, without those of masked classes."""
    return logits.masked_fill(~(logits.abs() < MASKED), 0.0).abs().amax(1).clamp(min=1e-30)
