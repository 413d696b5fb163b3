"""The sections of the page as plain data: text, tables and numbers for the template."""

from __future__ import annotations

import shlex
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ... import __version__
from ..._html import render_heatmap
from ...metrics import ACCURACY, better_direction, display_name, find_metric, parse_id
from ..labels import axis_label, merge_scales
from ..load import get_config
from ..tables.scores import ARROWS, format_metric, group_reasons
from .costs import CostsTable, make_costs_table
from .narrative import Interpretation, interpret
from .provenance import MethodProvenance, get_provenance
from .significance import PairTestOptions, compare_summaries, describe_significance
from .summaries import are_comparable, describe_difference

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...metrics import MethodsComparison, ScoreScale
    from .summaries import MethodSummary

__all__ = ["DEFAULT_TEST", "Sections", "build_sections"]

HEADLINE_IDS = (
    "acc", "acc.learning", "bwt", "forgetting.best", "min_acc", "wc_acc", "wf10", "gap.depth",
)  # fmt: skip
DEFAULT_TEST = PairTestOptions()


class ScoreNames(NamedTuple):
    """How the page names the scores, and their direction if methods share it."""

    name: str
    axis: str
    worst: str
    percent: bool
    lower: bool  # for any method
    accuracy: bool  # for any method


class MetricColumn(NamedTuple):
    """The header of a metric in the table of results."""

    id: str
    unit: str
    name: str
    arrow: str
    direction: str


class ResultCell(NamedTuple):
    """A value in the table of results, or the reason why it is undefined."""

    text: str = ""
    letters: str = ""
    interval: str = ""
    best: bool = False
    undefined: str = ""


class ResultRow(NamedTuple):
    """A method in the table of results."""

    name: str
    runs: int
    cells: list[ResultCell]


class MetricRow(NamedTuple):
    """A metric in the table of all metrics."""

    id: str
    name: str
    cells: list[str]


class Heatmap(NamedTuple):
    """The score matrix of a method as HTML, or the reason why there is none."""

    name: str
    html: str = ""
    undefined: str = ""


class MethodWarnings(NamedTuple):
    """Notes on a method, and its undefined metrics with reasons."""

    name: str
    notes: list[str]
    undefined: list[str]


class Definition(NamedTuple):
    """The definition of a metric."""

    id: str
    name: str
    formula: str
    source: str
    distinction: str
    meaning: str


class Sections(NamedTuple):
    """Everything that the page says."""

    title: str
    about: str
    version: str
    score: ScoreNames
    columns: list[MetricColumn]
    significance: str
    incomparable: str
    results: list[ResultRow]
    every_metric: list[MetricRow]
    interpretations: list[Interpretation]
    heatmaps: list[Heatmap]
    costs: CostsTable | None
    warnings: list[MethodWarnings]
    definitions: list[Definition]
    provenance: list[MethodProvenance]
    command: str


def build_sections(
    methods: Sequence[MethodSummary], command: Sequence[str], test: PairTestOptions = DEFAULT_TEST
) -> Sections:
    """Return every section; `command` holds the arguments of `perdure report`."""
    ids = [id_ for id_ in HEADLINE_IDS if any(id_ in method.summary.metrics for method in methods)]
    comparable = methods if are_comparable(methods) else []
    scale = merge_scales([method.scale for method in methods])
    compared, reason = compare_summaries(comparable, ids, test)
    return Sections(
        title=_make_title(methods),
        about=_describe_runs(methods),
        version=__version__,
        score=_name_scores([method.scale for method in methods]),
        columns=[_make_column(id_, methods, scale) for id_ in ids],
        significance=describe_significance(compared, reason, test),
        incomparable="" if comparable else describe_difference(methods),
        results=[_make_result_row(method, ids, comparable, compared) for method in methods],
        every_metric=_list_every_metric(methods, scale),
        interpretations=[interpret(method) for method in methods],
        heatmaps=[_make_heatmap(method) for method in methods],
        costs=make_costs_table({method.name: method.runs for method in methods}),
        warnings=[_list_warnings(method) for method in methods],
        definitions=[_define(id_, scale) for id_ in ids],
        provenance=[get_provenance(method) for method in methods],
        command=shlex.join(["perdure", "report", *command]),
    )


def _make_title(methods: Sequence[MethodSummary]) -> str:
    configs = [get_config(run) for method in methods for run in method.runs]
    scenarios = dict.fromkeys(str(c["scenario"]) for c in configs if "scenario" in c)
    return ", ".join(scenarios) or ", ".join(method.name for method in methods)


def _describe_runs(methods: Sequence[MethodSummary]) -> str:
    """Return what ran in one line: settings, networks, tasks, methods and runs."""
    configs = [get_config(run) for method in methods for run in method.runs]
    settings = dict.fromkeys(f"{c['setting']}-incremental" for c in configs if "setting" in c)
    models = dict.fromkeys(str(c["model"]) for c in configs if "model" in c)
    tasks = " or ".join(map(str, sorted({len(method.summary.tasks) for method in methods})))
    counts = [(tasks, "task"), (str(len(methods)), "method"), (str(len(configs)), "run")]
    words = [f"{count} {word}{'' if count == '1' else 's'}" for count, word in counts]
    return ", ".join([*settings, *models, *words])


