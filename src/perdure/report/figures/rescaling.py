"""Accuracy and forgetting next to their rescaled forms, and the factors between them.

After Michel et al. (2023): Figs. 3 and 4 show AA and RAA, AF and RAF, Fig. 2 the factors.
"""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.ticker import MaxNLocator

from ...metrics import UndefinedMetricError, aa_curve, af_curve, beta, gamma, raa_curve, raf_curve
from ..colours import BLUE, VERMILION, choose_styles
from ..filtering import require_one_scenario
from .drawing import describe_runs, new_figure, set_caption, split_into_rows
from .drawing.by_task import draw_task_lines
from .drawing.matrices import MeanAndSD, average_runs, get_matrices, merge_matrix_scales
from .drawing.panels import add_legend, band_key, escape_text, percent_ticks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from ...metrics import ScoreMatrix, Setting
    from ..colours import LineStyle
    from ..load import RunsByMethod
    from .drawing import Size

    Curve = Callable[[ScoreMatrix], NDArray[np.float64]]

__all__ = ["guessing", "rescaled"]

HEIGHTS = {"column": 1.05, "page": 0.65, "slide": 0.5625}


def rescaled(methods: RunsByMethod, *, size: Size = "page") -> Figure:
    """Return AA next to RAA and AF next to RAF after each task, one line per method.

    Lines are means over seeds, with a band of one SD. Every input must have class counts per task.

    Example:
        >>> from perdure.metrics import ScoreMatrix
        >>> from perdure.record import ScoreInput
        >>> er = ScoreInput(ScoreMatrix([[0.9, 0.1], [0.6, 0.8]], classes=[2, 2]))
        >>> figure = rescaled({"er": [er]})
        >>> figure.axes[1].lines[0].get_ydata().round(2).tolist()
        [0.45, 0.7]
    """
    require_one_scenario(methods)
    matrices = get_matrices(methods, find_problem=lambda matrix: _find_problem(matrix, 2))
    curves: dict[str, Curve] = {
        "$AA_k$": lambda m: aa_curve(m.scores),
        "$RAA_k$": _rescaled_accuracy,
        "$AF_k$": lambda m: af_curve(m.scores),
        "$RAF_k$": _rescaled_forgetting,
    }
    with new_figure(size, HEIGHTS.get(size, 1.0), 2, 2, sharex=True) as figure:
        aa, raa, af, raf = figure.axes
        for axes, (label, curve) in zip(figure.axes, curves.items(), strict=True):
            _draw(axes, curve, matrices, choose_styles(methods), 17 if size == "column" else 30)
            axes.set_ylabel(label + " (%)" * merge_matrix_scales(matrices).percent)
            percent_ticks(merge_matrix_scales(matrices), axes.yaxis)
        for axes in (aa, raa):
            axes.set_ylim(0, 1.02)
        ends = [*af.get_ylim(), *raf.get_ylim()] if raf.lines else af.get_ylim()
        for axes in (af, raf):
            axes.set_ylim(min(ends), max(ends))
            axes.set_xlabel("tasks learned, $k$")
        add_legend(figure, [*aa.lines, *band_key(map(len, matrices.values()))])
    ids = "AA: acc, AF: forgetting.best, RAA: raa, RAF: raf, of the first k tasks"
    set_caption(figure, ids, describe_runs(map(len, matrices.values())))
    return figure


def guessing(methods: RunsByMethod, *, size: Size = "page") -> Figure:
    r"""Return the factors $\gamma_k$ (from AA to RAA) and $\beta_k$ (from AF to RAF) per task.

    One panel per distinct list of class counts among the inputs.

    Example:
        >>> from perdure.metrics import ScoreMatrix
        >>> from perdure.record import ScoreInput
        >>> er = ScoreInput(ScoreMatrix([[0.9, 0.1], [0.6, 0.8]], classes=[2, 2]))
        >>> guessing({"er": [er]}).axes[0].lines[0].get_ydata().tolist()
        [0.5, 1.0]
    """
    matrices = get_matrices(methods, find_problem=_find_problem)
    counts = dict.fromkeys(
        (tuple(classes.tolist()), setting)
        for several in matrices.values()
        for classes, setting in map(_get_classes, several)
    )
    rows, columns = split_into_rows(len(counts), 1 if size == "column" else 3)
    height = {"column": 0.75, "page": 0.5, "slide": 0.5625}.get(size, 0.5) * rows / columns
    with new_figure(size, max(height, 0.45), rows, columns) as figure:
        for axes, (classes, setting) in zip(figure.axes, counts, strict=False):
            _draw_factors(axes, classes, setting)
        for empty in figure.axes[len(counts) :]:
            empty.set_axis_off()
        add_legend(figure, list(figure.axes[0].lines))
    set_caption(
        figure,
        "factors from the accuracy of guessing among the classes learned so far: RAA = gamma AA "
        "(raa, acc) and RAF = beta AF (raf, forgetting.best) after k tasks, for all methods",
    )
    return figure


