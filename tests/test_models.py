"""The networks of the papers against arithmetic and forwards written from the papers' words."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from perdure.models import MODELS, build, describe_model, find_factory
from perdure.models.registry import ABOUT
from perdure.record import InputError

from .cli_helpers import start

Shape = tuple[int, int, int]

MNIST, CIFAR, TINY, MINI, DOMAIN = (1, 28, 28), (3, 32, 32), (3, 64, 64), (3, 84, 84), (3, 96, 96)
SPEECH = (1, 101, 40)
PUBLISHED: list[tuple[str, Shape, int]] = [
    ("mlp", MNIST, 10),
    ("resnet18-slim", CIFAR, 10),
    ("resnet18-slim", TINY, 200),
    ("resnet18-slim", MINI, 100),
    ("resnet18-slim", DOMAIN, 126),
    ("zenke-conv", CIFAR, 100),
    ("wide-vgg9", TINY, 200),
    ("efficientnet-b1", TINY, 50),
    ("speech-mlp", SPEECH, 20),
]
IMAGE_MODELS = [name for name in MODELS if name != "embedding-bag"]
SMALL: dict[str, dict[str, Any]] = {  # the same networks, narrow enough for many tests
    "mlp": {"hidden": [20, 10]},
    "resnet18-slim": {"filters": 2},
    "zenke-conv": {},
    "wide-vgg9": {"width": 1 / 32},
    "efficientnet-b1": {},
    "speech-mlp": {"hidden": 8},
}


def images(shape: Shape, n: int = 2, seed: int = 0) -> Tensor:
    return torch.randn(n, *shape, generator=torch.Generator().manual_seed(seed))


def size(network: nn.Module) -> int:
    return sum(p.numel() for p in network.parameters())


# --- sizes ----------------------------------------------------------------------------------------

ZENKE = (
    (3 * 32 * 9 + 32) + (32 * 32 * 9 + 32) + (32 * 64 * 9 + 64) + (64 * 64 * 9 + 64)
    + (6 * 6 * 64 * 512 + 512)
)  # fmt: skip
VGG_CONVOLUTIONS = 4_500_864  # as published with the survey's code, without BatchNorm
VGG_NORMS = 2 * (64 + 128 + 256 + 256 + 512 + 512)
VGG_DENSE = (8192 * 512 + 512) + (512 * 512 + 512)


def resnet_size(features: int, outputs: int, channels: int = 3) -> int:
    """Return the weights of the reduced ResNet-18, stage by stage; each BatchNorm has two."""
    first = channels * 20 * 9 + 2 * 20
    same = 4 * (20 * 20 * 9 + 2 * 20)
    stages = sum(
        (half * full * 9 + 2 * full)  # the convolution that halves the image
        + 3 * (full * full * 9 + 2 * full)
        + (half * full + 2 * full)  # the shortcut
        for half, full in ((20, 40), (40, 80), (80, 160))
    )
    return first + same + stages + features * outputs + outputs


@pytest.mark.parametrize(
    ("name", "shape", "outputs", "expected"),
    [
        ("mlp", MNIST, 10, 478_410),
        ("mlp", CIFAR, 100, 3072 * 400 + 400 + 400 * 400 + 400 + 400 * 100 + 100),
        ("resnet18-slim", CIFAR, 10, resnet_size(160, 10)),
        ("resnet18-slim", TINY, 200, resnet_size(4 * 160, 200)),
        ("resnet18-slim", MINI, 100, resnet_size(640, 100)),
        ("resnet18-slim", DOMAIN, 126, resnet_size(1440, 126)),
        ("resnet18-slim", MNIST, 10, resnet_size(160, 10, channels=1)),
        ("resnet18-slim", (1, 8, 8), 10, resnet_size(160, 10, channels=1)),
        ("zenke-conv", CIFAR, 100, ZENKE + 512 * 100 + 100),
        ("wide-vgg9", TINY, 200, VGG_CONVOLUTIONS + VGG_NORMS + VGG_DENSE + 512 * 200 + 200),
        ("speech-mlp", SPEECH, 2, 4040 * 1024 + 1024 + 1024 * 2 + 2),
    ],
)
def test_weights_are_as_many_as_the_paper_says(
    name: str, shape: Shape, outputs: int, expected: int
) -> None:
    assert size(build(name, shape, outputs)) == expected


@pytest.mark.parametrize(("name", "shape", "outputs"), PUBLISHED)
def test_a_score_for_each_class(name: str, shape: Shape, outputs: int) -> None:
    network = build(name, shape, outputs).eval()
    with torch.no_grad():
        assert network(images(shape)).shape == (2, outputs)
        assert network(images(shape, 1)).shape == (1, outputs)
        assert network(images(shape, 0)).shape == (0, outputs)


@pytest.mark.parametrize("shape", [(1, 16, 16), (3, 17, 31), (2, 28, 40)])
@pytest.mark.parametrize("name", IMAGE_MODELS)
def test_other_shapes_of_images_work_too(name: str, shape: Shape) -> None:
    network = build(name, shape, 3, **SMALL[name])
    assert network(images(shape)).shape == (2, 3)


# --- forwards written again -----------------------------------------------------------------------


class Weights:
    """The tensors of a state dict one after the other, and layers written out with them."""

    momentum, eps = 0.1, 1e-5  # of BatchNorm

    def __init__(self, network: nn.Module, *, train: bool) -> None:
        self.state = list(network.state_dict().values())
        self.train = train
        self.statistics: list[Tensor] = []

    def next(self) -> Tensor:
        tensor: Tensor = self.state.pop(0)
        return tensor.clone()

    def dense(self, x: Tensor) -> Tensor:
        weight, bias = self.next(), self.next()
        return torch.addmm(bias, x, weight.T)

    def conv(self, x: Tensor, stride: int = 1, padding: int = 1, groups: int = 1) -> Tensor:
        return functional.conv2d(x, self.next(), None, stride, padding, 1, groups)

    def conv_bias(self, x: Tensor, padding: int) -> Tensor:
        return functional.conv2d(x, self.next(), self.next(), 1, padding)

    def norm(self, x: Tensor) -> Tensor:
        weight, bias, mean, variance, steps = (self.next() for _ in range(5))
        if self.train:
            n = x.numel() // x.shape[1]
            now, spread = x.mean((0, 2, 3)), x.var((0, 2, 3), correction=0)
            unbiased = spread * n / (n - 1)
            share = self.momentum
            self.statistics += [
                (1 - share) * mean + share * now,
                (1 - share) * variance + share * unbiased,
                steps + 1,
            ]
            mean, variance = now, spread
        x = (x - mean[:, None, None]) / (variance[:, None, None] + self.eps).sqrt()
        return x * weight[:, None, None] + bias[:, None, None]

    def resnet_block(self, x: Tensor, stride: int, *, shortcut: bool) -> Tensor:
        out = self.norm(self.conv(x, stride)).relu()
        out = self.norm(self.conv(out))
        return (out + (self.norm(self.conv(x, stride, 0)) if shortcut else x)).relu()


def mlp_again(x: Tensor, w: Weights) -> Tensor:
    x = x.reshape(len(x), -1)
    return w.dense(w.dense(w.dense(x).relu()).relu())


def speech_again(x: Tensor, w: Weights) -> Tensor:
    return w.dense(w.dense(x.reshape(len(x), -1)).clamp(min=0))


def vgg_again(x: Tensor, w: Weights) -> Tensor:
    for convolutions in (1, 1, 2, 2):
        for _ in range(convolutions):
            x = w.norm(w.conv_bias(x, padding=1)).relu()
        x = functional.max_pool2d(x, 2)
    x = x.flatten(1)
    return w.dense(w.dense(w.dense(x).relu()).relu())


def resnet_again(x: Tensor, w: Weights) -> Tensor:
    x = w.norm(w.conv(x)).relu()
    for stage in range(4):
        x = w.resnet_block(x, 1 if stage == 0 else 2, shortcut=stage > 0)
        x = w.resnet_block(x, 1, shortcut=False)
    rows, columns = (side // 4 for side in x.shape[2:])
    x = x[:, :, : 4 * rows, : 4 * columns]
    windows = x.reshape(*x.shape[:2], rows, 4, columns, 4).mean((3, 5))
    return w.dense(windows.flatten(1))


def zenke_again(x: Tensor, w: Weights) -> Tensor:
    for _ in range(2):
        x = w.conv_bias(x, padding=1).relu()
        x = functional.max_pool2d(w.conv_bias(x, padding=0).relu(), 2)
    return w.dense(w.dense(x.flatten(1)).relu())


AGAIN: list[tuple[str, Shape, Any]] = [
    ("mlp", MNIST, mlp_again),
    ("speech-mlp", (1, 11, 4), speech_again),
    ("wide-vgg9", (3, 35, 48), vgg_again),
    ("resnet18-slim", CIFAR, resnet_again),
    ("resnet18-slim", MINI, resnet_again),
    ("resnet18-slim", MNIST, resnet_again),
    ("resnet18-slim", (3, 60, 33), resnet_again),
    ("zenke-conv", CIFAR, zenke_again),
]


def unsettled(network: nn.Module) -> nn.Module:
    """Return the network with BatchNorms that do something, differing_keys those of a new one."""
    generator = torch.Generator().manual_seed(3)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            for tensor in (module.weight, module.bias, module.running_mean, module.running_var):
                assert tensor is not None
                tensor.data = 0.5 + torch.rand(tensor.shape, generator=generator).to(tensor)
    return network


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize(("name", "shape", "again"), AGAIN)
def test_the_forward_is_what_the_paper_describes(
    name: str, shape: Shape, again: Any, *, train: bool
) -> None:
    torch.manual_seed(0)
    options = {"dropout": 0} if name == "zenke-conv" else SMALL[name]
    network = unsettled(build(name, shape, 5, **options).double()).train(train)
    x = images(shape, 3).double()
    weights = Weights(network, train=train)
    with torch.no_grad():
        expected = again(x, weights)
        torch.testing.assert_close(network(x), expected, rtol=1e-9, atol=1e-9)
    assert not weights.state, "every tensor was used"
    kept = list(network.buffers())
    if train:
        torch.testing.assert_close(kept, weights.statistics, rtol=1e-9, atol=1e-9)


def test_the_dropout_of_zenke_conv() -> None:
    torch.manual_seed(0)
    network = build("zenke-conv", CIFAR, 10)
    shares = [m.p for m in network.modules() if isinstance(m, nn.Dropout)]
    assert shares == [0.25, 0.25, 0.5]
    x = images(CIFAR)
    assert not torch.equal(network(x), network(x))
    network.eval()
    assert torch.equal(network(x), network(x))


def test_the_dropout_of_wide_vgg9_is_off_and_an_option() -> None:
    def shares(**options: Any) -> list[float]:
        network = build("wide-vgg9", TINY, 10, width=1 / 16, **options)
        return [m.p for m in network.modules() if isinstance(m, nn.Dropout)]

    assert shares() == [0.0, 0.0]
    assert shares(dropout=0.5) == [0.5, 0.5]


def test_wide_vgg9_is_initialized_as_in_pytorch_or_as_in_torchvision() -> None:
    """Convolutions of torchvision's VGG are normal with variance 2 / fan out, and have no bias."""
    for name in ("pytorch", "torchvision"):
        torch.manual_seed(0)
        network = build("wide-vgg9", TINY, 10, width=0.5, initialization=name)
        for module in network.modules():
            if isinstance(module, nn.Conv2d):
                fan_in, fan_out = 9 * module.in_channels, 9 * module.out_channels
                variance = 2 / fan_out if name == "torchvision" else 1 / (3 * fan_in)
                spread = module.weight.var(correction=0).item() / variance
                assert abs(spread - 1) < 6 * (2 / module.weight.numel()) ** 0.5
                beyond = module.weight.abs().max().item() > (3 * variance) ** 0.5
                assert beyond == (name == "torchvision"), "normal, not uniform"
                assert module.bias is not None
                assert module.bias.any() == (name == "pytorch")
            if isinstance(module, nn.Linear):
                bound = module.in_features**-0.5
                assert 0.9 * bound < module.weight.abs().max() <= bound
    with pytest.raises(InputError, match="initialization is 'he', expected torchvision or pytorch"):
        build("wide-vgg9", TINY, 10, initialization="he")


