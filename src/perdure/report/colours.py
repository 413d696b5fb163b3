"""One look for every method wherever it is drawn: colours that colour-blind readers can tell apart.

Eight hues after Okabe and Ito, without yellow (unreadable on white). Methods of one family share
a hue and differ in their dashes, so that black-and-white prints can be read too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .._html import HUES
from .load import get_strategy

if TYPE_CHECKING:
    from .load import RunsByMethod

__all__ = ["HUES", "LineStyle", "choose_styles", "sequential_colours", "task_colours"]

BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, GREY = HUES

# From dark blue to yellow (cividis): what is ordered, memory sizes or many tasks, say.
ORDERED_COLOURS = (
    "#00224e",
    "#123570",
    "#3b496c",
    "#575d6d",
    "#707173",
    "#8a8678",
    "#a59c74",
    "#c3b369",
)


class LineStyle(NamedTuple):
    """How a method is drawn: its colour, and its dashes in the words of both drawing libraries."""

    colour: str
    dashes: str = "solid"  # solid | dashed | dotted | dashdot, as matplotlib has them

    @property
    def plotly(self) -> str:
        """The same dashes as plotly calls them."""
        return {"solid": "solid", "dashed": "dash", "dotted": "dot"}.get(self.dashes, "dashdot")


STRATEGY_STYLES = {
    "naive": LineStyle(GREY),
    "joint": LineStyle(GREY, "dashed"),
    "single": LineStyle(GREY, "dotted"),
    "random": LineStyle(GREY, "dashdot"),
    "cumulative": LineStyle(SKY),
    "replay": LineStyle(BLUE),
    "gdumb": LineStyle(BLUE, "dashed"),
    "gem": LineStyle(VERMILION),
    "agem": LineStyle(VERMILION, "dashed"),
    "ewc": LineStyle(GREEN),
    "si": LineStyle(GREEN, "dashed"),
    "mas": LineStyle(GREEN, "dotted"),
    "lwf": LineStyle(PURPLE),
    "cwr-star": LineStyle(ORANGE),
}


def choose_styles(methods: RunsByMethod) -> dict[str, LineStyle]:
    """Return how each method is drawn: by its strategy, or in order where several share one.

    Example:
        >>> choose_styles({"replay": [], "gem": []})["gem"].colour
        '#d55e00'
        >>> len(set(choose_styles({"replay m=1": [], "replay m=2": []}).values()))
        2
    """
    strategies = {name: get_strategy(name, runs) for name, runs in methods.items()}
    times = list(strategies.values())
    if len(methods) > 1 and len(set(times)) == 1:
        return dict(zip(methods, map(LineStyle, sequential_colours(len(methods))), strict=True))
    found: dict[str, LineStyle] = {}
    for name, strategy in strategies.items():
        if strategy in STRATEGY_STYLES and times.count(strategy) == 1:
            found[name] = STRATEGY_STYLES[strategy]
    free = [
        LineStyle(hue, dashes)
        for dashes in ("solid", "dashed", "dotted", "dashdot")
        for hue in HUES
        if LineStyle(hue, dashes) not in found.values()
    ]
    rest = [name for name in methods if name not in found]
    return found | {name: free[k % len(free)] for k, name in enumerate(rest)}


def task_colours(count: int) -> list[str]:
    """Return a colour for each task: hues for few, an ordered scale for many.

    Example:
        >>> task_colours(2), len(task_colours(20))
        (['#0072b2', '#d55e00'], 20)
    """
    return list(HUES[:count]) if count <= len(HUES) else sequential_colours(count)


def sequential_colours(count: int) -> list[str]:
    """Return colours from dark to light, for what has an order.

    Example:
        >>> sequential_colours(2)
        ['#00224e', '#c3b369']
    """
    anchors = np.array([[int(c[k : k + 2], 16) for k in (1, 3, 5)] for c in ORDERED_COLOURS])
    places = np.linspace(0, len(ORDERED_COLOURS) - 1, count) if count > 1 else np.zeros(count)
    mixed = [
        np.interp(places, range(len(ORDERED_COLOURS)), anchors[:, k]).round() for k in range(3)
    ]
    return [f"#{int(r):02x}{int(g):02x}{int(b):02x}" for r, g, b in zip(*mixed, strict=True)]
