"""What the page's script draws: curves and criteria as plain lists, few points, true extremes."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from ...metrics import Undefined, min_acc
from ...metrics.criteria import CRITERIA
from ..bands import band, thinned
from ..colours import looks, task_colours

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from ...metrics import Stream
    from ...record import Source
    from ..opened import Methods

__all__ = ["criteria_drawn", "curves_drawn"]

MOST = 300  # points of a mean curve, all along it
NEAR = 240  # points beside them, all that there are after the switches: people zoom in there
BUDGET = 150_000  # points of all curves of single runs together: what a phone still draws


def curves_drawn(methods: Methods) -> dict[str, Any]:
    """Return every method's curves by task: the mean over runs with its SD, and each run's own.

    Example:
        >>> curves_drawn({})["methods"]
        []
    """
    streams = {
        name: [run.stream for run in runs if run.stream is not None and run.stream.names]
        for name, runs in methods.items()
    }
    streams = {name: several for name, several in streams.items() if several}
    tasks = list(dict.fromkeys(t for several in streams.values() for s in several for t in s.names))
    each = sum(len(stream.names) for several in streams.values() for stream in several)
    most = int(np.clip(BUDGET / max(each, 1), 60, 2 * MOST))
    shown = looks(methods)
    return {
        "tasks": tasks,
        "range": _range([stream for several in streams.values() for stream in several]),
        "colours": task_colours(len(tasks)),
        "methods": [
            {
                "name": name,
                "colour": shown[name].colour,
                "dash": shown[name].plotly,
                "runs": len(several),
                "switches": _switches(several),
                "tasks": {task: _task(several, methods[name], task) for task in several[0].names},
                "seeds": [_run(stream, most) for stream in several] if len(several) > 1 else [],
            }
            for name, several in streams.items()
        ],
    }


def _range(streams: Sequence[Stream]) -> list[float] | None:
    """Return where the scale of scores ends, None where it does not or scales differ."""
    ends = {(stream.scale.low, stream.scale.high) for stream in streams}
    return list(ends.pop()) if len(ends) == 1 and np.isfinite(list(ends)).all() else None


def _switches(streams: Sequence[Stream]) -> list[int]:
    """Return after which steps the task changed, where all runs agree."""
    found = {tuple(visit.last for visit in stream.visits[:-1]) for stream in streams}
    return list(found.pop()) if len(found) == 1 else []


def _task(streams: Sequence[Stream], runs: Sequence[Source], task: str) -> dict[str, Any]:
    found = band([stream.tasks[task] for stream in streams if task in stream.tasks])
    kept = _kept(found.steps, found.mean, _switches(streams))
    lows = [low for stream in streams if (low := _lowest(stream, task)) is not None]
    return {
        "x": found.steps[kept].tolist(),
        "y": _rounded(found.mean[kept]),
        "sd": _rounded(found.sd[kept]) if found.runs > 1 else [],
        "low": round(float(np.mean(lows)), 5) if len(lows) == len(streams) else None,
        "ends": _ends(streams, runs, task),
    }


def _kept(
    steps: NDArray[np.int64], mean: NDArray[np.float64], switches: Sequence[int]
) -> NDArray[np.intp]:
    """Return the places of the points to draw: true extremes, and whole the way into each dip."""
    starts = np.searchsorted(steps, switches, side="right")
    each = NEAR // max(len(switches), 1)
    near = [np.arange(start, min(start + each, len(steps))) for start in starts]
    return np.unique(np.concatenate([thinned(mean, MOST), *near]))


def _lowest(stream: Stream, task: str) -> float | None:
    """Return the task's lowest score after it was learned, as min_acc has it."""
    with suppress(Undefined):
        lows = min_acc(stream).per_task
        value = float(lows[stream.names.index(task)])
        return None if np.isnan(value) else float(stream.scale.larger_is_better(np.array(value)))
    return None


def _ends(streams: Sequence[Stream], runs: Sequence[Source], task: str) -> list[list[float]]:
    """Return step and mean score at the task ends: what evaluation at task ends alone shows."""
    matrices = [run.matrix for run in runs if run.matrix is not None and task in run.matrix.tasks]
    lasts = [visit.last for visit in streams[0].visits]
    shapes = {matrix.scores.shape for matrix in matrices}
    if len(matrices) != len(streams) or shapes != {(len(lasts), len(lasts))}:
        return []
    column = np.mean([m.scores[:, m.tasks.index(task)] for m in matrices], axis=0)
    known = [(last, score) for last, score in zip(lasts, column, strict=True) if score == score]
    return [[last, round(float(score), 5)] for last, score in known]


def _run(stream: Stream, most: int) -> dict[str, list[list[float]]]:
    shown = {}
    for task, (steps, scores) in stream.tasks.items():
        kept = thinned(scores, most)
        shown[task] = [steps[kept].tolist(), _rounded(scores[kept])]
    return shown


def _rounded(values: NDArray[np.float64]) -> list[float]:
    rounded: list[float] = np.round(values, 5).tolist()
    return rounded


def criteria_drawn(
    metrics: Mapping[str, Mapping[str, float]], methods: Methods
) -> dict[str, Any] | None:
    """Return the criteria of Díaz-Rodríguez et al. by method, None for fewer than 3.

    Example:
        >>> criteria_drawn({"er": {"acc.lower": 0.5}}, {"er": []}) is None
        True
    """
    known = {
        name: id_ for name, id_ in CRITERIA.items() if any(id_ in mine for mine in metrics.values())
    }
    if len(known) < 3:
        return None
    shown = looks(methods)
    return {
        "names": list(known),
        "methods": [
            {
                "name": name,
                "colour": shown[name].colour,
                "dash": shown[name].plotly,
                "values": [round(mine[id_], 5) if id_ in mine else None for id_ in known.values()],
            }
            for name, mine in metrics.items()
        ],
    }
