"""Score matrices: four panels of one method, and heatmaps and changes of many side by side.

The panels are after Evaluation Metrics for Continual Learning (tutorial), the heatmaps, with one
colour scale for all, after Faber et al. (2023), Figs. 2 to 9. Row i is measured after learning
task i.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ..._suggestions import suggest_names
from ...record import InputError
from ..colours import BLUE, ORANGE, VERMILION, task_styles
from .drawing import SIZES, describe_runs, new_figure, set_caption, split_into_rows
from .drawing.matrices import (
    MeanAndSD,
    average_runs,
    draw_cells,
    get_matrices,
    get_score_limits,
    make_change_colours,
    make_score_colours,
    merge_matrix_scales,
    name_cells,
    short_task_names,
    text_width,
    wrap_name,
    write_numbers,
)
from .drawing.panels import escape_text, percent_ticks, score_axis_label

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from ...metrics import ScoreMatrix, ScoreScale
    from ..load import RunsByMethod
    from .drawing import Size

__all__ = ["changes", "heatmaps", "panels"]

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


MAX_COLUMNS = {"column": 2, "page": 4, "slide": 6}
MAX_NAMED_TASKS = 12  # the names of more tasks would overlap


def heatmaps(methods: RunsByMethod, *, size: Size = "page") -> Figure:
    """Return a heatmap of each method's scores: row i after learning task i, column j on task j.

    Values are means over seeds. All heatmaps share one colour scale: 0 to 1 for accuracies.

    Example:
        >>> from perdure.metrics import ScoreMatrix
        >>> from perdure.record import ScoreInput
        >>> figure = heatmaps({"er": [ScoreInput(ScoreMatrix([[0.9, 0.1], [0.6, 0.8]]))]})
        >>> [text.get_text() for text in figure.axes[0].texts]
        ['0.90', '0.10', '0.60', '0.80']
    """
    matrices = get_matrices(methods)
    means = {
        name: average_runs([m.scores for m in several]).mean for name, several in matrices.items()
    }
    scale = merge_matrix_scales(matrices)
    colours = make_score_colours(scale, *get_score_limits(scale, *means.values()))
    return _draw_grid(means, matrices, colours, score_axis_label(scale), size)


def changes(methods: RunsByMethod, *, size: Size = "page") -> Figure:
    """Return heatmaps of how learning task i changed the scores: R[i, j] - R[i-1, j] in row i.

    Rows start with the second task. Gains are positive, also if lower scores are better.

    Example:
        >>> from perdure.metrics import ScoreMatrix
        >>> from perdure.record import ScoreInput
        >>> figure = changes({"er": [ScoreInput(ScoreMatrix([[0.9, 0.1], [0.6, 0.8]]))]})
        >>> [text.get_text() for text in figure.axes[0].texts]
        ['-0.30', '+0.70']
    """
    matrices = get_matrices(methods, find_problem=_find_problem)
    steps = {
        name: average_runs([np.diff(m.higher_is_better, axis=0) for m in several]).mean
        for name, several in matrices.items()
    }
    measured = [change[~np.isnan(change)] for change in steps.values()]
    if not any(map(len, measured)):
        raise InputError("no task was evaluated after two consecutive tasks, expected at least one")
    most = float(np.abs(np.concatenate(measured)).max())
    scale = merge_matrix_scales(matrices)
    change = f"{'fall' if scale.lower_is_better else 'rise'} of {escape_text(scale.label)}"
    label = f"{change} ({'%, ' if scale.percent else ''}gains are positive)"
    return _draw_grid(steps, matrices, make_change_colours(most), label, size, signed=True)


def _find_problem(matrix: ScoreMatrix) -> str:
    few = len(matrix.tasks) < 2
    return "one task only, expected two or more: a change is from task to task" if few else ""


def _draw_grid(
    values: Mapping[str, NDArray[np.float64]],
    matrices: Mapping[str, Sequence[ScoreMatrix]],
    colours: tuple[str, Normalize],
    label: str,
    size: Size,
    *,
    signed: bool = False,
) -> Figure:
    """Return one heatmap per method, with task names on the outer axes only if all share them."""
    rows, columns = split_into_rows(len(values), MAX_COLUMNS.get(size, 4))
    tasks = {name: short_task_names(several, size) for name, several in matrices.items()}
    shared = len(set(tasks.values())) == 1
    with new_figure(size, _height(rows, columns, tasks, size), rows, columns) as figure:
        panels = list(figure.axes)
        for k, (axes, (name, cells)) in enumerate(zip(panels, values.items(), strict=False)):
            image = draw_cells(axes, cells, colours)
            name_cells(axes, tasks[name][-len(cells) :], tasks[name], size)
            axes.set_title(wrap_name(name, 100 * SIZES[size][0] / SIZES[size][1] / columns))
            if shared and len(values) <= k + columns < rows * columns:
                _name_columns(axes, tasks[name])
            if shared:
                axes.tick_params(labelleft=k % columns == 0, labelbottom=k >= columns * (rows - 1))
        for empty in panels[len(values) :]:
            empty.set_axis_off()
        figure.supxlabel("evaluated on", fontsize=SIZES[size][1])
        figure.supylabel("after learning", fontsize=SIZES[size][1])
        if 0.55 * len(label) * SIZES[size][1] / 72 > 0.8 * figure.get_figheight():
            label = label.replace(" (", "\n(")  # as long as the bar
        bar = figure.colorbar(image, ax=panels, label=label, aspect=30, fraction=0.05)
        percent_ticks(merge_matrix_scales(matrices), bar.ax.yaxis)
        write_numbers(figure, size, signed=signed, percent=merge_matrix_scales(matrices).percent)
    rows_are = "each row: the change of the scores with that task" if signed else ""
    set_caption(figure, rows_are, describe_runs(map(len, matrices.values()), "cells", ""))
    return figure


def _name_columns(axes: Axes, names: Sequence[str]) -> None:
    """Write column names into the gap below a panel; tick labels would push the rows apart."""
    for j, tick in enumerate(axes.get_xticklabels() if len(names) <= MAX_NAMED_TASKS else []):
        axes.annotate(
            names[j], (j, 0), (0, -4), xycoords=("data", "axes fraction"),
            textcoords="offset points", ha="center", va="top", rotation=tick.get_rotation(),
            fontsize=tick.get_fontsize(),
        ).set_in_layout(False)  # fmt: skip


def _height(rows: int, columns: int, tasks: Mapping[str, Sequence[str]], size: Size) -> float:
    """Return the height of a figure of roughly square panels, relative to its width."""
    width, points = SIZES.get(size, SIZES["page"])
    names = max(text_width(name) for several in tasks.values() for name in several) * points / 72
    panel = (width - names - 10 * points / 72) / columns  # next to a colour bar and its ticks
    inches = rows * (panel + 2.5 * points / 72) + names + 0.3
    return min(inches, 9 * width / 16 if size == "slide" else 9.0) / width
