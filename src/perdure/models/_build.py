"""From a name to a network: call its factory, take the last layer off as head."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from ..evaluation.state.preserve import has_lazy_parameters, preserve_state
from ..record import InputError
from ._check import image, one_line, whole, wholes
from ._factory import call_factory, find_factory
from .network import Network

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["build"]


def build(
    name: str,
    shape: tuple[int, int, int],
    outputs: int,
    *,
    heads: Sequence[int] | None = None,
    mask_unseen: bool = False,
    **options: Any,
) -> Network:
    """Return the network of that name for images of `shape` (channels, height, width).

    `name` is one of `MODELS`, or "module:factory" for one of yours, call_factory as
    `factory(shape, outputs, **options)`. Its last `nn.Linear` becomes the head. With `heads`, the
    number of classes of each task, every task gets a head of its own, with the rows that the
    factory drew for its classes: one head or many, training begins with the same weights.
    Weights are drawn from PyTorch's global generator, so seed it before.

    Example:
        >>> network = build("mlp", (1, 28, 28), 10, heads=[2, 2, 2, 2, 2], hidden=[100])
        >>> network.head[0]
        Linear(in_features=100, out_features=2, bias=True)
        >>> network(torch.zeros(3, 1, 28, 28), 4).shape
        torch.Size([3, 10])
    """
    shape, outputs = image(shape), whole("outputs", outputs)
    sizes = None if heads is None else wholes("heads", heads)
    if sizes is not None and sum(sizes) != outputs:
        raise InputError(
            f"heads is {list(sizes)}, {sum(sizes)} classes in all, expected {outputs}: the outputs"
        )
    network = call_factory(find_factory(name), name, shape, outputs, options)
    _check_scores(network, name, shape, outputs)
    body, head = _taken_apart(network, shape, outputs)
    if sizes is None:
        return Network(body, head, outputs, mask_unseen=mask_unseen)
    if not isinstance(head, nn.Linear):
        raise InputError(
            f"model {name!r} does not end in an nn.Linear with {outputs} outputs, expected for"
            " heads of their own for each task; end it so, or use one head"
        )
    return Network(body, _split(head, sizes), outputs, mask_unseen=mask_unseen)


def _examples(network: nn.Module, shape: tuple[int, int, int]) -> Tensor:
    """Return two images drawn without touching the global generator."""
    images = torch.rand(2, *shape, generator=torch.Generator().manual_seed(0), device="cpu")
    like: Tensor = next(network.parameters(), images)
    return images.to(like.device, like.dtype)


def _check_scores(network: nn.Module, name: str, shape: tuple[int, int, int], outputs: int) -> None:
    """Raise unless the network gives a score for each example and class."""
    examples = _examples(network, shape)
    try:
        if has_lazy_parameters(
            network
        ):  # the first forward draws lazy weights: part of the initialisation
            with torch.no_grad():
                network.eval()(examples)
            network.train()
        with preserve_state(network):
            scores = network(examples)
    except Exception as error:
        raise InputError(
            f"model {name!r} fails for images of {shape}: {one_line(error)}"
        ) from error
    expected = f"expected a tensor of (2, {outputs}): a score for each class"
    if not isinstance(scores, Tensor):
        raise InputError(f"model {name!r} gives {type(scores).__name__} for two images, {expected}")
    if scores.shape != (2, outputs):
        raise InputError(f"model {name!r} gives {tuple(scores.shape)} for two images, {expected}")


class _StandIn(nn.Module):
    """Gives known scores, of both signs, in place of a layer."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.scores = 100 * torch.randn(2, outputs, generator=generator, device="cpu")

    def forward(self, features: Tensor) -> Tensor:
        return self.scores.to(features)


def _taken_apart(
    network: nn.Module, shape: tuple[int, int, int], outputs: int
) -> tuple[nn.Module, nn.Module]:
    """Return body and head; where the last operation is not an `nn.Linear` the head does nothing.

    What the last layer gives must be what the network gives: this is tried with known scores in
    its place, which an activation or a scale after it would change.
    """
    found = [
        (path, part)
        for path, part in network.named_modules()
        if type(part) is nn.Linear and part.out_features == outputs
    ]
    if not found or not found[-1][0]:
        return network, nn.Identity()
    path, head = found[-1]
    above, _, name = path.rpartition(".")
    parent, stand_in = network.get_submodule(above), _StandIn(outputs)
    examples = _examples(network, shape)
    try:
        with preserve_state(network):
            expected = network(examples)
            setattr(parent, name, stand_in)
            known = network(examples)
            setattr(parent, name, nn.Identity())
            features = network(examples)
            is_last = torch.equal(known, stand_in.scores.to(known))  # nothing follows
            miss = (head(features) - expected).norm()  # some devices round at random
            is_last &= bool(miss <= 1e-4 * expected.norm())  # nor was it used before
    except Exception:  # a forward that reads the layer's weights, say: it cannot be taken off
        is_last = False
    if is_last:
        return network, head
    setattr(parent, name, head)
    return network, nn.Identity()


def _split(head: nn.Linear, sizes: Sequence[int]) -> nn.ModuleList:
    """Return a layer for each task, with its rows of `head`; nothing is drawn."""
    rows = {key: value.split(list(sizes)) for key, value in head.state_dict().items()}
    parts = nn.ModuleList()
    for task, size in enumerate(sizes):
        part = nn.utils.skip_init(
            nn.Linear,
            head.in_features,
            size,
            bias=head.bias is not None,
            device=head.weight.device,
            dtype=head.weight.dtype,
        )
        part.load_state_dict({key: values[task] for key, values in rows.items()})
        parts.append(part)
    return parts
