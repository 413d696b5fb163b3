"""Scores while training goes on, a panel a task: where the stability gap is seen.

After De Lange et al. (2023), figures 2, 4, 6, 7 and 11.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...record import InputError
from ..colours import LineStyle, choose_styles, sequential_colours
from ..curve_data import (
    average_after_switch,
    average_task,
    explain_missing_stream,
    find_switches,
    first_learned_step,
    get_streams,
    mean_worst_score,
    require_one_scale,
    scores_at_task_ends,
    task_names,
    visit_names,
    worst_label,
)
from ..filtering import drop_other_task_counts, drop_unusable
from ._panels import (
    MAX_COLUMNS,
    add_legend,
    band_key,
    check_panel_count,
    draw_band,
    draw_switches,
    fit_scores,
    get_layout,
    line_key,
    percent_ticks,
    score_axis_label,
    share_axes,
    shorten,
    task_end_style,
    worst_style,
)
from ._paper import new_figure

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch
    from numpy.typing import NDArray

    from ...metrics import Stream
    from ...record import ScoreInput
    from ..load import RunsByMethod
    from ._paper import Size

__all__ = ["curves"]


class CurveGroup(NamedTuple):
    """What one line of every panel is drawn from."""

    label: str
    look: LineStyle
    streams: list[Stream]
    runs: Sequence[ScoreInput]


def curves(
    methods: RunsByMethod,
    *,
    size: Size = "page",
    tasks: int | None = None,
    thin: Sequence[int] = (1,),
    zoom: int | None = None,
) -> Figure:
    """Return the scores on each task while training goes on, mean and SD over the runs of a method.

    Vertical lines are task switches, horizontal ones the worst score since the task was learned
    (min-ACC), diamonds the scores at task ends, which is all that standard evaluation sees. The
    first rise of a task may begin below the axis, which fits what came after.

    Args:
        methods: runs by method, as `open_methods` gives them.
        size: for a column or a page of a paper, or a slide.
        tasks: how many panels, from the first task on; all by default.
        thin: keep every so many evaluations; several draw one method at each periodicity.
        zoom: only so many iterations after each switch, a panel for each older task and switch.

    Example:
        >>> from perdure.metrics import Stream
        >>> from perdure.record import ScoreInput
        >>> stream = Stream({"a": ([1, 2, 3], [0.9, 0.2, 0.6])}, spans=[("a", 3)])
        >>> figure = curves({"mine": [ScoreInput(stream=stream)]})
        >>> figure.axes[0].lines[0].get_ydata()
        array([0.9, 0.2, 0.6])
    """
    for name, value in (("tasks", tasks), ("zoom", zoom), *(("thin", each) for each in thin)):
        if value is not None and value < 1:
            raise InputError(f"{name} is {value}, expected a whole number of at least 1")
    methods = drop_other_task_counts(drop_unusable(methods, explain_missing_stream), together=False)
    tracks = _tracks(methods, tuple(dict.fromkeys(thin)))
    for track in tracks:
        if not any(len(stream.grid) for stream in track.streams):
            raise InputError(
                f"{track.label}: nothing is left of its tests, expected some; thin less"
            )
    if zoom is not None:
        return _zoomed(tracks, size, tasks, zoom)
    return draw_curves(tracks, size, tasks)


def _tracks(methods: RunsByMethod, thin: tuple[int, ...]) -> list[CurveGroup]:
    if not thin:
        raise InputError("nothing to draw, expected at least one periodicity")
    if len(thin) == 1:
        look = choose_styles(methods)
        return [
            CurveGroup(name, look[name], get_streams(name, runs, thin[0]), runs)
            for name, runs in methods.items()
        ]
    if len(methods) > 1:
        raise InputError(
            f"several periodicities of {len(methods)} methods, expected one method; "
            "name one, or give a single number to thin by"
        )
    [(name, runs)] = methods.items()
    return [
        CurveGroup(_period(runs, every), LineStyle(colour), get_streams(name, runs, every), runs)
        for every, colour in zip(sorted(thin), sequential_colours(len(thin)), strict=True)
    ]


def _period(runs: Sequence[ScoreInput], every: int) -> str:
    """Return how often was tested, in iterations where that is known."""
    stream = runs[0].stream
    between = stream.periodicity if stream is not None else None
    if between is None:
        return f"1 in {every} tests"
    return "every iteration" if between * every == 1 else f"every {between * every} iterations"


def draw_curves(
    tracks: Sequence[CurveGroup],
    size: Size,
    tasks: int | None,
    beside: Callable[[Axes], None] | None = None,
) -> Figure:
    """Return the figure of all iterations; `beside` draws one panel more, the last."""
    streams = [stream for track in tracks for stream in track.streams]
    scale = require_one_scale(streams)
    names = task_names(streams)[:tasks]
    count = check_panel_count(len(names), f"{len(names)} tasks; with fewer (tasks) it") + bool(
        beside
    )
    height, rows, columns = get_layout(count, size)
    steps = {track.label: find_switches(track.streams) for track in tracks}
    look = {track.label: track.look for track in tracks}
    with new_figure(size, height, rows, columns) as figure:
        for axes in figure.axes[count:]:
            axes.set_visible(False)
        panels = figure.axes[: len(names)] if beside else figure.axes
        percent_ticks(scale, panels[0].yaxis)
        share_axes(panels, columns, "iterations", score_axis_label(scale))
        for k, (axes, name) in enumerate(zip(figure.axes, names, strict=False)):
            draw_switches(axes, steps, look)
            _draw_task(axes, tracks, k)
            axes.set_title(shorten(name, 40 // columns + 12))
        fit_scores(figure.axes[0], scale, _seen(tracks, len(names)))
        if beside:
            beside(figure.axes[count - 1])
        add_legend(figure, make_legend_keys(tracks))
    return figure


def _draw_task(axes: Axes, tracks: Sequence[CurveGroup], task: int) -> None:
    for track in tracks:
        found = average_task(track.streams, task)
        if not len(found.steps):
            continue
        draw_band(axes, found, track.look)
        _draw_low(axes, track, task)
    for track in {id(track.runs): track for track in tracks}.values():
        steps, scores = _ends(track, task)
        if len(steps):  # an unclipped line without points has no place, which breaks the layout
            axes.plot(steps, scores, **_diamond(tracks, track.look))


def _ends(track: CurveGroup, task: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return steps and scores at task ends since the task was learned, which the axis fits."""
    steps, scores = scores_at_task_ends(track.runs, task)
    since = steps >= first_learned_step(track.streams, task)
    return steps[since], scores[since]


