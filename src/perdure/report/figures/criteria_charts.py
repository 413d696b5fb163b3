"""The criteria of Díaz-Rodríguez et al. (2018) as spider charts, and accuracy on all tasks.

Their Fig. 2 shows a strategy between its bounds, naive and cumulative; their Fig. 1b the accuracy
on one fixed test set, that of all tasks, after each task.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.projections.polar import PolarAxes

from ...metrics import CRITERIA, SummaryOptions, UndefinedMetricError, find_metric, fixed_curve
from ...metrics.score_matrix import ZERO_UPPER
from ..colours import choose_styles
from ..filtering import drop_unusable, require_one_scenario
from ..load import get_strategy
from .drawing import SIZES, describe_runs, new_figure, set_caption, split_into_rows
from .drawing.by_task import draw_task_lines
from .drawing.matrices import average_runs, get_matrices, merge_matrix_scales, wrap_name
from .drawing.panels import (
    add_legend,
    band_key,
    escape_text,
    line_key,
    percent_ticks,
    score_axis_label,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from ...metrics import ScoreMatrix
    from ...record import ScoreInput
    from ..colours import LineStyle
    from ..load import RunsByMethod
    from .drawing import Size

__all__ = ["fixed", "spider"]

BOUNDS = ("naive", "cumulative")
MAX_COLUMNS = {"column": 2, "page": 3, "slide": 6}


def spider(methods: RunsByMethod, *, size: Size = "page") -> Figure:
    """Return one spider chart of seven criteria per method, with naive and cumulative as bounds.

    Values are means over seeds; the larger the area, the better. An undefined criterion is a gap
    in the line and marked as undefined: it is not 0.

    Example:
        >>> from perdure.metrics import ScoreMatrix
        >>> from perdure.record import ScoreInput
        >>> figure = spider({"er": [ScoreInput(ScoreMatrix([[0.9, 0.1], [0.6, 0.8]]))]})
        >>> figure.axes[0].lines[0].get_ydata().round(2).tolist()[:4]
        [0.77, 0.7, 0.0, 0.1]
    """
    require_one_scenario(methods)
    styles = choose_styles(methods)
    methods = drop_unusable(methods, _find_run_problem, together=True)
    values = {name: _criteria(runs) for name, runs in methods.items()}
    bounds = _bounds(methods)
    shown = [name for name in methods if name not in bounds] or bounds
    rows, columns = split_into_rows(len(shown), MAX_COLUMNS.get(size, 3))
    width, points = SIZES.get(size, SIZES["page"])
    letters = min(0.7 * points, 2.9 * width / columns)  # so that "undefined" fits on a spoke
    height = 0.5625
    if size != "slide":
        height = min((1.1 if columns > 1 else 0.8) * rows / columns + 0.1, 9 / width)
    polar = {"projection": "polar"}
    with new_figure(size, height, rows, columns, subplot_kw=polar) as figure:
        for axes, name in zip(figure.axes, shown, strict=False):
            assert isinstance(axes, PolarAxes)
            _draw_web(axes, wrap_name(name, 110 * width / points / columns), values[name], letters)
            for other in [*(bound for bound in bounds if bound != name), name]:
                _draw_polygon(axes, other, values[other], styles[other], own=other == name)
        for empty in figure.axes[len(shown) :]:
            empty.set_axis_off()
        figure.supxlabel(_list_criteria(values), fontsize=letters)
        if bounds:  # each other method is named by its panel
            add_legend(figure, [line_key(name, styles[name], lw=0.9) for name in bounds])
    names = ", ".join(
        f"{short}: {find_metric(id_).name} ({id_})" for short, id_ in CRITERIA.items()
    )
    runs = describe_runs(map(len, methods.values()), "points", "")
    set_caption(figure, f"{names}, from 0 to 1, higher is better", runs)
    return figure


def fixed(methods: RunsByMethod, *, size: Size = "page") -> Figure:
    """Return the mean score over all tasks, learned or not, after each task, one line per method.

    Lines are means over seeds, with a band of one SD. Tasks must be evaluated before they are
    learned.

    Example:
        >>> from perdure.metrics import ScoreMatrix
        >>> from perdure.record import ScoreInput
        >>> figure = fixed({"er": [ScoreInput(ScoreMatrix([[0.9, 0.1], [0.6, 0.8]]))]})
        >>> figure.axes[0].lines[0].get_ydata().tolist()
        [0.5, 0.7]
    """
    require_one_scenario(methods)
    matrices = get_matrices(methods, together=True, find_problem=_find_problem)
    curves = {
        name: average_runs([fixed_curve(matrix.scores) for matrix in several])
        for name, several in matrices.items()
    }
    scale = merge_matrix_scales(matrices)
    height = {"column": 0.75, "page": 0.5, "slide": 0.5625}.get(size, 0.6)
    with new_figure(size, height) as figure:
        axes = figure.axes[0]
        draw_task_lines(axes, curves, choose_styles(methods))
        axes.set(xlabel="tasks learned", ylabel=f"{score_axis_label(scale)} over all tasks")
        percent_ticks(scale, axes.yaxis)
        if scale.is_accuracy:
            axes.set_ylim(0, 1.02)
        add_legend(figure, [*axes.lines, *band_key(map(len, matrices.values()))])
    set_caption(figure, describe_runs(map(len, matrices.values())))
    return figure


def _find_problem(matrix: ScoreMatrix) -> str:
    hint = "evaluate unseen tasks too, with `unseen=True`"
    try:
        curve = fixed_curve(matrix.scores)
    except UndefinedMetricError as reason:
        return ZERO_UPPER if matrix.upper == "zeros" else f"{reason}; {hint}"
    if len(curve) > 1 and np.isnan(curve[:-1]).all():
        return (
            "all tasks were evaluated only after the last one, expected evaluations of tasks not "
            f"yet learned too; {hint}"
        )
    return ""


def _find_run_problem(run: ScoreInput) -> str:
    summary = run.summary(SummaryOptions(only=frozenset(CRITERIA.values()), intervals=False))
    if not summary.scale.is_accuracy:
        return (
            f"its {summary.scale.label} is not an accuracy, expected accuracies from 0 to 1: the "
            "criteria are defined for those"
        )
    if not summary.metrics.keys() & set(CRITERIA.values()):
        reason = summary.undefined[CRITERIA["A"]]
        return f"no criterion is defined, expected at least A: {reason}"
    return ""


def _criteria(runs: Sequence[ScoreInput]) -> dict[str, float]:
    """Return the mean over runs of each criterion; NaN if it is undefined in any of them."""
    summaries = [
        run.summary(SummaryOptions(only=frozenset(CRITERIA.values()), intervals=False))
        for run in runs
    ]
    return {
        short: float(np.mean([summary.metrics.get(id_, np.nan) for summary in summaries]))
        for short, id_ in CRITERIA.items()
    }


def _list_criteria(values: Mapping[str, Mapping[str, float]]) -> str:
    """Return in words which criteria all methods have and which are undefined for some."""
    missing = [c for c in CRITERIA if any(np.isnan(own[c]) for own in values.values())]
    used = f"criteria used: {', '.join(c for c in CRITERIA if c not in missing) or 'none'}"
    return f"{used}; undefined: {', '.join(missing)}" if missing else used


def _bounds(methods: RunsByMethod) -> list[str]:
    """Return the methods that bound the others: naive and cumulative, if there is one of each."""
    strategies = {name: get_strategy(name, runs) for name, runs in methods.items()}
    used = list(strategies.values())
    return [name for name, s in strategies.items() if s in BOUNDS and used.count(s) == 1]


def _angles() -> NDArray[np.float64]:
    return np.linspace(0, 2 * np.pi, len(CRITERIA), endpoint=False)


def _draw_web(axes: PolarAxes, title: str, values: Mapping[str, float], letters: float) -> None:
    """Draw circles and spokes; mark the spokes of undefined criteria."""
    axes.set_theta_zero_location("N")
    axes.set_theta_direction(-1)
    axes.set_xticks(_angles(), list(values))
    axes.set_ylim(0, 1)
    axes.set_yticks([0.25, 0.5, 0.75, 1.0], ["", "0.5", "", "1"])
    axes.set_rlabel_position(180 / len(CRITERIA))  # between two spokes
    axes.tick_params(axis="y", labelcolor="#6b6b6b", labelsize=letters)
    axes.grid(alpha=0.4)
    axes.spines["polar"].set_visible(False)
    axes.set_title(title, pad=12)
    for angle, value in zip(_angles(), values.values(), strict=True):
        if np.isnan(value):
            axes.text(
                angle, 0.55, "undefined", rotation=_upright(angle), rotation_mode="anchor",
                ha="center", va="center", fontsize=letters, color="#555555", zorder=4,
            )  # fmt: skip


def _upright(angle: float) -> float:
    """Return the rotation of text along a spoke in degrees, so that it is not upside down."""
    turned = 90 - float(np.degrees(angle))
    return turned if -90 <= turned <= 90 else turned + 180


def _draw_polygon(
    axes: Axes, name: str, values: Mapping[str, float], style: LineStyle, *, own: bool
) -> None:
    """Draw a method's polygon, with gaps where a criterion is undefined."""
    around = np.append(_angles(), 2 * np.pi)
    radii = np.array([*values.values(), next(iter(values.values()))])
    extra: dict[str, Any] = {"marker": "o", "ms": 3, "zorder": 3} if own else {"lw": 0.9}
    axes.plot(
        around, radii, color=style.colour, ls=style.dashes, label=escape_text(name), clip_on=False,
        **extra,
    )  # fmt: skip
    if not np.isnan(radii).any():
        axes.fill(around, radii, color=style.colour, alpha=0.2 if own else 0.07, lw=0)
