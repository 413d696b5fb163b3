"""Four panels of one method: matrix, learned against final, forgetting, trajectories.

After Evaluation Metrics for Continual Learning (tutorial). Row i of the matrix is measured after
learning task i.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ..._suggestions import suggest_names
from ...record import InputError
from ..colours import BLUE, ORANGE, VERMILION, task_styles
from .drawing.cells import draw_cells, make_score_colours, name_cells, text_width, write_numbers
from .drawing.matrices import (
    MeanAndSD,
    average_runs,
    get_matrices,
    get_score_limits,
    merge_matrix_scales,
    short_task_names,
)
from .drawing.panels import escape_text, percent_ticks, score_axis_label
from .drawing.paper import SIZES, describe_runs, new_figure, set_caption

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ...metrics import ScoreMatrix, ScoreScale
    from ..load import RunsByMethod
    from .drawing.paper import Size

__all__ = ["panels"]

# Rows, columns, and the height of the figure relative to its width.
SHAPES = {"column": (4, 1, 2.6), "page": (2, 2, 0.75), "slide": (2, 2, 0.5625)}
MAX_LEGEND_TASKS = 10  # with more tasks, the legend names some of them


def panels(methods: RunsByMethod, *, size: Size = "page", method: str | None = None) -> Figure:
    """Return four panels of one method: means average its seeds, with SDs if there are several.

    Args:
        methods: runs by method, as returned by `open_methods`.
        size: a column or a page of a paper, or a slide.
        method: the method to draw; required if there are several.

    Example:
        >>> from perdure.metrics import ScoreMatrix
        >>> from perdure.record import ScoreInput
        >>> figure = panels({"er": [ScoreInput(ScoreMatrix([[0.9, 0.1], [0.6, 0.8]]))]})
        >>> [bar.get_height().round(2) for bar in figure.axes[2].patches]
        [np.float64(0.3)]
    """
    name = _choose_method(methods, method)
    matrices = get_matrices({name: methods[name]})[name]
    tasks, scale = short_task_names(matrices, size), merge_matrix_scales({name: matrices})
    scores = average_runs([matrix.scores for matrix in matrices])
    rows, columns, height = SHAPES.get(size, (2, 2, 1.0))
    with new_figure(size, height + _extra_height(tasks, size), rows, columns) as figure:
        matrix_axes, ends_axes, losses_axes, time_axes = figure.axes
        _draw_matrix(figure, matrix_axes, scores, scale, tasks, size)
        _draw_learned_and_final(ends_axes, matrices, size)
        _draw_forgetting(losses_axes, matrices)
        _draw_trajectories(time_axes, scores, tasks)
        for axes in (ends_axes, time_axes):
            axes.set_ylabel(score_axis_label(scale))
            percent_ticks(scale, axes.yaxis)
            if scale.is_accuracy:
                axes.set_ylim(0, 1.05)
        for axes in (ends_axes, losses_axes, time_axes):
            _name_tasks(axes, tasks, size, columns)
        time_axes.set_xlabel("after learning")
        runs = f" (mean and SD of {len(matrices)} runs)" if len(matrices) > 1 else ""
        figure.suptitle(f"{escape_text(name)}{runs}", fontsize=SIZES[size][1])
        write_numbers(figure, size, percent=scale.percent)
    runs = describe_runs([len(matrices)], "values", "error bars one SD")
    set_caption(figure, "forgetting: forgetting.learned of each task", runs)
    return figure


def _choose_method(methods: RunsByMethod, method: str | None) -> str:
    if method is not None and method not in methods:
        raise InputError(
            f"there is no method {method!r:.60}; {suggest_names(method, methods)}"
            f"expected one of {', '.join(methods)}"
        )
    if method is None and len(methods) != 1:
        raise InputError(
            f"{len(methods)} methods ({', '.join(methods):.200}), expected one for panels; "
            "choose it with `method=`"
        )
    return method if method is not None else next(iter(methods))


def _draw_matrix(
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
    axes.set(xlabel="evaluated on", ylabel="after learning", title="Scores after each task")
    bar = figure.colorbar(image, ax=axes, label=score_axis_label(scale))
    percent_ticks(scale, bar.ax.yaxis)


def _draw_learned_and_final(axes: Axes, matrices: Sequence[ScoreMatrix], size: Size) -> None:
    """Draw each task's score when it was learned next to its score at the end."""
    learned = average_runs([matrix.scores.diagonal() for matrix in matrices])
    final = average_runs([matrix.scores[-1] for matrix in matrices])
    positions = np.arange(len(learned.mean))
    _draw_bars(axes, positions - 0.2, learned, 0.4, BLUE, "when learned")
    _draw_bars(axes, positions + 0.2, final, 0.4, ORANGE, "at the end")
    # Above the axes: bars may reach the top, and the legend must not cover them.
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 0.99), ncols=2, borderaxespad=0.1)
    axes.set_title("Learned against final", pad=1.9 * SIZES[size][1])


