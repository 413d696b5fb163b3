"""Scores during training, one panel per task, which show the stability gap.

After De Lange et al. (2023), figures 2, 4, 6, 7 and 11.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import matplotlib as mpl
import numpy as np

from ...record import InputError
from ..colours import LineStyle, choose_styles, sequential_colours
from ..curve_data import (
    average_after_switch,
    average_task,
    curves_since_learned,
    explain_missing_stream,
    find_switches,
    first_learned_step,
    get_streams,
    mean_worst_score,
    scores_at_task_ends,
)
from ..filtering import drop_unusable, require_one_scenario
from ..labels import require_one_scale, span_names, task_names, worst_label
from .drawing import describe_runs, new_figure, set_caption
from .drawing.by_task import choose_widths, list_overlaps
from .drawing.panels import (
    MAX_COLUMNS,
    add_legend,
    band_key,
    check_panel_count,
    draw_band,
    draw_switches,
    fit_scores,
    get_layout,
    hide_surplus,
    line_key,
    percent_ticks,
    score_axis_label,
    select_tasks,
    share_axes,
    shorten,
    task_end_style,
    worst_style,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch
    from numpy.typing import NDArray

    from ...metrics import Stream
    from ...record import ScoreInput
    from ..load import RunsByMethod
    from .drawing import Size

__all__ = ["curves"]


class CurveGroup(NamedTuple):
    """The data and the style of one line in every panel."""

    label: str
    style: LineStyle
    streams: list[Stream]
    runs: Sequence[ScoreInput]


def curves(
    methods: RunsByMethod,
    *,
    size: Size = "page",
    tasks: int | None = None,
    subsample: Sequence[int] = (1,),
    zoom: int | None = None,
) -> Figure:
    """Return the scores on each task during training, mean and SD over the runs of a method.

    Vertical lines are task switches, horizontal lines the worst score since the task was learned
    (min-ACC), diamonds the scores at task ends, which are all that standard evaluation shows. The
    axis fits the scores since a task was learned, so its first rise may start below the axis.

    Args:
        methods: runs by method, as returned by `open_methods`.
        size: a column or a page of a paper, or a slide.
        tasks: number of panels, starting with the first task; all tasks by default.
        subsample: keep every n-th evaluation; several values draw one method at each of them.
        zoom: draw this many iterations after each switch, one panel per older task and switch.

    Example:
        >>> from perdure.metrics import Stream
        >>> from perdure.record import ScoreInput
        >>> stream = Stream({"a": ([1, 2, 3], [0.9, 0.2, 0.6])}, spans=[("a", 3)])
        >>> figure = curves({"mine": [ScoreInput(stream=stream)]})
        >>> figure.axes[0].lines[0].get_ydata()
        array([0.9, 0.2, 0.6])
    """
    for name, value in (("tasks", tasks), ("zoom", zoom), *(("subsample", n) for n in subsample)):
        if value is not None and value < 1:
            raise InputError(f"{name} is {value}, expected a whole number of at least 1")
    require_one_scenario(methods)
    styles = choose_styles(methods)
    methods = drop_unusable(methods, explain_missing_stream, together=False)
    groups = _make_groups(methods, styles, tuple(dict.fromkeys(subsample)))
    for group in groups:
        if not any(len(stream.grid) for stream in group.streams):
            raise InputError(f"{group.label}: no evaluation is left; use a smaller `subsample=`")
    if zoom is not None:
        return _zoomed(groups, size, tasks, zoom)
    return draw_curves(groups, size, tasks)


def _make_groups(
    methods: RunsByMethod, styles: Mapping[str, LineStyle], subsample: tuple[int, ...]
) -> list[CurveGroup]:
    if not subsample:
        raise InputError("nothing to draw, expected at least one value of `subsample=`")
    if len(subsample) == 1:
        return [
            CurveGroup(name, styles[name], get_streams(name, runs, subsample[0]), runs)
            for name, runs in methods.items()
        ]
    if len(methods) > 1:
        raise InputError(
            f"several values of `subsample=` for {len(methods)} methods, expected one method; "
            "choose one method or one value"
        )
    [(name, runs)] = methods.items()
    return [
        CurveGroup(_period(runs, every), LineStyle(colour), get_streams(name, runs, every), runs)
        for every, colour in zip(sorted(subsample), sequential_colours(len(subsample)), strict=True)
    ]


def _period(runs: Sequence[ScoreInput], every: int) -> str:
    """Return how often a run was evaluated, in iterations if that is known."""
    stream = runs[0].stream
    between = stream.periodicity if stream is not None else None
    if between is None:
        return f"1 in {every} evaluations"
    return "every iteration" if between * every == 1 else f"every {between * every} iterations"


def draw_curves(
    groups: Sequence[CurveGroup],
    size: Size,
    tasks: int | None,
    draw_last: Callable[[Axes], None] | None = None,
) -> Figure:
    """Return the figure of all iterations; `draw_last` draws one more panel at the end."""
    streams = [stream for group in groups for stream in group.streams]
    scale = require_one_scale(streams)
    names = select_tasks(task_names(streams), tasks)
    count = check_panel_count(len(names), f"{len(names)} tasks; with fewer (`tasks=`) it") + bool(
        draw_last
    )
    height, rows, columns = get_layout(count, size)
    steps = {group.label: find_switches(group.streams) for group in groups}
    styles = {group.label: group.style for group in groups}
    with new_figure(size, height, rows, columns) as figure:
        empty = hide_surplus(figure, count)
        panels = figure.axes[: len(names)] if draw_last else figure.axes
        percent_ticks(scale, panels[0].yaxis)
        share_axes(panels, columns, "iterations", score_axis_label(scale))
        by_label = {group.label: group.streams for group in groups}
        lines = curves_since_learned(by_label, len(names)) if _has_several_methods(groups) else []
        widths = choose_widths(lines)
        for k, (axes, name) in enumerate(zip(figure.axes, names, strict=False)):
            draw_switches(axes, steps, styles)
            _draw_task(axes, groups, k, widths)
            axes.set_title(shorten(name, 40 // columns + 12))
        fit_scores(figure.axes[0], scale, _scores_since_learned(groups, len(names)))
        if draw_last:
            draw_last(figure.axes[count - 1])
        add_legend(figure, make_legend_keys(groups, widths), empty)
    runs = describe_runs(len(group.streams) for group in groups)
    worst = f"{worst_label(scale)}: the {scale.worst} since the task was learned, mean over runs"
    set_caption(figure, runs, worst, list_overlaps(lines))
    return figure


def _draw_task(
    axes: Axes, groups: Sequence[CurveGroup], task: int, widths: Mapping[str, float]
) -> None:
    for group in groups:
        curve = average_task(group.streams, task)
        if len(curve.steps):
            draw_band(axes, curve, group.style, widths.get(group.label, 1.0))
            _draw_worst(axes, group, task)
    for group in {id(group.runs): group for group in groups}.values():
        steps, scores = _task_ends(group, task)
        if len(steps):  # an unclipped line without points breaks the layout
            style = _end_style(groups, group.style)
            style["markersize"] *= 0.6 + 0.4 * widths.get(group.label, 1.0)
            axes.plot(steps, scores, **style)


def _task_ends(group: CurveGroup, task: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return steps and scores at task ends since the task was learned."""
    steps, scores = scores_at_task_ends(group.runs, task)
    since = steps >= first_learned_step(group.streams, task)
    return steps[since], scores[since]


