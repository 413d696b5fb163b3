"""EfficientNet-b1 (Tan & Le 2019), as torchvision or the package efficientnet-pytorch builds it."""

from __future__ import annotations

from math import sqrt
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import silu

from .registry import INITIALIZATIONS, check_choice, check_integer, check_options, check_shape

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
IMAGE_SIZE = 240  # for which b1 was designed
PADDINGS = ("symmetric", "same")


class Options(NamedTuple):
    """How the layers are built; the defaults are torchvision's."""

    skipped: float = 0.2  # the fraction of examples that skip the last block
    momentum: float = 0.1  # of BatchNorm
    eps: float = 1e-5
    is_same: bool = False  # whether images are padded as TensorFlow does


def efficientnet_b1(
    shape: tuple[int, int, int],
    outputs: int,
    *,
    dropout: float = 0.2,
    stochastic_depth: float = 0.2,
    batch_norm_momentum: float = 0.1,
    batch_norm_eps: float = 1e-5,
    padding: Literal["symmetric", "same"] = "symmetric",
    initialization: Literal["torchvision", "pytorch"] = "torchvision",
) -> nn.Module:
    """Return EfficientNet-b1: inverted bottlenecks with squeeze-excitation and SiLU.

    Parameters have torchvision's order and shapes, so that weights can be copied by position and a
    seed draws the same weights in both. The package efficientnet-pytorch 0.7.1, which Faber et al.
    (2023) used without pretrained weights, is `batch_norm_momentum=0.01, batch_norm_eps=0.001,
    padding="same", initialization="pytorch"`.

    Args:
        shape: channels, height and width of the images.
        outputs: the number of classes.
        dropout: the dropout rate before the last layer.
        stochastic_depth: the fraction of examples that skip the last block; it increases linearly
            from 0 at the first block.
        batch_norm_momentum: how fast the running statistics of BatchNorm follow the batches.
        batch_norm_eps: the number added to variances in BatchNorm.
        padding: `symmetric`, half a kernel on each side, or `same`, as TensorFlow pads the layers
            of a network for 240x240 images, whatever the size of these.
        initialization: `torchvision`'s, or the default of the layers of `pytorch`.

    Example:
        >>> network = efficientnet_b1((3, 240, 240), 1000)
        >>> sum(p.numel() for p in network.parameters())
        7794184
    """
    check_options(
        "efficientnet-b1",
        {
            "dropout": dropout,
            "stochastic_depth": stochastic_depth,
            "batch_norm_momentum": batch_norm_momentum,
            "batch_norm_eps": batch_norm_eps,
        },
    )
    check_choice("padding", padding, PADDINGS)
    check_choice("initialization", initialization, INITIALIZATIONS)
    options = Options(
        stochastic_depth, batch_norm_momentum, batch_norm_eps, is_same=padding == "same"
    )
    network = _EfficientNet(
        check_shape(shape)[0], check_integer("outputs", outputs), dropout, options
    )
    return network.apply(_initialize) if initialization == "torchvision" else network


class _EfficientNet(nn.Module):
    def __init__(self, channels: int, outputs: int, dropout: float, options: Options) -> None:
        super().__init__()
        layers = [_convolution(options, channels, STEM_CHANNELS, 3, 2, IMAGE_SIZE)]
        width, before, total = STEM_CHANNELS, 0, sum(stage.blocks for stage in STAGES)
        size = IMAGE_SIZE // 2
        for stage in STAGES:
            blocks = []
            for k in range(stage.blocks):
                stride = stage.stride if k == 0 else 1
                share = options.skipped * before / total
                block_options = options._replace(skipped=share)
                blocks.append(_InvertedBottleneck(block_options, width, stage, stride, size))
                width, before, size = stage.channels, before + 1, -(-size // stride)
            layers.append(nn.Sequential(*blocks))
        layers.append(_convolution(options, width, LAST_CHANNELS, 1))
        self.features = nn.Sequential(*layers)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.dropout = nn.Dropout(dropout)
        self.linear = nn.Linear(LAST_CHANNELS, outputs)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(self.features(x))
        scores: Tensor = self.linear(self.dropout(torch.flatten(x, 1)))
        return scores


class _InvertedBottleneck(nn.Module):
    """Expands the channels, convolves each separately, weights them, and projects them back."""

    def __init__(self, options: Options, inputs: int, stage: Stage, stride: int, size: int) -> None:
        super().__init__()
        inside, outputs = inputs * stage.expand, stage.channels
        layers: list[nn.Module] = []
        if stage.expand > 1:
            layers.append(_convolution(options, inputs, inside, 1))
        self.layers = nn.Sequential(
            *layers,
            _convolution(options, inside, inside, stage.kernel, stride, size, groups=inside),
            _SqueezeExcitation(inside, inputs // 4),
            _convolution(options, inside, outputs, 1, activation=False),
        )
        self.has_shortcut = stride == 1 and inputs == outputs
        self.skipped = options.skipped

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
    options: Options,
    inputs: int,
    outputs: int,
    kernel: int,
    stride: int = 1,
    size: int = IMAGE_SIZE,
    *,
    groups: int = 1,
    activation: bool = True,
) -> nn.Sequential:
    """Return a padded convolution with BatchNorm and, by default, SiLU.

    `size` is the side of its input if the network sees 240x240 images.
    """
    before = after = kernel // 2
    if options.is_same:
        total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
        before, after = total // 2, total - total // 2
    padding = before if before == after else 0
    layers = nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, padding, groups=groups, bias=False),
        nn.BatchNorm2d(outputs, options.eps, options.momentum),
    )
    if before != after:
        layers.insert(0, nn.ZeroPad2d((before, after, before, after)))
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