def _find_problem(matrix: ScoreMatrix, tasks: int = 1) -> str:
    """Return why a matrix cannot be compared with guessing, an empty string if it can."""
    if not matrix.scale.is_accuracy:
        return (
            f"its {matrix.scale.label} is not an accuracy, expected accuracies from 0 to 1: only "
            "those can be compared with guessing"
        )
    if matrix.classes is None:
        return (
            "the number of classes per task is not known; give it with `classes=`, as "
            "classes in a JSON matrix, or as task_classes in run.json"
        )
    if len(matrix.tasks) < tasks:
        return "one task only, expected two or more: only older tasks can be forgotten"
    return ""


def _get_classes(matrix: ScoreMatrix) -> tuple[NDArray[np.float64], Setting]:
    assert matrix.classes is not None  # `_find_problem` left out the others
    return matrix.classes, matrix.setting or "class"


def _rescaled_accuracy(matrix: ScoreMatrix) -> NDArray[np.float64]:
    classes, setting = _get_classes(matrix)
    return raa_curve(matrix.scores, classes=classes, setting=setting)


def _rescaled_forgetting(matrix: ScoreMatrix) -> NDArray[np.float64]:
    classes, setting = _get_classes(matrix)
    return raf_curve(matrix.scores, classes=classes, setting=setting)


def _draw(
    axes: Axes,
    curve: Curve,
    matrices: Mapping[str, Sequence[ScoreMatrix]],
    styles: Mapping[str, LineStyle],
    letters: int,
) -> None:
    """Draw the curve of each method and name the methods for which it is undefined."""
    averages: dict[str, MeanAndSD] = {}
    undefined: dict[str, str] = {}
    for name, several in matrices.items():
        try:
            averages[name] = average_runs([curve(matrix) for matrix in several])
        except UndefinedMetricError as error:
            undefined[name] = f"undefined: {error}"
    draw_task_lines(axes, averages, styles)
    if undefined and averages:
        axes.set_title(fill(f"undefined for {', '.join(map(escape_text, undefined))}", 2 * letters))
    elif undefined:
        reason = fill(next(iter(undefined.values())), letters)
        axes.text(0.5, 0.5, reason, ha="center", va="center", transform=axes.transAxes)


def _draw_factors(axes: Axes, classes: Sequence[float], setting: Setting) -> None:
    k = np.arange(1, len(classes) + 1)
    marker = "o" if len(k) <= 20 else ""
    factors: dict[str, tuple[Callable[..., NDArray[np.float64]], str, str]] = {
        r"$\gamma_k$, from $AA$ to $RAA$": (gamma, BLUE, "solid"),
        r"$\beta_k$, from $AF$ to $RAF$": (beta, VERMILION, "dashed"),
    }
    for label, (factor, colour, dashes) in factors.items():
        try:
            values = factor(classes, setting=setting)
        except UndefinedMetricError:
            values = np.full(len(k), np.nan)
            label = f"{label} (undefined)"
        axes.plot(k, values, color=colour, linestyle=dashes, marker=marker, ms=3, label=label)
    axes.set(xlabel="tasks learned, $k$", ylabel="factor", ylim=(0, 1.05))
    axes.set_title(_describe_classes(classes, setting))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.grid(alpha=0.3)


def _describe_classes(classes: Sequence[float], setting: Setting) -> str:
    """Return the number of tasks and classes in words.

    Example:
        >>> _describe_classes([2, 2, 2], "class"), _describe_classes([50, 5, 5], "task")
        ('3 tasks of 2 classes', '3 tasks of 5 to 50 classes, task-incremental')
    """
    low, high = min(classes), max(classes)
    count = f"{low:g}" if low == high else f"{low:g} to {high:g}"
    rest = "" if setting == "class" else f", {setting}-incremental"
    return f"{len(classes)} tasks of {count} classes{rest}"
