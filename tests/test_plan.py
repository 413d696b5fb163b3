"""Plans: counts against loops, bounds against simulated streams, thinning against `score`."""

from __future__ import annotations

from math import ceil, log, sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure import PerExample, Stream
from perdure.metrics import interval_of_drop, interval_of_minimum, min_acc, wf, windowed_drop
from perdure.stats import burst_steps, drop_bias_at, minimum_bias_at, plan, schedule_steps

lengths = st.lists(st.integers(1, 40), min_size=1, max_size=6)
bursts = st.tuples(st.integers(1, 12), st.integers(1, 20))


def burst_by_the_rule(iterations: int, first: int, then: int, growth: float = 2.0) -> list[int]:
    steps = list(range(1, first + 1))
    j = 1
    while steps[-1] <= iterations:
        steps.append(steps[-1] + min(then, ceil(growth**j)))
        j = min(j + 1, 60)
    return [step for step in steps if step <= iterations]


def loop(iterations: list[int], tested: Any) -> tuple[list[int], int]:
    """Return evaluations while each task is learned, and tests, by learning step by step."""
    evaluations, tests, step = [], 0, 0
    for k, length in enumerate(iterations):
        evaluations.append(0)
        for since in range(1, length + 1):
            step += 1
            if tested(step, since):
                evaluations[-1] += 1
                tests += k + 1  # every task seen so far
    return evaluations, tests


@given(st.integers(1, 300), st.integers(1, 30), st.integers(1, 50), st.sampled_from([1.5, 2.0, 3]))
def test_a_burst_follows_the_rule(iterations: int, first: int, then: int, growth: float) -> None:
    found = burst_steps(iterations, first, then, growth)
    assert found.dtype == np.int64
    assert found.tolist() == burst_by_the_rule(iterations, first, then, growth)


def test_a_burst_by_hand() -> None:
    assert burst_steps(40, 4, 10).tolist() == [1, 2, 3, 4, 6, 10, 18, 28, 38]
    assert burst_steps(3, 10, 10).tolist() == [1, 2, 3]
    assert burst_steps(6, 2, 1).tolist() == [1, 2, 3, 4, 5, 6]


@given(lengths, st.integers(1, 60), st.integers(1, 500))
def test_counts_are_those_of_a_loop(iterations: list[int], every: int, n: int) -> None:
    found = plan(iterations, n=n, every=every)
    evaluations, tests = loop(iterations, lambda step, _: step % every == 0)
    assert list(found.evaluations) == evaluations
    assert (found.tests, found.examples) == (tests, n * tests)
    steps = schedule_steps(iterations, every=every)
    assert steps.tolist() == [k for k in range(1, sum(iterations) + 1) if k % every == 0]


@given(lengths, bursts)
def test_counts_of_bursts_are_those_of_a_loop(
    iterations: list[int], burst: tuple[int, int]
) -> None:
    found = plan(iterations, n=7, burst=burst)
    in_burst = {length: set(burst_by_the_rule(length, *burst)) for length in iterations}
    each = [len(in_burst[length]) for length in iterations]
    tests = sum((k + 1) * count for k, count in enumerate(each))
    assert (list(found.evaluations), found.tests, found.examples) == (each, tests, 7 * tests)
    assert found.ratios == tuple(each)
    starts = np.cumsum([0, *iterations[:-1]])
    expected = [s + k for s, length in zip(starts, iterations, strict=True)
                for k in sorted(in_burst[length])]  # fmt: skip
    assert schedule_steps(iterations, burst=burst).tolist() == expected


def test_a_plan_by_hand() -> None:
    found = plan([100, 300], n=50, every=10, train_seconds=0.01, example_seconds=1e-3)
    assert found.evaluations == (10, 30)
    assert found.ratios == (10.0, 30.0)  # (t_k - t_{k-1}) / rho, appendix A
    assert found.ratio == pytest.approx((1 * 10 + 2 * 30) / (1 + 2))
    assert found.examples == 50 * (10 * 1 + 30 * 2)
    assert found.seconds_train == pytest.approx(4.0)
    assert found.seconds_eval == pytest.approx(3.5)
    assert found.share == pytest.approx(3.5 / 7.5)
    assert found.bias_min_acc == minimum_bias_at(0.9, 50, 30)
    own = [drop_bias_at(0.9, 50, 40, 10), drop_bias_at(0.9, 50, 30, 10)]
    assert found.bias_wf == pytest.approx(sum(own) / 2)