def test_width_and_filters_scale_every_hidden_layer() -> None:
    narrow = build("wide-vgg9", TINY, 10, width=0.25)
    sizes = [m.out_channels for m in narrow.modules() if isinstance(m, nn.Conv2d)]
    dense = [m.out_features for m in narrow.modules() if isinstance(m, nn.Linear)]
    assert (sizes, dense) == ([16, 32, 64, 64, 128, 128], [128, 128, 10])
    slim = build("resnet18-slim", CIFAR, 10, filters=3)
    widths = {m.out_channels for m in slim.modules() if isinstance(m, nn.Conv2d)}
    assert widths == {3, 6, 12, 24}
    assert all(m.bias is None for m in slim.modules() if isinstance(m, nn.Conv2d))


# --- options, names, seeds ------------------------------------------------------------------------


@pytest.mark.parametrize("hidden", [(30, 20), [30, 20], "30,20", "30x20", " 30, 20 ", "30x20 "])
def test_hidden_sizes_from_python_and_from_a_command_line(hidden: Any) -> None:
    network = build("mlp", MNIST, 10, hidden=hidden)
    sizes = [m.out_features for m in network.modules() if isinstance(m, nn.Linear)]
    assert sizes == [30, 20, 10]


def test_hidden_may_be_one_size_or_none() -> None:
    assert size(build("mlp", MNIST, 10, hidden=7)) == 784 * 7 + 7 + 7 * 10 + 10
    assert size(build("mlp", MNIST, 10, hidden="7")) == 784 * 7 + 7 + 7 * 10 + 10
    assert size(build("mlp", MNIST, 10, hidden=[])) == 784 * 10 + 10


