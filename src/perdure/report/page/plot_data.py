"""What the page's script draws: curves and criteria as plain lists, few points, true extremes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..._html import extremes as thinned
from ...metrics.criteria import CRITERIA
from ..colours import choose_styles, task_colours
from ..curve_data import (
    average_curves,
    find_switches,
    mean_worst_score,
    scores_at_task_ends,
    task_names,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from ...metrics import Stream
    from ...record import ScoreInput
    from ..load import RunsByMethod

__all__ = ["make_criteria_data", "make_curve_data"]

MOST = 300  # points of a mean curve, all along it
NEAR = 240  # points beside them, all that there are after the switches: people zoom in there
BUDGET = 150_000  # points of all curves of single runs together: what a phone still draws


def make_curve_data(methods: RunsByMethod) -> dict[str, Any]:
    """Return every method's curves by task: the mean over runs with its SD, and each run's own.

    Tasks are places, as in `tracks`: the first that is learned stands first, whatever its name.

    Example:
        >>> make_curve_data({})["methods"]
        []
    """
    told = {
        name: [run for run in runs if run.stream is not None and run.stream.names]
        for name, runs in methods.items()
    }
    streams = {name: [run.stream for run in runs if run.stream] for name, runs in told.items()}
    streams = {name: several for name, several in streams.items() if several}
    every = [stream for several in streams.values() for stream in several]
    tasks = task_names(every)
    each = sum(len(stream.names) for stream in every)
    most = int(np.clip(BUDGET / max(each, 1), 60, 2 * MOST))
    shown = choose_styles(methods)
    return {
        "tasks": tasks,
        "range": _range(every),
        "colours": task_colours(len(tasks)),
        "methods": [
            {
                "name": name,
                "colour": shown[name].colour,
                "dash": shown[name].plotly,
                "runs": len(several),
                "switches": find_switches(several),
                "names": task_names(several),
                "tasks": [_task(several, told[name], k) for k in range(len(several[0].names))],
                "seeds": [_run(stream, most) for stream in several] if len(several) > 1 else [],
            }
            for name, several in streams.items()
        ],
    }


def _range(streams: Sequence[Stream]) -> list[float] | None:
    """Return where the scale of scores ends, None where it does not or scales differ."""
    ends = {(stream.scale.low, stream.scale.high) for stream in streams}
    return list(ends.pop()) if len(ends) == 1 and np.isfinite(list(ends)).all() else None


def _task(streams: Sequence[Stream], runs: Sequence[ScoreInput], task: int) -> dict[str, Any]:
    found = average_curves([s.tasks[s.names[task]] for s in streams if task < len(s.names)])
    kept = _kept(found.steps, found.mean, find_switches(streams))
    low = mean_worst_score(streams, task)
    steps, scores = scores_at_task_ends(runs, task)
    return {
        "x": found.steps[kept].tolist(),
        "y": _rounded(found.mean[kept]),
        "sd": _rounded(found.sd[kept]) if found.runs > 1 else [],
        "low": None if np.isnan(low) else round(low, 5),
        "ends": np.column_stack([steps, _rounded(scores)]).tolist(),
    }


def _kept(
    steps: NDArray[np.int64], mean: NDArray[np.float64], after: Sequence[int]
) -> NDArray[np.intp]:
    """Return the places of the points to draw: true extremes, and whole the way into each dip."""
    starts = np.searchsorted(steps, after, side="right")
    each = NEAR // max(len(after), 1)
    near = [np.arange(start, min(start + each, len(steps))) for start in starts if each]
    return np.unique(np.concatenate([thinned(mean, MOST), *near]))


def _run(stream: Stream, most: int) -> list[list[list[float]]]:
    shown = []
    for steps, scores in map(stream.tasks.__getitem__, stream.names):
        kept = thinned(scores, most)
        shown.append([steps[kept].tolist(), _rounded(scores[kept])])
    return shown


def _rounded(values: NDArray[np.float64]) -> list[float]:
    rounded: list[float] = np.round(values, 5).tolist()
    return rounded


def make_criteria_data(
    metrics: Mapping[str, Mapping[str, float]], methods: RunsByMethod
) -> dict[str, Any] | None:
    """Return the criteria of Díaz-Rodríguez et al. by method, None for fewer than 3.

    Example:
        >>> make_criteria_data({"er": {"acc.lower": 0.5}}, {"er": []}) is None
        True
    """
    known = {
        name: id_ for name, id_ in CRITERIA.items() if any(id_ in mine for mine in metrics.values())
    }
    if len(known) < 3:
        return None
    shown = choose_styles(methods)
    return {
        "names": list(known),
        "undefined": [name for name in CRITERIA if name not in known],
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
