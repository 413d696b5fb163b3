"""The tensors of a model, operations on tensors of every kind, and trees of tensors.

A batch is a tree: a tensor, or tuples and dicts of tensors.
"""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "all_tensors",
    "as_tensors",
    "copy_into",
    "first_tensor",
    "join_rows",
    "leaves",
    "map_tree",
    "model_device",
    "move_leaf",
    "nbytes",
    "row_layout",
    "submodules",
    "take_rows",
    "tensor_bytes",
    "unique_tensors",
    "unshareable_kind",
]

COMPRESSED_INDICES = {  # the methods that return the two index tensors of each layout
    torch.sparse_csr: ("crow_indices", "col_indices"),
    torch.sparse_bsr: ("crow_indices", "col_indices"),
    torch.sparse_csc: ("ccol_indices", "row_indices"),
    torch.sparse_bsc: ("ccol_indices", "row_indices"),
}
T = TypeVar("T")  # a tree: the results have its structure


def model_device(model: object) -> torch.device:
    """Return the device of a model's first parameter; the CPU for anything without one."""
    buffer_device: torch.device | None = None
    waiting: list[object] = [model]
    while waiting:
        module = waiting.pop()
        if not isinstance(module, nn.Module):
            continue
        for parameter in module._parameters.values():  # noqa: SLF001
            if parameter is not None:
                return parameter.device
        for buffer in module._buffers.values():  # noqa: SLF001
            if buffer is not None and buffer_device is None:
                buffer_device = buffer.device
        waiting.extend(reversed(module._modules.values()))  # noqa: SLF001
    return buffer_device or torch.device("cpu")


def submodules(model: object) -> list[nn.Module]:
    """Return a module and its submodules, each once, in a fifth of the time of `modules()`."""
    modules: dict[int, nn.Module] = {}
    waiting: list[nn.Module | None] = [model] if isinstance(model, nn.Module) else []
    while waiting:
        module = waiting.pop()
        if module is not None and id(module) not in modules:
            modules[id(module)] = module
            if children := module._modules:  # noqa: SLF001
                waiting.extend(reversed(children.values()))
    return list(modules.values())


def unique_tensors(model: nn.Module) -> list[Tensor]:
    """Return every parameter and buffer once, also if it is tied."""
    return list({id(tensor): tensor for tensor in all_tensors(model)}.values())


def all_tensors(model: nn.Module) -> list[Tensor]:
    """Return every parameter and buffer, tied ones as often as they are tied.

    They are read from the modules themselves, which takes half the time of `parameters()`.
    """
    return [
        tensor
        for module in submodules(model)
        for tensor in (*module._parameters.values(), *module._buffers.values())  # noqa: SLF001
        if tensor is not None
    ]


def copy_into(target: Tensor, source: Tensor) -> None:
    """Copy `source` into `target`, also if elements of `target` share memory (expanded tensors).

    Example:
        >>> expanded = torch.zeros(1).expand(3)
        >>> copy_into(expanded, torch.ones(3))
        >>> expanded
        tensor([1., 1., 1.])
    """
    if target.layout is torch.strided and not target.is_nested and 0 in target.stride():
        for dim, stride in enumerate(target.stride()):
            if stride == 0 and target.shape[dim] > 1:
                target, source = target.narrow(dim, 0, 1), source.narrow(dim, 0, 1)
    target.copy_(source, non_blocking=True)


def tensor_bytes(tensor: Tensor) -> int:
    """Return the bytes of the values of a tensor and, if it is sparse, of its indices.

    Example:
        >>> tensor_bytes(torch.zeros(4)), tensor_bytes(torch.eye(3).to_sparse())
        (16, 60)
    """
    if tensor.layout is torch.sparse_coo:
        return int(tensor._indices().nbytes + tensor._values().nbytes)  # noqa: SLF001
    if tensor.layout in COMPRESSED_INDICES:
        indices = [getattr(tensor, name)() for name in COMPRESSED_INDICES[tensor.layout]]
        return int(tensor.values().nbytes + sum(index.nbytes for index in indices))
    return int(tensor.numel() * tensor.element_size())


def unshareable_kind(tensor: Tensor) -> str | None:
    """Return the kind of a tensor that cannot live in shared memory; None if it can.

    Example:
        >>> unshareable_kind(torch.zeros(2)), unshareable_kind(torch.eye(2).to_sparse())
        (None, 'sparse_coo')
    """
    if tensor.layout is not torch.strided:
        return str(tensor.layout).removeprefix("torch.")
    if tensor.is_quantized:
        return "quantized"
    if tensor.is_nested:
        return "nested"
    if tensor.device.type != "cpu":
        return tensor.device.type
    custom = type(tensor).__torch_dispatch__ is not Tensor.__torch_dispatch__
    return type(tensor).__name__ if custom else None


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
