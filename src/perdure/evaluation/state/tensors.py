"""Tensors of every kind: strided, expanded, sparse, quantized, on the meta device."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["not_shareable", "tensor_bytes", "write"]

COMPRESSED = {  # names of the two index tensors of each layout
    torch.sparse_csr: ("crow_indices", "col_indices"),
    torch.sparse_bsr: ("crow_indices", "col_indices"),
    torch.sparse_csc: ("ccol_indices", "row_indices"),
    torch.sparse_bsc: ("ccol_indices", "row_indices"),
}


def write(target: Tensor, source: Tensor) -> None:
    """Copy `source` into `target`, also where its elements share memory, as expanded ones do.

    Example:
        >>> expanded = torch.zeros(1).expand(3)
        >>> write(expanded, torch.ones(3))
        >>> expanded
        tensor([1., 1., 1.])
    """
    if target.layout is torch.strided and not target.is_nested and 0 in target.stride():
        for dim, stride in enumerate(target.stride()):
            if stride == 0 and target.shape[dim] > 1:
                target, source = target.narrow(dim, 0, 1), source.narrow(dim, 0, 1)
    target.copy_(source, non_blocking=True)


def tensor_bytes(tensor: Tensor) -> int:
    """Return the bytes of a tensor's values and, if it is sparse, of its indices.

    Example:
        >>> tensor_bytes(torch.zeros(4)), tensor_bytes(torch.eye(3).to_sparse())
        (16, 60)
    """
    if tensor.layout is torch.sparse_coo:
        return int(tensor._indices().nbytes + tensor._values().nbytes)  # noqa: SLF001
    if tensor.layout in COMPRESSED:
        indices = [getattr(tensor, name)() for name in COMPRESSED[tensor.layout]]
        return int(tensor.values().nbytes + sum(each.nbytes for each in indices))
    return int(tensor.numel() * tensor.element_size())


def not_shareable(tensor: Tensor) -> str | None:
    """Return what keeps a tensor from being a block of memory of the CPU; None if nothing does.

    Example:
        >>> not_shareable(torch.zeros(2)), not_shareable(torch.eye(2).to_sparse())
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
    own = type(tensor).__torch_dispatch__ is not Tensor.__torch_dispatch__
    return type(tensor).__name__ if own else None