def test_half_widths_by_hand() -> None:
    found = plan(500, tasks=5, n=100, every=1)
    assert found.half_min_acc == pytest.approx((0.9 - 0.825633) / sqrt(4), abs=1e-5)  # Wilson's
    z = 1.959964
    assert found.half_wf == pytest.approx(z * sqrt((0.18 + z**2 / 100) / 100 / 5), abs=1e-6)
    finer = plan(500, tasks=5, n=100, every=1, changed=0.02)
    assert finer.half_wf == pytest.approx(z * sqrt((0.02 + z**2 / 100) / 100 / 5), abs=1e-6)


def test_the_ends_of_tasks_count_in_the_bias_and_not_in_the_cost() -> None:
    rare = plan(50, tasks=3, n=100, every=1000)
    assert (rare.evaluations, rare.examples, rare.ratios) == ((0, 0, 0), 0, (0.05,) * 3)
    by_hand = (minimum_bias_at(0.9, 100, 2) + minimum_bias_at(0.9, 100, 1)) / 2
    assert rare.bias_min_acc == by_hand > 0
    even, odd = plan(50, tasks=2, n=9, every=10), plan(50, tasks=2, n=9, every=7)
    assert even.bias_min_acc == minimum_bias_at(0.9, 9, 5)  # the last of 5 is the end itself
    assert odd.bias_min_acc == minimum_bias_at(0.9, 9, 8)  # steps 56, 63, … 98, and the end, 100
    burst = plan(10, tasks=2, n=9, burst=(2, 4))
    assert burst.bias_min_acc == minimum_bias_at(0.9, 9, 5)  # steps 1, 2, 4, 8, and the end
    whole = plan(16, tasks=2, n=9, burst=(2, 4))
    assert whole.bias_min_acc == minimum_bias_at(0.9, 9, 6)  # 1, 2, 4, 8, 12, 16: the end


def test_what_cannot_be_known_is_none() -> None:
    alone = plan(10, tasks=1, n=9, every=100)
    assert (alone.bias_min_acc, alone.half_min_acc) == (None, None)
    assert (alone.bias_wf, alone.half_wf) == (None, None)
    assert (alone.seconds_train, alone.seconds_eval, alone.share) == (None, None, None)
    some = plan(10, tasks=1, n=9, every=1, train_seconds=1.0)
    assert (some.seconds_train, some.seconds_eval, some.share) == (10.0, None, None)
    assert plan(10, tasks=2, n=9, every=1, accuracy=1.0).bias_min_acc == 0


@pytest.mark.parametrize(("n", "low", "drop"), [(1000, 0.032, 0.051), (100, 0.109, 0.160)])
def test_bounds_hold_the_known_biases_and_are_near(n: int, low: float, drop: float) -> None:
    found = plan([1, 1000], n=n, every=1)  # the first task is tested 1000 times after its end
    assert found.bias_min_acc is not None
    assert found.bias_wf is not None
    assert low < found.bias_min_acc < 1.25 * low
    assert drop < found.bias_wf < 1.25 * drop


def test_bounds_of_large_subsets_are_those_of_normal_noise() -> None:
    n, count, pairs = 10**6, 1000, 1000 * 9 - 45
    for p, spread in ((0.5, 0.25), (0.9, 0.09)):
        expected = sqrt(2 * log(count) * spread / n)
        assert minimum_bias_at(p, n, count) == pytest.approx(expected, rel=0.01)
        expected = sqrt(2 * log(pairs) * 2 * spread / n)
        assert drop_bias_at(p, n, count, 10) == pytest.approx(expected, rel=0.01)
    by_changes = minimum_bias_at(0.9, n, count, changed=0.02)
    assert by_changes == pytest.approx(sqrt(2 * log(count) * 0.02 / n), rel=0.01)


def simulated(
    iterations: list[int], n: int, p: float, kept: float, runs: int
) -> tuple[float, float]:
    """Return the mean bias of min_acc and wf10 where a share of the answers never changes."""
    rng = np.random.default_rng(7)
    ends = np.cumsum(iterations).tolist()
    spans = [(str(k), end) for k, end in enumerate(ends)]
    lows, drops = [], []
    for _ in range(runs):
        tasks = {}
        for k, start in enumerate([0, *ends[:-1]]):
            steps = np.arange(start + 1, ends[-1] + 1)
            fixed = round(kept * n)
            right = rng.binomial(fixed, p) + rng.binomial(n - fixed, p, size=len(steps))
            tasks[str(k)] = (steps, right / n)
        stream = Stream(tasks, spans)
        lows.append(p - min_acc(stream))
        drops.append(float(wf(stream, 10)))
    return float(np.mean(lows)), float(np.mean(drops))