def _name_scores(scales: Sequence[ScoreScale]) -> ScoreNames:
    scale = merge_scales(scales)
    one_way = len({one.lower_is_better for one in scales}) == 1
    return ScoreNames(
        name=scale.label,
        axis=axis_label(scale) if one_way else scale.label,
        worst=scale.worst if one_way else "worst",
        percent=scale.percent,
        lower=any(one.lower_is_better for one in scales),
        accuracy=any(one.label == ACCURACY.label for one in scales),
    )


def _make_column(id_: str, methods: Sequence[MethodSummary], scale: ScoreScale) -> MetricColumn:
    directions = {better_direction(id_, method.scale) for method in methods}
    direction = directions.pop() if len(directions) == 1 else ""  # both losses and accuracies
    return MetricColumn(
        id=id_,
        unit=_percent_unit(id_, scale),
        name=display_name(find_metric(id_), scale),
        arrow=ARROWS.get(direction, ""),
        direction=f"{direction} is better",
    )


def _percent_unit(id_: str, scale: ScoreScale) -> str:
    return " (%)" if scale.percent and find_metric(id_).unit != "none" else ""


def _make_result_row(
    method: MethodSummary,
    ids: Sequence[str],
    comparable: Sequence[MethodSummary],
    compared: Mapping[str, MethodsComparison],
) -> ResultRow:
    cells = []
    summary, percent = method.summary, method.scale.percent
    for id_ in ids:
        value = summary.metrics.get(id_)
        if value is None:
            cells.append(ResultCell(undefined=summary.undefined.get(id_, "not computed")))
            continue
        write = partial(format_metric, id_=id_, percent=percent, digits=3 + percent)
        sd = getattr(summary, "sd", {}).get(id_)
        cells.append(
            ResultCell(
                text=write(value) if sd is None else f"{write(value)} ± {write(sd)}",
                letters=compared[id_].letters.get(method.name, "") if id_ in compared else "",
                interval=" to ".join(map(write, summary.intervals.get(id_, ()))),
                best=_is_best(method, id_, comparable),
            )
        )
    return ResultRow(method.name, len(method.runs), cells)


def _is_best(method: MethodSummary, id_: str, comparable: Sequence[MethodSummary]) -> bool:
    values = [m.summary.metrics[id_] for m in comparable if id_ in m.summary.metrics]
    if len(values) < 2:
        return False
    best = max(values) if better_direction(id_, method.scale) == "higher" else min(values)
    # Compared as printed: of two equal numbers, neither alone may be bold.
    write = partial(format_metric, id_=id_, percent=False, digits=3)
    return write(method.summary.metrics[id_]) == write(best)


def _list_every_metric(methods: Sequence[MethodSummary], scale: ScoreScale) -> list[MetricRow]:
    """Return all metrics that any method has: few read them, some look for one."""
    rows = []
    for id_ in dict.fromkeys(id_ for method in methods for id_ in method.summary.metrics):
        values = [method.summary.metrics.get(id_) for method in methods]
        write = partial(format_metric, id_=id_, percent=scale.percent, digits=4)
        cells = ["" if value is None else write(value) for value in values]
        name = display_name(find_metric(id_), scale)
        rows.append(MetricRow(id_ + _percent_unit(id_, scale), name, cells))
    return rows


def _make_heatmap(method: MethodSummary) -> Heatmap:
    matrices = [run.matrix for run in method.runs if run.matrix is not None]
    if len(matrices) < len(method.runs):
        reason = next(run.no_matrix for run in method.runs if run.matrix is None)
        return Heatmap(method.name, undefined=reason or "there is no matrix")
    scale, runs = method.scale, len(matrices)
    factor = 100 if scale.percent else 1
    html = render_heatmap(
        factor * np.mean([matrix.scores for matrix in matrices], axis=0), method.tasks,
        low=factor * scale.low, high=factor * scale.high, lower_is_better=scale.lower_is_better,
        caption=method.name + (f", mean of {runs} runs" if runs > 1 else ""),
    )  # fmt: skip
    return Heatmap(method.name, html)


def _list_warnings(method: MethodSummary) -> MethodWarnings:
    bias: dict[str, float] = {}
    for summary in method.run_summaries:
        for id_, bound in summary.bias.items():
            bias[id_] = max(bound, bias.get(id_, 0.0))
    notes = [
        f"{id_} may be up to {bound:.3f} too {'high' if parse_id(id_).base == 'wf' else 'low'}: "
        "it is the extreme of noisy evaluations"
        for id_, bound in bias.items()
    ]
    undefined = group_reasons(method.summary.undefined)
    return MethodWarnings(method.name, [*notes, *method.notes], undefined)


def _define(id_: str, scale: ScoreScale) -> Definition:
    from .formulas import render_formula

    metric = find_metric(id_)
    rule_of_thumb = metric.rule_of_thumb if scale.label == ACCURACY.label else ""
    return Definition(
        id=id_,
        name=display_name(metric, scale),
        formula=render_formula(metric.formula),
        source=metric.source,
        distinction=metric.distinction,
        meaning=f"{rule_of_thumb} {metric.interpretation}".strip(),
    )
