"""Which tasks are tested, and what the record says: by walking through the stream."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from torch import Tensor

import perdure
from perdure import Evaluator, Record, Score, ScoreScale
from perdure.metrics import (
    aaa,
    current_accuracy,
    min_acc,
    wc_acc,
    wf,
    wp,
)
from perdure.record import read_input

from .cli_helpers import scored
from .evaluator_helpers import (
    check_scores,
    expected_lines,
    keys,
    lines,
    net,
    rows,
    sets,
    still,
    walk,
    watch,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PLAN = [("a", 5), ("b", 4), ("c", 3)]


def test_tasks_may_be_added_at_any_time(tmp_path: Path) -> None:
    data = sets("abcd")
    with Evaluator({"a": data["a"]}, record=tmp_path, count_flops=False) as evaluator:
        with evaluator.task("a", still):
            evaluator.step(still)
            evaluator.add_task("b", data["b"])  # tested once it is learned
            evaluator.step(still)
            evaluator.add_task("c", data["c"], evaluate_now=True)
            evaluator.step(still)
        with evaluator.task("b", still):
            evaluator.step(still)
        with evaluator.task("c", still):
            evaluator.add_task("d", data["d"])
            evaluator.step(still)
    tested: dict[int, str] = {}
    for line in lines(tmp_path):
        if line.kind == "probe":
            tested[line.step] = tested.get(line.step, "") + line.tested
    assert {step: sorted(names) for step, names in tested.items()} == {
        1: ["a"], 2: ["a"], 3: ["a", "c"], 4: ["a", "b", "c"], 5: ["a", "b", "c"],
    }  # fmt: skip
    found = evaluator.summary()
    assert found.tasks == ("a", "b", "c")
    assert found.metrics["acc"] == pytest.approx(
        sum(accuracy_of_still(data[name]) for name in "abc") / 3
    )


def accuracy_of_still(data: tuple[Tensor, Tensor]) -> float:
    return float((still(data[0]).argmax(1) == data[1]).double().mean())


@pytest.mark.parametrize("meter", [False, True])
def test_unseen_tasks_are_tested_on_request(tmp_path: Path, meter: bool) -> None:
    with Evaluator(sets(), record=tmp_path, unseen=True, every=2, count_flops=meter) as evaluator:
        copies = watch(evaluator, net(), PLAN)
    assert keys(tmp_path) == expected_lines(PLAN, lambda step, _: step % 2 == 0, known="abc")
    check_scores(tmp_path, copies, sets(), None)
    found = evaluator.summary()
    assert "fwt.upper" in found.metrics
    assert "untrained" in found.undefined["fwt.gem"]


@pytest.mark.parametrize("meter", [False, True])
def test_a_stream_without_boundaries(tmp_path: Path, meter: bool) -> None:
    data = sets("abc")
    model = net()
    with Evaluator(
        {name: data[name] for name in "ab"}, record=tmp_path, subset=None, count_flops=meter
    ) as evaluator:
        for step in range(6):
            if step == 3:
                evaluator.add_task("c", data["c"])
            evaluator.step(model)
            assert evaluator.live.current is None
            assert evaluator.live.min_acc is None
    assert keys(tmp_path) == Counter(
        (step, "", name, "probe") for step in range(1, 7) for name in ("abc" if step > 3 else "ab")
    )
    check_scores(tmp_path, dict.fromkeys(range(7), model), data, None)
    found = evaluator.summary()
    assert {"wf10", "wp10", "wfall", "aaa"} <= found.metrics.keys()
    for id_ in ("acc", "bwt", "min_acc", "wc_acc", "current", "gap.depth", "lca10"):
        assert "boundaries" in found.undefined[id_], id_
    assert found.metrics == scored(tmp_path)["metrics"]


# Before learning.


@pytest.mark.parametrize("initial", ["entered", "all", "none"])
def test_what_is_tested_before_learning(tmp_path: Path, initial: Any) -> None:
    data = sets()
    plan = [("a", 12), ("b", 11), ("c", 11)]
    with Evaluator(
        data, record=tmp_path, initial=initial, unseen=True, subset=9, count_flops=False
    ) as evaluator:
        copies = watch(evaluator, net(), plan)
    expected = expected_lines(plan, lambda *_: True, known="abc", initial=initial)
    assert keys(tmp_path) == expected
    check_scores(tmp_path, copies, data, 9)
    found = evaluator.summary()
    before = {line.tested: line.score for line in lines(tmp_path) if line.step == 0}
    assert set(before) == {"all": set("abc"), "entered": {"a"}, "none": set()}[initial]
    if initial == "all":
        source = read_input(str(tmp_path))
        assert source.matrix is not None
        assert source.matrix.initial is not None
        np.testing.assert_array_equal(source.matrix.initial, [before[name] for name in "abc"])
        r = source.matrix.scores
        mine = (r[0, 1] - before["b"] + r[1, 2] - before["c"]) / 2
        assert found.metrics["fwt.gem"] == pytest.approx(mine)
    else:
        assert "fwt.gem" in found.undefined
    if initial == "none":
        assert "lca10" in found.undefined
        return
    areas, start = [], 0
    for task, steps in plan:
        scores = {
            line.step - start: line.score
            for line in lines(tmp_path)
            if (line.trained, line.tested) == (task, task) and line.kind != "full"
        }
        areas.append(sum(scores[b] for b in range(11)) / 11)
        start += steps
    assert found.metrics["lca10"] == pytest.approx(sum(areas) / 3)


def test_b_without_a_model_is_not_silently_left_out(tmp_path: Path) -> None:
    """initial="all" asks for the untrained model's scores; without a model they cannot be."""
    evaluator = Evaluator(sets("ab"), record=tmp_path, initial="all", count_flops=False)
    with pytest.raises(ValueError, match=r"untrained model.*evaluator\.task\('a', model\)"):
        evaluator.task("a").__enter__()
    watch(evaluator, net(), [("a", 1), ("b", 1)])
    assert "fwt.gem" in evaluator.summary().undefined  # b was not tested after a


