"""The tests that compare two methods: which there are, what they assume and what they can tell."""

from __future__ import annotations

from math import comb
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from .permutation_tests import sign_flip_test, two_sample_permutation
from .rank_tests import mann_whitney, signed_rank_test
from .t_tests import effect_of_differences, effect_of_samples, paired_t, welch_t

if TYPE_CHECKING:
    from collections.abc import Callable

    from .t_tests import DifferenceTest

__all__ = ["PairTest", "PairTestName", "find_pair_test", "min_attainable_p", "seeds_needed"]

PairTestName = Literal["t", "permutation", "welch", "wilcoxon"]


class PairTest(NamedTuple):
    """A two-sided test of two methods.

    `compute` takes differences by seed where `paired`, else both samples, of `fewest` seeds or
    more. `smallest` returns the smallest p-value that so many seeds can have, 0 without a floor.
    """

    name: str
    compute: Callable[..., DifferenceTest]
    fewest: int
    smallest: Callable[[int, int], float]
    assumes: str
    estimate: str
    interval: str
    paired: bool = True

    @property
    def effect(self) -> Callable[..., float]:
        """The standardised difference that goes with it, of what `compute` takes."""
        return effect_of_differences if self.paired else effect_of_samples

    @property
    def effect_name(self) -> str:
        """What the effect is called."""
        return "g_z" if self.paired else "g"

    @property
    def effect_in_words(self) -> str:
        """What the effect is."""
        if self.paired:
            return "g_z: mean difference in SDs of the differences (Cohen's d_z, Hedges-corrected)"
        return "g: difference of means in pooled SDs (Hedges' g)"


def _no_floor(first: int, second: int) -> float:  # noqa: ARG001
    return 0.0


def _all_signs_alike(first: int, second: int) -> float:  # noqa: ARG001
    return 2.0 ** (1 - first) if first else 1.0


def _relabelled(first: int, second: int) -> float:
    mirrored = 2 if first == second else 1  # swapping all labels is as extreme
    return min(1.0, mirrored / comb(first + second, first))


def _one_above_the_other(first: int, second: int) -> float:
    return min(1.0, 2 / comb(first + second, first))


MEAN = "mean difference"
MEDIAN = "median difference (Hodges-Lehmann)"
INVERTED = "by inverting the test"

PAIRED = {
    "t": PairTest(
        name="paired t-test",
        compute=paired_t,
        fewest=2,
        smallest=_no_floor,
        assumes="seeds are independent and their differences roughly normal",
        estimate=MEAN,
        interval="Student's t",
    ),
    "permutation": PairTest(
        name="sign-flip permutation test",
        compute=sign_flip_test,
        fewest=1,
        smallest=_all_signs_alike,
        assumes="seeds are independent and their differences symmetric",
        estimate=MEAN,
        interval=INVERTED,
    ),
    "wilcoxon": PairTest(
        name="Wilcoxon signed-rank test",
        compute=signed_rank_test,
        fewest=1,
        smallest=_all_signs_alike,
        assumes="seeds are independent and their differences symmetric",
        estimate=MEDIAN,
        interval=INVERTED,
    ),
}
UNPAIRED = {
    "t": PairTest(
        name="Welch's t-test",
        paired=False,
        compute=welch_t,
        fewest=2,
        smallest=_no_floor,
        assumes="runs are independent and roughly normal; spreads may differ",
        estimate=MEAN,
        interval="Welch's t",
    ),
    "permutation": PairTest(
        name="two-sample permutation test",
        paired=False,
        compute=two_sample_permutation,
        fewest=1,
        smallest=_relabelled,
        assumes="runs are independent and, without a difference, of one distribution",
        estimate=MEAN,
        interval=INVERTED,
    ),
    "wilcoxon": PairTest(
        name="Mann-Whitney test",
        paired=False,
        compute=mann_whitney,
        fewest=1,
        smallest=_one_above_the_other,
        assumes="runs are independent and their distributions at most shifted",
        estimate=MEDIAN,
        interval=INVERTED,
    ),
}


def find_pair_test(test: str = "t", *, unpaired: bool = False) -> PairTest:
    """Return the test of that name, or its form for runs that are not paired by seed.

    Example:
        >>> find_pair_test("t").name, find_pair_test("wilcoxon", unpaired=True).name
        ('paired t-test', 'Mann-Whitney test')
    """
    if test not in get_args(PairTestName):
        raise ValueError(f"test is {test!r:.40}, expected {', '.join(get_args(PairTestName))}")
    if test == "welch":
        return UNPAIRED["t"]
    return (UNPAIRED if unpaired else PAIRED)[test]


def min_attainable_p(
    seeds: int,
    other: int | None = None,
    *,
    comparisons: int = 1,
    test: str = "permutation",
    unpaired: bool = False,
) -> float:
    """Return the smallest two-sided p-value that a test of so many seeds can have; 0 of a t-test.

    With `comparisons` of them, after Holm's correction; `other` seeds of the second method where
    it does not have as many.

    Example:
        >>> min_attainable_p(5), min_attainable_p(6, comparisons=3)
        (0.0625, 0.09375)
        >>> min_attainable_p(5, unpaired=True)
        0.007936507936507936
    """
    chosen = find_pair_test(test, unpaired=unpaired)
    return min(1.0, comparisons * chosen.smallest(seeds, seeds if other is None else other))


def seeds_needed(
    alpha: float = 0.05,
    *,
    comparisons: int = 1,
    test: str = "permutation",
    unpaired: bool = False,
) -> int:
    """Return the least number of seeds of each method with which a test can go below `alpha`.

    With `comparisons` of them, the smallest p-value must survive Holm's correction.

    Example:
        >>> seeds_needed(0.05), seeds_needed(0.05, comparisons=10), seeds_needed(test="t")
        (6, 9, 2)
    """
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must lie between 0 and 1, got {alpha}")
    fewest = find_pair_test(test, unpaired=unpaired).fewest
    return next(
        n
        for n in range(fewest, 1000)
        if min_attainable_p(n, comparisons=comparisons, test=test, unpaired=unpaired) < alpha
    )
