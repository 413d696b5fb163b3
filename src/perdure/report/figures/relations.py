"""One quantity against another: metrics against a hyperparameter, forgetting against drops.

After De Lange et al. (2023): a strategy at several values (figures 3 and 7), and final forgetting
against the largest drop during training (figure 9).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib as mpl
import numpy as np

from ...metrics import SummaryOptions, display_name, find_metric, forgetting_pairs
from ...record import InputError
from ..colours import LineStyle, choose_styles, sequential_colours
from ..curve_data import explain_missing_stream, get_streams
from ..filtering import drop_unusable, require_one_scenario
from ..labels import find_series_parameter, merge_scales, require_one_scale
from .curves import CurveGroup, draw_curves
from .drawing import SIZES, describe_runs, new_figure, set_caption
from .drawing.panels import (
    check_panel_count,
    escape_text,
    get_layout,
    hide_surplus,
    percent_ticks,
    share_axes,
    shorten,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from ...metrics import ScoreScale
    from ...record import ScoreInput
    from ..labels import SeriesParameter
    from ..load import RunsByMethod
    from .drawing import Size

    RunValues = list[list[float]]  # a metric of each run, by value of the hyperparameter
    Pairs = list[dict[tuple[int, int], tuple[float, float]]]  # one per run

__all__ = ["forgetting", "series"]

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
    methods = drop_unusable(
        methods, lambda run: _explain_missing_metric(run, metrics), together=False
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
        _draw_metrics(axes, parameter, run_values)
        if all(find_metric(id_).unit == "score" for id_ in metrics):
            percent_ticks(scale, axes.yaxis)

    return draw_curves(groups, size, tasks, draw_last=draw_metrics)


def _label(id_: str, scale: ScoreScale) -> str:
    """Return the id, or the metric's name in terms of the score if that is not accuracy."""
    return id_ if scale.label == "accuracy" else escape_text(display_name(find_metric(id_), scale))


def _explain_missing_metric(run: ScoreInput, ids: Sequence[str]) -> str:
    if problem := explain_missing_stream(run):
        return problem
    summary = run.summary(SummaryOptions(only=frozenset(ids), intervals=False))
    for id_ in ids:
        if id_ not in summary.metrics:
            reason = summary.undefined.get(id_, "undefined")
            return f"no {id_}: {reason}; choose others with `metrics=`"
    return ""


def _get_values(methods: RunsByMethod, parameter: SeriesParameter, id_: str) -> RunValues:
    options = SummaryOptions(only=frozenset({id_}), intervals=False)
    return [
        [float(run.summary(options).metrics[id_]) for run in methods[name]]
        for name in parameter.values
    ]


def _draw_metrics(axes: Axes, parameter: SeriesParameter, run_values: dict[str, RunValues]) -> None:
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


def forgetting(methods: RunsByMethod, *, size: Size = "page", window: int = 10) -> Figure:
    """Return FORG against windowed forgetting, one point per older task after each task.

    Bold points are means over the runs of a method, light points are single runs; Pearson's
    correlation is computed from the means. One panel per method.

    Args:
        methods: runs by method, as returned by `open_methods`.
        size: a column or a page of a paper, or a slide.
        window: number of evaluations within which a drop counts.

    Example:
        >>> from perdure.metrics import ScoreMatrix, Stream
        >>> from perdure.record import ScoreInput
        >>> stream = Stream({"a": ([1, 2, 3], [1.0, 0.25, 0.75]), "b": ([3], [0.5])},
        ...                 spans=[("a", 1), ("b", 3)])
        >>> run = ScoreInput(ScoreMatrix([[1.0, 0.0], [0.75, 0.5]]), stream)
        >>> forgetting({"mine": [run]}).axes[0].collections[-1].get_offsets().tolist()
        [[0.75, 0.25]]
    """
    if window < 2:
        raise InputError(f"window is {window}, expected at least 2 evaluations: one cannot drop")
    styles = choose_styles(methods)
    methods = drop_unusable(
        methods, lambda run: _explain_missing_pairs(run, window), together=False
    )
    points = {name: _get_pairs(runs, window) for name, runs in methods.items()}
    scale = _merge_scales(methods)
    height, rows, columns = get_layout(
        check_panel_count(len(points), f"{len(points)} methods"), size
    )
    with new_figure(size, height * 1.2, rows, columns) as figure:
        hide_surplus(figure, len(points))
        percent = " (%)" if scale.percent else ""
        letters = int(100 * SIZES[size][0] / SIZES[size][1] / columns)  # as wide as a panel
        x = f"largest {_name_of_drop(scale)} within {window} evaluations (WF{window}){percent}"
        percent_ticks(scale, figure.axes[0].xaxis, figure.axes[0].yaxis)
        share_axes(figure.axes, columns, x, f"forgotten (FORG){percent}", whole=False)
        for axes, (name, pairs) in zip(figure.axes, points.items(), strict=False):
            rho = _draw_pairs(axes, pairs, styles[name])
            correlation = "ρ is undefined" if rho is None else f"ρ = {rho:.2f}".replace("-", "−")
            axes.set_title(f"{shorten(name, letters)}\n{correlation}")
    shown = f"forgetting.learned against wf{window}, one point per older task after each task"
    runs = describe_runs(map(len, points.values()), "bold points", "light points single runs")
    set_caption(figure, shown, runs, "ρ: Pearson's correlation, of means over runs")
    return figure


def _explain_missing_pairs(run: ScoreInput, window: int) -> str:
    if run.stream is None or run.matrix is None:
        what = "stream of evaluations" if run.stream is None else "score matrix"
        why = f": {run.no_matrix}" if run.stream is not None and run.no_matrix else ""
        return f"no {what}{why}, expected both; a points.csv must have the column trained"
    if not forgetting_pairs(run.matrix, run.stream, window):
        return "no older task, expected at least 2 learned tasks"
    return ""


def _get_pairs(runs: Sequence[ScoreInput], window: int) -> Pairs:
    return [
        forgetting_pairs(run.matrix, run.stream, window)
        for run in runs
        if run.matrix is not None and run.stream is not None
    ]


def _merge_scales(methods: RunsByMethod) -> ScoreScale:
    runs = [run for several in methods.values() for run in several]
    return merge_scales([run.matrix.scale for run in runs if run.matrix is not None])


def _name_of_drop(scale: ScoreScale) -> str:
    """Return the word for getting worse: a drop of an accuracy, a rise of a loss."""
    if scale.label == "accuracy":
        return "drop"
    return f"{'rise' if scale.lower_is_better else 'drop'} of {escape_text(scale.label)}"


def _draw_pairs(axes: Axes, pairs: Pairs, style: LineStyle) -> float | None:
    """Draw the points of a method; return the correlation of the means, None if undefined."""
    shared = [key for key in pairs[0] if all(key in run for run in pairs)]
    every = np.array([[run[key] for key in shared] for run in pairs]).reshape(len(pairs), -1, 2)
    if len(pairs) > 1:
        single = every.reshape(-1, 2)
        axes.scatter(single[:, 1], single[:, 0], color=style.colour, alpha=0.25, s=12, linewidths=0)
    means = every.mean(axis=0)
    axes.scatter(means[:, 1], means[:, 0], color=style.colour, s=24, linewidths=0)
    return _correlation(means[~np.isnan(means).any(axis=1)])


def _correlation(points: NDArray[np.float64]) -> float | None:
    if len(points) < 2 or (np.ptp(points, axis=0) == 0).any():
        return None
    return float(np.asarray(np.corrcoef(points.T))[0, 1])
