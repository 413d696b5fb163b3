"""The first law: after every step, training is bit for bit what it is without an evaluator."""

from __future__ import annotations

import random
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - as everyone writes it

import perdure

from .evaluator_loops import (
    ROWS,
    SETTINGS,
    State,
    alone,
    batch_of,
    changed,
    data,
    read,
    seeded,
    state_of,
    train,
    watched,
)
from .evaluator_models import MODELS, Body, Counting, normed
from .language_models import llama, pad, text
from .language_models import loss as next_token_loss

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TRIED = [
    *((model, setting) for model in MODELS for setting in ("every step", "worker, one slot")),
    *((model, setting) for model in ("batch norm", "tied", "noisy") for setting in SETTINGS),
]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("model", "setting"), dict.fromkeys(TRIED))
def test_training_is_untouched(model: str, setting: str) -> None:
    found = watched(MODELS[model], SETTINGS[setting], train_data=ROWS)
    assert not changed(found, alone(MODELS[model]))


@pytest.mark.parametrize("setting", SETTINGS)
def test_tensors_stay_the_same_objects_in_the_same_places(setting: str) -> None:
    model = Counting()
    before = [(id(t), t.data_ptr()) for t in (*model.parameters(), *model.buffers())]
    watched(lambda: model, SETTINGS[setting], train_data=ROWS)
    assert [(id(t), t.data_ptr()) for t in (*model.parameters(), *model.buffers())] == before


@pytest.mark.parametrize("model", ["batch norm", "tied", "noisy gradient", "checkpointed"])
def test_recording_gradient_norms_changes_nothing(model: str) -> None:
    assert not changed(watched(MODELS[model], {}, norms=True), alone(MODELS[model]))


half = partial(torch.autocast, "cpu", torch.bfloat16)
LOOPS: dict[str, dict[str, Any]] = {
    "adam": {"optimizer": torch.optim.Adam},
    "adamw": {"optimizer": partial(torch.optim.AdamW, amsgrad=True)},
    "accumulated": {"accumulate": 3},
    "autocast forward": {"forward": half},
    "autocast loop": {"around": half},
    "autocast without cache": {"around": partial(half, cache_enabled=False)},
    "gradients on": {"around": partial(torch.set_grad_enabled, mode=True)},
    "gradients on in the forward": {"around": torch.no_grad, "forward": torch.enable_grad},
    "a task again": {"order": "aaba"},
}


@pytest.mark.parametrize("setting", ["every step", "worker, one slot"])
@pytest.mark.parametrize("loop", LOOPS)
def test_any_loop_is_untouched(loop: str, setting: str) -> None:
    found = watched(normed, SETTINGS[setting], train_data=ROWS, **LOOPS[loop])
    assert not changed(found, alone(normed, **LOOPS[loop]))


def test_a_stream_without_boundaries_is_untouched() -> None:
    def run(evaluator: perdure.Evaluator | None) -> list[State]:
        seeded()
        model = normed()
        optimizer = torch.optim.SGD(model.parameters(), 0.3)
        states = []
        for name in "abab":
            x, y = batch_of(*data()[name])
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            if evaluator:
                evaluator.step(model)
            states.append(state_of(model, optimizer))
        return states

    with perdure.Evaluator(data()) as evaluator:
        assert not changed(run(evaluator), run(None))
    assert evaluator.live.step == 4


def noisy_pad(examples: list[Any]) -> Any:
    """Collate as usual, and draw from every global generator on the way."""
    random.random(), np.random.rand(), torch.rand(3)  # noqa: NPY002
    return pad(examples)


class Distinct:
    """The share of the vocabulary that is predicted somewhere: no mean over examples."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.share, self.seen = 0.0, set[int]()

    def update(self, outputs: Tensor, labels: Tensor) -> None:
        self.seen |= set(outputs.argmax(-1).flatten().tolist())
        self.share = len(self.seen) / outputs.shape[-1]

    def compute(self) -> float:
        return self.share


SCORES: dict[str, Any] = {
    "nll": "nll",
    "perplexity": perdure.Score("perplexity", shift=True),
    "token_accuracy": "token_accuracy",
    "exact_match": "exact_match",
    "metric": perdure.Score(metric=Distinct()),
}


@pytest.mark.parametrize("setting", ["every step", "worker, one slot"])
@pytest.mark.parametrize("score", SCORES)
def test_a_language_model_is_untouched(score: str, setting: str, tmp_path: Path) -> None:
    """Text of unequal lengths, padded by a function that draws; a run that is resumed later."""
    texts = {name: text(k) for k, name in enumerate("ab")}

    def run(evaluator: perdure.Evaluator | None) -> list[State]:
        seeded()
        model, states = llama(), []
        optimizer = torch.optim.AdamW(model.parameters(), 0.01)
        for name, examples in texts.items():
            with evaluator.task(name, model) if evaluator else nullcontext():
                for _ in range(3):
                    optimizer.zero_grad()
                    next_token_loss(model, noisy_pad(random.sample(examples, 5))).backward()
                    optimizer.step()
                    if evaluator:
                        evaluator.step(model)
                    states.append(state_of(model, optimizer))
        return states

    tasks = {name: perdure.EvalTask(own, collate=noisy_pad) for name, own in texts.items()}
    options = {"every": 1, **SETTINGS[setting], "score": SCORES[score], "subset": 9}
    record = perdure.Record(tmp_path, resume="later")
    with perdure.Evaluator(tasks, record=record, **options) as evaluator:
        assert not changed(run(evaluator), run(None))
    assert len(read(tmp_path).steps) == (0 if score == "metric" else 6)


COMPILED: list[Any] = []


def bent(graph: Any, _inputs: Any) -> Callable[..., Any]:
    """Compile to other bits than eager, so that a step that runs uncompiled shows."""
    COMPILED.append(graph)
    return lambda *inputs: tuple(out * (1 + 2**-10) for out in graph(*inputs))


class Partly(Body):
    """Calls a function that is compiled, and is not compiled itself."""

    def __init__(self) -> None:
        super().__init__()
        self.bend = torch.compile(torch.tanh, backend=bent)

    def forward(self, x: Tensor) -> Any:
        return self.bend(self.body(x))


def wrapped(model: nn.Module, backend: Any) -> Any:
    return torch.compile(model, backend=backend)


def in_place(model: nn.Module, backend: Any) -> nn.Module:
    model.compile(backend=backend)
    return model


@pytest.mark.one_in(2)
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")  # dynamo looks at it
@pytest.mark.parametrize(
    "setting", ["no meter", "every step", "half precision", "worker, one slot"]
)
@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: wrapped(Counting(), bent), id="wrapped"),
        pytest.param(lambda: in_place(Counting(), bent), id="in place"),
        pytest.param(Partly, id="partly"),
        pytest.param(lambda: wrapped(normed(), "aot_eager"), id="aot_eager"),
    ],
)
def test_compiled_models_are_untouched_and_stay_compiled(
    make: Callable[[], nn.Module], setting: str
) -> None:
    def afresh() -> int:
        """Forget what was compiled, as a new process would, and return how much that was."""
        compiled = len(COMPILED)
        COMPILED.clear()
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        return compiled

    afresh()
    expected = train(make)
    compiled = afresh()
    assert not changed(watched(make, SETTINGS[setting], train_data=ROWS), expected)
    assert afresh() == compiled
