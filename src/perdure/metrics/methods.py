"""Comparison of methods by one metric: means over seeds, ranks, pairwise tests and letters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ..stats import Comparison, compare_pairs, find_pair_test, mean_ranks, significance_letters
from .registry import better_direction
from .runs import mean_of_metric
from .score_matrix import ACCURACY, ScoreScale

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..stats import IntervalMethod, MeanOverSeeds, PairTestName

    Seed = int | str

__all__ = ["MethodsComparison", "common_seeds", "compare_methods"]


@dataclass(frozen=True)
class MethodsComparison:
    """The comparison of several methods by one metric.

    `means` are over all seeds of a method. `ranks`, and `pairs` of a paired test, are over `seeds`,
    those that all methods have. Methods that share a letter are not distinguishable; there are no
    letters if no pair was tested or all methods were compared with one of them, `against`.
    """

    id: str
    better: Literal["higher", "lower"]
    seeds: tuple[Seed, ...]
    means: dict[str, MeanOverSeeds]
    ranks: dict[str, float]
    pairs: dict[tuple[str, str], Comparison]
    letters: dict[str, str]
    against: str | None = None

    @property
    def best_first(self) -> list[str]:
        """The names of the methods, ordered by their means."""
        sign = 1 if self.better == "lower" else -1
        return sorted(self.means, key=lambda name: sign * self.means[name].mean)

    def mark(self, name: str) -> str:
        """Return the letters of a method, or a star if it differs from `against`."""
        if self.against is None:
            return self.letters.get(name, "")
        pair = self.pairs.get((name, self.against))
        return "*" if pair is not None and pair.distinguishable else ""


def compare_methods(
    id_: str,
    methods: Mapping[str, Mapping[Seed, float]],
    *,
    scale: ScoreScale = ACCURACY,
    alpha: float = 0.05,
    interval: IntervalMethod = "t",
    level: float = 0.95,
    test: PairTestName = "t",
    unpaired: bool = False,
    against: str | None = None,
) -> MethodsComparison:
    """Return how methods compare by the metric `id_`.

    Args:
        id_: id of the metric.
        methods: for each method, its value on every seed.
        scale: range and direction of the scores.
        alpha: methods are distinguishable where p after Holm's correction is below it.
        interval: method of the intervals of the means over seeds.
        level: confidence level of these intervals, and of those of the differences.
        test: name of the test, see `compare_pairs`.
        unpaired: whether to use all seeds of each method instead of those in common.
        against: compare all others with this method only.

    Example:
        >>> er, naive = {0: 0.8, 1: 0.9, 2: 0.7}, {0: 0.2, 1: 0.31}
        >>> result = compare_methods("acc", {"er": er, "naive": naive})
        >>> result.seeds, result.ranks, result.letters
        ((0, 1), {'er': 1.0, 'naive': 2.0}, {'er': 'a', 'naive': 'b'})
    """
    paired = find_pair_test(test, unpaired=unpaired).paired
    seeds = common_seeds(methods)
    if paired and not seeds:
        raise ValueError(f"methods have no seed in common: {', '.join(methods)}")
    means = {
        name: mean_of_metric(id_, list(values.values()), scale, method=interval, level=level)
        for name, values in methods.items()
    }
    tested = {
        name: [values[seed] for seed in (seeds if paired else values)]
        for name, values in methods.items()
    }
    pairs = compare_pairs(
        tested, alpha=alpha, test=test, unpaired=unpaired, against=against, level=level
    )
    better = better_direction(id_, scale)
    ranks: dict[str, float] = {}
    if seeds:
        common = {name: [values[seed] for seed in seeds] for name, values in methods.items()}
        ranks = mean_ranks(common, lower_is_better=better == "lower")
    result = MethodsComparison(id_, better, seeds, means, ranks, pairs, {}, against)
    if against is None and any(pair.p is not None for pair in pairs.values()):
        different = [names for names, pair in pairs.items() if pair.distinguishable]
        result.letters.update(significance_letters(result.best_first, different))
    return result


def common_seeds(methods: Mapping[str, Mapping[Seed, object]]) -> tuple[Seed, ...]:
    """Return the seeds that every method has, in the order of the first.

    Example:
        >>> common_seeds({"er": {2: "a", 0: "b", 1: "c"}, "ewc": {0: "d", 2: "e"}})
        (2, 0)
    """
    first, *others = methods.values()
    return tuple(seed for seed in first if all(seed in values for values in others))
