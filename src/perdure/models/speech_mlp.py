"""One wide hidden layer, for features of speech."""

from __future__ import annotations

from math import prod

from torch import nn

from ._check import image, whole

__all__ = ["speech_mlp"]


def speech_mlp(shape: tuple[int, int, int], outputs: int, *, hidden: int = 1024) -> nn.Module:
    """Return a network with one hidden layer of ReLU, 1024 by default.

    Cossu et al. (2021) feed it 40 Mel coefficients at 101 times, 4040 numbers in all. Any shape is
    flattened. Initialisation is PyTorch's own.

    Example:
        >>> speech_mlp((1, 101, 40), 2)[1]
        Linear(in_features=4040, out_features=1024, bias=True)
    """
    hidden = whole("speech-mlp: hidden", hidden)
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(prod(image(shape)), hidden),
        nn.ReLU(),
        nn.Linear(hidden, whole("outputs", outputs)),
    )
