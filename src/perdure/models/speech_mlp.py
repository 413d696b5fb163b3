"""A network with one wide hidden layer, for speech features."""

from __future__ import annotations

from math import prod

from torch import nn

from ._check import check_integer, check_shape

__all__ = ["speech_mlp"]


def speech_mlp(shape: tuple[int, int, int], outputs: int, *, hidden: int = 1024) -> nn.Module:
    """Return a network with one hidden layer of ReLU, 1024 by default.

    Cossu et al. (2021) use it with 40 Mel coefficients at 101 time steps, 4040 numbers in total.
    Inputs of any shape are flattened. PyTorch's default initialization is used.

    Example:
        >>> speech_mlp((1, 101, 40), 2)[1]
        Linear(in_features=4040, out_features=1024, bias=True)
    """
    hidden = check_integer("speech-mlp: hidden", hidden)
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(prod(check_shape(shape)), hidden),
        nn.ReLU(),
        nn.Linear(hidden, check_integer("outputs", outputs)),
    )
