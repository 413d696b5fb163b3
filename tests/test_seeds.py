"""Several seeds and several methods, against SciPy, enumeration and hand calculation."""

import re
import statistics
from collections.abc import Callable
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from perdure.metrics import UndefinedMetricError
from perdure.stats import (
    IntervalMethod,
    PairTestName,
    bca_interval,
    compare_pair,
    compare_pairs,
    holm,
    mean_over_seeds,
    mean_proportion_interval,
    mean_ranks,
    seeds_needed,
    t_interval,
    wilson_interval,
)
from perdure.stats.pairwise import _HolmWithOneReplaced

from .references import inf, nan, some

TESTS: tuple[PairTestName, ...] = get_args(PairTestName)
seeds = st.lists(st.integers(0, 1000).map(lambda n: n / 1000), min_size=2, max_size=12)


# Several seeds


@some
@given(seeds, st.sampled_from([0.8, 0.95, 0.99]))
def test_student_interval(values: list[float], level: float) -> None:
    found = mean_over_seeds(values, level=level)
    assert found.mean == pytest.approx(statistics.mean(values))
    assert found.sd == pytest.approx(statistics.stdev(values), abs=1e-12)
    assert found.seeds == len(values)
    half = stats.t.ppf((1 + level) / 2, len(values) - 1) * stats.sem(values)
    assert found.low == pytest.approx(found.mean - half, abs=1e-9)
    assert found.high == pytest.approx(found.mean + half, abs=1e-9)
    assert (found.low, found.high) == t_interval(values, level=level)


@pytest.mark.parametrize("level", [0.8, 0.95])
@pytest.mark.parametrize("kind", ["normal", "skewed", "few"])
def test_bca_interval(kind: str, level: float) -> None:
    rng = np.random.default_rng(3)
    draws = {
        "normal": rng.normal(0.6, 0.1, 30),
        "skewed": rng.exponential(0.2, 25) ** 1.5,
        "few": rng.normal(0.6, 0.1, 8),
    }
    x = draws[kind]
    expected = stats.bootstrap(
        (x,), np.mean, confidence_level=level, n_resamples=20_000, method="BCa", rng=rng
    ).confidence_interval
    width = expected.high - expected.low
    low, high = bca_interval(x, level=level)
    assert low == pytest.approx(expected.low, abs=0.03 * width)
    assert high == pytest.approx(expected.high, abs=0.03 * width)
    found = mean_over_seeds(x, method="bca", level=level)
    assert (found.low, found.high) == (low, high)


def test_bca_leans_to_the_long_tail() -> None:
    x = np.random.default_rng(5).exponential(1, 20) ** 2
    low, high = bca_interval(x)
    assert high - x.mean() > x.mean() - low
    mirrored = bca_interval(-x)
    assert mirrored == pytest.approx((-high, -low), rel=0.05)


def test_the_same_seed_gives_the_same_interval() -> None:
    x = [0.1, 0.5, 0.3, 0.9]
    assert bca_interval(x) == bca_interval(x)
    assert bca_interval(x, seed=1, resamples=99) != bca_interval(x, seed=2, resamples=99)


