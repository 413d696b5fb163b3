"""Several methods by one metric: against SciPy, enumeration and hand calculation."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from perdure.metrics import (
    ACCURACY,
    METRICS,
    ScoreScale,
    SummaryOptions,
    better_direction,
    compare_methods,
    summary,
)
from perdure.stats import PairTestName, compare_pairs, holm, min_attainable_p

from .references import few, some

LOSS = ScoreScale(0, 9, lower_is_better=True)
values = st.integers(0, 20).map(lambda n: n / 20)


@st.composite
def methods(draw: st.DrawFn) -> dict[str, dict[int, float]]:
    """Draw two to four methods on the same two to nine seeds, ties among them."""
    seeds = draw(st.integers(2, 9))
    one = st.lists(values, min_size=seeds, max_size=seeds)
    every = draw(st.lists(one, min_size=2, max_size=4))
    return {f"m{k}": dict(enumerate(each)) for k, each in enumerate(every)}


@some
@given(methods(), st.sampled_from(["acc", "forgetting.learned"]))
def test_means_ranks_and_letters(given_: dict[str, dict[int, float]], id_: str) -> None:
    found = compare_methods(id_, given_)  # type: ignore[arg-type]
    lower = id_ == "forgetting.learned"
    table = np.array([list(mine.values()) for mine in given_.values()])
    signed = table if lower else -table
    expected = stats.rankdata(signed, axis=0).mean(axis=1)
    assert list(found.ranks.values()) == pytest.approx(expected.tolist())
    for name, mine in given_.items():
        each = list(mine.values())
        assert found.means[name].mean == pytest.approx(np.mean(each))
        assert found.means[name].sd == pytest.approx(np.std(each, ddof=1))
    order = [found.means[name].mean for name in found.best_first]
    assert order == sorted(order, reverse=not lower)
    for pair in combinations(given_, 2):
        share = bool(set(found.letters[pair[0]]) & set(found.letters[pair[1]]))
        assert share is not found.pairs[pair].distinguishable
    assert "a" in found.letters[found.best_first[0]]


def test_seeds_that_not_all_have_count_in_the_mean_only() -> None:
    er, naive = {0: 0.5, 1: 0.7, 9: 0.0}, {7: 1.0, 1: 0.6, 0: 0.6}
    found = compare_methods("acc", {"er": er, "naive": naive})  # type: ignore[dict-item]
    assert found.seeds == (0, 1)
    assert found.means["er"].mean == pytest.approx(0.4)
    assert found.ranks == {"er": 1.5, "naive": 1.5}
    assert found.pairs["er", "naive"].difference == pytest.approx(0)
    with pytest.raises(ValueError, match="in common: er, naive"):
        compare_methods("acc", {"er": {0: 0.5}, "naive": {1: 0.5}})


def test_direction_is_the_metrics_and_the_scores() -> None:
    both: dict[str, dict[int | str, float]] = {"low": {0: 0.1}, "high": {0: 0.9}}
    assert compare_methods("acc", both).best_first == ["high", "low"]
    assert compare_methods("acc", both, scale=LOSS).ranks == {"low": 1.0, "high": 2.0}
    assert compare_methods("forgetting.learned", both).best_first == ["low", "high"]
    assert compare_methods("bwt", both, scale=LOSS).best_first == ["high", "low"]  # a gain
    several: dict[str, dict[int | str, float]] = {
        name: {seed: level + seed / 100 for seed in range(7)}
        for name, level in (("low", 0.1), ("high", 0.8))
    }
    assert compare_methods("acc", several).letters == {"high": "a", "low": "b"}
    assert compare_methods("forgetting.learned", several).letters == {"low": "a", "high": "b"}
    for id_, metric in METRICS.items():
        assert better_direction(id_, ACCURACY) == metric.better


def test_rounding_is_no_difference_in_ranks() -> None:
    found = compare_methods("acc", {"a": {0: 0.1 + 0.2}, "b": {0: 0.3}})
    assert found.ranks == {"a": 1.5, "b": 1.5}


@some
@given(methods())
def test_no_pair_goes_below_what_it_is_said_not_to_go_below(
    given_: dict[str, dict[int, float]],
) -> None:
    plain = {name: list(mine.values()) for name, mine in given_.items()}
    options: list[tuple[PairTestName, bool]] = [
        ("permutation", False), ("wilcoxon", False), ("permutation", True), ("wilcoxon", True)
    ]  # fmt: skip
    for test, unpaired in options:
        for pair in compare_pairs(plain, test=test, unpaired=unpaired).values():
            assert pair.p is not None
            if "cannot go below p = " in pair.verdict:
                said = float(pair.verdict.split("cannot go below p = ")[1].split(";")[0])
                assert 0.05 <= said <= pair.p * 1.001, pair
    for pair in compare_pairs(plain).values():
        assert "cannot go below" not in pair.verdict  # a t-test has no floor


def test_what_a_pair_can_reach_depends_on_the_others() -> None:
    # Two clear pairs of nine seeds; in the third only four seeds differ: 2 / 16 at best, and
    # Holm multiplies the largest of three p-values by one.
    level = np.arange(9) / 100
    near = np.where(np.arange(9) < 4, level + 0.001, level)
    found = compare_pairs({"a": level, "b": near, "c": level + 0.5}, test="permutation")
    assert found["a", "b"].p == pytest.approx(0.125)
    assert "4 differing seeds of 9 cannot go below p = 0.125;" in found["a", "b"].verdict
    assert found["a", "c"].p == pytest.approx(3 * 2 / 2**9)


@pytest.mark.parametrize("seeds", [1, 2, 5, 9])
@pytest.mark.parametrize("comparisons", [1, 3, 10])
def test_the_least_p_is_that_of_the_clearest_differences(seeds: int, comparisons: int) -> None:
    # All seeds agree: of all sign patterns only this one and its opposite are as far from 0.
    patterns = list(product((-1, 1), repeat=seeds))
    one = sum(abs(sum(signs)) == seeds for signs in patterns) / len(patterns)
    assert min_attainable_p(seeds, comparisons=comparisons) == min(1.0, comparisons * one)
    assert min_attainable_p(seeds, comparisons=comparisons) == holm([one] * comparisons)[0]


@few
@given(st.sets(st.sampled_from(["acc", "bwt", "raa", "fwt.gem", "clscore", "ms", "wf10"])))
def test_only_some_ids_are_the_same_numbers(ids: set[str]) -> None:
    matrix = [[0.9, 0.1, 0.2], [0.6, 0.8, 0.3], [0.5, 0.7, 0.4]]
    every = summary(matrix)
    found = summary(matrix, options=SummaryOptions(only=frozenset(ids)))
    assert found.metrics == {id_: v for id_, v in every.metrics.items() if id_ in ids}
    assert found.undefined == {id_: v for id_, v in every.undefined.items() if id_ in ids}
    assert not found.intervals
    assert not found.bias
