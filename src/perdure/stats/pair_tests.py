"""The tests that compare two methods, what they assume and the smallest p-values they can reach."""

from __future__ import annotations

from math import comb
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from .difference_tests import (
    effect_of_differences,
    effect_of_samples,
    mann_whitney,
    paired_t,
    sign_flip_test,
    signed_rank_test,
    two_sample_permutation,
    welch_t,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from .difference_tests import DifferenceTest

__all__ = ["PairTest", "PairTestName", "find_pair_test", "min_attainable_p", "seeds_needed"]

PairTestName = Literal["t", "permutation", "welch", "wilcoxon"]


class PairTest(NamedTuple):
    """A two-sided test of the difference between two methods.

    Attributes:
        name: name of the test.
        compute: takes the differences per seed if `paired`, otherwise both samples.
        min_seeds: the number of seeds that the test needs.
        min_p: returns the smallest p-value attainable with the given numbers of seeds, or 0.
        assumption: what the test assumes.
        estimate: what it estimates.
        interval: how its interval is made.
        paired: whether the values of the two methods are paired by seed.
    """

    name: str
    compute: Callable[..., DifferenceTest]
    min_seeds: int
    min_p: Callable[[int, int], float]
    assumption: str
    estimate: str
    interval: str
    paired: bool = True

    @property
    def effect(self) -> Callable[..., float]:
        """The standardised effect size that goes with the test; it takes what `compute` takes."""
        return effect_of_differences if self.paired else effect_of_samples

    @property
    def effect_name(self) -> str:
        """Symbol of the effect size."""
        return "g_z" if self.paired else "g"

    @property
    def effect_description(self) -> str:
        """Definition of the effect size."""
        if self.paired:
            return "g_z: mean difference in SDs of the differences (Cohen's d_z, Hedges-corrected)"
        return "g: difference of means in pooled SDs (Hedges' g)"


def _zero(first: int, second: int) -> float:  # noqa: ARG001
    return 0.0


def _min_sign_flip_p(first: int, second: int) -> float:  # noqa: ARG001
    return 2.0 ** (1 - first) if first else 1.0


def _min_relabelling_p(first: int, second: int) -> float:
    mirrored = 2 if first == second else 1  # swapping all labels is as extreme
    return min(1.0, mirrored / comb(first + second, first))


def _min_rank_sum_p(first: int, second: int) -> float:
    return min(1.0, 2 / comb(first + second, first))


MEAN = "mean difference"
MEDIAN = "median difference (Hodges-Lehmann)"
INVERTED = "by inverting the test"

# fmt: off
PAIRED = {
    "t": PairTest(
        "paired t-test", paired_t, min_seeds=2, min_p=_zero, estimate=MEAN, interval="Student's t",
        assumption="seeds are independent and their differences roughly normal"),
    "permutation": PairTest(
        "sign-flip permutation test", sign_flip_test, min_seeds=1, min_p=_min_sign_flip_p,
        assumption="seeds are independent and their differences symmetric",
        estimate=MEAN, interval=INVERTED),
    "wilcoxon": PairTest(
        "Wilcoxon signed-rank test", signed_rank_test, min_seeds=1, min_p=_min_sign_flip_p,
        assumption="seeds are independent and their differences symmetric",
        estimate=MEDIAN, interval=INVERTED),
}
UNPAIRED = {
    "t": PairTest(
        "Welch's t-test", welch_t, paired=False, min_seeds=2, min_p=_zero,
        assumption="runs are independent and roughly normal; variances may differ",
        estimate=MEAN, interval="Welch's t"),
    "permutation": PairTest(
        "two-sample permutation test", two_sample_permutation, paired=False, min_seeds=1,
        min_p=_min_relabelling_p, estimate=MEAN, interval=INVERTED,
        assumption="runs are independent and, under the null hypothesis, identically distributed"),
    "wilcoxon": PairTest(
        "Mann-Whitney test", mann_whitney, paired=False, min_seeds=1, min_p=_min_rank_sum_p,
        assumption="runs are independent and their distributions differ at most by a shift",
        estimate=MEDIAN, interval=INVERTED),
}
# fmt: on


def find_pair_test(test: str = "t", *, unpaired: bool = False) -> PairTest:
    """Return the test named `test`, in its unpaired form if `unpaired`.

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
    """Return the smallest two-sided p-value that a test can reach; 0 for a t-test.

    Args:
        seeds: number of seeds of the first method.
        other: number of seeds of the second method; `seeds` by default.
        comparisons: number of comparisons that Holm's correction accounts for.
        test: name of the test.
        unpaired: whether the seeds of the two methods are unrelated.

    Example:
        >>> min_attainable_p(5), min_attainable_p(6, comparisons=3)
        (0.0625, 0.09375)
        >>> min_attainable_p(5, unpaired=True)
        0.007936507936507936
    """
    pair_test = find_pair_test(test, unpaired=unpaired)
    return min(1.0, comparisons * pair_test.min_p(seeds, seeds if other is None else other))


def seeds_needed(
    alpha: float = 0.05,
    *,
    comparisons: int = 1,
    test: str = "permutation",
    unpaired: bool = False,
) -> int:
    """Return the smallest number of seeds per method for which a test can go below `alpha`.

    With several `comparisons`, the smallest p-value must survive Holm's correction.

    Example:
        >>> seeds_needed(0.05), seeds_needed(0.05, comparisons=10), seeds_needed(test="t")
        (6, 9, 2)
    """
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must lie between 0 and 1, got {alpha}")
    min_seeds = find_pair_test(test, unpaired=unpaired).min_seeds
    return next(
        n
        for n in range(min_seeds, 1000)
        if min_attainable_p(n, comparisons=comparisons, test=test, unpaired=unpaired) < alpha
    )
