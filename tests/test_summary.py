"""One call for everything: what is defined, what is not and why, scores of any kind, many runs."""

import json
import re
import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from perdure.metrics import (
    METRICS,
    ControlScores,
    Costs,
    ScoreMatrix,
    ScoreScale,
    Stream,
    Summary,
    SummaryOptions,
    find_metric,
    summary,
    summary_of_runs,
)
from perdure.stats import bca_interval, mean_proportion_interval, wilson_interval

from .references import REFERENCES, Array, B, Case, R, few, nan, words

# Copied from the definitions: a level keeps the user's own units, a change is larger when better.
LEVELS = words("""
acc acc.pooled acc.lower acc.below acc.incremental acc.learning acc.all
fwt.upper fwt.next omega.new
""")
ACCURACY_ONLY = ["rem", "bwt.positive", "raa", "raf", "uraa", "uraf"]
NOT_NEGATIVE = ["omega.base", "omega.all", "omega.offline"]


def ids(windows: Sequence[str] = ("10", "100", "all"), beta: int = 10) -> list[str]:
    """Every id as a summary names it: wf, wp and lca with their numbers."""
    expanded = []
    for id_ in METRICS:
        numbers = {"wf": list(windows), "wp": list(windows), "lca": [str(beta)]}.get(id_, [""])
        expanded += [id_ + number for number in numbers]
    return expanded


def a_stream() -> Stream:
    steps = np.arange(1, 41)
    first = np.r_[np.linspace(0.1, 0.9, 20), np.linspace(0.3, 0.95, 20)]
    second = np.linspace(0.2, 0.8, 20)
    return Stream(
        {"a": (steps, first), "b": (steps[20:], second)},
        [("a", 20), ("b", 40)],
        before={"a": 0.1, "b": 0.15},
    )


def some_costs() -> Costs:
    columns = (
        "model_bytes", "copies_bytes", "stored_bytes", "data_bytes", "flops_one_pass",
        "flops_train",
    )  # fmt: skip
    return Costs(("a", "b"), {name: np.array([10.0, 20.0]) for name in columns})


def whole_run(shift: float = 0.0, **changed: Any) -> Summary:
    given_: dict[str, Any] = {
        "scores": [[0.9 - shift, 0.2], [0.6, 0.8]],
        "tasks": ["a", "b"],
        "initial": [0.1, 0.1],
        "joint": [0.9, 0.9],
        "single": [0.9, 0.8],
        "offline": [0.9, 0.9],
        "classes": [2, 2],
        "sizes": [100, 300],
    }
    return summary(
        ScoreMatrix(**(given_ | changed)), stream=a_stream(), costs=some_costs(),
        control=ControlScores(["c"], [0.9 - shift], [[0.8], [0.5]]),
    )  # fmt: skip


def check_partition(found: Summary, expected: list[str]) -> None:
    assert not set(found.metrics) & set(found.undefined)
    assert set(found.metrics) | set(found.undefined) == set(expected)
    assert all(reason.strip() for reason in found.undefined.values())
    assert all(np.isfinite(value) for value in found.metrics.values())
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain["metrics"] == found.metrics
    assert plain["undefined"] == found.undefined
    assert plain["curves"] == found.curves


# Every id is somewhere


def test_every_id_is_defined_or_has_a_reason() -> None:
    nothing = summary()
    assert not nothing.metrics
    lower = np.where(np.tri(5, dtype=bool), R, nan)
    for found in (
        nothing,
        summary(R),
        summary([[0.5]]),
        summary(lower),
        summary(ScoreMatrix(R, initial=B, setting="class", sizes=[10] * 5)),
        summary(a_stream()),
        summary(costs=some_costs()),
        whole_run(),
    ):
        check_partition(found, ids())


def test_a_whole_run_has_everything_but_stability() -> None:
    found = whole_run()
    assert list(found.undefined) == ["clstability"]
    assert "at least 2 runs, got 1" in found.undefined["clstability"]
    criteria = ["acc.lower", "rem", "bwt.positive", "fwt.upper", "ms", "sss", "ce"]
    expected = sum(found.metrics[id_] for id_ in criteria) / 7
    assert found.metrics["clscore"] == pytest.approx(expected)


def test_without_curves_everything_else_is_the_same() -> None:
    matrix, options = ScoreMatrix(R, initial=B), SummaryOptions(curves=False)
    whole = summary(matrix, stream=a_stream(), costs=some_costs())
    found = summary(matrix, stream=a_stream(), costs=some_costs(), options=options)
    assert whole.curves
    assert not found.curves
    assert found == replace(whole, curves={})


