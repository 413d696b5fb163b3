"""Metrics of whole sets, and functions that return booleans: against a plain computation."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor, distributed, nn

import perdure
from perdure import Evaluator, Inline, Score, ScoreScale, Worker

from .evaluator_helpers import accuracy, learn, lines, net, rows, sets, watch
from .language_models import llama, pad, text

if TYPE_CHECKING:
    from pathlib import Path

PLAN = [("a", 3), ("b", 2)]


def macro_f1(outputs: Tensor, labels: Tensor) -> float:
    """Return the F1 score of three classes, averaged, from counts."""
    found, total = outputs.argmax(1).tolist(), 0.0
    for k in range(3):
        pairs = [(p == k, int(t) == k) for p, t in zip(found, labels, strict=True)]
        hits = sum(p and t for p, t in pairs)
        total += 2 * hits / max(1, sum(p for p, _ in pairs) + sum(t for _, t in pairs))
    return total / 3


class F1:
    """The same as an object in the manner of torchmetrics, which counts as it goes."""

    higher_is_better = True

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.reset()

    def reset(self) -> None:
        self.calls.append("reset")
        self.hits, self.sizes = torch.zeros(3), torch.zeros(3)

    def update(self, outputs: Tensor, labels: Tensor) -> None:
        self.calls.append(f"update {len(labels)}")
        for k in range(3):
            found, true = outputs.argmax(1) == k, labels == k
            self.hits[k] += (found & true).sum()
            self.sizes[k] += found.sum() + true.sum()

    def compute(self) -> Tensor:
        self.calls.append("compute")
        return (2 * self.hits / self.sizes.clamp_min(1)).mean()


@pytest.mark.parametrize("executor", [Inline(batch_size=8), Worker()], ids=["inline", "worker"])
@pytest.mark.parametrize("metric", [macro_f1, F1()], ids=["function", "object"])
def test_a_metric_of_whole_sets_at_task_ends(tmp_path: Path, metric: Any, executor: Any) -> None:
    data = sets("ab", 30)
    score = Score(metric=metric, scale=ScoreScale(0, 1))
    with Evaluator(data, score=score, subset=5, executor=executor, record=tmp_path) as evaluator:
        copies = watch(evaluator, net(), PLAN)
    recorded = lines(tmp_path)
    assert [line[:4] for line in recorded] == [
        (0, "a", "a", "initial"), (3, "a", "a", "full"), (3, "b", "b", "initial"),
        (5, "b", "a", "full"), (5, "b", "b", "full"),
    ]  # fmt: skip
    for line in recorded:
        x, y = data[line.tested]
        with torch.no_grad():
            expected = macro_f1(copies[line.step].eval()(x), y)
        assert line.score == pytest.approx(expected)
        assert line.n == len(y)
    assert not (tmp_path / "per_example").exists()
    described = json.loads((tmp_path / "run.json").read_text())
    assert described["scale"]["name"] == ("macro_f1" if metric is macro_f1 else "F1")
    assert evaluator.summary().metrics["acc"] == pytest.approx(
        sum(line.score for line in recorded if line.step == 5) / 2
    )


def test_a_metric_object_is_passed_one_batch_at_a_time() -> None:
    metric, model = F1(), net()
    score, executor = Score(metric=metric), Inline(batch_size=8)
    evaluator = Evaluator({"a": rows(21)}, score=score, executor=executor, count_flops=False)
    metric.calls.clear()
    evaluator.begin("a", model)
    assert metric.calls == ["reset", "update 8", "update 8", "update 5", "compute", "reset"]


def test_a_metric_of_numbers_whose_errors_count(tmp_path: Path) -> None:
    class Squared(F1):
        higher_is_better = False

        def update(self, outputs: Tensor, labels: Tensor) -> None:
            self.hits[0] += (outputs - labels).square().sum()
            self.sizes[0] += len(labels)

        def compute(self) -> Tensor:
            return self.hits[0] / self.sizes[0]

    x, _ = rows()
    y, model = x.sum(1), nn.Sequential(nn.Linear(4, 1), nn.Flatten(0))
    score = Score(metric=Squared())
    evaluator = Evaluator({"a": (x, y)}, score=score, record=tmp_path, count_flops=False)
    evaluator.begin("a", model)
    evaluator.flush()
    assert evaluator.live.scale.lower_is_better
    with torch.no_grad():
        expected = float((model(x) - y).square().mean())
    assert lines(tmp_path)[0].score == pytest.approx(expected)


def test_what_a_metric_cannot_do(monkeypatch: pytest.MonkeyPatch) -> None:
    score = Score(metric=macro_f1)
    for every in (2, "10%", perdure.burst(first=2, then=3)):
        with pytest.raises(ValueError, match=r"no effect next to Score\(metric=…\).*task ends"):
            Evaluator({"a": rows()}, score=score, every=every)
    with pytest.raises(ValueError, match=r"alarm='min_acc < 0.5' has no effect next to Score"):
        Evaluator({"a": rows()}, score=score, alarm="min_acc < 0.5")
    with pytest.raises(RuntimeError, match=r"Score\(metric=…\) .* evaluator.task"):
        Evaluator({"a": rows()}, score=score, count_flops=False).step(net())
    for wrong, words in [(F1, "metric is <class"), (3, "metric is 3"), (len, "function of")]:
        with pytest.raises(TypeError, match=words):
            Score(metric=wrong)
    with pytest.raises(ValueError, match="a function and a metric"):
        Score(max, metric=macro_f1)
    with pytest.raises(ValueError, match="metric of task 'a' is nan"):
        Evaluator({"a": rows()}, score=Score(metric=lambda outputs, labels: float("nan"))).begin(
            "a", net()
        )
    metric: Any = F1()
    metric.sync_on_compute = True
    monkeypatch.setattr(distributed, "is_initialized", lambda: True)
    with pytest.raises(ValueError, match=r"wait for the other processes.*sync_on_compute=False"):
        Evaluator({"a": rows()}, score=Score(metric=metric), count_flops=False).begin("a", net())


# Booleans


def is_right(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return torch.as_tensor(model(x).argmax(1) == y)


def test_booleans_are_accuracies(tmp_path: Path) -> None:
    """Everything but the name is what the default score leaves."""
    data = sets("ab", 40)
    found = {}
    for name, score in (("default", None), ("own", is_right)):
        with Evaluator(data, score=score, record=tmp_path / name, subset=20) as evaluator:
            watch(evaluator, net(), PLAN)
        summary = evaluator.summary()
        found[name] = summary.metrics, summary.undefined, summary.intervals
        assert evaluator.live.scale == ScoreScale(0, 1)
    assert found["own"] == found["default"]
    assert lines(tmp_path / "own") == lines(tmp_path / "default")
    files = [
        {path.name: path.read_bytes() for path in (tmp_path / name / "per_example").iterdir()}
        for name in found
    ]
    assert files[0] == files[1]
    scale = json.loads((tmp_path / "own" / "run.json").read_text())["scale"]
    assert scale == {"low": 0, "high": 1, "lower_is_better": False, "name": "is_right"}


def test_booleans_of_a_run_that_is_resumed_are_accuracies_at_once(tmp_path: Path) -> None:
    data, model = {"a": rows()}, net()
    evaluator = Evaluator(data, score=is_right, record=tmp_path, count_flops=False)
    evaluator.step(model)
    state = evaluator.state_dict()
    evaluator.close(finished=False)
    record = perdure.Record(tmp_path, resume=state)
    with Evaluator(data, score=is_right, record=record, count_flops=False) as resumed:
        assert resumed.live.scale.is_accuracy
        assert json.loads((tmp_path / "run.json").read_text())["scale"]["high"] == 1


def test_a_direction_or_range_that_was_stated_stays(tmp_path: Path) -> None:
    score = Score(lambda m, x, y: ~is_right(m, x, y), lower_is_better=True, name="errors")
    data, model = {"a": rows()}, net().eval()
    with Evaluator(data, score=score, record=tmp_path, count_flops=False) as evaluator:
        evaluator.step(model)
    assert evaluator.live.scale.lower_is_better
    assert lines(tmp_path)[0].score == pytest.approx(1 - accuracy(model, *data["a"]))


# Out of memory


class Limited(nn.Module):
    """Has no room for more than three rows, and none for any while `broken`."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.net, self.error, self.seen = net(), error, list[int]()

    def forward(self, x: Tensor) -> Any:
        self.seen.append(len(x))
        if len(x) > 3:
            raise self.error
        return self.net(x)


