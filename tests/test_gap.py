"""The stability gap: dips calculated by hand, and loops over every switch and older task."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from hypothesis import given

import perdure
from perdure import ScoreScale, Stream, UndefinedMetricError
from perdure.metrics import (
    Dip,
    dips,
    gap_area,
    gap_depth,
    gap_recovered,
    gap_recovery,
)

from .stream_references import (
    Case,
    cases,
    check_parts,
    dips_by_loops,
    law,
    mean,
    median_with_censored,
    outcome,
    same,
)


def dip_of(steps: list[int], scores: list[float], switch: int = 10, value: float = 0.8) -> Dip:
    """Return the one dip of a task that had `value` at the switch."""
    end = steps[-1]
    stream = Stream(
        {"a": ([1, switch, *steps], [0.1, value, *scores]), "b": ([end], [0.9])},
        [("a", switch), ("b", end)],
    )
    (dip,) = dips(stream)
    return dip


def test_worked_example() -> None:
    dip = dip_of([11, 12, 13, 14], [0.5, 0.2, 0.6, 0.78])
    assert (dip.switch, dip.task) == (10, "a")
    assert dip.depth == pytest.approx(0.8 - 0.2)
    assert dip.area == pytest.approx(0.3 + 0.6 + 0.2 + 0.02)
    assert dip.recovery == 4  # 0.78 >= 0.95 * 0.8 = 0.76


def test_area_counts_iterations_between_evaluations_the_first_from_the_switch() -> None:
    dip = dip_of([13, 14, 20], [0.5, 0.9, 0.6])
    assert dip.area == pytest.approx((13 - 10) * 0.3 + 0 + (20 - 14) * 0.2)


def test_recovery_counts_from_the_switch_in_iterations() -> None:
    assert dip_of([15, 30, 40], [0.1, 0.5, 0.8]).recovery == 30


def test_back_above_before_the_minimum_does_not_count() -> None:
    assert dip_of([11, 12, 13, 14], [0.5, 0.8, 0.3, 0.4]).recovery == float("inf")
    assert dip_of([11, 12, 13, 14, 15], [0.5, 0.8, 0.3, 0.4, 0.77]).recovery == 5


def test_the_first_return_counts_not_the_last() -> None:
    assert dip_of([11, 12, 13, 14], [0.1, 0.79, 0.2, 0.8]).recovery == 2


def test_exactly_95_percent_is_back() -> None:
    assert dip_of([11, 12], [0.1, 0.95 * 0.8]).recovery == 2
    assert dip_of([11, 12], [0.1, np.nextafter(0.95 * 0.8, 0)]).recovery == float("inf")


def test_without_a_dip() -> None:
    risen = dip_of([11, 12], [0.82, 0.9])
    assert risen.depth == pytest.approx(-0.02)
    assert (risen.area, risen.recovery) == (0, 0)


def test_the_value_at_the_switch_is_the_last_one_known_by_then() -> None:
    stream = Stream({"a": ([1, 4, 7], [0.2, 0.6, 0.3]), "b": ([7], [0.9])}, [("a", 5), ("b", 7)])
    (dip,) = dips(stream)
    assert dip.depth == pytest.approx(0.3)
    assert dip.area == pytest.approx((7 - 5) * 0.3)


def test_left_out_where_a_task_was_not_tested_by_the_switch_or_after_it() -> None:
    unknown_before = Stream({"a": ([7], [0.3]), "b": ([7], [0.9])}, [("a", 5), ("b", 7)])
    unknown_after = Stream({"a": ([5], [0.3]), "b": ([7], [0.9])}, [("a", 5), ("b", 7)])
    for stream in (unknown_before, unknown_after):
        assert dips(stream) == []
        for metric in (gap_depth, gap_area, gap_recovery, gap_recovered):
            with pytest.raises(UndefinedMetricError, match="no older task was evaluated both"):
                metric(stream)


def test_every_switch_and_every_older_task() -> None:
    steps = list(range(1, 7))
    stream = Stream(
        {
            "a": (steps, [0.5, 0.8, 0.4, 0.8, 0.2, 0.3]),
            "b": (steps, [0.1, 0.1, 0.5, 0.6, 0.3, 0.6]),
            "c": (steps, [0.1, 0.1, 0.1, 0.1, 0.5, 0.6]),
        },
        [("a", 2), ("b", 4), ("c", 6)],
    )
    assert [(dip.switch, dip.task) for dip in dips(stream)] == [(2, "a"), (4, "a"), (4, "b")]
    assert gap_depth(stream) == pytest.approx((0.4 + 0.6 + 0.3) / 3)
    assert gap_area(stream) == pytest.approx((0.4 + (0.6 + 0.5) + 0.3) / 3)
    assert gap_recovery(stream) == 2.0  # 2, 2 and never: the median is known
    assert gap_recovered(stream) == pytest.approx(2 / 3)
    check_parts(stream, gap_depth(stream).per_task, {"a": 0.5, "b": 0.3})
    check_parts(stream, gap_recovered(stream).per_task, {"a": 0.5, "b": 1.0})
    check_parts(stream, gap_recovery(stream).per_task, {"b": 2.0})
    assert gap_depth(stream).curve == pytest.approx([np.nan, 0.4, 1.3 / 3], nan_ok=True)


def test_more_than_half_never_back_leaves_the_median_unknown_and_the_share_known() -> None:
    steps = [1, 2, 3]
    stream = Stream(
        {"a": (steps, [0.8, 0.2, 0.3]), "b": (steps, [0.1, 0.7, 0.2]), "c": ([3], [0.5])},
        [("a", 1), ("b", 2), ("c", 3)],
    )
    with pytest.raises(UndefinedMetricError, match="2 of 3 dips never recovered"):
        gap_recovery(stream)
    assert gap_recovered(stream) == pytest.approx(1 / 3)  # 0.3 is above what a had at the switch
    assert perdure.summary(stream).metrics["gap.recovered"] == pytest.approx(1 / 3)
    assert "never recovered" in perdure.summary(stream).undefined["gap.recovery"]


@law
@given(cases())
def test_dips_agree_with_loops(case: Case) -> None:
    found = dips(case.stream())
    expected = dips_by_loops(case)
    assert sorted((dip.switch, dip.task) for dip in found) == sorted(e[:2] for e in expected)
    by_place = {(dip.switch, dip.task): dip for dip in found}
    for switch, task, depth, area, recovery in expected:
        dip = by_place[switch, task]
        assert dip.depth == pytest.approx(depth, abs=1e-12)
        assert dip.area == pytest.approx(area, abs=1e-12)
        assert dip.recovery == (float("inf") if recovery is None else recovery)


def depth_by_loops(case: Case) -> float | None:
    return mean(dip[2] for dip in dips_by_loops(case))


def area_by_loops(case: Case) -> float | None:
    return mean(dip[3] for dip in dips_by_loops(case))


def recovery_by_loops(case: Case) -> float | None:
    return median_with_censored([dip[4] for dip in dips_by_loops(case)])


def recovered_by_loops(case: Case) -> float | None:
    return mean(float(dip[4] is not None) for dip in dips_by_loops(case))


GAPS: list[tuple[Callable[..., perdure.metrics.Value], Callable[[Case], float | None]]] = [
    (gap_depth, depth_by_loops),
    (gap_area, area_by_loops),
    (gap_recovery, recovery_by_loops),
    (gap_recovered, recovered_by_loops),
]


@law
@given(cases())
def test_metrics_and_curves_agree_with_loops(case: Case) -> None:
    stream = case.stream()
    for metric, reference in GAPS:
        assert same(outcome(partial(metric, stream)), reference(case)), metric
        expected = [reference(case.cut(k)) for k in range(len(case.spans))]
        try:
            curve = metric(stream).curve
        except UndefinedMetricError:  # the median may be known at first and not at the end
            assert metric is gap_recovery or not any(value is not None for value in expected)
        else:
            assert curve is not None
            assert all(map(same, curve, expected))


@law
@given(cases())
def test_per_task_averages_that_tasks_own_dips(case: Case) -> None:
    stream = case.stream()
    expected = dips_by_loops(case)
    if not expected:
        return
    depths, areas = {}, {}
    for name in case.log:
        mine = [dip for dip in expected if dip[1] == name]
        if mine:
            depths[name] = sum(dip[2] for dip in mine) / len(mine)
            areas[name] = sum(dip[3] for dip in mine) / len(mine)
    check_parts(stream, gap_depth(stream).per_task, depths)
    check_parts(stream, gap_area(stream).per_task, areas)


def test_without_boundaries_there_is_no_switch() -> None:
    for metric, _ in GAPS:
        with pytest.raises(UndefinedMetricError, match="needs task boundaries"):
            metric(Stream({"a": ([1, 2], [0.5, 0.4])}))


@pytest.mark.parametrize("scale", [ScoreScale(0, 5, lower_is_better=True), ScoreScale(-1, 1)])
def test_95_percent_of_a_loss_or_of_a_negative_score_says_nothing(scale: ScoreScale) -> None:
    stream = Stream(
        {"a": ([1, 2, 3], [0.5, 0.25, 0.5]), "b": ([3], [0.5])}, [("a", 1), ("b", 3)], scale=scale
    )
    for metric in (gap_recovery, gap_recovered):
        with pytest.raises(UndefinedMetricError):
            metric(stream)
    found = perdure.summary(stream)
    for id_ in ("gap.recovery", "gap.recovered"):
        assert "never negative" in found.undefined[id_]
    depth = -0.0 if scale.lower_is_better else 0.25  # a loss that falls is no dip
    assert found.metrics["gap.depth"] == pytest.approx(depth)


def test_a_loss_dips_when_it_rises() -> None:
    stream = Stream(
        {"a": ([1, 2, 3], [0.5, 2.0, 0.75]), "b": ([3], [0.5])},
        [("a", 1), ("b", 3)],
        scale=ScoreScale(0, 10, lower_is_better=True),
    )
    found = perdure.summary(stream).metrics
    assert found["gap.depth"] == pytest.approx(1.5)
    assert found["gap.area"] == pytest.approx(1.75)


def test_scores_of_another_range_that_are_never_negative_recover() -> None:
    stream = Stream(
        {"a": ([1, 2, 3], [80.0, 20.0, 78.0]), "b": ([3], [50.0])},
        [("a", 1), ("b", 3)],
        scale=ScoreScale(0, 100),
    )
    assert gap_recovery(stream) == 2.0
    assert gap_recovered(stream) == 1.0
