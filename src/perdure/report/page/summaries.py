"""Methods with the summaries of their runs: what every section of the page is made from."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ...metrics import ACCURACY, SummaryOptions, summary_of_runs
from ...record import Run
from ..labels import merge_names, shorten_names
from ..load import get_config, split_scenario

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...metrics import RunsSummary, ScoreScale, Summary
    from ...record import ScoreInput
    from ..load import RunsByMethod

__all__ = [
    "MethodSummary",
    "describe_orders",
    "describe_parts",
    "split_methods",
    "summarize_methods",
]


@dataclass
class MethodSummary:
    """A method with its runs, the summary of each run, their common summary, and notes."""

    name: str
    runs: Sequence[ScoreInput]
    run_summaries: list[Summary]
    summary: Summary | RunsSummary
    notes: list[str] = field(default_factory=list)
    label: str = ""  # the name, shortened

    @property
    def scale(self) -> ScoreScale:
        """Range and direction of the scores."""
        return self.run_summaries[0].scale

    @property
    def tasks(self) -> list[str]:
        """Names of the tasks; numbers where runs name or order them differently."""
        return merge_names([summary.tasks for summary in self.run_summaries])


def summarize_methods(
    methods: RunsByMethod,
    on_progress: Callable[[int], None] = lambda done: None,  # noqa: ARG005
) -> list[MethodSummary]:
    """Return every method with all its metrics.

    Runs of one method with different numbers of tasks have no common mean: they are shown
    separately.

    Args:
        methods: runs by method.
        on_progress: called with the number of runs that are summarised so far.
    """
    summarized: list[MethodSummary] = []
    done = 0
    for name, runs in methods.items():
        summaries = []
        for run in runs:
            summaries.append(run.summary(SummaryOptions(curves=False)))
            done += 1
            on_progress(done)
        summarized += _split_by_task_count(name, runs, summaries)
    labels = shorten_names(method.name for method in summarized)
    for method in summarized:
        method.label = labels[method.name]
    return summarized


def _split_by_task_count(
    name: str, runs: Sequence[ScoreInput], summaries: Sequence[Summary]
) -> list[MethodSummary]:
    """Return a method, in one part per number of tasks that its runs have."""
    counts = sorted({len(summary.tasks) for summary in summaries}, reverse=True)
    parts = []
    for count in counts:
        indices = [k for k, summary in enumerate(summaries) if len(summary.tasks) == count]
        own = [summaries[k] for k in indices]
        summary = summary_of_runs(own) if len(own) > 1 else own[0]
        part = MethodSummary(name, [runs[k] for k in indices], own, summary, list(summary.notes))
        if len(counts) > 1:
            listed = " or ".join(map(str, reversed(counts)))
            part.name = f"{name} ({count} task{'' if count == 1 else 's'})"
            part.notes.append(f"runs of {name} have {listed} tasks and are shown separately")
        parts.append(part)
    return parts


def split_methods(methods: Sequence[MethodSummary]) -> list[tuple[str, list[MethodSummary]]]:
    """Return the methods that can be compared with each other, with what they have in common.

    They are of one scenario, setting, number of tasks and kind of score; what states no scenario
    belongs to the only one that is stated. Names and labels lose the scenario if there are several.
    """
    scenarios = [split_scenario(method.name, method.runs[0])[0] for method in methods]
    stated = set(filter(None, scenarios))
    only = stated.pop() if len(stated) == 1 else ""
    parts: dict[tuple[str, int, ScoreScale, str], list[MethodSummary]] = {}
    for method, scenario in zip(methods, scenarios, strict=True):
        key = (scenario or only, len(method.summary.tasks), method.scale, method.scale.label)
        parts.setdefault(key, []).append(method)
    if len(parts) < 2:
        return [("", list(methods))]
    return [(_name_part(*key[:3]), _without_scenario(own)) for key, own in parts.items()]


def describe_parts(methods: Sequence[MethodSummary]) -> str:
    """Return why the methods are in several parts of the page."""
    unfinished = any(isinstance(run, Run) and not run.finished for m in methods for run in m.runs)
    hint = " The option finished of perdure report leaves unfinished runs out." * unfinished
    return (
        "These methods learned different tasks or have different scores, so each kind has a part "
        f"of its own: no number says which is better across parts.{hint}"
    )


def _name_part(scenario: str, tasks: int, scale: ScoreScale) -> str:
    name, space, setting = scenario.rpartition(" ")
    words = [name, f"{setting}-incremental"] if space else [setting]
    words += [f"{tasks} task{'' if tasks == 1 else 's'}"]
    words += [] if scale.label == ACCURACY.label else [scale.label]
    return ", ".join(filter(None, words))


def _without_scenario(methods: Sequence[MethodSummary]) -> list[MethodSummary]:
    names = [split_scenario(method.name, method.runs[0])[1] for method in methods]
    if len(set(names)) < len(names):
        return list(methods)
    labels = shorten_names(names)
    return [replace(m, name=n, label=labels[n]) for m, n in zip(methods, names, strict=True)]


def describe_orders(methods: Sequence[MethodSummary]) -> str:
    """Return a caution if methods learned their tasks in different orders, or an empty string."""
    configs = [get_config(method.runs[0]) for method in methods]
    orders = {str([config.get(key) for key in ("order", "task_order")]) for config in configs}
    if len(orders) < 2:
        return ""
    return (
        "These rows differ in the task order, on which metrics depend: compare methods within one "
        "order, or over all orders with perdure compare."
    )
