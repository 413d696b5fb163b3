"""Restoring a model and every random state bit for bit.

Private parts of PyTorch are used where there is no public way: `_parameters`, `_buffers` and
`_version` of modules and tensors, the cache of `parametrize`, and one function of the autograd
engine. tests/test_private_torch.py fails when one of them is gone.
"""
# ruff: noqa: SLF001 - see above

from __future__ import annotations

import sys
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.nn.utils import parametrize

from .model_parts import CombinedModel
from .random_states import RandomStates
from .reachable import preserve_generators
from .tensors import copy_into

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["has_lazy_parameters", "preserve_rng_and_buffers", "preserve_state"]


@contextmanager
def preserve_state(model: object) -> Iterator[None]:
    """Put `model` into evaluation mode without gradients, and restore everything at the end.

    Restored are the random states of Python, NumPy and PyTorch (CPU and CUDA) and of generators
    that the model refers to, the mode and the buffers of each module, gradients and
    `requires_grad`. Autocast is off inside, and compiled models run uncompiled: compiling for
    other shapes or modes could change what the training step compiles to.
    """
    modules = list(model.modules()) if isinstance(model, nn.Module) else []
    modes = [(module, module.training) for module in modules]
    parameters = [p for module in modules for p in module._parameters.values() if p is not None]
    gradients = [(p, p.requires_grad, p.grad) for p in parameters]
    try:
        for module in modules:
            module.training = False  # not eval(), which a module may have overridden
        for parameter, _, gradient in gradients:
            if gradient is not None and _can_be_restored(gradient, parameter):
                parameter.grad = None  # a score may call backward
        with (
            preserve_generators(model.generators if isinstance(model, CombinedModel) else ()),
            preserve_rng_and_buffers(modules),
            torch.no_grad(),
            _eager_full_precision(parameters),
        ):
            yield
    finally:
        for module, mode in modes:
            module.training = mode
        for parameter, flag, gradient in gradients:
            if parameter.requires_grad != flag:
                parameter.requires_grad_(flag)
            if parameter.grad is not gradient:
                parameter.grad = gradient


def has_lazy_parameters(model: object) -> bool:
    """Return whether a model has lazy parameters, which its first forward pass initialises."""
    return isinstance(model, nn.Module) and any(is_lazy(p) for p in model.parameters())


@contextmanager
def preserve_rng_and_buffers(modules: Sequence[nn.Module]) -> Iterator[None]:
    """Restore random states and buffers at the end."""
    buffers = [(module._buffers, dict(module._buffers)) for module in modules]
    tensors = [b for _, before in buffers for b in before.values() if b is not None]
    tensors += [  # an embedding with max_norm writes to its weight, also without gradients
        module.weight
        for module in modules
        if isinstance(module, nn.Embedding | nn.EmbeddingBag) and module.max_norm is not None
    ]
    values = [(tensor, tensor.detach().clone()) for tensor in tensors]
    versions = [None if tensor.is_inference() else tensor._version for tensor in tensors]
    random_states = RandomStates()
    try:
        yield
    finally:
        random_states.restore()
        for now, before in buffers:
            now.clear()
            now.update(before)
        for (tensor, value), version in zip(values, versions, strict=True):
            copy_into(tensor.data, value)
            if version is not None and tensor._version != version:
                _set_version(tensor, version)


def _set_version(tensor: Tensor, version: int) -> None:
    """Hide that a tensor was written to: a graph that awaits its backward may have saved it."""
    set_version: Any = torch._C._autograd._unsafe_set_version_counter
    try:
        set_version((tensor,), (version,))
    except TypeError:  # PyTorch 2.6 took one tensor
        set_version(tensor, version)


def _can_be_restored(gradient: Tensor, parameter: Tensor) -> bool:
    """Return whether PyTorch would accept this gradient again: not if `.data` has grown."""
    return (gradient.shape, gradient.dtype, gradient.device) == (
        parameter.shape,
        parameter.dtype,
        parameter.device,
    )


@contextmanager
def _eager_full_precision(parameters: Sequence[Tensor]) -> Iterator[None]:
    """Switch off autocast, compilation and the caches of weights that training has filled."""
    with ExitStack() as stack:
        for device in ("cpu", "cuda", "mps"):
            if torch.is_autocast_enabled(device):
                stack.enter_context(torch.autocast(device, enabled=False))
        if _inside_autocast():
            # A forward with its own autocast would find the casts of the training step's weights,
            # and leave casts without gradients to it. Only parameters that require a gradient
            # are cached, and clearing the cache would change the rest of the step.
            for parameter in parameters:
                if parameter.is_leaf:
                    parameter.requires_grad = False
        if parametrize._cache_enabled:
            stack.enter_context(_no_parametrization_cache())
        if "torch._dynamo" in sys.modules:  # it is imported before anything is compiled
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        yield


def _inside_autocast() -> bool:
    """Return whether an autocast block, enabled or not, is open: it caches casts until it ends."""
    inside = torch.autocast_increment_nesting() > 1
    torch.autocast_decrement_nesting()
    return inside


@contextmanager
def _no_parametrization_cache() -> Iterator[None]:
    """Recompute parametrized weights, and keep those that training has cached."""
    before = parametrize._cache_enabled, parametrize._cache
    parametrize._cache_enabled, parametrize._cache = 0, {}
    try:
        yield
    finally:
        parametrize._cache_enabled, parametrize._cache = before
