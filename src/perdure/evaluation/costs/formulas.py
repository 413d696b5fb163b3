"""FLOP formulas of kernels that PyTorch's own counter does not know, by its conventions.

The kernels have no public names; tests/test_private_torch.py fails when one of them is gone.
"""
# ruff: noqa: SLF001 - see above

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.utils.flop_counter import flop_registry

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    Formula = Callable[..., int]

__all__ = ["formula"]


def formula(operator: object) -> Formula | None:
    """Return the function that counts the operations of an operator; None if there is none.

    Example:
        >>> linear = formula(torch.ops.aten.linear)
        >>> linear(torch.ones(2, 3), torch.ones(4, 3), out_val=torch.ones(2, 4))
        48
        >>> formula(torch.ops.aten.relu)
    """
    return flop_registry.get(operator) or _FORMULAS.get(operator)


def _linear(x: Tensor, weight: Tensor, *_: object, **__: object) -> int:
    return 2 * x.numel() * weight.shape[0]


def _linear_backward(
    x: Tensor, _: Tensor, weight: Tensor, output_mask: Sequence[bool], **__: object
) -> int:
    return int(sum(output_mask[:2])) * _linear(x, weight)


def _recurrent(x: Tensor, weights: Sequence[Tensor], *_: object, **__: object) -> int:
    """Every matrix is multiplied once per example and position; the other weights are biases."""
    matrices = sum(weight.numel() for weight in weights if weight.dim() == 2)
    return 2 * x.numel() // x.shape[-1] * matrices


def _recurrent_layer(x: Tensor, *weights: Tensor, **__: object) -> int:
    return _recurrent(x, weights[:2])


def _backward(forward: Callable[..., int]) -> Callable[..., int]:
    """Return the formula of the gradients of the inputs and of the weights."""
    return lambda *args, **options: 2 * forward(*args, **options)


def _attention(
    query: Tensor, key: Tensor, value: Tensor, width: int, *_: object, **__: object
) -> int:
    """Four projections, the attention scores, and their product with the values."""
    projected = 2 * query.numel() + key.numel() + value.numel()
    pairs = sum(a * b for a, b in zip(_lengths(query), _lengths(key), strict=True))
    return 2 * width * (projected + 2 * pairs)


def _encoder_layer(x: Tensor, width: int, *rest: Tensor, **__: object) -> int:
    hidden = int(rest[12].shape[0])
    return _attention(x, x, x, width) + 2 * 2 * x.numel() * hidden


def _lengths(x: Tensor) -> list[int]:
    """Return how many positions each example has."""
    if x.is_nested:
        return [int(size) for size in x._nested_tensor_size()[:, 0]]
    return [x.shape[1]] * x.shape[0]


_aten = torch.ops.aten
_flash = _aten._scaled_dot_product_flash_attention
_FORMULAS: dict[object, Formula] = {
    _aten.linear: _linear,  # a kernel of its own for nested tensors and on MPS
    _aten.linear_backward: _linear_backward,
    _aten.mkldnn_rnn_layer: _recurrent_layer,
    _aten.mkldnn_rnn_layer_backward: _backward(_recurrent_layer),
    _aten._cudnn_rnn: _recurrent,
    _aten._cudnn_rnn_backward: _backward(_recurrent),
    _aten._native_multi_head_attention: _attention,
    _aten._transformer_encoder_layer_fwd: _encoder_layer,
    _aten._scaled_dot_product_flash_attention_for_cpu: flop_registry[_flash],
    _aten._scaled_dot_product_flash_attention_for_cpu_backward: flop_registry[
        _aten._scaled_dot_product_flash_attention_backward
    ],
}
