"""A judged stream: what is refused, kept, cut and thinned, and what a summary says of it."""

import dataclasses
import re
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import perdure
from perdure import ScoreScale, Stream, SummaryOptions
from perdure.metrics import TaskSpan, aaa, current_accuracy, lca, min_acc, wc_acc, wf, wp

from . import stream_references as ref
from .stream_references import Case, cases, law, outcome, same

BOUNDED = ("min_acc", "wc_acc", "current", "lca1", "gap.depth", "gap.area", "gap.recovery")


def stream() -> Stream:
    return Stream(
        {"b": ([3, 4], [0.6, 0.8]), "x": ([2], [0.5]), "a": ([1, 2, 3, 4], [0.5, 0.9, 0.2, 0.7])},
        spans=[("a", 2), ("b", 4)],
        before={"a": 0.1, "b": 0.2},
        sizes={"a": 100},
    )


def test_learned_tasks_come_first_in_order_of_learning() -> None:
    assert stream().names == ("a", "b", "x")
    assert stream().spans == (TaskSpan("a", 2), TaskSpan("b", 4))


def test_is_frozen_and_read_only() -> None:
    kept = stream()
    with pytest.raises(dataclasses.FrozenInstanceError):
        kept.spans = ()  # type: ignore[misc]
    for steps, scores in kept.tasks.values():
        for array in (steps, scores):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 0
    assert kept.tasks["a"][0].dtype == np.int64
    assert kept.tasks["a"][1].dtype == np.float64


def test_keeps_a_copy() -> None:
    steps, scores, before = np.array([1, 2]), np.array([0.5, 0.75]), {"a": 0.25}
    spans = [("a", 2)]
    kept = Stream({"a": (steps, scores)}, spans, before=before)
    steps[0], scores[0], before["a"] = 0, 0.0, 0.0
    spans.append(("a", 3))
    assert kept.tasks["a"][0].tolist() == [1, 2]
    assert kept.tasks["a"][1].tolist() == [0.5, 0.75]
    assert kept.before == {"a": 0.25}
    assert kept.spans == (("a", 2),)


A = {"a": ([1, 2], [0.5, 0.75])}
ILLEGAL: list[tuple[Any, dict[str, Any], str]] = [
    ({"a": ([1, 2, 3], [0.5, 0.75])}, {}, "task 'a' has (3,) steps and (2,) scores"),
    ({"a": ([[1], [2]], [[0.5], [0.75]])}, {}, "task 'a' has (2, 1) steps"),
    ({"a": (1, 0.5)}, {}, "task 'a' has () steps"),
    ({"a": ([1.0, 2.0], [0.5, 0.75])}, {}, "task 'a' must be whole numbers, got float64"),
    ({"a": ([True], [0.5])}, {}, "task 'a' must be whole numbers, got bool"),
    ({"a": ([2**70], [0.5])}, {}, "task 'a' must be whole numbers"),
    ({"a": ([2, 1], [0.5, 0.75])}, {}, "task 'a' must start at 0 or later and increase"),
    ({"a": ([1, 1], [0.5, 0.75])}, {}, "task 'a' must start at 0 or later and increase"),
    ({"a": ([-1, 1], [0.5, 0.75])}, {}, "task 'a' must start at 0 or later and increase"),
    ({"a": ([1, 2], [0.5, np.nan])}, {}, "task 'a' must be finite"),
    ({"a": ([1, 2], [0.5, np.inf])}, {}, "task 'a' must be finite"),
    (
        {"a": ([1], [75])},
        {},
        "task 'a' is 75, expected 0 to 1; for percentages use `percent=True` or divide by 100",
    ),
    (
        {"a": ([1, 2, 3, 4], [0.5, 1.7, 0.25, 1])},
        {},
        "task 'a' is 1.7, expected 0 to 1 like the 3 others; correct it, or pass `percent=True`",
    ),
    ({"a": ([1], [-0.5])}, {}, "task 'a' is -0.5, expected 0 to 1"),
    ({"a": ([1], [5.5])}, {"scale": ScoreScale(0, 5)}, "task 'a' is 5.5, expected 0 to 5"),
    (A, {"spans": [("c", 2)]}, "task 'c' is learned but never evaluated; evaluated: ['a']"),
    (A, {"spans": [("a", 2), ("a", 2)]}, "must increase, got [2, 2]"),
    (A, {"spans": [("a", 2), ("a", 1)]}, "must increase, got [2, 1]"),
    (A, {"spans": [("a", -1)]}, "-1"),
    (A, {"before": {"a": 1.5}}, "1.5"),
    (A, {"before": {"a": float("nan")}}, "nan"),
    (A, {"before": {"c": 0.5}}, "'c'"),
    (A, {"sizes": {"a": 0}}, "0"),
]


