"""Worst case, windows, learning and averages along streams, against loops over the definitions."""

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure import Stream, UndefinedMetricError
from perdure.metrics import (
    Value,
    aaa,
    current_accuracy,
    current_accuracy_curve,
    lca,
    lca_curve,
    min_acc,
    min_acc_curve,
    minimum_after,
    wc_acc,
    wc_acc_curve,
    wf,
    wp,
)

from . import stream_references as ref
from .stream_references import Case, cases, check_parts, law, outcome, same

windows = st.none() | st.integers(1, 12)
Curve = Callable[[Stream], "np.ndarray[Any, Any]"]


def two_tasks() -> Stream:
    return Stream(
        {"a": ([1, 2, 3, 4, 5], [0.3, 0.9, 0.2, 0.5, 0.7]), "b": ([3, 4, 5], [0.4, 0.6, 0.8])},
        spans=[("a", 2), ("b", 5)],
        before={"a": 0.1, "b": 0.2},
    )


def test_worked_example() -> None:
    stream = two_tasks()
    assert min_acc(stream) == pytest.approx(0.2)
    assert wc_acc(stream) == pytest.approx((0.2 + 0.8) / 2)
    assert current_accuracy(stream) == pytest.approx(0.8)
    assert wf(stream, 2) == pytest.approx((0.7 + 0) / 2)
    assert wp(stream, 2) == pytest.approx((0.6 + 0.2) / 2)
    assert wp(stream, 3) == pytest.approx((0.6 + 0.4) / 2)
    assert aaa(stream) == pytest.approx((0.3 + 0.9 + 0.3 + 0.55 + 0.75) / 5)
    assert lca(stream, 0) == pytest.approx((0.1 + 0.2) / 2)
    assert lca(stream, 2) == pytest.approx(((0.1 + 0.3 + 0.9) / 3 + (0.2 + 0.4 + 0.6) / 3) / 2)


def test_min_acc_counts_strictly_after_the_tasks_last_iteration() -> None:
    low_at_its_end = Stream(
        {"a": ([1, 2, 3, 4], [0.0, 0.1, 0.6, 0.5]), "b": ([4], [0.9])}, [("a", 2), ("b", 4)]
    )
    assert min_acc(low_at_its_end) == 0.5
    assert min_acc(low_at_its_end).per_task.tolist() == pytest.approx([0.5, np.nan], nan_ok=True)
    assert minimum_after(np.array([1, 2]), np.array([0.5, 0.25]), end=1) == 0.25
    assert np.isnan(minimum_after(np.array([1, 2]), np.array([0.5, 0.25]), end=2))


@law
@given(cases())
def test_min_acc(case: Case) -> None:
    stream = case.stream()
    assert same(outcome(lambda: min_acc(stream)), ref.min_acc_by_loops(case))
    if lows := ref.lowest(case):
        check_parts(stream, min_acc(stream).per_task, lows)


@law
@given(cases())
def test_current(case: Case) -> None:
    stream = case.stream()
    expected = ref.current_by_loops(case)
    assert same(outcome(lambda: current_accuracy(stream)), expected)
    if expected is not None:
        at_ends = {
            task: ref.current_by_loops(case.cut(k)) for k, (task, _) in enumerate(case.spans)
        }
        parts = {task: score for task, score in at_ends.items() if score is not None}
        check_parts(stream, current_accuracy(stream).per_task, parts)


@law
@given(cases())
def test_wc_acc(case: Case) -> None:
    stream = case.stream()
    expected = ref.wc_acc_by_loops(case)
    assert same(outcome(lambda: wc_acc(stream)), expected)
    if expected is not None:
        now = ref.current_by_loops(case)
        parts = (ref.lowest(case) or {}) | {case.spans[-1][0]: now or 0.0}
        check_parts(stream, wc_acc(stream).per_task, parts)


def test_wc_acc_needs_the_current_task_tested_while_it_is_learned() -> None:
    """A score from before the task's first update is not A(E_k, f_t)."""
    stream = Stream({"a": ([1, 3], [0.9, 0.6]), "b": ([1], [0.1])}, [("a", 2), ("b", 3)])
    with pytest.raises(UndefinedMetricError, match="current task 'b' was not evaluated"):
        current_accuracy(stream)
    with pytest.raises(UndefinedMetricError, match="current task 'b' was not evaluated"):
        wc_acc(stream)
    assert np.isnan(wc_acc_curve(stream)[-1])


