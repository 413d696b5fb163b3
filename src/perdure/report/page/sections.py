"""Everything that the page says, gathered from the runs: plain text, tables and numbers."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import __version__
from ..._html import heatmap
from ...metrics import (
    ACCURACY,
    better_direction,
    display_name,
    find_metric,
    parse_id,
    summary_of_runs,
)
from ...record import Run
from ..curve_data import axis_label, merge_names, merge_scales
from ..load import get_config
from ..tables.scores import format_value, group_reasons
from .command import make_command
from .costs import make_costs_table
from .narrative import DIAGNOSIS_IDS, describe_scores, describe_stability_gap, diagnose
from .significance import PairTestOptions, compare_summaries, describe_significance

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ...metrics import MethodsComparison, RunsSummary, ScoreScale, Summary
    from ...record import ScoreInput
    from ..load import RunsByMethod

__all__ = ["MethodSummary", "build_sections", "summarize_methods"]

HEADLINE = (
    "acc", "acc.learning", "bwt", "forgetting.best", "min_acc", "wc_acc", "wf10", "gap.depth",
)  # fmt: skip
DEFAULT_TEST = PairTestOptions()


@dataclass
class MethodSummary:
    """A method with its runs, what was computed of them, and what a reader should be told."""

    name: str
    runs: Sequence[ScoreInput]
    each: list[Summary]
    found: Summary | RunsSummary
    notes: list[str] = field(default_factory=list)

    @property
    def scale(self) -> ScoreScale:
        """Range and direction of its scores."""
        return self.each[0].scale


def summarize_methods(
    methods: RunsByMethod,
    told: Callable[[int], None] = lambda done: None,  # noqa: ARG005
) -> list[MethodSummary]:
    """Return every method with all its metrics.

    Runs of one method that have other numbers of tasks share no mean: each number is shown apart.

    Args:
        methods: by name.
        told: is called with the number of runs that are done.
    """
    shown, done = [], 0
    for name, runs in methods.items():
        each = []
        for run in runs:
            each.append(run.summary())
            done += 1
            told(done)
        shown += _by_tasks(name, runs, each)
    return shown


def _by_tasks(
    name: str, runs: Sequence[ScoreInput], each: Sequence[Summary]
) -> list[MethodSummary]:
    """Return a method, or one part of it for each number of tasks that its runs have."""
    counts = sorted({len(one.tasks) for one in each}, reverse=True)
    apart = len(counts) > 1
    shown = []
    for count in counts:
        mine = [k for k, one in enumerate(each) if len(one.tasks) == count]
        label = f"{name} ({count} task{'' if count == 1 else 's'})" if apart else name
        found = [each[k] for k in mine]
        method = MethodSummary(label, [runs[k] for k in mine], found, found[0])
        if len(mine) > 1:
            method.found = summary_of_runs(method.each)
        method.notes += method.found.notes
        if apart:
            listed = " or ".join(map(str, reversed(counts)))
            method.notes.append(f"runs of {name} have {listed} tasks and are shown apart")
        shown.append(method)
    return shown


def build_sections(
    shown: Sequence[MethodSummary], command: Sequence[str], how: PairTestOptions = DEFAULT_TEST
) -> dict[str, Any]:
    """Return what the template takes: every section as plain data; the command makes it again."""
    ids = [id_ for id_ in HEADLINE if any(id_ in method.found.metrics for method in shown)]
    alike = _alike(shown)
    scale = merge_scales([method.scale for method in shown])
    compared, reason = compare_summaries(shown if alike else [], ids, how)
    return {
        "title": _title(shown),
        "about": _about(shown),
        "version": __version__,
        "ran": [_ran(method) for method in shown],
        "score": _score(shown),
        "ids": [_column(id_, shown) for id_ in ids],
        "unlike": "" if alike else _unlike(shown),
        "tested": describe_significance(compared, reason, how),
        "headline": [_headline(method, ids, shown if alike else [], compared) for method in shown],
        "every": _every(shown),
        "readings": [_reading(method) for method in shown],
        "heatmaps": [_heatmap(method) for method in shown],
        "costs": make_costs_table({method.name: method.runs for method in shown}),
        "warnings": [_warnings(method) for method in shown],
        "definitions": [_definition(id_, scale) for id_ in ids],
        "again": [_again(method) for method in shown],
        "command": shlex.join(["perdure", "report", *command]),
    }


def _title(shown: Sequence[MethodSummary]) -> str:
    said = [get_config(run) for method in shown for run in method.runs]
    names = dict.fromkeys(str(each["scenario"]) for each in said if "scenario" in each)
    return ", ".join(names) or ", ".join(method.name for method in shown)


def _about(shown: Sequence[MethodSummary]) -> str:
    """Return what ran in one line: settings, networks, tasks, methods and runs."""
    said = [get_config(run) for method in shown for run in method.runs]
    settings = dict.fromkeys(f"{each['setting']}-incremental" for each in said if "setting" in each)
    models = dict.fromkeys(str(each["model"]) for each in said if "model" in each)
    runs = sum(len(method.runs) for method in shown)
    tasks = " or ".join(map(str, sorted({len(method.found.tasks) for method in shown})))
    counts = [(tasks, "task"), (str(len(shown)), "method"), (str(runs), "run")]
    words = [f"{count} {word}{'' if count == '1' else 's'}" for count, word in counts]
    return ", ".join([*settings, *models, *words])


def _ran(method: MethodSummary) -> dict[str, Any]:
    said = get_config(method.runs[0])
    seeds = [get_config(run).get("seed") for run in method.runs]
    keys = ("scenario", "setting", "strategy", "model", "optimizer", "epochs", "batch")
    facts = {key: said[key] for key in keys if said.get(key) not in (None, "")}
    unfinished = sum(isinstance(run, Run) and not run.finished for run in method.runs)
    return {
        "name": method.name,
        "runs": len(method.runs),
        "seeds": ", ".join(str(seed) for seed in seeds if seed is not None),
        "tasks": _tasks(method),
        "facts": facts,
        "unfinished": unfinished,
    }


def _alike(shown: Sequence[MethodSummary]) -> bool:
    """Return whether the methods did the same thing, so that one may be called the best."""
    said = [get_config(method.runs[0]) for method in shown]
    known = [{str(each[key]) for each in said if key in each} for key in ("scenario", "setting")]
    scales = {(method.scale, method.scale.label) for method in shown}
    counts = {len(method.found.tasks) for method in shown}
    return len(scales) == len(counts) == 1 and all(len(each) < 2 for each in known)


def _unlike(shown: Sequence[MethodSummary]) -> str:
    """Return why no method is called the best."""
    counts = sorted({len(method.found.tasks) for method in shown})
    if len(counts) == 1:
        what = "These methods learned other tasks or have other scores"
    else:
        what = f"These runs have {' or '.join(map(str, counts))} tasks"
    return f"{what}: no number here says which is better."


def _score(shown: Sequence[MethodSummary]) -> dict[str, Any]:
    """Return what the page calls the scores: their name and direction where methods share them."""
    scales = [method.scale for method in shown]
    scale = merge_scales(scales)
    one_way = len({each.lower_is_better for each in scales}) == 1
    return {
        "name": scale.label,
        "axis": axis_label(scale) if one_way else scale.label,
        "worst": scale.worst if one_way else "worst",
        "percent": scale.percent,
        "lower": any(each.lower_is_better for each in scales),
        "accuracy": any(each.label == ACCURACY.label for each in scales),
    }


def _tasks(method: MethodSummary) -> list[str]:
    """Return the names of its tasks; places where its runs name or order them otherwise."""
    return merge_names([one.tasks for one in method.each])


def _column(id_: str, shown: Sequence[MethodSummary]) -> dict[str, str]:
    scale = merge_scales([method.scale for method in shown])
    ways = {better_direction(id_, method.scale) for method in shown}
    way = ways.pop() if len(ways) == 1 else ""  # losses beside accuracies
    in_percent = scale.percent and find_metric(id_).unit != "none"
    return {
        "id": id_,
        "unit": " (%)" if in_percent else "",
        "name": display_name(find_metric(id_), scale),
        "arrow": {"higher": "↑", "lower": "↓"}.get(way, ""),
        "way": f"{way} is better",
    }


def _headline(
    method: MethodSummary,
    ids: Sequence[str],
    shown: Sequence[MethodSummary],
    compared: Mapping[str, MethodsComparison],
) -> dict[str, Any]:
    cells: list[dict[str, Any]] = []
    percent = method.scale.percent
    for id_ in ids:
        value = method.found.metrics.get(id_)
        if value is None:
            cells.append({"why": method.found.undefined.get(id_, "not computed")})
            continue
        unit = find_metric(id_).unit
        shown_as = partial(format_value, unit=unit, percent=percent, digits=3 + percent)
        text = shown_as(value)
        sd = getattr(method.found, "sd", {}).get(id_)
        if sd is not None:
            text += f" ± {shown_as(sd)}"
        ends = method.found.intervals.get(id_)
        between = " to ".join(shown_as(end) for end in ends or ())
        letters = compared[id_].letters.get(method.name, "") if id_ in compared else ""
        cells.append(
            {
                "text": text,
                "letters": letters,
                "interval": between,
                "best": _is_best(method, id_, shown),
            }
        )
    return {"name": method.name, "runs": len(method.runs), "cells": cells}


def _every(shown: Sequence[MethodSummary]) -> dict[str, Any]:
    """Return all metrics that any method has, a row each: few read them, some look for one."""
    rows, scale = [], merge_scales([method.scale for method in shown])
    for id_ in dict.fromkeys(id_ for method in shown for id_ in method.found.metrics):
        metric = find_metric(id_)
        values = [method.found.metrics.get(id_) for method in shown]
        cells = [
            ""
            if value is None
            else format_value(value, metric.unit, percent=scale.percent, digits=4)
            for value in values
        ]
        unit = " (%)" if scale.percent and metric.unit != "none" else ""
        rows.append({"id": id_ + unit, "name": display_name(metric, scale), "cells": cells})
    return {"methods": [method.name for method in shown], "rows": rows}


def _is_best(method: MethodSummary, id_: str, shown: Sequence[MethodSummary]) -> bool:
    values = [each.found.metrics[id_] for each in shown if id_ in each.found.metrics]
    if len(values) < 2:
        return False
    best = max(values) if better_direction(id_, method.scale) == "higher" else min(values)
    # As printed: two equal numbers of which one is bold would puzzle a reader.
    unit = find_metric(id_).unit
    mine, top = (
        format_value(value, unit, percent=False, digits=3)
        for value in (method.found.metrics[id_], best)
    )
    return mine == top


def _reading(method: MethodSummary) -> dict[str, str]:
    finals = method.found.per_task.get("acc", [])[:-1]
    known = [value for value in finals if value is not None]
    older = float(np.mean(known)) if known else None
    if method.scale.label != ACCURACY.label:
        why = describe_scores(method.found.metrics, method.scale, older)
        if why is not None:
            return {"name": method.name, "what": "", "why": why}
    found = diagnose(method.found.metrics, percent=method.scale.percent)
    if found is None:
        lacks = next(id_ for id_ in DIAGNOSIS_IDS if id_ not in method.found.metrics)
        why = f"{lacks} is undefined: {method.found.undefined.get(lacks, 'not computed')}"
        return {"name": method.name, "what": "", "why": why}
    gap = describe_stability_gap(method.found.metrics, older, percent=method.scale.percent)
    return {
        "name": method.name,
        "what": found.name,
        "why": "; ".join(filter(None, (found.why, gap))),
    }


def _heatmap(method: MethodSummary) -> dict[str, str]:
    matrices = [run.matrix for run in method.runs if run.matrix is not None]
    if len(matrices) < len(method.runs):
        why = next(run.no_matrix for run in method.runs if run.matrix is None)
        return {"name": method.name, "why": why or "there is no matrix"}
    scale, runs = method.scale, len(matrices)
    factor = 100 if scale.percent else 1
    mean = factor * np.mean([matrix.scores for matrix in matrices], axis=0)
    over = f", mean of {runs} runs" if runs > 1 else ""
    html = heatmap(mean, _tasks(method), low=factor * scale.low, high=factor * scale.high,
                   lower_is_better=scale.lower_is_better,
                   caption=f"{method.name}{over}")  # fmt: skip
    return {"name": method.name, "html": html}


def _warnings(method: MethodSummary) -> dict[str, Any]:
    bias: dict[str, float] = {}
    for one in method.each:
        for id_, most in one.bias.items():
            bias[id_] = max(most, bias.get(id_, 0.0))
    subset = [
        f"{id_} may be up to {most:.3f} too {_side(id_)}: it is the extreme of noisy evaluations"
        for id_, most in bias.items()
    ]
    return {
        "name": method.name,
        "notes": [*subset, *method.notes],
        "undefined": group_reasons(method.found.undefined),
    }


def _side(id_: str) -> str:
    return "high" if parse_id(id_).base == "wf" else "low"


def _definition(id_: str, scale: ScoreScale) -> dict[str, str]:
    from .formulas import render_formula

    metric = find_metric(id_)
    rule_of_thumb = metric.rule_of_thumb if scale.label == ACCURACY.label else ""
    return {
        "id": id_,
        "name": display_name(metric, scale),
        "formula": render_formula(metric.formula),
        "source": metric.source,
        "differs": metric.distinction,
        "meaning": f"{rule_of_thumb} {metric.interpretation}".strip(),
    }


def _again(method: MethodSummary) -> dict[str, Any]:
    run = method.runs[0]
    said = get_config(run)
    about: Mapping[str, Any] = run.description if isinstance(run, Run) else {}
    versions = about.get("versions")
    seeds = [s for each in method.runs if isinstance(s := get_config(each).get("seed"), int)]
    return {
        "name": method.name,
        "command": make_command(said, seeds),
        "versions": versions if isinstance(versions, dict) else {},
        "cpu": about.get("cpu") or "",
        "data": _hashes(said.get("data")),
        "folders": [each.folder.name for each in method.runs if isinstance(each, Run)],
    }


def _hashes(data: object) -> list[str]:
    if not isinstance(data, dict):
        return []
    return [
        f"{name} {file} {digest}"
        for name, each in data.items()
        if isinstance(each, dict) and isinstance(each.get("sha256"), dict)
        for file, digest in each["sha256"].items()
    ]
