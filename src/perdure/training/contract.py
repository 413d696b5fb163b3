"""Checks of what the methods of a strategy return, for strategies of your own."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING

import numpy as np
import torch

from ..record import InputError

if TYPE_CHECKING:
    from ..strategies import Rows, Strategy

__all__ = ["check_batches", "check_loss", "check_rows"]


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


def check_loss(strategy: Strategy, value: object, place: str) -> torch.Tensor:
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
    raise _error(strategy, "step", value, place, expected)


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
