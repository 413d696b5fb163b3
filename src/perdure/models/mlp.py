"""Fully connected layers with ReLU."""

from __future__ import annotations

from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING

from torch import nn

from ._check import check_input_shape, check_integer, check_integers

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["mlp", "speech_mlp"]


def mlp(
    shape: tuple[int, ...], outputs: int, *, hidden: int | str | Sequence[int] = (400, 400)
) -> nn.Sequential:
    """Return a network of dense layers, by default two hidden layers of 400 ReLU.

    Most papers use this network for variants of MNIST. PyTorch's default initialization is used.

    Args:
        shape: channels, height and width of the images, or the number of features.
        outputs: the number of classes.
        hidden: the sizes of the hidden layers, also as text: "400,400" or "400x400".

    Example:
        >>> mlp((1, 28, 28), 10, hidden="100,50")
        Sequential(
          (0): Flatten(start_dim=1, end_dim=-1)
          (1): Linear(in_features=784, out_features=100, bias=True)
          (2): ReLU(inplace=True)
          (3): Linear(in_features=100, out_features=50, bias=True)
          (4): ReLU(inplace=True)
          (5): Linear(in_features=50, out_features=10, bias=True)
        )
    """
    sizes = [prod(check_input_shape(shape)), *check_integers("mlp: hidden", hidden)]
    layers: list[nn.Module] = [nn.Flatten()]
    for size, following in pairwise(sizes):
        layers += [nn.Linear(size, following), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers, nn.Linear(sizes[-1], check_integer("outputs", outputs)))


def speech_mlp(shape: tuple[int, ...], outputs: int, *, hidden: int = 1024) -> nn.Sequential:
    """Return a network with one hidden layer of ReLU, 1024 by default.

    Cossu et al. (2021) use it with 40 Mel coefficients at 101 time steps, 4040 numbers in total.
    Inputs of any shape are flattened. PyTorch's default initialization is used.

    Example:
        >>> speech_mlp((1, 101, 40), 2)[1]
        Linear(in_features=4040, out_features=1024, bias=True)
    """
    return mlp(shape, outputs, hidden=check_integer("speech-mlp: hidden", hidden))
