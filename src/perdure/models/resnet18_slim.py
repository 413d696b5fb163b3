"""The reduced ResNet-18 of GEM (Lopez-Paz & Ranzato 2017)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import relu

from ._check import check_integer, check_shape

__all__ = ["resnet18_slim"]


def resnet18_slim(shape: tuple[int, int, int], outputs: int, *, filters: int = 20) -> nn.Module:
    """Return a ResNet-18 with 20 filters in the first stage instead of 64, and no max pooling.

    The first convolution is 3x3 with stride 1; no convolution has a bias. The last feature map is
    averaged over non-overlapping windows of 4x4, as in GEM's code. For 32x32 images this is a
    global average with 160 features. Larger images keep the windows, as in the code of De Lange et
    al. (2023): 640 features for 64x64 and for 84x84 (where three rows and columns at the border are
    in no window), 1440 for 96x96. Images below 32x32 have a single, smaller window. PyTorch's
    default initialization is used.

    Args:
        shape: channels, height and width of the images.
        outputs: the number of classes.
        filters: the number of filters in the first stage.

    Example:
        >>> resnet18_slim((3, 32, 32), 10).linear
        Linear(in_features=160, out_features=10, bias=True)
        >>> resnet18_slim((3, 84, 84), 100).linear
        Linear(in_features=640, out_features=100, bias=True)
    """
    return _ResNet(
        check_shape(shape),
        check_integer("outputs", outputs),
        check_integer("resnet18-slim: filters", filters),
    )


class _ResNet(nn.Module):
    def __init__(self, shape: tuple[int, int, int], outputs: int, filters: int) -> None:
        super().__init__()
        channels, *sides = shape
        self.conv = nn.Conv2d(channels, filters, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(filters)
        self.blocks = nn.Sequential(
            _ResidualBlock(filters, filters, stride=1),
            _ResidualBlock(filters, filters, stride=1),
            _ResidualBlock(filters, 2 * filters, stride=2),
            _ResidualBlock(2 * filters, 2 * filters, stride=1),
            _ResidualBlock(2 * filters, 4 * filters, stride=2),
            _ResidualBlock(4 * filters, 4 * filters, stride=1),
            _ResidualBlock(4 * filters, 8 * filters, stride=2),
            _ResidualBlock(8 * filters, 8 * filters, stride=1),
        )
        height, width = ((side + 7) // 8 for side in sides)  # halved three times, rounded up
        window = min(4, height), min(4, width)
        self.pool = nn.AvgPool2d(window)
        features = 8 * filters * (height // window[0]) * (width // window[1])
        self.linear = nn.Linear(features, outputs)

    def forward(self, x: Tensor) -> Tensor:
        x = relu(self.norm(self.conv(x)))
        x = self.pool(self.blocks(x))
        scores: Tensor = self.linear(torch.flatten(x, 1))
        return scores


class _ResidualBlock(nn.Module):
    """Two convolutions with a shortcut, which is a 1x1 convolution if the shape changes."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.shortcut.append(nn.Conv2d(inputs, outputs, 1, stride, bias=False))
            self.shortcut.append(nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        out = relu(self.norm1(self.conv1(x)))
        out = self.norm2(self.conv2(out))
        return relu(out + self.shortcut(x))
