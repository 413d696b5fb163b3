"""Norms of the gradients of a step's two terms: after a switch there is little that holds back.

After De Lange et al. (2023), figures 4, 10 and 12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from ...record import InputError, Run
from ..bands import Band, band
from ..colours import looks
from ..curve_data import agreed, switches
from ..usable import as_many_tasks, usable
from ._panels import (
    band_key,
    draw_band,
    draw_switches,
    legend,
    line_key,
    many,
    on_one_scale,
    shape_of,
    short,
)
from ._paper import drawing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ...record import ScoreInput
    from ...record.gradients_file import Gradients
    from ..bands import Curve
    from ..load import Methods
    from ._paper import Size

    Norms = Mapping[str, Sequence[Gradients]]  # of the runs of each method

__all__ = ["gradients"]

Term = Literal["stability", "plasticity", "both"]


def gradients(
    methods: Methods, *, size: Size = "page", zoom: int | None = None, term: Term = "stability"
) -> Figure:
    r"""Return the L2 norms of gradients over training, mean and SD over the runs of a method.

    Args:
        methods: runs by method, as `open_methods` gives them.
        size: for a column or a page of a paper, or a slide.
        zoom: only so many iterations from the start of each task, a panel a task.
        term: of which part of the loss: what holds on to old tasks, what learns the new one, both.

    Example:
        >>> from perdure.record import Run
        >>> from perdure.record.gradients_file import read_gradients
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
    methods = as_many_tasks(usable(methods, _lacks), together=False)
    norms = {name: _recorded(runs) for name, runs in methods.items()}
    terms = [term] if term != "both" else ["stability", "plasticity"]
    whole = {
        (each, name): _band([_curve(run, each) for run in runs])
        for each in terms
        for name, runs in norms.items()
    }
    if not any(found.mean.any() for found in whole.values()):
        raise InputError(f"no run has a {term} term, expected one; naive learning has none")
    if zoom is not None:
        return _zoomed(methods, norms, terms, size, zoom)
    return _whole(methods, whole, size)


def _lacks(run: ScoreInput) -> str:
    if isinstance(run, Run) and run.gradients is not None:
        return ""
    return "no gradients.csv, expected recorded norms; run it again with --gradients 1"


def _recorded(runs: Sequence[ScoreInput]) -> list[Gradients]:
    return [run.gradients for run in runs if isinstance(run, Run) and run.gradients is not None]


def _curve(norms: Gradients, term: str) -> Curve:
    values: np.ndarray[tuple[int], np.dtype[np.float64]] = getattr(norms, term)
    there = np.isfinite(values)  # no such term at that step, or training diverged
    return norms.step[there], values[there]


def _band(found: Sequence[Curve]) -> Band:
    return band([curve for curve in found if len(curve[0])])


def _starts(norms: Gradients) -> list[int]:
    """Return the place of the first line of every stretch of training on one task."""
    trained = np.array(norms.trained)
    changed = np.flatnonzero(trained[1:] != trained[:-1]) + 1
    return [0, *changed.tolist()] if len(trained) else []


def _whole(methods: Methods, found: Mapping[tuple[str, str], Band], size: Size) -> Figure:
    terms = list(dict.fromkeys(term for term, _ in found))
    look = looks(methods)
    steps = {
        name: switches([run.stream for run in runs if run.stream is not None])
        for name, runs in methods.items()
    }
    height, rows, columns = shape_of(len(terms), size, beside=1)
    with drawing(size, height, rows, columns) as figure:
        for k, (axes, term) in enumerate(zip(figure.axes, terms, strict=True), start=1):
            x = "iterations" if k == rows else ""
            on_one_scale([axes], columns, x, f"{term}\ngradient norm")
            draw_switches(axes, steps, look)
            for name in methods:
                draw_band(axes, found[term, name], look[name])
            axes.set_ylim(bottom=0)
        _add_legend(figure, methods)
    return figure


def _zoomed(methods: Methods, norms: Norms, terms: Sequence[str], size: Size, zoom: int) -> Figure:
    look = looks(methods)
    runs_of = [run for several in norms.values() for run in several]
    names = agreed([[run.trained[at] for at in _starts(run)] for run in runs_of])
    found = {
        (term, k): {name: _start(runs, term, k, zoom) for name, runs in norms.items()}
        for term in terms
        for k in range(len(names))
    }
    # Before there is an old task nothing holds on to one: zeros need no panel.
    panels = [key for key, mine in found.items() if any(b.mean.any() for b in mine.values())]
    blocks = {term: [k for each, k in panels if each == term] for term in terms}
    most = max(map(len, blocks.values()))
    _, _, columns = shape_of(many(most, f"zoom on {len(names)} tasks"), size)
    rows = sum(-(-len(tasks) // columns) for tasks in blocks.values())
    height, _, _ = shape_of(rows * columns, size, columns)
    with drawing(size, height, rows, columns) as figure:
        rest = list(figure.axes)
        for term, tasks in blocks.items():
            mine, rest = _split(rest, len(tasks), columns)
            x = "" if rest else "iterations of the task"
            on_one_scale(mine, columns, x, f"{term}\ngradient norm")
            for axes, k in zip(mine, tasks, strict=False):
                for name, norm in found[term, k].items():
                    draw_band(axes, norm, look[name])
                axes.set_title(short(names[k], 24 // columns + 8))
            mine[0].set_ylim(bottom=0)
        _add_legend(figure, methods)
    return figure


def _split(panels: list[Axes], count: int, columns: int) -> tuple[list[Axes], list[Axes]]:
    """Return whole rows for so many panels, those left over hidden, and the rows after them."""
    end = -(-count // columns) * columns
    for axes in panels[count:end]:
        axes.set_visible(False)
    return panels[:end], panels[end:]


def _start(runs: Sequence[Gradients], term: str, task: int, zoom: int) -> Band:
    """Return the norms in the first iterations of a task; its first one is 1."""
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
    return _band(curves)


def _add_legend(figure: Figure, methods: Methods) -> None:
    look = looks(methods)
    keys = [line_key(name, look[name]) for name in methods]
    legend(figure, [*keys, *band_key(len(runs) for runs in methods.values())])
