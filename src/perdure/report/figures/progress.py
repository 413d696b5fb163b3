"""Lines over training: metrics after each task, and accuracy after each epoch of early stopping.

Metrics after each task, one line per method, are the figure that most papers show.
"""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

import matplotlib as mpl
import numpy as np

from ...metrics import display_name, find_metric, options_for
from ...record import InputError, Run, RunFolder
from ..colours import LineStyle, choose_styles
from ..filtering import drop_unusable, require_one_scenario
from ..labels import merge_names
from ..load import get_config
from .drawing import SIZES, describe_runs, new_figure, set_caption
from .drawing.by_task import as_lines, choose_widths, draw_task_lines, list_overlaps
from .drawing.matrices import average_runs
from .drawing.panels import (
    MAX_LEGEND_LETTERS,
    add_legend,
    band_key,
    check_panel_count,
    escape_text,
    get_layout,
    hide_surplus,
    line_key,
    percent_ticks,
    select_tasks,
    share_axes,
    shorten,
)

__all__ = ["averages", "early_stopping"]

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from numpy.typing import NDArray

    from ...metrics import ScoreScale, Summary
    from ...record import ScoreInput
    from ..load import RunsByMethod
    from .drawing import Size
    from .drawing.matrices import MeanAndSD

    Curves = dict[str, MeanAndSD]  # by method
    Trace = dict[str, list[float]]  # accuracy after each epoch, by task


DEFAULT_METRICS = ("acc", "forgetting.best")
MAX_METRICS = 6
LONG_NAME = 24  # letters of a metric's name, from which its first words label the axis


