"""Pulling weights back to where they were, each as hard as it matters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["add_to_gradients", "quadratic"]


@torch.no_grad()
def quadratic(
    weights: Sequence[Tensor], importance: Sequence[Tensor], anchor: Sequence[Tensor]
) -> tuple[Tensor, list[Tensor]]:
    """Return half the sum of importance x (weight - anchor)^2, and its gradient.

    Written out, since automatic differentiation would go over the weights twice as often.

    Example:
        >>> quadratic([torch.tensor([3.0])], [torch.tensor([2.0])], [torch.tensor([1.0])])
        (tensor(4.), [tensor([4.])])
    """
    drift = [weight - old for weight, old in zip(weights, anchor, strict=True)]
    pull = [much * far for much, far in zip(importance, drift, strict=True)]
    products = [torch.dot(p.flatten(), d.flatten()) for p, d in zip(pull, drift, strict=True)]
    return torch.stack(products).sum() / 2, pull


def add_to_gradients(weights: Sequence[Tensor], pull: Sequence[Tensor], strength: float) -> None:
    """Add strength x pull to the gradients that there are.

    A weight without a gradient took no part in the step, the head of an earlier task say: it has
    not moved since its task, nothing pulls it, and it is to stay without a gradient.
    """
    for weight, each in zip(weights, pull, strict=True):
        if weight.grad is not None:
            weight.grad.add_(each, alpha=strength)
