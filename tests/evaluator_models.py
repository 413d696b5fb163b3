"""Models that an evaluator could disturb, each in its own way."""

from __future__ import annotations

import random
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import spectral_norm
from torch.utils.checkpoint import checkpoint

from .evaluator_loops import CLASSES, FEATURES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def mlp(*, dropout: float = 0.3, norm: Mapping[str, Any] | None = None) -> nn.Sequential:
    layers: list[nn.Module] = [nn.Linear(FEATURES, 8)]
    if norm is not None:
        layers.append(nn.BatchNorm1d(8, **norm))
    return nn.Sequential(*layers, nn.ReLU(), nn.Dropout(dropout), nn.Linear(8, CLASSES))


def normed() -> nn.Sequential:
    return mlp(norm={})


class Body(nn.Module):
    """Parameters, buffers, dropout and batch norm."""

    seen: Tensor
    mean: Tensor | None

    def __init__(self) -> None:
        super().__init__()
        self.body = normed()
        self.register_buffer("seen", torch.zeros(FEATURES))

    def forward(self, x: Tensor) -> Any:
        return self.body(x)


class Tied(Body):
    """One parameter in two layers, one buffer in two modules."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(FEATURES, FEATURES), nn.Linear(FEATURES, FEATURES)
        self.second.weight = self.first.weight
        self.body.register_buffer("seen", self.seen)

    def forward(self, x: Tensor) -> Any:
        self.seen += x.detach().mean(0)
        return self.body(self.second(torch.relu(self.first(x))) + 0.01 * self.seen)


class TwoNames(Body):
    """One module under two names, as the shared embedding of an encoder and a decoder."""

    def __init__(self) -> None:
        super().__init__()
        self.first = self.second = nn.Linear(FEATURES, FEATURES)

    def forward(self, x: Tensor) -> Any:
        return self.body(self.second(torch.relu(self.first(x))))


class Noisy(Body):
    """Draws from every global generator in both modes."""

    def forward(self, x: Tensor) -> Any:
        noise = random.random() + float(np.random.rand()) + torch.rand(CLASSES)  # noqa: NPY002
        return self.body(x) + 0.1 * noise.to(x.device)


class Counting(Body):
    """Moves a buffer in both modes, in place."""

    def forward(self, x: Tensor) -> Any:
        self.seen += x.detach().mean(0)
        return self.body(x + 0.01 * self.seen)


class Rebinding(Body):
    """Puts another tensor in place of its buffer."""

    def forward(self, x: Tensor) -> Any:
        self.seen = self.seen + x.detach().mean(0)
        return self.body(x + 0.01 * self.seen)


class Unseen(Body):
    """Changes a buffer where no version counter sees it."""

    def forward(self, x: Tensor) -> Any:
        self.seen.data += x.detach().mean(0)
        return self.body(x + 0.01 * self.seen)


class FirstBatch(Body):
    """Keeps the mean of the first batch in a buffer that is None until then."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", None)

    def forward(self, x: Tensor) -> Any:
        if self.mean is None:
            self.mean = x.detach().mean(0)
        return self.body(x - self.mean)


class LateBuffer(Body):
    """Registers a buffer at its first forward."""

    def forward(self, x: Tensor) -> Any:
        if "mean" not in self._buffers:
            self.register_buffer("mean", x.detach().mean(0))
        return self.body(x - self._buffers["mean"])  # type: ignore[operator]


class OwnTrain(Body):
    """Does more in its train() than to change the mode."""

    def train(self, mode: bool = True) -> OwnTrain:
        super().train(mode)
        self.body[1].eval()
        self.seen += 1
        return self

    def forward(self, x: Tensor) -> Any:
        return self.body(x * (1 + self.seen))


class Tempered(Body):
    """Depends on a number that is no tensor."""

    shift = 0.0

    def forward(self, x: Tensor) -> Any:
        return self.body(x) + self.shift * torch.arange(CLASSES)


class NoisyGradient(Body):
    """Adds noise to a gradient, in a hook."""

    def __init__(self) -> None:
        super().__init__()
        first = next(self.body.parameters())
        first.register_hook(lambda g: g + 0.1 * torch.randn_like(g))


class Checkpointed(Body):
    def forward(self, x: Tensor) -> Any:
        return checkpoint(self.body, x, use_reentrant=False)


def frozen_norm() -> nn.Module:
    model = normed()
    model[1].eval()
    return model


def frozen_part() -> nn.Module:
    model = normed()
    model[0].requires_grad_(requires_grad=False)
    return model


def spectral() -> nn.Module:
    return nn.Sequential(spectral_norm(nn.Linear(FEATURES, 8)), nn.ReLU(), nn.Linear(8, CLASSES))


MODELS: dict[str, Callable[[], nn.Module]] = {
    "dropout": mlp,
    "batch norm": normed,
    "cumulative batch norm": partial(mlp, norm={"momentum": None}),
    "batch norm without statistics": partial(mlp, norm={"track_running_stats": False}),
    "frozen batch norm": frozen_norm,
    "frozen part": frozen_part,
    "tied": Tied,
    "two names": TwoNames,
    "noisy": Noisy,
    "counting": Counting,
    "rebinding": Rebinding,
    "no version counter": Unseen,
    "first batch": FirstBatch,
    "late buffer": LateBuffer,
    "own train()": OwnTrain,
    "noisy gradient": NoisyGradient,
    "checkpointed": Checkpointed,
    "spectral norm": spectral,
}
