"""The laws on a GPU: inline with a captured graph, on another stream, in half precision."""

from __future__ import annotations

import copy
import signal
import subprocess
import sys
import warnings
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

import perdure
from perdure.evaluation.engine.engine import Engine
from perdure.evaluation.engine.result_ring import MAX_BLOCKS, MAX_SLOTS
from perdure.models import build

from .evaluator_helpers import lines
from .language_models import Llama, pad, text, true_scores
from .language_models import loss as next_token_loss

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.cuda

TASKS, STEPS = 3, 24
MANY = (MAX_BLOCKS + 2) * MAX_SLOTS + 20  # more than a ring of results holds
KILLED = f"""
import os, signal, sys, torch, perdure
x, y = torch.randn(300, 20), torch.randint(2, (300,))
model = torch.nn.Linear(20, 2).cuda()
evaluator = perdure.Evaluator({{"a": (x, y)}}, record=sys.argv[1], count_flops=False)
with evaluator.task("a", model):
    for _ in range({MANY}):
        evaluator.step(model)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def make_data() -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    rng = torch.Generator().manual_seed(0)
    return {
        f"t{k}": (torch.randn(400, 20, generator=rng) + k, torch.randint(2, (400,), generator=rng))
        for k in range(TASKS)
    }


def make_model(kind: str = "bn") -> nn.Module:
    torch.manual_seed(1)
    middle: list[nn.Module] = [nn.BatchNorm1d(64)] if kind == "bn" else []
    layers = [nn.Linear(20, 64), *middle, nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 2)]
    return nn.Sequential(*layers).cuda()


def train(watch: dict[str, Any] | None, model: nn.Module | None = None, record: Any = None) -> Any:
    """Return everything that training leaves behind, and the evaluator."""
    data = make_data()
    model = model or make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    evaluator = None
    if watch is not None:
        evaluator = perdure.Evaluator(data, record=record, **{"subset": 150, **watch})
    torch.manual_seed(2)
    for name, (x, y) in data.items():
        x, y = x.cuda(), y.cuda()
        with evaluator.task(name, model) if evaluator else nullcontext():
            for _ in range(STEPS):
                rows = torch.randint(400, (32,), device="cuda")
                optimizer.zero_grad(set_to_none=False)
                cross_entropy(model(x[rows]), y[rows]).backward()
                optimizer.step()
                if evaluator:
                    evaluator.step(model)
    left = [*model.state_dict().values(), *(p.grad for p in model.parameters())]
    left += [s["momentum_buffer"] for s in optimizer.state.values()]
    left += [torch.get_rng_state(), torch.cuda.get_rng_state()]
    if evaluator:
        evaluator.close()
    return [tensor.cpu() for tensor in left], evaluator


def same(a: list[torch.Tensor], b: list[torch.Tensor]) -> bool:
    return len(a) == len(b) and all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


PLACES: dict[str, dict[str, Any]] = {
    "inline": {},
    "every third": {"every": 3},
    "burst": {"every": perdure.burst(first=4, then=6)},
    "stream": {"executor": perdure.Worker()},
    "stream, latest": {"executor": perdure.Worker(mode="latest")},
    "half precision": {"executor": perdure.Inline(precision="screened")},
    "float16": {"executor": perdure.Inline(precision="float16")},
    "tf32": {"executor": perdure.Inline(precision="tf32")},
    "resampled": {"subset": perdure.Subset(150, resample=True)},
    "not metered": {"count_flops": False},
}


@pytest.mark.parametrize("place", PLACES)
def test_training_is_untouched(place: str) -> None:
    with warnings.catch_warnings():
        if place == "half precision":  # such a small model is not faster in half precision
            warnings.simplefilter("ignore", perdure.EvaluationWarning)
        assert same(train(None)[0], train(PLACES[place])[0])


@pytest.mark.parametrize("place", ["inline", "stream"])
def test_results_are_those_of_a_plain_evaluation(place: str, tmp_path: Any) -> None:
    expected: list[tuple[int, str, float]] = []
    data = make_data()

    class Checked(perdure.Evaluator):
        def step(self, model: Any, *, replayed: bool = False) -> None:
            super().step(model, replayed=replayed)
            modes = [m.training for m in model.modules()]
            model.eval()
            with torch.no_grad():
                for name in self._lifecycle.trained_tasks:
                    task = self._tasks.sets[name]
                    x, y = data[name]
                    x, y = x[task.indices()], y[task.indices()]
                    score = (model(x.cuda()).argmax(1).cpu() == y).double().mean().item()
                    expected.append((self._lifecycle.step, name, score))
            for m, mode in zip(model.modules(), modes, strict=True):
                m.training = mode

    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    kind = perdure.Worker if place == "stream" else perdure.Inline
    with Checked(data, subset=150, record=tmp_path, executor=kind(verify_every=71)) as evaluator:
        for name, (x, y) in data.items():
            with evaluator.task(name):
                for k in range(MANY):
                    rows = slice(16 * k % 384, 16 * k % 384 + 16)
                    optimizer.zero_grad()
                    cross_entropy(model(x[rows].cuda()), y[rows].cuda()).backward()
                    optimizer.step()
                    evaluator.step(model)
    stream = perdure.open_run(tmp_path).points
    assert stream is not None
    probes = stream.kind == 1
    found = [
        (int(s), stream.names[t], float(v))
        for s, t, v in zip(
            stream.step[probes], stream.tested[probes], stream.score[probes], strict=True
        )
    ]
    assert [row[:2] for row in found] == [row[:2] for row in expected]
    assert [row[2] for row in found] == pytest.approx([row[2] for row in expected], abs=1e-9)
    assert evaluator.notes == []


def test_evaluation_is_captured_and_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    replays = []
    from perdure.evaluation.engine import cuda_graph as graph

    true = graph.EvalGraph.submit

    def submit(self: graph.EvalGraph, step: int) -> None:
        replays.append(1)
        true(self, step)

    monkeypatch.setattr(graph.EvalGraph, "submit", submit)
    train({})
    assert len(replays) >= TASKS * (STEPS - 10)


def test_a_killed_process_loses_at_most_what_is_on_its_way(tmp_path: Path) -> None:
    """A block that is filled and those being copied are lost; what was recorded is whole."""
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    assert done.returncode == -signal.SIGKILL
    points = perdure.open_run(tmp_path).points
    assert points is not None
    steps = points.step[points.kind == 1].tolist()
    assert steps == list(range(1, len(steps) + 1))
    assert MANY - (MAX_BLOCKS + 1) * MAX_SLOTS <= len(steps) <= MANY
    assert "wc_acc" in perdure.score(tmp_path).metrics


class Syncs(nn.Sequential):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = super().forward(x)  # type: ignore[no-untyped-call]
        return out if out.abs().max().item() < 1e9 else out * 0  # waits for the GPU


def test_what_cannot_be_captured_is_tested_eagerly_and_said_once() -> None:
    def model() -> nn.Module:
        return Syncs(*make_model().children())

    with pytest.warns(perdure.EvaluationWarning, match="no CUDA graph") as said:
        watched, evaluator = train({}, model())
    assert len([w for w in said if "CUDA graph" in str(w.message)]) == 1
    assert same(train(None, model())[0], watched)
    assert len(evaluator.summary().metrics) > 20


class Switched(nn.Sequential):
    sign = 1.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = super().forward(x)  # type: ignore[no-untyped-call]
        return out * self.sign


def test_audit_notices_state_that_a_graph_does_not_see() -> None:
    data = make_data()
    model = Switched(*make_model().children())

    def watch() -> None:
        with (
            perdure.Evaluator(
                {"t0": data["t0"]}, executor=perdure.Inline(verify_every=5), count_flops=False
            ) as evaluator,
            evaluator.task("t0"),
        ):
            for k in range(20):
                model.sign = 1.0 if k < 8 else -1.0
                evaluator.step(model)

    with pytest.warns(perdure.EvaluationWarning, match="differ"):
        watch()


def test_screening_gives_the_answers_of_full_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    from perdure.evaluation.engine import screening

    monkeypatch.setattr(screening, "MAX_SLOWER", 10**9)  # for the answers, not for the speed
    told: list[list[Any]] = [[], []]
    true = Engine.collect_here
    settings: list[Any] = ["float32", "screened"]
    for k, screen in enumerate(settings):

        def collect(self: Engine, *, wait: bool = False, k: int = k) -> Any:
            done = true(self, wait=True)
            told[k] += [d.values for d in done]
            return done

        with monkeypatch.context() as patch:
            patch.setattr(Engine, "collect_here", collect)
            train({"executor": perdure.Inline(precision=screen)})
    assert len(told[0]) == len(told[1]) == TASKS * STEPS
    wrong = sum(int((a != b).sum()) for a, b in zip(*told, strict=True))
    assert wrong == 0


def train_convolutions(precision: Any) -> tuple[list[torch.Tensor], list[Any], list[str]]:
    """Return the weights, the results of every evaluation and the notes."""
    torch.manual_seed(0)
    rng = torch.Generator().manual_seed(1)
    y = torch.randint(5, (3000,), generator=rng)
    x = torch.randn(3000, 3, 16, 16, generator=rng) + 0.3 * torch.randn(5, 3, 16, 16)[y]
    model = build("resnet18-slim", (3, 16, 16), 5).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    results: list[Any] = []
    collect = Engine.collect_here

    def collect_all(self: Engine, *, wait: bool = False) -> Any:
        done = collect(self, wait=True)
        results.extend(each.values for each in done)
        return done

    options: dict[str, Any] = {"executor": perdure.Inline(precision=precision), "subset": None}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Engine, "collect_here", collect_all)
        patch.setattr(torch.backends.cudnn, "deterministic", True)
        with perdure.Evaluator({"a": (x, y)}, **options) as evaluator, evaluator.task("a", model):
            for k in range(60):
                rows = slice(50 * k, 50 * k + 50)
                optimizer.zero_grad()
                cross_entropy(model(x[rows].cuda()), y[rows].cuda()).backward()
                optimizer.step()
                evaluator.step(model)
    return [weight.cpu() for weight in model.state_dict().values()], results, evaluator.notes


def test_convolutions_are_screened_and_predict_as_float32_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from perdure.evaluation.engine import screening

    monkeypatch.setattr(screening, "MIN_SECONDS", 0.0)
    screened, true = [], screening.Screening.values

    def values(self: Any, *arguments: Any) -> torch.Tensor:
        screened.append(1)
        return true(self, *arguments)

    monkeypatch.setattr(screening.Screening, "values", values)
    plain = train_convolutions("float32")
    assert screened == []
    auto = train_convolutions("auto")
    assert len(screened) > 30
    assert same(plain[0], auto[0])
    assert len(plain[1]) == len(auto[1]) == 60
    assert all((a == b).all() for a, b in zip(plain[1], auto[1], strict=True))
    assert auto[2] == []
    half = train_convolutions("float16")
    assert same(plain[0], half[0])
    assert any((a != b).any() for a, b in zip(plain[1], half[1], strict=True))


def test_float32_does_not_mean_tf32() -> None:
    """PyTorch uses TF32 for convolutions unless it is told not to."""
    model = nn.Sequential(nn.Conv2d(64, 64, 3), nn.Flatten(), nn.Linear(64 * 36, 10)).cuda()
    x, found = torch.randn(500, 64, 8, 8), {}
    precisions: list[Any] = ["float32", "tf32"]
    for precision in precisions:
        seen: list[torch.Tensor] = []
        hook = model.register_forward_hook(lambda _, __, out, seen=seen: seen.append(out.clone()))
        executor = perdure.Inline(precision=precision)
        data = {"a": (x, torch.zeros(500, dtype=torch.long))}
        options: dict[str, Any] = {"executor": executor, "initial": "none", "count_flops": False}
        with perdure.Evaluator(data, **options) as evaluator, evaluator.task("a", model):
            evaluator.step(model)
        hook.remove()
        exact = copy.deepcopy(model).cpu().double()(x.double())
        found[precision] = (seen[0].cpu().double() - exact).abs().max().item()
    assert found["float32"] < 1e-5 < found["tf32"]


def test_batches_are_halved_until_they_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    from perdure.evaluation.engine import scoring

    true = scoring.Scorer._batch_values

    def small(self: Any, model: Any, rows: Any, at: slice, *rest: Any) -> torch.Tensor:
        if at.stop - at.start > 100:
            raise torch.OutOfMemoryError("too large")
        return true(self, model, rows, at, *rest)

    plain = train({"count_flops": False})[1].summary().metrics
    monkeypatch.setattr(scoring.Scorer, "_batch_values", small)
    assert train({"count_flops": False})[1].summary().metrics == plain


class Draws(nn.Sequential):
    """Drops out in both modes, as Monte Carlo dropout does."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = super().forward(x)  # type: ignore[no-untyped-call]
        return torch.nn.functional.dropout(out, 0.5, training=True)


