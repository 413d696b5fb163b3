"""The guide's four panels of one method: matrix, learning against final, forgetting, trajectories.

Row i of the matrix is measured after learning task i.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ..._suggestions import suggest_names
from ...record import InputError
from ..colours import BLUE, ORANGE, VERMILION, task_colours
from ._cells import draw_cells, make_score_colours, name_cells, text_width, write_numbers
from ._matrices import (
    MeanAndSD,
    average_runs,
    get_matrices,
    get_score_limits,
    merge_matrix_scales,
    short_task_names,
)
from ._panels import escape_text, percent_ticks, score_axis_label
from ._paper import SIZES, new_figure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ...metrics import ScoreMatrix, ScoreScale
    from ..load import RunsByMethod
    from ._paper import Size

__all__ = ["panels"]

# Rows, columns and height of the figure as a share of its width.
SHAPES = {"column": (4, 1, 2.6), "page": (2, 2, 0.75), "slide": (2, 2, 0.5625)}
NAMED = 10  # tasks in a legend; of more, only some


def panels(methods: RunsByMethod, *, size: Size = "page", method: str | None = None) -> Figure:
    """Return four panels of one method, means over its seeds with SDs where there are several.

    Args:
        methods: with one method, or with the one that `method` names.
        size: column, page or slide.
        method: which of several.

    Example:
        >>> from perdure.metrics import ScoreMatrix
        >>> from perdure.record import ScoreInput
        >>> figure = panels({"er": [ScoreInput(ScoreMatrix([[0.9, 0.1], [0.6, 0.8]]))]})
        >>> [bar.get_height().round(2) for bar in figure.axes[2].patches]
        [np.float64(0.3)]
    """
    name = _chosen(methods, method)
    matrices = get_matrices({name: methods[name]})[name]
    tasks, scale = short_task_names(matrices, size), merge_matrix_scales({name: matrices})
    scores = average_runs([matrix.scores for matrix in matrices])
    rows, columns, height = SHAPES.get(size, (2, 2, 1.0))
    with new_figure(size, height + _turned(tasks, size), rows, columns) as figure:
        of_matrix, of_ends, of_losses, over_time = figure.axes
        _matrix(figure, of_matrix, scores, scale, tasks, size)
        _learned_and_kept(of_ends, matrices, size)
        _forgetting(of_losses, matrices)
        _trajectories(over_time, scores, tasks)
        for axes in (of_ends, over_time):
            axes.set_ylabel(score_axis_label(scale))
            percent_ticks(scale, axes.yaxis)
            if scale.is_accuracy:
                axes.set_ylim(0, 1.05)
        for axes in (of_ends, of_losses, over_time):
            _tasks_below(axes, tasks, size, columns)
        over_time.set_xlabel("after learning")
        runs = f" (mean and SD of {len(matrices)} runs)" if len(matrices) > 1 else ""
        figure.suptitle(f"{escape_text(name)}{runs}", fontsize=SIZES[size][1])
        write_numbers(figure, size, percent=scale.percent)
    return figure


def _chosen(methods: RunsByMethod, method: str | None) -> str:
    if method is not None and method not in methods:
        raise InputError(
            f"no method is called {method!r:.60}; {suggest_names(method, methods)}"
            f"there are {', '.join(methods)}"
        )
    if method is None and len(methods) != 1:
        raise InputError(
            f"{len(methods)} methods ({', '.join(methods):.200}), expected one for panels; "
            "name it: --method NAME"
        )
    return method if method is not None else next(iter(methods))


def _matrix(
    figure: Figure,
    axes: Axes,
    scores: MeanAndSD,
    scale: ScoreScale,
    tasks: Sequence[str],
    size: Size,
) -> None:
    image = draw_cells(
        axes, scores.mean, make_score_colours(scale, *get_score_limits(scale, scores.mean))
    )
    name_cells(axes, tasks, tasks, size)
    axes.set(xlabel="tested on", ylabel="after learning", title="Scores after each task")
    bar = figure.colorbar(image, ax=axes, label=score_axis_label(scale))
    percent_ticks(scale, bar.ax.yaxis)


def _learned_and_kept(axes: Axes, matrices: Sequence[ScoreMatrix], size: Size) -> None:
    """Draw each task's score when it was learned beside its score at the end."""
    learned = average_runs([matrix.scores.diagonal() for matrix in matrices])
    kept = average_runs([matrix.scores[-1] for matrix in matrices])
    places = np.arange(len(learned.mean))
    _bars(axes, places - 0.2, learned, 0.4, BLUE, "when learned")
    _bars(axes, places + 0.2, kept, 0.4, ORANGE, "at the end")
    # Above the axes: it may cover no bar, and bars may reach the top.
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 0.99), ncols=2, borderaxespad=0.1)
    axes.set_title("Learned against kept", pad=1.9 * SIZES[size][1])


