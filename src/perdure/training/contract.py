"""What the methods of a strategy return, checked: mistakes of one's own strategy are named."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..record import InputError

if TYPE_CHECKING:
    from ..strategies import Rows, Strategy

__all__ = ["check_batches", "check_loss", "check_rows"]


def check_rows(strategy: Strategy, value: Any) -> Rows:
    """Return the rows that `begin_task` returned, or raise."""
    rows = _rows(value)
    if rows is None:
        raise _refused(strategy, "begin_task", value, "", "the rows to learn from: return rows")
    return rows


def check_batches(strategy: Strategy, value: Any) -> list[Rows]:
    """Return the rows of each batch that `choose` returned, or raise."""
    batches = [_rows(part) for part in value] if isinstance(value, tuple | list) else []
    known = [rows for rows in batches if rows is not None]
    if not known or len(known) < len(batches):
        raise _refused(strategy, "select_rows", value, "", "the rows of each batch: return (new,)")
    return known


def check_loss(strategy: Strategy, value: Any, where: str) -> torch.Tensor:
    """Return the loss that `step` returned as a tensor without dimensions, or raise.

    Whether it is finite is not asked here: a GPU would have to be waited for.
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
    expected = "one finite number: return loss.detach(); what was recorded stays"
    raise _refused(strategy, "step", value, where, expected)


def _rows(value: Any) -> Rows | None:
    """Return an array of row numbers, None where `value` is no such thing."""
    try:
        rows = np.asarray(value)
    except (TypeError, ValueError):  # a tensor on a GPU, lists of several lengths
        return None
    return rows if rows.dtype.kind in "iu" and rows.ndim == 1 else None


def _refused(
    strategy: Strategy, method: str, value: Any, where: str, expected: str
) -> InputError:  # fmt: skip
    shown = " ".join(repr(value).split())
    shown = shown if len(shown) <= 40 else f"{shown[:39]}…"
    if isinstance(value, torch.Tensor):
        kind = str(value.dtype).removeprefix("torch.")
        shown = f"a {kind} tensor of shape {tuple(value.shape)}"
    name = type(strategy).__name__
    return InputError(f"{name}.{method} returned {shown}{where}, expected {expected}")