def averages(
    methods: RunsByMethod, *, size: Size = "page", metrics: Sequence[str] | None = None
) -> Figure:
    """Return average accuracy and forgetting after each task, one line per method.

    The value after k tasks is the metric of the first k tasks, as if learning had stopped there.
    Lines are means over the runs of a method, with a band of one SD. No class counts are needed.

    Args:
        methods: runs or score matrices by method, as returned by `open_methods`.
        size: a column or a page of a paper, or a slide.
        metrics: ids of the metrics to draw, one panel each; by default average accuracy,
            forgetting and, for runs with control tasks, retention.

    Example:
        >>> from perdure.metrics import ScoreMatrix
        >>> from perdure.record import ScoreInput
        >>> figure = averages({"er": [ScoreInput(ScoreMatrix([[0.9, 0.1], [0.6, 0.8]]))]})
        >>> [axes.lines[0].get_ydata().round(2).tolist() for axes in figure.axes]
        [[0.9, 0.7], [nan, 0.3]]
    """
    if metrics is None:
        control = any(run.control for runs in methods.values() for run in runs)
        metrics = (*DEFAULT_METRICS, *["retention"] * control)
    ids = tuple(dict.fromkeys(metrics))
    if not 1 <= len(ids) <= MAX_METRICS:
        raise InputError(f"{len(ids)} metrics to draw, expected 1 to {MAX_METRICS}")
    for id_ in ids:
        try:
            find_metric(id_)
        except ValueError as error:
            raise InputError(f"metrics: {error}") from None
    require_one_scenario(methods)
    summaries, scale = _summarize(methods, ids)
    curves = {id_: _average(summaries, id_) for id_ in ids}
    _check_drawn(curves, summaries)
    rows = len(ids) if size == "column" else -(-len(ids) // 3)
    columns = -(-len(ids) // rows)
    lines = [as_lines(own) for own in curves.values()]
    with new_figure(size, _height(rows, columns, size), rows, columns) as figure:
        for axes, id_ in zip(figure.axes, ids, strict=False):
            _draw_metric(axes, id_, curves[id_], summaries, scale, size)
            draw_task_lines(axes, curves[id_], choose_styles(methods), choose_widths(lines))
            axes.set_xlim(*_task_limits(curves))
            if not find_metric(id_).is_score:  # a change is read against zero
                low, high = axes.get_ylim()
                axes.set_ylim(min(low, 0), max(high, 0))
        hide_surplus(figure, len(ids))
        for axes in figure.axes[max(len(ids) - columns, 0) : len(ids)]:
            axes.set_xlabel("tasks learned")
        figure.align_ylabels()
        panels = zip(figure.axes, curves.values(), strict=False)
        drawn = {
            name: line for axes, own in panels for name, line in zip(own, axes.lines, strict=True)
        }
        for name, line in drawn.items():
            line.set_label(shorten(name, MAX_LEGEND_LETTERS[size]))
        add_legend(figure, [*drawn.values(), *band_key(map(len, summaries.values()))])
    listed = "; ".join(f"{id_}: {display_name(find_metric(id_), scale)}" for id_ in ids)
    runs = describe_runs(map(len, summaries.values()))
    set_caption(figure, f"{listed}, after each task", runs, list_overlaps(lines))
    return figure


def _summarize(
    methods: RunsByMethod, ids: Sequence[str]
) -> tuple[dict[str, list[Summary]], ScoreScale]:
    """Return the summaries of each method's runs; runs without any of the metrics are left out."""
    options = options_for(ids)
    every: dict[int, Summary] = {}

    def find_problem(run: object) -> str:
        result = every[id(run)]
        if any(result.curve(id_) for id_ in ids):
            return ""
        reason = result.undefined.get(ids[0], "it has no value after each task")
        return f"{ids[0]} is undefined: {reason}"

    for runs in methods.values():
        every |= {id(run): run.summary(options) for run in runs}
    usable = drop_unusable(methods, find_problem, together=False)
    summaries = {name: [every[id(run)] for run in runs] for name, runs in usable.items()}
    first_name, first = next((name, several[0]) for name, several in summaries.items())
    for name, several in summaries.items():
        if any(one.scale != first.scale for one in several):
            raise InputError(
                f"{name} has scores of another range or direction than {first_name}, expected the "
                "same kind of score everywhere"
            )
    return summaries, first.scale


def _average(summaries: Mapping[str, Sequence[Summary]], id_: str) -> Curves:
    """Return the mean and SD of a metric after each task; methods without it are left out."""
    curves = {name: [one.curve(id_) for one in several] for name, several in summaries.items()}
    return {
        name: average_runs([_as_array(curve) for curve in several if curve])
        for name, several in curves.items()
        if all(several)
    }


def _as_array(curve: Sequence[float | None]) -> NDArray[np.float64]:
    return np.array([np.nan if value is None else value for value in curve])


def _check_drawn(curves: Mapping[str, Curves], summaries: Mapping[str, Sequence[Summary]]) -> None:
    """Raise if a metric that was asked for has no value after each task for any method."""
    for id_, own in curves.items():
        reasons = [one.undefined.get(id_) for several in summaries.values() for one in several]
        if not own and not any(reasons):
            raise InputError(
                f"{id_} has no value after each task, expected metrics such as acc, bwt or "
                "forgetting.best"
            )


def _draw_metric(
    axes: Axes,
    id_: str,
    curves: Curves,
    summaries: Mapping[str, Sequence[Summary]],
    scale: ScoreScale,
    size: Size,
) -> None:
    """Label a panel, and say for which methods its metric is undefined."""
    metric = find_metric(id_)
    in_percent = scale.percent and metric.unit == "score"
    axes.set_ylabel(escape_text(_short_name(id_, scale)) + " (%)" * in_percent)
    axes.set_title(escape_text(id_), loc="right", color="#6b6b6b")
    if in_percent:
        percent_ticks(scale, axes.yaxis)
    missing = [name for name in summaries if name not in curves]
    letters = int(SIZES[size][0] * 72 / SIZES[size][1] / 2)
    if missing and curves:
        text = f"undefined for {', '.join(map(escape_text, missing))}"
        axes.set_title(fill(text, letters), loc="left")
    elif missing:
        reason = f"undefined: {summaries[missing[0]][0].undefined[id_]}"
        axes.text(
            0.5, 0.5, fill(reason, letters // 2), ha="center", va="center",
            transform=axes.transAxes,
        )  # fmt: skip


def _short_name(id_: str, scale: ScoreScale) -> str:
    """Return the name of a metric for an axis; the id in the corner states the definition.

    Example:
        >>> from perdure.metrics import ACCURACY
        >>> _short_name("acc", ACCURACY), _short_name("forgetting.best", ACCURACY)
        ('average accuracy', 'forgetting')
    """
    name = display_name(find_metric(id_), scale)
    if len(name) <= LONG_NAME:
        return name
    return re.split(r" (?:from|since|between|over|relative|as|on|of) |: ", name)[0]


def _task_limits(curves: Mapping[str, Curves]) -> tuple[float, float]:
    most = max((len(curve.mean) for own in curves.values() for curve in own.values()), default=1)
    room = 0.05 * max(most - 1, 1)
    return 1 - room, most + room


def _height(rows: int, columns: int, size: Size) -> float:
    if size == "slide":
        return 0.5 if columns > 1 else 0.5625
    panel = 0.72 / columns if columns > 1 else (0.66 if size == "column" else 0.5)
    return min(rows * panel + 0.05, 1.25 * 7 / SIZES[size][0])


def early_stopping(
    methods: RunsByMethod, *, size: Size = "page", tasks: int | None = None
) -> Figure:
    """Return the accuracy on held-out examples after each epoch, one panel per task.

    One line per run; its best epoch is marked, and a bar where the task ended before its last epoch
    because of the patience.

    Args:
        methods: finished runs with `patience`, by method.
        size: a column or a page of a paper, or a slide.
        tasks: number of panels, starting with the first task; all tasks by default.
    """
    require_one_scenario(methods)
    usable = drop_unusable(methods, _explain_missing_trace)
    traces = {name: [_read_trace(run) for run in runs] for name, runs in usable.items()}
    learned = merge_names([list(trace) for several in traces.values() for trace in several])
    names = select_tasks(learned, tasks)
    patience = {name: [_patience(run) for run in runs] for name, runs in usable.items()}
    styles = choose_styles(methods)
    count = check_panel_count(len(names), f"{len(names)} tasks; with fewer (`tasks=`) it")
    height, rows, columns = get_layout(count, size)
    with new_figure(size, height, rows, columns) as figure:
        empty = hide_surplus(figure, count)
        share_axes(figure.axes, columns, "epochs", "accuracy on held-out examples")
        for k, (axes, task) in enumerate(zip(figure.axes, names, strict=False)):
            for name, several in traces.items():
                for trace, limit in zip(several, patience[name], strict=True):
                    if k < len(trace):
                        _draw_trace(axes, list(trace.values())[k], styles[name], limit)
            axes.set_title(shorten(task, 40 // columns + 12))
        add_legend(figure, _make_keys(traces, styles, size), empty)
    set_caption(figure, "one line per run; the weights are those after the last epoch drawn")
    return figure


def _explain_missing_trace(run: ScoreInput) -> str:
    try:
        if isinstance(run, Run) and run.folder != Path() and _read_trace(run):
            return ""
    except InputError as error:
        return str(error)
    return (
        "no accuracies on held-out examples, expected a finished run with early stopping, such as "
        "`patience=5`"
    )


def _read_trace(run: ScoreInput) -> Trace:
    assert isinstance(run, Run)
    trace = RunFolder(run.folder).held_out_accuracy()
    return {task: accuracies for task, accuracies in trace.items() if accuracies}


def _patience(run: ScoreInput) -> int | None:
    patience = get_config(run).get("patience")
    return patience if isinstance(patience, int) else None


def has_stopped(accuracies: Sequence[float], patience: int | None) -> bool:
    """Return whether a task ended since the best epoch was `patience` epochs ago.

    Example:
        >>> has_stopped([0.5, 0.7, 0.6, 0.7], 2), has_stopped([0.5, 0.7, 0.6], 2)
        (True, False)
    """
    best = accuracies.index(max(accuracies))
    return patience is not None and len(accuracies) - 1 - best >= patience


def _draw_trace(
    axes: Axes, accuracies: Sequence[float], style: LineStyle, patience: int | None
) -> None:
    """Draw one run: its line, its best epoch, and where it was stopped."""
    points = mpl.rcParams["font.size"]
    epochs = list(range(1, len(accuracies) + 1))
    axes.plot(epochs, accuracies, color=style.colour, ls=style.dashes, lw=points / 9, alpha=0.8)
    best = accuracies.index(max(accuracies))
    axes.plot(
        [epochs[best]], [accuracies[best]], marker=style.marker, color=style.colour, ls="none",
        ms=points * 0.6, markeredgecolor="white", markeredgewidth=points / 20, zorder=3,
    )  # fmt: skip
    if has_stopped(accuracies, patience):
        axes.plot(
            [epochs[-1]], [accuracies[-1]], marker="|", color=style.colour, ls="none",
            ms=points, markeredgewidth=points / 6, zorder=3,
        )  # fmt: skip


def _make_keys(
    traces: Mapping[str, object], styles: Mapping[str, LineStyle], size: Size
) -> list[Line2D]:
    keys = [
        line_key(shorten(name, MAX_LEGEND_LETTERS[size]), styles[name], marker=styles[name].marker)
        for name in traces
    ]
    dark = LineStyle("#333333")
    one = next(iter(styles.values())).marker if len(traces) == 1 else "o"
    best = line_key("best epoch", dark, ls="none", marker=one)
    return [*keys, best, line_key("stopped early", dark, ls="none", marker="|")]
