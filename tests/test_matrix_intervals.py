"""Intervals of matrix metrics from examples: against a bootstrap, SciPy, laws, known truth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from perdure import PerExample, ScoreMatrix, UndefinedMetricError, summary
from perdure.metrics import METRICS, difference_of_runs, matrix_intervals
from perdure.metrics.matrix_weights import LARGEST, LINEAR

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Tables = list[NDArray[np.bool_]]

EVERY = [*LINEAR, *LARGEST, "acc.pooled"]


def tables_of(
    r: NDArray[np.float64], n: int, rng: np.random.Generator, shared: Any = None
) -> Tables:
    """Return (task ends, examples) per task: examples with a difficulty, which two runs share."""
    found = []
    for j in range(len(r)):
        easy = rng.standard_normal(n) if shared is None else shared[j]
        latent = np.sqrt(0.5) * (easy + rng.standard_normal((len(r), n)))
        found.append(np.asarray(latent < stats.norm.ppf(r[:, j])[:, None]))
    return found


def ends_of(tables: Tables, **given: Any) -> dict[str, PerExample]:
    return {
        str(j): PerExample.pack(range(len(table)), table, **given) for j, table in enumerate(tables)
    }


def names_of(tables: Tables) -> list[str]:
    return [str(j) for j in range(len(tables))]


def matrix_of(tables: Tables) -> NDArray[np.float64]:
    return np.array([table.mean(axis=1) for table in tables]).T


def value_of(id_: str, r: NDArray[np.float64], tables: Tables) -> Any:
    more = {"sizes": [table.shape[1] for table in tables]} if id_ == "acc.pooled" else {}
    return METRICS[id_].function(r, **more)


some_tables = st.tuples(st.integers(1, 5), st.integers(0, 2**31)).map(
    lambda drawn: [
        np.random.default_rng([drawn[1], j]).random((drawn[0], 3 + 4 * j)) < 0.6
        for j in range(drawn[0])
    ]
)


@given(some_tables)
@settings(deadline=None)
def test_values_are_those_of_the_registered_functions(tables: Tables) -> None:
    """The weights are the derivatives of the formulas: every id, per task too, unequal sizes."""
    found = matrix_intervals(ends_of(tables), names_of(tables))
    r = matrix_of(tables)
    for id_ in EVERY:
        try:
            value = value_of(id_, r, tables)
        except UndefinedMetricError:
            assert id_ not in found.values
            continue
        assert found.values[id_] == pytest.approx(float(value), abs=1e-12), id_
        each = [np.nan if one is None else one for one in found.per_task_values[id_]]
        np.testing.assert_allclose(each, value.per_task, atol=1e-12, err_msg=id_)
        ends = [found.intervals[id_], *filter(None, found.per_task[id_])]
        values = [found.values[id_], *(v for v in each if not np.isnan(v))]
        assert all(
            low <= v + 1e-12 and v <= high + 1e-12
            for (low, high), v in zip(ends, values, strict=True)
        )


@given(some_tables)
@settings(deadline=None)
def test_laws_between_metrics(tables: Tables) -> None:
    found = matrix_intervals(ends_of(tables), names_of(tables))
    if len(tables) < 2:
        return
    low, high = found.intervals["bwt"]
    assert found.intervals["forgetting.learned"] == pytest.approx((-high, -low))
    scale = 2 / len(tables)
    assert found.intervals["bwt.consecutive"] == pytest.approx((scale * low, scale * high), rel=0.5)
    if len(tables) == 2:  # one task end before the last: nothing competes
        assert found.intervals["forgetting.best"] == pytest.approx((-high, -low))


def test_half_widths_are_those_of_a_bootstrap_of_examples() -> None:
    """Examples resampled within each task, the same resample at every task end; our formulas."""
    rng = np.random.default_rng(1)
    r = np.array([[0.8, 0.3, 0.3], [0.6, 0.7, 0.3], [0.5, 0.55, 0.6]])
    tables = tables_of(r, 1000, rng)
    found = matrix_intervals(ends_of(tables), names_of(tables))
    drawn: dict[str, list[float]] = {id_: [] for id_ in EVERY}
    for _ in range(400):
        again = [table[:, rng.integers(1000, size=1000)] for table in tables]
        for id_, values in drawn.items():
            values.append(float(value_of(id_, matrix_of(again), again)))
    for id_, values in drawn.items():
        low, high = found.intervals[id_]
        assert (high - low) / (2 * 1.96) == pytest.approx(np.std(values), rel=0.15), id_


def test_one_accuracy_has_wilsons_interval() -> None:
    table = np.arange(50)[None] < 47
    found = matrix_intervals(ends_of([table]), ["0"])
    expected = stats.binomtest(47, 50).proportion_ci(method="wilson")
    assert found.per_task["acc"][0] == pytest.approx((expected.low, expected.high))


def test_answers_that_never_changed_still_may() -> None:
    """No answer of 100 changed: 3.7 in 100 could (exact one-sided 2.5%), and no width is wrong."""
    table = np.ones((2, 100), dtype=bool)
    low, high = matrix_intervals(ends_of([table, table]), ["0", "1"]).intervals["bwt"]
    exact = stats.binomtest(0, 100).proportion_ci(0.95).high
    assert high == pytest.approx(-low)
    assert exact <= high <= 1.1 * exact


COVERED = {
    "acc": 0.0, "acc.incremental": 0.0, "bwt": 0.0, "bwt.all": 0.0, "forgetting.best": 0.0,
    "forgetting.peak": 0.0, "forgetting.any": 0.0,
}  # fmt: skip


def coverage(r: NDArray[np.float64], n: int, replications: int) -> dict[str, float]:
    rng = np.random.default_rng(7)
    held = dict(COVERED) | {"acc A-B": 0.0, "bwt A-B": 0.0, "best A-B": 0.0}
    for seed in range(replications):
        easy = [rng.standard_normal(n) for _ in r]
        one, other = (ends_of(tables_of(r, n, rng, easy)) for _ in range(2))
        found = matrix_intervals(one, list(one), seed=seed)
        for id_ in COVERED:
            low, high = found.intervals[id_]
            held[id_] += low - 1e-9 <= float(METRICS[id_].function(r)) <= high + 1e-9
        apart = difference_of_runs(one, other, seed=seed).intervals
        for name, id_ in (("acc", "acc"), ("bwt", "bwt"), ("best", "forgetting.best")):
            held[f"{name} A-B"] += apart[id_][0] <= 0 <= apart[id_][1]
    return {name: count / replications for name, count in held.items()}


FLAT = np.full((4, 4), 0.9)
FORGOTTEN = np.array([[0.95, 0.1, 0.1], [0.4, 0.95, 0.1], [0.05, 0.4, 0.95]])


@pytest.mark.parametrize("r", [FLAT, FORGOTTEN], ids=["flat", "forgotten"])
def test_intervals_hold_the_truth(r: NDArray[np.float64]) -> None:
    found = coverage(r, n=100, replications=50)
    assert min(found.values()) >= 0.9, found


@pytest.mark.slow
@pytest.mark.parametrize("n", [100, 1000])
@pytest.mark.parametrize("r", [FLAT, FORGOTTEN, np.full((6, 6), 0.99)])
def test_intervals_keep_their_level(r: NDArray[np.float64], n: int) -> None:
    found = coverage(r, n=n, replications=400)
    assert min(found.values()) >= 0.925, found  # .95 less 2.3 standard errors


@given(some_tables, st.integers(0, 99))
@settings(deadline=None, max_examples=30)
def test_the_difference_of_two_runs_changes_sign_with_their_order(
    tables: Tables, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    one, other = ends_of(tables), ends_of([rng.random(t.shape) < 0.5 for t in tables])
    forth, back = difference_of_runs(one, other), difference_of_runs(other, one)
    for id_ in LINEAR:
        if id_ in forth.metrics:
            assert forth.metrics[id_] == pytest.approx(-back.metrics[id_])
            low, high = back.intervals[id_]
            assert forth.intervals[id_] == pytest.approx((-high, -low))
    same = difference_of_runs(one, one)
    assert all(value == pytest.approx(0, abs=1e-12) for value in same.metrics.values())


def test_the_difference_is_paired_on_examples() -> None:
    """Two runs that answer alike differ by less than two that do not, at equal accuracies."""
    rng = np.random.default_rng(0)
    table = rng.random((1, 1000)) < 0.7
    alike = table.copy()
    alike[0, :20] ^= True
    apart = difference_of_runs(ends_of([table]), ends_of([alike])).intervals["acc"]
    mixed = ends_of([rng.permuted(table, axis=1)])
    differing_keys = difference_of_runs(ends_of([table]), mixed).intervals["acc"]
    expected = stats.ttest_rel(table[0].astype(float), alike[0].astype(float)).confidence_interval()
    assert apart == pytest.approx((expected.low, expected.high), abs=3 / 1000)
    assert differing_keys[1] - differing_keys[0] > 3 * (apart[1] - apart[0])


def test_examples_are_paired_by_their_ids_in_any_order() -> None:
    rng = np.random.default_rng(0)
    tables = [rng.random((2, 30)) < 0.6 for _ in range(2)]
    others = [rng.random((2, 30)) < 0.6 for _ in range(2)]
    ids, order = np.arange(100, 130), rng.permutation(30)
    plain = difference_of_runs(ends_of(tables, ids=ids), ends_of(others, ids=ids))
    mixed = ends_of([table[:, order] for table in others], ids=ids[order])
    assert difference_of_runs(ends_of(tables, ids=ids), mixed).intervals == plain.intervals


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda h: PerExample.pack(h.steps, h[:][:, :20], ids=range(20)),
            "on 30 and on 20 examples",
        ),
        (lambda h: PerExample.pack(h.steps, h[:], ids=range(5, 35)), "share 25 of 30 ids"),
        (lambda h: PerExample.pack(h.steps, h[:]), "only one of the runs has ids"),
        (lambda h: PerExample(h.steps, h.packed, 30, h.ids, "beef"), "data of task '0' differs"),
    ],
)
def test_other_examples_are_refused(change: Any, said: str) -> None:
    one = {"0": PerExample.pack([0], np.ones((1, 30), bool), ids=range(30))}
    mine = {"0": PerExample(one["0"].steps, one["0"].packed, 30, one["0"].ids, "cafe")}
    with pytest.raises(UndefinedMetricError, match=said):
        difference_of_runs(mine, {"0": change(one["0"])})


def test_other_tasks_are_refused() -> None:
    one = {"0": PerExample.pack([0], np.ones((1, 30), bool))}
    with pytest.raises(UndefinedMetricError, match=r"tasks are \['0'\] and \['1'\]"):
        difference_of_runs(one, {"1": one["0"]})
    with pytest.raises(UndefinedMetricError, match="no per-example results of task 'b'"):
        difference_of_runs(one, one, ["0", "b"])


def test_a_summary_has_them_and_stays_inside_the_range_of_each_metric() -> None:
    rng = np.random.default_rng(2)
    tables = tables_of(np.array([[0.99, 0.2], [0.97, 0.99]]), 60, rng)
    matrix = ScoreMatrix(
        matrix_of(tables), names_of(tables), classes=[2, 2], setting="class", sizes=[60, 60]
    )
    found = summary(matrix, per_example_at_ends=ends_of(tables))
    derived = {"rem", "bwt.positive", "raa", "raf", "uraa", "uraf"}
    expected = {*EVERY, *derived} - {"fwt.upper", "fwt.next"}  # undefined: class-incremental
    assert set(found.intervals) == expected
    for id_, (low, high) in found.intervals.items():
        metric = METRICS[id_]
        assert metric.low <= low <= found.metrics[id_] + 1e-12, id_
        assert found.metrics[id_] - 1e-12 <= high <= metric.high, id_
        assert len(found.per_task_intervals[id_]) == 2
        for value, ends in zip(found.per_task[id_], found.per_task_intervals[id_], strict=True):
            assert (value is None) == (ends is None), id_
    assert found.intervals["uraa"] == pytest.approx([4 * end for end in found.intervals["acc"]])
    assert found.intervals["raf"] == found.intervals["forgetting.best"]
    assert found.per_task_intervals["bwt"][1] is None


def test_task_ends_without_results_leave_their_metrics_without_intervals() -> None:
    rng = np.random.default_rng(2)
    tables = [rng.random((3, 40)) < 0.7 for _ in range(3)]
    ends = ends_of(tables)
    ends["0"] = ends["0"].at(np.array([0, 2]))
    found = matrix_intervals(ends, names_of(tables))
    assert {"acc", "bwt", "acc.learning"} <= set(found.intervals)
    assert not {"acc.lower", "bwt.all", "forgetting.best", "acc.incremental"} & set(found.intervals)
    del ends["2"]
    assert "acc" not in matrix_intervals(ends, names_of(tables)).intervals
    assert "bwt" in matrix_intervals(ends, names_of(tables)).intervals