@pytest.mark.parametrize("kind", [perdure.Inline, perdure.Worker])
def test_a_forward_that_draws_is_not_replayed(kind: Any) -> None:
    with pytest.warns(perdure.EvaluationWarning, match="draws random numbers"):
        watched, _ = train({"executor": kind(verify_every=1000)}, Draws(*make_model().children()))
    assert same(train(None, Draws(*make_model().children()))[0], watched)


def test_a_score_that_trains_leaves_batch_norm_alone() -> None:
    def score(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.eq(model.train()(x).argmax(1), y)

    scale = perdure.ScoreScale()
    with pytest.warns(perdure.EvaluationWarning, match="no CUDA graph"):
        watched, _ = train({"score": perdure.Score(score, scale)})
    assert same(train(None)[0], watched)


def test_audit_notices_state_that_a_copy_does_not_have() -> None:
    data = make_data()
    model = Switched(*make_model().children())

    def watch() -> None:
        with (
            perdure.Evaluator(
                {"t0": data["t0"]}, count_flops=False, executor=perdure.Worker(verify_every=5)
            ) as evaluator,
            evaluator.task("t0"),
        ):
            for k in range(20):
                model.sign = 1.0 if k < 8 else -1.0
                evaluator.step(model)

    with pytest.warns(perdure.EvaluationWarning, match="differ"):
        watch()


@pytest.mark.parametrize("executor", [perdure.Inline(), perdure.Worker()], ids=["inline", "stream"])
@pytest.mark.parametrize("name", ["perplexity", "token_accuracy", "exact_match"])
def test_scores_of_tokens(tmp_path: Path, name: Any, executor: Any) -> None:
    """A language model in a captured graph and on another stream, against a loop over tokens."""
    examples = text(0, count=30)
    torch.manual_seed(0)
    model = Llama().cuda()
    optimizer, copies = torch.optim.Adam(model.parameters(), 0.02), {}
    batch = {key: value.cuda() for key, value in pad(examples).items()}
    with (
        perdure.Evaluator(
            {"a": perdure.EvalTask(examples, collate=pad)}, score=name, executor=executor,
            record=tmp_path, count_flops=False,
        ) as evaluator,
        evaluator.task("a", model),
    ):  # fmt: skip
        for step in range(1, 9):
            optimizer.zero_grad()
            next_token_loss(model, batch).backward()
            optimizer.step()
            evaluator.step(model)
            copies[step] = copy.deepcopy(model)
    assert evaluator.notes == []  # the graph was captured
    probes = [line for line in lines(tmp_path) if line.kind == "probe"]
    assert [line.step for line in probes] == list(copies)
    for line in probes:
        expected = true_scores(copies[line.step], examples)[name]
        assert line.score == pytest.approx(expected, rel=1e-4)
