"""Quadratic penalties on changes of the weights, each weighted by its importance."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["add_penalty_gradient", "empty_buffers", "penalty_gradient"]


def empty_buffers(weights: Sequence[Tensor]) -> list[Tensor]:
    """Return a buffer per weight for intermediate results; allocating them per step is slower.

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
    buffers: Sequence[Tensor],
) -> None:
    """Add strength x importance x (weight - anchor) to the gradients of the weights.

    A weight without a gradient, such as the head of an earlier task, took no part in the step and
    is skipped. The gradient is written out because automatic differentiation would pass over the
    weights three times as often.

    Example:
        >>> weight = torch.tensor([3.0])
        >>> weight.grad = torch.tensor([1.0])
        >>> two, one = torch.tensor([2.0]), torch.tensor([1.0])
        >>> add_penalty_gradient([weight], [two], [one], 10, empty_buffers([weight]))
        >>> weight.grad
        tensor([41.])
    """
    for weight, factor, target, drift in zip(weights, importance, anchor, buffers, strict=True):
        if weight.grad is not None:
            torch.sub(weight, target, out=drift)
            weight.grad.addcmul_(factor, drift, value=strength)


@torch.no_grad()
def penalty_gradient(
    weights: Sequence[Tensor], importance: Sequence[Tensor], anchor: Sequence[Tensor]
) -> list[Tensor]:
    """Return importance x (weight - anchor) as new tensors; empty before the first task ends.

    Example:
        >>> penalty_gradient([torch.tensor([3.0])], [torch.tensor([2.0])], [torch.tensor([1.0])])
        [tensor([4.])]
    """
    triples = zip(weights, importance, anchor, strict=False)
    return [factor * (weight - target) for weight, factor, target in triples]
