"""Tests of two methods and their intervals: against SciPy, enumeration and textbooks."""

from __future__ import annotations

import math
from itertools import combinations, product
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats

from perdure.stats import (
    effect_of_differences,
    effect_of_samples,
    mann_whitney,
    min_attainable_p,
    paired_t,
    seeds_needed,
    sign_flip_test,
    signed_rank_test,
    two_sample_permutation,
    welch_t,
)

from .references import few, inf, some

if TYPE_CHECKING:
    from .references import Array

hundredths = st.integers(-50, 50).map(lambda n: n / 100)
values = st.lists(st.integers(0, 1000).map(lambda n: n / 1000), min_size=2, max_size=9)

# Student (1908): additional hours of sleep gained by two drugs in ten patients.
SLEEP = (
    [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0],
    [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4],
)
# Hollander & Wolfe (1973), example 3.1: depression scale before and after; and 4.1: permeability.
DEPRESSION = (
    [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30],
    [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29],
)
PERMEABILITY = (
    [0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46],
    [1.15, 0.88, 0.90, 0.74, 1.21],
)


def differences(pair: tuple[list[float], list[float]]) -> Array:
    first, second = np.array(pair)
    return np.asarray(first - second)


# Student and Welch


def test_sleep_as_student_and_textbooks_have_it() -> None:
    found = paired_t(differences(SLEEP))
    assert found.difference == pytest.approx(-1.58)
    assert found.p == pytest.approx(0.002833, abs=1e-6)
    assert (found.low, found.high) == pytest.approx((-2.4598858, -0.7001142))
    unpaired = welch_t(*SLEEP)
    assert unpaired.p == pytest.approx(0.07939, abs=1e-5)
    assert (unpaired.low, unpaired.high) == pytest.approx((-3.3654832, 0.2054832))


@some
@given(values, st.sampled_from([0.5, 0.9, 0.95]))
def test_paired_t_as_scipy_has_it(d: list[float], level: float) -> None:
    if max(d) - min(d) < 1e-6:
        return
    found = paired_t(d, level=level)
    expected = stats.ttest_1samp(d, 0)
    assert found.p == pytest.approx(expected.pvalue)
    ends = expected.confidence_interval(level)
    assert (found.low, found.high) == pytest.approx((ends.low, ends.high), abs=1e-9)


@some
@given(values, values, st.sampled_from([0.5, 0.9, 0.95]))
def test_welch_as_scipy_has_it(a: list[float], b: list[float], level: float) -> None:
    if max(a) - min(a) < 1e-6 or max(b) - min(b) < 1e-6:
        return
    found = welch_t(a, b, level=level)
    expected = stats.ttest_ind(a, b, equal_var=False)
    assert found.p == pytest.approx(expected.pvalue)
    ends = expected.confidence_interval(level)
    assert (found.low, found.high) == pytest.approx((ends.low, ends.high), abs=1e-9)


def test_a_sample_without_spread_lends_none() -> None:
    found = welch_t([0.5, 0.5, 0.5], [0.1, 0.2, 0.3, 0.5])
    alone = stats.ttest_1samp([0.1, 0.2, 0.3, 0.5], 0.5)
    assert found.p == pytest.approx(alone.pvalue)


# Permutations


def sign_flips(d: list[float]) -> float:
    """The share of all sign flips whose sum is at least as far from 0 as the one observed."""
    observed = abs(sum(d))
    patterns = product((-1, 1), repeat=len(d))
    sums = [abs(sum(s * x for s, x in zip(signs, d, strict=True))) for signs in patterns]
    return sum(total >= observed - 1e-9 for total in sums) / len(sums)


def relabellings(a: list[float], b: list[float]) -> float:
    """The share of all choices of len(a) values whose means differ at least as much."""
    pooled, observed = [*a, *b], abs(float(np.mean(a) - np.mean(b)))
    distances = []
    for chosen in combinations(range(len(pooled)), len(a)):
        first = [pooled[k] for k in chosen]
        second = [x for k, x in enumerate(pooled) if k not in chosen]
        distances.append(abs(float(np.mean(first) - np.mean(second))))
    return sum(each >= observed - 1e-9 for each in distances) / len(distances)


