"""Every matrix metric against its definition written as loops, and the laws between them."""

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.metrics import (
    METRICS,
    ScoreMatrix,
    UndefinedMetricError,
    Value,
    acc,
    acc_learning,
    bwt,
    bwt_consecutive,
    fixed_curve,
    forgetting_any,
    forgetting_best,
    forgetting_learned,
    forgetting_matrix,
    forgetting_peak,
    summary,
)

from .references import REFERENCES, Array, Case, cases, curve, few, forgotten, nan, some, squares

MATRIX_IDS = [id_ for id_, metric in METRICS.items() if metric.input == "matrix"]
CURVE_NAMES = {"acc": "aa", "forgetting.best": "af"}
every_id = pytest.mark.parametrize("id_", MATRIX_IDS)


def computed(id_: str, case: Case, matrix: Array | None = None, **changed: Any) -> Value:
    metric = METRICS[id_]
    arguments = case.arguments(metric.needs) | changed
    value = metric.function(case.matrix if matrix is None else matrix, **arguments)
    assert isinstance(value, Value)
    return value


def as_matrix(case: Case, **more: Any) -> ScoreMatrix:
    names = ("initial", "joint", "single", "offline", "classes", "sizes")
    given = {"scores": case.matrix, "upper": "measured", **case.arguments(names)}
    return ScoreMatrix(**(given | more))


def fixed_case(tasks: int = 4) -> Case:
    rng = np.random.default_rng(7)
    return Case(
        matrix=rng.uniform(0, 1, (tasks, tasks)),
        initial=rng.uniform(0, 0.4, tasks).tolist(),
        joint=rng.uniform(0.5, 1, tasks).tolist(),
        single=rng.uniform(0, 1, tasks).tolist(),
        offline=rng.uniform(0.5, 1, tasks).tolist(),
        classes=[2, 3, 1, 5, 2][:tasks],
        sizes=[10, 70, 30, 20, 50][:tasks],
    )


def test_every_id_has_a_reference_and_every_reference_an_id() -> None:
    assert set(MATRIX_IDS) == set(REFERENCES)


@every_id
@few
@given(case=cases())
def test_agrees_with_the_definition(id_: str, case: Case) -> None:
    value, parts = REFERENCES[id_](case)
    found = computed(id_, case)
    assert found == pytest.approx(value, rel=1e-9, abs=1e-9)
    np.testing.assert_allclose(found.per_task, parts, rtol=1e-9, atol=1e-9)


@few
@given(cases())
def test_a_curve_is_the_metric_of_the_stream_so_far(case: Case) -> None:
    found = summary(as_matrix(case))
    for id_ in MATRIX_IDS:
        points = found.curves[CURVE_NAMES.get(id_, id_)]
        as_floats = [nan if point is None else point for point in points]
        np.testing.assert_allclose(
            as_floats, curve(id_, case), rtol=1e-9, atol=1e-9, err_msg=f"curve of {id_}"
        )


@few
@given(cases())
def test_summary_gives_each_value_and_part_of_the_definition(case: Case) -> None:
    found = summary(as_matrix(case))
    for id_ in MATRIX_IDS:
        value, parts = REFERENCES[id_](case)
        assert found.metrics[id_] == pytest.approx(value, rel=1e-9, abs=1e-9), id_
        as_floats = [nan if part is None else part for part in found.per_task[id_]]
        np.testing.assert_allclose(as_floats, parts, rtol=1e-9, atol=1e-9, err_msg=id_)


@few
@given(cases())
def test_the_forgetting_matrix_and_the_fixed_curve(case: Case) -> None:
    size = range(len(case.r))
    expected = [[forgotten(case, k, j) if j < k else nan for j in size] for k in size]
    np.testing.assert_allclose(forgetting_matrix(case.matrix), expected, atol=1e-9)
    over_all = [sum(case.r[k, j] for j in size) / len(case.r) for k in size]
    np.testing.assert_allclose(fixed_curve(case.matrix), over_all, atol=1e-9)
    found = summary(as_matrix(case))
    np.testing.assert_allclose(np.array(found.curves["fixed"], dtype=float), over_all, atol=1e-9)
    np.testing.assert_allclose(np.array(found.forgetting_matrix, dtype=float), expected, atol=1e-9)


# Laws


@some
@given(squares())
def test_accuracy_is_learning_plus_transfer(r: Array) -> None:
    t = len(r)
    assert acc(r) == pytest.approx(acc_learning(r) + bwt(r) * (t - 1) / t, abs=1e-9)


@some
@given(squares())
def test_steps_telescope(r: Array) -> None:
    assert bwt_consecutive(r) == pytest.approx(2 * bwt(r) / len(r), abs=1e-9)


