"""How hard a step pulls towards the new and towards the old: L2 norms of two gradients."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from .state.preserve import preserve_rng_and_buffers

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["gradient_norm", "recorded_norms"]


def gradient_norm(term: Tensor | Iterable[Tensor | None], parameters: Sequence[Tensor]) -> float:
    """Return the L2 norm of the gradient of a loss term, or of gradients that are given.

    The graph stays, so that `backward` can follow, and nothing is written to `.grad`.

    Example:
        >>> weight = torch.tensor([3.0, 4.0], requires_grad=True)
        >>> gradient_norm(weight.square().sum() / 2, [weight]), weight.grad
        (5.0, None)
    """
    if isinstance(term, Tensor) and term.requires_grad and term.dim():
        raise ValueError(
            f"a loss term has shape {tuple(term.shape)}, expected one number: take its mean or sum"
        )
    if isinstance(term, Tensor) and term.requires_grad:
        wanted = [parameter for parameter in parameters if parameter.requires_grad]
        found: Iterable[Tensor | None] = torch.autograd.grad(
            term, wanted, retain_graph=True, allow_unused=True
        )
    elif isinstance(term, Tensor):
        found = [term] if term.dim() else []  # a loss that depends on nothing pulls nowhere
    else:
        found = term
    norms = [g.detach().double().norm() for g in found if g is not None]
    total = float(torch.stack(norms).norm()) if norms else 0.0
    if not isfinite(total):
        raise ValueError(f"the norm of a gradient is {total}, expected a finite number")
    return total


def recorded_norms(
    model: nn.Module, terms: Sequence[Tensor | Iterable[Tensor | None] | None]
) -> list[str]:
    """Return the norm of each term as it is recorded: empty for None."""
    parameters = list(model.parameters())
    with preserve_rng_and_buffers([*model.modules()]):  # a checkpointed forward runs again
        return ["" if term is None else repr(gradient_norm(term, parameters)) for term in terms]