@few
@given(st.lists(hundredths, min_size=1, max_size=8))
def test_sign_flips_by_enumeration(d: list[float]) -> None:
    found = sign_flip_test(d)
    assert found.p == pytest.approx(sign_flips(d))
    assert found.difference == pytest.approx(sum(d) / len(d))


@few
@example([0.05, 0.05], [0.05, 0.05, 0.05])  # means that differ by rounding only
@given(st.lists(hundredths, min_size=1, max_size=5), st.lists(hundredths, min_size=1, max_size=4))
def test_relabellings_by_enumeration(a: list[float], b: list[float]) -> None:
    assert two_sample_permutation(a, b).p == pytest.approx(relabellings(a, b))
    assert two_sample_permutation(b, a).p == pytest.approx(relabellings(a, b))


@pytest.mark.parametrize("n", [2, 5, 9, 12])
@pytest.mark.parametrize("shift", [0.0, 0.1, 0.5])
def test_permutations_as_scipy_has_them(n: int, shift: float) -> None:
    rng = np.random.default_rng(n)
    a, b = rng.normal(shift, 0.2, n), rng.normal(0, 0.2, n)

    def difference(x: Array, y: Array, axis: int = -1) -> Array:
        return np.asarray(np.mean(x, axis=axis) - np.mean(y, axis=axis))

    exact = stats.permutation_test(
        (a, b), difference, permutation_type="samples", n_resamples=2**n, vectorized=True
    )
    assert sign_flip_test(a - b).p == pytest.approx(exact.pvalue)
    assert sign_flip_test(b - a).p == pytest.approx(exact.pvalue)
    b = b[: n // 2 + 1]

    def distance(x: Array, y: Array, axis: int = -1) -> Array:
        return np.abs(difference(x, y, axis))

    # SciPy doubles the smaller tail of unequal samples; a distance has one tail.
    exact = stats.permutation_test(
        (a, b), distance, n_resamples=10**6, vectorized=True, alternative="greater"
    )
    assert two_sample_permutation(a, b).p == pytest.approx(exact.pvalue)


@pytest.mark.parametrize("shift", [0.0, 0.12])
def test_many_seeds_are_permuted_at_random_and_the_same_way(shift: float) -> None:
    """Twenty-five seeds: 20,000 arrangements, close to what all of them say of normal values."""
    rng = np.random.default_rng(1)
    a, b = rng.normal(shift, 0.2, 25), rng.normal(0, 0.2, 25)
    for found, near in (
        (sign_flip_test(a - b), paired_t(a - b)),
        (two_sample_permutation(a, b), welch_t(a, b)),
    ):
        assert found.p == pytest.approx(near.p, abs=0.02)
        assert (found.low, found.high) == pytest.approx((near.low, near.high), abs=0.02)
    assert sign_flip_test(a - b) == sign_flip_test(a - b)
    assert sign_flip_test(np.full(25, 0.5)).p == 1 / 20_000  # the one observed always counts


# An interval holds the differences that its test does not reject, and no others.


@few
@given(st.lists(hundredths, min_size=2, max_size=8), st.sampled_from([0.5, 0.8, 0.95]))
def test_the_sign_flip_interval_inverts_the_test(d: list[float], level: float) -> None:
    found = sign_flip_test(d, level=level)
    for end, out in ((found.low, -1), (found.high, 1)):
        if math.isinf(end):
            assert 2.0 ** (1 - len(d)) >= 1 - level - 1e-9  # nothing can be excluded
            assert end == out * inf
            continue
        assert sign_flips([x - end for x in d]) >= 1 - level - 1e-9
        assert sign_flips([x - end - out * 1e-6 for x in d]) < 1 - level


@few
@given(
    st.lists(hundredths, min_size=1, max_size=5),
    st.lists(hundredths, min_size=1, max_size=4),
    st.sampled_from([0.5, 0.8, 0.95]),
)
def test_the_two_sample_interval_inverts_the_test(
    a: list[float], b: list[float], level: float
) -> None:
    found = two_sample_permutation(a, b, level=level)
    for end, out in ((found.low, -1), (found.high, 1)):
        if math.isinf(end):
            assert relabellings([x - 1000 * out for x in a], b) >= 1 - level - 1e-9
            continue
        assert relabellings([x - end for x in a], b) >= 1 - level - 1e-9
        assert relabellings([x - end - out * 1e-6 for x in a], b) < 1 - level


@few
@given(
    st.lists(st.floats(-1, 1), min_size=5, max_size=9, unique=True),
    st.sampled_from([0.5, 0.8, 0.95]),
)
def test_the_signed_rank_interval_inverts_the_test(d: list[float], level: float) -> None:
    found = signed_rank_test(d, level=level)
    if math.isinf(found.low):
        assert 2.0 ** (1 - len(d)) >= 1 - level
        return
    for end, out in ((found.low, -1), (found.high, 1)):
        for shift, accepted in ((-out * 1e-7, True), (out * 1e-7, False)):
            moved = np.array(d) - end - shift
            if len(np.unique(np.abs(moved).round(9))) == len(d) and (moved != 0).all():
                p = float(stats.wilcoxon(moved, method="exact").pvalue)
                assert (p >= 1 - level) == accepted


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("n", "m"), [(5, 5), (4, 7), (3, 3)])
def test_the_mann_whitney_interval_inverts_the_test(seed: int, n: int, m: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.normal(0, 1, n), rng.normal(0, 1, m)
    for level in (0.8, 0.95):
        found = mann_whitney(a, b, level=level)
        if math.isinf(found.low):
            assert 2 / math.comb(n + m, n) >= 1 - level
            continue
        for end, out in ((found.low, -1), (found.high, 1)):
            inside = stats.mannwhitneyu(a - end + out * 1e-7, b, method="exact").pvalue
            outside = stats.mannwhitneyu(a - end - out * 1e-7, b, method="exact").pvalue
            assert inside >= 1 - level > outside


# Ranks


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


def test_textbook_ranks() -> None:
    found = signed_rank_test(differences(DEPRESSION))
    assert found.p == pytest.approx(0.03906, abs=1e-5)
    assert found.difference == pytest.approx(0.46)
    two = mann_whitney(*PERMEABILITY)
    assert two.p == pytest.approx(0.2544, abs=1e-4)
    assert two.difference == pytest.approx(0.305)


@pytest.mark.parametrize("n", [2, 5, 13, 20, 30, 60])
@pytest.mark.parametrize("shift", [0.0, 0.1, 0.3])
def test_signed_ranks_as_scipy_has_them(n: int, shift: float) -> None:
    d = np.random.default_rng(n).normal(shift, 0.2, n)
    found = signed_rank_test(d)
    assert found.p == pytest.approx(stats.wilcoxon(d, method="exact").pvalue)
    walsh = [(d[i] + d[j]) / 2 for i in range(n) for j in range(i, n)]
    assert found.difference == pytest.approx(np.median(walsh))


@pytest.mark.parametrize(("n", "shift"), [(6, 1), (13, 1), (14, 0), (14, 3), (25, 0), (25, 1)])
def test_signed_ranks_with_ties_and_zeros(n: int, shift: int) -> None:
    d = (np.random.default_rng(n).integers(-3, 4, n) + shift) / 10
    assert len(np.unique(np.abs(d))) < n
    assert signed_rank_test(d).p == pytest.approx(signed_rank(np.round(d, 9).tolist()))
    # What is left of rounding is no order: .3 - .2 and .2 - .1 are tied.
    noise = np.random.default_rng(n).normal(0, 1e-16, n) * (d != 0)
    assert signed_rank_test(d + noise).p == signed_rank_test(d).p


@pytest.mark.parametrize(("n", "m"), [(2, 2), (5, 5), (3, 8), (10, 10), (25, 20)])
@pytest.mark.parametrize("shift", [0.0, 0.2])
def test_mann_whitney_as_scipy_has_it(n: int, m: int, shift: float) -> None:
    rng = np.random.default_rng(n + m)
    a, b = rng.normal(shift, 0.2, n), rng.normal(0, 0.2, m)
    found = mann_whitney(a, b)
    assert found.p == pytest.approx(stats.mannwhitneyu(a, b, method="exact").pvalue)
    assert found.difference == pytest.approx(np.median(a[:, None] - b))


@few
@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=5),
    st.lists(st.integers(0, 3), min_size=1, max_size=4),
)
def test_mann_whitney_with_ties_by_enumeration(a: list[int], b: list[int]) -> None:
    ranks = stats.rankdata([*a, *b])
    sums = [sum(ranks[k] for k in each) for each in combinations(range(len(ranks)), len(a))]
    mine = sum(ranks[: len(a)])
    tails = [np.mean(np.array(sums) <= mine), np.mean(np.array(sums) >= mine)]
    assert mann_whitney(a, b).p == pytest.approx(min(1, 2 * min(tails)))


