"""Early stopping: the accuracy on held-out examples after each epoch, and where tasks ended."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl

from ...record import InputError, Run, RunFolder
from ..colours import LineStyle, choose_styles
from ..filtering import drop_unusable, require_one_scenario
from ..labels import merge_names
from ..load import get_config
from .drawing.panels import (
    add_legend,
    check_panel_count,
    get_layout,
    line_key,
    select_tasks,
    share_axes,
    shorten,
)
from .drawing.paper import new_figure, set_caption

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    from ...record import ScoreInput
    from ..load import RunsByMethod
    from .drawing.paper import Size

    Trace = dict[str, list[float]]  # accuracy after each epoch, by task

__all__ = ["early_stopping"]

MAX_LEGEND_LETTERS = {"column": 22, "page": 36, "slide": 28}


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
    usable = drop_unusable(methods, _find_problem)
    traces = {name: [_read(run) for run in runs] for name, runs in usable.items()}
    learned = merge_names([list(trace) for several in traces.values() for trace in several])
    names = select_tasks(learned, tasks)
    patience = {name: [_patience(run) for run in runs] for name, runs in usable.items()}
    styles = choose_styles(methods)
    count = check_panel_count(len(names), f"{len(names)} tasks; with fewer (`tasks=`) it")
    height, rows, columns = get_layout(count, size)
    with new_figure(size, height, rows, columns) as figure:
        for axes in figure.axes[count:]:
            axes.set_visible(False)
        share_axes(figure.axes, columns, "epochs", "accuracy on held-out examples")
        for k, (axes, task) in enumerate(zip(figure.axes, names, strict=False)):
            for name, several in traces.items():
                for trace, limit in zip(several, patience[name], strict=True):
                    if k < len(trace):
                        _draw(axes, list(trace.values())[k], styles[name], limit)
            axes.set_title(shorten(task, 40 // columns + 12))
        empty = figure.axes[count] if count < len(figure.axes) else None
        add_legend(figure, _make_keys(traces, styles, size), empty)
    set_caption(figure, "one line per run; the weights are those after the last epoch drawn")
    return figure


def _find_problem(run: ScoreInput) -> str:
    try:
        if isinstance(run, Run) and run.folder != Path() and _read(run):
            return ""
    except InputError as error:
        return str(error)
    return (
        "no accuracies on held-out examples, expected a finished run with early stopping, such as "
        "`patience=5`"
    )


def _read(run: ScoreInput) -> Trace:
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


def _draw(axes: Axes, accuracies: Sequence[float], style: LineStyle, patience: int | None) -> None:
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