def test_a_curve_ends_in_the_value_of_all_tasks() -> None:
    found = summary(ScoreMatrix(R, initial=B))
    for id_, curve in ((id_, found.curve(id_)) for id_ in found.metrics):
        assert curve is None or curve[-1] == pytest.approx(found.metrics[id_])


def test_options_reach_the_metrics() -> None:
    options = SummaryOptions(windows=(3, None), beta=2, weights={"A": 0.5, "forgetting.peak": 0.5})
    found = summary(
        ScoreMatrix(R, sizes=[50] * 5), stream=a_stream(), costs=some_costs(), options=options
    )
    check_partition(found, ids(("3", "all"), beta=2))
    assert found.metrics["clscore"] == pytest.approx(0.5 * 0.682 + 0.5 * (1 - 0.225))


@pytest.mark.parametrize(
    ("id_", "words"),
    [
        ("acc.pooled", "how many test examples each task has"),
        ("fwt.gem", "untrained model's scores"),
        ("fwt.learned", "untrained model's scores"),
        ("intransigence", "trained on all tasks at once"),
        ("intransigence.single", "trained on one task each"),
        ("omega.base", "trained on all tasks at once"),
        ("omega.offline", "trained offline on the tasks so far"),
        ("forgetting.ratio", "untrained model's scores"),
        ("raa", "how many classes each task brings"),
        ("min_acc", "needs a stream"),
        ("wf10", "needs a stream"),
        ("ms", "cost"),
        ("clscore", "needs ms"),
    ],
)
def test_reasons_say_what_is_missing(id_: str, words: str) -> None:
    assert words in summary(R).undefined[id_]


@pytest.mark.parametrize(
    ("id_", "words"),
    [("btw", "did you mean bwt?"), ("fwt.gem", "`undefined` has the reason"), ("wf7", "wf7 has")],
)
def test_a_value_that_is_not_there_says_why(id_: str, words: str) -> None:
    run = summary([[0.9, 0.1], [0.6, 0.8]])
    for scores in (run, summary_of_runs([run, run])):
        for ids in (list(scores.metrics), ["acc"]):
            scores.keep_only(ids)
            with pytest.raises(KeyError, match=re.escape(words)):
                scores.metrics[id_]
            assert scores.metrics.get(id_) is None


def test_reasons_without_a_matrix() -> None:
    found = summary(a_stream())
    assert all("needs a score matrix" in found.undefined[id_] for id_ in REFERENCES)
    assert found.tasks == ("a", "b")


def test_division_by_nothing_is_a_reason() -> None:
    same = summary(ScoreMatrix(R, initial=B, joint=[0.9, 0.11, 0.9, 0.9, 0.9]))
    assert "joint and untrained scores of task 1 are equal" in same.undefined["forgetting.ratio"]
    zero = summary(ScoreMatrix(R, joint=[0.0, 0.9, 0.9, 0.9, 0.9]))
    assert "divides by the joint model's scores" in zero.undefined["omega.base"]
    assert "divides by the joint model's scores" in zero.undefined["omega.all"]
    zero = summary(ScoreMatrix(R, offline=[0.9, 0.9, 0.0, 0.9, 0.9]))
    assert "divides by the offline model's scores" in zero.undefined["omega.offline"]


def test_long_streams_leave_out_slow_curves() -> None:
    found = summary(np.full((201, 201), 0.5))
    assert any("more than 200 tasks" in note for note in found.notes)
    assert {"aa", "af", "bwt", "fixed"} <= set(found.curves)
    assert "acc.lower" not in found.curves
    assert found.metrics["acc.lower"] == pytest.approx(0.5)


def test_intervals_of_one_run() -> None:
    sizes = [100, 200, 100, 300, 100]
    for level in (0.95, 0.8):
        found = summary(ScoreMatrix(R, sizes=sizes), options=SummaryOptions(level=level))
        assert found.intervals["acc"] == mean_proportion_interval(R[-1], sizes, level=level)
        diagonal = [R[k][k] for k in range(5)]
        assert found.intervals["acc.learning"] == mean_proportion_interval(
            diagonal, sizes, level=level
        )
        low, high = wilson_interval(found.metrics["acc.pooled"], 800, level=level)
        assert found.intervals["acc.pooled"] == (float(low), float(high))
        ends = np.array(wilson_interval(R[-1], sizes, level=level)).T
        np.testing.assert_allclose(np.array(found.per_task_intervals["acc"], dtype=float), ends)
    assert not summary(R).intervals
    losses = ScoreMatrix(R, sizes=sizes, scale=ScoreScale(0, 5, lower_is_better=True))
    assert not summary(losses).intervals


