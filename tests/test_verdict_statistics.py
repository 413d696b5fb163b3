"""Bounds of paired differences: against brute force, and their errors over all outcomes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import binom, binomtest

from perdure.stats import (
    MAX_EXACT_PAIRS,
    accuracy_bounds,
    add_bounds,
    drop_bounds,
    exact_drop_p,
    examples_to_decide,
    holm,
    mcnemar_p,
    mean_accuracy_bounds,
    mean_drop_bounds,
    normal_quantile,
    tango_bound,
    tango_score,
)
from perdure.verdict import holm_rejections

ALPHA = 0.05
SLACK = 1e-6


def score_by_search(lost: int, gained: int, n: int, drop: float) -> float:
    """Return Tango's score with the restricted maximum of the likelihood found by search."""

    def unlikelihood(gaining: float) -> float:
        chances = np.array([gaining + drop, gaining, 1 - 2 * gaining - drop])
        counts = np.array([lost, gained, n - lost - gained])
        return float(-(counts * np.log(np.maximum(chances, 1e-300))).sum())

    low, high = max(0.0, -drop), (1 - drop) / 2
    found = minimize_scalar(
        unlikelihood, bounds=(low, high), method="bounded", options={"xatol": 1e-12}
    )
    variance = n * (2 * found.x + drop - drop**2)
    return float((lost - gained - n * drop) / np.sqrt(variance))


@pytest.mark.parametrize(
    ("lost", "gained", "n", "drop"),
    [(10, 4, 80, 0.02), (3, 9, 50, -0.1), (30, 30, 200, 0.05), (1, 0, 40, 0.03), (60, 5, 90, 0.4)],
)
def test_tangos_score_is_that_of_the_restricted_maximum(
    lost: int, gained: int, n: int, drop: float
) -> None:
    found = tango_score(np.array([float(lost)]), np.array([float(gained)]), n, drop)[0]
    assert found == pytest.approx(score_by_search(lost, gained, n, drop), abs=1e-4)


@pytest.mark.parametrize("n", [6, 12])
@pytest.mark.parametrize("alpha", [0.05, 0.01])
def test_exact_bounds_miss_at_most_as_often_as_they_may(n: int, alpha: float) -> None:
    """Over all outcomes, for many true probabilities: nothing is simulated."""
    outcomes = [(b, c) for b in range(n + 1) for c in range(n + 1 - b)]
    bounds = [drop_bounds(b, c, n, alpha=alpha) for b, c in outcomes]
    lost, gained = np.array(outcomes).T
    for losing in (0.001, 0.02, 0.1, 0.25, 0.5, 0.8):
        for gaining in (0.0, 0.01, 0.1, 0.19):
            among_others = binom(n - lost, gaining / (1 - losing))
            chances = binom(n, losing).pmf(lost) * among_others.pmf(gained)
            assert chances.sum() == pytest.approx(1)
            drop = losing - gaining
            above = sum(p for p, one in zip(chances, bounds, strict=True) if one.high < drop)
            below = sum(p for p, one in zip(chances, bounds, strict=True) if one.low > drop)
            assert above <= alpha + SLACK
            assert below <= alpha + SLACK


def test_without_discordant_pairs_the_bound_is_the_rule_of_three() -> None:
    for n in (30, 300, 3000):
        assert drop_bounds(0, 0, n).high == pytest.approx(1 - ALPHA ** (1 / n), rel=0.02)
        assert exact_drop_p(0, 0, n, 0.02) >= 0.98**n


@pytest.mark.parametrize(("n", "share", "drop"), [(400, 0.3, 0.02), (3000, 0.05, 0.02)])
@pytest.mark.parametrize("alpha", [0.05, 0.005])
def test_tangos_bounds_keep_their_error_with_many_pairs(
    n: int, share: float, drop: float, alpha: float
) -> None:
    losing, gaining = (share + drop) / 2, (share - drop) / 2
    lost = np.arange(n + 1)
    pairs = binom(n, share)
    z, errors = normal_quantile(1 - 2 * alpha), [0.0, 0.0]
    for count in range(MAX_EXACT_PAIRS + 1, int(n * share * 2)):
        among = lost[: count + 1]
        chances = pairs.pmf(count) * binom(count, losing / share).pmf(among)
        counts = among.astype(np.float64)
        score = tango_score(counts, count - counts, n, drop, skewness=True)
        errors[0] += chances[score < -z].sum()
        errors[1] += chances[score > z].sum()
    assert gaining > 0
    assert max(errors) <= 1.02 * alpha
    if n * share > 2 * MAX_EXACT_PAIRS:
        assert min(errors) >= 0.9 * alpha  # and does not give power away


