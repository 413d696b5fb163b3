"""Trees of tensors: a batch is a tensor, or tuples and dicts of tensors."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from .tensors import tensor_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "as_tensors",
    "first_tensor",
    "join_rows",
    "leaves",
    "map_tree",
    "move_leaf",
    "nbytes",
    "row_layout",
    "take_rows",
]


T = TypeVar("T")  # a tree: the results have its structure


def map_tree(function: Callable[..., object], tree: T, *others: T) -> T:
    """Return `tree` with `function` applied to each leaf (and the same leaves of the others).

    Example:
        >>> map_tree(lambda a, b: a + b, {"x": 1, "m": (2, 3)}, {"x": 10, "m": (20, 30)})
        {'x': 11, 'm': (22, 33)}
    """
    return cast("T", _map(function, tree, *others))


def _map(function: Callable[..., object], tree: Any, *others: Any) -> object:
    if isinstance(tree, Mapping):
        return {k: _map(function, v, *(o[k] for o in others)) for k, v in tree.items()}
    if isinstance(tree, tuple) or _is_sequence_of_trees(tree):
        return tuple(_map(function, part, *(o[k] for o in others)) for k, part in enumerate(tree))
    return function(tree, *others)


def leaves(tree: object) -> list[object]:
    """Return the leaves of `tree` in order."""
    result: list[object] = []
    map_tree(result.append, tree)
    return result


def as_tensors(tree: T) -> T:
    """Return `tree` with arrays and lists of numbers converted to tensors.

    Example:
        >>> as_tensors(([[1.0, 2.0]], [0]))
        (tensor([[1., 2.]], dtype=torch.float64), tensor([0]))
    """
    return map_tree(lambda a: torch.as_tensor(np.asarray(a)) if _is_numbers(a) else a, tree)


def first_tensor(tree: object) -> Tensor:
    """Return the first tensor of `tree`, or raise."""
    for leaf in leaves(tree):
        if isinstance(leaf, Tensor) and leaf.dim() > 0:
            return leaf
    raise TypeError(f"expected examples as tensors, got {type(tree).__name__} without any")


def join_rows(trees: list[T]) -> T:
    """Return the concatenated rows of all trees."""
    return map_tree(lambda *parts: torch.cat(parts), *trees) if len(trees) > 1 else trees[0]


def clone_leaf(leaf: object) -> object:
    """Return a copy of a tensor, anything else as it is."""
    return leaf.clone() if isinstance(leaf, Tensor) else leaf


def move_leaf(leaf: object, device: torch.device) -> object:
    """Return a tensor on `device`, anything else as it is."""
    return leaf.to(device) if isinstance(leaf, Tensor) else leaf


def take_rows(tree: T, index: Tensor) -> T:
    """Return the rows of `tree` at `index`."""
    return map_tree(lambda a: a[index.to(a.device)], tree)


def row_layout(tree: object) -> str:
    """Return what two trees must share to be joined: structure, dtypes and shapes of a row."""
    return repr(map_tree(_row_type, tree))


def nbytes(data: object) -> int:
    """Return the size of all tensors and arrays in `data` in bytes; an integer is returned as is.

    Example:
        >>> nbytes((torch.zeros(4), np.zeros(2))), nbytes(1000)
        (32, 1000)
    """
    if type(data) is not bool and isinstance(data, Integral) and int(data) >= 0:
        return int(data)
    parts = [] if isinstance(data, list) and not data else leaves(data)
    total = 0
    for leaf in parts:
        if not isinstance(leaf, Tensor | np.ndarray):
            raise TypeError(f"{data!r:.60} has no size, expected tensors or a number of bytes")
        total += tensor_bytes(leaf) if isinstance(leaf, Tensor) else leaf.nbytes
    return total


def _row_type(leaf: object) -> object:
    if isinstance(leaf, Tensor):
        return str(leaf.dtype), tuple(leaf.shape[1:])
    return id(leaf)  # of a list of strings, say: joined with no other


def _is_sequence_of_trees(tree: object) -> bool:
    """Return whether a list holds several inputs, as a collated batch does, and not numbers."""
    return isinstance(tree, list) and any(
        isinstance(part, Tensor | np.ndarray | Mapping | tuple) for part in tree
    )


def _is_numbers(leaf: object) -> bool:
    if isinstance(leaf, Tensor) or not isinstance(leaf, np.ndarray | list | int | float):
        return False
    return np.asarray(leaf).dtype.kind in "biuf"
