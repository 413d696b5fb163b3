"""Starting again from scratch."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

__all__ = ["initial_state", "restart"]

SEEN = ("unseen", "opened")  # a Network's buffers: which classes came up is not learned


def initial_state(model: nn.Module) -> dict[str, Tensor]:
    """Return a copy of a model's weights and buffers, without which classes it has seen."""
    return {
        name: value.detach().clone()
        for name, value in model.state_dict().items()
        if name not in SEEN
    }


def restart(model: nn.Module, optimizer: torch.optim.Optimizer, state: dict[str, Tensor]) -> None:
    """Put `state` back into a model, in place, and let the optimizer forget."""
    model.load_state_dict({**model.state_dict(), **state})
    optimizer.state.clear()
