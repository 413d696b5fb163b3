"""What is drawn of a run: a curve per task, the switches, the worst since each was learned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..._html import select_extremes
from ...metrics import UndefinedMetricError, min_acc
from ...record import Run, RunMetadata
from ..colours import choose_styles, task_colours
from .list_row import escape_name

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ...metrics import Stream
    from ...record import Points
    from ..colours import LineStyle

    Curve = tuple[NDArray[np.int64], NDArray[np.float64]]

__all__ = [
    "RunCurves",
    "choose_run_styles",
    "find_new_points",
    "lighten_for_dark",
    "make_run_curves",
    "summarize_points",
    "to_curve_message",
]

MAX_POINTS = 2000  # of a curve
MAX_TOTAL_POINTS = 200_000  # of all curves of a run
MAX_TASKS = 200
DASHES = ("solid", "dashed", "dotted", "dashdot")


class WorstScore(NamedTuple):
    """Where a task did worst since it was learned, and how well it did when it was."""

    step: int
    score: float
    learned: float | None


@dataclass(frozen=True, eq=False)
class RunCurves:
    """A run's curves in full; `rows` and `begun` say from how much of which file."""

    tasks: dict[str, Curve]
    mean: Curve  # over the tasks seen by then
    spans: list[tuple[str, int, int]]  # task, first and last step
    lows: dict[str, WorstScore]  # of tasks that were left behind
    left_out: int
    rows: int
    begun: int


def make_run_curves(stream: Stream, rows: int, begun: int) -> RunCurves:
    """Return what is drawn of a run.

    Example:
        >>> from perdure.record import read_points
        >>> text = "step,trained,tested,score|1,a,a,0.9|2,b,a,0.2|2,b,b,0.5|3,b,a,0.6|3,b,b,0.8|"
        >>> points = read_points(text.replace("|", chr(10)), "points.csv")
        >>> view = make_run_curves(points.stream(), 5, 1)
        >>> view.lows["a"], view.mean[1].round(2)
        (WorstScore(step=2, score=0.2, learned=0.9), array([0.9 , 0.35, 0.7 ]))
    """
    spans = _spans(stream)
    tasks = {name: stream.tasks[name] for name in stream.names[:MAX_TASKS]}
    return RunCurves(
        tasks, _mean(tasks, spans), spans[:MAX_TASKS], _lows(stream, spans),
        len(stream.names) - len(tasks), rows, begun,
    )  # fmt: skip


def _spans(stream: Stream) -> list[tuple[str, int, int]]:
    found, start = [], 0
    for task, last in stream.spans:
        found.append((task, start + 1, last))
        start = last
    return found


def _lows(stream: Stream, spans: list[tuple[str, int, int]]) -> dict[str, WorstScore]:
    """Return where each task that was left behind did worst since the end of its first visit."""
    ends: dict[str, int] = {}
    for task, _, last in spans[:-1]:
        ends.setdefault(task, last)
    found = {}
    for task, end in list(ends.items())[:MAX_TASKS]:
        steps, scores = stream.tasks[task]
        start = int(np.searchsorted(steps, end, side="right"))
        if start < len(steps):
            at = start + int(stream.higher_is_better(task)[start:].argmin())
            learned = float(scores[start - 1]) if start else None
            found[task] = WorstScore(int(steps[at]), float(scores[at]), learned)
    return found


def _mean(tasks: dict[str, Curve], spans: list[tuple[str, int, int]]) -> Curve:
    """Return the mean over the tasks seen so far of each one's newest score."""
    starts: dict[str, int] = {}
    for task, first, _ in spans:
        starts.setdefault(task, first)
    seen = {name: starts.get(name, 0) for name in tasks if name in starts or not spans}
    parts = [tasks[name][0][tasks[name][0] >= start] for name, start in seen.items()]
    steps = np.unique(np.concatenate(parts)) if parts else np.empty(0, np.int64)
    total, count = np.zeros(len(steps)), np.zeros(len(steps))
    for name, start in seen.items():
        mine, scores = tasks[name]
        at = np.searchsorted(mine, steps, side="right") - 1
        known = (at >= 0) & (steps >= start)
        total[known] += scores[at[known]]
        count[known] += 1
    return steps[count > 0], total[count > 0] / count[count > 0]


def summarize_points(points: Points, stream: Stream) -> dict[str, Any]:
    """Return what the list shows of a run's points, and of the stream they make.

    Example:
        >>> from perdure.record import read_points
        >>> text = "step,trained,tested,score|1,a,a,0.9|2,b,a,0.2|2,b,b,0.5|"
        >>> points = read_points(text.replace("|", chr(10)), "p")
        >>> summarize_points(points, points.stream())["acc"]
        0.35
    """
    ended = points.last_finished_step()
    newest = np.full(len(points.names), np.nan)
    newest[points.tested] = points.score  # in order of step: the last one stays
    newest = newest[: len({task for task, _ in stream.spans})]  # learned tasks come first
    newest = newest[~np.isnan(newest)]
    done = {task for task, last in stream.spans if ended is not None and last <= ended}
    try:
        low = float(min_acc(stream))  # of scores whose larger ones are better
        worst: float | None = round(-low if points.scale.lower_is_better else low, 6)
    except (UndefinedMetricError, ValueError):
        worst = None
    return {
        "tasks": len(done),
        "step": int(points.step[-1]),
        "acc": round(float(np.mean(newest)), 6) if len(newest) else None,
        "min_acc": worst,
    }


