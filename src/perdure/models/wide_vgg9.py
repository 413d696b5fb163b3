"""The wide VGG9 of De Lange et al. (2021), made for Tiny ImageNet, with BatchNorm."""

from __future__ import annotations

from math import inf
from numbers import Real

from torch import nn

from ..record import InputError
from ._check import fraction, image, least_side, whole

__all__ = ["wide_vgg9"]

POOL = 0  # halves the image
LAYERS = (64, POOL, 128, POOL, 256, 256, POOL, 512, 512, POOL)
DENSE = 512


def wide_vgg9(
    shape: tuple[int, int, int], outputs: int, *, width: float = 1.0, dropout: float = 0.0
) -> nn.Module:
    """Return six convolutions, each with BatchNorm and ReLU, and three dense layers.

    Convolutions are 3x3, padded by one pixel and have a bias. At 64x64 the dense layers are
    8192-512-512-outputs. `width` scales every hidden layer, 1 is the paper's; `dropout` acts after
    each hidden dense layer, by default not at all. Initialisation is PyTorch's own; the survey's
    code draws as torchvision's VGG does.

    Example:
        >>> network = wide_vgg9((3, 64, 64), 200)
        >>> [layer for layer in network if isinstance(layer, nn.Linear)][0]
        Linear(in_features=8192, out_features=512, bias=True)
    """
    channels, height, across = shape = image(shape)
    least_side("wide-vgg9", shape, 16)
    factor, share = _factor(width), fraction("wide-vgg9: dropout", dropout)
    layers: list[nn.Module] = []
    for size in LAYERS:
        if size == POOL:
            layers.append(nn.MaxPool2d(2))
            continue
        size = _scaled(size, factor)
        layers += [
            nn.Conv2d(channels, size, 3, padding=1),
            nn.BatchNorm2d(size),
            nn.ReLU(inplace=True),
        ]
        channels = size
    dense = _scaled(DENSE, factor)
    layers += [nn.Flatten(), nn.Linear(channels * (height // 16) * (across // 16), dense)]
    layers += [
        nn.ReLU(inplace=True),
        nn.Dropout(share),
        nn.Linear(dense, dense),
        nn.ReLU(inplace=True),
        nn.Dropout(share),
    ]
    return nn.Sequential(*layers, nn.Linear(dense, whole("outputs", outputs)))


def _factor(width: float) -> float:
    if isinstance(width, bool) or not isinstance(width, Real) or not 0 < width < inf:
        raise InputError(
            f"wide-vgg9: width is {width!r}, expected a number above 0, 1 is the paper's"
        )
    return float(width)


def _scaled(size: int, factor: float) -> int:
    return max(1, round(size * factor))