@some
@given(squares())
def test_forgetting_since_learned_is_minus_transfer(r: Array) -> None:
    assert forgetting_learned(r) == pytest.approx(-bwt(r), abs=1e-12)


@some
@given(squares())
def test_kinds_of_forgetting_are_ordered(r: Array) -> None:
    slack = 1e-12
    assert forgetting_learned(r) <= forgetting_best(r) + slack
    assert forgetting_best(r) <= forgetting_any(r) + slack
    assert forgetting_best(r) <= forgetting_peak(r) + slack
    assert forgetting_peak(r) >= 0


@few
@given(cases(), st.randoms(use_true_random=False))
def test_names_change_nothing(case: Case, random: Any) -> None:
    names = [f"name {k}" for k in range(len(case.r))]
    random.shuffle(names)
    plain, renamed = summary(as_matrix(case)), summary(as_matrix(case, tasks=names))
    assert renamed.tasks == tuple(names)
    assert renamed.metrics == plain.metrics
    assert renamed.curves == plain.curves
    assert renamed.per_task == plain.per_task


# What is read, and what is not


@every_id
def test_needs_just_the_entries_of_its_formula(id_: str) -> None:
    case = fixed_case()
    value, _ = REFERENCES[id_](case)
    needed = case.r.read
    assert needed
    for i in range(4):
        for j in range(4):
            hidden = case.matrix.copy()
            hidden[i, j] = nan
            if (i, j) in needed:
                named = re.escape(f"task {j} after task {i}")
                with pytest.raises(UndefinedMetricError, match=named):
                    computed(id_, case, hidden)
            elif i != j:  # the diagonal is always there: a matrix without it is refused
                assert computed(id_, case, hidden) == pytest.approx(value), (i, j)


@every_id
def test_needs_just_the_vector_entries_of_its_formula(id_: str) -> None:
    case = fixed_case()
    for name in {"initial", "joint", "single", "offline"} & set(METRICS[id_].needs):
        for j in range(4):
            vector = list(getattr(case, name))
            vector[j] = nan
            changed = Case(**{**{f: getattr(case, f) for f in FIELDS}, name: vector})
            value, _ = REFERENCES[id_](changed)
            if np.isnan(value):
                with pytest.raises(UndefinedMetricError, match=f"on task {j}[,:]"):
                    computed(id_, changed)
            else:
                assert computed(id_, changed) == pytest.approx(value), (name, j)


FIELDS = ("matrix", "initial", "joint", "single", "offline", "classes", "sizes", "setting")


@few
@given(cases())
def test_entries_above_the_diagonal_may_be_missing(case: Case) -> None:
    hidden = np.where(np.tri(len(case.r), dtype=bool), case.matrix, nan)
    whole, lower = summary(as_matrix(case)), summary(as_matrix(case, scores=hidden))
    readers = {"acc.all", "fwt.upper", "fwt.gem", "fwt.next"}
    if len(case.r) > 2:  # with two tasks only the first is older, and it is learned at once
        readers.add("forgetting.any")
    for id_ in MATRIX_IDS:
        if id_ in readers:
            assert re.search(r"needs the score on task \d after task \d", lower.undefined[id_])
        elif id_ != "forgetting.any":
            assert lower.metrics[id_] == whole.metrics[id_], id_


@every_id
def test_writes_nothing(id_: str) -> None:
    case = fixed_case()
    matrix = case.matrix.copy()
    vectors = {
        name: np.array(value, dtype=float)
        for name, value in case.arguments(METRICS[id_].needs).items()
        if name != "setting"
    }
    before = {name: vector.copy() for name, vector in vectors.items()}
    found = computed(id_, case, matrix, **vectors)
    found.per_task[...] = nan  # nor is the result a window on the input
    np.testing.assert_array_equal(matrix, case.matrix)
    for name, vector in vectors.items():
        np.testing.assert_array_equal(vector, before[name])


@every_id
def test_one_task(id_: str) -> None:
    case = fixed_case().after(0)
    try:
        value, _ = REFERENCES[id_](case)
    except (ZeroDivisionError, ValueError):  # a mean or a maximum of nothing
        with pytest.raises(UndefinedMetricError, match="at least 2 tasks, got 1"):
            computed(id_, case)
    else:
        assert computed(id_, case) == pytest.approx(value)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[0.9, 0.1]], "must be square, got shape (1, 2)"),
        ([0.9, 0.1], "must be square, got shape (2,)"),
        (np.empty((0, 0)), "must be square, got shape (0, 0)"),
        ([[0.9, 0.1], [np.inf, 0.8]], "score on task 0 after task 1 is inf"),
    ],
)
@every_id
def test_says_what_is_wrong(id_: str, matrix: Any, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        computed(id_, fixed_case(2), matrix)
