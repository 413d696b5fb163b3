"""Parts that figures of curves share: panels, bands, task switches, one legend above all."""

from __future__ import annotations

from collections import Counter
from math import ceil
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator, PercentFormatter

from ...._display import select_extremes
from ....record import InputError, visible
from ...labels import axis_label
from . import SIZES, split_into_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from ....metrics import ScoreScale
    from ...colours import LineStyle
    from ...curve_data import MeanCurve
    from . import Size

MAX_PANELS = 60
MAX_POINTS = 1000  # per line: twice what a page's width can show
MAX_COLUMNS = {"column": 2, "page": 4, "slide": 4}
MAX_LEGEND_LETTERS = {"column": 22, "page": 36, "slide": 28}  # of the name of a method
# By columns, relative to the width of the figure.
ROW_HEIGHTS = {1: 0.4, 2: 0.28, 3: 0.22, 4: 0.19, 5: 0.17}


def score_axis_label(scale: ScoreScale) -> str:
    """Return the label of an axis or a colour bar of scores, escaped for matplotlib."""
    return escape_text(axis_label(scale))


def percent_ticks(scale: ScoreScale, *axes: Axis) -> None:
    """Write the ticks of axes in percent if the scores are shown in percent."""
    for axis in axes if scale.percent else ():
        axis.set_major_formatter(PercentFormatter(1, symbol=""))


def select_tasks(names: Sequence[str], tasks: int | None) -> list[str]:
    """Return the first tasks to draw, all by default; raise InputError if there are fewer.

    Example:
        >>> select_tasks(["0-1", "2-3"], 9)
        Traceback (most recent call last):
        perdure.record.io.files.InputError: `tasks=` is 9, expected 1 to 2: 0-1, 2-3
    """
    if tasks is not None and not 1 <= tasks <= len(names):
        listed = ", ".join(names[:10]) + ", …" * (len(names) > 10)
        raise InputError(f"`tasks=` is {tasks}, expected 1 to {len(names)}: {listed:.200}")
    return list(names[:tasks])


def check_panel_count(count: int, what: str) -> int:
    """Return the number of panels, or raise InputError if there are too many to read."""
    if count > MAX_PANELS:
        raise InputError(f"{what} would be {count} panels, expected at most {MAX_PANELS}")
    return count


def get_layout(count: int, size: Size, max_columns: int | None = None) -> tuple[float, int, int]:
    """Return the height (relative to the width), rows and columns for a number of panels."""
    rows, columns = split_into_rows(count, max_columns or MAX_COLUMNS.get(size, 1))
    tall = rows * ROW_HEIGHTS.get(columns, 0.16) * (1.45 if size == "column" else 1)
    return tall + 0.06, rows, columns


def hide_surplus(figure: Figure, count: int) -> Axes | None:
    """Hide all panels but the first ones; return the first of those hidden, if there is one."""
    for axes in figure.axes[count:]:
        axes.set_visible(False)
    return figure.axes[count] if count < len(figure.axes) else None


def add_legend(figure: Figure, keys: Sequence[Line2D | Patch], empty: Axes | None = None) -> None:
    """Add one legend above all panels; the figure grows to make room for it.

    A slide does not grow beyond the height of a screen. If the legend fits into `empty`, a panel
    without a drawing, it goes there.
    """
    width, height = figure.get_size_inches()
    points = mpl.rcParams["font.size"]
    longest = max(len(str(key.get_label())) for key in keys)
    if empty is not None and _legend_fits(empty, longest, len(keys)):
        empty.set_visible(True)
        empty.set_axis_off()
        empty.legend(handles=list(keys), loc="center", handlelength=1.8, borderaxespad=0)
        return
    columns = int(width * 72 / ((longest * 0.55 + 4) * (points - 1)))
    columns = max(1, min(len(keys), columns))
    lines = ceil(len(keys) / columns)
    columns = ceil(len(keys) / lines)
    figure.legend(
        handles=list(keys), loc="outside upper center", ncols=columns,
        handlelength=1.8, columnspacing=1.2, borderaxespad=0,
    )  # fmt: skip
    height += lines * 1.5 * points / 72
    slide = width == SIZES["slide"][0]
    figure.set_size_inches(width, min(height, width * 9 / 16) if slide else height)


def _legend_fits(axes: Axes, letters: int, lines: int) -> bool:
    spec, figure = axes.get_subplotspec(), axes.get_figure(root=True)
    assert spec is not None
    assert figure is not None
    rows, columns, *_ = spec.get_geometry()
    width, height = map(float, figure.get_size_inches() * 72 / (mpl.rcParams["font.size"] - 1))
    return 0.55 * letters + 4 < 0.9 * width / columns and 1.5 * lines < 0.75 * height / rows


def line_key(label: str, style: LineStyle, **options: Any) -> Line2D:
    """Return the legend entry of a line; `options` are those of matplotlib's Line2D."""
    own = {"color": style.colour, "ls": style.dashes, "label": escape_text(label)}
    return Line2D([], [], **(own | options))


def worst_style() -> dict[str, Any]:
    """Return the style of the worst score since learning: a thin dotted line."""
    return {"lw": mpl.rcParams["lines.linewidth"] * 0.8, "ls": (0, (1, 1.5))}


