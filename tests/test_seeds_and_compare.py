"""Several seeds and several methods, against SciPy, enumeration and hand calculation."""

import re
import statistics
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from perdure.metrics import (
    IntervalMethod,
    Undefined,
    bca_interval,
    compare_pair,
    compare_pairs,
    holm,
    mean_of_proportions,
    over_seeds,
    ranks,
    seeds_needed,
    t_interval,
    wilson,
)

from .references import Array, few, inf, nan, some

seeds = st.lists(st.integers(0, 1000).map(lambda n: n / 1000), min_size=2, max_size=12)


def sign_flips(d: list[float]) -> float:
    """The share of all sign flips whose sum is at least as far from 0 as the one observed."""
    observed = abs(sum(d))
    patterns = product((-1, 1), repeat=len(d))
    sums = [abs(sum(s * x for s, x in zip(signs, d, strict=True))) for signs in patterns]
    return sum(total >= observed - 1e-9 for total in sums) / len(sums)


def doubled_ranks(d: list[float]) -> list[int]:
    """Twice the rank of each difference by size, ties sharing theirs."""
    below = [sum(abs(y) < abs(x) for y in d) for x in d]
    same = [sum(abs(y) == abs(x) for y in d) for x in d]
    return [2 * less + tied + 1 for less, tied in zip(below, same, strict=True)]


def signed_rank(d: list[float]) -> float:
    """Wilcoxon's exact two-sided p-value by counting sign patterns, zeros dropped."""
    d = [x for x in d if x]
    doubled = doubled_ranks(d)
    ways = {0: 1}
    for rank in doubled:
        more = dict(ways)
        for total, count in ways.items():
            more[total + rank] = more.get(total + rank, 0) + count
        ways = more
    middle = sum(doubled) / 2
    off = abs(sum(rank for rank, x in zip(doubled, d, strict=True) if x > 0) - middle)
    return sum(n for total, n in ways.items() if abs(total - middle) >= off) / sum(ways.values())


def signed_rank_normal(d: list[float]) -> float:
    """The same by the normal approximation: under the null each rank has a random sign."""
    d = [x for x in d if x]
    ranks = [rank / 2 for rank in doubled_ranks(d)]
    total = sum(rank if x > 0 else -rank for rank, x in zip(ranks, d, strict=True))
    z = abs(total) / sum(rank**2 for rank in ranks) ** 0.5
    return 2 * (1 - statistics.NormalDist().cdf(z))


# Several seeds


