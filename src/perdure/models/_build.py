"""Building a network: call its factory and separate the last layer as the head."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from ..evaluation.state.preserve import has_lazy_parameters, preserve_state
from ..record import InputError
from ._check import check_input_shape, check_integer, check_integers, format_error
from ._factory import call_factory, find_factory
from .network import Network

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["build"]

INPUT_SEED = 0  # of the random inputs that a new network is tried with


def build(
    name: str,
    shape: tuple[int, ...],
    outputs: int,
    *,
    heads: Sequence[int] | None = None,
    mask_unseen: bool = False,
    tokens: bool = False,
    **options: object,
) -> Network:
    """Return a network with its last `nn.Linear` as the head.

    Weights are drawn from PyTorch's global generator: seed it first. With one head per task, each
    head gets the rows that the factory drew for its classes, so that training starts from the same
    weights as with a shared head.

    Args:
        name: one of `MODELS`, or "module:factory" for your own, which is called as
            `factory(shape, outputs, **options)`.
        shape: channels, height and width of the images, or the number of features or tokens.
        outputs: the number of classes.
        heads: the number of classes of each task, for one head per task; None for a shared head.
        mask_unseen: hide the classes of tasks that were not opened yet.
        tokens: the inputs are tokens, whole numbers from 0.
        options: hyperparameters of the factory.

    Example:
        >>> network = build("mlp", (1, 28, 28), 10, heads=[2, 2, 2, 2, 2], hidden=[100])
        >>> network.head[0]
        Linear(in_features=100, out_features=2, bias=True)
        >>> network(torch.zeros(3, 1, 28, 28), 4).shape
        torch.Size([3, 10])
    """
    shape, outputs = check_input_shape(shape), check_integer("outputs", outputs)
    sizes = None if heads is None else check_integers("heads", heads)
    if sizes is not None and sum(sizes) != outputs:
        raise InputError(
            f"heads is {list(sizes)}, {sum(sizes)} classes in total, expected {outputs} outputs"
        )
    network = call_factory(find_factory(name), name, shape, outputs, options)
    examples = _make_inputs(network, shape, tokens=tokens)
    _check_scores(network, name, examples, outputs)
    body, head = _separate_head(network, examples, outputs)
    if sizes is None:
        return Network(body, head, outputs, mask_unseen=mask_unseen)
    if not isinstance(head, nn.Linear):
        raise InputError(
            f"model {name!r} does not end in an nn.Linear with {outputs} outputs, which one head"
            " per task requires; use another model, or a shared head"
        )
    return Network(body, _split_head(head, sizes), outputs, mask_unseen=mask_unseen)


def _make_inputs(network: nn.Module, shape: tuple[int, ...], *, tokens: bool) -> Tensor:
    """Return two random examples, without using the global generator."""
    images = torch.rand(
        2, *shape, generator=torch.Generator().manual_seed(INPUT_SEED), device="cpu"
    )
    like: Tensor = next(network.parameters(), images)
    if tokens:  # every vocabulary has the first token
        return torch.zeros(2, *shape, dtype=torch.int64, device=like.device)
    return images.to(like.device, like.dtype)


def _check_scores(network: nn.Module, name: str, examples: Tensor, outputs: int) -> None:
    """Raise unless the network returns one score per example and class."""
    try:
        if has_lazy_parameters(network):  # its first forward pass initializes it
            modes = [(module, module.training) for module in network.modules()]
            with torch.no_grad():
                network.eval()(examples)
            for module, mode in modes:  # a frozen part may be in evaluation mode
                module.training = mode
        with preserve_state(network):
            scores = network(examples)
    except Exception as error:
        raise InputError(
            f"model {name!r} fails for inputs of {tuple(examples.shape[1:])}: {format_error(error)}"
        ) from error
    expected = f"expected a tensor of (2, {outputs}): one score per class"
    if not isinstance(scores, Tensor):
        raise InputError(
            f"model {name!r} returns {type(scores).__name__} for two examples, {expected}"
        )
    if scores.shape != (2, outputs):
        raise InputError(
            f"model {name!r} returns {tuple(scores.shape)} for two examples, {expected}"
        )


class _StandIn(nn.Module):
    """Returns known scores of both signs in place of a layer."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(INPUT_SEED)
        self.scores = 100 * torch.randn(2, outputs, generator=generator, device="cpu")

    def forward(self, features: Tensor) -> Tensor:
        return self.scores.to(features)


def _separate_head(
    network: nn.Module, examples: Tensor, outputs: int
) -> tuple[nn.Module, nn.Module]:
    """Return body and head; the head is the identity if the last operation is not an `nn.Linear`.

    The output of the last layer must be the output of the network. This is tested with known scores
    in its place, which an activation or a scaling after it would change.
    """
    candidates = [
        (path, part)
        for path, part in network.named_modules()
        if type(part) is nn.Linear and part.out_features == outputs
    ]
    if not candidates or not candidates[-1][0]:
        return network, nn.Identity()
    path, head = candidates[-1]
    above, _, name = path.rpartition(".")
    parent, stand_in = network.get_submodule(above), _StandIn(outputs)
    try:
        with preserve_state(network):
            expected = network(examples)
            setattr(parent, name, stand_in)
            known = network(examples)
            setattr(parent, name, nn.Identity())
            features = network(examples)
            is_last = torch.equal(known, stand_in.scores.to(known))  # nothing follows it
            difference = (head(features) - expected).norm()  # not exact on every device
            is_last &= bool(difference <= 1e-4 * expected.norm())  # nor was it used before
    except Exception:  # the forward pass reads the layer's weights, for example
        is_last = False
    if is_last:
        return network, head
    setattr(parent, name, head)
    return network, nn.Identity()


def _split_head(head: nn.Linear, sizes: Sequence[int]) -> nn.ModuleList:
    """Return one layer per task with its rows of `head`, without drawing random numbers."""
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
