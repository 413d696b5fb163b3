"""The result of comparing methods, behind the tables of `perdure compare`, and its JSON."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING

from ..._display import count_of, format_block, make_frame, make_polars
from ...metrics import ACCURACY, MethodsComparison, ScoreScale, find_metric
from ...stats import find_pair_test, min_attainable_p, seeds_needed
from .comparison_tables import example_comparison_to_dict

if TYPE_CHECKING:
    import polars as pl
    from pandas import DataFrame

    from ...stats import IntervalMethod, PairTest, PairTestName
    from .comparison_tables import ExampleComparison

__all__ = ["ComparisonReport", "describe_comparison", "describe_test"]

MAX_METRICS_WITH_SD = 3  # printed in one line
RECORD_COLUMNS = ("metric", "method", "mean", "sd", "low", "high", "rank", "letters")


@dataclass
class ComparisonReport:
    """Methods compared by several metrics, and how they were compared.

    `runs` holds the paths of each method by seed; `paired_by` is `seed`,
    `file order`, or `task order`, where `runs` has one entry per order.
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
    example_comparisons: list[ExampleComparison] = field(default_factory=list)
    subject: str = ""
    run_folder: str | None = None

    def __repr__(self) -> str:
        title = f"{self.subject}: {len(self.runs)} methods, paired by {self.paired_by}".lstrip(": ")
        header = ["", *self.metrics]
        spread = len(self.metrics) <= MAX_METRICS_WITH_SD
        rows = [
            [name, *(_format_mean(one, name, spread=spread) for one in self.metrics.values())]
            for name in self.runs
        ]
        undefined = [f"undefined: {', '.join(self.undefined)}"] if self.undefined else []
        notes = [f"{count_of(len(self.notes), 'note')} in .notes"] if self.notes else []
        repeated = any(len(seeds) > 1 for seeds in self.runs.values())
        shown = "mean ± SD" if spread and repeated else "mean" if repeated else "one run each"
        letters = any(one.letters for one in self.metrics.values())
        legend = shown + "; methods that share a letter are not distinguishable" * letters
        return format_block(title, [header, *rows], [legend, *undefined, *notes])

    def to_dict(self) -> dict[str, object]:
        """Return plain lists and numbers, ready for JSON."""
        by_seed, by_order = (self.paired_by == unit for unit in ("seed", "task order"))
        return {
            "methods": {
                name: {
                    "n": len(runs),
                    "seeds": list(runs) if by_seed else None,
                    "runs": list(runs.values()),
                }
                for name, runs in self.runs.items()
            },
            "paired_by": self.paired_by if self.pair_test.paired else None,
            "seeds_in_common": self.seeds if by_seed or by_order else len(self.seeds),
            "test": {
                "name": self.pair_test.name,
                "paired": self.pair_test.paired,
                "assumes": self.pair_test.assumption,
                "correction": "Holm",
                "comparisons": self.comparisons,
                "against": self.against,
                "difference": self.pair_test.estimate,
                "difference_interval": f"{self.pair_test.interval}, per comparison",
                "effect": self.pair_test.effect_description,
            },
            "alpha": self.alpha,
            "min_attainable_p": self.min_attainable_p or None,
            "seeds_needed": self.seeds_needed,
            "interval": {"method": self.interval, "level": self.level},
            "metrics": {id_: _metric_to_dict(one) for id_, one in self.metrics.items()},
            "undefined": self.undefined,
            "notes": self.notes,
            "example_comparisons": list(map(example_comparison_to_dict, self.example_comparisons)),
        }

    def to_records(self) -> list[dict[str, object]]:
        """Return a row per metric and method."""
        return [
            {
                "metric": id_, "method": name, "mean": over.mean, "sd": over.sd, "low": over.low,
                "high": over.high, "rank": one.ranks.get(name), "letters": one.letters.get(name),
            }
            for id_, one in self.metrics.items()
            for name, over in one.means.items()
        ]  # fmt: skip

    def to_pandas(self) -> DataFrame:
        """Return a pandas table with a row per metric and method."""
        return make_frame(self.to_records(), RECORD_COLUMNS, ["metric", "method"])

    def to_polars(self) -> pl.DataFrame:
        """Return a polars table with a row per metric and method."""
        return make_polars(self.to_records(), RECORD_COLUMNS)

    @property
    def seeds(self) -> list[int | str]:
        """The seeds that all methods have."""
        first, *others = self.runs.values()
        return [seed for seed in first if all(seed in runs for runs in others)]

    @property
    def unit(self) -> str:
        """What a value is that means and tests are made of."""
        return "task order" if self.paired_by == "task order" else "seed"

    @property
    def comparisons(self) -> int:
        """The number of pairs of methods per metric."""
        others = len(self.runs) - 1
        return others if self.against is not None else len(self.runs) * others // 2

    @property
    def pair_test(self) -> PairTest:
        """The test of each pair."""
        return find_pair_test(self.test, unpaired=self.unpaired)

    @property
    def min_attainable_p(self) -> float:
        """The smallest p-value that any pair can reach after correction; 0 if there is no limit."""
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
        """The number of seeds per method from which p can fall below alpha; None if any will do."""
        if not self.min_attainable_p:
            return None
        return seeds_needed(
            self.alpha, comparisons=self.comparisons, test=self.test, unpaired=self.unpaired
        )


