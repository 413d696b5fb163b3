"""The first law over layers and our models on a GPU; `pytest tests/test_cuda*.py` runs them all."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor, nn

from perdure.evaluation.costs.flops import FlopCounter
from perdure.models import MODELS

from .evaluator_layers import LAYERS, pictures, shipped
from .evaluator_loops import ROWS, changed, data, train, watched

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Tasks = Mapping[str, tuple[Tensor, Tensor]]

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.filterwarnings("default"),  # kernels warn of what they are; bits are what counts
]


def on_gpu(make: Callable[[], nn.Module]) -> nn.Module:
    return make().cuda()


def check(make: Callable[[], nn.Module], tasks: Tasks, **how: Any) -> None:
    """Train twice without an evaluator and once with one; its default settings."""
    here = partial(on_gpu, make)
    how["tasks"] = {name: (x.cuda(), y.cuda()) for name, (x, y) in tasks.items()}
    plain = train(here, **how)
    if again := changed(train(here, **how), plain):
        pytest.skip(f"training differs from itself without an evaluator: {', '.join(again[:2])}")
    assert not changed(watched(here, {"tasks": tasks}, train_data=ROWS, **how), plain)


# PyTorch keeps the state of cuDNN's dropout for the whole process: one that was made in inference
# mode cannot be used for training any more, with or without an evaluator.
LAST = "dropout in inference mode"


@pytest.mark.parametrize("name", [name for name in LAYERS if name != LAST])
def test_training_is_untouched(name: str) -> None:
    check(LAYERS[name], data())


ATTENDING = [name for name in LAYERS if "ttention" in name or name in ("LLaMA", "LSTM", "GRU")]


@pytest.mark.parametrize("name", ATTENDING)
def test_training_in_half_precision_is_untouched(name: str) -> None:
    """Attention has other kernels there."""
    check(LAYERS[name], data(), forward=partial(torch.autocast, "cuda", torch.bfloat16))


@pytest.mark.parametrize("name", sorted(set(MODELS) - {"embedding-bag"}))
def test_training_of_our_models_is_untouched(name: str) -> None:
    check(partial(shipped, name), pictures(), steps=2)


@pytest.mark.parametrize("options", [{}, {"num_layers": 2}, {"bidirectional": True}])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_a_recurrent_layer_in_cudnn_counts_as_its_parts_do(
    kind: Callable[..., nn.Module], options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, counts = kind(16, 16, batch_first=True, **options).cuda(), []
    states = options.get("num_layers", 1) * (2 if "bidirectional" in options else 1)
    for enabled in (True, False):
        monkeypatch.setattr(torch.backends.cudnn, "enabled", enabled)
        x = torch.ones(3, 8, 16, device="cuda", requires_grad=True)
        h, c = (torch.ones(states, 3, 16, device="cuda", requires_grad=True) for _ in range(2))
        with FlopCounter() as flops:
            model(x, (h, c) if kind is nn.LSTM else h)[0].sum().backward()
        counts.append(flops.total)
    assert counts[0] == counts[1] > 0


@pytest.mark.parametrize("name", ["attention", "LLaMA", "LSTM", "GRU", "MultiheadAttention"])
def test_a_forward_in_inference_mode_counts_as_one_without(name: str) -> None:
    model, counts = LAYERS[name]().cuda(), []
    x = data()["a"][0].cuda()
    for mode in (torch.no_grad(), torch.inference_mode(), nullcontext()):
        with mode, FlopCounter() as flops:
            model(x)
        counts.append(flops.total)
    assert counts[0] == counts[1] == counts[2] > 0
