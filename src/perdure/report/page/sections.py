"""The sections of the page as plain data: text, tables and numbers for the template."""

from __future__ import annotations

import re
import shlex
from functools import partial
from html import escape
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from msgspec.structs import asdict

from ... import __version__
from ..._display import render_heatmap
from ...metrics import ACCURACY, display_name, find_metric
from ..labels import axis_label, merge_scales
from ..load import get_config
from ..tables.scores import format_metric
from .lost_examples import LostExamples, find_lost_examples
from .narrative import (
    Interpretation,
    WarningGroup,
    group_notes,
    group_undefined,
    group_warnings,
    interpret,
)
from .plot_data import CriteriaData, CurveData, make_criteria_data, make_curve_data
from .results import (
    CostsTable,
    MetricColumn,
    PairTestOptions,
    ResultRow,
    compare_summaries,
    describe_significance,
    describe_verdicts,
    make_columns,
    make_costs_table,
    make_rows,
    percent_unit,
)
from .summaries import (
    RunsProvenance,
    describe_orders,
    describe_parts,
    get_provenance,
    split_methods,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...metrics import ScoreScale
    from .lost_examples import ShowExample
    from .summaries import MethodSummary

__all__ = ["DEFAULT_TEST", "Sections", "build_sections", "render_formula"]

HEADLINE_IDS = (
    "acc", "acc.learning", "bwt", "forgetting.best", "retention", "retention.worst",
    "min_acc", "wc_acc", "wf10", "gap.depth",
)  # fmt: skip
DEFAULT_TEST = PairTestOptions()
FORMULA_POINTS = 15.0
# LaTeX that matplotlib's mathtext lacks, and its replacement.
REPLACEMENTS = (
    (r"\\le(?![a-zA-Z])", r"\\leq"),
    (r"\\ge(?![a-zA-Z])", r"\\geq"),
    (r"\\t?frac(\w)(\w)", r"\\frac{\1}{\2}"),
    (r"\\frac", r"\\dfrac"),  # matplotlib draws a \frac in the size of an index
    (r"\\[bB]igg?(?![a-zA-Z])", ""),
    (r" \\(sum|min|max)(?=_)", r"\\;\\\1"),  # else what is below it touches its neighbour
)


class ScoreNames(NamedTuple):
    """How a part of the page names its scores."""

    name: str
    axis: str
    worst: str
    percent: bool
    accuracy: bool


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


class Definition(NamedTuple):
    """The definition of a metric."""

    id: str
    name: str
    formula: str
    source: str
    distinction: str
    meaning: str


class PagePart(NamedTuple):
    """What the page says of methods that can be compared: those of one scenario.

    `suffix` makes the ids of its elements unique on the page; it is empty for the first part.
    """

    heading: str
    suffix: str
    score: ScoreNames
    columns: list[MetricColumn]
    significance: str
    verdicts: dict[str, str]
    orders: str
    long_names: dict[str, str]
    results: list[ResultRow]
    every_metric: list[MetricRow]
    interpretations: list[Interpretation]
    heatmaps: list[Heatmap]
    lost_examples: list[LostExamples]
    costs: CostsTable | None
    curves: CurveData
    criteria: CriteriaData | None

    @property
    def plots(self) -> dict[str, object]:
        """The data that the page's script plots."""
        score = {"score": self.score.axis, "percent": self.score.percent}
        return {**asdict(self.curves), "criteria": self.criteria, **score}


class Sections(NamedTuple):
    """Everything that the page says."""

    title: str
    about: str
    version: str
    lower: bool  # lower scores are better for any method
    difference: str  # between parts
    parts: list[PagePart]
    left_out: list[WarningGroup]
    warnings: list[WarningGroup]
    undefined: list[WarningGroup]
    definitions: list[Definition]
    provenance: RunsProvenance
    command: str


def build_sections(
    methods: Sequence[MethodSummary],
    command: Sequence[str],
    test: PairTestOptions = DEFAULT_TEST,
    left_out: Sequence[str] = (),
    show: ShowExample | None = None,
) -> Sections:
    """Return every section; `command` holds the arguments of `perdure report`."""
    scale = merge_scales([method.scale for method in methods])
    parts = split_methods(methods)
    return Sections(
        title=_make_title(methods),
        about=_describe_runs(methods),
        version=__version__,
        difference=describe_parts(methods) if len(parts) > 1 else "",
        lower=any(method.scale.lower_is_better for method in methods),
        parts=[
            _build_part(heading, f"-{k}" if k > 1 else "", own, test, show)
            for k, (heading, own) in enumerate(parts, start=1)
        ],
        left_out=group_notes(left_out),
        warnings=group_warnings(methods),
        undefined=group_undefined(methods),
        definitions=[_define(id_, scale) for id_ in _list_headline_ids(methods)],
        provenance=get_provenance(methods),
        command=shlex.join(["perdure", "report", *command]),
    )


def _build_part(
    heading: str,
    suffix: str,
    methods: Sequence[MethodSummary],
    test: PairTestOptions,
    show: ShowExample | None,
) -> PagePart:
    ids = _list_headline_ids(methods)
    scale = merge_scales([method.scale for method in methods])
    compared, reason = compare_summaries(methods, ids, test)
    runs = {method.label: method.runs for method in methods}
    metrics = {m.label: m.summary.metrics for m in methods if m.scale.is_accuracy}
    return PagePart(
        heading=heading,
        suffix=suffix,
        score=_name_scores(scale),
        columns=make_columns(ids, methods, scale),
        significance=describe_significance(compared, reason, test),
        verdicts=describe_verdicts(compared, {method.name: method.label for method in methods}),
        orders=describe_orders(methods),
        long_names={m.label: m.name for m in methods if m.label != m.name},
        results=make_rows(methods, ids, compared),
        every_metric=_list_every_metric(methods, scale),
        interpretations=[interpret(method) for method in methods],
        heatmaps=[_make_heatmap(method) for method in methods],
        lost_examples=find_lost_examples(methods, show),
        costs=make_costs_table(runs),
        curves=make_curve_data(runs),
        criteria=make_criteria_data(metrics, runs),
    )


def _list_headline_ids(methods: Sequence[MethodSummary]) -> list[str]:
    return [id_ for id_ in HEADLINE_IDS if any(id_ in m.summary.metrics for m in methods)]


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


def _name_scores(scale: ScoreScale) -> ScoreNames:
    return ScoreNames(
        name=scale.label,
        axis=axis_label(scale),
        worst=scale.worst,
        percent=scale.percent,
        accuracy=scale.label == ACCURACY.label,
    )


def _list_every_metric(methods: Sequence[MethodSummary], scale: ScoreScale) -> list[MetricRow]:
    """Return all metrics that any method has: few read them, some look for one."""
    rows = []
    for id_ in dict.fromkeys(id_ for method in methods for id_ in method.summary.metrics):
        values = [method.summary.metrics.get(id_) for method in methods]
        write = partial(format_metric, id_=id_, percent=scale.percent, digits=4)
        cells = ["" if value is None else write(value) for value in values]
        name = display_name(find_metric(id_), scale)
        rows.append(MetricRow(id_ + percent_unit(id_, scale), name, cells))
    return rows


def _make_heatmap(method: MethodSummary) -> Heatmap:
    matrices = [run.matrix for run in method.runs if run.matrix is not None]
    if len(matrices) < len(method.runs):
        reason = next(run.no_matrix for run in method.runs if run.matrix is None)
        return Heatmap(method.label, undefined=reason or "there is no matrix")
    scale, runs = method.scale, len(matrices)
    factor = 100 if scale.percent else 1
    html = render_heatmap(
        factor * np.mean([matrix.scores for matrix in matrices], axis=0),
        method.tasks[: len(matrices[0].tasks)],  # others are evaluated and never learned
        low=factor * scale.low, high=factor * scale.high, lower_is_better=scale.lower_is_better,
        caption=method.label + (f", mean of {runs} runs" if runs > 1 else ""),
    )  # fmt: skip
    return Heatmap(method.label, html)


def _define(id_: str, scale: ScoreScale) -> Definition:
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


def render_formula(latex: str) -> str:
    r"""Return a formula as SVG in the colour of the surrounding text.

    Example:
        >>> render_formula(r"\frac1T \sum_j R_{T,j}")[:17]
        '<svg role="img" a'
    """
    from matplotlib.path import Path as Outline
    from matplotlib.textpath import TextPath

    commands = {Outline.MOVETO: "M", Outline.LINETO: "L", Outline.CURVE3: "Q", Outline.CURVE4: "C"}
    supported = latex
    for old, new in REPLACEMENTS:
        supported = re.sub(old, new, supported)
    outline = TextPath((0, 0), f"${supported}$", size=FORMULA_POINTS)
    box = outline.get_extents()
    at = f"{box.x0 - 1:.1f} {-box.y1 - 1:.1f} {box.width + 2:.1f} {box.height + 2:.1f}"
    parts = []
    for coordinates, code in outline.iter_segments():
        pairs = coordinates.reshape(-1, 2)
        numbers = " ".join(f"{x:.1f} {-y:.1f}" for x, y in pairs)
        parts.append("Z" if code == Outline.CLOSEPOLY else commands[code] + numbers)
    return (
        f'<svg role="img" aria-label="{escape(latex)}" viewBox="{at}" '
        f'width="{box.width + 2:.0f}" height="{box.height + 2:.0f}">'
        f'<path fill="currentColor" d="{"".join(parts)}"/></svg>'
    )