MISTAKES: list[tuple[str, Shape, int, dict[str, Any], tuple[str, ...]]] = [
    ("mlp", MNIST, 10, {"hidden": "many"}, ("mlp: hidden is 'many'", "like 400,400")),
    ("mlp", MNIST, 10, {"hidden": ""}, ("mlp: hidden is ''", "like 400,400")),
    ("mlp", MNIST, 10, {"hidden": "400,"}, ("mlp: hidden is '400,'", "like 400,400")),
    ("mlp", MNIST, 10, {"hidden": [400, 0]}, ("mlp: hidden is [400, 0]", "from 1")),
    ("mlp", MNIST, 10, {"hidden": [400.5]}, ("mlp: hidden is [400.5]", "whole numbers")),
    ("mlp", MNIST, 10, {"hidden": True}, ("mlp: hidden is True", "whole numbers")),
    ("mlp", MNIST, 10, {"hidden": None}, ("mlp: hidden is None", "whole numbers")),
    ("mlp", MNIST, 10, {"depth": 3}, ("'mlp'", "depth=", "(shape, outputs, *, hidden=(400, 400))")),
    ("mlp", MNIST, 0, {}, ("outputs is 0", "at least 1")),
    ("mlp", MNIST, 2.5, {}, ("outputs is 2.5", "whole number")),  # type: ignore[list-item]
    ("mlp", (28, 28), 10, {}, ("shape is (28, 28)", "(1, 28, 28)")),  # type: ignore[list-item]
    ("mlp", (0, 28, 28), 10, {}, ("shape is (0, 28, 28)", "(1, 28, 28)")),
    ("mlp", 784, 10, {}, ("shape is 784", "(1, 28, 28)")),  # type: ignore[list-item]
    ("resnet18-slim", CIFAR, 10, {"filters": 0}, ("resnet18-slim: filters is 0", "at least 1")),
    ("resnet18-slim", CIFAR, 10, {"filters": "20"}, ("filters is '20'", "whole number")),
    ("zenke-conv", CIFAR, 10, {"dropout": 1}, ("zenke-conv: dropout is 1", "below 1")),
    ("zenke-conv", CIFAR, 10, {"dropout": -0.1}, ("dropout is -0.1", "from 0")),
    ("zenke-conv", (1, 8, 8), 10, {}, ("zenke-conv: images are 8x8", "10x10", "another model")),
    ("wide-vgg9", (3, 64, 15), 10, {}, ("wide-vgg9: images are 64x15", "16x16")),
    ("wide-vgg9", TINY, 10, {"width": 0}, ("wide-vgg9: width is 0", "above 0")),
    ("wide-vgg9", TINY, 10, {"width": float("nan")}, ("wide-vgg9: width is nan", "above 0")),
    ("wide-vgg9", TINY, 10, {"dropout": "no"}, ("wide-vgg9: dropout is 'no'", "from 0")),
    ("efficientnet-b1", TINY, 10, {"dropout": 2}, ("efficientnet-b1: dropout is 2", "below 1")),
    ("efficientnet-b1", TINY, 10, {"stochastic_depth": 1}, ("stochastic_depth is 1", "below 1")),
    ("speech-mlp", SPEECH, 10, {"hidden": 0}, ("speech-mlp: hidden is 0", "at least 1")),
    ("mpl", MNIST, 10, {}, ("model is 'mpl'", "mlp, resnet18-slim", "module:name")),
    ("", MNIST, 10, {}, ("model is ''", "mlp")),
]


