"""One small model for each layer whose training counting operations could change."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - as everyone writes it
from torch.nn.modules import activation, batchnorm, instancenorm, normalization

from perdure.models import build

from .evaluator_loops import CLASSES, FEATURES
from .test_models import SMALL

if TYPE_CHECKING:
    from collections.abc import Callable

CHANNELS, WIDTH = 4, 32  # features of a layer: 4 x 8, 4 x 4 x 2 or 4 x 2 x 2 x 2
SIZES = {"1d": (8,), "2d": (4, 2), "3d": (2, 2, 2)}

# Arguments of the layers that need some. A layer of a later PyTorch that is not made without
# arguments fails its test until it is listed here.
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "Threshold": (0.1, 0.2),
    "LayerNorm": (WIDTH,),
    "RMSNorm": (WIDTH,),
    "GroupNorm": (2, CHANNELS),
    "LocalResponseNorm": (2,),
    "CrossMapLRN2d": (2,),
    "SyncBatchNorm": (CHANNELS,),
}
SHAPES = {"GroupNorm": "2d", "LocalResponseNorm": "2d", "SyncBatchNorm": "2d"}
ELSEWHERE = {"MultiheadAttention"}  # takes three inputs: among the blocks below
ROOMS = (activation, batchnorm, instancenorm, normalization)
NAMES = sorted({name for room in ROOMS for name in room.__all__} - ELSEWHERE)


class Around(nn.Module):
    """A layer between two linear ones."""

    def __init__(self, layer: nn.Module, shape: tuple[int, ...] = (WIDTH,)) -> None:
        super().__init__()
        self.first, self.layer = nn.Linear(FEATURES, WIDTH), layer
        self.shape, self.last = shape, nn.LazyLinear(CLASSES)
        self(torch.zeros(2, FEATURES))  # lazy weights are drawn here, before training

    def forward(self, x: Tensor) -> Any:
        return self.last(self.layer(self.first(x).unflatten(1, self.shape)).flatten(1))


def layer(name: str) -> nn.Module:
    """Return a model with the layer of that name in `torch.nn`."""
    size = SHAPES.get(name) or next(iter(re.findall(r"[123]d$", name)), None)
    takes_channels = size and "Norm" in name and not name.startswith("Lazy")
    arguments = ARGUMENTS.get(name, (CHANNELS,) if takes_channels else ())
    shape = (CHANNELS, *SIZES[size]) if size else (WIDTH,)
    options = {"dim": 1} if name in ("Softmin", "Softmax", "LogSoftmax") else {}
    return Around(getattr(nn, name)(*arguments, **options), shape)


class Attention(nn.Module):
    """Scaled dot-product attention over eight places, with two heads."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.project, self.options = nn.Linear(16, 48), options
        if options.pop("masked", False):
            self.mask = nn.Parameter(torch.randn(8, 8))

    def forward(self, x: Tensor) -> Tensor:
        parts = self.project(x).unflatten(2, (3, 2, 8)).permute(2, 0, 3, 1, 4)
        mask = getattr(self, "mask", None)
        query, key, value = parts
        out = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, **self.options)
        return out.transpose(1, 2).flatten(2)


class SelfAttention(nn.MultiheadAttention):
    def forward(self, x: Tensor) -> Any:  # type: ignore[override]
        return super().forward(x, x, x)[0]


class Recurrent(nn.Module):
    def __init__(self, kind: Callable[..., nn.Module], **options: Any) -> None:
        super().__init__()
        self.cells = kind(16, 16, batch_first=True, **options)

    def forward(self, x: Tensor) -> Any:
        return self.cells(x)[0]


