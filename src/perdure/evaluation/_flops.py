"""Counting operations with PyTorch's formulas, and nothing else: no hooks on modules."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _pop_mode, _push_mode
from torch.utils.flop_counter import flop_registry

__all__ = ["Flops"]


class Flops(TorchDispatchMode):
    """Counts floating-point operations of matrix products, convolutions and attention.

    PyTorch's own FlopCounterMode registers hooks on every module as well, which compiled models
    warn of. `start` and `stop` may stand in different calls, with modes of others begun in
    between: a mode is taken out of the stack wherever it is.

    Example:
        >>> with Flops() as flops:
        ...     _ = torch.ones(2, 3) @ torch.ones(3, 4)
        >>> flops.total
        48
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.total: int = 0
        self._whole: set[Any] = set()  # operations that have no parts: not asked again

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:  # fmt: skip
        """Run an operation and count it."""
        del types
        kwargs = kwargs or {}
        if func in self._whole:
            return func(*args, **kwargs)
        formula = flop_registry.get(func._overloadpacket)  # noqa: SLF001
        if formula is None and func is not torch.ops.prim.device.default:
            with self:  # in inference mode an operation arrives whole: its parts are counted
                parts = func.decompose(*args, **kwargs)
                if parts is not NotImplemented:
                    return parts
            self._whole.add(func)
        out = func(*args, **kwargs)
        if formula is not None:
            self.total += int(formula(*args, **kwargs, out_val=out))
            if func is torch.ops.aten.convolution_backward.default:
                self.total -= _too_much(formula, args, out)
        return out

    def start(self) -> None:
        """Count from here on."""
        _push_mode(self)

    def stop(self) -> int:
        """Return what was counted, and leave every other mode as it is."""
        above: list[TorchDispatchMode] = []
        while (mode := _pop_mode()) is not self:
            above.append(mode)
        for mode in reversed(above):
            _push_mode(mode)
        return int(self.total)


def _too_much(formula: Any, args: tuple[Any, ...], out: Any) -> int:
    """Return by how much PyTorch counts too many: its gradient of weights knows no groups."""
    gradient, x, *rest, groups, wanted = args
    if groups == 1 or not wanted[1]:
        return 0
    counted = int(formula(gradient, x, *rest, groups, [False, True, False], out_val=out))
    # Each weight is multiplied once for every example and place of what comes out (or goes in).
    transposed = rest[5]
    places = (x if transposed else gradient).shape[2:].numel()
    return counted - 2 * int(rest[0].numel()) * int(x.shape[0]) * int(places)
