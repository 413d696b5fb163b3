"""What methods are ranked by: a metric of every run by seed, or its mean in every scenario."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from .._display import count_of
from ..metrics import common_seeds, find_metric, options_for
from ..record import InputError
from .filtering import LeftOutWarning, drop_other_task_counts, drop_unusable
from .load import index_by_seed, split_scenario

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..metrics import ScoreScale, Summary
    from ..record import ScoreInput
    from .load import RunsByMethod

    Block = int | str  # a seed or a scenario

__all__ = ["RankValues", "get_rank_values", "split_by_scenario"]


class RankValues(NamedTuple):
    """A metric by method and block; methods are ranked within each block.

    `methods` are the runs by the names under which they are ranked.
    """

    by_method: dict[str, dict[Block, float]]
    scale: ScoreScale
    unit: Literal["seeds", "scenarios"]
    methods: RunsByMethod


def get_rank_values(methods: RunsByMethod, metric: str, *, unpaired: bool = False) -> RankValues:
    """Return the values to rank methods by: of seeds, or means in scenarios if there are several.

    Args:
        methods: runs by method.
        metric: id of the metric.
        unpaired: keep all seeds, not only those that all methods have.
    """
    try:
        find_metric(metric)
    except ValueError as error:
        raise InputError(f"metric: {error}") from None
    scenarios = split_by_scenario(methods)
    if len(scenarios.keys() - {""}) > 1:
        if unpaired:
            raise InputError(
                f"runs of {len(scenarios)} scenarios are ranked within each scenario, which pairs "
                "methods; leave out `unpaired=True` and `test='welch'`, or name one scenario"
            )
        return _average_scenarios(scenarios, metric)
    if len(methods) < 2:
        raise InputError(f"{count_of(len(methods), 'method')}, expected two or more to rank")
    values, scale = _get_values_by_seed(methods, metric, unpaired=unpaired)
    return RankValues(values, scale, "seeds", methods)


def split_by_scenario(methods: RunsByMethod) -> dict[str, dict[str, list[ScoreInput]]]:
    """Return the runs of each scenario by method; a scenario is no part of a method's name.

    Runs that state no scenario are of one without a name.
    """
    scenarios: dict[str, dict[str, list[ScoreInput]]] = {}
    for name, runs in methods.items():
        for run in runs:
            scenario, method = split_scenario(name, run)
            scenarios.setdefault(scenario, {}).setdefault(method, []).append(run)
    return scenarios


def _average_scenarios(
    scenarios: Mapping[str, Mapping[str, list[ScoreInput]]], metric: str
) -> RankValues:
    """Return the mean of each method's runs in the scenarios that all methods have."""
    names = list(dict.fromkeys(name for methods in scenarios.values() for name in methods))
    complete = {scenario: m for scenario, m in scenarios.items() if len(m) == len(names)}
    if len(names) < 2:
        raise InputError(f"{count_of(len(names), 'method')}, expected two or more to rank")
    if len(complete) < 2:
        raise InputError(
            f"{len(scenarios)} scenarios, {len(complete)} of them with runs of all {len(names)} "
            f"methods ({', '.join(names):.200}); expected two or more, or runs of one scenario"
        )
    for scenario in scenarios.keys() - complete.keys():
        lacking = next(name for name in names if name not in scenarios[scenario])
        warnings.warn(f"left out: {scenario}: no runs of {lacking}", LeftOutWarning, stacklevel=4)
    values: dict[str, dict[Block, float]] = {name: {} for name in names}
    merged: dict[str, list[ScoreInput]] = {name: [] for name in names}
    scale: ScoreScale | None = None
    for scenario, methods in complete.items():
        summaries = _summarize(methods, metric)
        if len(summaries) < len(names):
            raise InputError(f"{scenario}: {metric} is undefined for a method, expected it for all")
        scale = scale or next(iter(summaries.values()))[0].scale
        for name, several in summaries.items():
            if any(one.scale != scale for one in several):
                raise InputError(
                    f"{scenario} has scores of another range or direction, expected the same kind "
                    "of score everywhere"
                )
            values[name][scenario] = float(np.mean([one.metrics[metric] for one in several]))
            merged[name] += methods[name]
    assert scale is not None
    return RankValues(values, scale, "scenarios", merged)


def _summarize(methods: Mapping[str, list[ScoreInput]], metric: str) -> dict[str, list[Summary]]:
    """Return the summaries of the runs of one scenario that have as many tasks as most."""
    options = options_for([metric])
    usable = drop_other_task_counts(
        drop_unusable(methods, lambda run: _find_problem(run, metric)), together=True
    )
    return {name: [run.summary(options) for run in runs] for name, runs in usable.items()}


def _find_problem(run: ScoreInput, metric: str) -> str:
    summary = run.summary(options_for([metric]))
    reason = summary.undefined.get(metric, "not computed")
    return "" if metric in summary.metrics else f"{metric} is undefined: {reason}"


def _get_values_by_seed(
    methods: RunsByMethod, metric: str, *, unpaired: bool
) -> tuple[dict[str, dict[Block, float]], ScoreScale]:
    """Return the metric of each run by method and seed, and the scale of the scores."""
    options = options_for([metric])
    every = index_by_seed(methods, unpaired=unpaired)  # before runs are dropped: order may pair
    usable = drop_other_task_counts(
        drop_unusable(methods, lambda run: _find_problem(run, metric)), together=True
    )
    if len(usable) < 2:
        raise InputError("1 method is left, expected two or more to rank")
    indices = {
        name: {seed: k for seed, k in every[name].items() if methods[name][k] in runs}
        for name, runs in usable.items()
    }
    common = common_seeds(indices)
    if len(common) < 2:
        raise InputError(
            f"{count_of(len(common), 'seed')} in common, expected two or more to average ranks over"
        )
    values: dict[str, dict[Block, float]] = {}
    first: tuple[str, Summary] | None = None
    for name, own in indices.items():
        values[name] = {}
        for seed in own if unpaired else common:
            summary = methods[name][own[seed]].summary(options)
            first = first or (name, summary)
            _check_comparable(first, (name, summary))
            values[name][seed] = summary.metrics[metric]
    assert first is not None
    return values, first[1].scale


def _check_comparable(one: tuple[str, Summary], other: tuple[str, Summary]) -> None:
    counts = [len(summary.tasks) for _, summary in (one, other)]
    if counts[0] != counts[1]:
        raise InputError(
            f"{one[0]} has {counts[0]} tasks and {other[0]} has {counts[1]}, expected equally many "
            "for all methods"
        )
    if one[1].scale != other[1].scale:
        raise InputError(
            f"{other[0]} has scores of another range or direction than {one[0]}, expected the same "
            "kind of score everywhere"
        )
