"""The curves of a run: one per task, task switches, and the worst score since each was learned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..._display import select_extremes
from ...metrics import UndefinedMetricError, min_acc
from ...record import Run, RunMetadata
from ..colours import choose_styles, colour_on_dark, task_styles
from ..labels import control_label, mark_control
from .broadcaster import CurvePoints, CurvesMessage, NewPoints, TaskPoints, WorstScore
from .list_row import escape_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from ...metrics import Stream
    from ...record import Points
    from ..colours import LineStyle

    Curve = tuple[NDArray[np.int64], NDArray[np.float64]]

__all__ = [
    "PointsSummary",
    "RunCurves",
    "choose_run_styles",
    "find_new_points",
    "make_run_curves",
    "summarize_points",
    "to_curve_message",
]

MAX_POINTS = 2000  # per curve
MAX_TOTAL_POINTS = 200_000  # per run
MAX_TASKS = 200


@dataclass(frozen=True, eq=False)
class RunCurves:
    """All curves of a run, from `rows` rows; `restarts` counts how often its file was replaced."""

    tasks: dict[str, Curve]
    mean: Curve  # over the tasks learned so far
    spans: list[tuple[str, int, int]]  # task, first and last step
    worst: dict[str, WorstScore]  # of older tasks
    tasks_left_out: int
    rows: int
    restarts: int


class PointsSummary(NamedTuple):
    """The numbers of a run in the list."""

    tasks: int | None = None
    step: int | None = None
    acc: float | None = None
    min_acc: float | None = None


def make_run_curves(
    stream: Stream, rows: int, restarts: int, control: Mapping[str, Curve] | None = None
) -> RunCurves:
    """Return the curves of a stream and, after them, those of control tasks.

    Example:
        >>> from perdure.record import read_points
        >>> text = "step,trained,tested,score|1,a,a,0.9|2,b,a,0.2|2,b,b,0.5|3,b,a,0.6|3,b,b,0.8|"
        >>> points = read_points(text.replace("|", chr(10)), "points.csv")
        >>> curves = make_run_curves(points.stream(), 5, 1)
        >>> curves.worst["a"], curves.mean[1].round(2)
        (WorstScore(step=2, score=0.2, learned=0.9), array([0.9 , 0.35, 0.7 ]))
    """
    spans = _list_spans(stream)
    tasks = {name: stream.tasks[name] for name in stream.names[:MAX_TASKS]}
    others = list((control or {}).items())[:MAX_TASKS]
    left_out = len(stream.names) - len(tasks) + len(control or {}) - len(others)
    return RunCurves(
        tasks | {control_label(name): curve for name, curve in others}, _mean(tasks, spans),
        spans[:MAX_TASKS], _find_worst(stream, spans), left_out, rows, restarts,
    )  # fmt: skip


def _list_spans(stream: Stream) -> list[tuple[str, int, int]]:
    spans, start = [], 0
    for task, last in stream.spans:
        spans.append((task, start + 1, last))
        start = last
    return spans


def _find_worst(stream: Stream, spans: list[tuple[str, int, int]]) -> dict[str, WorstScore]:
    """Return the worst score of each older task since the end of its first span."""
    ends: dict[str, int] = {}
    for task, _, last in spans[:-1]:
        ends.setdefault(task, last)
    worst = {}
    for task, end in list(ends.items())[:MAX_TASKS]:
        steps, scores = stream.tasks[task]
        start = int(np.searchsorted(steps, end, side="right"))
        if start < len(steps):
            at = start + int(stream.higher_is_better(task)[start:].argmin())
            learned = float(scores[start - 1]) if start else None
            worst[task] = WorstScore(int(steps[at]), float(scores[at]), learned)
    return worst


def _mean(tasks: dict[str, Curve], spans: list[tuple[str, int, int]]) -> Curve:
    """Return the mean over the tasks learned so far of the latest score of each."""
    starts: dict[str, int] = {}
    for task, first, _ in spans:
        starts.setdefault(task, first)
    seen = {name: starts.get(name, 0) for name in tasks if name in starts or not spans}
    parts = [tasks[name][0][tasks[name][0] >= start] for name, start in seen.items()]
    steps = np.unique(np.concatenate(parts)) if parts else np.empty(0, np.int64)
    total, count = np.zeros(len(steps)), np.zeros(len(steps))
    for name, start in seen.items():
        own, scores = tasks[name]
        at = np.searchsorted(own, steps, side="right") - 1
        known = (at >= 0) & (steps >= start)
        total[known] += scores[at[known]]
        count[known] += 1
    return steps[count > 0], total[count > 0] / count[count > 0]


def summarize_points(points: Points, stream: Stream) -> PointsSummary:
    """Return the numbers of a run in the list, from its points and their stream.

    Example:
        >>> from perdure.record import read_points
        >>> text = "step,trained,tested,score|1,a,a,0.9|2,b,a,0.2|2,b,b,0.5|"
        >>> points = read_points(text.replace("|", chr(10)), "p")
        >>> summarize_points(points, points.stream()).acc
        0.35
    """
    ended = points.last_finished_step()
    latest = np.full(len(points.names), np.nan)
    latest[points.tested] = points.score  # in order of steps: the last one remains
    latest = latest[: len({task for task, _ in stream.spans})]  # learned tasks come first
    latest = latest[~np.isnan(latest)]
    done = {task for task, last in stream.spans if ended is not None and last <= ended}
    try:
        low = float(min_acc(stream))  # of scores for which higher is better
        worst: float | None = round(-low if points.scale.lower_is_better else low, 6)
    except (UndefinedMetricError, ValueError):
        worst = None
    acc = round(float(np.mean(latest)), 6) if len(latest) else None
    return PointsSummary(len(done), int(points.step[-1]), acc, worst)


def to_curve_message(curves: RunCurves, tasks: int = 0) -> CurvesMessage:
    """Return curves with fewer points but all extremes, as the browser gets them.

    Styles are those of a run with `tasks` tasks in all, if that is known.
    """
    styles = task_styles(max(len(curves.tasks), min(tasks, MAX_TASKS)))
    most = min(MAX_POINTS, MAX_TOTAL_POINTS // (len(curves.tasks) + 1))
    messages = []
    for (name, curve), task_style in zip(curves.tasks.items(), styles, strict=False):
        points, style = _thin(curve, most), mark_control(task_style, name)
        messages.append(
            TaskPoints(
                escape_name(name)[:200], style.colour, colour_on_dark(style.colour), style.dashes,
                points.steps, points.scores,
            )
        )  # fmt: skip
    return CurvesMessage(
        curves.restarts, curves.rows, curves.tasks_left_out, messages, _thin(curves.mean, most),
        *_number_tasks(curves),
    )  # fmt: skip


def find_new_points(before: RunCurves, now: RunCurves) -> NewPoints | None:
    """Return the points that `now` has in addition; None if it does not only have more points."""
    names = list(now.tasks)
    if before.restarts != now.restarts or names != list(before.tasks):
        return None  # a new task needs a name and a colour too
    curves = {}
    for number, name in enumerate(names):
        added = _find_added(before.tasks[name], now.tasks[name])
        if added is None or len(added.steps) > MAX_POINTS:  # so many are sent with fewer points
            return None
        if added.steps:
            curves[number] = added
    mean = _find_added(before.mean, now.mean)
    if mean is None:
        return None
    return NewPoints(now.restarts, before.rows, now.rows, curves, mean, *_number_tasks(now))


def _number_tasks(
    curves: RunCurves,
) -> tuple[list[tuple[int, int, int]], dict[int, WorstScore]]:
    """Return the spans and the worst scores of tasks by number."""
    numbers = {name: number for number, name in enumerate(curves.tasks)}
    spans = [(numbers[task], first, last) for task, first, last in curves.spans if task in numbers]
    return spans, {numbers[task]: low for task, low in curves.worst.items() if task in numbers}


def _find_added(before: Curve, now: Curve) -> CurvePoints | None:
    """Return the points after those of `before`; None if those have changed."""
    old = len(before[0])
    unchanged = all(
        np.array_equal(own[:old], others) for own, others in zip(now, before, strict=True)
    )
    return _to_points((now[0][old:], now[1][old:])) if unchanged else None


def _thin(curve: Curve, most: int) -> CurvePoints:
    points = select_extremes(curve[1], most)
    return _to_points((curve[0][points], curve[1][points]))


def _to_points(curve: Curve) -> CurvePoints:
    return CurvePoints(curve[0].tolist(), curve[1].round(6).tolist())


def choose_run_styles(strategies: dict[str, str]) -> dict[str, LineStyle]:
    """Return the styles of runs in a comparison, given the strategy of each, as figures have them.

    Example:
        >>> styles = choose_run_styles({"a": "gem", "b": "naive", "c": "gem"})
        >>> styles["a"], styles["c"]
        (LineStyle(colour='#d55e00', dashes='solid'), LineStyle(colour='#d55e00', dashes='dashed'))
    """
    return choose_styles(
        {
            name: [Run(metadata=RunMetadata(config={"strategy": strategy}))]
            for name, strategy in strategies.items()
        }
    )
