"""How rows are scored: accuracy, scores of one's own, heads, masks and maps, by hand."""

from __future__ import annotations

import copy
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from perdure import EvalTask, Evaluator, Inline, Score, ScoreScale

from .evaluator_helpers import (
    accuracy,
    check_scores,
    expected_lines,
    keys,
    learn,
    lines,
    net,
    rows,
    sets,
    subsets,
    watch,
)

if TYPE_CHECKING:
    from pathlib import Path

PLAN = [("a", 4), ("b", 3), ("c", 2)]


def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return cross_entropy(model(x), y, reduction="none")


def mean_loss(model: nn.Module, x: Tensor, y: Tensor) -> float:
    mine = copy.deepcopy(model).eval()
    with torch.no_grad():
        each = [float(cross_entropy(mine(x[k : k + 1]), y[k : k + 1])) for k in range(len(y))]
    return sum(each) / len(each)


def test_a_loss_at_every_step(tmp_path: Path) -> None:
    data = sets()
    kwargs: dict[str, Any] = {
        "score": Score(loss, lower_is_better=True),
        "subset": 9,
        "executor": Inline(batch_size=4),
    }
    with Evaluator(data, record=tmp_path, count_flops=False, **kwargs) as evaluator:
        copies = watch(evaluator, net(), PLAN)
        live = (evaluator.live.min_acc, evaluator.live.wc_acc, dict(evaluator.live.wf))
    assert keys(tmp_path) == expected_lines(PLAN, lambda *_: True)
    assert not (tmp_path / "per_example").exists()  # values are no hits
    whole = [line for line in lines(tmp_path) if line.kind == "full"]
    assert whole
    for line in whole:
        x, y = data[line.tested]
        assert line.score == pytest.approx(mean_loss(copies[line.step], x, y), rel=1e-5)
    found = evaluator.summary()
    assert live[0] == pytest.approx(found.metrics["min_acc"])  # the highest loss since
    assert live[1] == pytest.approx(found.metrics["wc_acc"])
    assert live[2][10] == pytest.approx(found.metrics["wf10"])
    assert "clscore" in found.undefined
    worst = {
        task: max(line.score for line in lines(tmp_path) if line.tested == task and line.step > end
                  and line.kind == "probe")
        for task, end in [("a", 4), ("b", 7)]
    }  # fmt: skip
    assert found.metrics["min_acc"] == pytest.approx(sum(worst.values()) / 2)


def test_a_score_is_given_the_task_if_it_asks(tmp_path: Path) -> None:
    data = sets()
    asked: list[tuple[str, int]] = []

    def score(model: nn.Module, x: Tensor, y: Tensor, *, task: str) -> Tensor:
        asked.append((task, len(y)))
        return (x[:, 0] > 0).float() * (ord(task) - ord("a") + 1)

    with Evaluator(data, record=tmp_path, score=Score(score, ScoreScale(0, 5))) as evaluator:
        watch(evaluator, net(), PLAN)
    assert keys(tmp_path) == expected_lines(PLAN, lambda *_: True)
    for line in lines(tmp_path):
        x, _ = data[line.tested]
        mine = float((x[:, 0] > 0).double().mean()) * (ord(line.tested) - ord("a") + 1)
        assert line.score == pytest.approx(mine)
    assert {task for task, _ in asked} == set("abc")


