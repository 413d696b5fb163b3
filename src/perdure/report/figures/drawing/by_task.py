"""Lines after each task with a band of one SD, and lines that lie on each other.

Of those, the ones below are drawn wider, so that each stays visible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib as mpl
import numpy as np

from .panels import draw_isolated, escape_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from ...colours import LineStyle
    from .matrices import MeanAndSD

    Line = tuple[NDArray[np.int64], NDArray[np.float64]]  # x and y

__all__ = ["choose_widths", "draw_task_lines", "list_overlaps"]

NEAR = 0.012  # of the height of all lines: about the width of one
WIDER = 1.4  # in line widths, per line that lies on it
WIDEST = 5.0
SHARE = 0.75  # of the points of a panel
MAX_LINES = 12  # among more, lines cannot be told apart by their widths
MAX_LISTED = 3


def choose_widths(panels: Sequence[Mapping[str, Line]]) -> dict[str, float]:
    """Return the width of each line relative to the usual one; later lines are drawn on top.

    Args:
        panels: lines by name, as they are drawn in each panel.

    Example:
        >>> x, y = np.arange(3), np.array([0.5, 0.6, 0.9])
        >>> choose_widths([{"naive": (x, y), "ewc": (x, y), "gem": (x, y - 0.2)}])
        {'naive': 2.4, 'ewc': 1.0, 'gem': 1.0}
    """
    names = list(dict.fromkeys(name for lines in panels for name in lines))
    near = find_overlaps(panels)
    above = {name: sum(name == lower for lower, _ in near) for name in names}
    step = min(WIDER, (WIDEST - 1) / max([1, *above.values()]))
    return {name: 1 + step * count for name, count in above.items()}


def find_overlaps(panels: Sequence[Mapping[str, Line]]) -> list[tuple[str, str]]:
    """Return pairs of lines that lie on each other in half of the panels, the lower one first."""
    values = [y[np.isfinite(y)] for lines in panels for _, y in lines.values()]
    every = np.concatenate(values) if values else np.empty(0)
    tolerance = NEAR * (float(np.ptp(every)) if len(every) else 0.0) + 1e-12
    names = list(dict.fromkeys(name for lines in panels for name in lines))
    if len(names) > MAX_LINES:
        return []
    return [
        (one, other)
        for k, one in enumerate(names)
        for other in names[k + 1 :]
        if _is_half_true(
            _lie_together(lines[one], lines[other], tolerance)
            for lines in panels
            if one in lines and other in lines
        )
    ]


def list_overlaps(panels: Sequence[Mapping[str, Line]]) -> str:
    """Return in words which lines lie on each other, an empty string if none do.

    Example:
        >>> x, y = np.arange(3), np.array([0.5, 0.6, 0.9])
        >>> list_overlaps([{"naive": (x, y), "ewc": (x, y)}])
        'naive is drawn wider where ewc lies on it'
    """
    upper: dict[str, list[str]] = {}
    for lower, other in find_overlaps(panels):
        upper.setdefault(lower, []).append(other)
    listed = [f"{name} is drawn wider where {_join(upper[name])} on it" for name in upper]
    more = [f"and {len(listed) - MAX_LISTED} more"] if len(listed) > MAX_LISTED else []
    return "; ".join([*listed[:MAX_LISTED], *more])


def _join(names: Sequence[str]) -> str:
    *rest, last = names
    return f"{', '.join(rest)} and {last} lie" if rest else f"{last} lies"


def _is_half_true(answers: Iterable[bool]) -> bool:
    several = list(answers)
    return len(several) > 0 and 2 * sum(several) >= len(several)


def _lie_together(one: Line, other: Line, tolerance: float) -> bool:
    """Return whether two lines are within `tolerance` at most of the x that both have."""
    _, at_one, at_other = np.intersect1d(one[0], other[0], return_indices=True)
    distance = np.abs(one[1][at_one] - other[1][at_other])
    distance = distance[np.isfinite(distance)]
    return len(distance) > 0 and float(np.mean(distance <= tolerance)) >= SHARE


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
