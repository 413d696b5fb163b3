"""Values that figures draw: results by class at task ends, and what methods are ranked by."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from .._display import count_of
from ..metrics import common_seeds, find_metric, options_for
from ..record import InputError, Run, RunFolder
from .filtering import LeftOutWarning, drop_unusable
from .load import index_by_seed, split_scenario

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from ..metrics import ScoreScale, Summary
    from ..record import ScoreInput
    from ..record.formats.tables import Confusion
    from .load import RunsByMethod

    Block = int | str  # a seed or a scenario

__all__ = [
    "ClassResults",
    "RankValues",
    "count_classes",
    "explain_missing_classes",
    "get_rank_values",
    "read_classes",
]

MAX_CLASSES = 2000


@dataclass(frozen=True, eq=False)
class ClassResults:
    """Accuracy by class after each task, on the tasks learned so far, and the last predictions.

    Attributes:
        tasks: the tasks in the order of learning.
        classes: labels, in the order in which they were learned.
        learned: number of the task with which each class was learned first.
        accuracy: (tasks, classes), NaN where a class had no examples yet.
        outputs: classes that were predicted, `classes` first.
        predictions: (classes, outputs), counts of examples after the last task.
        names: class names by label, where the run states them.
    """

    tasks: tuple[str, ...]
    classes: tuple[int, ...]
    learned: NDArray[np.int64]
    accuracy: NDArray[np.float64]
    outputs: tuple[int, ...]
    predictions: NDArray[np.int64]
    names: Mapping[int, str] = field(default_factory=dict)

    def forgetting(self) -> NDArray[np.float64]:
        """Return the best accuracy on each class before the last task minus that after it.

        NaN for classes that were learned last.
        """
        before = np.where(np.isnan(self.accuracy[:-1]), -np.inf, self.accuracy[:-1])
        best = before.max(axis=0, initial=-np.inf)
        return np.where(np.isinf(best), np.nan, best - self.accuracy[-1])


def explain_missing_classes(run: ScoreInput) -> str:
    """Return why a run has no results by class, an empty string if it has them."""
    if not isinstance(run, Run) or run.folder == Path():
        return (
            "scores only, expected labels and predicted classes, which run folders have: those of "
            "`perdure run`, or of an Evaluator with accuracy as the score"
        )
    try:
        confusion = RunFolder(run.folder).confusion()
        if confusion is not None and len(confusion.count):
            count_classes(confusion)
            return ""
    except InputError as error:
        return str(error)
    return (
        "no confusion.csv, expected predicted classes at task ends; run it again with accuracy as "
        "the score, one label per example and per-example results (the default)"
    )


def read_classes(run: ScoreInput, tasks: int | None = None) -> ClassResults:
    """Return the results by class of a run for which `explain_missing_classes` has no reason."""
    assert isinstance(run, Run)
    confusion = RunFolder(run.folder).confusion()
    assert confusion is not None
    return replace(count_classes(confusion, tasks), names=run.metadata.class_names)


def count_classes(confusion: Confusion, tasks: int | None = None) -> ClassResults:
    r"""Return the results by class after each of the first tasks, all of them by default.

    Example:
        >>> from perdure.record.formats.tables import read_confusion
        >>> text = ("step,trained,tested,label,predicted,count\n"
        ...         "5,a,a,0,0,4\n9,b,a,0,0,1\n9,b,a,0,1,3\n9,b,b,1,1,2\n")
        >>> results = count_classes(read_confusion(text, "confusion.csv"))
        >>> results.accuracy.tolist(), results.forgetting().tolist()
        ([[1.0, nan], [0.25, 1.0]], [0.75, nan])
    """
    steps = np.unique(confusion.step)[:tasks]
    order = dict(zip(confusion.step.tolist(), confusion.trained, strict=True))
    names = tuple(order[step] for step in steps.tolist())
    first = {name: row for row, name in reversed(list(enumerate(names)))}
    rows = np.searchsorted(steps, confusion.step)
    since = np.array([first.get(name, len(steps)) for name in confusion.tested])
    kept = (rows < len(steps)) & (since <= rows)  # not those of tasks that come later
    rows, label, predicted = rows[kept], confusion.label[kept], confusion.predicted[kept]
    count, since = confusion.count[kept], since[kept]
    classes = sorted(set(label.tolist()), key=lambda c: (since[label == c].min(), c))
    outputs = [*classes, *sorted(set(predicted.tolist()) - set(classes))]
    if len(outputs) > MAX_CLASSES:
        raise InputError(f"{len(outputs)} classes, expected at most {MAX_CLASSES}")
    at_label, at_predicted = _positions(label, classes), _positions(predicted, outputs)
    totals = np.zeros((len(steps), len(classes)))
    right = totals.copy()
    np.add.at(totals, (rows, at_label), count)
    np.add.at(right, (rows, at_label), np.where(label == predicted, count, 0))
    predictions = np.zeros((len(classes), len(outputs)), dtype=np.int64)
    last = rows == len(steps) - 1
    np.add.at(predictions, (at_label[last], at_predicted[last]), count[last])
    learned = np.array([since[label == c].min() for c in classes], dtype=np.int64)
    with np.errstate(invalid="ignore"):
        accuracy = right / totals
    return ClassResults(names, tuple(classes), learned, accuracy, tuple(outputs), predictions)


def _positions(values: NDArray[np.int64], names: list[int]) -> NDArray[np.int64]:
    order = np.argsort(names)
    return order[np.searchsorted(np.array(names)[order], values)]


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
        usable = _drop_undefined(methods, metric)
        if len(usable) < len(names):
            raise InputError(f"{scenario}: {metric} is undefined for a method, expected it for all")
        for name, runs in usable.items():
            several = [run.summary(options_for([metric])) for run in runs]
            scale = scale or several[0].scale
            if any(one.scale != scale for one in several):
                raise InputError(
                    f"{scenario} has scores of another range or direction, expected the same kind "
                    "of score everywhere"
                )
            values[name][scenario] = float(np.mean([one.metrics[metric] for one in several]))
            merged[name] += methods[name]
    assert scale is not None
    return RankValues(values, scale, "scenarios", merged)


def _drop_undefined(methods: RunsByMethod, metric: str) -> RunsByMethod:
    def find_problem(run: ScoreInput) -> str:
        summary = run.summary(options_for([metric]))
        reason = summary.undefined.get(metric, "not computed")
        return "" if metric in summary.metrics else f"{metric} is undefined: {reason}"

    return drop_unusable(methods, find_problem, together=True)


def _get_values_by_seed(
    methods: RunsByMethod, metric: str, *, unpaired: bool
) -> tuple[dict[str, dict[Block, float]], ScoreScale]:
    options = options_for([metric])
    every = index_by_seed(methods, unpaired=unpaired)  # before runs are dropped: order may pair
    usable = _drop_undefined(methods, metric)
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
