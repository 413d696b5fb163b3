"""Colours and dashes of methods, the same in every figure and readable for colour-blind people.

Seven hues after Okabe and Ito, without yellow (unreadable on white). Methods of one family share
a hue and differ in their dashes; hues have markers, so that black-and-white prints can be read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .._display import HUES
from .load import get_strategy

if TYPE_CHECKING:
    from .load import RunsByMethod

__all__ = [
    "DASHES",
    "HUES",
    "LineStyle",
    "choose_styles",
    "colour_on_dark",
    "sequential_colours",
    "task_styles",
]

BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, GREY = HUES
DASHES = ("solid", "dashed", "dotted", "dashdot")  # matplotlib's names
MARKERS = dict(zip(HUES, "os^DvPX", strict=True))  # matplotlib's names, one per hue

# Tasks of one run: told apart by people with any colour vision, on light and on dark ground.
TASK_HUES = (BLUE, VERMILION, GREEN, "#7a1f5c", "#1b1b1b")
DIM = 0.14  # relative luminance that is hard to see on dark ground
ON_DARK = {"#7a1f5c": "#cc79a7", "#1b1b1b": "#ffffff"}

# From dark blue to yellow (cividis), for ordered quantities such as memory sizes or many tasks.
ORDERED_COLOURS = (
    "#00224e", "#123570", "#3b496c", "#575d6d", "#707173", "#8a8678", "#a59c74", "#c3b369",
)  # fmt: skip


class LineStyle(NamedTuple):
    """Colour and dashes of a line; `dashes` is one of DASHES."""

    colour: str
    dashes: str = "solid"

    @property
    def marker(self) -> str:
        """The marker of points, by hue: hues that look alike in grey have different markers."""
        return MARKERS.get(self.colour, "o")

    @property
    def fill(self) -> str:
        """Which part of a marker is filled, by dashes, for points that no line joins."""
        return {"solid": "full", "dashed": "none", "dotted": "left"}.get(self.dashes, "bottom")


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
    """Return the style of each method, the same in figures, on the report and on the live page.

    A strategy of perdure has its own style; others get the free ones in order. Further methods of
    one strategy share its hue and differ in their dashes; if all methods are of one strategy, their
    colours are on an ordered scale.

    Example:
        >>> styles = choose_styles({"replay m=1": [], "replay m=2": [], "gem": [], "mine": []})
        >>> styles["gem"], styles["mine"]
        (LineStyle(colour='#d55e00', dashes='solid'), LineStyle(colour='#009e73', dashes='solid'))
        >>> styles["replay m=1"].colour == styles["replay m=2"].colour, styles["replay m=2"].dashes
        (True, 'dashed')
    """
    strategies = {name: get_strategy(name, runs) for name, runs in methods.items()}
    firsts: dict[str, str] = {}  # the first method of each strategy
    for name, strategy in strategies.items():
        firsts.setdefault(strategy, name)
    if len(firsts) == 1 < len(methods):
        return dict(zip(methods, map(LineStyle, sequential_colours(len(methods))), strict=True))
    every = [LineStyle(hue, dashes) for dashes in DASHES for hue in HUES]
    styles = {
        name: STRATEGY_STYLES[strategy]
        for strategy, name in firsts.items()
        if strategy in STRATEGY_STYLES
    }
    for name in [*firsts.values(), *methods]:
        if name not in styles:
            free = [style for style in every if style not in styles.values()]
            first = styles.get(firsts[strategies[name]])
            akin = [style for style in free if first is not None and style.colour == first.colour]
            styles[name] = [*akin, *free, every[len(styles) % len(every)]][0]
    return {name: styles[name] for name in methods}


def task_styles(count: int) -> list[LineStyle]:
    """Return a style per task: five hues, then the same with dashes; an ordered scale beyond 20.

    Example:
        >>> styles = task_styles(20)
        >>> styles[0], styles[5].dashes, len(set(styles))
        (LineStyle(colour='#0072b2', dashes='solid'), 'dashed', 20)
    """
    every = [LineStyle(hue, dashes) for dashes in DASHES for hue in TASK_HUES]
    if count > len(every):
        return [LineStyle(colour) for colour in sequential_colours(count)]
    return every[:count]


def colour_on_dark(colour: str) -> str:
    """Return the colour that replaces another one on dark ground.

    Example:
        >>> colour_on_dark("#00224e"), colour_on_dark("#c3b369"), colour_on_dark("#1b1b1b")
        ('#7f90a6', '#c3b369', '#ffffff')
    """
    if colour in ON_DARK:
        return ON_DARK[colour]
    parts = np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)], dtype=np.float64)
    luminance = (parts / 255) ** 2.2 @ (0.2126, 0.7152, 0.0722)
    if luminance < DIM:
        parts += (255 - parts) / 2
    return "#" + "".join(f"{int(part):02x}" for part in parts)


def sequential_colours(count: int) -> list[str]:
    """Return colours from dark to light, for ordered quantities.

    Example:
        >>> sequential_colours(2)
        ['#00224e', '#c3b369']
    """
    anchors = np.array([[int(c[k : k + 2], 16) for k in (1, 3, 5)] for c in ORDERED_COLOURS])
    positions = np.linspace(0, len(anchors) - 1, count) if count > 1 else np.zeros(count)
    mixed = [np.interp(positions, range(len(anchors)), anchors[:, k]).round() for k in range(3)]
    return [f"#{int(r):02x}{int(g):02x}{int(b):02x}" for r, g, b in zip(*mixed, strict=True)]