@some
@given(seeds, st.sampled_from([0.8, 0.95, 0.99]))
def test_student_interval(values: list[float], level: float) -> None:
    found = over_seeds(values, level=level)
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
    found = over_seeds(x, method="bca", level=level)
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
    one = over_seeds([0.5])
    assert (one.mean, one.seeds) == (0.5, 1)
    assert np.isnan([one.sd, one.low, one.high]).all()
    methods: list[IntervalMethod] = ["t", "bca"]
    for method in methods:
        same = over_seeds([0.3, 0.3, 0.3], method=method)
        assert same.mean == pytest.approx(0.3)
        assert same.sd == pytest.approx(0, abs=1e-12)
        assert (same.low, same.high) == pytest.approx((0.3, 0.3))
    low, high = bca_interval([0.2, 0.4])
    assert 0.2 <= low <= high <= 0.4


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: over_seeds([0.5, nan]), "must be finite numbers, got [0.5, nan]"),
        (lambda: over_seeds([0.5, inf]), "must be finite numbers"),
        (lambda: over_seeds([[0.5, 0.6]]), "must be finite numbers, got [[0.5, 0.6]]"),
        (lambda: over_seeds([]), "at least 1 seeds, got 0"),
        (lambda: t_interval([0.5]), "at least 2 seeds, got 1"),
        (lambda: bca_interval([0.5]), "at least 2 seeds, got 1"),
        (lambda: t_interval([0.5, 0.6], level=95), "between 0 and 1, got 95"),
        (lambda: bca_interval([0.5, 0.6], level=1), "between 0 and 1, got 1"),
    ],
)
def test_says_what_is_wrong_with_seeds(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        call()
    assert issubclass(Undefined, ValueError)


# Two methods


@few
@given(st.lists(st.integers(-50, 50).map(lambda n: n / 100), min_size=1, max_size=8))
def test_exact_permutation_by_enumeration(d: list[float]) -> None:
    found = compare_pair(d, [0.0] * len(d))
    assert found.p == pytest.approx(sign_flips(d))
    assert found.difference == pytest.approx(sum(d) / len(d))
    assert found.test == "exact permutation"
    assert found.distinguishable == (found.p < 0.05)


@pytest.mark.parametrize("n", [2, 5, 9, 12])
@pytest.mark.parametrize("shift", [0.0, 0.1, 0.5])
def test_exact_permutation_as_scipy_has_it(n: int, shift: float) -> None:
    rng = np.random.default_rng(n)
    a, b = rng.normal(shift, 0.2, n), rng.normal(0, 0.2, n)

    def difference(x: Array, y: Array, axis: int = -1) -> Array:
        return np.asarray(np.mean(x - y, axis=axis))

    exact = stats.permutation_test(
        (a, b), difference, permutation_type="samples", n_resamples=2**n, vectorized=True
    )
    found = compare_pair(a, b)
    assert found.p == pytest.approx(exact.pvalue)
    assert found.difference == pytest.approx(exact.statistic)
    assert compare_pair(b, a).p == pytest.approx(found.p)


@pytest.mark.parametrize("n", [13, 14, 20, 30])
@pytest.mark.parametrize("shift", [0.0, 0.1, 0.3])
def test_signed_ranks_beyond_twelve_seeds(n: int, shift: float) -> None:
    d = np.random.default_rng(n).normal(shift, 0.2, n)
    found = compare_pair(d, np.zeros(n))
    assert found.p == pytest.approx(signed_rank(d.tolist()))
    assert found.test == "Wilcoxon signed-rank"


@pytest.mark.parametrize(("n", "shift"), [(13, 1), (14, 0), (14, 1), (14, 3), (25, 0), (25, 1)])
def test_signed_ranks_with_ties_and_zeros(n: int, shift: int) -> None:
    d = np.random.default_rng(n).integers(-3, 4, n) + shift
    assert len(np.unique(np.abs(d))) < n
    found, values = compare_pair(d, np.zeros(n)), d.astype(float).tolist()
    if np.count_nonzero(d) <= 12:  # seeds that agree do not count
        allowed = [sign_flips([x for x in values if x])]
        assert found.test == "exact permutation"
    else:
        allowed = [signed_rank(values), signed_rank_normal(values)]
        assert found.test == "Wilcoxon signed-rank"
    assert min(abs(found.p - right) for right in allowed) < 1e-6


@pytest.mark.parametrize("n", [5, 12, 13, 14, 30])
def test_equal_methods_are_not_distinguishable(n: int) -> None:
    found = compare_pair([0.5] * n, [0.5] * n)
    assert (found.p, found.difference, found.distinguishable) == (1.0, 0.0, False)


@pytest.mark.parametrize("n", [14, 20, 60])
def test_seeds_that_agree_are_no_evidence(n: int) -> None:
    """Five seeds that differ cannot go below .0625, whatever number of others do not."""
    d = [0.0] * (n - 5) + [0.1, 0.2, 0.3, 0.4, 0.5]
    found = compare_pair(d, [0.0] * n)
    assert found.p == pytest.approx(0.0625)
    assert not found.distinguishable
    assert f"5 differing seeds of {n} cannot go below p = 0.0625" in found.verdict


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_few_seeds_cannot_tell(n: int) -> None:
    found = compare_pair([0.9] * n, [0.1] * n)
    assert found.p == 2 / 2**n
    assert not found.distinguishable
    floor = {2: "0.5", 3: "0.25", 4: "0.125", 5: "0.0625"}[n]
    assert found.verdict == (
        f"not distinguishable: {n} seeds cannot go below p = {floor}; it takes at least 6"
    )


def test_six_seeds_can() -> None:
    found = compare_pair([0.9, 0.8, 0.9, 0.7, 0.9, 0.8], [0.1] * 6)
    assert found.p == 0.03125
    assert found.distinguishable
    assert found.verdict == "distinguishable (p = 0.03125)"
    mixed = compare_pair([0.9, 0.1, 0.9, 0.1, 0.9, 0.1], [0.5] * 6)
    assert mixed.verdict == "not distinguishable (p = 1)"
    strict = compare_pair([0.9] * 6, [0.1] * 6, alpha=0.01)
    assert strict.verdict.endswith("6 seeds cannot go below p = 0.03125; it takes at least 8")


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


def test_every_pair_is_corrected() -> None:
    rng = np.random.default_rng(1)
    methods = {
        name: rng.normal(mean, 0.1, 8) for name, mean in zip("abc", (0, 0.2, 1), strict=True)
    }
    found = compare_pairs(methods)
    assert list(found) == [("a", "b"), ("a", "c"), ("b", "c")]
    raw = {pair: compare_pair(methods[pair[0]], methods[pair[1]]).p for pair in found}
    worst, total = 0.0, len(raw)
    for k, pair in enumerate(sorted(raw, key=lambda pair: raw[pair])):
        worst = max(worst, min(1.0, (total - k) * raw[pair]))
        assert found[pair].p == pytest.approx(worst)
        assert found[pair].distinguishable == (worst < 0.05)
    six = compare_pairs({name: values[:6] for name, values in methods.items()})
    assert "cannot go below p = 0.09375; it takes at least 7" in six["a", "c"].verdict


@some
@given(st.lists(st.integers(0, 5), min_size=1, max_size=9), st.booleans())
def test_ranks_share_ties(scores: list[int], lower: bool) -> None:
    named = {f"m{k}": float(score) for k, score in enumerate(scores)}
    expected = stats.rankdata(scores if lower else [-score for score in scores])
    assert list(ranks(named, lower_is_better=lower).values()) == expected.tolist()
    assert list(ranks(named, lower_is_better=lower)) == list(named)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: compare_pair([1, 2], [1]), "the same seeds, got (2,) and (1,)"),
        (lambda: compare_pair([], []), "the same seeds"),
        (lambda: compare_pair([1, nan], [1, 2]), "finite numbers for every seed"),
        (lambda: holm([0.5, 1.5]), "between 0 and 1, got [0.5, 1.5]"),
        (lambda: holm([nan]), "between 0 and 1, got [nan]"),
        (lambda: ranks({"a": nan}), "finite numbers, got {'a': nan}"),
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
        low, high = wilson([hits / n], [n], level=level)
        assert low[0] == pytest.approx(expected.low, abs=1e-9)
        assert high[0] == pytest.approx(expected.high, abs=1e-9)
    alone = mean_of_proportions([hits / n], [n])
    assert alone == pytest.approx(stats.binomtest(hits, n).proportion_ci(method="wilson"), abs=1e-9)


@pytest.mark.parametrize("truth", [(0.5, 0.5), (0.9, 0.6), (0.99, 0.8, 0.3, 0.1, 0.7)])
@pytest.mark.parametrize("n", [50, 200, 1000])
def test_the_interval_of_a_mean_covers_it(truth: tuple[float, ...], n: int) -> None:
    rng = np.random.default_rng(0)
    sizes = [n + 10 * k for k in range(len(truth))]
    measured = rng.binomial(sizes, truth, size=(2000, len(truth))) / sizes
    ends = [mean_of_proportions(scores, sizes) for scores in measured]
    covered = np.mean([low <= np.mean(truth) <= high for low, high in ends])
    assert 0.93 <= covered <= 0.975
