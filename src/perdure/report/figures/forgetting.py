"""Final forgetting against the largest drop during training: De Lange et al. (2023), figure 9."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...metrics import forgetting_pairs
from ...record import InputError
from ..colours import choose_styles
from ..filtering import drop_other_task_counts, drop_unusable
from ..labels import merge_scales
from .drawing.panels import (
    check_panel_count,
    escape_text,
    get_layout,
    percent_ticks,
    share_axes,
    shorten,
)
from .drawing.paper import SIZES, describe_runs, new_figure, set_caption

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from ...metrics import ScoreScale
    from ...record import ScoreInput
    from ..colours import LineStyle
    from ..load import RunsByMethod
    from .drawing.paper import Size

    Pairs = list[dict[tuple[int, int], tuple[float, float]]]  # one per run

__all__ = ["forgetting"]


def forgetting(methods: RunsByMethod, *, size: Size = "page", window: int = 10) -> Figure:
    """Return FORG against windowed forgetting, one point per older task after each task.

    Bold points are means over the runs of a method, light points are single runs; Pearson's
    correlation is computed from the means. One panel per method.

    Args:
        methods: runs by method, as returned by `open_methods`.
        size: a column or a page of a paper, or a slide.
        window: number of evaluations within which a drop counts.

    Example:
        >>> from perdure.metrics import ScoreMatrix, Stream
        >>> from perdure.record import ScoreInput
        >>> stream = Stream({"a": ([1, 2, 3], [1.0, 0.25, 0.75]), "b": ([3], [0.5])},
        ...                 spans=[("a", 1), ("b", 3)])
        >>> run = ScoreInput(ScoreMatrix([[1.0, 0.0], [0.75, 0.5]]), stream)
        >>> forgetting({"mine": [run]}).axes[0].collections[-1].get_offsets().tolist()
        [[0.75, 0.25]]
    """
    if window < 2:
        raise InputError(f"window is {window}, expected at least 2 evaluations: one cannot drop")
    styles = choose_styles(methods)
    methods = drop_other_task_counts(
        drop_unusable(methods, lambda run: _find_problem(run, window)), together=False
    )
    points = {name: _get_pairs(runs, window) for name, runs in methods.items()}
    scale = _merge_scales(methods)
    height, rows, columns = get_layout(
        check_panel_count(len(points), f"{len(points)} methods"), size
    )
    with new_figure(size, height * 1.2, rows, columns) as figure:
        for axes in figure.axes[len(points) :]:
            axes.set_visible(False)
        percent = " (%)" if scale.percent else ""
        letters = int(100 * SIZES[size][0] / SIZES[size][1] / columns)  # as wide as a panel
        x = f"largest {_name_of_drop(scale)} within {window} evaluations (WF{window}){percent}"
        percent_ticks(scale, figure.axes[0].xaxis, figure.axes[0].yaxis)
        share_axes(figure.axes, columns, x, f"forgotten (FORG){percent}", whole=False)
        for axes, (name, pairs) in zip(figure.axes, points.items(), strict=False):
            rho = _draw(axes, pairs, styles[name])
            correlation = "ρ is undefined" if rho is None else f"ρ = {rho:.2f}".replace("-", "−")
            axes.set_title(f"{shorten(name, letters)}\n{correlation}")
    shown = f"forgetting.learned against wf{window}, one point per older task after each task"
    runs = describe_runs(map(len, points.values()), "bold points", "light points single runs")
    set_caption(figure, shown, runs, "ρ: Pearson's correlation, of means over runs")
    return figure


def _find_problem(run: ScoreInput, window: int) -> str:
    """Return why a run cannot be drawn, an empty string if it can."""
    if run.stream is None or run.matrix is None:
        what = "stream of evaluations" if run.stream is None else "score matrix"
        why = f": {run.no_matrix}" if run.stream is not None and run.no_matrix else ""
        return f"no {what}{why}, expected both; a points.csv must have the column trained"
    if not forgetting_pairs(run.matrix, run.stream, window):
        return "no older task, expected at least 2 learned tasks"
    return ""


def _get_pairs(runs: Sequence[ScoreInput], window: int) -> Pairs:
    return [
        forgetting_pairs(run.matrix, run.stream, window)
        for run in runs
        if run.matrix is not None and run.stream is not None
    ]


def _merge_scales(methods: RunsByMethod) -> ScoreScale:
    runs = [run for several in methods.values() for run in several]
    return merge_scales([run.matrix.scale for run in runs if run.matrix is not None])


def _name_of_drop(scale: ScoreScale) -> str:
    """Return the word for getting worse: a drop of an accuracy, a rise of a loss."""
    if scale.label == "accuracy":
        return "drop"
    return f"{'rise' if scale.lower_is_better else 'drop'} of {escape_text(scale.label)}"


def _draw(axes: Axes, pairs: Pairs, style: LineStyle) -> float | None:
    """Draw the points of a method; return the correlation of the means, None if undefined."""
    shared = [key for key in pairs[0] if all(key in run for run in pairs)]
    every = np.array([[run[key] for key in shared] for run in pairs]).reshape(len(pairs), -1, 2)
    if len(pairs) > 1:
        single = every.reshape(-1, 2)
        axes.scatter(single[:, 1], single[:, 0], color=style.colour, alpha=0.25, s=12, linewidths=0)
    means = every.mean(axis=0)
    axes.scatter(means[:, 1], means[:, 0], color=style.colour, s=24, linewidths=0)
    return _correlation(means[~np.isnan(means).any(axis=1)])


def _correlation(points: NDArray[np.float64]) -> float | None:
    if len(points) < 2 or (np.ptp(points, axis=0) == 0).any():
        return None
    return float(np.asarray(np.corrcoef(points.T))[0, 1])