# Scores that are not accuracies


def other_scores(low: float, high: float) -> st.SearchStrategy[Case]:
    """Matrices and vectors of scores in a range; joint models differ from untrained ones."""

    def case(block: Array) -> Case:
        t = block.shape[1]
        rows = (low + (high - low) * block).tolist()
        middle = (low + high) / 2
        return Case(
            matrix=np.array(rows[:t]),
            initial=[middle] * t,
            joint=[middle + (high - low) / 4] * t,
            single=rows[t],
            offline=[middle + (high - low) / 8] * t,
            classes=[2] * t,
            sizes=list(range(1, t + 1)),
        )

    shape = st.integers(2, 6).map(lambda t: (t + 1, t))
    return arrays(np.float64, shape, elements=st.floats(0, 1, width=32)).map(case)


def negated(case: Case) -> Case:
    return replace(
        case,
        matrix=-case.matrix,
        initial=[-x for x in case.initial],
        joint=[-x for x in case.joint],
        single=[-x for x in case.single],
        offline=[-x for x in case.offline],
    )


def of(case: Case, scale: ScoreScale) -> Summary:
    names = ("initial", "joint", "single", "offline", "classes", "sizes")
    arguments = case.arguments(names)
    return summary(ScoreMatrix(case.matrix, scale=scale, upper="measured", **arguments))


@few
@given(other_scores(0, 10))
def test_losses(case: Case) -> None:
    loss = of(case, ScoreScale(0, 10, lower_is_better=True))
    score = of(negated(case), ScoreScale(-10, 0))
    for id_ in set(REFERENCES) - {*ACCURACY_ONLY, *NOT_NEGATIVE}:
        right, parts = REFERENCES[id_](case if id_ in LEVELS else negated(case))
        assert loss.metrics[id_] == pytest.approx(right, abs=1e-9), id_
        as_floats = [nan if part is None else part for part in loss.per_task[id_]]
        np.testing.assert_allclose(as_floats, parts, atol=1e-9, err_msg=id_)
        sign = -1 if id_ in LEVELS else 1
        assert score.metrics[id_] == pytest.approx(sign * right, abs=1e-9), id_
        curve = loss.curves[{"acc": "aa", "forgetting.best": "af"}.get(id_, id_)]
        assert curve[-1] == pytest.approx(right, abs=1e-9), id_
    np.testing.assert_allclose(
        np.array(loss.curves["fixed"], dtype=float), case.matrix.mean(axis=1)
    )
    for found in (loss, score):
        for id_ in ACCURACY_ONLY:
            assert "is defined for accuracies from 0 to 1" in found.undefined[id_]
        for id_ in NOT_NEGATIVE:
            assert "never negative" in found.undefined[id_]
        check_partition(found, ids())


@few
@given(other_scores(-5, 50))
def test_rewards_in_any_range(case: Case) -> None:
    for scale in (ScoreScale(-5, 50), ScoreScale(-np.inf, np.inf)):
        found = of(case, scale)
        for id_ in set(REFERENCES) - {*ACCURACY_ONLY, *NOT_NEGATIVE}:
            assert found.metrics[id_] == pytest.approx(REFERENCES[id_](case)[0], abs=1e-9), id_
        assert {*ACCURACY_ONLY, *NOT_NEGATIVE} <= set(found.undefined)


def test_losses_from_nought_to_one_are_no_accuracies() -> None:
    found = summary(ScoreMatrix(R, classes=[2] * 5, scale=ScoreScale(0, 1, lower_is_better=True)))
    assert set(ACCURACY_ONLY) <= set(found.undefined)
    assert found.metrics["acc"] == pytest.approx(0.662)
    assert found.metrics["bwt"] == pytest.approx(0.165)


def test_percent_keeps_ratios() -> None:
    percent = 100 * np.array(R)
    found = summary(
        ScoreMatrix(percent, joint=[90.0] * 5, offline=[80.0] * 5, scale=ScoreScale(0, 100))
    )
    plain = summary(ScoreMatrix(R, joint=[0.9] * 5, offline=[0.8] * 5))
    for id_ in ("omega.base", "omega.all", "omega.offline"):
        assert found.metrics[id_] == pytest.approx(plain.metrics[id_])
    assert found.metrics["acc"] == pytest.approx(66.2)
    assert found.metrics["memory_stability"] == pytest.approx(
        10_000 * plain.metrics["memory_stability"]
    )


