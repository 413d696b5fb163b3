"""Gradient norms of the two loss terms: right after a switch the stability term is small.

After De Lange et al. (2023), figures 4, 10 and 12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from ...record import InputError, Run
from ..colours import choose_styles
from ..curve_data import MeanCurve, average_curves, find_switches
from ..filtering import drop_unusable, require_one_scenario
from ..labels import merge_names
from .drawing import describe_runs, new_figure, set_caption
from .drawing.panels import (
    add_legend,
    band_key,
    check_panel_count,
    draw_band,
    draw_switches,
    get_layout,
    line_key,
    share_axes,
    shorten,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ...record import ScoreInput
    from ...record.formats.tables import Gradients
    from ..colours import LineStyle
    from ..curve_data import Curve
    from ..load import RunsByMethod
    from .drawing import Size

    Norms = Mapping[str, Sequence[Gradients]]  # of the runs of each method

__all__ = ["gradients"]

Term = Literal["stability", "plasticity", "both"]


def gradients(
    methods: RunsByMethod, *, size: Size = "page", zoom: int | None = None, term: Term = "stability"
) -> Figure:
    r"""Return the L2 norms of gradients during training, mean and SD over the runs of a method.

    Args:
        methods: runs by method, as returned by `open_methods`.
        size: a column or a page of a paper, or a slide.
        zoom: below the whole curve, where they are shaded, draw this many iterations from the
            start of each task, one panel per task.
        term: the part of the loss: stability (old tasks), plasticity (the new task), or both.

    Example:
        >>> from perdure.record import Run
        >>> from perdure.record.formats.tables import read_gradients
        >>> text = "step,plasticity,stability\n1,0.5,0.25\n2,0.5,0\n"
        >>> norms, _ = read_gradients(text, "gradients.csv")
        >>> figure = gradients({"mine": [Run(gradients=norms)]})
        >>> figure.axes[0].lines[0].get_ydata()
        array([0.25, 0.  ])
    """
    if term not in get_args(Term):
        raise InputError(f"term is {term!r:.40}, expected stability, plasticity or both")
    if zoom is not None and zoom < 1:
        raise InputError(f"zoom is {zoom}, expected a whole number of at least 1")
    require_one_scenario(methods)
    styles = choose_styles(methods)
    methods = drop_unusable(methods, _find_problem, together=False)
    norms = {name: _get_norms(runs) for name, runs in methods.items()}
    terms = [term] if term != "both" else ["stability", "plasticity"]
    whole = {
        (loss_term, name): _average([_curve(run, loss_term) for run in runs])
        for loss_term in terms
        for name, runs in norms.items()
    }
    if not any(curve.mean.any() for curve in whole.values()):
        raise InputError(f"no run has a {term} term, expected one; naive learning has none")
    if zoom is not None:
        return _draw_zoomed(methods, styles, norms, whole, size, zoom)
    return _draw_whole(methods, styles, whole, size)


def _find_problem(run: ScoreInput) -> str:
    if isinstance(run, Run) and run.gradients is not None:
        return ""
    return "no gradients.csv, expected recorded norms; run it again with `gradients=1`"


def _get_norms(runs: Sequence[ScoreInput]) -> list[Gradients]:
    return [run.gradients for run in runs if isinstance(run, Run) and run.gradients is not None]


def _curve(norms: Gradients, term: str) -> Curve:
    values: np.ndarray[tuple[int], np.dtype[np.float64]] = getattr(norms, term)
    known = np.isfinite(values)  # others: no such term at that step, or training diverged
    return norms.step[known], values[known]


def _average(curves: Sequence[Curve]) -> MeanCurve:
    return average_curves([curve for curve in curves if len(curve[0])])


def _starts(norms: Gradients) -> list[int]:
    """Return the index of the first row of each span of training on one task."""
    trained = np.array(norms.trained)
    changed = np.flatnonzero(trained[1:] != trained[:-1]) + 1
    return [0, *changed.tolist()] if len(trained) else []


def _draw_whole(
    methods: RunsByMethod,
    styles: Mapping[str, LineStyle],
    curves: Mapping[tuple[str, str], MeanCurve],
    size: Size,
) -> Figure:
    terms = list(dict.fromkeys(term for term, _ in curves))
    height, rows, columns = get_layout(len(terms), size, max_columns=1)
    with new_figure(size, height, rows, columns) as figure:
        for k, (axes, term) in enumerate(zip(figure.axes, terms, strict=True), start=1):
            x = "iterations" if k == rows else ""
            share_axes([axes], columns, x, f"{term}\ngradient norm")
            _draw_all_iterations(axes, methods, styles, curves, term)
        _add_legend(figure, methods, styles)
    set_caption(figure, describe_runs(map(len, methods.values())))
    return figure


def _draw_all_iterations(
    axes: Axes,
    methods: RunsByMethod,
    styles: Mapping[str, LineStyle],
    curves: Mapping[tuple[str, str], MeanCurve],
    term: str,
) -> None:
    steps = {
        name: find_switches([run.stream for run in runs if run.stream is not None])
        for name, runs in methods.items()
    }
    draw_switches(axes, steps, styles)
    for name in methods:
        draw_band(axes, curves[term, name], styles[name])
    axes.set_ylim(bottom=0)


def _draw_zoomed(
    methods: RunsByMethod,
    styles: Mapping[str, LineStyle],
    norms: Norms,
    whole: Mapping[tuple[str, str], MeanCurve],
    size: Size,
    zoom: int,
) -> Figure:
    terms = list(dict.fromkeys(term for term, _ in whole))
    runs_of = [run for several in norms.values() for run in several]
    names = merge_names([[run.trained[at] for at in _starts(run)] for run in runs_of])
    curves = {
        (term, k): {name: _average_start(runs, term, k, zoom) for name, runs in norms.items()}
        for term in terms
        for k in range(len(names))
    }
    # The first task has no stability term: panels of zeros are left out.
    panels = [key for key, own in curves.items() if any(c.mean.any() for c in own.values())]
    blocks = {term: [k for panel_term, k in panels if panel_term == term] for term in terms}
    most = max(map(len, blocks.values()))
    _, _, columns = get_layout(check_panel_count(most, f"zoom on {len(names)} tasks"), size)
    rows = sum(1 + -(-len(tasks) // columns) for tasks in blocks.values())
    height, _, _ = get_layout(rows * columns, size, columns)
    with new_figure(size, height, rows, columns) as figure:
        rest = list(figure.axes)
        for term, tasks in blocks.items():
            wide = _join(rest[:columns])
            _draw_all_iterations(wide, methods, styles, whole, term)
            drawn = [runs for name, runs in norms.items() if whole[term, name].mean.any()]
            for start in sorted({at for runs in drawn for at in _first_steps(runs, tasks)}):
                wide.axvspan(start, start + zoom, color="#6b6b6b", alpha=0.15, lw=0, zorder=0)
            wide.set(xlabel="iterations", ylabel=f"{term}\ngradient norm")
            own, rest = _split(rest[columns:], len(tasks), columns)
            x = "" if rest else "iterations of the task"
            share_axes(own, columns, x, f"{term}\ngradient norm")
            for axes, k in zip(own, tasks, strict=False):
                for name, curve in curves[term, k].items():
                    draw_band(axes, curve, styles[name])
                axes.set_title(shorten(names[k], 24 // columns + 8))
            own[0].set_ylim(bottom=0)
        _add_legend(figure, methods, styles)
    set_caption(figure, describe_runs(map(len, methods.values())))
    return figure


def _join(panels: Sequence[Axes]) -> Axes:
    spec, figure = panels[0].get_subplotspec(), panels[0].get_figure(root=True)
    assert spec is not None
    assert figure is not None
    for axes in panels:
        axes.remove()
    joined: Axes = figure.add_subplot(spec.get_gridspec()[spec.rowspan.start, :])
    return joined


def _first_steps(runs: Sequence[Gradients], tasks: Sequence[int]) -> list[int]:
    """Return after which step each of the tasks started, in any of the runs."""
    return [
        int(norms.step[starts[k] - 1]) if k else 0
        for norms in runs
        for starts in [_starts(norms)]
        for k in tasks
        if k < len(starts)
    ]


def _split(panels: list[Axes], count: int, columns: int) -> tuple[list[Axes], list[Axes]]:
    """Return whole rows for a number of panels, surplus ones hidden, and the rows after them."""
    end = -(-count // columns) * columns
    for axes in panels[count:end]:
        axes.set_visible(False)
    return panels[:end], panels[end:]


def _average_start(runs: Sequence[Gradients], term: str, task: int, zoom: int) -> MeanCurve:
    curves = []
    for norms in runs:
        starts = _starts(norms)
        if task >= len(starts):
            continue
        end = starts[task + 1] if task + 1 < len(starts) else len(norms.step)
        before = int(norms.step[starts[task] - 1]) if task else 0
        steps, values = _curve(norms, term)
        last = min(int(norms.step[end - 1]), before + zoom)
        inside = (steps > before) & (steps <= last)
        curves.append((steps[inside] - before, values[inside]))
    return _average(curves)


def _add_legend(figure: Figure, methods: RunsByMethod, styles: Mapping[str, LineStyle]) -> None:
    keys = [line_key(name, styles[name]) for name in methods]
    add_legend(figure, [*keys, *band_key(len(runs) for runs in methods.values())])
