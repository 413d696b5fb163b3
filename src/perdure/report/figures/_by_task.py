"""Lines of a value after each task, one per method, with a band of one SD average its seeds."""

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


def draw_task_lines(
    axes: Axes, curves: Mapping[str, MeanAndSD], styles: Mapping[str, LineStyle]
) -> None:
    """Draw the mean of a value after each task, counted from 1, with a band of one SD."""
    for name, average in curves.items():
        k = np.arange(1, len(average.mean) + 1)
        style = styles[name]
        marker = "o" if len(k) <= 20 else ""
        axes.plot(
            k, average.mean, color=style.colour, ls=style.dashes, label=escape_text(name),
            marker=marker, markersize=axes.xaxis.label.get_fontsize() / 2.7,  # type: ignore[operator]
        )  # fmt: skip
        if average.runs > 1:
            axes.fill_between(
                k,
                average.mean - average.sd,
                average.mean + average.sd,
                color=style.colour,
                alpha=0.15,
                lw=0,
            )
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.grid(alpha=0.3, axis="y")
