"""Which methods on the page differ, by the same test as in `perdure compare`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...metrics import common_seeds, compare_methods
from ...record import InputError
from ...stats import find_pair_test, min_attainable_p
from ..load import index_by_seed
from ..tables.comparison import describe_test

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...metrics import MethodsComparison
    from ...stats import PairTestName
    from .summaries import MethodSummary

__all__ = ["PairTestOptions", "compare_summaries", "describe_significance", "describe_verdicts"]


class PairTestOptions(NamedTuple):
    """The test of each pair of methods, as in `perdure compare`."""

    test: PairTestName = "t"
    unpaired: bool = False
    alpha: float = 0.05


def compare_summaries(
    methods: Sequence[MethodSummary], ids: Sequence[str], options: PairTestOptions
) -> tuple[dict[str, MethodsComparison], str]:
    """Return a comparison per metric that all runs have, and the reason if there is none."""
    if len(methods) < 2:
        return {}, ""
    test = find_pair_test(options.test, unpaired=options.unpaired)
    try:
        indices = index_by_seed({m.name: m.runs for m in methods}, unpaired=not test.paired)
    except InputError as error:
        return {}, str(error)
    if test.paired and not common_seeds(indices):
        return {}, f"no seed is in all of {', '.join(indices)}"
    comparisons = {}
    for id_ in ids:
        if all(id_ in summary.metrics for m in methods for summary in m.run_summaries):
            values = {
                m.name: {s: m.run_summaries[k].metrics[id_] for s, k in indices[m.name].items()}
                for m in methods
            }
            comparisons[id_] = compare_methods(
                id_, values, scale=methods[0].scale, **options._asdict()
            )
    for comparison in comparisons.values():
        if not comparison.letters:  # the seeds, and so the reason, are the same for all metrics
            verdict = next(iter(comparison.pairs.values())).verdict
            return {}, verdict.removeprefix("not tested: ")
    return comparisons, ""


def describe_significance(
    comparisons: Mapping[str, MethodsComparison], reason: str, options: PairTestOptions
) -> str:
    """Return what the letters mean and which test they come from, or why there are none."""
    if reason:
        return f"Methods are not tested against each other: {reason}."
    if not comparisons:
        return ""
    test = find_pair_test(options.test, unpaired=options.unpaired)
    one = next(iter(comparisons.values()))
    seeds = len(one.seeds) if test.paired else max(mean.seeds for mean in one.means.values())
    over = f"over the {seeds} seeds in common" if test.paired else "over all runs"
    pairs = f"{len(one.pairs)} pairs" if len(one.pairs) > 1 else "one pair"
    least = min_attainable_p(
        seeds, comparisons=len(one.pairs), test=options.test, unpaired=options.unpaired
    )
    limit = f" So few seeds cannot go below p = {least:.3g}." if least >= options.alpha else ""
    return (
        "Methods that share a superscript letter are not distinguishable at alpha = "
        f"{options.alpha:g} ({describe_test(test)}; {over}, with Holm's correction for the "
        f"{pairs} per metric, as in perdure compare).{limit} The best mean is bold."
    )


def describe_verdicts(
    comparisons: Mapping[str, MethodsComparison], labels: Mapping[str, str]
) -> dict[str, str]:
    """Return per metric which method is best, and which ones the test cannot separate from it.

    Args:
        comparisons: comparisons by metric.
        labels: what each method is called on the page.
    """
    return {id_: _describe_best(comparison, labels) for id_, comparison in comparisons.items()}


def _describe_best(comparison: MethodsComparison, labels: Mapping[str, str]) -> str:
    best, *others = comparison.best_first
    if not any(pair.distinguishable for pair in comparison.pairs.values()):
        return "no two methods are distinguishable"
    pairs = {frozenset(names): pair for names, pair in comparison.pairs.items()}
    ties = [name for name in others if not pairs[frozenset((best, name))].distinguishable]
    behind = [name for name in others if name not in ties]
    remarks = {pair.remark for pair in pairs.values() if pair.distinguishable and pair.remark}
    # Without variance p is 0, and on a small test set a few seeds agree by chance.
    doubt = f" ({', '.join(sorted(remarks))}: may be chance on a small test set)" if remarks else ""
    if not ties:
        return f"{labels[best]} is better than {_list_methods(behind, labels)}{doubt}"
    better = f"; better than {_list_methods(behind, labels)}" if behind else ""
    listed = ", ".join(labels[name] for name in ties)
    return f"{labels[best]} is best, but not distinguishable from {listed}{better}{doubt}"


def _list_methods(names: Sequence[str], labels: Mapping[str, str]) -> str:
    if len(names) > 3:
        return f"the other {len(names)} methods"
    return ", ".join(labels[name] for name in names)
