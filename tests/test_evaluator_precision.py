"""Evaluation in half precision: recorded, fused and screened, it predicts as float32 does."""

from __future__ import annotations

import copy
import json
import warnings
from itertools import cycle
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, get_args

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import parametrizations

import perdure
from perdure._devices import use_tf32
from perdure.evaluation.engine import screening
from perdure.evaluation.engine.forward_recorder import NotRecordableError, record
from perdure.evaluation.engine.half_precision import HalfPrecision, HalfPrecisionError
from perdure.evaluation.engine.inference import FusedConvolution, InferenceForward, RoundedWeights
from perdure.evaluation.engine.screening import MissedPredictionError
from perdure.evaluation.schedules import Precision
from perdure.evaluation.state.tensors import all_tensors
from perdure.models import build
from tests.evaluator_loops import CLASSES, FEATURES, alone, changed, data, watched

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SHAPES: dict[str, tuple[int, ...]] = {
    "mlp": (1, 6, 6), "resnet18-slim": (3, 16, 16), "zenke-conv": (3, 16, 16),
    "wide-vgg9": (3, 16, 16), "efficientnet-b1": (3, 32, 32),
}  # fmt: skip
OPTIONS: dict[str, dict[str, Any]] = {"resnet18-slim": {"filters": 5}, "wide-vgg9": {"width": 0.05}}


def settle(model: nn.Module, *shape: int) -> nn.Module:
    """Return the model in double precision, its running statistics other than 0 and 1."""
    model.double().train()
    with torch.no_grad():
        for _ in range(3):
            model(1 + 2 * torch.randn(8, *shape, dtype=torch.float64))
    return model.eval()


def repeat(model: nn.Module, x: Tensor, *others: object) -> tuple[Tensor, Tensor, InferenceForward]:
    """Return outputs from recorded operations, and the model's own, after its weights changed."""
    with torch.no_grad():
        recording, _ = record(lambda x: model(x, *others), x, all_tensors(model))
        forward = InferenceForward(recording)
        for tensor in all_tensors(model):
            if tensor.is_floating_point():
                tensor.mul_(1.1)
        inputs = forward.prepare(x, torch.float64)
        return forward.run(inputs, RoundedWeights(torch.float64)), model(x, *others), forward


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("heads", [None, [2, 3]])
def test_fused_layers_compute_what_every_model_does(name: str, heads: list[int] | None) -> None:
    torch.manual_seed(0)
    shape = SHAPES[name]
    network = build(name, shape, 5, heads=heads, **OPTIONS.get(name, {}))
    settle(network.body, *shape)
    network.double().eval()
    x = torch.randn(4, *shape, dtype=torch.float64)
    tasks = None if heads is None else torch.tensor([0, 1, 1, 0])
    found, expected, forward = repeat(network, x, tasks)
    assert torch.allclose(found, expected, rtol=1e-9, atol=1e-9)
    convolutions = [m for m in network.modules() if isinstance(m, nn.Conv2d)]
    fused = [step for step in forward._steps if isinstance(step, FusedConvolution)]
    assert len(fused) == len(convolutions)
    norms = [
        step for step in forward._steps if getattr(step, "function", 0) is functional.batch_norm
    ]
    assert norms == []


class Odd(nn.Module):
    """Two convolutions of five channels, and a forward pass of its own."""

    def __init__(self, forward: Callable[[Odd, Tensor], Tensor], **options: Any) -> None:
        super().__init__()
        self.a = nn.Conv2d(3, 5, 3, **{"padding": 1, **options})
        self.b = nn.Conv2d(5, 5, 3, padding=1, groups=options.get("groups", 1), bias=False)
        self.norm, self.other, self.first = nn.BatchNorm2d(5), nn.BatchNorm2d(5), nn.BatchNorm2d(3)
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.how = forward

    def forward(self, x: Tensor) -> Tensor:
        return self.how(self, x).flatten(1)


def overwritten(model: Odd, x: Tensor) -> Tensor:
    x = x * 1.0
    out = model.a(x)
    x.mul_(0)
    return torch.relu(model.norm(out)) + x.sum()


def summed_in_place(model: Odd, x: Tensor) -> Tensor:
    x = model.a(x)
    out = model.norm(model.b(x))
    out += x
    return functional.relu(out, inplace=True)