def task_end_style(colour: str = "#c00020") -> dict[str, Any]:
    """Return the style of a score at the end of a task: a diamond."""
    size = mpl.rcParams["font.size"]
    return {
        "marker": "D", "markersize": size * 0.45, "ls": "none", "markerfacecolor": colour,
        "markeredgecolor": "white", "markeredgewidth": size / 16, "zorder": 4, "clip_on": False,
    }  # fmt: skip


def band_key(runs: Iterable[int]) -> list[Patch]:
    """Return the legend entry of a band of one SD; none if every method has a single run."""
    counts = sorted({count for count in runs if count > 1})
    if not counts:
        return []
    several = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return [Patch(facecolor="#6b6b6b", alpha=0.25, label=f"mean ± SD, {several} runs")]


def draw_band(axes: Axes, curve: MeanCurve, style: LineStyle, width: float = 1.0) -> None:
    """Draw the mean as a line with a band of one SD, with fewer points but all extremes.

    `width` is relative to the usual line.
    """
    low, high = curve.mean - curve.sd, curve.mean + curve.sd
    if curve.runs > 1:
        at = np.union1d(select_extremes(low, MAX_POINTS), select_extremes(high, MAX_POINTS))
        axes.fill_between(
            curve.steps[at], low[at], high[at], color=style.colour, alpha=0.2, linewidth=0
        )
        draw_isolated(axes, curve.steps, curve.mean, curve.sd, style.colour)
    at = select_extremes(curve.mean, MAX_POINTS)
    axes.plot(
        curve.steps[at], curve.mean[at], color=style.colour, linestyle=style.dashes,
        linewidth=width * mpl.rcParams["lines.linewidth"],
    )  # fmt: skip


def draw_isolated(
    axes: Axes,
    x: NDArray[np.int64],
    mean: NDArray[np.float64],
    sd: NDArray[np.float64],
    colour: str,
) -> None:
    """Draw bars of one SD at points without a neighbour, where a band has no width."""
    known = np.isfinite(np.concatenate([[np.nan], mean, [np.nan]]))
    alone = known[1:-1] & ~known[:-2] & ~known[2:]
    if alone.any():
        axes.vlines(x[alone], (mean - sd)[alone], (mean + sd)[alone], color=colour, alpha=0.5)


def draw_switches(
    axes: Axes, steps: Mapping[str, Sequence[int]], styles: Mapping[str, LineStyle]
) -> None:
    """Draw task switches: grey if methods share them, else in the colour of the method."""
    count = Counter(step for own in steps.values() for step in set(own))
    for step in sorted(count):
        if count[step] > 1 or len(steps) == 1:
            axes.axvline(step, color="#9a9a9a", linewidth=0.6, zorder=0.5)
            continue
        [name] = [name for name, own in steps.items() if step in own]
        axes.axvline(step, color=styles[name].colour, lw=0.6, ls=":", alpha=0.7, zorder=0.5)


def fit_scores(axes: Axes, scale: ScoreScale, scores: Sequence[float] = ()) -> None:
    """Fit the axis to `scores`, or to everything drawn, within the range of the scale.

    Callers leave out the first rise of a task from chance level, which would flatten the rest.
    """
    bottom, top = axes.get_ylim()
    lowest, highest = min(scores, default=bottom), max(scores, default=top)
    if lowest < highest:
        room = 0.06 * (highest - lowest)
        bottom, top = lowest - room, highest + room
    beyond = 0.02 * (top - bottom)
    axes.set_ylim(max(bottom, scale.low - beyond), min(top, scale.high + beyond))


def share_axes(panels: Sequence[Axes], columns: int, x: str, y: str, *, whole: bool = True) -> None:
    """Make panels share their axes; call this before anything is drawn on them.

    Ticks and labels are at the left and the bottom only. `whole`: only integers on the x axis.
    """
    first, figure = panels[0], panels[0].figure
    first.xaxis.set_major_locator(MaxNLocator(3 if columns > 2 else 5, integer=whole))
    first.yaxis.set_major_locator(MaxNLocator(5))
    last = (len(panels) - 1) // columns * columns
    for k, axes in enumerate(panels):
        if axes is not first:
            axes.sharex(first)
            axes.sharey(first)
        lowest = not any(below.get_visible() for below in panels[k + columns :: columns])
        axes.tick_params(labelleft=k % columns == 0, labelbottom=lowest)
        if len(panels) < len(figure.axes):
            axes.set_ylabel("" if k % columns else y.replace(" (", "\n("))
            axes.set_xlabel(x if k >= last else "")
    if len(panels) == len(figure.axes):  # one label for all of them
        size = first.xaxis.label.get_fontsize()
        figure.supxlabel(x, fontsize=size)
        figure.supylabel(y, fontsize=size)


def shorten(name: str, most: int) -> str:
    """Return a name escaped for matplotlib, without its middle if it is longer than `most`.

    Example:
        >>> shorten("airplane-automobile", 12)
        'airplan…bile'
    """
    end = most // 3
    cut = name if len(name) <= most else f"{name[: most - 1 - end]}…{name[-end:]}"
    return escape_text(cut)


def escape_text(text: str) -> str:
    r"""Return text that matplotlib draws literally: no formula, nothing hidden in a legend.

    Example:
        >>> escape_text("a$b$"), escape_text("_a")
        ('a\\$b\\$', ' _a')
    """
    text = visible(text).replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text
