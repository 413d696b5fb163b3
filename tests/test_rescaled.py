"""Rescaled accuracy and forgetting: any class counts, closed forms, and the three settings."""

import re
from itertools import accumulate
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.metrics import (
    ScoreMatrix,
    Setting,
    UndefinedMetricError,
    acc,
    beta,
    forgetting_best,
    gamma,
    raa,
    raa_curve,
    raf,
    raf_curve,
    random_aa,
    random_af,
    summary,
    uraa,
    uraa_curve,
    uraf,
    uraf_curve,
)

from .references import (
    Case,
    R,
    aa_rand,
    af_rand,
    cases,
    raa_at,
    raf_at,
    some,
    uraa_at,
    uraf_at,
)

Labelled = Literal["task", "domain"]
both_labelled = pytest.mark.parametrize("setting", ["task", "domain"])
counts = st.lists(st.integers(1, 30), min_size=2, max_size=12)


def harmonic(k: int) -> float:
    return sum(1 / n for n in range(1, k + 1))


@some
@given(cases())
def test_curves_for_any_class_counts(case: Case) -> None:
    r, c, steps = case.matrix, case.classes, range(len(case.r))
    np.testing.assert_allclose(random_aa(c), [aa_rand(case, k) for k in steps])
    np.testing.assert_allclose(random_af(c)[1:], [af_rand(case, k) for k in steps[1:]])
    np.testing.assert_allclose(uraa_curve(r, c), [uraa_at(case, k) for k in steps])
    np.testing.assert_allclose(raa_curve(r, c), [raa_at(case, k) for k in steps])
    uraf_points, raf_points = uraf_curve(r, c)[1:], raf_curve(r, c)[1:]
    np.testing.assert_allclose(uraf_points, [uraf_at(case, k) for k in steps[1:]], atol=1e-9)
    np.testing.assert_allclose(raf_points, [raf_at(case, k) for k in steps[1:]], atol=1e-9)


@some
@given(cases())
def test_nothing_was_forgotten_after_the_first_task(case: Case) -> None:
    for curve in (raf_curve, uraf_curve):
        assert np.isnan(curve(case.matrix, case.classes)[0])
    assert np.isnan(random_af(case.classes)[0])
    assert np.isnan(beta(case.classes)[0])


@some
@given(cases())
def test_at_the_last_task_raa_is_aa(case: Case) -> None:
    assert raa(case.matrix, case.classes) == pytest.approx(acc(case.matrix), abs=1e-12)
    last = raa_curve(case.matrix, case.classes)[-1]
    assert last == pytest.approx(acc(case.matrix), abs=1e-12)


@some
@given(cases(), st.integers(1, 20))
def test_at_the_last_task_raf_is_af_for_equal_class_counts(case: Case, size: int) -> None:
    equal = [size] * len(case.r)
    assert raf(case.matrix, equal) == pytest.approx(forgetting_best(case.matrix), abs=1e-12)


@some
@given(cases())
def test_values_are_the_curves_last(case: Case) -> None:
    r, c = case.matrix, case.classes
    for value, curve in (
        (raa, raa_curve),
        (uraa, uraa_curve),
        (raf, raf_curve),
        (uraf, uraf_curve),
    ):
        assert value(r, c) == pytest.approx(curve(r, c)[-1], rel=1e-9, abs=1e-9)


@some
@given(counts)
def test_gamma_is_the_share_of_classes_seen(classes: list[int]) -> None:
    seen = list(accumulate(classes))
    np.testing.assert_allclose(gamma(classes), [n / seen[-1] for n in seen])


@some
@given(st.integers(2, 30), st.integers(1, 20))
def test_beta_of_equal_tasks_has_a_closed_form(tasks: int, size: int) -> None:
    expected = [
        (harmonic(tasks) - 1) * (k - 1) / ((harmonic(k) - 1) * (tasks - 1))
        for k in range(2, tasks + 1)
    ]
    np.testing.assert_allclose(beta([size] * tasks)[1:], expected, rtol=1e-9)


@some
@given(counts)
def test_beta_is_at_most_one_and_takes_the_hardest_step_as_unit(classes: list[int]) -> None:
    factors = beta(classes)[1:]
    assert factors.max() == pytest.approx(1)
    assert (factors > 0).all()
    np.testing.assert_allclose(factors * random_af(classes)[1:], np.nanmin(random_af(classes)))


# Settings


@both_labelled
@some
@given(case=cases(setting="task"))
def test_a_guesser_that_is_told_the_task(setting: Labelled, case: Case) -> None:
    steps, c = range(len(case.r)), case.classes
    np.testing.assert_allclose(random_aa(c, setting=setting), [aa_rand(case, k) for k in steps])
    found = summary(ScoreMatrix(case.matrix, classes=c, setting=setting))
    expected = [raa_at(case, k) for k in steps]
    np.testing.assert_allclose(np.array(found.curves["raa"], dtype=float), expected, atol=1e-12)
    assert found.metrics["raa"] == pytest.approx(expected[-1], abs=1e-12)
    assert found.metrics["uraa"] == pytest.approx(uraa_at(case, steps[-1]))


