"""One strategy at several values, memory sizes or angles: its curves and what they come to.

After De Lange et al. (2023), figures 3 and 7.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib as mpl
import numpy as np

from ...metrics import SummaryOptions, find_metric
from ...metrics.summary_types import name_of
from ...record import InputError
from ..colours import LineStyle, sequential_colours
from ..curve_data import explain_missing_stream, get_streams, require_one_scale
from ..filtering import drop_other_task_counts, drop_unusable
from ..series_parameter import find_series_parameter
from ._panels import escape_text, percent_ticks
from .curves import CurveGroup, draw_curves

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ...metrics import ScoreScale
    from ...record import ScoreInput
    from ..load import RunsByMethod
    from ..series_parameter import SeriesParameter
    from ._paper import Size

    Spread = list[list[float]]  # the metric of every run, by value

__all__ = ["series"]

WIDE = 20  # times the lowest value: then the low ones would lie on each other
MARKS = "os^vDP"
LETTERS = 24  # of all names in the legend that fit next to each other


def series(
    methods: RunsByMethod,
    *,
    size: Size = "page",
    tasks: int | None = None,
    only: Sequence[str] = ("acc", "min_acc"),
) -> Figure:
    """Return curves of methods that differ in one value, coloured in its order, and their metrics.

    The value is what differs in the runs' descriptions (a memory size, the number in a scenario's
    name), or the number in the methods' names. The last panel has the metrics against it, with
    the SD over runs.

    Args:
        methods: runs by method, as `open_methods` gives them.
        size: for a column or a page of a paper, or a slide.
        tasks: how many panels of curves, from the first task on; all by default.
        only: ids of the metrics to draw.

    Example:
        >>> from perdure.metrics import Stream
        >>> from perdure.record import ScoreInput
        >>> def run(low):
        ...     scores = {"a": ([1, 2], [0.9, low]), "b": ([2], [0.8])}
        ...     return ScoreInput(stream=Stream(scores, spans=[("a", 1), ("b", 2)]))
        >>> figure = series({"er 20": [run(0.5)], "er 10": [run(0.25)]}, only=["min_acc"])
        >>> figure.axes[-1].lines[0].get_xydata().tolist()
        [[10.0, 0.25], [20.0, 0.5]]
    """
    if tasks is not None and tasks < 1:
        raise InputError(f"tasks is {tasks}, expected a whole number of at least 1")
    if not only:
        raise InputError("no metrics to draw, expected ids like acc; see perdure explain")
    for id_ in only:
        find_metric(id_)  # one that does not exist is named with those that are like it
    methods = drop_other_task_counts(
        drop_unusable(methods, lambda run: _lacks(run, only)), together=False
    )
    values = find_series_parameter(methods)
    found = {id_: _measured(methods, values, id_) for id_ in only}
    tracks = [
        CurveGroup(
            f"{values.name} {value:g}",
            LineStyle(colour),
            get_streams(name, methods[name]),
            methods[name],
        )
        for (name, value), colour in zip(
            values.of.items(), sequential_colours(len(methods)), strict=True
        )
    ]
    scale = require_one_scale(stream for track in tracks for stream in track.streams)
    named = {_called(id_, scale): spread for id_, spread in found.items()}

    def beside(axes: Axes) -> None:
        _draw(axes, values, named)
        if all(find_metric(id_).unit == "score" for id_ in only):
            percent_ticks(scale, axes.yaxis)

    return draw_curves(tracks, size, tasks, beside=beside)


def _called(id_: str, scale: ScoreScale) -> str:
    """Return the id, or the metric's name in words of the score where that is no accuracy."""
    return id_ if scale.label == "accuracy" else escape_text(name_of(find_metric(id_), scale))


def _lacks(run: ScoreInput, ids: Sequence[str]) -> str:
    """Return why a run cannot be drawn, nothing where it can."""
    if why := explain_missing_stream(run):
        return why
    found = run.summary(SummaryOptions(only=frozenset(ids), intervals=False))
    for id_ in ids:
        if id_ not in found.metrics:
            why = found.undefined.get(id_, "undefined")
            return f"no {id_}: {why}; choose other metrics with only"
    return ""


def _measured(methods: RunsByMethod, values: SeriesParameter, id_: str) -> Spread:
    """Return a metric of every run, by value."""
    options = SummaryOptions(only=frozenset({id_}), intervals=False)
    return [
        [float(run.summary(options).metrics[id_]) for run in methods[name]] for name in values.of
    ]


def _draw(axes: Axes, values: SeriesParameter, found: dict[str, Spread]) -> None:
    """Draw metrics against the values: at even distances where these are far apart."""
    given = list(values.of.values())
    wide = min(given) > 0 and max(given) / min(given) >= WIDE
    x = list(range(len(given))) if wide else given
    points = mpl.rcParams["font.size"]
    for k, (label, spread) in enumerate(found.items()):
        means = [float(np.mean(runs)) for runs in spread]
        sds = [float(np.std(runs, ddof=1)) if len(runs) > 1 else 0.0 for runs in spread]
        axes.errorbar(
            x, means, yerr=sds, color="#333333", marker=MARKS[k % len(MARKS)], capsize=points / 4,
            markersize=points / 2, linestyle=("-", "--", ":", "-.")[k % 4], label=label,
        )  # fmt: skip
    axes.set_xticks(x, [f"{value:g}" for value in given])
    axes.margins(0.1)
    axes.set_xlabel(values.name)
    axes.legend(
        loc="lower center", bbox_to_anchor=(0.5, 1), borderaxespad=0.2,
        ncols=2 if sum(map(len, found)) < LETTERS else 1,
        handlelength=1.8, columnspacing=1,
    )  # fmt: skip