def _draw_forgetting(axes: Axes, matrices: Sequence[ScoreMatrix]) -> None:
    """Draw the loss of each task except the last since it was learned; gains are negative."""
    better = [matrix.higher_is_better for matrix in matrices]
    lost = average_runs([(r.diagonal() - r[-1])[:-1] for r in better])
    colours = [VERMILION if value > 0 else BLUE for value in lost.mean]
    _draw_bars(axes, np.arange(len(lost.mean)), lost, 0.6, colours)
    axes.axhline(0, color="black", linewidth=0.8)
    scale = matrices[0].scale
    change = "final minus learned" if scale.lower_is_better else "learned minus final"
    axes.set(ylabel=change + " (%)" * scale.percent, title="Forgetting per task")
    percent_ticks(scale, axes.yaxis)
    if np.isnan(lost.mean).all():  # also true if there is no such task
        reason = "not evaluated at the end" if len(lost.mean) else "one task: nothing to forget"
        axes.text(0.5, 0.6, reason, ha="center", transform=axes.transAxes)


def _draw_bars(
    axes: Axes,
    positions: np.ndarray,
    average: MeanAndSD,
    width: float,
    colour: object,
    label: str = "",
) -> None:
    errors = average.sd if average.runs > 1 else None
    line = {"elinewidth": 1, "ecolor": "black"}
    axes.bar(
        positions, average.mean, width, yerr=errors, color=colour, label=label or None, capsize=2,
        error_kw=line,
    )  # fmt: skip
    axes.grid(alpha=0.3, axis="y")
    axes.set_axisbelow(True)


def _draw_trajectories(axes: Axes, scores: MeanAndSD, tasks: Sequence[str]) -> None:
    """Draw each task's score since it was learned."""
    styles = task_styles(len(tasks))
    lines = [
        axes.errorbar(
            np.arange(j, len(tasks)), scores.mean[j:, j], color=styles[j].colour,
            ls=styles[j].dashes, yerr=scores.sd[j:, j] if scores.runs > 1 else None, capsize=2,
            elinewidth=0.8, marker="o" if len(tasks) <= 12 else "", markersize=3,
        )
        for j in range(len(tasks))
    ]  # fmt: skip
    every = -(-len(tasks) // MAX_LEGEND_TASKS)
    axes.legend(
        lines[::every], tasks[::every], loc="upper left", bbox_to_anchor=(1.0, 1.0),
        borderaxespad=0, handlelength=1.2,
    )  # fmt: skip
    axes.set_title("Each task since it was learned")
    axes.grid(alpha=0.3)


def _extra_height(tasks: Sequence[str], size: Size) -> float:
    """Return the extra height for rotated task names, relative to the width; none on a slide."""
    rows, columns, _ = SHAPES.get(size, (2, 2, 1.0))
    width, points = SIZES.get(size, SIZES["page"])
    longest = max(map(text_width, tasks)) * points / 72
    rotated = size != "slide" and longest * len(tasks) > 0.6 * width / columns
    return rows * longest / width if rotated else 0.0


def _name_tasks(axes: Axes, tasks: Sequence[str], size: Size, columns: int) -> None:
    width, points = SIZES[size]
    inches = 0.6 * width / columns
    rotated = max(map(text_width, tasks)) * len(tasks) * points / 72 > inches
    every = math.ceil(1.25 * points * len(tasks) / 72 / inches) if rotated else 1
    axes.set_xticks(range(0, len(tasks), every), tasks[::every])
    axes.set_xlim(-0.6, len(tasks) - 0.4)
    axes.tick_params(axis="x", rotation=90 if rotated else 0)