FORWARDS: dict[str, Callable[[Odd, Tensor], Tensor]] = {
    "plain": lambda m, x: m.other(m.b(m.norm(m.a(x)).relu())).relu_(),
    "no activation": lambda m, x: m.norm(m.a(x)),
    "before the norm": lambda m, x: m.norm(out := m.a(x)).relu() + out,
    "after the norm": lambda m, x: torch.relu(out := m.norm(m.a(x))) + out,
    "norm first": lambda m, x: m.b(m.norm(m.a(m.first(x).relu())).relu()),
    "shortcut": lambda m, x: (m.other(m.b(m.norm(m.a(x)).relu())) + m.a(x)).relu(),
    "twice itself": lambda m, x: (out := m.norm(m.a(x))).add(out).relu(),
    "scaled sum": lambda m, x: torch.add(m.a(x), m.b(m.a(x)), alpha=2).relu(),
    "broadcast sum": lambda m, x: (m.a(x) + m.a(x).mean((2, 3), keepdim=True)).relu(),
    "sum without ReLU": lambda m, x: m.norm(m.a(x)) + m.other(m.b(m.a(x))),
    "sum in place": summed_in_place,
    "input overwritten": overwritten,
    "pooled": lambda m, x: functional.max_pool2d(m.norm(m.a(x)).relu(), 2),
    "channels joined": lambda m, x: torch.cat([m.a(x), m.norm(m.a(x))], 1),
    "channels chosen": lambda m, x: m.norm(m.a(x))[:, 2:].softmax(1),
    "batch statistics": lambda m, x: functional.batch_norm(m.a(x), None, None, training=True),
    "times a weight": lambda m, x: m.norm(m.a(x) * m.scale).relu(),
    "by keywords": lambda m, x: functional.conv2d(input=x, weight=m.a.weight, stride=2).relu(),
    "same padding": lambda m, x: functional.conv2d(x, m.a.weight, padding="same").relu(),
}  # fmt: skip


@pytest.mark.parametrize("name", FORWARDS)
def test_forward_passes_of_every_kind_are_repeated(name: str) -> None:
    torch.manual_seed(1)
    model = settle(Odd(FORWARDS[name]), 3, 6, 6)
    found, expected, _ = repeat(model, torch.randn(4, 3, 6, 6, dtype=torch.float64))
    assert torch.allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_weights_that_are_computed_and_grouped_convolutions_are_repeated() -> None:
    torch.manual_seed(2)
    normed = Odd(FORWARDS["plain"])
    parametrizations.weight_norm(normed.a)
    grouped = nn.Sequential(
        nn.Conv2d(6, 12, 3, groups=6, bias=False),
        nn.BatchNorm2d(12),
        nn.ReLU(),
        nn.Conv2d(12, 5, 1),
    )
    for model, channels in ((normed, 3), (grouped, 6)):
        settle(model, channels, 6, 6)
        found, expected, _ = repeat(model, torch.randn(4, channels, 6, 6, dtype=torch.float64))
        assert torch.allclose(found, expected, rtol=1e-9, atol=1e-9)


UNRECORDABLE: dict[str, Callable[[Odd, Tensor], Tensor]] = {
    "a branch": lambda m, x: m.a(x) if x.sum() > 0 else m.a(-x),
    "a number": lambda m, x: m.a(x) * m.scale.item(),
    "a constant": lambda _, x: torch.zeros(len(x), 5),
}


@pytest.mark.parametrize("name", UNRECORDABLE)
def test_what_cannot_be_repeated_is_refused(name: str) -> None:
    model = Odd(UNRECORDABLE[name])
    with torch.no_grad(), pytest.raises(NotRecordableError):
        record(model, torch.randn(4, 3, 6, 6), all_tensors(model))


# Screening.


def make_convolutional() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, 2, FEATURES // 2)), nn.Conv2d(1, 5, 2), nn.BatchNorm2d(5), nn.ReLU(),
        nn.Flatten(), nn.Dropout(0.2), nn.Linear(10, CLASSES),
    )  # fmt: skip