def _forgetting(axes: Axes, matrices: Sequence[ScoreMatrix]) -> None:
    """Draw how much each task but the last has lost since it was learned; gains are negative."""
    better = [matrix.higher_is_better for matrix in matrices]
    lost = average_runs([(r.diagonal() - r[-1])[:-1] for r in better])
    colours = [VERMILION if value > 0 else BLUE for value in lost.mean]
    _bars(axes, np.arange(len(lost.mean)), lost, 0.6, colours)
    axes.axhline(0, color="black", linewidth=0.8)
    scale = matrices[0].scale
    change = "final minus learned" if scale.lower_is_better else "learned minus final"
    axes.set(ylabel=change + " (%)" * scale.percent, title="Forgetting of each task")
    percent_ticks(scale, axes.yaxis)
    if np.isnan(lost.mean).all():  # of no task too
        why = "not tested at the end" if len(lost.mean) else "one task: nothing to forget"
        axes.text(0.5, 0.6, why, ha="center", transform=axes.transAxes)


def _bars(
    axes: Axes, places: np.ndarray, over: MeanAndSD, width: float, colour: object, label: str = ""
) -> None:
    errors = over.sd if over.runs > 1 else None
    line = {"elinewidth": 1, "ecolor": "black"}
    axes.bar(
        places, over.mean, width, yerr=errors, color=colour, label=label or None, capsize=2,
        error_kw=line,
    )  # fmt: skip
    axes.grid(alpha=0.3, axis="y")
    axes.set_axisbelow(True)


def _trajectories(axes: Axes, scores: MeanAndSD, tasks: Sequence[str]) -> None:
    """Draw each task's score from when it was learned on."""
    colours = task_colours(len(tasks))
    drawn = [
        axes.errorbar(
            np.arange(j, len(tasks)), scores.mean[j:, j], color=colours[j],
            yerr=scores.sd[j:, j] if scores.runs > 1 else None, capsize=2, elinewidth=0.8,
            marker="o" if len(tasks) <= 12 else "", markersize=3,
        )
        for j in range(len(tasks))
    ]  # fmt: skip
    every = -(-len(tasks) // NAMED)
    axes.legend(
        drawn[::every], tasks[::every], loc="upper left", bbox_to_anchor=(1.0, 1.0),
        borderaxespad=0, handlelength=1.2,
    )  # fmt: skip
    axes.set_title("Each task since it was learned")
    axes.grid(alpha=0.3)


def _turned(tasks: Sequence[str], size: Size) -> float:
    """Return how much higher a page gets where long names of tasks are turned; a slide cannot."""
    rows, columns, _ = SHAPES.get(size, (2, 2, 1.0))
    width, points = SIZES.get(size, SIZES["page"])
    longest = max(map(text_width, tasks)) * points / 72
    turned = size != "slide" and longest * len(tasks) > 0.6 * width / columns
    return rows * longest / width if turned else 0.0


def _tasks_below(axes: Axes, tasks: Sequence[str], size: Size, columns: int) -> None:
    width, points = SIZES[size]
    inches = 0.6 * width / columns
    turned = max(map(text_width, tasks)) * len(tasks) * points / 72 > inches
    every = math.ceil(1.25 * points * len(tasks) / 72 / inches) if turned else 1
    axes.set_xticks(range(0, len(tasks), every), tasks[::every])
    axes.set_xlim(-0.6, len(tasks) - 0.4)
    axes.tick_params(axis="x", rotation=90 if turned else 0)
