"""Counting operations with PyTorch's formulas, and nothing else: no hooks on modules."""
# ruff: noqa: SLF001 - the dispatcher has no other way in

from __future__ import annotations

import os
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._python_dispatch import (
    TorchDispatchMode,
    _get_current_dispatch_mode_stack,
    _pop_mode,
    _push_mode,
)
from torch.utils._pytree import arg_tree_leaves

from .formulas import formula

__all__ = ["Flops"]

aten = torch.ops.aten
COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd
KERNELS = (  # kernels for every device, which PyTorch prefers to a composite
    "CompositeExplicitAutogradNonFunctional",
    "CompositeExplicitAutograd",
    "CompositeImplicitAutogradNestedTensor",
)
# Their gradients are computed by other formulas, to other bits, while any mode is active.
SENSITIVE = {
    aten.prod.default,
    aten.prod.dim_int,
    aten.cumprod.default,
    aten.masked_fill.Tensor,
    aten.masked_fill_.Tensor,
}


COUNTING: set[Flops] = set()  # started and not stopped


@cache
def _stop_in_children() -> None:
    """Have every process that is forked from here on drop the counters it inherits."""
    os.register_at_fork(after_in_child=_drop_counters)


def _drop_counters() -> None:
    for counter in list(COUNTING):
        counter.stop()


class Flops(TorchDispatchMode):
    """Counts floating-point operations of matrix products, convolutions and attention.

    What is computed stays bit for bit what it is without this mode. PyTorch's own FlopCounterMode
    replaces kernels by the sum of their parts, and registers hooks on every module, which compiled
    models warn of. `start` and `stop` may stand in different calls, with modes of others begun in
    between: a mode is taken out of the stack wherever it is.

    Example:
        >>> with Flops() as flops:
        ...     _ = torch.ones(2, 3) @ torch.ones(3, 4)
        >>> flops.total
        48
    """

    supports_higher_order_operators = True  # without it PyTorch refuses to run flex_attention

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.total: int = 0
        self.problem = ""  # why the total lacks something
        self._sensitive: Tensor | None = None

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:  # fmt: skip
        """Run an operation and count it."""
        kwargs = kwargs or {}
        self._spare()
        count = formula(getattr(func, "_overloadpacket", func))
        if count is None and not types and _runs_as_parts(func, args, kwargs):
            with self:  # in inference mode an operation arrives whole: its parts are counted
                return func._op_dk(COMPOSITE, *args, **kwargs)
        out = func(*args, **kwargs)
        if func in SENSITIVE:
            self._sensitive = out
        if count is not None:
            try:
                self._add(func, count, args, kwargs, out)
            except Exception as error:  # a formula that does not fit must not stop training
                self.problem = f"{func.name()}: {type(error).__name__}: {error}"
        return out

    def _add(self, func: Any, count: Any, args: Any, kwargs: Any, out: Any) -> None:
        self.total += int(count(*args, **kwargs, out_val=out))
        if func is aten.convolution_backward.default:
            self.total -= _too_much(count, args, out)

    def start(self) -> None:
        """Count from here on, in this process: what is forked meanwhile is not slowed down."""
        _stop_in_children()
        COUNTING.add(self)
        _push_mode(self)

    def stop(self) -> int:
        """Return what was counted, and leave every other mode as it is."""
        self._spare()
        COUNTING.discard(self)
        above: list[TorchDispatchMode] = []
        while (mode := _pop_mode()) is not self:
            above.append(mode)
        for mode in reversed(above):
            _push_mode(mode)
        return int(self.total)

    def _spare(self) -> None:
        """Have the gradient of the last sensitive operation computed without a counter."""
        if self._sensitive is not None:  # by now autograd has given it a node
            _without_counters(self._sensitive.grad_fn)
            self._sensitive = None


def _runs_as_parts(func: Any, args: Any, kwargs: Any) -> bool:
    """Return whether PyTorch has no kernel for an operation on these tensors, but a composite."""
    if not _is_composite(func):
        return False
    tensors = (leaf for leaf in arg_tree_leaves(*args, **kwargs) if isinstance(leaf, Tensor))
    has_kernel = partial(torch._C._dispatch_has_kernel_for_any_dispatch_key, func.name())
    backend = torch._C._after_autograd_keyset
    return not any(has_kernel(torch._C._dispatch_keys(tensor) & backend) for tensor in tensors)


@cache
def _is_composite(func: Any) -> bool:
    """Return whether an operation has a composite, and no kernel that serves every device."""
    if not isinstance(func, OpOverload) or not torch._C._dispatch_has_kernel(func.name()):
        return False  # higher-order operators, prim::device
    has = partial(torch._C._dispatch_has_kernel_for_dispatch_key, func.name())
    return has(COMPOSITE) and not any(map(has, KERNELS))


def _without_counters(node: Any) -> None:
    """Let autograd compute the gradients of a node with no counter active."""

    def before(_: Any) -> None:
        modes = _get_current_dispatch_mode_stack()
        if all(isinstance(mode, Flops) for mode in modes):  # a mode of the user's has its effect
            for _mode in modes:
                _pop_mode()  # autograd puts them back for the next node

    if node is not None:
        node.register_prehook(before)


def _too_much(count: Any, args: tuple[Any, ...], out: Any) -> int:
    """Return by how much PyTorch counts too many: its gradient of weights knows no groups."""
    gradient, x, *rest, groups, wanted = args
    if groups == 1 or not wanted[1]:
        return 0
    counted = int(count(gradient, x, *rest, groups, [False, True, False], out_val=out))
    # Each weight is multiplied once for every example and place of what comes out (or goes in).
    transposed = rest[5]
    places = (x if transposed else gradient).shape[2:].numel()
    return counted - 2 * int(rest[0].numel()) * int(x.shape[0]) * int(places)