def _scores_since_learned(groups: Sequence[CurveGroup], tasks: int) -> list[float]:
    """Return the lowest and highest scores on each task since it was learned, for the axis."""
    scores: list[float] = []
    for group in groups:
        for k in range(tasks):
            curve = average_task(group.streams, k)
            scores += _task_ends(group, k)[1].tolist()
            after = curve.steps >= first_learned_step(group.streams, k)
            if after.any():
                scores += [
                    float((curve.mean - curve.sd)[after].min()),
                    mean_worst_score(group.streams, k),
                ]
                scores += [float((curve.mean + curve.sd)[after].max())]
    return [score for score in scores if not np.isnan(score)]


def _draw_worst(axes: Axes, group: CurveGroup, task: int) -> None:
    low = mean_worst_score(group.streams, task)
    if not np.isnan(low):
        axes.axhline(low, color=group.style.colour, **worst_style())


def _end_style(groups: Sequence[CurveGroup], style: LineStyle) -> dict[str, Any]:
    """Return the style of task ends: red, or the method's colour if there are several."""
    return task_end_style() if not _has_several_methods(groups) else task_end_style(style.colour)


def _has_several_methods(groups: Sequence[CurveGroup]) -> bool:
    """Return whether the lines are of different runs, not of one method at several rates."""
    return len({id(group.runs) for group in groups}) > 1