@law
@given(st.booleans().flatmap(lambda b: cases(boundaries=b)), windows)
def test_wf_and_wp(case: Case, window: int | None) -> None:
    stream = case.stream()
    for metric, change in ((wf, ref.drop_by_pairs), (wp, ref.rise_by_pairs)):
        expected = ref.windowed(case, window, change)
        assert same(outcome(partial(metric, stream, window)), ref.mean(expected.values()))
        if expected:
            check_parts(stream, metric(stream, window).per_task, expected)


@law
@given(cases())
def test_wf_never_falls_with_the_window(case: Case) -> None:
    stream = case.stream()
    for metric in (wf, wp):
        if outcome(partial(metric, stream, 1)) is not None:
            found = [metric(stream, w) for w in (1, 2, 3, 5, 8, None)]
            assert found[0] == 0.0
            assert all(b >= a - 1e-12 for a, b in pairwise(found))


@law
@given(st.booleans().flatmap(lambda b: cases(boundaries=b)))
def test_aaa(case: Case) -> None:
    stream = case.stream()
    assert same(outcome(lambda: aaa(stream)), ref.aaa_by_loops(case))
    if table := ref.seen_scores(case):
        each = {
            name: ref.mean(at[name] for at in table.values() if name in at) for name in case.log
        }
        parts = {name: value for name, value in each.items() if value is not None}
        check_parts(stream, aaa(stream).per_task, parts)


@law
@given(st.booleans().flatmap(lambda dense: cases(every_step=dense)), st.integers(0, 4))
def test_lca(case: Case, beta: int) -> None:
    stream = case.stream()
    expected = ref.lca_by_loops(case, beta)
    found = outcome(lambda: lca(stream, beta))
    assert same(found, None if expected is None else ref.mean(expected.values()))
    if expected is not None:
        check_parts(stream, lca(stream, beta).per_task, expected)


def test_lca_says_which_iteration_is_missing() -> None:
    dense = two_tasks()
    with pytest.raises(UndefinedMetricError, match="task 'a' after iteration 2"):
        lca(Stream({"a": ([1, 3], [0.3, 0.9])}, [("a", 3)], before={"a": 0.1}), 3)
    with pytest.raises(UndefinedMetricError, match="task 'b' after iteration 4"):
        lca(Stream({"a": dense.tasks["a"], "b": ([2, 3, 5], [0, 0.5, 1])}, dense.spans,
                   before=dense.before), 2)  # fmt: skip
    with pytest.raises(UndefinedMetricError, match="'b' before its first update"):
        lca(Stream(dense.tasks, dense.spans, before={"a": 0.1}), 1)
    with pytest.raises(ValueError, match="at least 0 batches, got -1"):
        lca(dense, -1)


def test_lca_takes_the_score_at_the_switch_where_nothing_else_is_known() -> None:
    stream = Stream({"a": ([0, 1], [0.1, 0.5]), "b": ([1, 2], [0.3, 0.9])}, [("a", 1), ("b", 2)])
    assert lca(stream, 1) == pytest.approx((0.1 + 0.5 + 0.3 + 0.9) / 4)


def test_lca_never_reads_batches_of_the_next_task() -> None:
    """Task a has two batches; its score after three of them does not exist."""
    with pytest.raises(UndefinedMetricError, match="'a'"):
        lca(two_tasks(), 3)


def curve_of(value: Value) -> "np.ndarray[Any, Any]":
    assert value.curve is not None
    return value.curve


CURVES: list[tuple[Curve, Callable[[Case], float | None]]] = [
    (min_acc_curve, ref.min_acc_by_loops),
    (wc_acc_curve, ref.wc_acc_by_loops),
    (current_accuracy_curve, ref.current_by_loops),
    (lambda stream: curve_of(aaa(stream)), ref.aaa_by_loops),
]


