"""The wide VGG9 of De Lange et al. (2021), made for Tiny ImageNet, with BatchNorm."""

from __future__ import annotations

from math import inf
from numbers import Real

from torch import nn

from ..record import InputError
from ._check import check_fraction, check_integer, check_min_side, check_shape

__all__ = ["wide_vgg9"]

POOL = 0  # stands for 2x2 max pooling
CONVOLUTIONS = (64, POOL, 128, POOL, 256, 256, POOL, 512, 512, POOL)
DENSE_UNITS = 512


def wide_vgg9(
    shape: tuple[int, int, int], outputs: int, *, width: float = 1.0, dropout: float = 0.0
) -> nn.Module:
    """Return six convolutions, each with BatchNorm and ReLU, and three dense layers.

    Convolutions are 3x3 with a bias and a padding of one pixel. For 64x64 images the dense layers
    are 8192-512-512-outputs. PyTorch's default initialization is used, whereas the survey's code
    initializes like torchvision's VGG.

    Args:
        shape: channels, height and width of the images.
        outputs: the number of classes.
        width: the factor of the size of every hidden layer; 1 is the paper's.
        dropout: the dropout rate after each hidden dense layer.

    Example:
        >>> network = wide_vgg9((3, 64, 64), 200)
        >>> [layer for layer in network if isinstance(layer, nn.Linear)][0]
        Linear(in_features=8192, out_features=512, bias=True)
    """
    channels, height, across = shape = check_shape(shape)
    check_min_side("wide-vgg9", shape, 16)
    factor, rate = _check_width(width), check_fraction("wide-vgg9: dropout", dropout)
    layers: list[nn.Module] = []
    for size in CONVOLUTIONS:
        if size == POOL:
            layers.append(nn.MaxPool2d(2))
            continue
        size = _scale(size, factor)
        layers += [
            nn.Conv2d(channels, size, 3, padding=1),
            nn.BatchNorm2d(size),
            nn.ReLU(inplace=True),
        ]
        channels = size
    dense = _scale(DENSE_UNITS, factor)
    layers += [nn.Flatten(), nn.Linear(channels * (height // 16) * (across // 16), dense)]
    layers += [
        nn.ReLU(inplace=True),
        nn.Dropout(rate),
        nn.Linear(dense, dense),
        nn.ReLU(inplace=True),
        nn.Dropout(rate),
    ]
    return nn.Sequential(*layers, nn.Linear(dense, check_integer("outputs", outputs)))


def _check_width(width: float) -> float:
    if isinstance(width, bool) or not isinstance(width, Real) or not 0 < width < inf:
        raise InputError(
            f"wide-vgg9: width is {width!r}, expected a number above 0; 1 is the paper's"
        )
    return float(width)


def _scale(size: int, factor: float) -> int:
    return max(1, round(size * factor))