@pytest.mark.parametrize("p", [0.5, 0.9, 0.98])
@pytest.mark.parametrize("kept", [0.0, 0.8])
def test_bounds_hold_over_tasks_for_redrawn_and_fixed_subsets(p: float, kept: float) -> None:
    iterations, n = [30, 60, 50], 200
    low, drop = simulated(iterations, n, p, kept, runs=100)
    share = None if kept == 0 else (1 - kept) * 2 * p * (1 - p)
    found = plan(iterations, n=n, every=1, accuracy=p, changed=share)
    covering = plan(iterations, n=n, every=1, accuracy=p)
    for seen, bound, wide in (
        (low, found.bias_min_acc, covering.bias_min_acc),
        (drop, found.bias_wf, covering.bias_wf),
    ):
        assert bound is not None
        assert wide is not None
        assert seen < bound < 2.2 * seen  # with the share that changes, near for fixed subsets too
        assert bound <= wide


@given(
    st.floats(0, 1), st.integers(1, 5000), st.integers(1, 10**6),
    st.sampled_from([1, 2, 10, None]), st.floats(0, 1),
)  # fmt: skip
def test_bounds_stay_inside_the_range(
    p: float, n: int, evaluations: int, window: int | None, changed: float
) -> None:
    low = minimum_bias_at(p, n, evaluations)
    drop = drop_bias_at(p, n, evaluations, window)
    assert 0 <= minimum_bias_at(p, n, evaluations, changed=changed) <= low <= p
    assert 0 <= drop_bias_at(p, n, evaluations, window, changed=changed) <= drop <= 1
    assert minimum_bias_at(p, n, evaluations, changed=0.0) == 0


def test_half_widths_are_those_of_the_intervals_from_hits() -> None:
    rng = np.random.default_rng(5)
    n, p = 400, 0.9
    below, above = [], []
    for seed in range(20):
        few = [PerExample.pack(range(1, 4), rng.random((3, n)) < p) for _ in range(4)]
        lowest = np.mean([results.accuracy().min() for results in few])
        below.append(lowest - interval_of_minimum(few, resamples=20, seed=seed)[0])
        more = [PerExample.pack(range(1, 11), rng.random((10, n)) < p) for _ in range(4)]
        largest = np.mean([windowed_drop(results.accuracy(), 10) for results in more])
        above.append(interval_of_drop(more, 10, resamples=20, seed=seed)[1] - largest)
    assert plan(3, tasks=5, n=n, every=1).half_min_acc == pytest.approx(np.mean(below), rel=0.15)
    assert plan(10, tasks=4, n=n, every=1).half_wf == pytest.approx(np.mean(above), rel=0.1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"iterations": 0, "tasks": 2, "n": 1, "every": 1}, "iterations is 0, expected a whole"),
        ({"iterations": 2.5, "tasks": 2, "n": 1, "every": 1}, "'float' object is not iterable"),
        ({"iterations": [5, True], "n": 1, "every": 1}, "iterations is True"),
        ({"iterations": 5, "n": 1, "every": 1}, "expected `tasks=` with it"),
        ({"iterations": [5], "tasks": 2, "n": 1, "every": 1}, "has length 1, expected 2"),
        ({"iterations": [], "n": 1, "every": 1}, "number of tasks is 0"),
        ({"iterations": 5, "tasks": 10**7, "n": 1, "every": 1}, "tasks is 10000000, expected at"),
        ({"iterations": 5, "tasks": 2, "n": 10**12, "every": 1}, "n is 10+, expected at most"),
        ({"iterations": 5, "tasks": 2, "n": 1}, "every is None and burst is None, expected one"),
        ({"iterations": 5, "tasks": 2, "n": 1, "every": 1, "burst": (1, 2)}, "expected one of"),
        ({"iterations": 5, "tasks": 2, "n": 1, "every": 0}, "every is 0, expected a whole"),
        ({"iterations": 5, "tasks": 2, "n": 1, "burst": (0, 2)}, "first is 0, expected a whole"),
        ({"iterations": 5, "tasks": 2, "n": 1, "burst": (1, 2, 1.0)}, "growth is 1.0, expected"),
        ({"iterations": 5, "tasks": 2, "n": 1, "every": 1, "accuracy": 90}, "accuracy is 90"),
        ({"iterations": 5, "tasks": 2, "n": 1, "every": 1, "changed": -0.1}, "changed is -0.1"),
        ({"iterations": 5, "tasks": 2, "n": 1, "every": 1, "level": 95}, "level is 95"),
        ({"iterations": 5, "tasks": 2, "n": 1, "every": 1, "window": 0}, "window is "),
        ({"iterations": 5, "tasks": 2, "n": 1, "every": 1, "train_seconds": -1}, "train_seconds"),
    ],
)
def test_mistakes_are_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        plan(**arguments)
