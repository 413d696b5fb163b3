"""Several methods side by side: the tables and the words of `perdure compare`."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from ..metrics import ACCURACY, MethodsComparison, ScoreScale, find_metric, least_p, seeds_needed
from ..metrics.results import name_of
from .grid import Grid
from .on_examples import on_examples_dict
from .scores import ARROWS, number

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..metrics import IntervalMethod, MeanOverSeeds
    from .on_examples import OnExamples

__all__ = ["Compared", "comparison_dict", "comparison_grids", "comparison_words"]


@dataclass
class Compared:
    """Methods compared by several metrics, and how: what every written form is made from.

    `runs` are the paths of each method, by seed; `paired_by` is `run.json` or `file order`.
    """

    metrics: dict[str, MethodsComparison]
    runs: dict[str, dict[int | str, str]]
    paired_by: str
    alpha: float = 0.05
    interval: IntervalMethod = "t"
    level: float = 0.95
    scale: ScoreScale = ACCURACY
    undefined: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    on_examples: list[OnExamples] = field(default_factory=list)

    @property
    def seeds(self) -> list[int | str]:
        """The seeds that all methods have."""
        first, *others = self.runs.values()
        return [seed for seed in first if all(seed in runs for runs in others)]

    @property
    def comparisons(self) -> int:
        """How many pairs of methods each metric has."""
        return len(self.runs) * (len(self.runs) - 1) // 2


def comparison_grids(
    found: Compared, form: str, *, percent: bool = False, digits: int = 4, details: bool = False
) -> list[Grid]:
    """Return the tables of a form: people, markdown, latex or csv.

    For people a table a metric and all p-values; for papers one table, best means marked, and if
    `details`, intervals, ranks and p-values too; as CSV a line for each metric and method.
    """
    if form == "csv":
        return [_lines(found), *([_pair_lines(found)] if details else [])]
    shown = partial(_shown, percent=percent, digits=digits)
    if form == "people":
        each = [_one_metric(found, one, shown, percent) for one in found.metrics.values()]
        return [*each, _tests(found)] if each else []
    if not found.metrics:
        return []
    more = [_intervals(found, shown), _ranks(found), _tests(found)] if details else []
    return [_means(found, shown, percent=percent), *more]


def comparison_words(found: Compared) -> list[str]:
    """Return what the numbers rest on: pairing, seeds, tests, and what these can tell at all."""
    if not found.metrics:
        return []
    counts = {name: len(runs) for name, runs in found.runs.items()}
    common = len(found.seeds)
    if set(counts.values()) == {common}:
        lines = [f"mean and SD over the {_seeds(common)} of each method"]
    else:
        each = ", ".join(f"{name} {count}" for name, count in counts.items())
        lines = [
            f"mean and SD over all runs of a method: {each}",
            f"ranks and tests over the {_seeds(common)} that all methods have",
        ]
    if found.paired_by == "run.json":
        lines.append("seeds are paired by run.json")
    else:
        lines.append("seeds are paired by file order: the first of each group, the second, …")
    tests = sorted({test.test for one in found.metrics.values() for test in one.pairs.values()})
    family = f"{found.comparisons} pairs" if found.comparisons > 1 else "the one pair"
    lines.append(
        f"tests: {' or '.join(tests)}, paired and two-sided, Holm's correction over {family} "
        "within each metric"
    )
    lines.append(
        f"methods that share a letter are not distinguishable at alpha = {found.alpha:g}; "
        f"{_power(found)}"
    )
    return [*lines, f"definitions: perdure explain {' '.join(found.metrics)}"]


def _power(found: Compared) -> str:
    seeds, family = len(found.seeds), found.comparisons
    least = least_p(seeds, comparisons=family)
    corrected = f" after Holm's correction over {family} pairs" if family > 1 else ""
    if least < found.alpha:
        return f"{_seeds(seeds)} can go down to p = {least:.4g}{corrected}"
    needed = seeds_needed(found.alpha, comparisons=family)
    return (
        f"{_seeds(seeds)} cannot go below p = {least:.4g}{corrected}, whatever the scores; it "
        f"takes at least {needed}"
    )


def comparison_dict(found: Compared) -> dict[str, Any]:
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
        "paired_by": found.paired_by,
        "seeds_in_common": found.seeds if by_seed else len(found.seeds),
        "alpha": found.alpha,
        "least_p": least_p(len(found.seeds), comparisons=found.comparisons),
        "seeds_needed": seeds_needed(found.alpha, comparisons=found.comparisons),
        "interval": {"method": found.interval, "level": found.level},
        "metrics": {id_: _metric_dict(one) for id_, one in found.metrics.items()},
        "undefined": found.undefined,
        "notes": found.notes,
        "on_examples": [on_examples_dict(each) for each in found.on_examples],
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
                "rank": one.ranks[name],
                "letters": one.letters[name],
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


def _shown(value: float, id_: str, *, percent: bool, digits: int) -> str:
    """Return a value with so many digits as printed, in percent too; nothing for NaN."""
    if math.isnan(value):
        return ""
    unit = find_metric(id_).unit
    return number(value, unit, percent=percent, digits=digits + 2 * (percent and unit != "none"))


def _interval(mean: MeanOverSeeds, id_: str, shown: Callable[..., str]) -> str:
    ends = [shown(mean.low, id_), shown(mean.high, id_)]
    return " to ".join(ends) if all(ends) else ""


def _percent(found: Compared) -> str:
    return f"{100 * found.level:g}% interval"


def _one_metric(
    found: Compared, one: MethodsComparison, shown: Callable[..., str], percent: bool
) -> Grid:
    """Return a metric's table for people, the best method first."""
    name = name_of(find_metric(one.id), found.scale)
    header = ["method", "mean", "SD", _percent(found), "rank", "n", "letters"]
    rows = []
    for method in one.best_first:
        mean = one.means[method]
        cells = [shown(mean.mean, one.id), shown(mean.sd, one.id), _interval(mean, one.id, shown)]
        rows.append(
            [method, *cells, f"{one.ranks[method]:.2f}", str(mean.seeds), one.letters[method]]
        )
    title = _titled(one, percent=percent)
    return Grid(header, rows, title=f"{title} {name}", right=set(header[1:-1]))


