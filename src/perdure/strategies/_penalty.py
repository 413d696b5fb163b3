"""Pulling weights back to where they were, each as hard as it matters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["add_penalty_gradient", "empty_buffers", "penalty_gradient"]


def empty_buffers(weights: Sequence[Tensor]) -> list[Tensor]:
    """Return a tensor for each weight to work in: made once, since new ones take longer to get.

    Example:
        >>> empty_buffers([torch.ones(2, requires_grad=True)])
        [tensor([0., 0.])]
    """
    return [torch.zeros_like(weight.detach()) for weight in weights]


@torch.no_grad()
def add_penalty_gradient(
    weights: Sequence[Tensor],
    importance: Sequence[Tensor],
    anchor: Sequence[Tensor],
    strength: float,
    room: Sequence[Tensor],
) -> None:
    """Add strength x importance x (weight - anchor) to the gradients that there are.

    A weight without a gradient took no part in the step, the head of an earlier task say, and
    stays without one. Written out, since automatic differentiation
    would go over the weights three times as often; the penalty itself is never computed.

    Example:
        >>> weight = torch.tensor([3.0])
        >>> weight.grad = torch.tensor([1.0])
        >>> two, one = torch.tensor([2.0]), torch.tensor([1.0])
        >>> add_penalty_gradient([weight], [two], [one], strength=10, room=empty_buffers([weight]))
        >>> weight.grad
        tensor([41.])
    """
    for weight, each, old, drift in zip(weights, importance, anchor, room, strict=True):
        if weight.grad is not None:
            torch.sub(weight, old, out=drift)
            weight.grad.addcmul_(each, drift, value=strength)


@torch.no_grad()
def penalty_gradient(
    weights: Sequence[Tensor], importance: Sequence[Tensor], anchor: Sequence[Tensor]
) -> list[Tensor]:
    """Return importance x (weight - anchor), for who watches; nothing while nothing is important.

    Example:
        >>> penalty_gradient([torch.tensor([3.0])], [torch.tensor([2.0])], [torch.tensor([1.0])])
        [tensor([4.])]
    """
    found = zip(weights, importance, anchor, strict=False)
    return [each * (weight - old) for weight, each, old in found]
