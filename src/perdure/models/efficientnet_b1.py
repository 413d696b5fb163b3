"""EfficientNet-b1 (Tan & Le 2019), as torchvision builds it."""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import silu

from ._check import check_fraction, check_integer, check_shape

__all__ = ["efficientnet_b1"]


class Stage(NamedTuple):
    """Consecutive blocks; the first may halve the image and changes the number of channels."""

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
STEM_CHANNELS, LAST_CHANNELS = 32, 1280


def efficientnet_b1(
    shape: tuple[int, int, int],
    outputs: int,
    *,
    dropout: float = 0.2,
    stochastic_depth: float = 0.2,
) -> nn.Module:
    """Return EfficientNet-b1: inverted bottlenecks with squeeze-excitation and SiLU.

    Parameters have torchvision's order and shapes, so that weights can be copied by position and a
    seed draws the same weights in both.

    Args:
        shape: channels, height and width of the images.
        outputs: the number of classes.
        dropout: the dropout rate before the last layer.
        stochastic_depth: the fraction of examples that skip the last block; it increases linearly
            from 0 at the first block.

    Example:
        >>> network = efficientnet_b1((3, 240, 240), 1000)
        >>> sum(p.numel() for p in network.parameters())
        7794184
    """
    return _EfficientNet(
        check_shape(shape)[0],
        check_integer("outputs", outputs),
        check_fraction("efficientnet-b1: dropout", dropout),
        check_fraction("efficientnet-b1: stochastic_depth", stochastic_depth),
    )


class _EfficientNet(nn.Module):
    def __init__(self, channels: int, outputs: int, dropout: float, skipped: float) -> None:
        super().__init__()
        layers = [_convolution(channels, STEM_CHANNELS, 3, stride=2)]
        width, before, total = STEM_CHANNELS, 0, sum(stage.blocks for stage in STAGES)
        for stage in STAGES:
            blocks = []
            for k in range(stage.blocks):
                stride = stage.stride if k == 0 else 1
                blocks.append(_InvertedBottleneck(width, stage, stride, skipped * before / total))
                width, before = stage.channels, before + 1
            layers.append(nn.Sequential(*blocks))
        layers.append(_convolution(width, LAST_CHANNELS, 1))
        self.features = nn.Sequential(*layers)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.dropout = nn.Dropout(dropout)
        self.linear = nn.Linear(LAST_CHANNELS, outputs)
        self.apply(_initialize)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(self.features(x))
        scores: Tensor = self.linear(self.dropout(torch.flatten(x, 1)))
        return scores


class _InvertedBottleneck(nn.Module):
    """Expands the channels, convolves each separately, weights them, and projects them back."""

    def __init__(self, inputs: int, stage: Stage, stride: int, skipped: float) -> None:
        super().__init__()
        inside, outputs = inputs * stage.expand, stage.channels
        layers: list[nn.Module] = [] if stage.expand == 1 else [_convolution(inputs, inside, 1)]
        self.layers = nn.Sequential(
            *layers,
            _convolution(inside, inside, stage.kernel, stride, groups=inside),
            _SqueezeExcitation(inside, inputs // 4),
            _convolution(inside, outputs, 1, activation=False),
        )
        self.has_shortcut = stride == 1 and inputs == outputs
        self.skipped = skipped

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layers(x)
        if not self.has_shortcut:
            return out
        if self.training and self.skipped:
            survives = out.new_empty(len(out), 1, 1, 1).bernoulli_(1 - self.skipped)
            out = out * (survives / (1 - self.skipped))
        return out + x


class _SqueezeExcitation(nn.Module):
    """Multiplies each channel by a weight computed from the averages of all channels."""

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
    """Return a padded convolution with BatchNorm and, by default, SiLU."""
    padding = kernel // 2
    layers = nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, padding, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
    )
    return layers.append(nn.SiLU()) if activation else layers


def _initialize(layer: nn.Module) -> None:
    """Initialize the weights as torchvision does."""
    if isinstance(layer, nn.Conv2d):
        nn.init.kaiming_normal_(layer.weight, mode="fan_out")
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)
    elif isinstance(layer, nn.Linear):
        bound = 1 / sqrt(layer.out_features)
        nn.init.uniform_(layer.weight, -bound, bound)
        nn.init.zeros_(layer.bias)