def test_degenerate_seeds() -> None:
    one = mean_over_seeds([0.5])
    assert (one.mean, one.seeds) == (0.5, 1)
    assert np.isnan([one.sd, one.low, one.high]).all()
    methods: list[IntervalMethod] = ["t", "bca"]
    for method in methods:
        same = mean_over_seeds([0.3, 0.3, 0.3], method=method)
        assert same.mean == pytest.approx(0.3)
        assert same.sd == pytest.approx(0, abs=1e-12)
        assert (same.low, same.high) == pytest.approx((0.3, 0.3))
    low, high = bca_interval([0.2, 0.4])
    assert 0.2 <= low <= high <= 0.4


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mean_over_seeds([0.5, nan]), "must be finite numbers, got [0.5, nan]"),
        (lambda: mean_over_seeds([0.5, inf]), "must be finite numbers"),
        (lambda: mean_over_seeds([[0.5, 0.6]]), "must be finite numbers, got [[0.5, 0.6]]"),
        (lambda: mean_over_seeds([]), "at least 1 seeds, got 0"),
        (lambda: t_interval([0.5]), "at least 2 seeds, got 1"),
        (lambda: bca_interval([0.5]), "at least 2 seeds, got 1"),
        (lambda: t_interval([0.5, 0.6], level=95), "between 0 and 1, got 95"),
        (lambda: bca_interval([0.5, 0.6], level=1), "between 0 and 1, got 1"),
    ],
)
def test_says_what_is_wrong_with_seeds(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        call()
    assert issubclass(UndefinedMetricError, ValueError)


# Two methods


@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize("unpaired", [False, True])
@pytest.mark.parametrize("n", [5, 12, 30])
def test_equal_methods_are_not_distinguishable(test: PairTestName, unpaired: bool, n: int) -> None:
    for one, other in (([0.5] * n, [0.5] * n), ([0.1 + 0.2] * n, [0.3] * n)):
        found = compare_pair(one, other, test=test, unpaired=unpaired)
        assert (found.p, found.difference, found.distinguishable) == (1.0, 0.0, False)
        assert found.effect == 0
        assert found.verdict.startswith("not distinguishable")


@pytest.mark.parametrize("n", [2, 3, 5, 10])
@pytest.mark.parametrize("unpaired", [False, True])
def test_the_same_difference_everywhere_is_the_limit_of_t(n: int, unpaired: bool) -> None:
    level = np.zeros(n) if unpaired else np.linspace(0.1, 0.3, n)
    found = compare_pair(level + 0.6, level + 0.2, unpaired=unpaired)
    assert (found.p, found.distinguishable, found.effect) == (0.0, True, None)
    assert (found.low, found.high) == pytest.approx((0.4, 0.4))
    why = "no variance between the seeds of either method" if unpaired else (
        f"identical difference on all {n} seeds"
    )  # fmt: skip
    assert found.verdict == f"distinguishable (p = 0: {why})"
    near = compare_pair(level + 0.6 + 1e-8 * np.arange(n), level + 0.2, unpaired=unpaired)
    assert near.p is not None
    assert near.p < 1e-6  # no jump
    assert near.remark == ""


@pytest.mark.parametrize("unpaired", [False, True])
def test_one_seed_is_not_tested_by_t(unpaired: bool) -> None:
    found = compare_pair([0.9], [0.1], unpaired=unpaired)
    assert found.difference == pytest.approx(0.8)
    assert found[1:6] == (None, None, None, None, False)
    assert found.verdict.startswith("not tested: 1 seed")
    assert found.verdict.endswith("t-test needs 2 or more")
    for test in TESTS[1::2]:
        floor = compare_pair([0.9], [0.1], unpaired=unpaired, test=test)
        assert (floor.p, floor.low, floor.high) == (1.0, None, None)
        assert "cannot go below p = 1" in floor.verdict


def test_methods_with_too_few_runs_do_not_count_in_the_correction() -> None:
    several = {"a": [0.9, 0.8, 0.85], "b": [0.1, 0.2, 0.12], "alone": [0.5]}
    found = compare_pairs(several, unpaired=True)
    assert found["a", "b"].p == compare_pair(several["a"], several["b"], test="welch").p
    assert found["a", "alone"].verdict == (
        "not tested: 3 and 1 seeds, and the Welch's t-test needs 2 or more"
    )


@pytest.mark.parametrize("test", ["permutation", "wilcoxon"])
@pytest.mark.parametrize("n", [14, 20, 60])
def test_seeds_that_agree_are_no_evidence(n: int, test: PairTestName) -> None:
    """Five seeds that differ cannot go below .0625, whatever number of others do not."""
    d = [0.0] * (n - 5) + [0.1, 0.2, 0.3, 0.4, 0.5]
    found = compare_pair(d, [0.0] * n, test=test)
    # Of more than 18 seeds, only some arrangements are looked at.
    assert found.p == pytest.approx(0.0625, abs=0 if n < 18 or test == "wilcoxon" else 0.006)
    assert not found.distinguishable
    assert f"5 differing seeds of {n} cannot go below p = 0.0625" in found.verdict


@pytest.mark.parametrize("test", ["permutation", "wilcoxon"])
@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_few_seeds_cannot_tell(n: int, test: PairTestName) -> None:
    found = compare_pair([0.9] * n, [0.1] * n, test=test)
    assert found.p == 2 / 2**n
    assert not found.distinguishable
    floor = {2: "0.5", 3: "0.25", 4: "0.125", 5: "0.0625"}[n]
    assert found.verdict == (
        f"not distinguishable: {n} seeds cannot go below p = {floor}; it takes at least 6"
    )
    assert (found.low, found.high) == (None, None)  # nor is there an interval


@pytest.mark.parametrize("test", ["permutation", "wilcoxon"])
def test_six_seeds_can(test: PairTestName) -> None:
    found = compare_pair([0.9, 0.8, 0.9, 0.7, 0.9, 0.8], [0.1] * 6, test=test)
    assert found.p == 0.03125
    assert found.distinguishable
    assert found.verdict == "distinguishable (p = 0.03125)"
    mixed = compare_pair([0.9, 0.1, 0.9, 0.1, 0.9, 0.1], [0.5] * 6, test=test)
    assert mixed.verdict == "not distinguishable (p = 1)"
    strict = compare_pair([0.9] * 6, [0.1] * 6, alpha=0.01, test=test)
    assert strict.verdict.endswith("6 seeds cannot go below p = 0.03125; it takes at least 8")


def test_unpaired_floors_are_said_too() -> None:
    found = compare_pair([0.9, 0.8, 0.7], [0.1, 0.2, 0.3], test="wilcoxon", unpaired=True)
    assert found.verdict == (
        "not distinguishable: 3 seeds each cannot go below p = 0.1; it takes at least 4"
    )
    uneven = compare_pair([0.9, 0.8], [0.1, 0.2, 0.3], test="permutation", unpaired=True)
    assert "2 and 3 seeds cannot go below p = 0.1;" in uneven.verdict


@pytest.mark.parametrize("alpha", [0.5, 0.1, 0.05, 0.03125, 0.01, 0.001])
@pytest.mark.parametrize("comparisons", [1, 3, 10])
def test_seeds_needed_is_the_first_that_can(alpha: float, comparisons: int) -> None:
    n = seeds_needed(alpha, comparisons=comparisons)
    assert comparisons * 2 / 2**n < alpha <= comparisons * 2 / 2 ** (n - 1)


# Several methods


def test_holm_by_hand() -> None:
    # sorted .005 .011 .02 .04 -> x4 .02, x3 .033, x2 .04, x1 .04
    np.testing.assert_allclose(holm([0.04, 0.005, 0.02, 0.011]), [0.04, 0.02, 0.04, 0.033])
    np.testing.assert_allclose(holm([0.5, 0.4, 0.9]), [1, 1, 1])
    np.testing.assert_allclose(holm([0.01, 0.01]), [0.02, 0.02])
    assert len(holm([])) == 0


@some
@given(st.lists(st.sampled_from([0.0, 0.001, 0.01, 0.02, 0.2, 1.0]), min_size=1, max_size=12))
def test_another_p_is_corrected_as_among_the_others(p_values: list[float]) -> None:
    quick = _HolmWithOneReplaced(p_values)
    for k, old in enumerate(p_values):
        for new in (0.0, 0.5 * old, old, 0.015, 0.5, 1.0):
            replaced = [*p_values[:k], new, *p_values[k + 1 :]]
            assert quick.correct(old, new) == holm(replaced)[k]


def test_every_pair_is_corrected() -> None:
    rng = np.random.default_rng(1)
    methods = {
        name: rng.normal(mean, 0.1, 8) for name, mean in zip("abc", (0, 0.2, 1), strict=True)
    }
    options: list[dict[str, Any]] = [
        {}, {"unpaired": True}, {"test": "permutation"}, {"test": "wilcoxon"}, {"against": "b"}
    ]  # fmt: skip
    for option in options:
        found = compare_pairs(methods, **option)
        every = [("a", "b"), ("a", "c"), ("b", "c")]
        assert list(found) == ([("a", "b"), ("c", "b")] if "against" in option else every)
        alone = {name: value for name, value in option.items() if name != "against"}
        raw = {}
        for first, second in found:
            one = compare_pair(methods[first], methods[second], **alone)
            assert one.p is not None
            raw[first, second] = one.p
            # The interval is that of the pair alone.
            assert found[first, second][:4] == one[:4]
        worst, total = 0.0, len(raw)
        for k, pair in enumerate(sorted(raw, key=lambda pair: raw[pair])):
            worst = max(worst, min(1.0, (total - k) * raw[pair]))
            assert found[pair].p == pytest.approx(worst)
            assert found[pair].distinguishable == (worst < 0.05)
    few = {name: values[:6] for name, values in methods.items()}
    six = compare_pairs(few, test="permutation")
    assert "cannot go below p = 0.09375; it takes at least 7" in six["a", "c"].verdict


@some
@given(st.lists(st.integers(0, 5), min_size=1, max_size=9), st.booleans())
def test_ranks_share_ties(scores: list[int], lower: bool) -> None:
    named = {f"m{k}": [float(score)] for k, score in enumerate(scores)}
    expected = stats.rankdata(scores if lower else [-score for score in scores])
    assert list(mean_ranks(named, lower_is_better=lower).values()) == expected.tolist()
    assert list(mean_ranks(named, lower_is_better=lower)) == list(named)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: compare_pair([1, 2], [1]), "the same seeds, got (2,) and (1,)"),
        (lambda: compare_pair([], []), "finite numbers for every seed, got []"),
        (lambda: compare_pair([1, nan], [1, 2]), "finite numbers for every seed, got [1.0, nan]"),
        (lambda: compare_pair([1], [1], test="z"), "test is 'z', expected t, permutation, welch"),  # type: ignore[arg-type]
        (lambda: compare_pairs({"a": [1], "b": [1]}, against="c"), "'c', expected one of a, b"),
        (lambda: holm([0.5, 1.5]), "between 0 and 1, got [0.5, 1.5]"),
        (lambda: holm([nan]), "between 0 and 1, got [nan]"),
        (lambda: mean_ranks({"a": [nan]}), "finite numbers, got {'a': [nan]}"),
        (lambda: seeds_needed(0), "between 0 and 1, got 0"),
        (lambda: seeds_needed(1), "between 0 and 1, got 1"),
    ],
)
def test_says_what_is_wrong_with_methods(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        call()


# One run


@some
@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_as_scipy_has_it(counts: tuple[int, int]) -> None:
    hits, n = counts
    for level in (0.8, 0.95):
        expected = stats.binomtest(hits, n).proportion_ci(level, method="wilson")
        low, high = wilson_interval([hits / n], [n], level=level)
        assert low[0] == pytest.approx(expected.low, abs=1e-9)
        assert high[0] == pytest.approx(expected.high, abs=1e-9)
    alone = mean_proportion_interval([hits / n], [n])
    assert alone == pytest.approx(stats.binomtest(hits, n).proportion_ci(method="wilson"), abs=1e-9)


@pytest.mark.parametrize("truth", [(0.5, 0.5), (0.9, 0.6), (0.99, 0.8, 0.3, 0.1, 0.7)])
@pytest.mark.parametrize("n", [50, 200, 1000])
def test_the_interval_of_a_mean_covers_it(truth: tuple[float, ...], n: int) -> None:
    rng = np.random.default_rng(0)
    sizes = [n + 10 * k for k in range(len(truth))]
    measured = rng.binomial(sizes, truth, size=(2000, len(truth))) / sizes
    ends = [mean_proportion_interval(scores, sizes) for scores in measured]
    covered = np.mean([low <= np.mean(truth) <= high for low, high in ends])
    assert 0.93 <= covered <= 0.975