class Llama(nn.Module):
    """A block with RMSNorm, rotary positions, causal attention and SwiGLU."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.RMSNorm(16), nn.RMSNorm(16)])
        self.query, self.key, self.value, self.out = (
            nn.Linear(16, 16, bias=False) for _ in range(4)
        )
        self.gate, self.up = nn.Linear(16, 40, bias=False), nn.Linear(16, 40, bias=False)
        self.down = nn.Linear(40, 16, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        near = self.norms[0](x)
        parts = [
            part(near).unflatten(2, (2, 8)).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        ]
        attended = F.scaled_dot_product_attention(
            rotary(parts[0]), rotary(parts[1]), parts[2], is_causal=True
        )
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        near = self.norms[1](x)
        return x + self.down(F.silu(self.gate(near)) * self.up(near))  # type: ignore[no-any-return]


def rotary(x: Tensor) -> Tensor:
    """Turn pairs of features by an angle that grows with the place."""
    places = torch.arange(x.shape[2], device=x.device)
    angles = places[:, None] / 100 ** (torch.arange(4, device=x.device) / 4)
    left, right = x.chunk(2, -1)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([left * cos - right * sin, left * sin + right * cos], -1)


class Places(nn.Module):
    """Makes eight places of sixteen features from an example, for the block that follows."""

    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        self.first, self.block, self.last = nn.Linear(FEATURES, 128), block, nn.Linear(128, CLASSES)

    def forward(self, x: Tensor) -> Any:
        return self.last(self.block(self.first(x).unflatten(1, (8, 16))).flatten(1))


class Function(nn.Module):
    """A function of features and of a number that is learned."""

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.function, self.number = function, nn.Parameter(torch.tensor(0.5))

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x, self.number)


class Teacher(nn.Module):
    """Adds what a fixed part gives in inference mode, where operations arrive whole."""

    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.part, self.student = part, nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        with torch.inference_mode():
            taught = self.part(x.detach())
        return self.student(x) + taught.clone()  # type: ignore[no-any-return]


def encoder() -> nn.Module:
    return nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=True)


def filled(x: Tensor, number: Tensor) -> Tensor:
    return x.masked_fill(x.detach() < 0, number)


BLOCKS: dict[str, Callable[[], nn.Module]] = {
    "attention": Attention,
    "causal attention": partial(Attention, is_causal=True),
    "attention with a learned mask": partial(Attention, masked=True),
    "attention with dropout": partial(Attention, dropout_p=0.2),
    "MultiheadAttention": partial(SelfAttention, 16, 2, batch_first=True),
    "MultiheadAttention with dropout": partial(SelfAttention, 16, 2, 0.2, batch_first=True),
    "TransformerEncoderLayer": encoder,
    "LSTM": partial(Recurrent, nn.LSTM),
    "LSTM of two layers": partial(Recurrent, nn.LSTM, num_layers=2, dropout=0.2),
    "GRU": partial(Recurrent, nn.GRU),
    "RNN": partial(Recurrent, nn.RNN),
    "LLaMA": Llama,
    "prod": partial(Function, lambda x, _: x + (1 + x.square()).prod(2, keepdim=True).log()),
    "prod of all": partial(Function, lambda x, _: x + (1 + 0.01 * x).prod()),
    "cumprod": partial(Function, lambda x, _: x.sigmoid().cumprod(2)),
    "masked_fill": partial(Function, filled),
    "masked_fill_": partial(Function, lambda x, n: (x * 1).masked_fill_(x.detach() < 0, n)),
    "GRU in inference mode": lambda: Teacher(Recurrent(nn.GRU)),
    "dropout in inference mode": lambda: Teacher(Recurrent(nn.LSTM, num_layers=2, dropout=0.2)),
    "attention in inference mode": lambda: Teacher(Llama()),
}
LAYERS: dict[str, Callable[[], nn.Module]] = {
    **{name: partial(layer, name) for name in NAMES},
    **{name: partial(lambda make: Places(make()), make) for name, make in BLOCKS.items()},
}


class Tokens(nn.Module):
    """Turns pixels into eight tokens."""

    def forward(self, x: Tensor) -> Tensor:
        return (x.flatten(1) + 4).long().clamp(0, 7)


def shipped(name: str) -> nn.Module:
    """Return the network of that name for colour images of 32 x 32."""
    if name == "embedding-bag":
        return nn.Sequential(Tokens(), build(name, (3072,), CLASSES, tokens=True, vocabulary=8))
    return build(name, (3, 32, 32), CLASSES, **SMALL[name])


def pictures() -> dict[str, tuple[Tensor, Tensor]]:
    """Return two tasks of images."""
    own = torch.Generator().manual_seed(0)
    return {
        name: (torch.randn(10, 3, 32, 32, generator=own), torch.arange(10) % CLASSES)
        for name in "ab"
    }