def test_tasks_of_two_and_ten_classes_by_hand() -> None:
    r = [[0.9, 0.2], [0.6, 0.5]]
    # told the task, a guesser has .5, then (.5 + .1)/2 = .3
    np.testing.assert_allclose(random_aa([2, 10], setting="task"), [0.5, 0.3])
    np.testing.assert_allclose(raa_curve(r, [2, 10], setting="task"), [0.9 * 0.3 / 0.5, 0.55])
    # not told, .5, then 1/12
    np.testing.assert_allclose(raa_curve(r, [2, 10]), [0.9 / 6, 0.55])


@both_labelled
def test_a_guesser_does_not_forget_where_it_is_told_the_task(setting: Labelled) -> None:
    found = summary(ScoreMatrix(R, classes=[2] * 5, setting=setting))
    for id_ in ("raf", "uraf"):
        assert id_ not in found.metrics
        assert id_ not in found.curves
        assert "does not forget" in found.undefined[id_]
        assert setting in found.undefined[id_]
    for function in (raf_curve, uraf_curve, raf, uraf):
        with pytest.raises(UndefinedMetricError, match="does not forget"):
            function(R, [2] * 5, setting=setting)
    for factor in (random_af, beta):
        with pytest.raises(UndefinedMetricError, match="does not forget"):
            factor([2] * 5, setting=setting)


def test_class_incremental_is_meant_where_no_setting_is_stated() -> None:
    plain = summary(ScoreMatrix(R, classes=[2, 3, 4, 1, 5]))
    stated = summary(ScoreMatrix(R, classes=[2, 3, 4, 1, 5], setting="class"))
    for id_ in ("raa", "raf", "uraa", "uraf"):
        assert plain.curves[id_] == stated.curves[id_]


@pytest.mark.parametrize("id_", ["fwt.upper", "fwt.next", "fwt.gem"])
def test_unseen_classes_cannot_be_named(id_: str) -> None:
    b = [0.1] * 5
    settings: list[Setting | None] = ["task", "domain", None]
    for setting in settings:
        assert id_ in summary(ScoreMatrix(R, initial=b, setting=setting)).metrics
    found = summary(ScoreMatrix(R, initial=b, setting="class"))
    assert id_ not in found.metrics
    assert id_ not in found.curves
    assert "cannot name classes it has not learned" in found.undefined[id_]


def test_what_is_measured_after_learning_needs_no_unseen_classes() -> None:
    assert "fwt.learned" in summary(ScoreMatrix(R, initial=[0.1] * 5, setting="class")).metrics


# What is refused


@pytest.mark.parametrize("function", [raa, raf, uraa, uraf, raa_curve, raf_curve])
@pytest.mark.parametrize(
    ("classes", "message"),
    [
        ([2, 2], "for each of 5 tasks, got 2"),
        ([2, 0, 2, 2, 2], "class count of task 1 is 0, expected a whole number of at least 1"),
        ([2, 2.5, 2, 2, 2], "class count of task 1 is 2.5, expected a whole number"),
        ([2, np.inf, 2, 2, 2], "class count of task 1 is inf, expected a finite number"),
    ],
)
def test_says_what_is_wrong_with_class_counts(function: Any, classes: Any, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        function(R, classes)


@pytest.mark.parametrize("function", [raa, raf, uraa, uraf, raa_curve, raf_curve])
def test_only_accuracies_can_be_rescaled(function: Any) -> None:
    with pytest.raises(UndefinedMetricError, match=r"accuracies from 0 to 1, got -?\d"):
        function([[0.5, 0.1], [-0.5, 0.5]], [2, 2])
    with pytest.raises(UndefinedMetricError, match="accuracies from 0 to 1, got 50"):
        function([[0.5, 0.1], [50.0, 0.5]], [2, 2])


@pytest.mark.parametrize("curve", [raa_curve, raf_curve, uraa_curve, uraf_curve])
def test_curves_read_nothing_above_the_diagonal(curve: Any) -> None:
    lower = np.tri(5, dtype=bool)
    for other in (50.0, np.nan):
        np.testing.assert_array_equal(curve(np.where(lower, R, other), [2] * 5), curve(R, [2] * 5))


def test_missing_class_counts_are_a_reason() -> None:
    found = summary(R)
    for id_ in ("raa", "raf", "uraa", "uraf"):
        assert "how many classes each task brings" in found.undefined[id_]
    with pytest.raises(UndefinedMetricError, match="at least 2 tasks, got 1"):
        beta([2])
    assert random_aa([4]) == pytest.approx([0.25])
    assert raa([[0.5]], [4]) == pytest.approx(0.5)