def make_legend_keys(
    groups: Sequence[CurveGroup], widths: Mapping[str, float] | None = None, *, zoomed: bool = False
) -> list[Line2D | Patch]:
    """Return the legend entries: the lines, and the meaning of the marks."""
    streams = [stream for group in groups for stream in group.streams]
    dark = LineStyle("#333333")
    line, widths = mpl.rcParams["lines.linewidth"], widths or {}
    keys: list[Line2D | Patch] = [
        line_key(group.label, group.style, lw=line * widths.get(group.label, 1.0))
        for group in groups
    ]
    keys += band_key(len(group.streams) for group in groups)
    if any(
        not np.isnan(mean_worst_score(t.streams, k)) for t in groups for k in range(_learned(t))
    ):
        keys.append(line_key(worst_label(require_one_scale(streams)), dark, **worst_style()))
    if not zoomed and any(len(scores_at_task_ends(group.runs, 0)[0]) for group in groups):
        keys.append(line_key("task end", dark, **_end_style(groups, dark)))
    return keys


def _learned(group: CurveGroup) -> int:
    return max(len(stream.names) for stream in group.streams)


def _zoomed(groups: Sequence[CurveGroup], size: Size, tasks: int | None, zoom: int) -> Figure:
    streams = [stream for group in groups for stream in group.streams]
    scale = require_one_scale(streams)
    names, starts = task_names(streams), span_names(streams)[1:]
    if not starts:
        raise InputError("zoom shows switches between tasks, and these runs have none")
    shown = min(len(select_tasks(names, tasks)), len(starts))
    panels = [(s, k) for s in range(len(starts)) for k in range(shown) if _has_curve(groups, k, s)]
    check_panel_count(len(panels), f"zoom on {shown} tasks; with fewer (tasks) it")
    square = 1 < shown <= MAX_COLUMNS[size]  # one row per switch, one column per task
    count = len(starts) * shown if square else len(panels)
    height, rows, columns = get_layout(count, size, shown if square else None)
    with new_figure(size, height, rows, columns) as figure:
        used = [s * columns + k if square else at for at, (s, k) in enumerate(panels)]
        for at, axes in enumerate(figure.axes):
            axes.set_visible(at in used)
        percent_ticks(scale, figure.axes[0].yaxis)
        share_axes(figure.axes, columns, "iterations after the switch", score_axis_label(scale))
        for at, (s, k) in zip(used, panels, strict=True):
            axes = figure.axes[at]
            for group in groups:
                draw_band(axes, average_after_switch(group.streams, k, s, zoom), group.style)
                _draw_worst(axes, group, k)
            most = 24 // columns + 5
            axes.set_title(f"{shorten(names[k], most)} when {shorten(starts[s], most)} starts")
        fit_scores(figure.axes[0], scale)
        add_legend(figure, make_legend_keys(groups, zoomed=True))
    set_caption(figure, describe_runs(len(group.streams) for group in groups))
    return figure


def _has_curve(groups: Sequence[CurveGroup], task: int, switch: int) -> bool:
    return any(len(average_after_switch(group.streams, task, switch, 1).steps) for group in groups)
