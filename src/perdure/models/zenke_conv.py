"""The convolutional network of Zenke et al. (2017), Appendix A."""

from __future__ import annotations

from torch import nn

from ._check import fraction, image, least_side, whole

__all__ = ["zenke_conv"]


def zenke_conv(shape: tuple[int, int, int], outputs: int, *, dropout: float = 0.5) -> nn.Module:
    """Return four convolutions and two dense layers, with dropout between.

    `dropout` is the share of the 512 dense units dropped; after each pooling half of it is, which
    makes the paper's .5 and .25. The paper does not say how images are padded. Its code pads the
    first convolution of each pair by one pixel and the second not at all, so 32x32 becomes 30x30,
    15x15, 13x13 and at last 6x6. Initialisation is PyTorch's own; theirs is that of Keras, with
    zeros in the last layer.

    Example:
        >>> zenke_conv((3, 32, 32), 10)[13]
        Linear(in_features=2304, out_features=512, bias=True)
    """
    channels, height, width = shape = image(shape)
    least_side("zenke-conv", shape, 10)
    share = fraction("zenke-conv: dropout", dropout)
    left = _left(height) * _left(width)
    return nn.Sequential(
        nn.Conv2d(channels, 32, 3, padding=1),
        nn.ReLU(inplace=True),
        nn.Conv2d(32, 32, 3),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Dropout(share / 2),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(inplace=True),
        nn.Conv2d(64, 64, 3),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Dropout(share / 2),
        nn.Flatten(),
        nn.Linear(64 * left, 512),
        nn.ReLU(inplace=True),
        nn.Dropout(share),
        nn.Linear(512, whole("outputs", outputs)),
    )


def _left(side: int) -> int:
    """Return what is left of a side: twice, an unpadded 3x3 takes two pixels, a pooling half."""
    return ((side - 2) // 2 - 2) // 2
