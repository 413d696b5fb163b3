"""Per-example results: which examples were right at each evaluation, packed eight to a byte."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["PerExample"]


@dataclass(frozen=True, eq=False)
class PerExample:
    """Which examples (columns) of one task were right at each evaluation (rows).

    Args:
        steps: training iterations before each evaluation, increasing.
        packed: one row per evaluation in the order of `numpy.packbits`; may be memory-mapped.
        examples: number of examples; the rest of the last byte is padding.
        ids: unique ids of the examples; None if only their order is known.
        data: fingerprint of the evaluation set they belong to; None if unknown.

    Example:
        >>> results = PerExample.pack([5, 6], [[True, False, True], [True, True, True]])
        >>> results.accuracy(), results[0]
        (array([0.66666667, 1.        ]), array([ True, False,  True]))
    """

    steps: NDArray[np.int64]
    packed: NDArray[np.uint8]
    examples: int
    ids: NDArray[np.int64] | None = None
    data: str | None = None

    def __repr__(self) -> str:
        ends = f", steps {self.steps[0]} to {self.steps[-1]}" if len(self.steps) else ""
        return f"PerExample: {len(self.steps)} evaluations of {self.examples} examples{ends}"

    def __post_init__(self) -> None:
        if self.examples < 1:
            raise ValueError(f"per-example results need at least 1 example, got {self.examples}")
        expected = (len(self.steps), -(-self.examples // 8))
        if self.packed.shape != expected:
            raise ValueError(f"packed results must have shape {expected}, got {self.packed.shape}")
        if (np.diff(self.steps) <= 0).any():
            raise ValueError("steps of per-example results must increase, each step once")
        if self.ids is not None and len(self.ids) != self.examples:
            raise ValueError(
                f"results of {self.examples} examples have {len(self.ids)} ids, expected one each"
            )

    @classmethod
    def pack(
        cls, steps: ArrayLike, right: ArrayLike, *, ids: ArrayLike | None = None
    ) -> PerExample:
        """Return results from steps and an (evaluations, examples) array of booleans."""
        table = np.asarray(right, dtype=bool)
        packed = np.packbits(table, axis=1)
        example_ids = None if ids is None else np.asarray(ids, dtype=np.int64)
        return cls(np.asarray(steps, dtype=np.int64), packed, table.shape[1], example_ids)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of evaluations and of examples."""
        return len(self.steps), self.examples

    def __len__(self) -> int:
        return len(self.steps)

    def __getitem__(self, rows: int | slice | NDArray[np.intp]) -> NDArray[np.bool_]:
        """Return the selected evaluations as booleans."""
        bits = np.unpackbits(self.packed[rows], axis=-1, count=self.examples)
        return bits.view(np.bool_)

    def accuracy(self) -> NDArray[np.float64]:
        """Return the fraction of right examples at each evaluation."""
        return self._fractions(np.uint8(0))

    def changed(self, row: int) -> NDArray[np.float64]:
        """Return the fraction of examples whose result differs from that in evaluation `row`."""
        return self._fractions(np.asarray(self.packed[row]))

    def _fractions(self, mask: NDArray[np.uint8] | np.uint8) -> NDArray[np.float64]:
        ones = np.empty(len(self), dtype=np.float64)
        used = np.packbits(np.ones(self.examples, dtype=bool))  # excludes the padding
        for start in range(0, len(self), 1 << 14):  # bounds the memory
            part = (self.packed[start : start + (1 << 14)] ^ mask) & used
            ones[start : start + len(part)] = np.bitwise_count(part).sum(axis=1, dtype=np.int64)
        return ones / self.examples

    def at(self, steps: NDArray[np.int64]) -> PerExample:
        """Return the evaluations at the given steps only."""
        keep = np.isin(self.steps, steps)
        return (
            self if keep.all() else replace(self, steps=self.steps[keep], packed=self.packed[keep])
        )

    def after(self, step: int) -> PerExample:
        """Return the evaluations strictly after `step`."""
        first = int(np.searchsorted(self.steps, step, side="right"))
        return replace(self, steps=self.steps[first:], packed=self.packed[first:])