# Several runs


def test_means_and_deviations_over_runs() -> None:
    runs = [whole_run(shift) for shift in (0.0, 0.1, 0.25)]
    found = summary_of_runs(runs)
    assert set(found.metrics) | set(found.undefined) == set(ids())
    assert not set(found.metrics) & set(found.undefined)
    for id_ in set(ids()) - {"clstability"}:
        each = [run.metrics[id_] for run in runs]
        assert found.metrics[id_] == pytest.approx(statistics.mean(each)), id_
        assert found.sd[id_] == pytest.approx(statistics.stdev(each), abs=1e-12), id_
        half = 4.302653 * statistics.stdev(each) / 3**0.5  # Student's t with 2 degrees, 97.5%
        row = find_metric(id_)  # an interval reaches no further than the metric
        ends = (
            max(statistics.mean(each) - half, row.low),
            min(statistics.mean(each) + half, row.high),
        )
        assert found.intervals[id_] == pytest.approx(ends, abs=1e-6), id_
    for id_ in runs[0].curves:
        each_curve = np.array([run.curves[id_] for run in runs], dtype=float)
        mean = np.array(found.curves[id_], dtype=float)
        np.testing.assert_allclose(mean, each_curve.mean(axis=0), atol=1e-12, err_msg=id_)
    assert found.per_task["acc.learning"][0] == pytest.approx(0.9 - 0.35 / 3)
    assert found.per_task["bwt"][1] is None
    json.dumps(found.to_dict(), allow_nan=False)


def test_scores_over_runs_are_those_of_the_mean_criteria() -> None:
    runs = [whole_run(shift) for shift in (0.0, 0.1, 0.25)]
    found = summary_of_runs(runs)
    criteria = ["acc.lower", "rem", "bwt.positive", "fwt.upper", "ms", "sss", "ce"]
    mean = sum(found.metrics[id_] for id_ in criteria) / 7
    assert found.metrics["clscore"] == pytest.approx(mean)
    spread = [statistics.stdev([run.metrics[id_] for run in runs]) for id_ in criteria]
    assert found.metrics["clstability"] == pytest.approx(1 - sum(spread) / 7)
    own = summary_of_runs(runs, weights={"A": 1.0})
    assert own.metrics["clstability"] == pytest.approx(1 - spread[0])


def test_other_intervals_over_runs() -> None:
    runs = [whole_run(shift) for shift in (0.0, 0.1, 0.25)]
    each = [run.metrics["acc.learning"] for run in runs]
    found = summary_of_runs(runs, method="bca", level=0.8)
    assert found.intervals["acc.learning"] == bca_interval(each, level=0.8)


def test_a_metric_missing_in_one_run_is_undefined() -> None:
    found = summary_of_runs([whole_run(), whole_run(0.1, initial=None)])
    assert "fwt.gem" not in found.metrics
    assert "fwt.gem" not in found.sd
    assert found.undefined["fwt.gem"].startswith("in run 1: needs the untrained model's scores")
    assert "fwt.gem" not in found.curves
    nowhere = summary_of_runs([summary(R), summary(R)])
    assert nowhere.undefined["fwt.gem"] == summary(R).undefined["fwt.gem"]
    assert "needs ms" in nowhere.undefined["clstability"]
    assert "clstability" not in nowhere.metrics


def test_losses_have_no_stability_either() -> None:
    scale, weights = ScoreScale(0, 10, lower_is_better=True), {"A": 1.0}
    runs = [summary(ScoreMatrix([[loss, 9], [6, 2]], scale=scale)) for loss in (0, 9)]
    found = summary_of_runs(runs, weights=weights)
    assert "clstability" not in found.metrics
    assert found.undefined["clstability"]


def test_runs_that_are_no_runs_of_one_method() -> None:
    with pytest.raises(ValueError, match="several runs are needed, got 1"):
        summary_of_runs([summary(R)])
    with pytest.raises(ValueError, match=r"the same number of tasks, got \[5, 1\]"):
        summary_of_runs([summary(R), summary([[0.5]])])


def test_notes_are_not_repeated() -> None:
    runs = [summary(ScoreMatrix(R, notes=["from a log", note])) for note in ("one", "two")]
    assert summary_of_runs(runs).notes[:-1] == ["from a log", "one", "two"]