def to_curve_message(view: RunCurves, tasks: int = 0) -> dict[str, Any]:
    """Return a view as plain data, thinned for the eye: the lowest and highest are true.

    Colours are those of a run with so many `tasks`, where that is known.
    """
    colours = task_colours(max(len(view.tasks), min(tasks, MAX_TASKS)))
    most = min(MAX_POINTS, MAX_TOTAL_POINTS // (len(view.tasks) + 1))
    return {
        "begun": view.begun,
        "rows": view.rows,
        "left_out": view.left_out,
        "tasks": [
            {
                "name": escape_name(name)[:200],
                "colour": colour,
                "dark": lighten_for_dark(colour),
                **_thin(curve, most),
            }
            for (name, curve), colour in zip(view.tasks.items(), colours, strict=False)
        ],
        "mean": _thin(view.mean, most),
        **_marks(view),
    }


def find_new_points(before: RunCurves, now: RunCurves) -> dict[str, Any] | None:
    """Return what `now` has more than `before`; None if it is not just longer."""
    names = list(now.tasks)
    if before.begun != now.begun or names[: len(before.tasks)] != list(before.tasks):
        return None
    curves = {}
    for number, name in enumerate(names):
        more = _more(before.tasks.get(name), now.tasks[name])
        if more is None or len(more["steps"]) > MAX_POINTS:  # so many come thinned
            return None
        if more["steps"]:
            curves[number] = more
    mean = _more(before.mean, now.mean)
    if mean is None or len(names) != len(before.tasks):  # a new task has a name and a colour
        return None
    return {
        "begun": now.begun, "since": before.rows, "rows": now.rows, "curves": curves, "mean": mean,
        **_marks(now),
    }  # fmt: skip


def _marks(view: RunCurves) -> dict[str, Any]:
    """Return the switches, and where each task did worst, tasks by number."""
    numbers = {name: number for number, name in enumerate(view.tasks)}
    return {
        "spans": [
            [numbers[task], first, last] for task, first, last in view.spans if task in numbers
        ],
        "lows": {numbers[task]: low for task, low in view.lows.items() if task in numbers},
    }


def _more(before: Curve | None, now: Curve) -> dict[str, Any] | None:
    old = 0 if before is None else len(before[0])
    if before is not None and not all(
        np.array_equal(mine[:old], theirs) for mine, theirs in zip(now, before, strict=True)
    ):
        return None
    return _plain((now[0][old:], now[1][old:]))


def _thin(curve: Curve, most: int) -> dict[str, Any]:
    kept = select_extremes(curve[1], most)
    return _plain((curve[0][kept], curve[1][kept]))


def _plain(curve: Curve) -> dict[str, Any]:
    return {"steps": curve[0].tolist(), "scores": curve[1].round(6).tolist()}


def choose_run_styles(strategies: dict[str, str]) -> dict[str, LineStyle]:
    """Return how runs are drawn beside each other, by each one's strategy.

    A strategy has its colour, runs of it differ in their dashes; of one only, in their colours.

    Example:
        >>> found = choose_run_styles({"a": "gem", "b": "naive", "c": "gem"})
        >>> found["a"], found["c"]
        (LineStyle(colour='#d55e00', dashes='solid'), LineStyle(colour='#d55e00', dashes='dashed'))
    """
    kinds = {kind: [_of(kind)] for kind in strategies.values()}
    if len(kinds) < 2:
        return choose_styles({name: [_of(kind)] for name, kind in strategies.items()})
    found, by_kind = {}, choose_styles(kinds)
    for kind, look in by_kind.items():
        first = DASHES.index(look.dashes)
        for k, name in enumerate(name for name, mine in strategies.items() if mine == kind):
            found[name] = look._replace(dashes=DASHES[(first + k) % len(DASHES)])
    return found


def _of(strategy: str) -> Run:
    return Run(metadata=RunMetadata(config={"strategy": strategy}))


def lighten_for_dark(colour: str) -> str:
    """Return a colour light enough to be seen on a dark ground.

    Example:
        >>> lighten_for_dark("#00224e"), lighten_for_dark("#c3b369")
        ('#7f90a6', '#c3b369')
    """
    parts = np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)], dtype=np.float64)
    if parts @ (0.299, 0.587, 0.114) < 80:
        parts += (255 - parts) / 2
    return "#" + "".join(f"{int(part):02x}" for part in parts)
