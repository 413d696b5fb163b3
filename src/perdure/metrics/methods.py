"""Several methods by one metric: means over seeds, ranks, paired tests and their letters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from .compare import Comparison, compare_pairs, ranks
from .letters import significance_letters
from .runs import mean_of_metric
from .score_matrix import ACCURACY, ScoreScale
from .table import better_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .seeds import IntervalMethod, MeanOverSeeds

    Seed = int | str

__all__ = ["MethodsComparison", "common_seeds", "compare_methods"]


@dataclass(frozen=True)
class MethodsComparison:
    """Several methods by one metric.

    `means` are over all seeds of a method; `ranks`, `pairs` and `letters` over `seeds`, those that
    all methods have. Methods that share a letter are not distinguishable.
    """

    id: str
    better: Literal["higher", "lower"]
    seeds: tuple[Seed, ...]
    means: dict[str, MeanOverSeeds]
    ranks: dict[str, float]
    pairs: dict[tuple[str, str], Comparison]
    letters: dict[str, str]

    @property
    def best_first(self) -> list[str]:
        """The methods by their means."""
        sign = 1 if self.better == "lower" else -1
        return sorted(self.means, key=lambda name: sign * self.means[name].mean)


def compare_methods(
    id_: str,
    methods: Mapping[str, Mapping[Seed, float]],
    *,
    scale: ScoreScale = ACCURACY,
    alpha: float = 0.05,
    interval: IntervalMethod = "t",
    level: float = 0.95,
) -> MethodsComparison:
    """Return how methods compare by the metric `id_`, given for each its value on every seed.

    Example:
        >>> er, naive = {0: 0.8, 1: 0.9, 2: 0.7}, {0: 0.2, 1: 0.3}
        >>> found = compare_methods("acc", {"er": er, "naive": naive})
        >>> found.seeds, found.ranks, found.letters
        ((0, 1), {'er': 1.0, 'naive': 2.0}, {'er': 'a', 'naive': 'a'})
    """
    seeds = common_seeds(methods)
    if not seeds:
        raise ValueError(f"methods have no seed in common: {', '.join(methods)}")
    better = better_of(id_, scale)
    means = {
        name: mean_of_metric(id_, list(values.values()), scale, method=interval, level=level)
        for name, values in methods.items()
    }
    each = [
        # What is left of rounding is no difference, as in the tests.
        ranks({name: float(f"{values[seed]:.12g}") for name, values in methods.items()},
              lower_is_better=better == "lower")
        for seed in seeds
    ]  # fmt: skip
    paired = {name: [values[seed] for seed in seeds] for name, values in methods.items()}
    pairs = compare_pairs(paired, alpha=alpha)
    mean_ranks = {name: float(np.mean([rank[name] for rank in each])) for name in methods}
    found = MethodsComparison(id_, better, seeds, means, mean_ranks, pairs, {})
    different = [pair for pair, test in pairs.items() if test.distinguishable]
    found.letters.update(significance_letters(found.best_first, different))
    return found


def common_seeds(methods: Mapping[str, Mapping[Seed, object]]) -> tuple[Seed, ...]:
    """Return the seeds that every method has, in the order of the first.

    Example:
        >>> common_seeds({"er": {2: "a", 0: "b", 1: "c"}, "ewc": {0: "d", 2: "e"}})
        (2, 0)
    """
    first, *others = methods.values()
    return tuple(seed for seed in first if all(seed in values for values in others))
