"""Leaving a model, and everything random, bit for bit as it was."""
# ruff: noqa: SLF001 - version counters, buffers and caches have no other way in

from __future__ import annotations

import random
import sys
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.nn.utils import parametrize

from .model_parts import Combined
from .reachable import keep_generators
from .tensors import write

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["has_lazy_parameters", "preserve_rng_and_buffers", "preserve_state"]


@contextmanager
def preserve_state(model: object) -> Iterator[None]:
    """Hold `model` in evaluation mode without gradients, then put back all that may have changed.

    Put back are the random states of Python, NumPy and PyTorch (CPU and CUDA) and of generators
    that the model refers to, each module's mode and buffers, gradients and `requires_grad`.
    Autocast is off inside, and compiled models run uncompiled: compiling for other shapes or modes
    could change what the training step compiles to.
    """
    modules = list(model.modules()) if isinstance(model, nn.Module) else []
    modes = [(module, module.training) for module in modules]
    parameters = [p for module in modules for p in module._parameters.values() if p is not None]
    gradients = [(p, p.requires_grad, p.grad) for p in parameters]
    try:
        for module in modules:
            module.training = False  # not eval(): a module may do more in its own train()
        for parameter, _, gradient in gradients:
            if gradient is not None and _fits(gradient, parameter):
                parameter.grad = None  # a score may use backward: not into the trainer's
        with (
            keep_generators(model.generators if isinstance(model, Combined) else ()),
            preserve_rng_and_buffers(modules),
            torch.no_grad(),
            _plain(parameters),
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
    """Return whether a model has lazy parameters, which its first forward draws."""
    return isinstance(model, nn.Module) and any(is_lazy(p) for p in model.parameters())


@contextmanager
def preserve_rng_and_buffers(modules: Sequence[nn.Module]) -> Iterator[None]:
    """Put back random states and buffers at the end."""
    states = _random_states()
    buffers = [(module._buffers, dict(module._buffers)) for module in modules]
    watched = [b for _, mine in buffers for b in mine.values() if b is not None]
    watched += [  # an embedding with a limit writes to its weight, also without gradients
        module.weight
        for module in modules
        if isinstance(module, nn.Embedding | nn.EmbeddingBag) and module.max_norm is not None
    ]
    values = [(tensor, tensor.detach().clone()) for tensor in watched]
    versions = [None if tensor.is_inference() else tensor._version for tensor in watched]
    try:
        yield
    finally:
        for now, before in buffers:
            now.clear()
            now.update(before)
        for (tensor, value), version in zip(values, versions, strict=True):
            write(tensor.data, value)
            if version is not None and tensor._version != version:
                _set_version(tensor, version)
        _restore(states)


def _set_version(tensor: Tensor, version: int) -> None:
    """Hide that a tensor was written to: a graph that waits for backward may hold it."""
    hide: Any = torch._C._autograd._unsafe_set_version_counter
    try:
        hide((tensor,), (version,))
    except TypeError:  # PyTorch 2.6 took one tensor
        hide(tensor, version)


def _fits(gradient: Tensor, parameter: Tensor) -> bool:
    """Return whether PyTorch would take this gradient again: not if `.data` has grown since."""
    return (gradient.shape, gradient.dtype, gradient.device) == (
        parameter.shape,
        parameter.dtype,
        parameter.device,
    )


@contextmanager
def _plain(parameters: Sequence[Tensor]) -> Iterator[None]:
    """Switch off autocast and compilation where they are on, and caches of weights of before."""
    with ExitStack() as stack:
        for device in ("cpu", "cuda"):
            if torch.is_autocast_enabled(device):
                stack.enter_context(torch.autocast(device, enabled=False))
        if _inside_autocast():
            # A forward with autocast of its own would find the casts of the training step's
            # weights, and leave casts without a gradient to it. Only parameters that require a
            # gradient are cached; clearing the cache would change the rest of the step.
            for parameter in parameters:
                if parameter.is_leaf:
                    parameter.requires_grad = False
        if parametrize._cache_enabled:
            stack.enter_context(_no_parametrization_cache())
        if "torch._dynamo" in sys.modules:  # nothing is compiled before it is imported
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        yield


def _inside_autocast() -> bool:
    """Return whether a block of autocast, on or off, is open: casts are cached until it ends."""
    inside = torch.autocast_increment_nesting() > 1
    torch.autocast_decrement_nesting()
    return inside


@contextmanager
def _no_parametrization_cache() -> Iterator[None]:
    """Compute parametrized weights anew, and leave those that training has cached to it."""
    before = parametrize._cache_enabled, parametrize._cache
    parametrize._cache_enabled, parametrize._cache = 0, {}
    try:
        yield
    finally:
        parametrize._cache_enabled, parametrize._cache = before


def _random_states() -> tuple[Any, ...]:
    """Return the states of every global generator."""
    used = torch.cuda.is_initialized()
    cuda = torch.cuda.get_rng_state_all() if used else None
    return random.getstate(), np.random.get_state(), torch.get_rng_state(), cuda  # noqa: NPY002


def _restore(states: tuple[Any, ...]) -> None:
    """Put back what `_random_states` returned."""
    python, numpy, cpu, cuda = states
    random.setstate(python)
    np.random.set_state(numpy)  # noqa: NPY002
    torch.set_rng_state(cpu)
    for device, state in enumerate(cuda or ()):
        # Setting a state, even to what it is, makes cuDNN draw other dropout for recurrent layers.
        if not torch.equal(torch.cuda.get_rng_state(device), state):
            torch.cuda.set_rng_state(state, device)
