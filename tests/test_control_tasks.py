"""Control tasks, evaluated but never trained: their metrics, record, and what ignores them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import perdure
from perdure import EvalTask, Evaluator, Record, Score
from perdure.metrics import (
    METRICS,
    ControlScores,
    PerExample,
    ScoreScale,
    control_intervals,
    summary,
)
from perdure.record import InputError
from perdure.report.figures import averages, curves
from perdure.report.live.curves import make_run_curves, to_curve_message
from perdure.report.page.plot_data import make_curve_data

from .cli_helpers import run as run_command
from .evaluator_helpers import lines, net, sets, still, watch
from .references import CONTROL_REFERENCES, few

if TYPE_CHECKING:
    from pathlib import Path

IDS = ("retention", "retention.worst", "retention.relative")
LOSS = ScoreScale(0, 100, lower_is_better=True, name="perplexity")
# Before fine-tuning and after each of two tasks, as a report of a language model prints them.
KNOWN = ControlScores(
    ["mmlu", "gsm8k", "arc"], [0.60, 0.40, 0.80], [[0.5, 0.5, 0.8], [0.54, 0.2, 0.84]]
)

probability = st.integers(1, 20).map(lambda k: k / 20)


def rows_of(tasks: int) -> st.SearchStrategy[list[float]]:
    return st.lists(probability, min_size=tasks, max_size=tasks)


def test_every_id_has_a_reference() -> None:
    ids = [id_ for id_, metric in METRICS.items() if metric.input == "control"]
    assert set(ids) == set(CONTROL_REFERENCES) == set(IDS)


@pytest.mark.parametrize("id_", IDS)
@few
@given(st.integers(1, 4).flatmap(lambda tasks: st.lists(rows_of(tasks), min_size=2, max_size=5)))
def test_agrees_with_the_definition(id_: str, table: list[list[float]]) -> None:
    initial, *scores = table
    names = [f"c{k}" for k in range(len(initial))]
    found = summary(control=ControlScores(names, initial, scores))
    value, parts = CONTROL_REFERENCES[id_](scores[-1], initial)
    assert found.metrics[id_] == pytest.approx(value)
    assert found.per_task[id_] == pytest.approx(parts)
    after_each = [CONTROL_REFERENCES[id_](row, initial)[0] for row in scores]
    assert found.curves[id_] == pytest.approx(after_each)


def test_a_known_answer() -> None:
    found = summary(control=KNOWN)
    assert found.metrics["retention"] == pytest.approx((-0.06 - 0.2 + 0.04) / 3)
    assert found.metrics["retention.worst"] == pytest.approx(-0.2)
    assert found.metrics["retention.relative"] == pytest.approx((0.9 + 0.5 + 1.05) / 3)


def test_they_stand_apart_from_the_tasks_that_are_learned() -> None:
    matrix = [[0.9, 0.1], [0.6, 0.8]]
    with_, without = summary(matrix, control=KNOWN), summary(matrix)
    assert with_.tasks == without.tasks == ("task 0", "task 1")
    assert with_.control == with_.tasks_of("retention") == ("mmlu", "gsm8k", "arc")
    for id_, value in without.metrics.items():
        assert with_.metrics[id_] == value
        assert with_.per_task.get(id_) == without.per_task.get(id_)


def test_a_loss_that_falls_is_a_gain_and_has_no_ratio() -> None:
    found = summary(control=ControlScores(["c"], [8.0], [[10.0]], scale=LOSS))
    assert found.metrics["retention"] == found.metrics["retention.worst"] == -2.0
    assert "better when higher" in found.undefined["retention.relative"]


@pytest.mark.parametrize(
    ("control", "reason"),
    [
        (None, "control tasks"),
        (ControlScores(["c", "d"], [0.5, np.nan], [[0.5, 0.5]]), "d was not evaluated before"),
        (ControlScores(["c"], [0.5], [[0.5], [np.nan]]), "c was not evaluated at the end"),
    ],
)
def test_undefined_with_a_reason(control: ControlScores | None, reason: str) -> None:
    found = summary([[0.9]], control=control)
    for id_ in IDS:
        assert reason in found.undefined[id_]


def test_no_ratio_to_a_score_of_zero() -> None:
    found = summary(control=ControlScores(["c", "d"], [0.5, 0.0], [[0.5, 0.5]]))
    assert found.metrics["retention"] == 0.25
    assert found.undefined["retention.relative"].startswith("d has an initial score of 0")


# Intervals: paired on examples


def results(before: np.ndarray, after: np.ndarray) -> PerExample:
    return PerExample.pack([0, 1], np.stack([before, after]))


def test_an_interval_is_that_of_paired_differences() -> None:
    rng = np.random.default_rng(3)
    before = rng.random(20_000) < 0.7
    after = np.where(rng.random(20_000) < 0.1, ~before, before)
    control = ControlScores(["c"], [before.mean()], [[after.mean()]], {"c": results(before, after)})
    change = after.astype(float) - before
    (low, high), _ = control_intervals(control, IDS)["retention"]
    half = 1.959964 * change.std() / np.sqrt(len(change))
    assert (low, high) == pytest.approx((change.mean() - half, change.mean() + half), abs=3e-4)
    ratio = after.mean() / before.mean()
    resampled = rng.integers(0, 20_000, (400, 20_000))
    ratios = after[resampled].mean(axis=1) / before[resampled].mean(axis=1)
    (low, high), _ = control_intervals(control, IDS)["retention.relative"]
    assert high - low == pytest.approx(2 * 1.96 * ratios.std(), rel=0.12)
    assert low < ratio < high


def test_intervals_cover_the_truth() -> None:
    """Four control tasks of 300 examples; the two worst are equally bad, the hardest case."""
    rng = np.random.default_rng(0)
    right, lost, won = np.array([0.9, 0.6, 0.5, 0.3]), np.array([0.1, 0.15, 0.05, 0.2]), 0.05
    final = right * (1 - lost) + (1 - right) * won
    truth = {
        "retention": (final - right).mean(), "retention.worst": (final - right).min(),
        "retention.relative": (final / right).mean(),
    }  # fmt: skip
    held, runs = dict.fromkeys(IDS, 0), 400
    for _ in range(runs):
        before = rng.random((4, 300)) < right[:, None]
        draws = rng.random((4, 300))
        after = np.where(before, draws >= lost[:, None], draws < won)
        names = list("abcd")
        pairs = {name: results(before[k], after[k]) for k, name in enumerate(names)}
        control = ControlScores(names, before.mean(axis=1), [after.mean(axis=1)], pairs)
        for id_, ((low, high), _) in control_intervals(control, IDS).items():
            held[id_] += low <= truth[id_] <= high
    assert all(count / runs > 0.92 for count in held.values()), held


def test_no_interval_without_results_of_both_ends() -> None:
    right = np.ones((1, 8), dtype=bool)
    for steps in ([0], [1]):
        mine = {"c": PerExample.pack(steps, right)}
        assert control_intervals(ControlScores(["c"], [1.0], [[1.0]], mine), IDS) == {}


# The record


def logged(folder: Path, **changed: Any) -> perdure.Summary:
    """Two tasks and two control tasks, one with results per example, one without."""
    with perdure.Log(folder, control=["mmlu", "arc"], **changed) as log:
        log.add(0, "a", "mmlu", correct=[1, 1, 1, 0], kind="initial")
        log.add(0, "a", "arc", score=0.5, kind="initial")
        for step, trained in ((1, "a"), (2, "b")):
            log.add(step, trained, trained, score=0.75, kind="full")
            log.add(step, trained, "mmlu", correct=[1, step == 1, 0, 0], kind="full")
            log.add(step, trained, "arc", score=0.6 - step / 10, kind="full")
        log.add(2, "b", "a", score=0.5, kind="full")
    found = perdure.score(folder)
    assert isinstance(found, perdure.Summary)
    return found


def test_a_log_with_control_tasks(tmp_path: Path) -> None:
    found = logged(tmp_path)
    assert (found.tasks, found.control) == (("a", "b"), ("mmlu", "arc"))
    assert found.metrics["retention"] == pytest.approx((-0.5 - 0.1) / 2)
    assert found.curves["retention"] == pytest.approx([(-0.25 + 0) / 2, (-0.5 - 0.1) / 2])
    assert "retention" not in found.intervals  # of arc, no results per example are known
    assert not [note for note in found.notes if "not learned" in note]
    assert found.metrics["acc"] == 0.625
    assert json.loads((tmp_path / "run.json").read_text())["control"] == ["mmlu", "arc"]


def test_a_log_gives_paired_intervals(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    before, after = rng.random((2, 500)) < [[0.8], [0.7]]
    with perdure.Log(tmp_path, control=["mmlu"]) as log:
        log.add(0, None, "mmlu", correct=before, kind="initial")
        log.add(9, None, "mmlu", correct=after, kind="full")
    found = perdure.score(tmp_path)
    control = ControlScores(
        ["mmlu"], [before.mean()], [[after.mean()]], {"mmlu": results(before, after)}
    )
    assert found.intervals["retention"] == control_intervals(control, IDS)["retention"][0]


def test_an_initial_score_of_other_examples_is_no_contradiction(tmp_path: Path) -> None:
    with perdure.Log(tmp_path, control=["mmlu"]) as log:
        log.add(0, "a", "mmlu", score=0.75, n=1000, kind="initial")
        log.add(1, "a", "a", score=0.5, kind="full")
        log.add(1, "a", "mmlu", correct=[True, False], kind="full")
    found = perdure.score(tmp_path)
    assert found.metrics["retention"] == -0.25
    assert "retention" not in found.intervals


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((5, "mmlu", "a"), "trained is 'mmlu', a control task, which is never trained"),
        ((0, "a", "mmlu", 0.5), "step is 0, at which 'mmlu' has its initial evaluation"),
    ],
)
def test_a_log_refuses_contradictions(tmp_path: Path, arguments: Any, message: str) -> None:
    with perdure.Log(tmp_path, control=["mmlu"]) as log:
        log.add(0, "a", "mmlu", score=0.5, kind="initial")
        with pytest.raises(ValueError, match=message):
            log.add(*arguments, kind="full")
    with pytest.raises(ValueError, match="expected a list of names"):
        perdure.Log(tmp_path / "b", control="mmlu")


def test_a_record_that_trains_a_control_task_is_refused(tmp_path: Path) -> None:
    logged(tmp_path)
    path = tmp_path / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"control": ["a"]}))
    with pytest.raises(InputError, match=r"run\.json: control task 'a' was trained"):
        perdure.open_run(tmp_path)


# The Evaluator


def evaluated(folder: Path, tasks: dict[str, Any], **options: Any) -> Evaluator:
    evaluator = Evaluator(tasks, record=folder, count_flops=False, **options)
    watch(evaluator, net(), [("a", 3), ("b", 2)])
    return evaluator


def test_an_evaluator_evaluates_them_from_before_training_on(tmp_path: Path) -> None:
    data = sets("abc")
    tasks = data | {"c": EvalTask(data["c"], control=True, subset=5)}
    found = evaluated(tmp_path, tasks).summary()
    size = len(data["c"][1])
    mine = [(line.step, line.kind, line.n) for line in lines(tmp_path) if line.tested == "c"]
    assert mine == [
        (0, "initial", size), *((step, "probe", 5) for step in (1, 2, 3)), (3, "full", size),
        *((step, "probe", 5) for step in (4, 5)), (5, "full", size),
    ]  # fmt: skip
    scores = [line.score for line in lines(tmp_path) if line.tested == "c" and line.n == size]
    assert found.metrics["retention"] == scores[-1] - scores[0]
    low, high = found.intervals["retention"]
    assert low <= found.metrics["retention"] <= high
    assert low < high


def test_metrics_of_learned_tasks_are_the_same_without_them(tmp_path: Path) -> None:
    data = sets("abc")
    with_ = evaluated(tmp_path / "1", data | {"c": EvalTask(data["c"], control=True)})
    without = evaluated(tmp_path / "2", {name: data[name] for name in "ab"})
    expected = without.summary().metrics
    assert {id_: with_.summary().metrics[id_] for id_ in expected} == expected
    for id_ in ("current", "min_acc", "wc_acc", "wf10", "wp10"):
        assert with_.live[id_] == without.live[id_] == expected[id_]


@pytest.mark.parametrize("initial", ["none", "entered", "all"])
def test_the_untrained_model_is_evaluated_whatever_initial_says(
    tmp_path: Path, initial: Any
) -> None:
    data = sets("ab")
    tasks = {"a": data["a"], "b": EvalTask(data["b"], control=True)}
    evaluator = Evaluator(tasks, record=tmp_path, initial=initial, count_flops=False)
    with pytest.raises(
        ValueError, match=r"untrained model; pass it: evaluator\.task\('a', model\)"
    ):
        evaluator.begin("a")
    watch(evaluator, net(), [("a", 1)])
    kinds = [line.kind for line in lines(tmp_path) if line.tested == "b"]
    assert kinds == ["initial", "probe", "full"]


def test_training_a_control_task_is_refused(tmp_path: Path) -> None:
    data = sets("ab")
    evaluator = Evaluator({"a": data["a"]}, record=tmp_path, count_flops=False)
    evaluator.add_task("b", EvalTask(data["b"], control=True))
    with pytest.raises(ValueError, match="'b' is a control task, which is evaluated but never"):
        evaluator.begin("b", still)
    assert json.loads((tmp_path / "run.json").read_text())["control"] == ["b"]


def test_a_task_that_begins_twice_at_step_zero_leaves_a_readable_record(tmp_path: Path) -> None:
    data = sets("abc")
    tasks = data | {"c": EvalTask(data["c"], control=True)}
    evaluator = Evaluator(tasks, record=tmp_path, count_flops=False)
    model = net()
    evaluator.begin("a", model)
    with pytest.warns(perdure.EvaluationWarning, match="ended without a step"):
        evaluator.end()
    watch(evaluator, model, [("b", 2)])
    assert "retention" in perdure.score(tmp_path).intervals


def test_a_resumed_run_goes_on_evaluating_them(tmp_path: Path) -> None:
    data = sets("abc")
    tasks = data | {"c": EvalTask(data["c"], control=True)}
    model = net()
    first = Evaluator(tasks, record=tmp_path, count_flops=False)
    watch(first, model, [("a", 2)])
    state = first.state_dict()
    first.close(finished=False)
    again = Evaluator(tasks, record=Record(tmp_path, resume=state), count_flops=False)
    watch(again, model, [("b", 2)])
    kinds = [line.kind for line in lines(tmp_path) if line.tested == "c" and line.kind != "probe"]
    assert kinds == ["initial", "full", "full"]
    assert "retention" in perdure.score(tmp_path).intervals


def test_losses_of_control_tasks(tmp_path: Path) -> None:
    data = sets("ab")
    tasks = {"a": data["a"], "b": EvalTask(data["b"], control=True)}

    def loss(model: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(model(x), y, reduction="none")

    score = Score(loss, lower_is_better=True)
    evaluator = Evaluator(tasks, record=tmp_path, score=score, count_flops=False)
    watch(evaluator, net(), [("a", 4)])
    first, *_, last = [line.score for line in lines(tmp_path) if line.tested == "b"]
    assert perdure.score(tmp_path).metrics["retention"] == pytest.approx(first - last)


def test_the_command_has_a_heading_for_them(tmp_path: Path) -> None:
    logged(tmp_path)
    shown = run_command("score", tmp_path).out
    assert "control tasks\n  retention " in shown


# What shows them


def test_figures_and_pages_tell_them_apart(tmp_path: Path) -> None:
    logged(tmp_path)
    methods = {"mine": [perdure.open_run(tmp_path)]}
    figure = curves(methods)
    titles = [axes.get_title() for axes in figure.axes if axes.get_visible()]
    assert titles == ["a", "b", "mmlu (control)", "arc (control)"]
    drawn = figure.axes[2].lines[1].get_data()  # after the line of the switch
    np.testing.assert_array_equal(drawn, ([0, 1, 2], [0.75, 0.5, 0.25]))
    panels = [axes.get_title(loc="right") for axes in averages(methods).axes]
    assert panels == ["acc", "forgetting.best", "retention"]
    data = make_curve_data(methods)
    assert data.tasks == titles
    assert [style.dash for style in data.styles] == ["solid", "solid", "dotted", "dotted"]


def test_the_live_page_has_their_curves_but_not_in_its_mean(tmp_path: Path) -> None:
    logged(tmp_path)
    points = perdure.open_run(tmp_path).points
    assert points is not None
    control = points.stream(control=True).tasks
    drawn = make_run_curves(points.stream(), 1, 1, control)
    assert list(drawn.tasks) == ["a", "b", "mmlu (control)", "arc (control)"]
    np.testing.assert_allclose(drawn.mean[1], [0.75, 0.625])
    message = to_curve_message(drawn)
    assert [task.dash for task in message.tasks] == ["solid", "solid", "dotted", "dotted"]


def test_a_comparison_has_columns_for_them_only_where_there_are_any(tmp_path: Path) -> None:
    for name in ("one", "two"):
        logged(tmp_path / name, config={"strategy": name, "seed": 0})
    report = perdure.compare(f"one={tmp_path}/one", f"two={tmp_path}/two")
    assert report.metrics["retention"].means["one"].mean == pytest.approx(-0.3)
    matrix = [[0.9, 0.1], [0.6, 0.8]]
    for name in ("x", "y"):
        (tmp_path / f"{name}.json").write_text(json.dumps(matrix))
    plain = perdure.compare(f"x={tmp_path}/x.json", f"y={tmp_path}/y.json")
    assert not [note for note in plain.notes if "retention" in note]
    assert "retention" not in {*plain.metrics, *plain.undefined}


def test_a_log_of_another_tool_gets_its_control_tasks_by_option(tmp_path: Path) -> None:
    logged(tmp_path / "run")
    path = tmp_path / "points.csv"
    path.write_bytes((tmp_path / "run" / "points.csv").read_bytes())
    assert perdure.score(path, control=["mmlu", "arc"]).metrics["retention"] == pytest.approx(-0.3)
    for names, message in (
        ("mmlu,x", "--control names 'x', which is never evaluated"),
        ("a", "control task 'a' was trained"),
        ("a,a", "--control is 'a,a', expected names like mmlu,gsm8k, each once"),
    ):
        answer = run_command("score", path, "--control", names)
        assert answer.code == 2
        assert message in answer.err
    matrix = tmp_path / "m.csv"
    matrix.write_text("0.9,0.1\n0.6,0.8\n")
    assert "a score matrix has no control tasks" in run_command(
        "score", matrix, "--control", "a"
    ).err  # fmt: skip
