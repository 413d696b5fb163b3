"""Models of the zoo that are modules: what they are made of, and what they do in a forward."""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations, parametrize
from torch.nn.utils import spectral_norm as old_spectral_norm
from torch.nn.utils import weight_norm as old_weight_norm

from .evaluator_loops import CLASSES, FEATURES, data
from .evaluator_models import Body, mlp, normed
from .zoo_loop import Subject, device

if TYPE_CHECKING:
    from collections.abc import Callable


def of(make: Callable[[], nn.Module]) -> Callable[[], Subject]:
    """Return how a subject that is a plain module is made."""
    return lambda: Subject([make()])


# Generators of the model's own.


class OwnNoise(Body):
    """Draws from a generator of its own, in training or always."""

    def __init__(self, generator: Any, draw: Callable[[Any], float], *, always: bool) -> None:
        super().__init__()
        self.generator, self.draw, self.always = generator, draw, always

    def forward(self, x: Tensor) -> Any:
        noise = self.draw(self.generator) if self.training or self.always else 0.0
        return self.body(x + 0.01 * noise)


def own_noise(make: Callable[[], Any], draw: Callable[[Any], float], *, always: bool) -> Subject:
    generator = make()
    return Subject([OwnNoise(generator, draw, always=always)], generators=[generator])


def torch_generator() -> torch.Generator:
    return torch.Generator().manual_seed(7)


def torch_draw(generator: Any) -> float:
    return float(torch.rand((), generator=generator))


# Tensors of every kind.