def test_without_a_model_the_first_task_begins_untested(tmp_path: Path) -> None:
    with Evaluator(sets("ab"), record=tmp_path, count_flops=False) as evaluator:
        watch(evaluator, net(), [("a", 2), ("b", 2)], hand_in=False)
    initial = [line for line in lines(tmp_path) if line.kind == "initial"]
    assert [line[:4] for line in initial] == [(2, "b", "b", "initial")]


# Coming back, and the numbers of now.


def test_a_task_that_returns(tmp_path: Path) -> None:
    plan = [("a", 4), ("b", 3), ("a", 2), ("b", 2)]
    with Evaluator(sets("ab"), record=tmp_path, subset=8, count_flops=False) as evaluator:
        copies = watch(evaluator, net(), plan)
    assert keys(tmp_path) == expected_lines(plan, lambda *_: True)
    check_scores(tmp_path, copies, sets("ab"), 8)
    found = evaluator.summary()
    assert "'a' returns" in found.undefined["acc"]
    assert {"min_acc", "wc_acc", "wf10", "aaa"} <= found.metrics.keys()


REPLAYED = {
    "plain": [("a", 5), ("b", 4), ("c", 3)],
    "returning": [("a", 4), ("b", 3), ("a", 3), ("c", 2), ("b", 2)],
    "the same twice": [("a", 2), ("a", 3), ("b", 3)],
}


@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize("plan", REPLAYED)
@pytest.mark.parametrize("lower_is_better", [False, True])
def test_live_numbers_are_those_of_the_record_at_every_step(
    tmp_path: Path, plan: str, every: int, lower_is_better: bool
) -> None:
    rng = np.random.default_rng(0)
    scale = ScoreScale(0, 1, lower_is_better=lower_is_better)

    def score(model: Any, x: Tensor, y: Tensor) -> Tensor:
        return torch.full((len(y),), float(rng.random()), dtype=torch.float64)

    data = {name: rows(3 + k) for k, name in enumerate("abc")}  # each by itself, other scores
    compared = 0
    with Evaluator(
        data, record=tmp_path, score=Score(score, scale), every=every, count_flops=False
    ) as evaluator:
        evaluator.live.add_windows(2, 4)
        for task, steps in REPLAYED[plan]:
            again = task == evaluator.live.task  # to the record that is one visit
            with evaluator.task(task, still):
                assert again or evaluator.live.current is None  # before the first step of a visit
                for _ in range(steps):
                    evaluator.step(still)
                    compared += same_as_recorded(evaluator, tmp_path)
            compared += same_as_recorded(evaluator, tmp_path)
    assert compared > 10


def same_as_recorded(evaluator: Evaluator, folder: Path) -> int:
    """Compare each live number with the metric of all lines written so far; return how many."""
    from perdure import UndefinedMetricError
    from perdure.record.formats.points import read_points

    points = read_points(
        (folder / "points.csv").read_text(), "points.csv", scale=evaluator.live.scale, ours=True
    )
    if not (points.kind != 0).any():
        return 0
    stream = points.stream()
    if evaluator.live.task != stream.spans[-1].task:
        return 0  # a task that has begun and not been tested: not in the record yet
    formulas: dict[str, Callable[[], float]] = {
        "current": lambda: current_accuracy(stream),
        "min_acc": lambda: min_acc(stream),
        "wc_acc": lambda: wc_acc(stream),
        "wf2": lambda: wf(stream, 2),
        "wf4": lambda: wf(stream, 4),
        "wp2": lambda: wp(stream, 2),
    }
    done = 0
    for id_, formula in formulas.items():
        try:
            expected: float | None = float(formula())
        except UndefinedMetricError:
            expected = None
        level = id_ in ("current", "min_acc", "wc_acc")
        if expected is not None and level and evaluator.live.scale.lower_is_better:
            expected = -expected
        assert evaluator.live[id_] == pytest.approx(expected), (id_, evaluator.live.step)
        done += expected is not None
    return done


# The record around it.