@pytest.mark.parametrize(("name", "shape", "outputs", "options", "words"), MISTAKES)
def test_mistakes_are_told_in_one_line(
    name: str, shape: Shape, outputs: int, options: dict[str, Any], words: tuple[str, ...]
) -> None:
    with pytest.raises(InputError) as caught:
        build(name, shape, outputs, **options)
    line = str(caught.value)
    assert len(line.splitlines()) == 1
    for word in words:
        assert word in line


@pytest.mark.parametrize("side", [10, 16])
def test_the_smallest_images_that_are_let_in_do_work(side: int) -> None:
    name = "zenke-conv" if side == 10 else "wide-vgg9"
    assert build(name, (1, side, side), 4)(images((1, side, side))).shape == (2, 4)


@pytest.mark.parametrize("name", IMAGE_MODELS)
def test_one_seed_one_network(name: str) -> None:
    shape = CIFAR

    def drawn(seed: int) -> dict[str, Tensor]:
        torch.manual_seed(seed)
        return dict(build(name, shape, 6, **SMALL[name]).state_dict())

    first, again, other = drawn(0), drawn(0), drawn(1)
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert not all(torch.equal(first[key], other[key]) for key in first)


@pytest.mark.parametrize("heads", [None, [2, 4]])
@pytest.mark.parametrize("name", IMAGE_MODELS)
def test_building_draws_what_the_factory_draws_and_nothing_else(
    name: str, heads: list[int] | None
) -> None:
    torch.manual_seed(0)
    alone = find_factory(name)(CIFAR, 6, **SMALL[name])
    assert isinstance(alone, nn.Module)
    state = torch.get_rng_state()
    torch.manual_seed(0)
    network = build(name, CIFAR, 6, heads=heads, **SMALL[name])
    assert torch.equal(torch.get_rng_state(), state)
    assert network.training
    x = images(CIFAR)
    expected = alone.eval()(x)
    network.eval()
    if heads is None:
        assert torch.equal(network(x), expected)
        mine = list(network.parameters())
        assert all(torch.equal(a, b) for a, b in zip(mine, alone.parameters(), strict=True))
    else:
        torch.testing.assert_close(network(x, 0)[:, :2], expected[:, :2])
        torch.testing.assert_close(network(x, 1)[:, 2:], expected[:, 2:])


@pytest.mark.parametrize("name", IMAGE_MODELS)
def test_the_head_is_the_last_layer(name: str) -> None:
    network = build(name, CIFAR, 6, **SMALL[name]).eval()
    assert isinstance(network.head, nn.Linear)
    assert network.head.out_features == 6
    x = images(CIFAR)
    assert torch.equal(network.head(network.body(x)), network(x))


def test_a_line_about_every_model() -> None:
    assert list(ABOUT) == list(MODELS)
    for name in MODELS:
        assert len(describe_model(name)) < 80
        assert "\n" not in describe_model(name)
    with pytest.raises(InputError, match=r"model is 'mpl'; did you mean mlp\? expected mlp, "):
        describe_model("mpl")


def test_listing_models_does_not_load_torch() -> None:
    script = (
        "import json, sys, perdure.models as m; [m.describe_model(name) for name in m.MODELS];"
        "print(json.dumps([n for n in ('torch', 'perdure.models.network') if n in sys.modules]))"
    )
    answer = start("-c", script, command=[sys.executable])
    assert (answer.code, json.loads(answer.out)) == (0, [])
