"""Accuracy and forgetting of every class, and which classes were predicted instead of it."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.colors import Normalize

from ...record import InputError
from ..colours import choose_styles
from ..figure_data import explain_missing_classes, read_classes
from ..filtering import drop_unusable, require_one_scenario
from .drawing import SIZES, describe_runs, new_figure, set_caption, split_into_rows
from .drawing.matrices import (
    SCORE_COLOURMAP,
    average_runs,
    draw_cells,
    name_cells,
    wrap_name,
    write_numbers,
)
from .drawing.panels import (
    MAX_LEGEND_LETTERS,
    add_legend,
    line_key,
    percent_ticks,
    select_tasks,
    shorten,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from ...metrics import ScoreScale
    from ..colours import LineStyle
    from ..figure_data import ClassResults
    from ..load import RunsByMethod
    from .drawing import Size
    from .drawing.matrices import MeanAndSD

__all__ = ["classes", "confusion"]

SPREAD = 0.7  # of the distance between classes, over which the points of methods are spread
MAX_BARS = 60  # classes, beyond which SDs are not drawn
MAX_NAMES = {"column": 20, "page": 40, "slide": 40}  # classes that are named next to each other
MAX_PANELS = {"column": 2, "page": 3, "slide": 4}  # side by side
MAX_PANEL_INCHES = 4.0
MAX_CLASS_LETTERS = 16  # of the name of a class
MAX_LEVEL_LETTERS = 3  # of names that are always written from left to right


class _Layout(NamedTuple):
    """The classes of all runs, in the order of learning, and where tasks begin."""

    classes: tuple[int, ...]
    tasks: tuple[str, ...]
    starts: list[int]  # the first class of each task
    names: Mapping[int, str]  # by class; empty unless all runs agree on them

    def describe(self, classes: Sequence[int], most: int) -> list[str]:
        """Return the names of some classes, or their numbers."""
        return [shorten(self.names.get(label, str(label)), most) for label in classes]


def classes(methods: RunsByMethod, *, size: Size = "page", tasks: int | None = None) -> Figure:
    """Return the accuracy on each class after the last task, and its forgetting, by method.

    Forgetting is the best accuracy on the class after an earlier task minus that after the last
    one (as in forgetting.best). Points are means over runs, with bars of one SD.

    Args:
        methods: runs by method, with predicted classes at task ends (confusion.csv).
        size: a column or a page of a paper, or a slide.
        tasks: as if learning had stopped after this many tasks; all of them by default.
    """
    require_one_scenario(methods)
    results, scale = _read(methods, tasks)
    layout = _find_layout(results)
    styles = choose_styles(methods)
    panels = {
        scale.label: {name: average_runs([_align(r, r.accuracy[-1], layout) for r in several])
                      for name, several in results.items()},
        "forgetting": {name: average_runs([_align(r, r.forgetting(), layout) for r in several])
                       for name, several in results.items()},
    }  # fmt: skip
    height = {"column": 1.1, "page": 0.6, "slide": 0.5625}[size]
    with new_figure(size, height, 2, 1, sharex=True) as figure:
        for axes, (label, values) in zip(figure.axes, panels.items(), strict=True):
            _draw_points(axes, values, styles)
            _mark_tasks(axes, layout)
            axes.set_ylabel(label + " (%)" * scale.percent)
            percent_ticks(scale, axes.yaxis)
        accuracy, forgotten = figure.axes
        accuracy.set_ylim(-0.03, 1.03)
        low, high = forgotten.get_ylim()
        forgotten.set_ylim(max(low, -1.03), min(high, 1.03))
        _name_classes(figure.axes, layout, size)
        keys = [
            line_key(shorten(name, MAX_LEGEND_LETTERS[size]), styles[name],
                     **_point_style(styles[name]))
            for name in results
        ]  # fmt: skip
        add_legend(figure, keys)
    runs = describe_runs(map(len, results.values()), "points", "bars one SD")
    set_caption(figure, "forgetting: from the best accuracy on the class after a task", runs)
    return figure


def confusion(methods: RunsByMethod, *, size: Size = "page", tasks: int | None = None) -> Figure:
    """Return which classes were predicted for each class after the last task, by method.

    Rows are labels, columns predicted classes, both in the order of learning; a row adds up to 1.
    Values are means over runs. White lines separate the classes of tasks.

    Args:
        methods: runs by method, with predicted classes at task ends (confusion.csv).
        size: a column or a page of a paper, or a slide.
        tasks: as if learning had stopped after this many tasks; all of them by default.
    """
    results, scale = _read(methods, tasks)
    layout = _find_layout(results)
    outputs = _list_outputs(results, layout)
    tables = {
        name: np.mean([_predicted_fractions(r, layout, outputs) for r in several], axis=0)
        for name, several in results.items()
    }
    rows, columns = split_into_rows(len(tables), MAX_PANELS[size])
    width, points = SIZES[size]
    inches = rows * min((width - 1.2) / columns, MAX_PANEL_INCHES) + 0.6
    with new_figure(size, min(inches, 9 * width / 16 if size == "slide" else 9) / width, rows,
                    columns) as figure:  # fmt: skip
        panels = list(figure.axes)
        for k, (axes, (name, table)) in enumerate(zip(panels, tables.items(), strict=False)):
            image = draw_cells(axes, table, (SCORE_COLOURMAP, Normalize(0, 1)))
            names = layout.describe(outputs, MAX_CLASS_LETTERS)
            name_cells(axes, names[: len(layout.classes)], names, size)
            upright = _are_upright(names, size, columns)
            letters = 1.5 if upright else (1 + max(map(len, names))) / 2
            every = ceil(len(outputs) * columns * letters / MAX_NAMES[size])
            axes.set_xticks(range(0, len(outputs), every), names[::every])
            axes.tick_params(axis="x", rotation=90 if upright else 0)
            for start in layout.starts[1:]:
                axes.axhline(start - 0.5, color="white", lw=points / 16)
                axes.axvline(start - 0.5, color="white", lw=points / 16)
            axes.set_title(wrap_name(name, 100 * width / points / columns))
            lowest = k + columns >= len(tables)
            axes.tick_params(labelleft=k % columns == 0, labelbottom=lowest)
        for empty in panels[len(tables) :]:
            empty.set_axis_off()
        figure.supxlabel("predicted class, in the order of learning", fontsize=points)
        figure.supylabel("class", fontsize=points)
        label = "fraction of the class" + " (%)" * scale.percent
        bar = figure.colorbar(image, ax=panels, label=label, aspect=30, fraction=0.05)
        percent_ticks(scale, bar.ax.yaxis)
        write_numbers(figure, size, percent=scale.percent, skip_zeros=True)
    numbering = "" if layout.names else "; classes are numbered in the order of learning"
    set_caption(figure, f"after {layout.tasks[-1]}; a row adds up to 1{numbering}")
    return figure


def _read(
    methods: RunsByMethod, tasks: int | None
) -> tuple[dict[str, list[ClassResults]], ScoreScale]:
    usable = drop_unusable(methods, explain_missing_classes, together=True)
    first = next(run for runs in usable.values() for run in runs)
    stream = first.stream
    assert stream is not None
    select_tasks(stream.names, tasks)
    results = {name: [read_classes(run, tasks) for run in runs] for name, runs in usable.items()}
    return results, stream.scale


def _find_layout(results: Mapping[str, Sequence[ClassResults]]) -> _Layout:
    every = [one for several in results.values() for one in several]
    if len(orders := {one.tasks for one in every}) > 1:
        first, second, *_ = sorted(", ".join(tasks) for tasks in orders)
        raise InputError(
            f"runs learned {first!r} and {second!r}, expected the same tasks in the same order: "
            "classes are numbered in the order of learning; name the runs of one order"
        )
    learned: dict[int, int] = {}
    for one in every:
        for label, row in zip(one.classes, one.learned.tolist(), strict=True):
            learned[label] = min(row, learned.get(label, row))
    order = sorted(learned, key=lambda label: (learned[label], label))
    rows = [learned[label] for label in order]
    starts = [k for k, row in enumerate(rows) if k == 0 or row != rows[k - 1]]
    names = every[0].names
    agreed = all(one.names == names for one in every) and {*order} <= {*names}
    return _Layout(tuple(order), every[0].tasks, starts, names if agreed else {})


def _align(one: ClassResults, values: NDArray[np.float64], layout: _Layout) -> NDArray[np.float64]:
    """Return values by class in the order of the layout, NaN for classes that a run lacks."""
    known = dict(zip(one.classes, values.tolist(), strict=True))
    return np.array([known.get(label, np.nan) for label in layout.classes])


def _list_outputs(
    results: Mapping[str, Sequence[ClassResults]], layout: _Layout
) -> tuple[int, ...]:
    """Return the predicted classes of all runs, the ones with labels first."""
    every = {output for several in results.values() for one in several for output in one.outputs}
    return (*layout.classes, *sorted(every - set(layout.classes)))


def _predicted_fractions(
    one: ClassResults, layout: _Layout, outputs: Sequence[int]
) -> NDArray[np.float64]:
    """Return the fraction of each class's examples for which each class was predicted."""
    counts = np.zeros((len(layout.classes), len(outputs)))
    rows = [layout.classes.index(label) for label in one.classes]
    columns = [outputs.index(output) for output in one.outputs]
    counts[np.ix_(rows, columns)] = one.predictions
    total = counts.sum(axis=1, keepdims=True)
    unknown = np.full(counts.shape, np.nan)
    fractions: NDArray[np.float64] = np.divide(counts, total, out=unknown, where=total > 0)
    return fractions


