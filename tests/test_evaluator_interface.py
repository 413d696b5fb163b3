"""The interface of the evaluator: its parameters, begin and end, and options of single tasks."""

from __future__ import annotations

import inspect
import json
from typing import TYPE_CHECKING, Any

import pytest
import torch

from perdure import EvalTask, Evaluator, Inline, Score, Subset, Worker
from perdure.evaluation.lifecycle import Lifecycle

from .evaluator_helpers import lines, rows, sets, still, subsets, walk

if TYPE_CHECKING:
    from pathlib import Path


def test_it_has_at_most_fourteen_parameters() -> None:
    parameters = inspect.signature(Evaluator).parameters.values()
    assert sum(p.kind is not p.VAR_KEYWORD for p in parameters) <= 14  # others are refused


def test_begin_and_end_record_what_the_context_manager_does(tmp_path: Path) -> None:
    with Evaluator(sets("ab"), record=tmp_path / "with", count_flops=False) as evaluator:
        walk(evaluator, [("a", 3), ("b", 2)])
    with Evaluator(sets("ab"), record=tmp_path / "calls", count_flops=False) as evaluator:
        for task, steps in (("a", 3), ("b", 2)):
            evaluator.begin(task, still)
            for _ in range(steps):
                evaluator.step(still)
            evaluator.end()
    assert lines(tmp_path / "calls") == lines(tmp_path / "with")
    assert (tmp_path / "calls" / "done.json").exists()


def test_an_error_between_begin_and_end_leaves_an_unfinished_run(tmp_path: Path) -> None:
    def fail() -> None:
        with Evaluator(sets("ab"), record=tmp_path, count_flops=False) as evaluator:
            evaluator.begin("a", still)
            evaluator.step(still)
            raise FloatingPointError

    with pytest.raises(FloatingPointError):
        fail()
    assert [line.kind for line in lines(tmp_path)] == ["initial", "probe"]
    assert not (tmp_path / "done.json").exists()


def test_calls_out_of_order() -> None:
    evaluator = Evaluator(sets("ab"), count_flops=False)
    with pytest.raises(RuntimeError, match="end\\(\\) without a task"):
        evaluator.end()
    evaluator.begin("a", still)
    with pytest.raises(RuntimeError, match="'b' begins inside 'a'"):
        evaluator.begin("b", still)
    evaluator.step(still)
    evaluator.end()
    with pytest.raises(RuntimeError, match="outside of any task"):
        evaluator.step(still)
    evaluator.close()
    with pytest.raises(RuntimeError, match="closed"):
        evaluator.begin("b", still)


def test_the_order_of_calls_is_plain_data_and_resumes_inside_a_task() -> None:
    first = Lifecycle()
    first.begin("a", (None, 0))
    first.begun()
    first.advance(still)
    second = Lifecycle()
    second.load(json.loads(json.dumps(first.state())))
    assert (second.step, second.task, second.unfinished) == (1, None, "a")
    with pytest.raises(RuntimeError, match="middle of 'a'"):
        second.check_begin("b", ["a", "b"], None, needs_model=False)
    assert not second.begin("a", (None, 0))  # it continues
    assert second.task_step == 1


def test_a_task_may_have_a_subset_of_its_own(tmp_path: Path) -> None:
    tasks = {
        "a": rows(30),
        "b": EvalTask(rows(30), subset=7),
        "c": EvalTask(rows(30), subset=Subset(None)),
        "d": EvalTask(rows(30), subset=Subset(5, resample=True)),
    }
    with Evaluator(tasks, record=tmp_path, subset=10, unseen=True, count_flops=False) as evaluator:
        walk(evaluator, [("a", 3)])
    probes = [line for line in lines(tmp_path) if line.kind == "probe"]
    assert [line.n for line in probes] == 3 * [10, 7, 30, 5]
    assert {name: len(chosen) for name, chosen in subsets(tmp_path).items()} == {
        "a": 10, "b": 7, "c": 30
    }  # fmt: skip


def test_one_object_may_configure_several_evaluators(tmp_path: Path) -> None:
    executor, score = Worker(queue=2), Score(lambda model, x, y: model(x)[:, 0], name="first")
    for name in ("one", "two"):
        model = torch.nn.Linear(4, 3)
        with (
            Evaluator(
                sets("a"), record=tmp_path / name, executor=executor, score=score,
                count_flops=False,
            ) as evaluator,
            evaluator.task("a", model),
        ):  # fmt: skip
            evaluator.step(model)
        said = json.loads((tmp_path / name / "run.json").read_text())
        assert said["evaluation"]["executor"] == executor.to_json()
        assert said["scale"]["name"] == "first"
    assert Inline() == Inline()


@pytest.mark.parametrize("window", [0, -1, 2.5, "10", None])
def test_windows_are_positive_integers(window: Any) -> None:
    live = Evaluator(sets("a")).live
    with pytest.raises(ValueError, match=r"a window is .*, expected an integer of at least 1"):
        live.add_windows(window)
    assert live.windows == (10, 100)