def _means(found: Compared, shown: Callable[..., str], *, percent: bool) -> Grid:
    """Return mean ± SD of every method and metric, the best bold and the second underlined."""
    header = [_titled(one, percent=percent) for one in found.metrics.values()]
    grid = Grid(["method", *header], [[name] for name in found.runs], right=set(header))
    for k, (id_, one) in enumerate(found.metrics.items(), start=1):
        means = {name: shown(one.means[name].mean, id_) for name in found.runs}
        # As printed: two equal numbers of which one is bold would puzzle a reader.
        order = list(dict.fromkeys(means[name] for name in one.best_first))
        for i, name in enumerate(found.runs):
            sd = shown(one.means[name].sd, id_)
            grid.rows[i].append(f"{means[name]} ± {sd}" if sd else means[name])
            grid.raised[i, k] = one.letters[name]
            if means[name] == order[0]:
                grid.best.add((i, k))
            elif means[name] == order[1]:
                grid.second.add((i, k))
    return grid


def _titled(one: MethodsComparison, *, percent: bool = False) -> str:
    in_percent = percent and find_metric(one.id).unit != "none"
    return f"{one.id}{' (%)' if in_percent else ''} {ARROWS[one.better]}"


def _intervals(found: Compared, shown: Callable[..., str]) -> Grid:
    header = [_titled(one) for one in found.metrics.values()]
    rows = [
        [name, *(_interval(one.means[name], one.id, shown) for one in found.metrics.values())]
        for name in found.runs
    ]
    return Grid(["method", *header], rows, title=_percent(found), right=set(header))


def _ranks(found: Compared) -> Grid:
    header = [_titled(one) for one in found.metrics.values()]
    rows = [
        [name, *(f"{one.ranks[name]:.2f}" for one in found.metrics.values())] for name in found.runs
    ]
    return Grid(["method", *header], rows, title="mean rank over seeds", right=set(header))


def _tests(found: Compared) -> Grid:
    """Return the corrected p-values, a star where methods are distinguishable."""
    every = list(found.metrics.values())
    rows = []
    for pair in every[0].pairs:
        tests = [one.pairs[pair] for one in every]
        cells = [_p(test.p) + ("*" if test.distinguishable else " ") for test in tests]
        rows.append([" - ".join(pair), *cells])
    title = f"p after Holm (* below {found.alpha:g})"
    header = list(found.metrics)
    return Grid(["pair", *header], rows, title=title, right=set(header))


def _p(p: float) -> str:
    return f"{p:.4f}" if p >= 0.0001 else "<0.0001"


def _lines(found: Compared) -> Grid:
    header = ["id", "better", "method", "n", "mean", "SD", "low", "high", "rank", "letters"]
    rows = []
    for id_, one in found.metrics.items():
        for name, mean in one.means.items():
            numbers = [mean.mean, mean.sd, mean.low, mean.high, one.ranks[name]]
            cells = ["" if math.isnan(value) else repr(float(value)) for value in numbers]
            rows.append([id_, one.better, name, str(mean.seeds), *cells, one.letters[name]])
    return Grid(header, rows)


def _pair_lines(found: Compared) -> Grid:
    header = ["id", "first", "second", "difference", "p", "distinguishable", "verdict", "test"]
    rows = []
    for id_, one in found.metrics.items():
        for pair, test in one.pairs.items():
            numbers = [repr(test.difference), repr(test.p), str(test.distinguishable).lower()]
            rows.append([id_, *pair, *numbers, test.verdict, test.test])
    return Grid(header, rows)
