"""Values after each task as lines, a method each, with a band of one SD over its seeds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.ticker import MaxNLocator

from ._cells import em
from ._matrices import plain
from ._paper import SIZES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..colours import Look
    from ._matrices import Spread
    from ._paper import Size

__all__ = ["legend_height", "lines_by_task", "shared_legend"]


def lines_by_task(axes: Axes, curves: Mapping[str, Spread], styles: Mapping[str, Look]) -> None:
    """Draw a value after each task, tasks counted from 1: the mean, and a band of one SD."""
    for name, over in curves.items():
        k = np.arange(1, len(over.mean) + 1)
        look = styles[name]
        marker = "o" if len(k) <= 20 else ""
        axes.plot(
            k, over.mean, color=look.colour, ls=look.dashes, label=plain(name), marker=marker,
            markersize=axes.xaxis.label.get_fontsize() / 2.7,  # type: ignore[operator]
        )  # fmt: skip
        if over.runs > 1:
            axes.fill_between(
                k, over.mean - over.sd, over.mean + over.sd, color=look.colour, alpha=0.15, lw=0
            )
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.grid(alpha=0.3, axis="y")


def legend_shape(names: Sequence[str], size: Size) -> tuple[int, int]:
    """Return rows and columns of a legend as wide as the figure, the columns about even."""
    width, points = SIZES.get(size, SIZES["page"])
    each = (max(map(em, names)) + 4.5) * (points - 1) / 72  # with the line and the space around
    rows = -(-len(names) // max(1, int(0.95 * width / each)))
    return rows, -(-len(names) // rows)


def legend_height(names: Sequence[str], size: Size) -> float:
    """Return by how much a legend makes a figure higher, as a share of its width; no slide."""
    width, points = SIZES.get(size, SIZES["page"])
    return 0.0 if size == "slide" else legend_shape(names, size)[0] * 1.4 * points / 72 / width


def shared_legend(figure: Figure, size: Size) -> None:
    """Write one legend under the whole figure, in as many columns as its width has room for."""
    lines = figure.axes[0].lines
    names = [str(line.get_label()) for line in lines]
    columns = legend_shape(names, size)[1]
    figure.legend(lines, names, loc="outside lower center", ncols=columns)
