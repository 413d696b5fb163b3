"""Networks of the papers, by their layers: dense ones, one for tokens, and convolutional ones."""

from __future__ import annotations

from itertools import pairwise
from math import inf, prod
from numbers import Real
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import relu

from ..record import InputError
from .registry import (
    INITIALIZATIONS,
    check_choice,
    check_fraction,
    check_input_shape,
    check_integer,
    check_integers,
    check_min_side,
    check_shape,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "EmbeddingBag",
    "embedding_bag",
    "mlp",
    "resnet18_slim",
    "speech_mlp",
    "wide_vgg9",
    "zenke_conv",
]

# The layers of wide-vgg9.
POOL = 0  # stands for 2x2 max pooling
CONVOLUTIONS = (64, POOL, 128, POOL, 256, 256, POOL, 512, 512, POOL)
DENSE_UNITS = 512


def mlp(
    shape: tuple[int, ...], outputs: int, *, hidden: int | str | Sequence[int] = (400, 400)
) -> nn.Sequential:
    """Return a network of dense layers, by default two hidden layers of 400 ReLU.

    Most papers use this network for variants of MNIST. PyTorch's default initialization is used.

    Args:
        shape: channels, height and width of the images, or the number of features.
        outputs: the number of classes.
        hidden: the sizes of the hidden layers, also as text: "400,400" or "400x400".

    Example:
        >>> mlp((1, 28, 28), 10, hidden="100,50")
        Sequential(
          (0): Flatten(start_dim=1, end_dim=-1)
          (1): Linear(in_features=784, out_features=100, bias=True)
          (2): ReLU(inplace=True)
          (3): Linear(in_features=100, out_features=50, bias=True)
          (4): ReLU(inplace=True)
          (5): Linear(in_features=50, out_features=10, bias=True)
        )
    """
    sizes = [prod(check_input_shape(shape)), *check_integers("mlp: hidden", hidden)]
    layers: list[nn.Module] = [nn.Flatten()]
    for size, following in pairwise(sizes):
        layers += [nn.Linear(size, following), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers, nn.Linear(sizes[-1], check_integer("outputs", outputs)))


def speech_mlp(shape: tuple[int, ...], outputs: int, *, hidden: int = 1024) -> nn.Sequential:
    """Return a network with one hidden layer of ReLU, 1024 by default.

    Cossu et al. (2021) use it with 40 Mel coefficients at 101 time steps, 4040 numbers in total.
    Inputs of any shape are flattened. PyTorch's default initialization is used.

    Example:
        >>> speech_mlp((1, 101, 40), 2)[1]
        Linear(in_features=4040, out_features=1024, bias=True)
    """
    return mlp(shape, outputs, hidden=check_integer("speech-mlp: hidden", hidden))


class EmbeddingBag(nn.Module):
    """Returns the mean of the embeddings of each row of tokens.

    It equals `nn.EmbeddingBag`, but the gradients of single examples can be computed at once.
    """

    def __init__(self, vocabulary: int, dim: int, padding: int | None = None) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, dim)
        self.padding = padding

    def forward(self, tokens: Tensor) -> Tensor:
        """Return (N, dim) for tokens (N, L)."""
        embedded: Tensor = self.embedding(tokens)
        if self.padding is None:
            return embedded.mean(-2)
        counts = tokens.ne(self.padding).unsqueeze(-1).to(embedded.dtype)
        return (embedded * counts).sum(-2) / counts.sum(-2).clamp(min=1)


def embedding_bag(
    shape: tuple[int, ...],
    outputs: int,
    *,
    vocabulary: int,
    dim: int = 64,
    hidden: int = 128,
    padding: int | None = None,
) -> nn.Sequential:
    """Return a network for tokens: the mean of their embeddings, one hidden layer of ReLU.

    Args:
        shape: the number of tokens per example.
        outputs: the number of classes.
        vocabulary: the number of tokens, from 0 to one less.
        dim: the size of an embedding.
        hidden: the size of the hidden layer.
        padding: a token that does not count; None if there is none.

    Example:
        >>> embedding_bag((20,), 4, vocabulary=1000)[-1]
        Linear(in_features=128, out_features=4, bias=True)
    """
    check_input_shape(shape)
    size = check_integer("embedding-bag: hidden", hidden)
    dim = check_integer("embedding-bag: dim", dim)
    return nn.Sequential(
        EmbeddingBag(check_integer("embedding-bag: vocabulary", vocabulary), dim, padding),
        nn.Linear(dim, size),
        nn.ReLU(inplace=True),
        nn.Linear(size, check_integer("outputs", outputs)),
    )


