"""Several methods side by side: what the tables of `perdure compare` rest on, and its JSON."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Any

from ...metrics import ACCURACY, MethodsComparison, ScoreScale, find_metric
from ...stats import find_pair_test, min_attainable_p, seeds_needed
from .example_differences import example_comparison_to_dict

if TYPE_CHECKING:
    from ...stats import IntervalMethod, PairTest, PairTestName
    from .example_differences import ExampleComparison

__all__ = ["ComparisonReport", "comparison_to_dict", "describe_comparison", "describe_test"]


@dataclass
class ComparisonReport:
    """Methods compared by several metrics, and how: what every written form is made from.

    `runs` are the paths of each method, by seed; `paired_by` is `run.json` or `file order`.
    `subject` names scenario, setting and number of tasks; `run_folder` is the first of the paths
    that is a run folder, whose scores have a scale of their own.
    """

    metrics: dict[str, MethodsComparison]
    runs: dict[str, dict[int | str, str]]
    paired_by: str
    alpha: float = 0.05
    interval: IntervalMethod = "t"
    level: float = 0.95
    scale: ScoreScale = ACCURACY
    test: PairTestName = "t"
    unpaired: bool = False
    against: str | None = None
    undefined: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    on_examples: list[ExampleComparison] = field(default_factory=list)
    subject: str = ""
    run_folder: str | None = None

    @property
    def seeds(self) -> list[int | str]:
        """The seeds that all methods have."""
        first, *others = self.runs.values()
        return [seed for seed in first if all(seed in runs for runs in others)]

    @property
    def comparisons(self) -> int:
        """How many pairs of methods each metric has."""
        others = len(self.runs) - 1
        return others if self.against is not None else len(self.runs) * others // 2

    @property
    def pair_test(self) -> PairTest:
        """The test of every pair."""
        return find_pair_test(self.test, unpaired=self.unpaired)

    @property
    def min_attainable_p(self) -> float:
        """The smallest p-value that any pair could have after correction; 0 without a floor."""
        paired, seeds = self.pair_test.paired, len(self.seeds)
        counts = {name: seeds if paired else len(runs) for name, runs in self.runs.items()}
        pairs = [pair for pair in combinations(counts, 2) if self.against in (None, *pair)]
        return min(
            min_attainable_p(
                counts[first], counts[second],
                comparisons=self.comparisons, test=self.test, unpaired=self.unpaired,
            )
            for first, second in pairs
        )  # fmt: skip

    @property
    def seeds_needed(self) -> int | None:
        """With how many seeds of each method a p-value can go below alpha; None without a floor."""
        if not self.min_attainable_p:
            return None
        return seeds_needed(
            self.alpha, comparisons=self.comparisons, test=self.test, unpaired=self.unpaired
        )


def describe_comparison(found: ComparisonReport) -> list[str]:
    """Return what the numbers rest on: pairing, seeds, tests, and what these can tell at all."""
    if not found.metrics:
        return []
    family = f"{found.comparisons} pairs" if found.comparisons > 1 else "the one pair"
    test = found.pair_test
    alone = "it is of each pair alone and may exclude 0 where p after Holm does not; "
    differences = (
        f"differences: {test.estimate} of first minus second with a {100 * found.level:g}% "
        f"interval ({test.interval}); {alone if found.comparisons > 1 else ''}"
        f"{test.effect_description}"
    )
    return [
        *_over_what(found),
        f"{describe_test(test)}; Holm's correction over {family} within each metric",
        differences,
        *_what_marks_say(found),
        *_what_seeds_can_tell(found),
        *_remarks(found),
        f"definitions: perdure explain {' '.join(found.metrics)}",
    ]


def describe_test(test: PairTest) -> str:
    """Return the name of a test with what it assumes.

    Example:
        >>> describe_test(find_pair_test("wilcoxon"))[:56]
        'Wilcoxon signed-rank test, two-sided; it assumes that se'
    """
    return f"{test.name}, two-sided; it assumes that {test.assumption}"


def _over_what(found: ComparisonReport) -> list[str]:
    counts = {name: len(runs) for name, runs in found.runs.items()}
    common = len(found.seeds)
    each = ", ".join(f"{name} {count}" for name, count in counts.items())
    if not found.pair_test.paired:
        ranks = f"; ranks over the {_seeds(common)} that all methods have" if common else ""
        return [f"mean, SD and tests over all runs of a method, not paired: {each}{ranks}"]
    if set(counts.values()) == {common}:
        lines = [f"mean and SD over the {_seeds(common)} of each method"]
    else:
        lines = [
            f"mean and SD over all runs of a method: {each}",
            f"ranks and tests over the {_seeds(common)} that all methods have",
        ]
    if found.paired_by == "run.json":
        return [*lines, "seeds are paired by run.json"]
    return [*lines, "seeds are paired by file order: the first of each group, the second, …"]


def _what_marks_say(found: ComparisonReport) -> list[str]:
    if found.against is not None:
        return [f"* differs from {found.against} at alpha = {found.alpha:g}"]
    if not any(one.letters for one in found.metrics.values()):
        return []
    alpha = f"alpha = {found.alpha:g}"
    return [
        f"methods that share a letter are not distinguishable at {alpha}; * marks pairs that are"
    ]


def _what_seeds_can_tell(found: ComparisonReport) -> list[str]:
    """Return what so few seeds cannot tell, whatever the scores."""
    test, least, family = found.pair_test, found.min_attainable_p, found.comparisons
    counts = [len(runs) for runs in found.runs.values()]
    fewest = len(found.seeds) if test.paired else min(counts)
    if fewest < test.min_seeds:
        return [f"{_seeds(fewest)}: not tested, the {test.name} needs {test.min_seeds} or more"]
    if not least:
        few = f"2 seeds leave the {test.name} little to go by: it finds large differences only"
        return [few] if fewest == 2 else []
    corrected = f" after Holm's correction over {family} pairs" if family > 1 else ""
    seeds = _seeds(len(found.seeds) if test.paired else max(counts))
    if least < found.alpha:
        return [f"{seeds} can go down to p = {least:.4g}{corrected}"]
    cannot = f"{seeds} cannot go below p = {least:.4g}{corrected}, whatever the scores"
    return [f"{cannot}; it takes at least {found.seeds_needed}"]


def _remarks(found: ComparisonReport) -> list[str]:
    """Return what is special about the data of some pairs, with the ids it is true of."""
    ids: dict[str, list[str]] = {}
    for id_, one in found.metrics.items():
        for (first, second), pair in one.pairs.items():
            if pair.remark:
                ids.setdefault(f"{first} - {second}: {pair.remark}, p = 0", []).append(id_)
    return [f"{remark} ({', '.join(several)})" for remark, several in ids.items()]


def comparison_to_dict(found: ComparisonReport) -> dict[str, Any]:
    """Return plain lists and numbers, ready for JSON."""
    by_seed = found.paired_by == "run.json"
    return {
        "methods": {
            name: {
                "n": len(runs),
                "seeds": list(runs) if by_seed else None,
                "runs": list(runs.values()),
            }
            for name, runs in found.runs.items()
        },
        "paired_by": found.paired_by if found.pair_test.paired else None,
        "seeds_in_common": found.seeds if by_seed else len(found.seeds),
        "test": {
            "name": found.pair_test.name,
            "paired": found.pair_test.paired,
            "assumes": found.pair_test.assumption,
            "correction": "Holm",
            "comparisons": found.comparisons,
            "against": found.against,
            "difference": found.pair_test.estimate,
            "difference_interval": f"{found.pair_test.interval}, per comparison",
            "effect": found.pair_test.effect_description,
        },
        "alpha": found.alpha,
        "min_attainable_p": found.min_attainable_p or None,
        "seeds_needed": found.seeds_needed,
        "interval": {"method": found.interval, "level": found.level},
        "metrics": {id_: _metric_dict(one) for id_, one in found.metrics.items()},
        "undefined": found.undefined,
        "notes": found.notes,
        "on_examples": [example_comparison_to_dict(each) for each in found.on_examples],
    }


def _metric_dict(one: MethodsComparison) -> dict[str, Any]:
    return {
        "name": find_metric(one.id).name,
        "better": one.better,
        "methods": {
            name: {
                "mean": mean.mean,
                "sd": _or_none(mean.sd),
                "low": _or_none(mean.low),
                "high": _or_none(mean.high),
                "n": mean.seeds,
                "rank": one.ranks.get(name),
                "letters": one.letters.get(name),
            }
            for name, mean in one.means.items()
        },
        "pairs": [
            {"first": first, "second": second, **test._asdict()}
            for (first, second), test in one.pairs.items()
        ],
    }


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else value


def _seeds(count: int) -> str:
    return "1 seed" if count == 1 else f"{count} seeds"
