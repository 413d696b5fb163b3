"""Counting floating-point operations with PyTorch's formulas, without hooks on modules.

PyTorch has no public interface to the dispatcher and to the stack of its modes, and its kernels
have no public names, so this module uses private parts of torch (`torch._C._dispatch_*`,
`_push_mode`, `_pop_mode`, …), as PyTorch's own FlopCounterMode does.
tests/test_private_torch.py fails when one of them is gone.
"""
# ruff: noqa: SLF001 - see above

from __future__ import annotations

import sys
from functools import cache, partial
from multiprocessing.util import register_after_fork
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch._compile import _disable_dynamo
from torch._ops import OpOverload
from torch.utils._python_dispatch import (
    TorchDispatchMode,
    _get_current_dispatch_mode_stack,
    _pop_mode,
    _push_mode,
)
from torch.utils._pytree import arg_tree_leaves
from torch.utils.flop_counter import flop_registry

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch.autograd.graph import Node

    Formula = Callable[..., int]

__all__ = ["FlopCounter", "formula"]

aten = torch.ops.aten
COMPOSITE_KEY = torch._C.DispatchKey.CompositeImplicitAutograd
GENERIC_KERNEL_KEYS = (  # of kernels for every device, which PyTorch prefers to a composite
    "CompositeExplicitAutogradNonFunctional",
    "CompositeExplicitAutograd",
    "CompositeImplicitAutogradNestedTensor",
)
# While any mode is active, their gradients are computed by other formulas, to other bits.
MODE_SENSITIVE = {
    aten.prod.default,
    aten.prod.dim_int,
    aten.cumprod.default,
    aten.masked_fill.Tensor,
    aten.masked_fill_.Tensor,
}