def _draw_points(
    axes: Axes, values: Mapping[str, MeanAndSD], styles: Mapping[str, LineStyle]
) -> None:
    points = mpl.rcParams["font.size"]
    offsets = np.linspace(-SPREAD / 2, SPREAD / 2, len(values) + 2)[1:-1]
    for offset, (name, average) in zip(offsets, values.items(), strict=True):
        x, style = np.arange(len(average.mean)) + offset, styles[name]
        size = points / 2 if len(x) <= MAX_BARS else points / 4
        if average.runs > 1 and len(x) <= MAX_BARS:
            ends = average.mean - average.sd, average.mean + average.sd
            axes.vlines(x, *ends, color=style.colour, lw=points / 10)
        axes.plot(x, average.mean, **_point_style(style), markersize=size)
    if all(np.isnan(average.mean).all() for average in values.values()):
        text = "undefined: no class was learned before the last task"
        axes.text(0.5, 0.7, text, ha="center", va="center", transform=axes.transAxes)
    axes.grid(alpha=0.3, axis="y")


def _point_style(style: LineStyle) -> dict[str, Any]:
    """Return how points of a method look: strategies of one hue differ in what is filled."""
    return {
        "ls": "none", "marker": style.marker, "color": style.colour, "fillstyle": style.fill,
        "markerfacecoloralt": "white", "markeredgewidth": mpl.rcParams["font.size"] / 12,
    }  # fmt: skip


