"""One strategy at several values of a hyperparameter: its curves, and metrics against the value.

After De Lange et al. (2023), figures 3 and 7.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib as mpl
import numpy as np

from ...metrics import SummaryOptions, display_name, find_metric
from ...record import InputError
from ..colours import LineStyle, sequential_colours
from ..curve_data import explain_missing_stream, get_streams
from ..filtering import drop_other_task_counts, drop_unusable, require_one_scenario
from ..labels import require_one_scale
from ..series_parameter import find_series_parameter
from .curves import CurveGroup, draw_curves
from .drawing.panels import escape_text, percent_ticks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ...metrics import ScoreScale
    from ...record import ScoreInput
    from ..load import RunsByMethod
    from ..series_parameter import SeriesParameter
    from .drawing.paper import Size

    RunValues = list[list[float]]  # a metric of each run, by value of the hyperparameter

__all__ = ["series"]

WIDE_RANGE = 20  # largest over smallest value, from which low values would overlap
MARKERS = "os^vDP"
MAX_LEGEND_LETTERS = 24  # of all labels that fit next to each other


def series(
    methods: RunsByMethod,
    *,
    size: Size = "page",
    tasks: int | None = None,
    metrics: Sequence[str] = ("acc", "min_acc"),
) -> Figure:
    """Return the curves of methods that differ in one value, coloured in its order, and metrics.

    The value is the one entry in which the runs' configs differ (a memory size, the number in a
    scenario's name), or the number in the methods' names. The last panel shows metrics against
    it, with the SD over runs.

    Args:
        methods: runs by method, as returned by `open_methods`.
        size: a column or a page of a paper, or a slide.
        tasks: number of panels of curves, starting with the first task; all tasks by default.
        metrics: ids of the metrics to draw.

    Example:
        >>> from perdure.metrics import Stream
        >>> from perdure.record import ScoreInput
        >>> def run(low):
        ...     scores = {"a": ([1, 2], [0.9, low]), "b": ([2], [0.8])}
        ...     return ScoreInput(stream=Stream(scores, spans=[("a", 1), ("b", 2)]))
        >>> figure = series({"er 20": [run(0.5)], "er 10": [run(0.25)]}, metrics=["min_acc"])
        >>> figure.axes[-1].lines[0].get_xydata().tolist()
        [[10.0, 0.25], [20.0, 0.5]]
    """
    if tasks is not None and tasks < 1:
        raise InputError(f"tasks is {tasks}, expected a whole number of at least 1")
    if not metrics:
        raise InputError("no metrics to draw, expected ids like acc; see perdure explain")
    for id_ in metrics:
        find_metric(id_)  # raises an error with similar ids if there is none
    require_one_scenario(methods)
    methods = drop_other_task_counts(
        drop_unusable(methods, lambda run: _find_problem(run, metrics)), together=False
    )
    parameter = find_series_parameter(methods)
    groups = [
        CurveGroup(
            f"{parameter.name} {value:g}",
            LineStyle(colour),
            get_streams(name, methods[name]),
            methods[name],
        )
        for (name, value), colour in zip(
            parameter.values.items(), sequential_colours(len(methods)), strict=True
        )
    ]
    scale = require_one_scale(stream for group in groups for stream in group.streams)
    run_values = {_label(id_, scale): _get_values(methods, parameter, id_) for id_ in metrics}

    def draw_metrics(axes: Axes) -> None:
        _draw(axes, parameter, run_values)
        if all(find_metric(id_).unit == "score" for id_ in metrics):
            percent_ticks(scale, axes.yaxis)

    return draw_curves(groups, size, tasks, draw_last=draw_metrics)


def _label(id_: str, scale: ScoreScale) -> str:
    """Return the id, or the metric's name in terms of the score if that is not accuracy."""
    return id_ if scale.label == "accuracy" else escape_text(display_name(find_metric(id_), scale))


def _find_problem(run: ScoreInput, ids: Sequence[str]) -> str:
    """Return why a run cannot be drawn, an empty string if it can."""
    if problem := explain_missing_stream(run):
        return problem
    summary = run.summary(SummaryOptions(only=frozenset(ids), intervals=False))
    for id_ in ids:
        if id_ not in summary.metrics:
            reason = summary.undefined.get(id_, "undefined")
            return f"no {id_}: {reason}; choose others with `metrics=`"
    return ""


def _get_values(methods: RunsByMethod, parameter: SeriesParameter, id_: str) -> RunValues:
    """Return a metric of each run, by value of the hyperparameter."""
    options = SummaryOptions(only=frozenset({id_}), intervals=False)
    return [
        [float(run.summary(options).metrics[id_]) for run in methods[name]]
        for name in parameter.values
    ]


def _draw(axes: Axes, parameter: SeriesParameter, run_values: dict[str, RunValues]) -> None:
    """Draw metrics against the values, evenly spaced if these are far apart."""
    values = list(parameter.values.values())
    wide = min(values) > 0 and max(values) / min(values) >= WIDE_RANGE
    x = list(range(len(values))) if wide else values
    points = mpl.rcParams["font.size"]
    for k, (label, several) in enumerate(run_values.items()):
        means = [float(np.mean(runs)) for runs in several]
        sds = [float(np.std(runs, ddof=1)) if len(runs) > 1 else 0.0 for runs in several]
        axes.errorbar(
            x, means, yerr=sds, color="#333333", marker=MARKERS[k % len(MARKERS)],
            capsize=points / 4, markersize=points / 2, linestyle=("-", "--", ":", "-.")[k % 4],
            label=label,
        )  # fmt: skip
    axes.set_xticks(x, [f"{value:g}" for value in values])
    axes.margins(0.1)
    axes.set_xlabel(parameter.name)
    axes.legend(
        loc="lower center", bbox_to_anchor=(0.5, 1), borderaxespad=0.2,
        ncols=2 if sum(map(len, run_values)) < MAX_LEGEND_LETTERS else 1,
        handlelength=1.8, columnspacing=1,
    )  # fmt: skip
