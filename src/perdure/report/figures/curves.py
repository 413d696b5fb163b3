"""Scores while training goes on, a panel a task: where the stability gap is seen.

After De Lange et al. (2023), figures 2, 4, 6, 7 and 11.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...record import InputError
from ..colours import Look, looks, sequence
from ..curve_data import (
    dip_of,
    ends_of,
    learned_at,
    low_of,
    no_stream,
    one_scale,
    streams_of,
    switches,
    task_names,
    track_of,
    visit_names,
    worst_name,
)
from ..usable import as_many_tasks, usable
from ._panels import (
    BESIDE,
    axis_name,
    band_key,
    diamond,
    draw_band,
    draw_switches,
    fit_scores,
    legend,
    line_key,
    low_style,
    many,
    on_one_scale,
    percent_ticks,
    shape_of,
    short,
)
from ._paper import drawing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch
    from numpy.typing import NDArray

    from ...metrics import Stream
    from ...record import ScoreInput
    from ..load import Methods
    from ._paper import Size

__all__ = ["curves"]


class Track(NamedTuple):
    """What one line of every panel is drawn from."""

    label: str
    look: Look
    streams: list[Stream]
    runs: Sequence[ScoreInput]


def curves(
    methods: Methods,
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
    methods = as_many_tasks(usable(methods, no_stream), together=False)
    tracks = _tracks(methods, tuple(dict.fromkeys(thin)))
    for track in tracks:
        if not any(len(stream.grid) for stream in track.streams):
            raise InputError(
                f"{track.label}: nothing is left of its tests, expected some; thin less"
            )
    if zoom is not None:
        return _zoomed(tracks, size, tasks, zoom)
    return whole(tracks, size, tasks)


def _tracks(methods: Methods, thin: tuple[int, ...]) -> list[Track]:
    if not thin:
        raise InputError("nothing to draw, expected at least one periodicity")
    if len(thin) == 1:
        look = looks(methods)
        return [
            Track(name, look[name], streams_of(name, runs, thin[0]), runs)
            for name, runs in methods.items()
        ]
    if len(methods) > 1:
        raise InputError(
            f"several periodicities of {len(methods)} methods, expected one method; "
            "name one, or give a single number to thin by"
        )
    [(name, runs)] = methods.items()
    return [
        Track(_period(runs, every), Look(colour), streams_of(name, runs, every), runs)
        for every, colour in zip(sorted(thin), sequence(len(thin)), strict=True)
    ]


def _period(runs: Sequence[ScoreInput], every: int) -> str:
    """Return how often was tested, in iterations where that is known."""
    stream = runs[0].stream
    between = stream.periodicity if stream is not None else None
    if between is None:
        return f"1 in {every} tests"
    return "every iteration" if between * every == 1 else f"every {between * every} iterations"


def whole(
    tracks: Sequence[Track],
    size: Size,
    tasks: int | None,
    beside: Callable[[Axes], None] | None = None,
) -> Figure:
    """Return the figure of all iterations; `beside` draws one panel more, the last."""
    streams = [stream for track in tracks for stream in track.streams]
    scale = one_scale(streams)
    names = task_names(streams)[:tasks]
    count = many(len(names), f"{len(names)} tasks; with fewer (tasks) it") + bool(beside)
    height, rows, columns = shape_of(count, size)
    steps = {track.label: switches(track.streams) for track in tracks}
    look = {track.label: track.look for track in tracks}
    with drawing(size, height, rows, columns) as figure:
        for axes in figure.axes[count:]:
            axes.set_visible(False)
        panels = figure.axes[: len(names)] if beside else figure.axes
        percent_ticks(scale, panels[0].yaxis)
        on_one_scale(panels, columns, "iterations", axis_name(scale))
        for k, (axes, name) in enumerate(zip(figure.axes, names, strict=False)):
            draw_switches(axes, steps, look)
            _draw_task(axes, tracks, k)
            axes.set_title(short(name, 40 // columns + 12))
        fit_scores(figure.axes[0], scale, _seen(tracks, len(names)))
        if beside:
            beside(figure.axes[count - 1])
        legend(figure, keys_of(tracks))
    return figure


def _draw_task(axes: Axes, tracks: Sequence[Track], task: int) -> None:
    for track in tracks:
        found = track_of(track.streams, task)
        if not len(found.steps):
            continue
        draw_band(axes, found, track.look)
        _draw_low(axes, track, task)
    for track in {id(track.runs): track for track in tracks}.values():
        steps, scores = _ends(track, task)
        if len(steps):  # an unclipped line without points has no place, which breaks the layout
            axes.plot(steps, scores, **_diamond(tracks, track.look))


def _ends(track: Track, task: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return steps and scores at task ends since the task was learned, which the axis fits."""
    steps, scores = ends_of(track.runs, task)
    since = steps >= learned_at(track.streams, task)
    return steps[since], scores[since]