@law
@given(cases())
def test_curves_hold_the_metric_of_the_stream_cut_at_each_visits_end(case: Case) -> None:
    stream = case.stream()
    for curve, reference in CURVES:
        found = outcome_curve(curve, stream)
        expected = [reference(case.cut(k)) for k in range(len(case.spans))]
        assert all(map(same, found, expected)), (curve, found, expected)


def outcome_curve(curve: Curve, stream: Stream) -> list[float]:
    """Return the curve, all NaN if it is undefined throughout."""
    try:
        return [float(value) for value in curve(stream)]
    except UndefinedMetricError:
        return [float("nan")] * len(stream.spans)


@law
@given(cases(), windows)
def test_curves_of_wf_and_wp(case: Case, window: int | None) -> None:
    stream = case.stream()
    for metric, change in ((wf, ref.drop_by_pairs), (wp, ref.rise_by_pairs)):
        found = outcome_curve(lambda s, m=metric: curve_of(m(s, window)), stream)  # type: ignore[misc]
        for k, value in enumerate(found):
            expected = ref.windowed(case.cut(k), window, change)
            if any(len(rows) > 1 for rows in case.cut(k).log.values()):
                assert same(value, ref.mean(expected.values()))


def test_the_curve_of_wf_is_undefined_while_no_task_was_tested_twice() -> None:
    for metric in (wf, wp):
        with pytest.raises(UndefinedMetricError, match="two evaluations"):
            metric(Stream({"a": ([1], [0.9])}, [("a", 1)]), None)
    longer = Stream({"a": ([1, 2], [0.9, 0.5]), "b": ([2], [0.5])}, [("a", 1), ("b", 2)])
    assert np.isnan(curve_of(wf(longer, None))[0])
    assert np.isnan(curve_of(wp(longer, None))[0])
    assert curve_of(wf(longer, None))[1] == pytest.approx(0.2)


@law
@given(cases(every_step=True), st.integers(0, 3))
def test_curve_of_lca(case: Case, beta: int) -> None:
    if ref.lca_by_loops(case, beta) is not None:
        found = lca_curve(case.stream(), beta)
        for k in range(len(case.spans)):
            areas = ref.lca_by_loops(case.cut(k), beta)
            assert areas is not None
            assert same(found[k], ref.mean(areas.values()))


@law
@given(cases(every_step=True, returns=False))
def test_at_a_tasks_end_wc_acc_is_at_most_acc_on_the_same_examples(case: Case) -> None:
    found = wc_acc_curve(case.stream())
    for k, (_, end) in enumerate(case.spans):
        acc = ref.mean(case.log[task][end] for task, _ in case.spans[: k + 1])
        assert acc is not None
        assert found[k] <= acc + 1e-12


METRICS: list[Callable[[Stream], float]] = [
    min_acc,
    wc_acc,
    current_accuracy,
    aaa,
    lambda s: wf(s, 3),
    lambda s: wp(s, None),
    lambda s: lca(s, 1),
]


@law
@given(cases(), st.randoms())
def test_names_do_not_matter(case: Case, random: Any) -> None:
    fresh = [f"n{k}" for k in range(len(case.log))]
    random.shuffle(fresh)
    new = dict(zip(case.log, fresh, strict=True))
    renamed = Case(
        {new[name]: rows for name, rows in case.log.items()},
        [(new[task], last) for task, last in case.spans],
        {new[name]: score for name, score in case.before.items()},
        sorted(fresh),
    )
    for metric in METRICS:
        found, again = (outcome(partial(metric, each.stream())) for each in (case, renamed))
        assert same(found, again)


@law
@given(cases())
def test_nothing_is_written_to(case: Case) -> None:
    tasks = {name: (np.array([*rows], int), np.array([*rows.values()], float))
             for name, rows in case.log.items()}  # fmt: skip
    stream = Stream(tasks, case.spans, before=case.before)
    for metric in METRICS:
        outcome(partial(metric, stream))
    for name, rows in case.log.items():
        for steps, scores in (tasks[name], stream.tasks[name]):
            assert dict(zip(steps.tolist(), scores.tolist(), strict=True)) == rows
        assert tasks[name][0].flags.writeable
