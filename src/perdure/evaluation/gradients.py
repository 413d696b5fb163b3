"""L2 norms of the gradients of the plasticity and the stability term of a loss."""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from .._devices import widest_float
from .state.preserve import preserve_rng_and_buffers

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["LossTerm", "gradient_norm", "gradient_norms"]

LossTerm = Tensor | Iterable[Tensor | None] | None  # a loss, or gradients that are given


def gradient_norm(term: Tensor | Iterable[Tensor | None], parameters: Sequence[Tensor]) -> float:
    """Return the L2 norm of the gradient of a loss term, or of the given gradients.

    The autograd graph is retained, so that `backward` can follow, and `.grad` is not written to.

    Example:
        >>> weight = torch.tensor([3.0, 4.0], requires_grad=True)
        >>> gradient_norm(weight.square().sum() / 2, [weight]), weight.grad
        (5.0, None)
    """
    if isinstance(term, Tensor) and term.requires_grad and term.dim():
        raise ValueError(
            f"a loss term has shape {tuple(term.shape)}, expected one number: take its mean or sum"
        )
    gradients: Iterable[Tensor | None]
    if isinstance(term, Tensor) and term.requires_grad:
        trainable = [parameter for parameter in parameters if parameter.requires_grad]
        gradients = _gradients(term, trainable)
    elif isinstance(term, Tensor):
        gradients = [term] if term.dim() else []  # a constant loss has no gradient
    elif hasattr(term, "__iter__"):
        gradients = term
    else:
        raise TypeError(
            f"a loss term is {term!r:.40}, expected the loss itself as a tensor (before .item()), "
            "gradients, or None"
        )
    norms = [g.detach().to(widest_float(g.device)).norm() for g in gradients if g is not None]
    total = float(torch.stack(norms).norm()) if norms else 0.0
    if not isfinite(total):
        raise ValueError(f"the norm of a gradient is {total}, expected a finite number")
    return total


def _gradients(loss: Tensor, parameters: Sequence[Tensor]) -> tuple[Tensor | None, ...]:
    """Return the gradients of a loss whose graph `backward` has not freed yet."""
    try:
        return torch.autograd.grad(loss, parameters, retain_graph=True, allow_unused=True)
    except RuntimeError as error:
        if "second time" not in str(error):
            raise
        raise RuntimeError(
            "record_gradients is called after backward(), which has freed the graph of the loss; "
            "call it before backward(), or use backward(retain_graph=True)"
        ) from None


def gradient_norms(model: nn.Module, terms: Sequence[LossTerm]) -> list[str]:
    """Return the norm of each term as text for the record, empty for None."""
    parameters = list(model.parameters())
    with preserve_rng_and_buffers(
        [*model.modules()]
    ):  # activation checkpointing runs the forward again
        return ["" if term is None else repr(gradient_norm(term, parameters)) for term in terms]