class FlopCounter(TorchDispatchMode):
    """Counts floating-point operations of matrix products, convolutions and attention.

    Results are bit for bit what they are without this mode. PyTorch's own FlopCounterMode replaces
    kernels by the sum of their parts, and registers hooks on every module, which compiled models
    warn about. Other modes may be entered between `start` and `stop`: the counter is removed from
    the stack wherever it is.

    Example:
        >>> with FlopCounter() as flops:
        ...     _ = torch.ones(2, 3) @ torch.ones(3, 4)
        >>> flops.total
        48
    """

    supports_higher_order_operators = True  # without it PyTorch refuses to run flex_attention

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Return False: PyTorch would import its compiler, for a second, to count the first step.

        The counter excludes itself from compilation once the compiler has been imported.
        """
        return False

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        run = FlopCounter.__torch_dispatch__
        if "torch._dynamo" in sys.modules and not hasattr(run, "__wrapped__"):
            FlopCounter.__torch_dispatch__ = _disable_dynamo(run)  # type: ignore[method-assign]
        self.total: int = 0
        self.problem = ""  # why the total is incomplete
        self._active = False
        self._sensitive_output: Tensor | None = None

    def __torch_dispatch__(
        self,
        func: OpOverload[..., object],
        types: Sequence[type],
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        """Run an operation and count it."""
        kwargs = kwargs or {}
        self._exempt_sensitive()
        count = formula(getattr(func, "_overloadpacket", func))
        if count is None and not types and _runs_as_parts(func, args, kwargs):
            with self:  # in inference mode an operation arrives as a whole: count its parts
                return func._op_dk(COMPOSITE_KEY, *args, **kwargs)
        out = func(*args, **kwargs)
        if func in MODE_SENSITIVE and isinstance(out, Tensor):
            self._sensitive_output = out
        if count is not None:
            try:
                self._add(func, count, args, kwargs, out)
            except Exception as error:  # a formula that fails must not stop training
                self.problem = f"{func.name()}: {type(error).__name__}: {error}"
        return out

    def _add(
        self, func: object, count: Formula, args: tuple[object, ...],
        kwargs: dict[str, object], out: object,
    ) -> None:  # fmt: skip
        self.total += int(count(*args, **kwargs, out_val=out))
        if func is aten.convolution_backward.default:
            self.total -= _excess_of_groups(count, args, out)

    def start(self) -> None:
        """Start counting, in this process: worker processes of a DataLoader do not count."""
        self._active = True
        # It goes away with this object, unlike a hook of os.register_at_fork.
        register_after_fork(self, FlopCounter._stop_if_active)
        _push_mode(self)

    def _stop_if_active(self) -> None:
        if self._active:
            self.stop()

    def stop(self) -> int:
        """Stop counting and return the count; other modes stay as they are."""
        self._exempt_sensitive()
        self._active = False
        above: list[TorchDispatchMode] = []
        while (mode := _pop_mode()) is not self:
            above.append(mode)
        for mode in reversed(above):
            _push_mode(mode)
        return int(self.total)

    def _exempt_sensitive(self) -> None:
        """Have the gradient of the last mode-sensitive operation computed without a counter."""
        if self._sensitive_output is not None:  # by now autograd has given it a node
            _disable_counters(self._sensitive_output.grad_fn)
            self._sensitive_output = None


def _runs_as_parts(
    func: OpOverload[..., object], args: tuple[object, ...], kwargs: dict[str, object]
) -> bool:
    """Return whether PyTorch runs an operation on these tensors as a composite of others."""
    if not _is_composite(func):
        return False
    tensors = (leaf for leaf in arg_tree_leaves(*args, **kwargs) if isinstance(leaf, Tensor))
    has_kernel = partial(torch._C._dispatch_has_kernel_for_any_dispatch_key, func.name())
    backend = torch._C._after_autograd_keyset
    return not any(has_kernel(torch._C._dispatch_keys(tensor) & backend) for tensor in tensors)


@cache
def _is_composite(func: object) -> bool:
    """Return whether an operation has a composite, and no kernel for all devices."""
    if not isinstance(func, OpOverload) or not torch._C._dispatch_has_kernel(func.name()):
        return False  # higher-order operators, prim::device
    has = partial(torch._C._dispatch_has_kernel_for_dispatch_key, func.name())
    return has(COMPOSITE_KEY) and not any(map(has, GENERIC_KERNEL_KEYS))


def _disable_counters(node: Node | None) -> None:
    """Let autograd compute the gradients of a node while no counter is active."""

    def before(_: object) -> None:
        modes = _get_current_dispatch_mode_stack()
        if all(
            isinstance(mode, FlopCounter) for mode in modes
        ):  # a mode of the user keeps its effect
            for _mode in modes:
                _pop_mode()  # autograd restores them for the next node

    if node is not None:
        node.register_prehook(before)


def _excess_of_groups(count: Formula, args: tuple[Any, ...], out: object) -> int:
    """Return by how much PyTorch overcounts: its formula for weight gradients ignores groups."""
    gradient, x, *rest, groups, output_mask = args
    if groups == 1 or not output_mask[1]:
        return 0
    counted = int(count(gradient, x, *rest, groups, [False, True, False], out_val=out))
    # Each weight is multiplied once per example and position of the output (or input).
    transposed = rest[5]
    positions = (x if transposed else gradient).shape[2:].numel()
    return counted - 2 * int(rest[0].numel()) * int(x.shape[0]) * int(positions)


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


# Kernels that PyTorch's own counter does not know, by its conventions.
_flash = aten._scaled_dot_product_flash_attention
_FORMULAS: dict[object, Formula] = {
    aten.linear: _linear,  # a kernel of its own for nested tensors and on MPS
    aten.linear_backward: _linear_backward,
    aten.mkldnn_rnn_layer: _recurrent_layer,
    aten.mkldnn_rnn_layer_backward: _backward(_recurrent_layer),
    aten._cudnn_rnn: _recurrent,
    aten._cudnn_rnn_backward: _backward(_recurrent),
    aten._native_multi_head_attention: _attention,
    aten._transformer_encoder_layer_fwd: _encoder_layer,
    aten._scaled_dot_product_flash_attention_for_cpu: flop_registry[_flash],
    aten._scaled_dot_product_flash_attention_for_cpu_backward: flop_registry[
        aten._scaled_dot_product_flash_attention_backward
    ],
}
