"""The optimizer of a run."""

from __future__ import annotations

import inspect
from functools import cache
from typing import TYPE_CHECKING, Any

import torch

from ..record import InputError

if TYPE_CHECKING:
    from ..models import Network
    from .config import RunConfig

__all__ = ["build_optimizer", "is_plain_sgd"]

CLASSES = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}


def build_optimizer(config: RunConfig, network: Network) -> torch.optim.Optimizer:
    """Return the optimizer of a config."""
    weights = [weight for weight in network.parameters() if weight.requires_grad]
    if not weights:
        raise InputError(
            f"model {config.model!r}: all parameters are frozen, expected some to train"
        )
    # Fused: one pass over the weights per step. Fused SGD fails if a weight has its first gradient
    # after others, as the next task's head has.
    fused = config.optimizer != "sgd" or network.opened is None
    kind = _without_compiler(config.optimizer)
    optimizer: torch.optim.Optimizer = kind(weights, **config.optimizer_options, fused=fused)
    return optimizer


def is_plain_sgd(optimizer: torch.optim.Optimizer) -> bool:
    """Return whether an optimizer is PyTorch's SGD, and not a class of its own."""
    return type(optimizer) in (torch.optim.SGD, _without_compiler("sgd"))


@cache
def _without_compiler(name: str) -> type[Any]:
    """Return an optimizer class that does the same without importing PyTorch's compiler.

    PyTorch wraps these methods in functions that import `torch._dynamo`, to exclude them from
    compilation; that takes as long as importing PyTorch.
    """
    kind: type[Any] = CLASSES[name]
    names = ("add_param_group", "zero_grad", "state_dict", "load_state_dict")
    methods: dict[str, Any] = {name: inspect.unwrap(getattr(kind, name)) for name in names}
    methods["step"] = torch.no_grad()(inspect.unwrap(kind.step))
    return type(kind.__name__, (kind,), methods)  # a subclass: PyTorch's own stays as it is