ALLOCATOR = (
    "[enforce fail at alloc_cpu.cpp:121] err == 0. DefaultCPUAllocator: can't allocate memory: you "
    "tried to allocate 137438953472 bytes. Error code 12 (Cannot allocate memory)"
)


SCORES = [None, is_right, Score(metric=macro_f1)]


@pytest.mark.parametrize("score", SCORES, ids=["accuracy", "function", "metric"])
@pytest.mark.parametrize("error", [RuntimeError(ALLOCATOR), MemoryError()], ids=["torch", "numpy"])
def test_batches_are_halved_until_they_fit(tmp_path: Path, error: Exception, score: Any) -> None:
    model, data = Limited(error), {"a": rows(21)}
    with Evaluator(data, record=tmp_path, score=score, count_flops=False) as evaluator:
        with evaluator.task("a", model):
            learn(model.net)
            evaluator.step(model)
        evaluator.close(finished=False)
    last = lines(tmp_path)[-1]
    if score is None or score is is_right:
        assert last.score == accuracy(model.net, *data["a"])
    assert model.seen[:4] == [21, 11, 6, 3]
    assert set(model.seen[4:]) == {3}


def test_other_errors_are_not_taken_for_too_little_memory() -> None:
    model = Limited(RuntimeError("something else"))
    with pytest.raises(RuntimeError, match="something else"):
        Evaluator({"a": rows(21)}, count_flops=False).step(model)
    assert model.seen == [21]


def test_a_function_of_outputs_of_unequal_lengths_is_refused_with_the_fix() -> None:
    task = perdure.EvalTask(text(1), collate=pad)
    with (
        Evaluator({"a": task}, score=Score(metric=lambda outputs, labels: 0.5)) as evaluator,
        pytest.raises(ValueError, match=r"'a' have the shapes .* use a metric with update\(\)"),
    ):
        evaluator.begin("a", llama())