def test_tangos_bound_inverts_the_score() -> None:
    bound = tango_bound(90, 60, 1000, ALPHA)
    score = tango_score(np.array([90.0]), np.array([60.0]), 1000, bound, skewness=True)[0]
    assert score == pytest.approx(-normal_quantile(1 - 2 * ALPHA), abs=1e-6)


def test_bounds_are_mirrored_and_grow_with_what_is_lost() -> None:
    for lost, gained, n in ((5, 2, 60), (40, 10, 300), (100, 70, 900)):
        one, other = drop_bounds(lost, gained, n), drop_bounds(gained, lost, n)
        assert (one.low, one.high) == (-other.high, -other.low)
        assert one.low < one.drop < one.high
        more = drop_bounds(lost + 1, gained, n)
        assert one.high < more.high
        assert one.low < more.low
        wider = drop_bounds(lost, gained, n, alpha=0.01)
        assert wider.low < one.low
        assert one.high < wider.high


def test_means_over_tasks_are_pooled_or_joined() -> None:
    assert mean_drop_bounds([(5, 2, 60)], [1.0])[:3] == drop_bounds(5, 2, 60)[:3]
    pooled = mean_drop_bounds([(5, 2, 60), (1, 0, 60)], [0.5, 0.5])
    assert pooled[:3] == drop_bounds(6, 2, 120)[:3]
    joined = mean_drop_bounds([(100, 70, 900), (90, 40, 500)], [0.5, 0.5])
    parts = [drop_bounds(100, 70, 900), drop_bounds(90, 40, 500)]
    half = 0.5 * np.hypot(parts[0].high - parts[0].drop, parts[1].high - parts[1].drop)
    assert joined.high - joined.drop == pytest.approx(half)


def test_tasks_that_differ_do_not_make_the_mean_miss_more_often() -> None:
    """A simulation with a fixed seed: three tasks of different sizes and drops."""
    rng = np.random.default_rng(5)
    sizes, losing, gaining = (40, 60, 60), (0.15, 0.05, 0.02), (0.0, 0.02, 0.02)
    truth = np.mean(np.subtract(losing, gaining))
    missed = [0, 0]
    for _ in range(300):
        counts = []
        for n, b, c in zip(sizes, losing, gaining, strict=True):
            lost, gained, _ = rng.multinomial(n, [b, c, 1 - b - c])
            counts.append((int(lost), int(gained), n))
        bounds = mean_drop_bounds(counts, [1 / 3] * 3)
        missed[0] += bool(bounds.high < truth)
        missed[1] += bool(bounds.low > truth)
    assert max(missed) <= 300 * (ALPHA + 3 * np.sqrt(ALPHA * (1 - ALPHA) / 300))


def test_accuracies_of_few_answers_are_exact() -> None:
    n = 25
    bounds = [accuracy_bounds(k, n) for k in range(n + 1)]
    for p in np.linspace(0.01, 0.99, 33):
        chances = binom(n, p).pmf(np.arange(n + 1))
        assert sum(chances[k] for k, one in enumerate(bounds) if one.low > p) <= ALPHA
        assert sum(chances[k] for k, one in enumerate(bounds) if one.high < p) <= ALPHA
    many = mean_accuracy_bounds([(700, 1000), (900, 1000)], [0.5, 0.5])
    parts = [accuracy_bounds(700, 1000), accuracy_bounds(900, 1000)]
    assert many == add_bounds(parts, [0.5, 0.5])


def test_mcnemar_is_the_binomial_test() -> None:
    for lost, gained in ((0, 0), (1, 0), (9, 2), (40, 41), (300, 220)):
        pairs = lost + gained
        expected = binomtest(lost, pairs).pvalue if pairs else 1.0
        assert mcnemar_p(lost, gained) == pytest.approx(expected)


def test_that_many_examples_decide_with_the_stated_probability() -> None:
    """Simulated with the observed rates: about four of five times."""
    n, lost, gained, limit = 400, 24, 20, 0.05
    bounds = drop_bounds(lost, gained, n)
    needed = examples_to_decide(n, bounds.high - bounds.drop, limit - bounds.drop)
    assert needed is not None
    rng = np.random.default_rng(1)
    draws = rng.multinomial(needed, [lost / n, gained / n, 1 - (lost + gained) / n], size=400)
    z = -normal_quantile(1 - 2 * ALPHA)
    more_lost, more_gained = draws[:, :2].T.astype(np.float64)
    score = tango_score(more_lost, more_gained, needed, limit, skewness=True)
    assert 0.7 < np.mean(score <= z) < 0.92


def test_rejections_are_those_of_holms_p_values() -> None:
    rng = np.random.default_rng(2)
    for _ in range(200):
        p_values = rng.random(int(rng.integers(1, 12))) ** 3
        tests = [lambda error, p=p: bool(p <= error) for p in p_values]
        expected = set(np.flatnonzero(holm(p_values) <= ALPHA).tolist())
        assert holm_rejections(tests, ALPHA) == expected
