"""Lines of a value after each task, one per method, with a band of one SD around the mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib as mpl
import numpy as np

from .overlaps import choose_widths
from .panels import draw_isolated, escape_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from ...colours import LineStyle
    from .matrices import MeanAndSD

MAX_MARKERS = 8  # per line: more would hide its dashes
MAX_TICKS = 12


def as_lines(
    curves: Mapping[str, MeanAndSD],
) -> dict[str, tuple[NDArray[np.int64], NDArray[np.float64]]]:
    """Return x, the number of tasks learned, and y, the mean, of each method."""
    return {name: (np.arange(1, len(c.mean) + 1), c.mean) for name, c in curves.items()}


def draw_task_lines(
    axes: Axes,
    curves: Mapping[str, MeanAndSD],
    styles: Mapping[str, LineStyle],
    widths: Mapping[str, float] | None = None,
) -> None:
    """Draw the mean of a value after each task, counted from 1, with a band of one SD.

    `widths` are relative to the usual line; by default those that keep coinciding lines visible.
    """
    widths = choose_widths([as_lines(curves)]) if widths is None else widths
    line, points = mpl.rcParams["lines.linewidth"], mpl.rcParams["font.size"]
    for number, (name, (k, mean)) in enumerate(as_lines(curves).items()):
        style, width = styles[name], widths[name]
        every = -(-len(k) // MAX_MARKERS)
        axes.plot(
            k, mean, color=style.colour, ls=style.dashes, label=escape_text(name),
            lw=line * width, marker=style.marker, markersize=points / 2.2 * (0.6 + 0.4 * width),
            markevery=(number % every, every), markeredgecolor="white", markeredgewidth=points / 20,
        )  # fmt: skip
        if curves[name].runs > 1:
            sd = curves[name].sd
            axes.fill_between(k, mean - sd, mean + sd, color=style.colour, alpha=0.15, lw=0)
            draw_isolated(axes, k, mean, sd, style.colour)
    axes.set_xticks(task_ticks(max((len(curve.mean) for curve in curves.values()), default=1)))
    axes.grid(alpha=0.3, axis="y")


def task_ticks(tasks: int) -> list[int]:
    """Return the numbers of tasks to write at an axis: the first, and round ones.

    Example:
        >>> task_ticks(5), task_ticks(20)
        ([1, 2, 3, 4, 5], [1, 5, 10, 15, 20])
    """
    if tasks <= MAX_TICKS:
        return list(range(1, tasks + 1))
    step = next(s for s in (5, 10, 20, 50, 100, 200, 500, 1000, tasks) if tasks / s <= MAX_TICKS)
    return [1, *range(step, tasks + 1, step)]
