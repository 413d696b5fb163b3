"""Intervals on extremes: coverage on streams with known truth, and the parts against loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from perdure import PerExample, Stream, summary
from perdure.metrics import (
    extreme_intervals,
    interval_of_drop,
    interval_of_minimum,
    selection_bias,
    windowed_drop,
)
from perdure.metrics.stream_extremes import (
    _largest_drops,
    _paired_errors,
    _resample_weights,
)
from perdure.stats import clopper_pearson_interval, drop_bias, minimum_bias

tables = st.tuples(st.integers(2, 12), st.integers(3, 20)).flatmap(
    lambda shape: arrays(bool, shape, elements=st.booleans())
)


def results_of(table: np.ndarray) -> PerExample:
    return PerExample.pack(range(1, len(table) + 1), table)


def correlated(p: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Right or wrong for n examples with a difficulty each, so that steps depend on each other."""
    from scipy.special import ndtri

    latent = np.sqrt(0.5) * (rng.standard_normal(n) + rng.standard_normal((len(p), n)))
    return np.asarray(latent < ndtri(p)[:, None])


@given(tables)
def test_hits_unpack_count_and_compare_as_the_booleans_they_hold(table: np.ndarray) -> None:
    results = results_of(table)
    np.testing.assert_array_equal(results[np.arange(len(table))], table)
    np.testing.assert_allclose(results.accuracy(), table.mean(axis=1))
    np.testing.assert_allclose(results.changed(1), (table != table[1]).mean(axis=1))
    np.testing.assert_array_equal(results.after(1).steps, np.arange(2, len(table) + 1))
    np.testing.assert_array_equal(results.after(1)[0], table[1])


