"""Costs of learning, and the score that fuses them with accuracy."""

import re
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.metrics import (
    Costs,
    ScoreMatrix,
    ScoreScale,
    SummaryOptions,
    UndefinedMetricError,
    ce,
    clscore,
    clscore_of,
    clstability,
    clstability_of,
    criteria_weights,
    ms,
    sss,
    summary,
)

from .references import R, inf, mean, nan, some

sizes = st.lists(st.integers(1, 10**6), min_size=1, max_size=8)


def table(**columns: list[float]) -> Costs:
    return Costs(("a", "b"), {name: np.array(column) for name, column in columns.items()})


# Known answers of Diaz-Rodriguez et al. 2018


def test_ewc_keeps_an_importance_and_an_anchor_a_parameter() -> None:
    assert ms([1.0] + [3.0] * 9) == pytest.approx(0.4)  # (1 + 9 x 1/3) / 10


def test_cumulative_stores_everything_seen() -> None:
    assert sss([100.0 * k for k in range(10)], [100.0] * 10) == pytest.approx(0.55)


def test_a_model_that_does_not_grow_and_stores_nothing() -> None:
    assert ms([5.0] * 4) == 1.0
    assert sss([0.0] * 4, [10.0] * 4) == 1.0
    assert ce([10.0] * 4, [10.0] * 4) == 1.0


@some
@given(sizes)
def test_ms_agrees_with_the_definition(model: list[int]) -> None:
    assert ms(model) == pytest.approx(min(1, mean(model[0] / size for size in model)))
    np.testing.assert_allclose(ms(model).per_task, [model[0] / size for size in model])


@some
@given(st.lists(st.tuples(st.integers(0, 999), st.integers(1, 999)), min_size=1, max_size=8))
def test_sss_agrees_with_the_definition(rows: list[tuple[int, int]]) -> None:
    stored, data = [row[0] for row in rows], [row[1] for row in rows]
    expected = 1 - min(1, mean(kept / sum(data) for kept in stored))
    assert sss(stored, data) == pytest.approx(expected, abs=1e-12)


@some
@given(
    st.lists(st.tuples(st.integers(1, 999), st.integers(1, 999)), min_size=1, max_size=8),
    st.floats(0.01, 10),
)
def test_ce_agrees_with_the_definition(rows: list[tuple[int, int]], epsilon: float) -> None:
    once, train = [row[0] for row in rows], [row[1] for row in rows]
    expected = min(1, mean(one * epsilon / all_ for one, all_ in rows))
    assert ce(once, train, epsilon=epsilon) == pytest.approx(expected)