def _seen(tracks: Sequence[CurveGroup], tasks: int) -> list[float]:
    """Return lows and highs of the scores on tasks from when they were learned on."""
    found = []
    for track in tracks:
        for k in range(tasks):
            drawn = average_task(track.streams, k)
            found += _ends(track, k)[1].tolist()
            after = drawn.steps >= first_learned_step(track.streams, k)
            if after.any():
                found += [
                    float((drawn.mean - drawn.sd)[after].min()),
                    mean_worst_score(track.streams, k),
                ]
                found += [float((drawn.mean + drawn.sd)[after].max())]
    return [each for each in found if not np.isnan(each)]


def _draw_low(axes: Axes, track: CurveGroup, task: int) -> None:
    low = mean_worst_score(track.streams, task)
    if not np.isnan(low):
        axes.axhline(low, color=track.look.colour, **worst_style())


def _diamond(tracks: Sequence[CurveGroup], look: LineStyle) -> dict[str, Any]:
    """Return the look of task ends: red, or the method's colour where there are several."""
    return (
        task_end_style()
        if len({id(track.runs) for track in tracks}) == 1
        else task_end_style(look.colour)
    )


def make_legend_keys(tracks: Sequence[CurveGroup], *, zoomed: bool = False) -> list[Line2D | Patch]:
    """Return the samples for the legend: the lines, and what the marks mean."""
    streams = [stream for track in tracks for stream in track.streams]
    dark = LineStyle("#333333")
    keys: list[Line2D | Patch] = [line_key(track.label, track.look) for track in tracks]
    keys += band_key(len(track.streams) for track in tracks)
    if any(
        not np.isnan(mean_worst_score(t.streams, k)) for t in tracks for k in range(_learned(t))
    ):
        keys.append(line_key(worst_label(require_one_scale(streams)), dark, **worst_style()))
    if not zoomed and any(len(scores_at_task_ends(track.runs, 0)[0]) for track in tracks):
        keys.append(line_key("task end", dark, **_diamond(tracks, dark)))
    return keys


def _learned(track: CurveGroup) -> int:
    return max(len(stream.names) for stream in track.streams)


def _zoomed(tracks: Sequence[CurveGroup], size: Size, tasks: int | None, zoom: int) -> Figure:
    streams = [stream for track in tracks for stream in track.streams]
    scale = require_one_scale(streams)
    names, starts = task_names(streams), visit_names(streams)[1:]
    if not starts:
        raise InputError("zoom is on switches between tasks, and these runs have none")
    shown = min(tasks or len(starts), len(starts), len(names))
    panels = [(s, k) for s in range(len(starts)) for k in range(shown) if _any(tracks, k, s)]
    check_panel_count(len(panels), f"zoom on {shown} tasks; with fewer (tasks) it")
    square = 1 < shown <= MAX_COLUMNS[size]  # a row a switch, a column a task
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
            for track in tracks:
                draw_band(axes, average_after_switch(track.streams, k, s, zoom), track.look)
                _draw_low(axes, track, k)
            most = 24 // columns + 5
            axes.set_title(f"{shorten(names[k], most)} when {shorten(starts[s], most)} starts")
        fit_scores(figure.axes[0], scale)
        add_legend(figure, make_legend_keys(tracks, zoomed=True))
    return figure


def _any(tracks: Sequence[CurveGroup], task: int, switch: int) -> bool:
    return any(len(average_after_switch(track.streams, task, switch, 1).steps) for track in tracks)
