"""Which examples were right at each evaluation: eight to a byte, unpacked only where read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["PerExample"]


@dataclass(frozen=True, eq=False)
class PerExample:
    """Right or wrong for each example (columns) at each evaluation (rows) of one task.

    Args:
        steps: training iterations done at each evaluation, increasing.
        packed: one row an evaluation, `numpy.packbits` order; may be memory-mapped.
        examples: how many examples there are: the rest of the last byte is padding.
        ids: which examples these are, each id once; None where nothing is known but their order.
        data: fingerprint of the evaluation set they belong to; None where not known.

    Example:
        >>> hits = PerExample.pack([5, 6], [[True, False, True], [True, True, True]])
        >>> hits.accuracy(), hits[0]
        (array([0.66666667, 1.        ]), array([ True, False,  True]))
    """

    steps: NDArray[np.int64]
    packed: NDArray[np.uint8]
    examples: int
    ids: NDArray[np.int64] | None = None
    data: str | None = None

    def __post_init__(self) -> None:
        if self.examples < 1:
            raise ValueError(f"hits must be of at least 1 example, got {self.examples}")
        expected = (len(self.steps), -(-self.examples // 8))
        if self.packed.shape != expected:
            raise ValueError(f"packed hits must have shape {expected}, got {self.packed.shape}")
        if (np.diff(self.steps) <= 0).any():
            raise ValueError("steps of hits must increase, each step once")
        if self.ids is not None and len(self.ids) != self.examples:
            raise ValueError(
                f"hits of {self.examples} examples have {len(self.ids)} ids, expected one each"
            )

    @classmethod
    def pack(cls, steps: object, right: object, *, ids: object = None) -> PerExample:
        """Return hits from steps and a (evaluations, examples) array of booleans."""
        table = np.asarray(right, dtype=bool)
        packed = np.packbits(table, axis=1)
        named = None if ids is None else np.asarray(ids, dtype=np.int64)
        return cls(np.asarray(steps, dtype=np.int64), packed, table.shape[1], named)

    @property
    def shape(self) -> tuple[int, int]:
        """Evaluations and examples."""
        return len(self.steps), self.examples

    def __len__(self) -> int:
        return len(self.steps)

    def __getitem__(self, rows: int | slice | NDArray[np.intp]) -> NDArray[np.bool_]:
        """Return the chosen evaluations as booleans."""
        bits = np.unpackbits(self.packed[rows], axis=-1, count=self.examples)
        return bits.view(np.bool_)

    def accuracy(self) -> NDArray[np.float64]:
        """Return the share of right examples at each evaluation."""
        return self._shares(np.uint8(0))

    def changed(self, row: int) -> NDArray[np.float64]:
        """Return the share of examples that are not as at evaluation number `row`."""
        return self._shares(np.asarray(self.packed[row]))

    def _shares(self, mask: NDArray[np.uint8] | np.uint8) -> NDArray[np.float64]:
        ones = np.empty(len(self), dtype=np.float64)
        used = np.packbits(np.ones(self.examples, dtype=bool))  # not the padding
        for start in range(0, len(self), 1 << 14):  # bounds the memory of the counts
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