@pytest.mark.parametrize(("tasks", "more", "message"), ILLEGAL, ids=str)
def test_refuses(tasks: Any, more: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        Stream(tasks, **more)


def test_a_task_may_have_no_evaluations() -> None:
    empty = Stream({"a": ([], [])}, [("a", 3)])
    assert len(empty.grid) == 0
    assert empty.periodicity is None


def test_grid_and_periodicity() -> None:
    assert stream().grid.tolist() == [1, 2, 3, 4]
    assert stream().periodicity == 1
    coarse = Stream({"a": ([10, 20, 25], [0, 0, 0]), "b": ([30, 40], [0, 0])})
    assert coarse.grid.tolist() == [10, 20, 25, 30, 40]
    assert Stream({"a": ([10, 20, 30, 35], [0, 0, 0, 0])}).periodicity == 10
    assert Stream({"a": ([10], [0])}).periodicity is None


@law
@given(cases())
def test_grid_is_every_step_once(case: Case) -> None:
    steps = sorted({t for rows in case.log.values() for t in rows})
    assert case.stream().grid.tolist() == steps


@law
@given(cases())
def test_until_the_end_of_a_visit_is_the_stream_cut_there(case: Case) -> None:
    whole = case.stream()
    for k, (_, end) in enumerate(case.spans):
        cut, expected = whole.until(end), case.cut(k)
        assert list(cut.spans) == expected.spans
        for name, rows in expected.log.items():
            steps, scores = cut.tasks[name]
            assert dict(zip(steps.tolist(), scores.tolist(), strict=True)) == rows
    assert whole.until(whole.spans[-1].last).grid.tolist() == whole.grid.tolist()


def test_until_the_middle_of_a_visit_is_still_learning_its_task() -> None:
    """As it was after 3 iterations: task b is current, task a left behind."""
    cut = stream().until(3)
    assert current_accuracy(cut) == 0.6
    assert min_acc(cut) == 0.2
    assert wc_acc(cut) == pytest.approx((0.6 + 0.2) / 2)
    assert aaa(cut) == pytest.approx((0.5 + 0.9 + (0.2 + 0.6) / 2) / 3)


@law
@given(st.integers(1, 60), st.integers(1, 12), st.integers(1, 60))
def test_thinned_keeps_what_a_coarser_run_would_test(end: int, every: int, late: int) -> None:
    rng = np.random.default_rng(end)
    steps = {"a": np.arange(1, end + 1), "b": np.arange(late, end + 1)}
    fine = Stream({name: (t, rng.random(len(t))) for name, t in steps.items()}, [("a", end)])
    coarse = fine.subsample(every)
    for name, (t, a) in fine.tasks.items():
        kept = t % every == 0
        assert coarse.tasks[name][0].tolist() == t[kept].tolist()
        assert coarse.tasks[name][1].tolist() == a[kept].tolist()
    assert coarse.spans == fine.spans


@pytest.mark.parametrize("every", [0, -1])
def test_thinned_refuses_what_is_no_period(every: int) -> None:
    with pytest.raises(ValueError, match=f"at least 1.*{every}"):
        stream().subsample(every)


def test_without_boundaries_windows_and_the_average_go_on() -> None:
    found = perdure.summary(
        Stream({"a": ([1, 2, 3], [0.9, 0.1, 0.8]), "b": ([2, 3], [0.5, 0.6])}),
        options=SummaryOptions(windows=(2, None), beta=1),
    )
    assert found.metrics["wf2"] == pytest.approx((0.8 + 0) / 2)
    assert found.metrics["wpall"] == pytest.approx((0.7 + 0.1) / 2)
    assert found.metrics["aaa"] == pytest.approx((0.9 + 0.3 + 0.7) / 3)
    for id_ in (*BOUNDED, "gap.recovered"):
        assert found.undefined[id_] == "needs task boundaries; this stream has none"
    assert "needs a score matrix" in found.undefined["acc"]


@law
@given(cases(boundaries=False))
def test_every_id_has_a_number_or_a_reason(case: Case) -> None:
    found = perdure.summary(case.stream(), options=SummaryOptions(beta=1))
    for id_ in BOUNDED:
        assert id_ not in found.metrics
        assert found.undefined[id_]
    assert ("wfall" in found.metrics) == any(len(rows) > 1 for rows in case.log.values())
    assert not found.metrics.keys() & found.undefined.keys()


def test_a_task_that_returns_is_current_again() -> None:
    back = Stream(
        {"a": ([1, 2, 3], [0.9, 0.3, 0.7]), "b": ([1, 2, 3], [0.1, 0.8, 0.4])},
        [("a", 1), ("b", 2), ("a", 3)],
    )
    assert current_accuracy(back) == 0.7
    assert min_acc(back) == 0.4  # only b is behind
    assert wc_acc(back) == pytest.approx((0.7 + 0.4) / 2)
    assert wf(back, None) == pytest.approx((0.6 + 0.4) / 2)
    found = perdure.summary(back)
    assert found.curves["current"] == pytest.approx([0.9, 0.8, 0.7])
    assert found.curves["min_acc"] == [None, 0.3, 0.4]
    assert found.metrics["gap.depth"] == pytest.approx((0.6 + 0.4) / 2)


def test_periodicity_is_printed_beside_the_windows() -> None:
    thinned = Stream({"a": ([10, 20, 30], [0.5, 0.5, 0.5])})
    assert any("one every 10 iteration" in note for note in perdure.summary(thinned).notes)


def test_losses_come_out_in_the_users_units() -> None:
    losses = Stream(
        {"a": ([1, 2, 3], [0.5, 4.0, 1.0]), "b": ([2, 3], [3.0, 0.25])},
        [("a", 1), ("b", 3)],
        before={"a": 9.0, "b": 8.0},
        scale=ScoreScale(0, 10, lower_is_better=True),
    )
    found = perdure.summary(losses, options=SummaryOptions(windows=(2,), beta=1))
    assert found.metrics["min_acc"] == 4.0  # the worst: the highest loss
    assert found.metrics["wc_acc"] == pytest.approx((4.0 + 0.25) / 2)
    assert found.metrics["current"] == 0.25
    assert found.metrics["aaa"] == pytest.approx((0.5 + 3.5 + 0.625) / 3)
    assert found.metrics["lca1"] == pytest.approx((9.0 + 0.5 + 8.0 + 3.0) / 4)
    assert found.metrics["wf2"] == pytest.approx((3.5 + 0) / 2)  # forgetting: the loss rises
    assert found.metrics["wp2"] == pytest.approx((3.0 + 2.75) / 2)
    assert found.per_task["min_acc"] == [4.0, None]
    assert found.curves["current"] == [0.5, 0.25]
    assert found.curves["wf2"][-1] == pytest.approx(1.75)


@law
@given(cases())
def test_losses_mirror_scores(case: Case) -> None:
    """Formulas see the negated loss: 1 - score as a loss has the same drops, rises and minima."""
    stream = case.stream()
    losses = Case(
        {name: {t: 1 - a for t, a in rows.items()} for name, rows in case.log.items()},
        case.spans,
        {name: 1 - a for name, a in case.before.items()},
        case.order,
    ).stream(ScoreScale(0, 1, lower_is_better=True))
    for changes in (lambda s: wf(s, 3), lambda s: wp(s, 3)):
        assert same(outcome(partial(changes, losses)), outcome(partial(changes, stream)))
    for level in (min_acc, wc_acc, current_accuracy, aaa, lambda s: lca(s, 1)):
        mine, theirs = outcome(partial(level, stream)), outcome(partial(level, losses))
        assert same(theirs, None if mine is None else mine - 1)


@law
@given(cases())
def test_scores_of_any_range_scale_with_it(case: Case) -> None:
    """Scores from -5 to 15 are 20 times the accuracy minus 5: levels follow, changes by 20."""
    wide = Case(
        {name: {t: 20 * a - 5 for t, a in rows.items()} for name, rows in case.log.items()},
        case.spans,
        {name: 20 * a - 5 for name, a in case.before.items()},
        case.order,
    )
    options = SummaryOptions(windows=(3,), beta=1)
    found = perdure.summary(wide.stream(ScoreScale(-5, 15)), options=options)
    unit = perdure.summary(case.stream(), options=options)
    for id_ in ("min_acc", "wc_acc", "current", "aaa", "lca1"):
        level = unit.metrics.get(id_)
        assert same(found.metrics.get(id_), None if level is None else 20 * level - 5)
    for id_ in ("wf3", "wp3", "gap.depth", "gap.area"):
        change = unit.metrics.get(id_)
        assert same(found.metrics.get(id_), None if change is None else 20 * change)
    for id_ in ("gap.recovery", "gap.recovered"):
        assert found.undefined[id_]


@law
@given(cases())
def test_summary_agrees_with_the_loops(case: Case) -> None:
    found = perdure.summary(case.stream(), options=SummaryOptions(windows=(3,), beta=0))
    assert same(found.metrics.get("min_acc"), ref.min_acc_by_loops(case))
    assert same(found.metrics.get("aaa"), ref.aaa_by_loops(case))
    drops = ref.windowed(case, 3, ref.drop_by_pairs)
    assert same(found.metrics.get("wf3"), ref.mean(drops.values()))
    assert same(outcome(lambda: current_accuracy(case.stream())), found.metrics.get("current"))
