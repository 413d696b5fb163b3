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

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["random_states", "restore", "untouched"]


@contextmanager
def untouched(model: object) -> Iterator[None]:
    """Hold `model` in evaluation mode without gradients, then put back all that may have changed.

    Put back are the random states of Python, NumPy and PyTorch (CPU and CUDA), each module's
    mode, and buffers. Autocast is off inside, and compiled models run uncompiled: compiling for
    other shapes or modes could change what the training step compiles to.
    """
    modules = list(model.modules()) if isinstance(model, nn.Module) else []
    training = [module for module in modules if module.training]
    states = random_states()
    buffers = [
        (module, name, buffer, buffer._version, buffer.clone())
        for module in modules
        for name, buffer in module._buffers.items()
        if buffer is not None
    ]
    try:
        for module in training:
            module.training = False  # not eval(): a module may do more in its own train()
        with torch.no_grad(), _plain():
            yield
    finally:
        for module in training:
            module.training = True
        for module, name, buffer, version, value in buffers:
            module._buffers[name] = buffer
            if buffer._version != version:
                with torch.no_grad():
                    buffer.copy_(value)
        restore(states)


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


def random_states() -> tuple[Any, ...]:
    """Return the states of every global generator."""
    used = torch.cuda.is_initialized()
    cuda = torch.cuda.get_rng_state_all() if used else None
    return random.getstate(), np.random.get_state(), torch.get_rng_state(), cuda  # noqa: NPY002


def restore(states: tuple[Any, ...]) -> None:
    """Put back what `random_states` returned."""
    python, numpy, cpu, cuda = states
    random.setstate(python)
    np.random.set_state(numpy)  # noqa: NPY002
    torch.set_rng_state(cpu)
    if cuda is not None:
        torch.cuda.set_rng_state_all(cuda)
