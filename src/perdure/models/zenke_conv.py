"""The convolutional network of Zenke et al. (2017), Appendix A."""

from __future__ import annotations

from torch import nn

from ._check import check_fraction, check_integer, check_min_side, check_shape

__all__ = ["zenke_conv"]


def zenke_conv(shape: tuple[int, int, int], outputs: int, *, dropout: float = 0.5) -> nn.Module:
    """Return four convolutions and two dense layers, with dropout between.

    The paper does not describe the padding. Its code pads the first convolution of each pair by one
    pixel and the second not at all, so that 32x32 becomes 30x30, 15x15, 13x13 and finally 6x6.
    PyTorch's default initialization is used; the authors use that of Keras, with zeros in the last
    layer.

    Args:
        shape: channels, height and width of the images.
        outputs: the number of classes.
        dropout: the dropout rate of the dense layer; it is half of this after each pooling, as in
            the paper with .5 and .25.

    Example:
        >>> zenke_conv((3, 32, 32), 10)[13]
        Linear(in_features=2304, out_features=512, bias=True)
    """
    channels, height, width = shape = check_shape(shape)
    check_min_side("zenke-conv", shape, 10)
    rate = check_fraction("zenke-conv: dropout", dropout)
    positions = _final_side(height) * _final_side(width)
    return nn.Sequential(
        nn.Conv2d(channels, 32, 3, padding=1),
        nn.ReLU(inplace=True),
        nn.Conv2d(32, 32, 3),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Dropout(rate / 2),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(inplace=True),
        nn.Conv2d(64, 64, 3),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Dropout(rate / 2),
        nn.Flatten(),
        nn.Linear(64 * positions, 512),
        nn.ReLU(inplace=True),
        nn.Dropout(rate),
        nn.Linear(512, check_integer("outputs", outputs)),
    )


def _final_side(side: int) -> int:
    """Return the side after two unpadded 3x3 convolutions, each followed by pooling."""
    return ((side - 2) // 2 - 2) // 2
