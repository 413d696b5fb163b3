"""Values after each task as lines, a method each, with a band of one SD over its seeds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.ticker import MaxNLocator

from ._panels import escape_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.axes import Axes

    from ..colours import LineStyle
    from ._matrices import MeanAndSD

__all__ = ["draw_task_lines"]


def draw_task_lines(
    axes: Axes, curves: Mapping[str, MeanAndSD], styles: Mapping[str, LineStyle]
) -> None:
    """Draw a value after each task, tasks counted from 1: the mean, and a band of one SD."""
    for name, over in curves.items():
        k = np.arange(1, len(over.mean) + 1)
        look = styles[name]
        marker = "o" if len(k) <= 20 else ""
        axes.plot(
            k, over.mean, color=look.colour, ls=look.dashes, label=escape_text(name), marker=marker,
            markersize=axes.xaxis.label.get_fontsize() / 2.7,  # type: ignore[operator]
        )  # fmt: skip
        if over.runs > 1:
            axes.fill_between(
                k, over.mean - over.sd, over.mean + over.sd, color=look.colour, alpha=0.15, lw=0
            )
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.grid(alpha=0.3, axis="y")
