"""Score matrices of many methods side by side, and how scores change from task to task.

After Faber et al. (2023), Figs. 2 to 9: a heatmap for each strategy, one colour scale for all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...record import InputError
from ._cells import (
    draw_cells,
    make_change_colours,
    make_score_colours,
    name_cells,
    text_width,
    write_numbers,
)
from ._matrices import (
    average_runs,
    get_matrices,
    get_score_limits,
    merge_matrix_scales,
    short_task_names,
    wrap_name,
)
from ._panels import escape_text, percent_ticks, score_axis_label
from ._paper import SIZES, new_figure, split_into_rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from ...metrics import ScoreMatrix
    from ..load import RunsByMethod
    from ._paper import Size

__all__ = ["changes", "heatmaps"]

MOST = {"column": 2, "page": 4, "slide": 6}  # panels beside each other
MANY = 12  # tasks; the names of more would overlap


def heatmaps(methods: RunsByMethod, *, size: Size = "page") -> Figure:
    """Return a heatmap of each method's scores: row i after learning task i, column j tested on j.

    Means over the seeds of a method. All share one colour scale: 0 to 1 for accuracies.

    Example:
        >>> from perdure.metrics import ScoreMatrix
        >>> from perdure.record import ScoreInput
        >>> figure = heatmaps({"er": [ScoreInput(ScoreMatrix([[0.9, 0.1], [0.6, 0.8]]))]})
        >>> [text.get_text() for text in figure.axes[0].texts]
        ['0.90', '0.10', '0.60', '0.80']
    """
    found = get_matrices(methods)
    means = {
        name: average_runs([m.scores for m in several]).mean for name, several in found.items()
    }
    scale = merge_matrix_scales(found)
    colours = make_score_colours(scale, *get_score_limits(scale, *means.values()))
    return _grid(means, found, colours, score_axis_label(scale), size)


def changes(methods: RunsByMethod, *, size: Size = "page") -> Figure:
    """Return heatmaps of what learning a task did to the scores: R[i, j] - R[i-1, j] in row i.

    Rows begin with the second task. Gains are positive, also where lower scores are better.

    Example:
        >>> from perdure.metrics import ScoreMatrix
        >>> from perdure.record import ScoreInput
        >>> figure = changes({"er": [ScoreInput(ScoreMatrix([[0.9, 0.1], [0.6, 0.8]]))]})
        >>> [text.get_text() for text in figure.axes[0].texts]
        ['-0.30', '+0.70']
    """
    found = get_matrices(methods, lacks=_one_task)
    steps = {
        name: average_runs([np.diff(m.higher_is_better, axis=0) for m in several]).mean
        for name, several in found.items()
    }
    measured = [each[~np.isnan(each)] for each in steps.values()]
    if not any(map(len, measured)):
        raise InputError(
            "no task was tested after two tasks in a row, expected one: a change is between two"
        )
    most = float(np.abs(np.concatenate(measured)).max())
    scale = merge_matrix_scales(found)
    change = f"{'fall' if scale.lower_is_better else 'rise'} of {escape_text(scale.label)}"
    label = f"{change} ({'%, ' if scale.percent else ''}gains are positive)"
    return _grid(steps, found, make_change_colours(most), label, size, signed=True)


def _one_task(matrix: ScoreMatrix) -> str:
    few = len(matrix.tasks) < 2
    return "one task only, expected two or more: a change is from task to task" if few else ""


def _grid(
    values: Mapping[str, NDArray[np.float64]],
    found: Mapping[str, Sequence[ScoreMatrix]],
    colours: tuple[str, Normalize],
    label: str,
    size: Size,
    *,
    signed: bool = False,
) -> Figure:
    """Return a heatmap for each method, task names on the outer axes only where all share them."""
    rows, _ = split_into_rows(len(values), MOST.get(size, 4))
    columns = -(-len(values) // rows)
    tasks = {name: short_task_names(several, size) for name, several in found.items()}
    shared = len(set(tasks.values())) == 1
    with new_figure(size, _height(rows, columns, tasks, size), rows, columns) as figure:
        panels = list(figure.axes)
        for k, (axes, (name, each)) in enumerate(zip(panels, values.items(), strict=False)):
            image = draw_cells(axes, each, colours)
            name_cells(axes, tasks[name][-len(each) :], tasks[name], size)
            axes.set_title(wrap_name(name, 100 * SIZES[size][0] / SIZES[size][1] / columns))
            if shared and len(values) <= k + columns < rows * columns:
                _names_in_gap(axes, tasks[name])
            if shared:
                axes.tick_params(labelleft=k % columns == 0, labelbottom=k >= columns * (rows - 1))
        for empty in panels[len(values) :]:
            empty.set_axis_off()
        figure.supxlabel("tested on", fontsize=SIZES[size][1])
        figure.supylabel("after learning", fontsize=SIZES[size][1])
        bar = figure.colorbar(image, ax=panels, label=label, aspect=30, fraction=0.05)
        percent_ticks(merge_matrix_scales(found), bar.ax.yaxis)
        write_numbers(figure, size, signed=signed, percent=merge_matrix_scales(found).percent)
    return figure


def _names_in_gap(axes: Axes, names: Sequence[str]) -> None:
    """Write column names where nothing stands below: tick labels would push the rows apart."""
    for j, tick in enumerate(axes.get_xticklabels() if len(names) <= MANY else []):
        axes.annotate(
            names[j], (j, 0), (0, -4), xycoords=("data", "axes fraction"),
            textcoords="offset points", ha="center", va="top", rotation=tick.get_rotation(),
            fontsize=tick.get_fontsize(),
        ).set_in_layout(False)  # fmt: skip


def _height(rows: int, columns: int, tasks: Mapping[str, Sequence[str]], size: Size) -> float:
    """Return the height of a figure of about square panels, as a share of its width."""
    width, points = SIZES.get(size, SIZES["page"])
    names = max(text_width(name) for several in tasks.values() for name in several) * points / 72
    panel = (width - names - 10 * points / 72) / columns  # beside a colour bar and its numbers
    inches = rows * (panel + 2.5 * points / 72) + names + 0.3
    return min(inches, 9 * width / 16 if size == "slide" else 9.0) / width