def _format_mean(one: MethodsComparison, name: str, *, spread: bool) -> str:
    over = one.means[name]
    sd = f" ± {over.sd:.4f}" if spread and math.isfinite(over.sd) else ""
    return f"{over.mean:.4f}{sd} {one.mark(name)}".rstrip()


def describe_comparison(report: ComparisonReport) -> list[str]:
    """Return in words what the numbers rest on: pairing, seeds, tests, and their limits."""
    if not report.metrics:
        return []
    family = f"{report.comparisons} pairs" if report.comparisons > 1 else "the one pair"
    test = report.pair_test
    alone = "it is not corrected and may exclude 0 although p after Holm is above alpha; "
    differences = (
        f"differences: {test.estimate} of first minus second with a {100 * report.level:g}% "
        f"interval ({test.interval}); {alone if report.comparisons > 1 else ''}"
        f"{test.effect_description}"
    )
    return [
        *_describe_seeds(report),
        f"{describe_test(test)}; Holm's correction over {family} within each metric",
        differences,
        *_describe_marks(report),
        *_describe_power(report),
        *_remarks(report),
        f"definitions: perdure explain {' '.join(report.metrics)}",
    ]


def describe_test(test: PairTest) -> str:
    """Return the name of a test with its assumption.

    Example:
        >>> describe_test(find_pair_test("wilcoxon"))[:56]
        'Wilcoxon signed-rank test, two-sided; it assumes that se'
    """
    return f"{test.name}, two-sided; it assumes that {test.assumption}"


def _describe_seeds(report: ComparisonReport) -> list[str]:
    counts = {name: len(runs) for name, runs in report.runs.items()}
    common, unit = len(report.seeds), report.unit
    listed = ", ".join(f"{name} {count}" for name, count in counts.items())
    if not report.pair_test.paired:
        ranks = f"; ranks over the {count_of(common, unit)} that all methods have" if common else ""
        return [f"mean, SD and tests over all {unit}s of a method, not paired: {listed}{ranks}"]
    if set(counts.values()) == {common}:
        lines = [f"mean and SD over the {common} {unit}s of each method"]
        lines = lines if common > 1 else ["one run of each method"]
    else:
        lines = [
            f"mean and SD over all {unit}s of a method: {listed}",
            f"ranks and tests over the {count_of(common, unit)} that all methods have",
        ]
    if report.paired_by == "task order":
        return [*lines, "each task order counts as one value, the mean over its seeds"]
    if report.paired_by == "seed":
        return [*lines, "runs are paired by their seeds"]
    return [*lines, "runs are paired by file order: the first of each group, then the second, …"]


def _describe_marks(report: ComparisonReport) -> list[str]:
    if report.against is not None:
        return [f"* differs from {report.against} at alpha = {report.alpha:g}"]
    if not any(one.letters for one in report.metrics.values()):
        return []
    alpha = f"alpha = {report.alpha:g}"
    return [
        f"methods that share a letter are not distinguishable at {alpha}; * marks pairs that are"
    ]


def _describe_power(report: ComparisonReport) -> list[str]:
    """Return the limits of the test with so few seeds, whatever the scores."""
    test, least, family = report.pair_test, report.min_attainable_p, report.comparisons
    counts = [len(runs) for runs in report.runs.values()]
    fewest = len(report.seeds) if test.paired else min(counts)
    if fewest < test.min_seeds:
        few = count_of(fewest, report.unit)
        return [f"{few}: not tested, the {test.name} needs {test.min_seeds} or more"]
    if not least:
        few = f"with 2 {report.unit}s the {test.name} finds large differences only"
        return [few] if fewest == 2 else []
    corrected = f" after Holm's correction over {family} pairs" if family > 1 else ""
    seeds = count_of(len(report.seeds) if test.paired else max(counts), report.unit)
    if least < report.alpha:
        return [f"{seeds} can reach p = {least:.4g}{corrected}"]
    limit = f"{seeds} cannot go below p = {least:.4g}{corrected}, whatever the scores"
    return [f"{limit}; it takes at least {report.seeds_needed}"]


def _remarks(report: ComparisonReport) -> list[str]:
    """Return remarks on the data of pairs, each with the ids it applies to."""
    ids: dict[str, list[str]] = {}
    for id_, one in report.metrics.items():
        for (first, second), pair in one.pairs.items():
            if pair.remark:
                ids.setdefault(f"{first} - {second}: {pair.remark}, p = 0", []).append(id_)
    return [f"{remark} ({', '.join(several)})" for remark, several in ids.items()]


def _metric_to_dict(one: MethodsComparison) -> dict[str, object]:
    return {
        "name": find_metric(one.id).name,
        "better": one.better,
        "methods": {
            name: {
                "mean": mean.mean,
                "sd": _finite(mean.sd),
                "low": _finite(mean.low),
                "high": _finite(mean.high),
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


def _finite(value: float) -> float | None:
    return None if math.isnan(value) else value
