"""Mistakes people make: one line that says what to do, and a record that can still be used."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset

import perdure
from perdure import (
    Alarm,
    EvalTask,
    EvaluationWarning,
    Evaluator,
    Inline,
    Record,
    Score,
    ScoreScale,
    Subset,
    Worker,
)
from perdure.record import InputError

from .cli_helpers import scored
from .evaluator_helpers import learn, lines, net, rows, sets

if TYPE_CHECKING:
    from pathlib import Path

SAID = "ignore:task .* ended without a step"


def refusal(function: Callable[[], Any], *words: str) -> str:
    """Return the one line of the error, which must be ours and contain the words."""
    with pytest.raises((ValueError, TypeError, RuntimeError, KeyError)) as caught:
        function()
    error = caught.value
    line = str(error.args[0]) if isinstance(error, KeyError) else str(error)
    assert len(line.splitlines()) == 1, line
    for word in words:
        assert word in line, f"{word!r} is not in {line!r}"
    return line


def nothing(*_: Any, **__: Any) -> Tensor:
    return torch.zeros(1)


NONE: Any = None
HALF: Any = 2.5
WORD: Any = "fast"
LISTS: Any = [[0, 1]]
Options = dict[str, Any] | Callable[[], dict[str, Any]]
CONSTRUCTION: dict[str, tuple[Options, tuple[str, ...]]] = {
    "every 0": ({"every": 0}, ("every is 0", "at least 1")),
    "every half": ({"every": 0.5}, ("every is 0.5", "number of steps")),
    "every word": ({"every": "10"}, ("every is '10'", "number of steps")),
    "subset 0": ({"subset": 0}, ("subset is 0", "at least 1")),
    "subset True": ({"subset": True}, ("subset is True", "an integer")),
    "subset word": ({"subset": "all"}, ("subset is 'all'", "an integer")),
    "subset 5.0": ({"subset": 5.0}, ("subset is 5.0", "an integer")),
    "executor": ({"executor": "worker"}, ("executor is 'worker'", "perdure.Worker(…)")),
    "queue 0": (lambda: {"executor": Worker(queue=0)}, ("queue is 0", "at least 1")),
    "queue None": (lambda: {"executor": Worker(queue=NONE)}, ("queue is None", "an integer")),
    "verify_every -1": (
        lambda: {"executor": Worker(verify_every=-1)},
        ("verify_every is -1", "at least 1"),
    ),
    "verify_every None": (
        lambda: {"executor": Inline(verify_every=NONE)},
        ("verify_every is None", "an integer"),
    ),
    "batch_size 0": (lambda: {"executor": Inline(batch_size=0)}, ("batch_size is 0", "at least 1")),
    "batch_size 2.5": (
        lambda: {"executor": Inline(batch_size=HALF)},
        ("batch_size is 2.5", "an integer"),
    ),
    "seed -1": (lambda: {"subset": Subset(5, seed=-1)}, ("seed is -1", "expected")),
    "initial": ({"initial": "first"}, ("initial is 'first'", "entered or all or none")),
    "mode": (lambda: {"executor": Worker(mode=WORD)}, ("mode is 'fast'", "exact or latest")),
    "action": (lambda: {"alarm": Alarm("min_acc < 0", WORD)}, ("action is 'fast'", "warn or stop")),
    "setting": (
        {"config": {"setting": "online"}},
        ("'setting'", "is 'online'", "class, task or domain"),
    ),
    "alarm rule": ({"alarm": "min_acc <= 0.6"}, ("min_acc <= 0.6", "expected a rule like")),
    "alarm limit": ({"alarm": "min_acc < nan"}, ("min_acc < nan", "expected a rule like")),
    "alarm name": ({"alarm": "acc < 0.6"}, ("'acc'", "expected one of", "min_acc")),
    "alarm window": ({"alarm": "wf0 > 0.6"}, ("'wf0'", "expected one of", "wf10")),
    "alarm number": ({"alarm": 0.6}, ("alarm is 0.6", "expected a rule like")),
    "half precision, resampled": (
        {"executor": Inline(precision="screened"), "subset": Subset(5, resample=True)},
        ("precision", "resample"),
    ),
    "half precision of a score": (
        {"executor": Inline(precision="screened"), "score": nothing},
        ("precision", "score"),
    ),
    "score and forward": ({"score": nothing, "forward": nothing}, ("score", "forward")),
    "score and classes": (
        {"score": nothing, "tasks": {"a": EvalTask(rows(), classes=[0])}},
        ("score", "classes"),
    ),
    "classes in a list": (
        {"tasks": {"a": EvalTask(rows(), classes=LISTS)}},
        ("classes", "expected"),
    ),
    "no classes": ({"tasks": {"a": EvalTask(rows(), classes=[])}}, ("classes", "expected")),
    "lower accuracy": (
        lambda: {"score": Score(None, lower_is_better=True)},
        ("lower_is_better", "score"),
    ),
    "two directions": (
        lambda: {"score": Score(nothing, ScoreScale(0, 9), lower_is_better=True)},
        ("lower_is_better", "scale"),
    ),
    "score is no function": ({"score": 3}, ("score is 3", "expected a function")),
    "overwrite": (lambda: {"record": Record("x", overwrite=WORD)}, ("overwrite", "unfinished")),
    "resume without a folder": (lambda: {"record": Record(resume={})}, ("resum", "folder")),
    "device": ({"executor": Worker(device="cpu")}, ("device is 'cpu'", "CUDA")),
    "what is no JSON": ({"config": {"model": nn.Linear(1, 1)}}, ("config", "model")),
    "not a number": ({"config": {"lr": float("nan")}}, ("config", "lr")),
}


@pytest.mark.parametrize("what", CONSTRUCTION)
def test_an_argument_that_cannot_be(tmp_path: Path, what: str) -> None:
    options, words = CONSTRUCTION[what]
    usual: dict[str, Any] = {"tasks": {"a": rows()}, "record": tmp_path / "run"}
    line = refusal(
        lambda: Evaluator(**usual | (options() if callable(options) else options)), *words
    )
    assert len(line) < 200
    # A cell corrected and run again: the folder is free.
    with Evaluator({"a": rows()}, record=tmp_path / "run", count_flops=False) as evaluator:
        evaluator.step(net())
    assert len(lines(tmp_path / "run")) == 1


@pytest.mark.parametrize("name", ["", "a\nb", "\x00", "a\u2028b"])
def test_a_name_that_cannot_be_written(name: str) -> None:
    refusal(lambda: Evaluator({name: rows()}), repr(name)[1:-1], "printed")


def test_two_tasks_of_one_name() -> None:
    twice: dict[Any, Any] = {1: rows(), "1": rows()}
    refusal(lambda: Evaluator(twice), "'1'", "names must differ")
    evaluator = Evaluator({"a": rows()})
    refusal(lambda: evaluator.add_task("a", rows()), "'a'", "names must differ")


@pytest.mark.parametrize("growth", [1.0, 0.5, float("nan"), float("inf")])
def test_a_burst_that_does_not_thin_out(growth: float) -> None:
    refusal(lambda: perdure.burst(first=3, then=9, growth=growth), "growth", str(growth))
    for wrong in ({"first": 0, "then": 9}, {"first": 3, "then": 0}, {"first": 1.5, "then": 9}):
        refusal(functools.partial(perdure.burst, **wrong), "burst", "an integer")


# In the loop: what comes after a mistake works, and the record can be read.


class Endless(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return itertools.repeat((torch.zeros(4), 0))


class Lengthless(Dataset[Any]):
    def __getitem__(self, k: int) -> Any:
        return torch.zeros(4), 0


X, Y = rows()
BAD_DATA: dict[str, tuple[Any, tuple[str, ...]]] = {
    "fewer labels": ((X, Y[:3]), ("'bad'", "21 examples", "3 labels")),
    "no examples": ((X[:0], Y[:0]), ("'bad'", "no examples")),
    "no labels": ({"x": X}, ("'bad'", "labels")),
    "one tensor": (X, ("'bad'", "(examples, labels)")),
    "None": (None, ("'bad'", "NoneType", "expected tensors")),
    "a path": ("data/test.pt", ("'bad'", "str", "expected")),
    "endless": (DataLoader(Endless()), ("'bad'", "Endless", "more than 10000", "islice")),
    "no length": (Lengthless(), ("'bad'", "length")),
    "float labels": ((X, Y.float()), ("'bad'", "float32", "class number", "score=")),
    "one-hot labels": ((X, torch.eye(3)[Y].long()), ("'bad'", "(21, 3)", "class number")),
    "a factory that fails": (lambda: None, ("'bad'", "NoneType")),
}


@pytest.mark.parametrize("what", BAD_DATA)
def test_data_that_cannot_be_tested(tmp_path: Path, what: str) -> None:
    data, words = BAD_DATA[what]
    refusal(lambda: one_task(Evaluator({"bad": data}, count_flops=False), "bad"), *words)


def one_task(evaluator: Evaluator, task: str, model: nn.Module | None = None) -> None:
    model = model or net()
    with evaluator.task(task, model):
        learn(model)
        evaluator.step(model)


@pytest.mark.parametrize("first", [False, True])
def test_a_task_with_bad_data_does_not_spoil_the_others(tmp_path: Path, first: bool) -> None:
    bad = lambda: (X, Y[:3])  # noqa: E731 - data that is there is checked at once
    data = {"good": rows(), "bad": bad, "better": rows(seed=1)}
    with Evaluator(data, record=tmp_path) as evaluator:
        if not first:
            one_task(evaluator, "good")
        refusal(lambda: one_task(evaluator, "bad"), "'bad'")
        if first:
            one_task(evaluator, "good")
        one_task(evaluator, "better")
    assert scored(tmp_path)["tasks"] == ["good", "better"]
    assert "ms" in evaluator.summary().metrics


@pytest.mark.filterwarnings(SAID)
@pytest.mark.parametrize("how", ["empty", "raises"])
@pytest.mark.parametrize("first", [False, True])
def test_a_task_without_a_step_is_not_in_the_record(tmp_path: Path, how: str, first: bool) -> None:
    with Evaluator(sets("abc"), record=tmp_path, config={"setting": "class"}) as evaluator:
        if not first:
            one_task(evaluator, "b")
        try:
            with evaluator.task("a", net()):
                if how == "raises":
                    raise FloatingPointError
        except FloatingPointError:
            pass
        if first:
            one_task(evaluator, "b")
        one_task(evaluator, "c")
        if how == "empty":
            assert any("'a' ended without a step" in note for note in evaluator.notes)
    assert scored(tmp_path)["tasks"] == ["b", "c"]
    assert "ms" in evaluator.summary().metrics


def test_a_score_that_fails_at_the_end_of_a_task(tmp_path: Path) -> None:
    """The whole set has an example that the subset has not, and its score is no number."""

    def score(model: Any, x: Tensor, y: Tensor) -> Tensor:
        return torch.full((len(y),), float("nan") if len(y) == 21 else 0.5)

    data = {"a": rows(21), "b": rows(8, seed=1)}
    with Evaluator(data, record=tmp_path, score=score, subset=8) as evaluator:
        line = refusal(lambda: one_task(evaluator, "a"), "'a'", "step 1", "nan", "finite")
        assert "not recorded" in line
        evaluator.step  # noqa: B018 - it is still there
    with Evaluator(
        data, record=Record(tmp_path, overwrite=True), score=score, subset=8
    ) as evaluator:
        refusal(lambda: one_task(evaluator, "a"), "nan")
        refusal(lambda: one_task(evaluator, "b"), "nan")  # not: begins inside 'a'
    assert [line.tested for line in lines(tmp_path) if line.kind == "probe"] == ["a", "a", "b"]


@pytest.mark.parametrize(
    ("score", "words"),
    [
        (lambda m, x, y: torch.zeros(()), ("score returned ()", "'a'", "one value per row")),
        (lambda m, x, y: torch.zeros(21, 1), ("score returned (21, 1)", "'a'", "(21,)")),
        (lambda m, x, y: 0.5, ("score returned float", "'a'", "(21,)")),
        (lambda m, x, y: torch.full((21,), np.nan), ("'a'", "nan", "finite")),
        (lambda m, x, y: torch.full((21,), np.inf), ("'a'", "inf", "finite")),
        (lambda m, x, y: torch.full((21,), 1.5), ("'a'", "1.5", "0 to 1")),
    ],
)
def test_scores_that_are_none(tmp_path: Path, score: Any, words: tuple[str, ...]) -> None:
    """A score that is wrong now and right later: what is right is recorded."""
    right = False

    def sometimes(model: Any, x: Tensor, y: Tensor) -> Any:
        return torch.ones(len(y)) if right else score(model, x, y)

    model = net()
    evaluator = Evaluator(
        {"a": rows()}, record=tmp_path, score=Score(sometimes, ScoreScale(0, 1)), initial="none",
        count_flops=False,
    )  # fmt: skip
    with evaluator, evaluator.task("a", model):
        refusal(lambda: evaluator.step(model), *words)
        right = True
        evaluator.step(model)
    assert [(line.step, line.score) for line in lines(tmp_path)] == [(2, 1.0), (2, 1.0)]
    assert evaluator.summary().metrics["acc"] == 1.0


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_a_score_without_bounds_is_finite_still(value: float) -> None:
    evaluator = Evaluator({"a": rows()}, score=lambda m, x, y: torch.full((len(y),), value))
    refusal(lambda: evaluator.step(net()), "'a'", "step 1", str(value), "finite")


@pytest.mark.parametrize("outputs", [1, 0])
def test_a_model_without_classes(outputs: int) -> None:
    model = nn.Linear(4, 1) if outputs else nn.Sequential(nn.Linear(4, 1), nn.Flatten(0))
    got = "(21, 1)" if outputs else "(21,)"
    words = (got, "(rows, classes)", "score=", "forward=")
    refusal(lambda: one_task(Evaluator({"a": rows()}, count_flops=False), "a", model), *words)


def test_steps_and_tasks_in_the_wrong_place(tmp_path: Path) -> None:
    model = net()
    with Evaluator(sets("ab"), record=tmp_path, count_flops=False) as evaluator:
        refusal(lambda: one_task(evaluator, "c"), "'c'", "['a', 'b']", "evaluator.add")
        one_task(evaluator, "a")
        refusal(lambda: evaluator.step(model), "outside of any task", "evaluator.task(name)")
        with evaluator.task("b", model):
            refusal(lambda: one_task(evaluator, "a"), "'a'", "inside 'b'", "end that one first")
            evaluator.step(model)
    found = scored(tmp_path)
    assert found["tasks"] == ["a", "b"]
    assert [line.step for line in lines(tmp_path) if line.kind == "probe"] == [1, 2, 2]


def test_tasks_after_steps_without(tmp_path: Path) -> None:
    with Evaluator(sets("ab"), record=tmp_path, count_flops=False) as evaluator:
        evaluator.step(net())
        refusal(lambda: one_task(evaluator, "a"), "outside of any task")
        evaluator.step(net())
    assert "wf10" in scored(tmp_path)["metrics"]


@pytest.mark.parametrize("boundaries", [False, True])
def test_a_step_after_the_end(tmp_path: Path, boundaries: bool) -> None:
    evaluator = Evaluator(sets("ab"), record=tmp_path, count_flops=False)
    if boundaries:
        one_task(evaluator, "a")
    else:
        evaluator.step(net())
    evaluator.close()
    before = lines(tmp_path)
    late: Callable[[], Any] = (
        (lambda: one_task(evaluator, "b")) if boundaries else (lambda: evaluator.step(net()))
    )
    refusal(late, "closed")
    assert lines(tmp_path) == before
    evaluator.summary()


def test_an_end_inside_a_task(tmp_path: Path) -> None:
    """As after an early stop: nothing more is recorded, and the error says why."""
    model = net()
    evaluator = Evaluator(sets("ab"), record=tmp_path, count_flops=False)

    def stopped() -> None:
        with evaluator.task("a", model):
            evaluator.step(model)
            evaluator.close()

    with pytest.warns(EvaluationWarning, match="inside task 'a': the run counts as unfinished"):
        refusal(stopped, "closed")
    assert not (tmp_path / "done.json").exists()
    assert len(lines(tmp_path)) == 2


def test_a_folder_that_holds_a_run(tmp_path: Path) -> None:
    with Evaluator({"a": rows()}, record=tmp_path, count_flops=False) as evaluator:
        refusal(lambda: Evaluator({"a": rows()}, record=tmp_path), str(tmp_path), "close it first")
        one_task(evaluator, "a")
    words = (str(tmp_path), "a finished run", "overwrite=True")
    refusal(lambda: Evaluator({"a": rows()}, record=tmp_path), *words)
    assert scored(tmp_path)["tasks"] == ["a"]


def test_a_summary_of_nothing() -> None:
    with pytest.raises(InputError, match="no evaluations"):
        Evaluator({"a": rows()}).summary()


# Costs that the loop reports.


@pytest.mark.parametrize("where", ["task", "report", "state"])
@pytest.mark.parametrize("value", [-5, "1 GB", True, 2.5, [torch.zeros(2), "x"]])
def test_bytes_that_are_none(tmp_path: Path, where: str, value: Any) -> None:
    model = net()
    with Evaluator({"a": rows()}, record=tmp_path, count_flops=False) as evaluator:
        if where == "task":
            with (
                pytest.raises((TypeError, ValueError)),
                evaluator.task("a", model, stored_samples=value),
            ):
                pass
        else:
            with pytest.raises((TypeError, ValueError), match="bytes"):
                evaluator.costs.report_memory(
                    **{"stored_samples" if where == "report" else "regularizer_state": value}
                )
        one_task(evaluator, "a")
    assert "ms" in scored(tmp_path)["metrics"]


@pytest.mark.parametrize("value", [-3, 2.5, True, "train"])
def test_training_data_that_is_none(tmp_path: Path, value: Any) -> None:
    model = net()
    with Evaluator({"a": rows()}, record=tmp_path, count_flops=False) as evaluator:
        with (
            pytest.raises((TypeError, ValueError), match="data"),
            evaluator.task("a", model, train_data=value),
        ):
            pass
        one_task(evaluator, "a")
    assert "ms" in scored(tmp_path)["metrics"]


@pytest.mark.parametrize("value", [Lengthless(), DataLoader(Endless())])
def test_training_data_of_unknown_size(tmp_path: Path, value: Any) -> None:
    """A loader without a length is a usual one to train from: its costs are empty."""
    model = net()
    with (
        Evaluator({"a": rows()}, record=tmp_path, count_flops=False) as evaluator,
        evaluator.task("a", model, train_data=value, stored_samples=0),
    ):
        evaluator.step(model)
    assert "data_bytes" in scored(tmp_path)["undefined"]["sss"]


@pytest.mark.parametrize("every", [0, -1, 1.5])
def test_gradients_every_so_many(every: Any) -> None:
    model = net()
    with Evaluator({"a": rows()}, count_flops=False) as evaluator, evaluator.task("a", model):
        loss = model(X).square().mean()
        refusal(lambda: evaluator.record_gradients(model, loss, every=every), "every", "at least 1")
        evaluator.step(model)


def test_gradients_of_a_loss_that_is_not_reduced() -> None:
    model = net()
    with Evaluator({"a": rows()}, count_flops=False) as evaluator, evaluator.task("a", model):
        losses = model(X).square().mean(1)
        refusal(lambda: evaluator.record_gradients(model, losses), "(21,)", "loss")
        evaluator.step(model)


def test_gradients_that_are_not_finite(tmp_path: Path) -> None:
    model = net()
    with Evaluator({"a": rows()}, record=tmp_path, count_flops=False) as evaluator:
        one_task(evaluator, "a")
        with evaluator.task("a", model):
            refusal(lambda: evaluator.record_gradients(model, model(X).sum() * np.inf), "finite")
            evaluator.step(model)
    assert scored(tmp_path)["tasks"] == ["a"]