def test_run_json_says_how_it_was_evaluated(tmp_path: Path) -> None:
    data = {"a": (rows(9)[0], torch.arange(9) % 2), "b": (rows(9)[0], 1 + torch.arange(9) % 3)}
    with Evaluator(
        data, record=tmp_path, every=perdure.burst(first=2, then=4), subset=5,
        config={"strategy": "naïve", "lr": 0.1, "setting": "class"}, count_flops=False,
    ) as evaluator:  # fmt: skip
        walk(evaluator, [("a", 3), ("b", 3)], model=lambda x: x)
    said = json.loads((tmp_path / "run.json").read_text())
    assert said["setting"] == "class"
    assert said["classes"] == [2, 2]  # b brings 2 and 3
    assert said["tasks"] == ["a", "b"]
    scale = {"low": 0.0, "high": 1.0, "lower_is_better": False, "name": "accuracy"}
    assert said["scale"] == scale
    assert said["config"] == {"strategy": "naïve", "lr": 0.1, "setting": "class"}
    assert said["evaluation"] == {
        "every": "Burst(first=2, then=4, growth=2.0)",
        "subset": 5,
        "resample": False,
        "seed": 0,
        "unseen": False,
        "initial": "entered",
        "score": "accuracy",
        "executor": {
            "name": "inline",
            "mode": "exact",
            "precision": "auto",
            "verify_every": 100,
            "batch_size": None,
        },
    }
    assert said["threads"] == torch.get_num_threads()
    assert json.loads((tmp_path / "done.json").read_text()) == {"steps": 6}


@pytest.mark.parametrize(
    ("setting", "classes"), [("class", None), ("task", [2, 2]), ("domain", None), (None, None)]
)
def test_class_counts_of_tasks_with_the_same_labels(
    tmp_path: Path, setting: Any, classes: list[int] | None
) -> None:
    data = {name: (rows(8)[0], torch.arange(8) % 2) for name in "ab"}
    with Evaluator(
        data, record=tmp_path, config={"setting": setting}, count_flops=False
    ) as evaluator:
        walk(evaluator, [("a", 1), ("b", 1)])
    assert json.loads((tmp_path / "run.json").read_text()).get("classes") == classes
    evaluator.summary()


def test_a_run_is_unfinished_until_it_is_closed(tmp_path: Path) -> None:
    evaluator = Evaluator(sets("ab"), record=tmp_path, count_flops=False)
    walk(evaluator, [("a", 2)])
    assert any("1 finished task" in note for note in evaluator.summary().notes)
    with evaluator.task("b", still):
        evaluator.step(still)
        found = evaluator.summary()
        assert found.tasks == ("a",)
        assert any("1 finished task" in note for note in found.notes)
    assert not (tmp_path / "done.json").exists()
    assert evaluator.summary().tasks == ("a", "b")
    evaluator.close()
    assert not any("unfinished" in note for note in evaluator.summary().notes)


def test_a_stream_without_boundaries_that_goes_on() -> None:
    evaluator = Evaluator({"a": rows()}, count_flops=False)
    for _ in range(3):
        evaluator.step(still)
    found = evaluator.summary()
    assert "wf10" in found.metrics
    assert not any("no task has ended" in note for note in found.notes)  # there are none to end


def test_an_error_in_the_loop_leaves_an_unfinished_record(tmp_path: Path) -> None:
    def broken() -> None:
        with Evaluator(sets("ab"), record=tmp_path, count_flops=False) as evaluator:
            walk(evaluator, [("a", 3)])
            with evaluator.task("b", still):
                evaluator.step(still)
                raise FloatingPointError

    with pytest.raises(FloatingPointError):
        broken()
    assert not (tmp_path / "done.json").exists()
    assert scored(tmp_path)["tasks"] == ["a"]
    with Evaluator(sets("ab"), record=Record(tmp_path, overwrite=True), count_flops=False) as again:
        walk(again, [("b", 1)])
    assert scored(tmp_path)["tasks"] == ["b"]


def test_without_a_folder_the_record_lives_as_long_as_the_evaluator() -> None:
    with Evaluator(sets("ab"), count_flops=False) as evaluator:
        walk(evaluator, [("a", 2), ("b", 2)])
    assert evaluator.summary().metrics["acc"] == pytest.approx(
        (accuracy_of_still(sets()["a"]) + accuracy_of_still(sets()["b"])) / 2
    )
    evaluator.close()


@pytest.mark.parametrize("name", ["a, b", '"quoted"', "#1", " spaces ", "雪", "-", "nan", "0.5"])
def test_any_printable_name(tmp_path: Path, name: str) -> None:
    with Evaluator(
        {name: rows(), "other": rows()}, record=tmp_path, count_flops=False
    ) as evaluator:
        walk(evaluator, [(name, 2), ("other", 2)])
    assert evaluator.summary().tasks == (name, "other")
    assert "ms" not in evaluator.summary().metrics  # `still` has no bytes
    assert aaa(read_input(str(tmp_path)).stream) > 0  # type: ignore[arg-type]
