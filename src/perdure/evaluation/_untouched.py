"""Leaving a model, and everything random, bit for bit as it was."""
# ruff: noqa: SLF001 - version counters and buffers have no other way in

from __future__ import annotations

import random
import sys
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from torch.nn.parameter import is_lazy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["unborn", "unmoved", "untouched"]


@contextmanager
def untouched(model: object) -> Iterator[None]:
    """Hold `model` in evaluation mode without gradients, then put back all that may have changed.

    Put back are the random states of Python, NumPy and PyTorch (CPU and CUDA), each module's
    mode and buffers, gradients and `requires_grad`. Autocast is off inside, and compiled models
    run uncompiled: compiling for other shapes or modes could change what the training step
    compiles to.
    """
    modules = list(model.modules()) if isinstance(model, nn.Module) else []
    modes = [(module, module.training) for module in modules]
    parameters = [p for module in modules for p in module._parameters.values() if p is not None]
    gradients = [(p, p.requires_grad, p.grad) for p in parameters]
    try:
        for module in modules:
            module.training = False  # not eval(): a module may do more in its own train()
        for parameter, _, gradient in gradients:
            if gradient is not None:
                parameter.grad = None  # a score may use backward: not into the trainer's
        with unmoved(modules), torch.no_grad(), _plain():
            yield
    finally:
        for module, mode in modes:
            module.training = mode
        for parameter, flag, gradient in gradients:
            parameter.requires_grad_(flag)
            parameter.grad = gradient


def unborn(model: object) -> bool:
    """Return whether a model has lazy parameters, which its first forward draws."""
    return isinstance(model, nn.Module) and any(is_lazy(p) for p in model.parameters())


@contextmanager
def unmoved(modules: Sequence[nn.Module]) -> Iterator[None]:
    """Put back random states and buffers at the end."""
    states = _random_states()
    buffers = [(module._buffers, dict(module._buffers)) for module in modules]
    values = [(b, b.clone()) for _, mine in buffers for b in mine.values() if b is not None]
    values += [  # an embedding with a limit writes to its weight, also without gradients
        (module.weight, module.weight.detach().clone())
        for module in modules
        if isinstance(module, nn.Embedding | nn.EmbeddingBag) and module.max_norm is not None
    ]
    try:
        yield
    finally:
        for now, before in buffers:
            now.clear()
            now.update(before)
        for buffer, value in values:
            buffer.data.copy_(value)  # through .data: a graph that waits for backward may hold it
        _restore(states)


@contextmanager
def _plain() -> Iterator[None]:
    """Switch off autocast and compilation where they are on."""
    with ExitStack() as stack:
        for device in ("cpu", "cuda"):
            if torch.is_autocast_enabled(device):
                stack.enter_context(torch.autocast(device, enabled=False))
        if "torch._dynamo" in sys.modules:  # nothing is compiled before it is imported
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        yield


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