def test_capped_at_one_and_at_zero() -> None:
    assert ms([100, 10, 10]) == 1.0
    assert sss([500, 500], [10, 10]) == 0.0
    assert ce([10], [50], epsilon=100) == 1.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ms([1, 0]), "model bytes must be positive for each task, got [1.0, 0.0]"),
        (lambda: ms([1, nan]), "model bytes must be positive"),
        (lambda: ms([]), "model bytes must be positive"),
        (lambda: ms([[1, 2]]), "model bytes must be positive"),
        (lambda: sss([-1, 0], [1, 1]), "stored bytes must be 0 or more"),
        (lambda: sss([nan, 0], [1, 1]), "stored bytes must be 0 or more"),
        (lambda: sss([0, 0], [1, 0]), "data bytes must be positive"),
        (lambda: ce([1, 1], [1, 0]), "training operations must be positive"),
        (lambda: ce([0, 1], [1, 1]), "operations of one pass must be positive"),
        (lambda: ce([1], [1], epsilon=0), "epsilon must be a positive number, got 0"),
        (lambda: ce([1], [1], epsilon=nan), "epsilon must be a positive number, got nan"),
    ],
)
def test_says_what_is_wrong(call: Callable[[], float], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        call()


@pytest.mark.parametrize(
    "call",
    [
        lambda: sss([0, 100], [100] * 4),
        lambda: sss([], [100] * 4),
        lambda: ce([10], [100, 50]),
        lambda: ce([10, 20, 30], [100, 50]),
        lambda: ms([1, inf]),
        lambda: ce([inf, 1], [1, 1]),
    ],
    ids=["sss short", "sss empty", "ce short", "ce long", "ms inf", "ce inf"],
)
def test_refuses_one_value_too_few_and_infinite_costs(call: Callable[[], float]) -> None:
    with pytest.raises(ValueError, match=r"task|finite"):
        call()


# Through the summary


def test_columns_become_metrics() -> None:
    costs = table(
        model_bytes=[10, 20],
        stored_bytes=[0, 30],
        data_bytes=[30, 30],
        flops_one_pass=[5, 5],
        flops_train=[50, 100],
    )
    found = summary(costs=costs).metrics
    assert found["ms"] == pytest.approx(0.75)
    assert found["sss"] == pytest.approx(0.75)
    assert found["ce"] == pytest.approx(0.075)
    doubled = summary(costs=costs, options=SummaryOptions(epsilon=2)).metrics
    assert doubled["ce"] == pytest.approx(0.15)


@pytest.mark.parametrize(
    ("id_", "columns"),
    [
        ("ms", ("model_bytes",)),
        ("sss", ("stored_bytes", "data_bytes")),
        ("ce", ("flops_one_pass", "flops_train")),
    ],
)
def test_missing_columns_are_a_reason(id_: str, columns: tuple[str, ...]) -> None:
    names = ("model_bytes", "stored_bytes", "data_bytes", "flops_one_pass", "flops_train")
    for column in columns:
        others = {name: [1.0, 1.0] for name in names if name != column}
        without = summary(costs=table(**others))
        assert id_ not in without.metrics
        assert f"needs {column} in the costs" in without.undefined[id_]
        empty = summary(costs=table(**others, **{column: [1.0, nan]}))
        assert f"needs {column} of task 'b'" in empty.undefined[id_]
        told_by_the_loop = column in (
            "data_bytes",
            "stored_bytes",
            "copies_bytes",
            "flops_one_pass",
        )
        assert ("an Evaluator needs" in empty.undefined[id_]) == told_by_the_loop
    assert "cost" in summary(R).undefined[id_]


# CLscore and CLstability

Weights = dict[str, float]


def test_stability_takes_the_sample_deviation() -> None:
    runs = {"A": [0.5, 0.6, 0.9], "MS": [1.0, 1.0, 0.7]}
    weights = {"A": 0.25, "MS": 0.75}
    expected = 1 - 0.25 * statistics.stdev(runs["A"]) - 0.75 * statistics.stdev(runs["MS"])
    assert clstability(runs, weights) == pytest.approx(expected)
    halves = 1 - (statistics.stdev(runs["A"]) + statistics.stdev(runs["MS"])) / 2
    assert clstability(runs) == pytest.approx(halves)


@some
@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0.01, 1)), min_size=1, max_size=9))
def test_the_score_is_a_weighted_sum(rows: list[tuple[float, float]]) -> None:
    total = sum(weight for _, weight in rows)
    criteria = {str(k): value for k, (value, _) in enumerate(rows)}
    weights = {str(k): weight / total for k, (_, weight) in enumerate(rows)}
    expected = sum(value * weight / total for value, weight in rows)
    assert clscore(criteria, weights) == pytest.approx(expected)
    assert clscore(criteria) == pytest.approx(mean(criteria.values()))


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"A": 0.5, "MS": 0.4}, "weights sum to 0.9, expected 1"),
        ({"A": 1.5, "MS": -0.5}, "weight of 'A' is 1.5, expected 0 to 1"),
        ({"A": 1.0}, "weights are for ['A'], criteria are ['A', 'MS']"),
        ({"A": nan, "MS": 1.0}, "weight of 'A' is nan"),
    ],
)
def test_weights_that_weigh_nothing(weights: Weights, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        clscore({"A": 0.5, "MS": 1.0}, weights)
    with pytest.raises(ValueError, match=re.escape(message)):
        clstability({"A": [0.5, 0.6], "MS": [1.0, 1.0]}, weights)


def test_criteria_that_are_none() -> None:
    with pytest.raises(ValueError, match=r"criterion 'A' is 1\.2, expected 0 to 1"):
        clscore({"A": 1.2})
    with pytest.raises(ValueError, match="criterion 'A' is nan"):
        clscore({"A": nan})
    with pytest.raises(ValueError, match="at least one criterion"):
        clscore({})
    with pytest.raises(UndefinedMetricError, match="at least 2 runs, got 1"):
        clstability({"A": [0.5]})


def test_own_criteria_are_turned_round_where_smaller_is_better() -> None:
    weights = criteria_weights({"a": 0.5, "forgetting.peak": 0.3, "memory_stability": 0.2})
    assert weights == {"acc.lower": 0.5, "forgetting.peak": 0.3, "memory_stability": 0.2}
    run = {"acc.lower": 0.8, "forgetting.peak": 0.1, "memory_stability": 0.05}
    assert clscore_of(run, weights) == pytest.approx(0.4 + 0.3 * 0.9 + 0.2 * 0.95)
    other = {"acc.lower": 0.6, "forgetting.peak": 0.3, "memory_stability": 0.05}
    spread = 0.5 * statistics.stdev([0.8, 0.6]) + 0.3 * statistics.stdev([0.1, 0.3])
    assert clstability_of([run, other], weights) == pytest.approx(1 - spread)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"bwt": 1.0}, "criterion 'bwt' ranges from -1 to 1, expected 0 to 1"),
        ({"uraa": 1.0}, "criterion 'uraa' ranges from 0 to inf"),
        ({"A": 0.5, "acc.lower": 0.5}, "criterion 'acc.lower' is given twice"),
        ({"A": 0.5, "MS": 0.4}, "weights sum to 0.9"),
        ({"acc.lowr": 1.0}, "did you mean acc.lower"),
    ],
)
def test_own_criteria_that_cannot_be(weights: Weights, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        criteria_weights(weights)


def test_a_criterion_that_is_undefined_makes_the_score_undefined() -> None:
    found = summary(R)
    assert "clscore" not in found.metrics
    assert "needs ms" in found.undefined["clscore"]
    with pytest.raises(UndefinedMetricError, match="needs rem"):
        clscore_of({"acc": 1.0}, {"rem": 1.0})


def score_of(scores: Any, scale: ScoreScale) -> tuple[float | None, str | None]:
    found = summary(ScoreMatrix(scores, scale=scale), options=SummaryOptions(weights={"A": 1.0}))
    return found.metrics.get("clscore"), found.undefined.get("clscore")


def test_a_loss_is_no_criterion_as_it_stands() -> None:
    """Smaller is better here: 1 - c, or undefined with a reason, but never the loss itself."""
    low, reason = score_of([[0.1, 0.1], [0.1, 0.1]], ScoreScale(0, 1, lower_is_better=True))
    high, _ = score_of([[0.9, 0.9], [0.9, 0.9]], ScoreScale(0, 1, lower_is_better=True))
    assert reason or (low is not None and high is not None and low > high)


def test_scores_beyond_one_leave_the_score_undefined() -> None:
    value, reason = score_of([[3, 9], [6, 2]], ScoreScale(0, 10))
    assert value is None or 0 <= value <= 1
    assert value is not None or reason