def resnet18_slim(shape: tuple[int, int, int], outputs: int, *, filters: int = 20) -> nn.Module:
    """Return a ResNet-18 with 20 filters in the first stage instead of 64, and no max pooling.

    This is the network of GEM (Lopez-Paz & Ranzato 2017). The first convolution is 3x3 with stride
    1; no convolution has a bias. The last feature map is averaged over non-overlapping windows of
    4x4, as in GEM's code. For 32x32 images this is a global average with 160 features. Larger
    images keep the windows, as in the code of De Lange et al. (2023): 640 features for 64x64 and
    for 84x84 (where three rows and columns at the border are in no window), 1440 for 96x96. Images
    below 32x32 have a single, smaller window. PyTorch's default initialization is used.

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


def wide_vgg9(
    shape: tuple[int, int, int],
    outputs: int,
    *,
    width: float = 1.0,
    dropout: float = 0.0,
    initialization: Literal["pytorch", "torchvision"] = "pytorch",
) -> nn.Module:
    """Return six convolutions, each with BatchNorm and ReLU, and three dense layers.

    This is the wide VGG9 of De Lange et al. (2021), made for Tiny ImageNet. Convolutions are 3x3
    with a bias and a padding of one pixel. For 64x64 images the dense layers are
    8192-512-512-outputs.

    Args:
        shape: channels, height and width of the images.
        outputs: the number of classes.
        width: the factor of the size of every hidden layer; 1 is the paper's.
        dropout: the dropout rate after each hidden dense layer.
        initialization: that of `pytorch` for every layer, or for convolutions that of
            `torchvision`'s VGG, whose weights are larger (2.4 times where a layer has as many
            inputs as outputs). Faber et al. (2023) have the latter: their class inherits from
            torchvision's VGG, which initializes the convolutions.

    Example:
        >>> network = wide_vgg9((3, 64, 64), 200)
        >>> [layer for layer in network if isinstance(layer, nn.Linear)][0]
        Linear(in_features=8192, out_features=512, bias=True)
    """
    channels, height, across = shape = check_shape(shape)
    check_min_side("wide-vgg9", shape, 16)
    factor, rate = _check_width(width), check_fraction("wide-vgg9: dropout", dropout)
    check_choice("initialization", initialization, INITIALIZATIONS)
    layers: list[nn.Module] = []
    for size in CONVOLUTIONS:
        if size == POOL:
            layers.append(nn.MaxPool2d(2))
            continue
        size = _scale(size, factor)
        convolution = nn.Conv2d(channels, size, 3, padding=1)
        if initialization == "torchvision":
            nn.init.kaiming_normal_(convolution.weight, mode="fan_out", nonlinearity="relu")
            assert convolution.bias is not None
            nn.init.zeros_(convolution.bias)
        layers += [convolution, nn.BatchNorm2d(size), nn.ReLU(inplace=True)]
        channels = size
    dense = _scale(DENSE_UNITS, factor)
    layers.append(nn.Flatten())
    for inputs in (channels * (height // 16) * (across // 16), dense):
        layers += [nn.Linear(inputs, dense), nn.ReLU(inplace=True), nn.Dropout(rate)]
    return nn.Sequential(*layers, nn.Linear(dense, check_integer("outputs", outputs)))


def _check_width(width: float) -> float:
    if isinstance(width, bool) or not isinstance(width, Real) or not 0 < width < inf:
        raise InputError(
            f"wide-vgg9: width is {width!r}, expected a number above 0; 1 is the paper's"
        )
    return float(width)


def _scale(size: int, factor: float) -> int:
    return max(1, round(size * factor))


def zenke_conv(shape: tuple[int, int, int], outputs: int, *, dropout: float = 0.5) -> nn.Module:
    """Return four convolutions and two dense layers, with dropout (Zenke et al. 2017, Appendix A).

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
