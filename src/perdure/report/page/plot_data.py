"""The data that the page's script plots: curves and criteria with few points but all extremes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from ..._display import select_extremes
from ...metrics import find_metric
from ...metrics.summary_options import CRITERIA
from ..colours import choose_styles, colour_on_dark, task_styles
from ..curve_data import (
    add_control,
    average_curves,
    find_switches,
    mean_worst_score,
    scores_at_task_ends,
)
from ..labels import mark_control, task_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from ...metrics import Stream
    from ...record import ScoreInput
    from ..colours import LineStyle
    from ..load import RunsByMethod

__all__ = ["CriteriaData", "CurveData", "MethodCurves", "make_criteria_data", "make_curve_data"]

MAX_MEAN_POINTS = 300  # of a mean curve, over its whole length
MAX_SWITCH_POINTS = 240  # in addition, right after the switches, where people zoom in
MAX_SEED_POINTS = 150_000  # of the curves of all single runs together, which a phone can draw


class TaskCurve(msgspec.Struct):
    """The mean curve of a task; `low` is the mean worst score, `ends` are steps and scores."""

    x: list[int]
    y: list[float]
    sd: list[float]
    low: float | None
    ends: list[list[float]]


class PlotStyle(msgspec.Struct):
    """The colour of a line on light and on dark ground, and its dashes."""

    colour: str
    dark: str
    dash: str


class MethodCurves(msgspec.Struct):
    """The curves of a method; `seeds` holds x and y per run and task."""

    name: str
    style: PlotStyle
    runs: int
    switches: list[int]
    names: list[str]
    tasks: list[TaskCurve]
    seeds: list[list[list[list[float]]]]


class MethodCriteria(msgspec.Struct):
    """The criteria of a method, None where undefined."""

    name: str
    style: PlotStyle
    values: list[float | None]


class Criterion(msgspec.Struct):
    """A criterion: its name in the paper, the metric behind it, and how to read that."""

    name: str
    id: str
    title: str
    meaning: str


class CriteriaData(msgspec.Struct):
    """The criteria that any method has, the others, and the values by method."""

    names: list[str]
    criteria: list[Criterion]
    undefined: list[Criterion]
    methods: list[MethodCriteria]


class CurveData(msgspec.Struct):
    """The curves of all methods; tasks are in learning order, whatever their names."""

    tasks: list[str]
    range: list[float] | None
    styles: list[PlotStyle]  # of tasks
    methods: list[MethodCurves]


def make_curve_data(methods: RunsByMethod) -> CurveData:
    """Return the curves of each method by task: mean and SD over runs, and those of each run.

    Example:
        >>> make_curve_data({}).methods
        []
    """
    usable = {
        name: [run for run in runs if run.stream is not None and run.stream.names]
        for name, runs in methods.items()
    }
    streams = {
        name: [add_control(run, run.stream) for run in runs if run.stream]
        for name, runs in usable.items()
        if runs
    }
    every = [stream for several in streams.values() for stream in several]
    tasks = task_names(every)
    curves = sum(len(stream.names) for stream in every)
    most = int(np.clip(MAX_SEED_POINTS / max(curves, 1), 60, 2 * MAX_MEAN_POINTS))
    styles = choose_styles(methods)
    return CurveData(
        tasks=tasks,
        range=_common_range(every),
        styles=[
            _make_style(mark_control(style, task))
            for task, style in zip(tasks, task_styles(len(tasks)), strict=True)
        ],
        methods=[
            MethodCurves(
                name=name,
                style=_make_style(styles[name]),
                runs=len(several),
                switches=find_switches(several),
                names=task_names(several),
                tasks=[
                    _make_task_curve(several, usable[name], k) for k in range(len(several[0].names))
                ],
                seeds=[_thin_run(s, most) for s in several] if len(several) > 1 else [],
            )
            for name, several in streams.items()
        ],
    )


def _common_range(streams: Sequence[Stream]) -> list[float] | None:
    """Return the limits of the scores; None if they are infinite or differ."""
    limits = {(stream.scale.low, stream.scale.high) for stream in streams}
    return list(limits.pop()) if len(limits) == 1 and np.isfinite(list(limits)).all() else None


def _make_task_curve(streams: Sequence[Stream], runs: Sequence[ScoreInput], task: int) -> TaskCurve:
    curve = average_curves([s.tasks[s.names[task]] for s in streams if task < len(s.names)])
    points = _choose_points(curve.steps, curve.mean, find_switches(streams))
    low = mean_worst_score(streams, task)
    steps, scores = scores_at_task_ends(runs, task)
    return TaskCurve(
        x=curve.steps[points].tolist(),
        y=_round(curve.mean[points]),
        sd=_round(curve.sd[points]) if curve.runs > 1 else [],
        low=None if np.isnan(low) else round(low, 5),
        ends=np.column_stack([steps, _round(scores)]).tolist(),
    )


def _choose_points(
    steps: NDArray[np.int64], mean: NDArray[np.float64], switches: Sequence[int]
) -> NDArray[np.intp]:
    """Return the indices of the points to plot: all extremes, and every point after switches."""
    starts = np.searchsorted(steps, switches, side="right")
    count = MAX_SWITCH_POINTS // max(len(switches), 1)
    near = [np.arange(start, min(start + count, len(steps))) for start in starts if count]
    return np.unique(np.concatenate([select_extremes(mean, MAX_MEAN_POINTS), *near]))


def _thin_run(stream: Stream, most: int) -> list[list[list[float]]]:
    curves = []
    for steps, scores in map(stream.tasks.__getitem__, stream.names):
        points = select_extremes(scores, most)
        curves.append([steps[points].tolist(), _round(scores[points])])
    return curves


def _round(values: NDArray[np.float64]) -> list[float]:
    rounded: list[float] = np.round(values, 5).tolist()
    return rounded


def make_criteria_data(
    metrics: Mapping[str, Mapping[str, float]], methods: RunsByMethod
) -> CriteriaData | None:
    """Return the criteria of Díaz-Rodríguez et al. 2018 by method; None for fewer than 3.

    Example:
        >>> make_criteria_data({"er": {"acc.lower": 0.5}}, {"er": []}) is None
        True
    """
    known = {
        name: id_ for name, id_ in CRITERIA.items() if any(id_ in own for own in metrics.values())
    }
    if len(known) < 3:
        return None
    styles = choose_styles(methods)
    return CriteriaData(
        names=list(known),
        criteria=[_describe_criterion(name) for name in known],
        undefined=[_describe_criterion(name) for name in CRITERIA if name not in known],
        methods=[
            MethodCriteria(
                name=name,
                style=_make_style(styles[name]),
                values=[round(own[id_], 5) if id_ in own else None for id_ in known.values()],
            )
            for name, own in metrics.items()
        ],
    )


def _make_style(style: LineStyle) -> PlotStyle:
    return PlotStyle(style.colour, colour_on_dark(style.colour), style.dashes)


def _describe_criterion(name: str) -> Criterion:
    metric = find_metric(CRITERIA[name])
    return Criterion(name, CRITERIA[name], metric.name, metric.interpretation)