class WithBuffer(Body):
    """Adds the sum of a buffer of some kind to its outputs."""

    def __init__(self, make: Callable[[], Tensor], use: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.register_buffer("odd", make())
        self.use = use

    def forward(self, x: Tensor) -> Any:
        return self.body(self.use(x, self.odd))  # type: ignore[arg-type]


def with_buffer(make: Callable[[], Tensor], use: Callable[..., Tensor]) -> Callable[[], Subject]:
    return lambda: Subject([WithBuffer(make, use)])


def quantized() -> Tensor:
    return torch.quantize_per_tensor(torch.rand(FEATURES), 0.1, 0, torch.qint8)


def inference() -> Tensor:
    with torch.inference_mode():
        return torch.rand(FEATURES)


class Written(Body):
    """Writes to a buffer in every forward that the backward pass needs."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(FEATURES, FEATURES)
        self.seen += 1

    def forward(self, x: Tensor) -> Any:
        self.seen += 1e-6
        return self.body(self.first(x) * self.seen)


class WrittenAndSaved(Body):
    """Saves a buffer for the backward pass, which it writes to in evaluation."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(FEATURES, FEATURES)
        self.seen += 1

    def forward(self, x: Tensor) -> Any:
        if not self.training:
            self.seen.mul_(1 + 1e-6)
        return self.body(self.first(x) * self.seen)


class Words(nn.Module):
    """Looks up embeddings whose weights are limited, and uses them again in its head."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.words = nn.Embedding(CLASSES, 8, **options)
        self.first = nn.Linear(FEATURES, 8)

    def forward(self, x: Tensor) -> Any:
        near = self.words(torch.arange(CLASSES, device=x.device)).mean(0)
        return (self.first(x) + near) @ self.words.weight.T


class SparseGradients(nn.Module):
    """Looks up embeddings whose gradients are sparse."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.top = nn.Embedding(9, 8, sparse=True), nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Any:
        return self.top(self.words((x.clamp(-4, 4) + 4).long()).mean(1))


def stale_gradient() -> Subject:
    """Its head grows by `.data =`, and keeps the gradient of before."""
    body, top = nn.Linear(FEATURES, 8), nn.Linear(8, CLASSES)

    def grow(step: int) -> None:
        if step == 2:
            top.weight.data = torch.cat([top.weight.data, top.weight.data[:2] * 0])
            top.bias.data = torch.cat([top.bias.data, top.bias.data[:2] * 0])
            descent.state.clear()

    net = nn.Sequential(body, nn.ReLU(), top)
    descent = torch.optim.SGD(net.parameters(), 0.3)

    def optimizer(_: Any) -> torch.optim.Optimizer:
        return descent

    return Subject([net], optimizer=optimizer, after=grow)


class Keeping(Body):
    """Keeps its last output, with its graph: nothing that can be copied."""

    def forward(self, x: Tensor) -> Any:
        self.last = self.body(x)
        return self.last


class Locked(Body):
    """Holds a lock, as models with a cache for many threads do."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()

    def forward(self, x: Tensor) -> Any:
        with self.lock:
            return self.body(x)


class PlainTensor(Body):
    """Keeps a running mean as a tensor that is no buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.average = torch.zeros(FEATURES)

    def forward(self, x: Tensor) -> Any:
        if self.training:
            self.average = 0.5 * self.average.to(x.device) + 0.5 * x.detach().mean(0)
        return self.body(x - self.average.to(x.device))


class Counter(Body):
    """Counts its calls, tests among them, and trains otherwise after each."""

    calls = 0

    def forward(self, x: Tensor) -> Any:
        self.calls += 1
        return self.body(x * (1 + 0.01 * self.calls))


class OwnParameter(nn.Parameter):
    """A parameter of a class of the user's."""


class Complex(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(FEATURES, CLASSES, dtype=torch.complex64))

    def forward(self, x: Tensor) -> Any:
        return (x.to(torch.complex64) @ self.weight).abs()


def own_parameter() -> nn.Module:
    net = normed()
    first: Any = net[0]
    first.weight = OwnParameter(first.weight.detach())
    return net


def transposed() -> nn.Module:
    net = normed()
    net[0].weight = nn.Parameter(torch.randn(FEATURES, 8).T)
    return net


class Viewed(Body):
    """A buffer that is a view of a parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(2, FEATURES))
        self.register_buffer("view", self.scale.detach()[0])

    def forward(self, x: Tensor) -> Any:
        return self.body(x * self.scale[0] + self.view)  # type: ignore[operator]


def scripted() -> nn.Module:
    return torch.jit.script(normed())


def traced() -> nn.Module:
    plain = nn.Sequential(nn.Linear(FEATURES, 8), nn.ReLU(), nn.Linear(8, CLASSES))
    return torch.jit.trace(plain, torch.zeros(2, FEATURES))  # type: ignore[no-any-return]


class Part(Body):
    """Has a scripted part."""

    def __init__(self) -> None:
        super().__init__()
        self.body = scripted()  # type: ignore[assignment]


def on_meta() -> nn.Module:
    with torch.device("meta"):
        return normed()


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cells, self.top = nn.LSTM(2, 8, num_layers=2, dropout=0.3), nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Any:
        return self.top(self.cells(x.unflatten(1, (3, 2)).transpose(0, 1))[0][-1])


class Transformer(nn.Module):
    """Takes PyTorch's fast path in evaluation."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.first, self.layers = nn.Linear(2, 8), nn.TransformerEncoder(layer, 2)
        self.top = nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Any:
        return self.top(self.layers(self.first(x.unflatten(1, (3, 2)))).mean(1))


def parametrized(make: Callable[[nn.Module], nn.Module]) -> nn.Module:
    return nn.Sequential(make(nn.Linear(FEATURES, 8)), nn.ReLU(), nn.Linear(8, CLASSES))


class Double(nn.Module):
    """Makes a weight twice as large."""

    def forward(self, x: Tensor) -> Tensor:
        return 2 * x


def doubled(layer: nn.Module) -> nn.Module:
    return parametrize.register_parametrization(layer, "weight", Double())


class CachedInside(nn.Module):
    """Caches parametrized weights during its own forward."""

    def __init__(self) -> None:
        super().__init__()
        self.body = parametrized(parametrizations.weight_norm)

    def forward(self, x: Tensor) -> Any:
        with parametrize.cached():
            return self.body(x) + self.body(-x)


def half(**options: Any) -> torch.autocast:
    return torch.autocast(device(), torch.bfloat16, **options)


class Amp(nn.Module):
    """Has autocast in its forward: made there, or once and for all."""

    def __init__(self, *, once: bool) -> None:
        super().__init__()
        self.body, self.amp = normed(), half() if once else None

    def forward(self, x: Tensor) -> Any:
        with half() if self.amp is None else self.amp:
            return self.body(x).float()


def averaged() -> Subject:
    """What is tested is the running average of what is trained."""
    net = normed()
    # On CUDA, PyTorch cannot average the count of batches that batch norm keeps.
    average = torch.optim.swa_utils.AveragedModel(net, use_buffers=device() == "cpu")
    return Subject(
        [net, average],
        model=average,
        call=lambda x, _: net(x) if net.training else average(x),
        after=lambda _: average.update_parameters(net),
        optimizer=lambda _: torch.optim.SGD(net.parameters(), 0.3),
    )


def deep() -> nn.Module:
    layers = [nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8)) for _ in range(20)]
    return nn.Sequential(nn.Linear(FEATURES, 8), *layers, nn.Linear(8, CLASSES))


def double_precision() -> Subject:
    net = normed().double()
    tasks = {task: (x.double(), y) for task, (x, y) in data("ab").items()}
    return Subject([net], call=lambda x, _: net(x.double()), data=tasks)


def half_precision() -> Subject:
    net = mlp().bfloat16()
    tasks = {task: (x.bfloat16(), y) for task, (x, y) in data("ab").items()}
    return Subject([net], call=lambda x, _: net(x.bfloat16()).float(), data=tasks)


def random_draw(generator: Any) -> float:
    return float(generator.random())


def numpy_generator() -> np.random.Generator:
    return np.random.default_rng(7)


def python_generator() -> random.Random:
    return random.Random(7)


def spectral(layer: nn.Module) -> nn.Module:
    return old_spectral_norm(layer)


def weight(layer: nn.Module) -> nn.Module:
    return old_weight_norm(layer)