def test_labels_of_other_shapes_go_by_themselves(tmp_path: Path) -> None:
    x, _ = rows()
    data = {"a": (x, x[:, 0]), "b": (x, x[:, :2]), "c": (x, x[:, :2] + 1)}

    def score(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return y.reshape(len(y), -1).sum(1)

    with Evaluator(data, record=tmp_path, score=score, unseen=True, count_flops=False) as evaluator:
        watch(evaluator, net(), [("a", 2)])
    for line in lines(tmp_path):
        y = data[line.tested][1]
        assert line.score == pytest.approx(float(y.double().sum()) / len(y), rel=1e-5)


@pytest.mark.parametrize("kind", [torch.float16, torch.float64, torch.int32, torch.bool])
def test_scores_of_any_type(tmp_path: Path, kind: torch.dtype) -> None:
    x, y = rows()
    with Evaluator(
        {"a": (x, y)}, record=tmp_path, score=lambda m, x, y: (y == 1).to(kind)
    ) as evaluator:
        watch(evaluator, net(), [("a", 2)])
    assert {line.score for line in lines(tmp_path)} == {float((y == 1).double().mean())}
    assert (tmp_path / "per_example").exists() == (kind == torch.bool)


def test_scores_in_bfloat16(tmp_path: Path) -> None:
    with Evaluator(
        {"a": rows()}, record=tmp_path, score=lambda m, x, y: torch.ones(len(y)).bfloat16()
    ) as evaluator:
        watch(evaluator, net(), [("a", 1)])
    assert {line.score for line in lines(tmp_path)} == {1.0}


def test_direction_is_never_dropped() -> None:
    scale = ScoreScale(0, 10)
    try:
        evaluator = Evaluator({"a": rows()}, score=Score(loss, scale, lower_is_better=True))
    except (TypeError, ValueError):
        return  # to refuse the contradiction is as good
    assert evaluator.live.scale.lower_is_better


# Heads, masks, other outputs.


class Heads(nn.Module):
    """A head a task."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(4, 6)
        self.heads = nn.ModuleDict({name: nn.Linear(6, 3) for name in "abc"})

    def forward(self, x: Tensor, task: str) -> Tensor:
        return self.heads[task](self.body(x).relu())  # type: ignore[no-any-return]


@pytest.mark.filterwarnings("ignore:the first step is counted before")
def test_a_head_a_task(tmp_path: Path) -> None:
    data = sets()
    torch.manual_seed(1)
    model = Heads()

    def forward(model: nn.Module, x: Tensor, task: str) -> Any:
        return model(x, task)

    with Evaluator(
        data, record=tmp_path, forward=forward, executor=Inline(batch_size=5), subset=8
    ) as evaluator:
        for name, (x, y) in data.items():
            with evaluator.task(name, model):
                cross_entropy(model(x, name), y).backward()
                evaluator.step(model)
    for line in lines(tmp_path):
        x, y = data[line.tested]
        at = subsets(tmp_path)[line.tested] if line.kind != "full" else np.arange(len(y))
        head = line.tested
        mine = accuracy(model, x[at], y[at], lambda m, x, head=head: m(x, head))
        assert (line.score, line.n) == (mine, len(at))


@pytest.mark.parametrize("batch", [None, 4])
def test_classes_of_other_tasks_are_not_named(tmp_path: Path, batch: int | None) -> None:
    classes = {"a": [0, 2], "b": [1], "c": [1, 2]}
    data = sets("abcd")  # all classes of d
    for name, own in classes.items():
        data[name] = data[name][0], torch.tensor(own)[data[name][1] % len(own)]
    with Evaluator(
        {name: EvalTask(data[name], classes=classes.get(name)) for name in data},
        record=tmp_path,
        config={"setting": "task"},
        unseen=True,
        executor=Inline(batch_size=batch),
    ) as evaluator:
        copies = watch(evaluator, net(), [("a", 3), ("b", 3)])
    unmasked = []
    for line in lines(tmp_path):
        x, y = data[line.tested]
        allowed = classes.get(line.tested, [0, 1, 2])

        def forward(model: nn.Module, x: Tensor, allowed: list[int] = allowed) -> Tensor:
            found = torch.full((len(x), 3), -1e9)
            found[:, allowed] = model(x)[:, allowed]
            return found

        assert line.score == accuracy(copies[line.step], x, y, forward), line
        unmasked.append(line.score == accuracy(copies[line.step], x, y))
    assert not all(unmasked)


def test_masked_segmentation(tmp_path: Path) -> None:
    x, y = images()
    model = nn.Conv2d(2, 3, 1)
    with Evaluator({"a": EvalTask((x, y), classes=[1])}, record=tmp_path) as evaluator:
        evaluator.step(model)
    assert lines(tmp_path)[0].score == pytest.approx(float((y == 1).double().mean()))


class Growing(nn.Module):
    """Its head grows with the tasks; the one there is stays."""

    def __init__(self) -> None:
        super().__init__()
        self.heads = nn.ModuleList([nn.Linear(4, 2)])

    def grow(self, classes: int) -> None:
        self.heads.append(nn.Linear(4, classes))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([head(x) for head in self.heads], dim=1)


@pytest.mark.parametrize("masked", [False, True])
def test_a_head_that_grows(tmp_path: Path, masked: bool) -> None:
    data = {"a": (x := rows()[0], torch.arange(21) % 2), "b": (-x, 2 + torch.arange(21) % 2)}
    classes = {"a": [0, 1], "b": [2, 3]} if masked else {}
    torch.manual_seed(0)
    model = Growing()
    tasks = {name: EvalTask(data[name], classes=classes.get(name)) for name in data}
    with Evaluator(tasks, record=tmp_path) as evaluator:
        for name, (x, y) in data.items():
            if name == "b":
                model.grow(2)
            with evaluator.task(name, model):
                for _ in range(2):
                    learn(model, (x, y))
                    evaluator.step(model)
    last = {line.tested: line.score for line in lines(tmp_path) if line.kind == "full"}

    def forward(model: nn.Module, x: Tensor) -> Tensor:
        outputs: Tensor = model(x)
        if masked:
            keep = slice(0, 2) if torch.equal(x, data["a"][0]) else slice(2, 4)
            hidden = torch.full_like(outputs, -1e9)
            hidden[:, keep] = outputs[:, keep]
            return hidden
        return outputs

    assert last == {name: accuracy(model, *pair, forward) for name, pair in data.items()}


def test_a_masked_head_that_grows_while_a_task_is_learned(tmp_path: Path) -> None:
    x, y = rows()[0], 1 + torch.arange(21) % 3
    torch.manual_seed(0)
    model = Growing()
    expected = []
    with Evaluator(
        {"a": EvalTask((x, y), classes=[1, 2, 3])}, record=tmp_path, count_flops=False
    ) as found:
        for grows in (False, True, False):
            if grows:
                model.grow(2)
            found.step(model)
            with torch.no_grad():
                best = model(x)[:, 1:].argmax(1) + 1
            expected.append(float((best == y).double().mean()))
    assert [line.score for line in lines(tmp_path)] == pytest.approx(expected)


def images() -> tuple[Tensor, Tensor]:
    rng = torch.Generator().manual_seed(5)
    return torch.rand(6, 2, 3, 4, generator=rng), torch.randint(3, (6, 3, 4), generator=rng)


@pytest.mark.filterwarnings("ignore:the first step is counted before")
def test_segmentation_is_the_share_of_places(tmp_path: Path) -> None:
    x, y = images()
    torch.manual_seed(0)
    model = nn.Conv2d(2, 3, 1)
    with (
        Evaluator(
            {"a": (x, y)}, record=tmp_path, subset=4, executor=Inline(batch_size=3)
        ) as evaluator,
        evaluator.task("a", model),
    ):
        cross_entropy(model(x), y).backward()
        evaluator.step(model)
    with torch.no_grad():
        each = (model(x).argmax(1) == y).double().mean((1, 2))
    by_kind = {line.kind: line for line in lines(tmp_path)}
    assert by_kind["full"].score == pytest.approx(float(each.mean()))
    assert (by_kind["full"].n, by_kind["probe"].n) == (6, 4)
    assert any(
        by_kind["probe"].score == pytest.approx(float(each[list(some)].mean()))
        for some in combinations(range(6), 4)
    )
    found = evaluator.summary()
    assert found.metrics["acc"] == pytest.approx(float(each.mean()))


def test_the_model_is_tested_in_the_mode_of_evaluation(tmp_path: Path) -> None:
    """Dropout and batch statistics: a model left in training mode would score otherwise."""
    data = {"a": rows(40)}
    model = net()
    with Evaluator(data, record=tmp_path) as evaluator:
        copies = watch(evaluator, model, [("a", 5)])
    check_scores(tmp_path, copies, data, None)
    in_training = []
    for step, mine in copies.items():
        torch.manual_seed(step)
        with torch.no_grad():
            found = mine.train()(data["a"][0]).argmax(1) == data["a"][1]
        in_training.append(float(found.double().mean()))
    assert in_training[1:] != [line.score for line in lines(tmp_path) if line.kind == "probe"]
    assert all(module.training for module in model.modules())


def test_a_function_is_a_model_too(tmp_path: Path) -> None:
    x, y = rows()
    weight = torch.eye(4)[:, :3]
    with Evaluator({"a": (x, y)}, record=tmp_path, count_flops=False) as evaluator:
        evaluator.step(lambda x: x @ weight)
    assert lines(tmp_path)[0].score == float((x[:, :3].argmax(1) == y).double().mean())


def test_many_small_batches_or_one(tmp_path: Path) -> None:
    data = sets("ab", count=30)
    found = []
    for k, batch in enumerate([None, 1, 7, 1000]):
        with Evaluator(
            data, record=tmp_path / str(k), executor=Inline(batch_size=batch), subset=20
        ) as evaluator:
            watch(evaluator, net(), [("a", 2), ("b", 2)])
        found.append(lines(tmp_path / str(k)))
    assert found[0] == found[1] == found[2] == found[3]
