"""Methods with the summaries of their runs, and what ran: config, versions, data, command."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from ...metrics import ACCURACY, SummaryOptions, summary_of_runs
from ...record import Run, RunMetadata
from ..labels import merge_names, shorten_names
from ..load import get_config, split_scenario

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ...metrics import RunsSummary, ScoreScale, Summary
    from ...record import ScoreInput
    from ..load import RunsByMethod

__all__ = [
    "MethodSummary",
    "RunsProvenance",
    "describe_orders",
    "describe_parts",
    "get_provenance",
    "make_command",
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


FACTS = ("scenario", "setting", "strategy", "model", "optimizer", "epochs", "batch")

# Options of `perdure run` that are named after their field, with the value they have by default.
OPTIONS: dict[str, object] = {
    "model": None, "setting": None, "batch": None, "optimizer": None, "schedule": "constant",
    "every": None, "num_tasks": None, "image_size": None, "input": None, "channels": None,
    "boundaries": "sharp", "blur": 0.0, "patience": None,
    "early_stopping_split": 0.0, "validation_split": 0.0, "gradients": None, "threads": 1,
    "device": None, "precision": "default",
}  # fmt: skip
FLAGS = ("mask_unseen", "resample", "unseen", "evaluate_train", "channels_last")


class MethodProvenance(NamedTuple):
    """What a reader needs to repeat the runs of a method: facts, each of several parts."""

    name: str
    facts: dict[str, list[str]]
    command: str | None
    data: list[str]


class RunsProvenance(NamedTuple):
    """What ran: what all methods share, and each method with the rest."""

    facts: dict[str, list[str]]
    data: list[str]
    methods: list[MethodProvenance]


def get_provenance(methods: Sequence[MethodSummary]) -> RunsProvenance:
    """Return what ran; facts that several methods share are stated once."""
    every = [_get_method_provenance(method) for method in methods]
    if len(every) < 2:
        return RunsProvenance({}, [], every)
    first, *others = every
    shared = {
        name: parts
        for name, parts in first.facts.items()
        if name != "runs" and all(other.facts.get(name) == parts for other in others)
    }
    data = first.data if all(other.data == first.data for other in others) else []
    own = [
        method._replace(
            facts={name: parts for name, parts in method.facts.items() if name not in shared},
            data=[] if data else method.data,
        )
        for method in every
    ]
    return RunsProvenance(shared, data, own)


def _get_method_provenance(method: MethodSummary) -> MethodProvenance:
    """Return what ran for a method; config, versions and data are those of its first run."""
    run, config = method.runs[0], get_config(method.runs[0])
    metadata = run.metadata if isinstance(run, Run) else RunMetadata()
    seeds = [get_config(run).get("seed") for run in method.runs]
    facts = {
        "runs": [_describe_seeds(method, [str(seed) for seed in seeds if seed is not None])],
        "tasks": method.tasks,
        **{key: [str(config[key])] for key in FACTS if config.get(key) not in (None, "")},
        "versions": [f"{name} {version}" for name, version in metadata.versions.items()],
        "CPU": [metadata.cpu] if metadata.cpu else [],
        "records": [run.folder.name for run in method.runs if isinstance(run, Run)],
    }
    return MethodProvenance(
        name=method.name,
        facts={name: parts for name, parts in facts.items() if parts},
        command=make_command(config, [seed for seed in seeds if isinstance(seed, int)]),
        data=_list_hashes(config.get("data")),
    )


def _describe_seeds(method: MethodSummary, seeds: Sequence[str]) -> str:
    unfinished = sum(isinstance(run, Run) and not run.finished for run in method.runs)
    parts = [str(len(method.runs))]
    if seeds:
        parts.append(f"seed{'s' if len(seeds) > 1 else ''} {', '.join(seeds)}")
    if unfinished:
        parts.append(f"{unfinished} unfinished")
    return ", ".join(parts)


def make_command(config: Mapping[str, object], seeds: Sequence[int]) -> str | None:
    """Return the `perdure run` command of a config with every choice; None for other programs.

    Example:
        >>> config = {"scenario": "split-digits", "strategy": "replay", "epochs": 5, "batch": 10}
        >>> make_command(config, [0, 1])
        'perdure run split-digits replay --seeds 0,1 --epochs 5 --batch 10'
    """
    if not {"scenario", "strategy", "epochs"} <= config.keys():
        return None
    scenario = config.get("data_path") or config["scenario"]
    words = ["perdure", "run", str(scenario), str(config["strategy"])]
    if seeds:  # a single number would be the number of seeds; a comma makes it a list
        words += _option("seeds", ",".join(map(str, seeds)) + "," * (len(seeds) == 1))
    length = "epochs" if config.get("iterations") is None else "iterations"
    words += _option(length, config[length])
    for name, default in OPTIONS.items():
        if config.get(name) not in (None, default):
            words += _option(name, config[name])
    if "subset" in config:
        words += _option("subset", "all" if config["subset"] is None else config["subset"])
    for order in ("order", "task_order"):
        if config.get(order) is not None:
            words += _option(order, _format(config[order]))
    words += [_flag(field) for field in FLAGS if config.get(field)]
    words += [_flag("no_per_example")] if config.get("per_example") is False else []
    for group in ("optimizer_options", "schedule_options", "options", "model_options"):
        values = config.get(group)
        for name, value in values.items() if isinstance(values, dict) else ():
            words += _option("set", f"{name}={_format(value)}")
    return shlex.join(words)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _option(name: str, value: object) -> list[str]:
    return [_flag(name), str(value)]


def _format(value: object) -> str:
    if isinstance(value, list):
        return ",".join(map(str, value))
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def _list_hashes(data: object) -> list[str]:
    if not isinstance(data, dict):
        return []
    return [
        f"{name} {file} {digest}"
        for name, files in data.items()
        if isinstance(files, dict) and isinstance(files.get("sha256"), dict)
        for file, digest in files["sha256"].items()
    ]
