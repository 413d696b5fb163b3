"""Score matrices of many methods side by side, and the changes of scores from task to task.

After Faber et al. (2023), Figs. 2 to 9: one heatmap per strategy, one colour scale for all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...record import InputError
from .drawing.cells import (
    draw_cells,
    make_change_colours,
    make_score_colours,
    name_cells,
    text_width,
    write_numbers,
)
from .drawing.matrices import (
    average_runs,
    get_matrices,
    get_score_limits,
    merge_matrix_scales,
    short_task_names,
    wrap_name,
)
from .drawing.panels import escape_text, percent_ticks, score_axis_label
from .drawing.paper import SIZES, describe_runs, new_figure, set_caption, split_into_rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from ...metrics import ScoreMatrix
    from ..load import RunsByMethod
    from .drawing.paper import Size

__all__ = ["changes", "heatmaps"]

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
    rows, _ = split_into_rows(len(values), MAX_COLUMNS.get(size, 4))
    columns = -(-len(values) // rows)
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
