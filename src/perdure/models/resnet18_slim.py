"""The reduced ResNet-18 of GEM (Lopez-Paz & Ranzato 2017)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import relu

from ._check import image, whole

__all__ = ["resnet18_slim"]


def resnet18_slim(shape: tuple[int, int, int], outputs: int, *, filters: int = 20) -> nn.Module:
    """Return a ResNet-18 with 20 filters in the first stage instead of 64, and no max pooling.

    The first convolution is 3x3 with stride 1, no convolution has a bias. At the end come averages
    over windows of 4x4 without overlap, as in GEM's code. At 32x32 that is one window, so a global
    average, and 160 features. At larger sizes we keep the windows as the code of De Lange et al.
    (2023) does: 640 features at 64x64 and at 84x84, where three rows and columns at the border are
    in no window, 1440 at 96x96. Below 32x32 the window is what is left of the image.
    Initialisation is PyTorch's own.

    Example:
        >>> resnet18_slim((3, 32, 32), 10).linear
        Linear(in_features=160, out_features=10, bias=True)
        >>> resnet18_slim((3, 84, 84), 100).linear
        Linear(in_features=640, out_features=100, bias=True)
    """
    return _ResNet(
        image(shape), whole("outputs", outputs), whole("resnet18-slim: filters", filters)
    )


class _ResNet(nn.Module):
    def __init__(self, shape: tuple[int, int, int], outputs: int, filters: int) -> None:
        super().__init__()
        channels, *sides = shape
        self.conv = nn.Conv2d(channels, filters, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(filters)
        self.blocks = nn.Sequential(
            _Block(filters, filters, stride=1),
            _Block(filters, filters, stride=1),
            _Block(filters, 2 * filters, stride=2),
            _Block(2 * filters, 2 * filters, stride=1),
            _Block(2 * filters, 4 * filters, stride=2),
            _Block(4 * filters, 4 * filters, stride=1),
            _Block(4 * filters, 8 * filters, stride=2),
            _Block(8 * filters, 8 * filters, stride=1),
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


class _Block(nn.Module):
    """Two convolutions and a shortcut around them, which is a 1x1 where the shape changes."""

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