@pytest.fixture
def fast_half(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Half precision seems to take no time; the list has the rows it evaluated."""
    rows, times = list[int](), cycle([0.0, 1.0, 1.0])  # before and after float32, after half
    monkeypatch.setattr(screening, "time", SimpleNamespace(perf_counter=lambda: next(times)))
    true = HalfPrecision.logits

    def logits(self: HalfPrecision, model: object, some: Any) -> Tensor:
        rows.append(len(some))
        return true(self, model, some)

    monkeypatch.setattr(HalfPrecision, "logits", logits)
    return rows


def scores(folder: Path, precision: Any, steps: int = 60) -> tuple[list[float], perdure.Evaluator]:
    """Return every score while a convolutional net is trained."""
    torch.manual_seed(0)
    model, tasks = make_convolutional(), data(rows=200)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    executor = perdure.Inline(precision=precision)
    with perdure.Evaluator(tasks, record=folder, executor=executor) as evaluator:
        for name in "ab":
            with evaluator.task(name, model):
                for _ in range(steps):
                    x, y = tasks[name]
                    rows = torch.randint(len(x), (16,))
                    optimizer.zero_grad()
                    functional.cross_entropy(model(x[rows]), y[rows]).backward()
                    optimizer.step()
                    evaluator.step(model)
    points = perdure.open_run(folder).points
    assert points is not None
    return points.score.tolist(), evaluator


def test_screened_predictions_are_those_of_float32(tmp_path: Path, fast_half: list[int]) -> None:
    plain, _ = scores(tmp_path / "plain", "float32")
    assert fast_half == []
    screened, evaluator = scores(tmp_path / "screened", "screened")
    assert screened == plain
    assert evaluator.notes == []
    assert len(fast_half) == 2 * 59  # all but the first evaluation of each task
    half, _ = scores(tmp_path / "half", "bfloat16")
    assert half != plain  # so that the equality above says something


def test_a_prediction_that_the_bound_missed_ends_screening(
    tmp_path: Path, fast_half: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(screening, "SAFETY_FACTOR", 1e-6)
    with pytest.warns(perdure.EvaluationWarning, match=r"half precision is off .* the bound"):
        scores(tmp_path / "screened", "screened")
    assert len(fast_half) < 2 * 59


@pytest.mark.parametrize(
    ("pool", "half", "full", "message"),
    [
        (object(), 6e-5, 2e-4, "takes 0.2 ms in full precision, and screening pays from 3 ms on"),
        (object(), 6e-3, 5e-3, r"not faster here \(6 ms, 2% of rows .* against 5 ms in full"),
        (None, 3e-4, 2e-4, r"not faster here \(0.3 ms, 2% of rows .* against 0.2 ms in full"),
    ],
)
def test_screening_that_does_not_pay_ends_with_the_reason(
    pool: Any, half: float, full: float, message: str
) -> None:
    precision: Any = SimpleNamespace(dtype=torch.float16)
    rows: Any = nn.Identity()  # anything that can be a key
    screened = screening.Screening(rows, precision, pool)
    bound: Any = SimpleNamespace(pays=True)
    screened._bounds[rows] = bound
    for _ in range(screening.MAX_SLOWER - 1):
        screened._decide(rows, half, full, 0.02)
        assert not bound.pays
    with pytest.raises(HalfPrecisionError, match=message):
        screened._decide(rows, half, full, 0.02)


@pytest.mark.parametrize(("error", "count"), [(HalfPrecisionError, 0), (MissedPredictionError, 1)])
def test_a_worker_repeats_only_that_it_missed_a_prediction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception], count: int
) -> None:
    """The training process evaluates too, and has said that half precision is off."""

    def fail(*_: object) -> None:
        raise error("it is not")

    monkeypatch.setattr(screening.Screening, "verify", fail)
    model, executor = make_convolutional(), perdure.Worker(precision="screened", verify_every=100)
    with (
        warnings.catch_warnings(record=True) as caught,
        perdure.Evaluator(
            data(), record=tmp_path, executor=executor, count_flops=False
        ) as evaluator,
        evaluator.task("a", model),
    ):
        warnings.simplefilter("always", perdure.EvaluationWarning)
        for step in range(6):
            evaluator.step(model)
            if step == 0:  # the worker starts here, and screens from its second evaluation on
                assert evaluator._engine.precision.disable()
    assert len(caught) == count, [str(warning.message) for warning in caught]


def test_outputs_that_overflow_are_uncertain_and_do_not_widen_the_bound() -> None:
    inf, nan = float("inf"), float("nan")
    full = torch.tensor([[5.0, 1.0, -inf], [5.0, 1.0, -inf], [70000.0, 1.0, 2.0], [4.0, 2.0, 1.0]])
    half = full + torch.tensor([0.01, -0.01, 0.0])
    half[2] = torch.tensor([inf, -inf, 2.0])
    bound = screening._ErrorBound(half, full)
    assert bound.ratio.item() == pytest.approx(screening.SAFETY_FACTOR * 0.02 / 4.01, rel=1e-3)
    assert bound.uncertain(half).tolist() == [False, False, True, False]
    broken = torch.tensor([[nan, 1.0, 0.0], [inf, inf, 0.0], [-inf, -inf, -inf], [1.0, 0.999, 0.0]])
    assert bound.uncertain(broken).all()


def test_plain_half_precision_is_that_of_a_model_in_half_precision(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(FEATURES, 50), nn.ReLU(), nn.Linear(50, CLASSES))
    x, y = data(rows=900)["a"]
    executor, weight = perdure.Inline(precision="bfloat16"), next(model.parameters())
    options: dict[str, Any] = {"subset": None, "count_flops": False, "executor": executor}
    with perdure.Evaluator({"a": (x, y)}, record=tmp_path, **options) as run, run.task("a", model):
        run.step(model)
        weight.data.mul_(1.01)
        run.step(model)
    with torch.no_grad():
        half: nn.Module = copy.deepcopy(model).bfloat16()
        outputs = half(x.bfloat16())
    points = perdure.open_run(tmp_path).points
    assert points is not None
    found = points.score[points.step == 2][0]
    assert found == (outputs.argmax(1) == y).double().mean().item()
    assert json.loads((tmp_path / "run.json").read_text())["evaluation"]["executor"] == {
        **executor.to_json(), "precision": "bfloat16",
    }  # fmt: skip


@pytest.mark.parametrize(
    "executor",
    [
        *(perdure.Inline(precision=precision) for precision in get_args(Precision)),
        perdure.Worker(precision="float16"),
        perdure.Worker(precision="screened", mode="latest"),
    ],
)
def test_training_is_untouched_in_every_precision(executor: Any) -> None:
    setting = {"executor": executor}
    assert not changed(watched(make_convolutional, setting), alone(make_convolutional))


def test_a_model_that_cannot_be_recorded_is_evaluated_in_float32(tmp_path: Path) -> None:
    class Branches(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x if x.sum() > 0 else -x)

    torch.manual_seed(0)
    model, (x, y) = Branches(FEATURES, CLASSES), data()["a"]
    executor = perdure.Inline(precision="float16")
    with (
        pytest.warns(perdure.EvaluationWarning, match=r"off from step 1 on: .* cannot be recorded"),
        perdure.Evaluator(
            {"a": (x, y)}, record=tmp_path, executor=executor, count_flops=False
        ) as evaluator,
        evaluator.task("a", model),
    ):
        evaluator.step(model)
    points = perdure.open_run(tmp_path).points
    assert points is not None
    with torch.no_grad():
        assert points.score[-1] == (model(x).argmax(1) == y).double().mean().item()


def test_precisions_that_do_not_exist_are_refused() -> None:
    with pytest.raises(ValueError, match=r"precision is .float8., expected auto or screened"):
        perdure.Inline(precision="float8")  # type: ignore[arg-type]


# PyTorch's settings.


def tf32_settings() -> tuple[str, str, str]:
    cudnn: Any = torch.backends.cudnn
    matmul: Any = torch.backends.cuda.matmul
    return cudnn.conv.fp32_precision, cudnn.rnn.fp32_precision, matmul.fp32_precision


@pytest.mark.skipif(not hasattr(torch.backends.cudnn, "conv"), reason="of PyTorch 2.9")
@pytest.mark.parametrize("newer", [False, True])
@pytest.mark.parametrize("enabled", [False, True])
def test_tf32_settings_are_restored_after_an_error(*, newer: bool, enabled: bool) -> None:
    cudnn: Any = torch.backends.cudnn
    before = tf32_settings()
    try:
        if newer:
            cudnn.conv.fp32_precision = "ieee"
        own = tf32_settings()
        context = use_tf32(enabled=enabled)
        context.__enter__()
        conv, _, matmul = tf32_settings()
        assert (conv == "tf32", matmul == "tf32") == (enabled, enabled)
        with pytest.raises(KeyError):
            context.gen.throw(KeyError)
        assert tf32_settings() == own
    finally:
        cudnn.conv.fp32_precision = before[0]
    assert tf32_settings() == before
    assert cudnn.allow_tf32  # it cannot be read where the two kinds of settings disagree