def test_many_values_are_as_good_as_normal() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(0.1, 1, 120), rng.normal(0, 1, 150)
    expected = stats.mannwhitneyu(a, b, method="asymptotic").pvalue
    assert mann_whitney(a, b).p == pytest.approx(expected, abs=1e-3)
    d = a - rng.normal(0, 1, 120)
    assert signed_rank_test(d).p == pytest.approx(
        stats.wilcoxon(d, method="exact").pvalue, abs=1e-3
    )
    assert signed_rank_test(d).low < 0.1 < signed_rank_test(d).high


# Effects


def test_hedges_correction_is_that_of_the_tables() -> None:
    """Hedges & Olkin (1985), table 2: the exact correction for few degrees of freedom."""
    for degrees, correction in ((2, 0.5642), (4, 0.7979), (8, 0.9027), (18, 0.9576)):
        d = np.random.default_rng(degrees).normal(1, 1, degrees + 1)
        expected = correction * d.mean() / d.std(ddof=1)
        assert effect_of_differences(d) == pytest.approx(expected, rel=1e-4)
        half = degrees // 2 + 1
        a, b = np.random.default_rng(degrees).normal(1, 1, (2, half))
        pooled = ((a.var(ddof=1) + b.var(ddof=1)) / 2) ** 0.5
        expected = correction * (a.mean() - b.mean()) / pooled
        assert effect_of_samples(a, b) == pytest.approx(expected, rel=1e-4)