def _mark_tasks(axes: Axes, layout: _Layout) -> None:
    for start in layout.starts[1:]:
        axes.axvline(start - 0.5, color="#9a9a9a", lw=0.6, zorder=0.5)
    axes.set_xlim(-0.6, len(layout.classes) - 0.4)


def _are_upright(names: Sequence[str], size: Size, columns: int = 1) -> bool:
    """Return whether the names of classes are too long to be written from left to right."""
    room = SIZES[size][0] * 72 / SIZES[size][1] * 1.2 / len(names) / columns
    return max(map(len, names)) > max(room, MAX_LEVEL_LETTERS)


def _name_classes(panels: Sequence[Axes], layout: _Layout, size: Size) -> None:
    """Write the classes below, and the tasks that they were learned with above."""
    count = len(layout.classes)
    every = -(-count // MAX_NAMES[size])
    names = layout.describe(layout.classes, MAX_CLASS_LETTERS)
    panels[-1].set_xticks(range(0, count, every), names[::every])
    panels[-1].tick_params(axis="x", rotation=90 if _are_upright(names, size) else 0)
    panels[-1].set_xlabel("class, in the order of learning")
    panels[-1].axhline(0, color="#6b6b6b", lw=0.8, zorder=0.6)
    ends = [*layout.starts[1:], count]
    letters = int(SIZES[size][0] * 72 / SIZES[size][1] * 1.4 / len(ends))
    if letters < 4 or len(layout.starts) != len(layout.tasks):
        return
    top = panels[0].secondary_xaxis("top")
    middles = [(a + b - 1) / 2 for a, b in zip(layout.starts, ends, strict=True)]
    top.set_xticks(middles, [shorten(task, letters) for task in layout.tasks])
    top.tick_params(length=0)
    top.spines[:].set_visible(False)