@pytest.mark.parametrize(
    ("steps", "packed", "examples", "message"),
    [
        ([1, 2], np.zeros((2, 1), np.uint8), 0, "at least 1 example"),
        ([1, 2], np.zeros((2, 2), np.uint8), 8, r"shape \(2, 1\), got \(2, 2\)"),
        ([2, 2], np.zeros((2, 1), np.uint8), 8, "must increase"),
    ],
)
def test_hits_refuse_what_cannot_be(
    steps: list[int], packed: np.ndarray, examples: int, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        PerExample(np.array(steps), packed, examples)


@given(tables, st.sampled_from([1, 2, 3, 5, None]), st.integers(0, 2**31))
def test_resampled_drops_are_those_of_all_pairs(
    table: np.ndarray, window: int | None, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    starts, ends = rng.random(len(table)) < 0.7, rng.random(len(table)) < 0.7
    starts[0] = ends[0] = True  # at least one pair
    (excess,) = _resample_weights([table.shape[1]], 5, seed)
    found = _largest_drops(results_of(table), starts, ends, window, excess)
    error = table @ excess.astype(np.float64)
    reach = window or len(table)
    for resample in range(5):
        by_pairs = max(
            error[a, resample] - error[b, resample]
            for b in range(len(table))
            for a in range(max(0, b - reach + 1), b + 1)
            if starts[a] and ends[b]
        )
        assert found[resample] == pytest.approx(by_pairs, abs=1e-5)


def test_resamples_are_drawn_task_after_task_and_remembered() -> None:
    sizes, rng = [30, 7, 30], np.random.default_rng(3)
    expected = [(rng.multinomial(n, np.full(n, 1 / n), size=20).T - 1) / n for n in sizes]
    for _ in range(2):  # also when they are remembered
        for drawn, direct in zip(_resample_weights(sizes, 20, 3), expected, strict=True):
            np.testing.assert_array_equal(drawn, direct.astype(np.float32))
    (alone,) = _resample_weights([30], 20, 3)
    np.testing.assert_array_equal(alone, expected[0].astype(np.float32))


@given(tables)
def test_paired_errors_are_those_of_the_differences(table: np.ndarray) -> None:
    found = _paired_errors(results_of(table), table.mean(axis=1), 0)
    differences = table.astype(float) - table[0].astype(float)
    expected = differences.std(axis=1) / np.sqrt(table.shape[1])
    np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize(("right", "n"), [(0, 10), (3, 10), (10, 10), (991, 1000)])
def test_clopper_pearson_against_scipy(right: int, n: int) -> None:
    from scipy.stats import binomtest

    exact = binomtest(right, n).proportion_ci(0.95, method="exact")
    assert clopper_pearson_interval(right, n) == pytest.approx((exact.low, exact.high), abs=1e-9)


def coverage(p: np.ndarray, n: int, tasks: int, replications: int) -> dict[str, float]:
    rng = np.random.default_rng(3)
    held = {"min": 0, "drop": 0}
    for seed in range(replications):
        drawn = [results_of(correlated(p, n, rng)) for _ in range(tasks)]
        low, high = interval_of_minimum(drawn, resamples=200, seed=seed)
        held["min"] += low <= p.min() <= high
        low, high = interval_of_drop(drawn, 10, resamples=200, seed=seed)
        held["drop"] += low <= windowed_drop(p, 10) + 1e-12 and windowed_drop(p, 10) <= high
    return {name: count / replications for name, count in held.items()}


DIP = np.concatenate([np.full(40, 0.95), np.linspace(0.6, 0.95, 20), np.full(40, 0.95)])


@pytest.mark.parametrize("p", [np.full(100, 0.9), DIP], ids=["flat", "dip"])
def test_intervals_hold_the_truth_where_the_plain_reading_does_not(p: np.ndarray) -> None:
    found = coverage(p, n=100, tasks=3, replications=60)
    assert min(found.values()) >= 0.9, found


@pytest.mark.slow
@pytest.mark.parametrize("n", [60, 400])
@pytest.mark.parametrize(
    "p", [np.full(300, 0.9), np.full(300, 0.995), DIP], ids=["flat", "high", "dip"]
)
def test_intervals_keep_their_level(p: np.ndarray, n: int) -> None:
    found = coverage(p, n=n, tasks=4, replications=400)
    assert min(found.values()) >= 0.93, found  # .95 less two standard errors


@pytest.mark.parametrize(("n", "low", "drop"), [(1000, 0.032, 0.051), (100, 0.109, 0.160)])
def test_bounds_hold_the_known_biases_of_redrawn_subsets(n: int, low: float, drop: float) -> None:
    rng = np.random.default_rng(0)
    runs = rng.binomial(n, 0.9, size=(200, 1000)) / n
    by_minimum = 0.9 - runs.min(axis=1).mean()
    by_drop = np.mean([windowed_drop(run, 10) for run in runs])
    assert by_minimum == pytest.approx(low, abs=0.002)  # the figures of the definitions
    assert by_drop == pytest.approx(drop, abs=0.002)
    assert by_minimum <= minimum_bias(0.9 - by_minimum, n, 1000) <= 1.5 * by_minimum
    bound = drop_bias(1000, n, 10)
    assert bound is not None
    assert by_drop <= bound <= 2.5 * by_drop


@given(st.floats(0, 1), st.integers(1, 5000), st.integers(1, 10**6))
def test_bias_of_a_minimum_stays_inside_the_range(low: float, n: int, evaluations: int) -> None:
    bound = minimum_bias(low, n, evaluations)
    assert 0 <= bound <= 1 - low + 1e-9
    assert minimum_bias(low, n, 1) == 0


def two_tasks(n: int = 64) -> tuple[Stream, dict[str, PerExample]]:
    rng = np.random.default_rng(1)
    first = correlated(np.r_[np.full(20, 0.9), np.linspace(0.5, 0.9, 20)], n, rng)
    second = correlated(np.full(20, 0.8), n, rng)
    results = {
        "a": PerExample.pack(range(1, 41), first),
        "b": PerExample.pack(range(21, 41), second),
    }
    tasks = {name: (mine.steps, mine.accuracy()) for name, mine in results.items()}
    return Stream(tasks, [("a", 20), ("b", 40)], sizes={"a": n, "b": n}), results


def test_a_summary_with_hits_has_intervals_and_without_has_bounds() -> None:
    stream, results = two_tasks()
    found = summary(stream, per_example=results)
    extremes = {"min_acc", "wc_acc", "wf10", "wf100", "wfall"}
    assert set(found.intervals) == extremes
    assert not found.bias
    for id_ in ("min_acc", "wc_acc"):  # the bias of a minimum is upwards of what was read
        low, high = found.intervals[id_]
        assert low < found.metrics[id_] < high
    assert set(summary(stream).bias) == extremes


def test_the_interval_of_min_acc_is_of_the_older_task_after_it_was_learned() -> None:
    stream, results = two_tasks()
    intervals, reason = extreme_intervals(stream, results, ["min_acc", "wc_acc"])
    later = PerExample(results["a"].steps[20:], results["a"].packed[20:], 64)
    last = PerExample(results["b"].steps[-1:], results["b"].packed[-1:], 64)
    assert reason is None
    assert intervals["min_acc"] == interval_of_minimum([later])
    assert intervals["wc_acc"] == interval_of_minimum([later, last])


def test_missing_hits_and_sizes_say_so() -> None:
    stream, results = two_tasks()
    intervals, reason = extreme_intervals(
        stream, {"a": results["a"]}, ["min_acc", "wc_acc", "wf10"]
    )
    assert set(intervals) == {"min_acc"}
    assert reason == "no per-example results of task 'b'"
    found = summary(stream, per_example={"a": results["a"]})
    assert any("no per-example results of task 'b'" in note for note in found.notes)
    assert "wf10" in found.bias
    unknown = Stream(stream.tasks, stream.spans, sizes={"b": 64})
    assert selection_bias(unknown, ["min_acc", "wf10"]) == {}
