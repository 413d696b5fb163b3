"""EfficientNet-b1 against the paper's table, a forward written again, and torchvision."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from importlib.util import find_spec
from math import ceil, sqrt
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from perdure.models import build
from perdure.models.efficientnet_b1 import efficientnet_b1
from perdure.record import InputError

from .test_models import Weights, images, size, unsettled

# Table 1 of the paper for b0: expansion, kernel, stride, channels in, channels out, layers
TABLE = [
    (1, 3, 1, 32, 16, 1),
    (6, 3, 2, 16, 24, 2),
    (6, 5, 2, 24, 40, 2),
    (6, 3, 2, 40, 80, 3),
    (6, 5, 1, 80, 112, 3),
    (6, 5, 2, 112, 192, 4),
    (6, 3, 1, 192, 320, 1),
]
BLOCKS = [  # of b1: expansion, kernel, stride, channels in, channels out
    (t, k, s if first else 1, i if first else o, o)
    for t, k, s, i, o, layers in TABLE
    for first in [True] + [False] * (ceil(1.1 * layers) - 1)
]


def expected_size(channels: int, outputs: int) -> int:
    """Return the number of weights; each BatchNorm has two for each channel."""
    total = 32 * channels * 9 + 2 * 32
    for expand, kernel, _, inputs, wide_out in BLOCKS:
        inside, squeezed = expand * inputs, inputs // 4
        if expand > 1:
            total += inputs * inside + 2 * inside
        total += kernel * kernel * inside + 2 * inside
        total += inside * squeezed + squeezed + squeezed * inside + inside
        total += inside * wide_out + 2 * wide_out
    return total + 320 * 1280 + 2 * 1280 + 1280 * outputs + outputs


def test_the_blocks_of_b1() -> None:
    assert len(BLOCKS) == 23
    assert expected_size(3, 1000) == 7_794_184


@pytest.mark.parametrize(("channels", "outputs"), [(3, 1000), (3, 10), (1, 50)])
def test_weights_are_as_many_as_the_paper_says(channels: int, outputs: int) -> None:
    assert size(efficientnet_b1((channels, 64, 64), outputs)) == expected_size(channels, outputs)


# How TensorFlow pads the convolutions with stride 2 of a network for 240x240 images, whose sides
# are 240, 120, 60, 30 and 15: rows above and below, and columns likewise.
SAME = [(0, 1), (0, 1), (1, 2), (0, 1), (2, 2)]
THEIRS: dict[str, Any] = {
    "batch_norm_momentum": 0.01, "batch_norm_eps": 0.001, "padding": "same",
    "initialization": "pytorch",
}  # fmt: skip


def forward_again(x: Tensor, w: Weights, same: list[tuple[int, int]] | None = None) -> Tensor:
    pads = iter(same or [])

    def halve(x: Tensor, kernel: int, groups: int = 1) -> Tensor:
        before, after = next(pads, (kernel // 2, kernel // 2))
        return w.conv(functional.pad(x, (before, after, before, after)), 2, 0, groups)

    x = functional.silu(w.norm(halve(x, 3)))
    for expand, kernel, stride, inputs, outputs in BLOCKS:
        before, inside = x, expand * inputs
        if expand > 1:
            x = functional.silu(w.norm(w.conv(x, padding=0)))
        same_size = partial(w.conv, padding=kernel // 2, groups=inside)
        x = halve(x, kernel, inside) if stride == 2 else same_size(x)
        x = functional.silu(w.norm(x))
        squeezed = functional.silu(w.conv_bias(x.mean((2, 3), keepdim=True), 0))
        x = x * torch.sigmoid(w.conv_bias(squeezed, 0))
        x = w.norm(w.conv(x, padding=0))
        if stride == 1 and inputs == outputs:
            x = x + before
    x = functional.silu(w.norm(w.conv(x, padding=0)))
    return w.dense(x.mean((2, 3)))


@pytest.mark.parametrize("options", [{}, THEIRS])
@pytest.mark.parametrize("train", [False, True])
def test_the_forward_is_what_the_paper_describes(options: dict[str, Any], *, train: bool) -> None:
    torch.manual_seed(0)
    network = efficientnet_b1((3, 64, 64), 7, dropout=0, stochastic_depth=0, **options)
    network = unsettled(network.double()).train(train)
    x, weights = images((3, 64, 64), 3).double(), Weights(network, train=train)
    if options:
        weights.momentum, weights.eps = 0.01, 0.001
    with torch.no_grad():
        expected = forward_again(x, weights, SAME if options else None)
        torch.testing.assert_close(network(x), expected, rtol=1e-7, atol=1e-7)
    assert not weights.state, "every tensor was used"
    if train:
        kept = list(network.buffers())
        torch.testing.assert_close(kept, weights.statistics, rtol=1e-7, atol=1e-7)


def blocks(network: nn.Module) -> list[Any]:
    return [m for m in network.modules() if hasattr(m, "has_shortcut")]


def test_more_examples_skip_later_blocks() -> None:
    shares = [block.skipped for block in blocks(efficientnet_b1((3, 32, 32), 2))]
    assert shares == pytest.approx([0.2 * k / 23 for k in range(23)])
    shares = [
        block.skipped for block in blocks(efficientnet_b1((3, 32, 32), 2, stochastic_depth=0))
    ]
    assert shares == [0] * 23


def test_a_skipped_block_gives_its_input_and_the_others_make_up_for_it() -> None:
    torch.manual_seed(0)
    block = blocks(efficientnet_b1((3, 32, 32), 2, stochastic_depth=0.9))[-1].eval()
    x = images((320, 2, 2), 200)
    whole = block(x) - x
    block.training = True  # its layers stay in evaluation mode
    added = block(x) - x
    skipped = added.flatten(1).abs().amax(1) == 0
    assert 0.75 < skipped.float().mean() < 0.97  # .9 * 22 / 23 = .86
    kept = whole[~skipped] / (1 - 0.9 * 22 / 23)
    torch.testing.assert_close(added[~skipped], kept, rtol=1e-3, atol=1e-3)


def test_initialisation_is_that_of_torchvision() -> None:
    torch.manual_seed(0)
    network = efficientnet_b1((3, 64, 64), 400)
    for module in network.modules():
        if isinstance(module, nn.Conv2d) and module.weight.numel() > 20_000:
            fan_out = module.out_channels * module.kernel_size[0] ** 2
            assert float(module.weight.detach().std()) == pytest.approx(sqrt(2 / fan_out), rel=0.05)
        if isinstance(module, nn.Conv2d) and module.bias is not None:
            assert not module.bias.any()
        if isinstance(module, nn.Linear):
            assert float(module.weight.detach().abs().max()) == pytest.approx(1 / 20, rel=1e-3)
            assert not module.bias.any()
        if isinstance(module, nn.BatchNorm2d):
            assert (module.eps, module.momentum) == (1e-5, 0.1)


def test_initialisation_of_pytorch() -> None:
    """Every layer has the weights that it draws when it is made, in the order of the layers."""
    torch.manual_seed(0)
    network = efficientnet_b1((3, 64, 64), 40, **THEIRS)
    torch.manual_seed(0)
    for module in network.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            weight = module.weight.detach().clone()
            module.reset_parameters()
            assert torch.equal(weight, module.weight)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_norm_momentum": 1.5}, "efficientnet-b1: batch_norm_momentum is 1.5, expected"),
        ({"batch_norm_eps": -1.0}, "efficientnet-b1: batch_norm_eps is -1.0, expected a number"),
        ({"padding": "valid"}, "padding is 'valid', expected symmetric or same"),
        ({"initialization": "he"}, "initialization is 'he', expected torchvision or pytorch"),
    ],
)
def test_other_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        efficientnet_b1((3, 32, 32), 2, **options)


def test_dropout_comes_before_the_last_layer() -> None:
    torch.manual_seed(0)
    network = build("efficientnet-b1", (3, 32, 32), 2, dropout=0.5, stochastic_depth=0)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.eval()
    x = images((3, 32, 32))
    dropped = network.body(x) == 0
    assert 0.4 < dropped.float().mean() < 0.6


torchvision = pytest.mark.skipif(
    find_spec("torchvision") is None,
    reason="torchvision is not installed: nothing to compare EfficientNet with",
)


def theirs(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    network: nn.Module = import_module("torchvision.models").efficientnet_b1(weights=None)
    return network


@torchvision
def test_one_seed_draws_the_weights_of_torchvision() -> None:
    reference = theirs(seed=5)
    torch.manual_seed(5)
    network = efficientnet_b1((3, 240, 240), 1000)
    assert size(network) == size(reference)
    mine, other = list(network.state_dict().values()), list(reference.state_dict().values())
    assert [t.shape for t in mine] == [t.shape for t in other]
    assert all(torch.equal(a, b) for a, b in zip(mine, other, strict=True))


@torchvision
@pytest.mark.parametrize("side", [64, 240])
def test_weights_of_torchvision_copied_by_position_score_alike(side: int) -> None:
    network, reference = efficientnet_b1((3, side, side), 1000).double(), theirs().double()
    unsettled(reference)
    copied = zip(network.state_dict(), reference.state_dict().values(), strict=True)
    network.load_state_dict(dict(copied))
    x = images((3, side, side)).double()
    with torch.no_grad():
        expected = reference.eval()(x)
        torch.testing.assert_close(network.eval()(x), expected, rtol=1e-7, atol=1e-7)
        torch.manual_seed(1)  # dropout and stochastic depth draw alike, too
        expected = reference.train()(x)
        torch.manual_seed(1)
        torch.testing.assert_close(network.train()(x), expected, rtol=1e-7, atol=1e-7)
