"""Which methods on the page differ: by the same test as in `perdure compare`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...metrics import common_seeds, compare_methods
from ...record import InputError
from ...stats import find_pair_test, min_attainable_p
from ..load import index_by_seed
from ..tables.comparison import describe_test

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...metrics import MethodsComparison
    from ...stats import PairTestName
    from .sections import MethodSummary

__all__ = ["PairTestOptions", "compare_summaries", "describe_significance"]


class PairTestOptions(NamedTuple):
    """The test of every pair of methods, as `perdure compare` takes it."""

    test: PairTestName = "t"
    unpaired: bool = False
    alpha: float = 0.05


def compare_summaries(
    shown: Sequence[MethodSummary], ids: Sequence[str], how: PairTestOptions
) -> tuple[dict[str, MethodsComparison], str]:
    """Return the comparison by every metric that all runs have, and why there is none."""
    if len(shown) < 2:
        return {}, ""
    chosen = find_pair_test(how.test, unpaired=how.unpaired)
    try:
        places = index_by_seed(
            {method.name: method.runs for method in shown}, unpaired=not chosen.paired
        )
    except InputError as error:
        return {}, str(error)
    if chosen.paired and not common_seeds(places):
        return {}, f"no seed is in all of {', '.join(places)}"
    compared = {}
    for id_ in ids:
        if all(id_ in one.metrics for method in shown for one in method.each):
            values = {
                method.name: {
                    seed: method.each[k].metrics[id_] for seed, k in places[method.name].items()
                }
                for method in shown
            }
            compared[id_] = compare_methods(id_, values, scale=shown[0].scale, **how._asdict())
    for one in compared.values():
        if not one.letters:  # the seeds are the same for all metrics
            return {}, next(iter(one.pairs.values())).verdict.removeprefix("not tested: ")
    return compared, ""


def describe_significance(
    compared: dict[str, MethodsComparison], reason: str, how: PairTestOptions
) -> str:
    """Return what letters mean and where they come from, or why there are none."""
    if reason:
        return f"Methods are not tested against each other: {reason}."
    if not compared:
        return ""
    chosen = find_pair_test(how.test, unpaired=how.unpaired)
    one = next(iter(compared.values()))
    seeds = len(one.seeds) if chosen.paired else max(mean.seeds for mean in one.means.values())
    over = f"over the {seeds} seeds in common" if chosen.paired else "over all runs"
    pairs = f"{len(one.pairs)} pairs" if len(one.pairs) > 1 else "one pair"
    least = min_attainable_p(
        seeds, comparisons=len(one.pairs), test=how.test, unpaired=how.unpaired
    )
    floor = f" So few seeds cannot go below p = {least:.3g}." if least >= how.alpha else ""
    return (
        "Methods that share a raised letter are not distinguishable at alpha = "
        f"{how.alpha:g} ({describe_test(chosen)}; {over}, with Holm's correction for the "
        f"{pairs} of each metric, as perdure compare does it).{floor} The best mean is bold."
    )
