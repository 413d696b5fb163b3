"""EfficientNet-b1 (Tan & Le 2019), as torchvision builds it."""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import silu

from ._check import fraction, image, whole

__all__ = ["efficientnet_b1"]


class Stage(NamedTuple):
    """Blocks in a row; the first may halve the image and changes the number of channels."""

    expand: int
    kernel: int
    stride: int
    channels: int
    blocks: int


STAGES = (  # Table 1 of the paper; depth 1.1 makes 1, 2, 2, 3, 3, 4, 1 blocks of b0 into these
    Stage(1, 3, 1, 16, 2),
    Stage(6, 3, 2, 24, 3),
    Stage(6, 5, 2, 40, 3),
    Stage(6, 3, 2, 80, 4),
    Stage(6, 5, 1, 112, 4),
    Stage(6, 5, 2, 192, 5),
    Stage(6, 3, 1, 320, 2),
)
FIRST, LAST = 32, 1280


def efficientnet_b1(
    shape: tuple[int, int, int],
    outputs: int,
    *,
    dropout: float = 0.2,
    stochastic_depth: float = 0.2,
) -> nn.Module:
    """Return EfficientNet-b1: inverted bottlenecks with squeeze-excitation and SiLU.

    `dropout` acts before the last layer. `stochastic_depth` is the share of examples that skip a
    block: it grows evenly from 0 at the first block. Tensors come in torchvision's order with its
    shapes, so weights can be copied by position, and one seed draws the same ones in both.

    Example:
        >>> network = efficientnet_b1((3, 240, 240), 1000)
        >>> sum(p.numel() for p in network.parameters())
        7794184
    """
    share = fraction("efficientnet-b1: dropout", dropout)
    skipped = fraction("efficientnet-b1: stochastic_depth", stochastic_depth)
    return _EfficientNet(image(shape)[0], whole("outputs", outputs), share, skipped)


class _EfficientNet(nn.Module):
    def __init__(self, channels: int, outputs: int, dropout: float, skipped: float) -> None:
        super().__init__()
        layers = [_convolution(channels, FIRST, 3, stride=2)]
        width, before, total = FIRST, 0, sum(stage.blocks for stage in STAGES)
        for stage in STAGES:
            blocks = []
            for k in range(stage.blocks):
                stride = stage.stride if k == 0 else 1
                blocks.append(_Block(width, stage, stride, skipped * before / total))
                width, before = stage.channels, before + 1
            layers.append(nn.Sequential(*blocks))
        layers.append(_convolution(width, LAST, 1))
        self.features = nn.Sequential(*layers)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.dropout = nn.Dropout(dropout)
        self.linear = nn.Linear(LAST, outputs)
        self.apply(_initialise)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(self.features(x))
        scores: Tensor = self.linear(self.dropout(torch.flatten(x, 1)))
        return scores


class _Block(nn.Module):
    """An inverted bottleneck: expand, convolve each channel by itself, weigh channels, project."""

    def __init__(self, inputs: int, stage: Stage, stride: int, skipped: float) -> None:
        super().__init__()
        inside, outputs = inputs * stage.expand, stage.channels
        layers: list[nn.Module] = [] if stage.expand == 1 else [_convolution(inputs, inside, 1)]
        self.layers = nn.Sequential(
            *layers,
            _convolution(inside, inside, stage.kernel, stride, groups=inside),
            _Squeeze(inside, inputs // 4),
            _convolution(inside, outputs, 1, activation=False),
        )
        self.has_shortcut = stride == 1 and inputs == outputs
        self.skipped = skipped

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layers(x)
        if not self.has_shortcut:
            return out
        if self.training and self.skipped:
            kept = out.new_empty(len(out), 1, 1, 1).bernoulli_(1 - self.skipped)
            out = out * (kept / (1 - self.skipped))
        return out + x


class _Squeeze(nn.Module):
    """Squeeze-excitation: each channel times a weight from the averages of all channels."""

    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        self.down = nn.Conv2d(channels, squeezed, 1)
        self.up = nn.Conv2d(squeezed, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        average = x.mean((2, 3), keepdim=True)
        weight: Tensor = self.up(silu(self.down(average))).sigmoid()
        return x * weight


def _convolution(
    inputs: int,
    outputs: int,
    kernel: int,
    stride: int = 1,
    *,
    groups: int = 1,
    activation: bool = True,
) -> nn.Sequential:
    """Return a convolution that keeps the size, but for its stride, with BatchNorm and SiLU."""
    padding = kernel // 2
    layers = nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, padding, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
    )
    return layers.append(nn.SiLU()) if activation else layers


def _initialise(layer: nn.Module) -> None:
    """Draw the weights as torchvision does."""
    if isinstance(layer, nn.Conv2d):
        nn.init.kaiming_normal_(layer.weight, mode="fan_out")
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)
    elif isinstance(layer, nn.Linear):
        bound = 1 / sqrt(layer.out_features)
        nn.init.uniform_(layer.weight, -bound, bound)
        nn.init.zeros_(layer.bias)