def test_effects_are_unbiased() -> None:
    rng = np.random.default_rng(0)
    five = rng.normal(0.8, 1, (20_000, 5))
    assert np.mean([effect_of_differences(d) for d in five]) == pytest.approx(0.8, abs=0.02)


def test_effects_without_a_spread() -> None:
    assert effect_of_differences([0.1, 0.1, 0.1]) == inf
    assert effect_of_samples([0.1, 0.1], [0.5, 0.5]) == -inf
    assert effect_of_samples([0.1 + 0.2] * 3, [0.3] * 3) == 0
    assert math.isnan(effect_of_differences([0.1, 0.2]))
    assert math.isnan(effect_of_samples([0.1], [0.2, 0.3]))


# Floors


@pytest.mark.parametrize(("n", "m"), [(2, 2), (3, 3), (2, 5), (4, 4)])
def test_no_data_go_below_the_smallest_p(n: int, m: int) -> None:
    a, b = np.linspace(2, 3, n), np.linspace(0, 0.9, m) ** 3
    for test, compute in (("permutation", two_sample_permutation), ("wilcoxon", mann_whitney)):
        assert compute(a, b).p == pytest.approx(min_attainable_p(n, m, test=test, unpaired=True))
    for test, flip in (("permutation", sign_flip_test), ("wilcoxon", signed_rank_test)):
        assert flip(a).p == pytest.approx(min_attainable_p(n, test=test))
    for test in ("t", "welch"):
        assert min_attainable_p(n, test=test) == 0
        assert seeds_needed(1e-9, test=test) == 2