def _seen(tracks: Sequence[Track], tasks: int) -> list[float]:
    """Return lows and highs of the scores on tasks from when they were learned on."""
    found = []
    for track in tracks:
        for k in range(tasks):
            drawn = track_of(track.streams, k)
            found += _ends(track, k)[1].tolist()
            after = drawn.steps >= learned_at(track.streams, k)
            if after.any():
                found += [float((drawn.mean - drawn.sd)[after].min()), low_of(track.streams, k)]
                found += [float((drawn.mean + drawn.sd)[after].max())]
    return [each for each in found if not np.isnan(each)]


def _draw_low(axes: Axes, track: Track, task: int) -> None:
    low = low_of(track.streams, task)
    if not np.isnan(low):
        axes.axhline(low, color=track.look.colour, **low_style())


def _diamond(tracks: Sequence[Track], look: Look) -> dict[str, Any]:
    """Return the look of task ends: red, or the method's colour where there are several."""
    return diamond() if len({id(track.runs) for track in tracks}) == 1 else diamond(look.colour)


def keys_of(tracks: Sequence[Track], *, zoomed: bool = False) -> list[Line2D | Patch]:
    """Return the samples for the legend: the lines, and what the marks mean."""
    streams = [stream for track in tracks for stream in track.streams]
    dark = Look("#333333")
    keys: list[Line2D | Patch] = [line_key(track.label, track.look) for track in tracks]
    keys += band_key(len(track.streams) for track in tracks)
    if any(not np.isnan(low_of(t.streams, k)) for t in tracks for k in range(_learned(t))):
        keys.append(line_key(worst_name(one_scale(streams)), dark, **low_style()))
    if not zoomed and any(len(ends_of(track.runs, 0)[0]) for track in tracks):
        keys.append(line_key("task end", dark, **_diamond(tracks, dark)))
    return keys


def _learned(track: Track) -> int:
    return max(len(stream.names) for stream in track.streams)


def _zoomed(tracks: Sequence[Track], size: Size, tasks: int | None, zoom: int) -> Figure:
    streams = [stream for track in tracks for stream in track.streams]
    scale = one_scale(streams)
    names, starts = task_names(streams), visit_names(streams)[1:]
    if not starts:
        raise InputError("zoom is on switches between tasks, and these runs have none")
    shown = min(tasks or len(starts), len(starts), len(names))
    panels = [(s, k) for s in range(len(starts)) for k in range(shown) if _any(tracks, k, s)]
    many(len(panels), f"zoom on {shown} tasks; with fewer (tasks) it")
    square = 1 < shown <= BESIDE[size]  # a row a switch, a column a task
    count = len(starts) * shown if square else len(panels)
    height, rows, columns = shape_of(count, size, shown if square else None)
    with drawing(size, height, rows, columns) as figure:
        used = [s * columns + k if square else at for at, (s, k) in enumerate(panels)]
        for at, axes in enumerate(figure.axes):
            axes.set_visible(at in used)
        percent_ticks(scale, figure.axes[0].yaxis)
        on_one_scale(figure.axes, columns, "iterations after the switch", axis_name(scale))
        for at, (s, k) in zip(used, panels, strict=True):
            axes = figure.axes[at]
            for track in tracks:
                draw_band(axes, dip_of(track.streams, k, s, zoom), track.look)
                _draw_low(axes, track, k)
            most = 24 // columns + 5
            axes.set_title(f"{short(names[k], most)} when {short(starts[s], most)} starts")
        fit_scores(figure.axes[0], scale)
        legend(figure, keys_of(tracks, zoomed=True))
    return figure


def _any(tracks: Sequence[Track], task: int, switch: int) -> bool:
    return any(len(dip_of(track.streams, task, switch, 1).steps) for track in tracks)
