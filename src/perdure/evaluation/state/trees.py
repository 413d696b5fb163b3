"""Batches as they come: a tensor, or tuples and dictionaries of tensors."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from .tensors import tensor_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "as_tensors",
    "first_tensor",
    "joined",
    "layout",
    "leaves",
    "mapped",
    "moved",
    "nbytes",
    "taken",
]


def mapped(function: Callable[..., Any], tree: Any, *others: Any) -> Any:
    """Return `tree` with `function` of each leaf (and of the same leaf of the others).

    Example:
        >>> mapped(lambda a, b: a + b, {"x": 1, "m": (2, 3)}, {"x": 10, "m": (20, 30)})
        {'x': 11, 'm': (22, 33)}
    """
    if isinstance(tree, Mapping):
        return {k: mapped(function, v, *(o[k] for o in others)) for k, v in tree.items()}
    if isinstance(tree, tuple) or _holds_parts(tree):
        return tuple(
            mapped(function, part, *(other[k] for other in others)) for k, part in enumerate(tree)
        )
    return function(tree, *others)


def leaves(tree: Any) -> list[Any]:
    """Return the leaves of `tree` in order."""
    found: list[Any] = []
    mapped(found.append, tree)
    return found


def as_tensors(tree: Any) -> Any:
    """Return `tree` with arrays, and lists of numbers, as tensors.

    Example:
        >>> as_tensors(([[1.0, 2.0]], [0]))
        (tensor([[1., 2.]], dtype=torch.float64), tensor([0]))
    """
    return mapped(lambda a: torch.as_tensor(np.asarray(a)) if _is_numbers(a) else a, tree)


def first_tensor(tree: Any) -> Tensor:
    """Return the first tensor of `tree`, or raise."""
    for leaf in leaves(tree):
        if isinstance(leaf, Tensor) and leaf.dim() > 0:
            return leaf
    raise TypeError(f"expected examples as tensors, got {type(tree).__name__} without any")


def joined(trees: list[Any]) -> Any:
    """Return the rows of all trees, one after the other."""
    return mapped(lambda *parts: torch.cat(parts), *trees) if len(trees) > 1 else trees[0]


def copied(leaf: Any) -> Any:
    """Return a copy of a tensor, anything else as it is."""
    return leaf.clone() if isinstance(leaf, Tensor) else leaf


def moved(leaf: Any, device: torch.device) -> Any:
    """Return a tensor on `device`, anything else as it is."""
    return leaf.to(device) if isinstance(leaf, Tensor) else leaf


def taken(tree: Any, index: Tensor) -> Any:
    """Return the rows of `tree` at `index`."""
    return mapped(lambda a: a[index.to(a.device)], tree)


def layout(tree: Any) -> Any:
    """Return what two trees must share to be joined: structure, types and shapes of a row."""
    return repr(mapped(_row_of, tree))


def nbytes(data: Any) -> int:
    """Return the bytes of every tensor and array in `data`; a whole number is bytes already.

    Example:
        >>> nbytes((torch.zeros(4), np.zeros(2))), nbytes(1000)
        (32, 1000)
    """
    if type(data) is not bool and isinstance(data, Integral) and int(data) >= 0:
        return int(data)
    parts = [] if isinstance(data, list) and not data else leaves(data)
    if not all(isinstance(leaf, Tensor | np.ndarray) for leaf in parts):
        raise TypeError(f"{data!r:.60} has no size, expected tensors or a number of bytes from 0")
    return sum(
        tensor_bytes(leaf) if isinstance(leaf, Tensor) else int(leaf.nbytes) for leaf in parts
    )


def _row_of(leaf: Any) -> Any:
    if isinstance(leaf, Tensor):
        return str(leaf.dtype), tuple(leaf.shape[1:])
    return id(leaf)  # a list of words, say: like no other


def _holds_parts(tree: Any) -> bool:
    """Return whether a list holds several inputs, as collated batches do, and not numbers."""
    return isinstance(tree, list) and any(
        isinstance(part, Tensor | np.ndarray | Mapping | tuple) for part in tree
    )


def _is_numbers(leaf: Any) -> bool:
    if isinstance(leaf, Tensor) or not isinstance(leaf, np.ndarray | list | int | float):
        return False
    return np.asarray(leaf).dtype.kind in "biuf"
