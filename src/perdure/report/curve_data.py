"""Data of curves: scores per task averaged over runs, task switches, worst scores, task ends.

Tasks are numbered in the order they were learned, so that seeds and scenarios whose tasks have
different names can be drawn together.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..metrics import minimum_after
from ..metrics.functional.worst_case import first_ends
from ..record import InputError
from .labels import control_label, is_control

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from ..metrics import Stream
    from ..record import ScoreInput

    Curve = tuple[NDArray[np.int64], NDArray[np.float64]]  # steps, scores

__all__ = [
    "MeanCurve",
    "add_control",
    "average_after_switch",
    "average_curves",
    "average_task",
    "curves_since_learned",
    "explain_missing_stream",
    "find_switches",
    "first_learned_step",
    "get_streams",
    "mean_worst_score",
    "scores_at_task_ends",
]


class MeanCurve(NamedTuple):
    """Mean and sample SD (zero for one run) of runs at the steps that all of them have."""

    steps: NDArray[np.int64]
    mean: NDArray[np.float64]
    sd: NDArray[np.float64]
    runs: int


def average_curves(curves: Sequence[Curve]) -> MeanCurve:
    """Return the mean and SD of several curves at the steps that all of them have.

    Example:
        >>> one, two = ([1, 2, 3], [0.5, 0.6, 0.7]), ([2, 3], [0.8, 0.9])
        >>> curve = average_curves([tuple(map(np.array, one)), tuple(map(np.array, two))])
        >>> curve.steps, curve.mean.round(2)
        (array([2, 3]), array([0.7, 0.8]))
    """
    if not curves:
        return MeanCurve(np.empty(0, np.int64), np.empty(0), np.empty(0), 0)
    steps = reduce(np.intersect1d, [steps for steps, _ in curves])
    values = np.array([scores[np.searchsorted(own, steps)] for own, scores in curves])
    sd = values.std(axis=0, ddof=1) if len(curves) > 1 else np.zeros(len(steps))
    return MeanCurve(steps, values.mean(axis=0), sd, len(curves))


def get_streams(name: str, runs: Sequence[ScoreInput], subsample: int = 1) -> list[Stream]:
    """Return the stream of each run with every `subsample`-th evaluation, or raise InputError.

    Example:
        >>> from perdure.metrics import Stream
        >>> from perdure.record import ScoreInput
        >>> run = ScoreInput(stream=Stream({"a": ([1, 2, 3], [0.5, 0.9, 0.2])}))
        >>> get_streams("mine", [run], subsample=2)[0].grid
        array([2])
    """
    streams = []
    for run in runs:
        if run.stream is None:
            raise InputError(f"{name}: {explain_missing_stream(run)}")
        streams.append(add_control(run, run.stream, subsample))
    return streams


def add_control(run: ScoreInput, stream: Stream, subsample: int = 1) -> Stream:
    """Return every n-th evaluation of a run's stream, with its control tasks as the last ones.

    The curve of a control task starts with its score before training, at step 0.
    """
    if subsample > 1:  # points keep the evaluations on whole test sets, as `perdure score` does
        stream = (
            run.points.stream(subsample=subsample) if run.points else stream.subsample(subsample)
        )
    if run.points is None or run.control is None:
        return stream
    control = run.points.stream(subsample=subsample, control=True)
    tasks = dict(stream.tasks)
    for name, initial in zip(run.control.tasks, run.control.initial, strict=True):
        steps, scores = control.tasks.get(name, (np.empty(0, np.int64), np.empty(0)))
        if not np.isnan(initial):
            after = steps > 0
            steps, scores = np.append(0, steps[after]), np.append(initial, scores[after])
        tasks[control_label(name)] = (steps, scores)
    return replace(stream, tasks=tasks)


def explain_missing_stream(run: ScoreInput) -> str:
    """Return why a run has no curves, an empty string if it has them."""
    if run.stream is not None:
        return ""
    return (
        "no stream of evaluations, expected runs or a points.csv; a score matrix holds task ends "
        "only"
    )


def find_switches(streams: Iterable[Stream]) -> list[int]:
    """Return the steps after which another task began in any of the streams.

    Example:
        >>> from perdure.metrics import Stream
        >>> scores = {"a": ([1, 4], [0.5, 0.9]), "b": ([4], [0.2])}
        >>> find_switches([Stream(scores, [("a", 2), ("b", 4)]), Stream(scores)])
        [2]
    """
    return sorted({last for stream in streams for _, last in stream.spans[:-1]})


def average_task(streams: Sequence[Stream], task: int) -> MeanCurve:
    """Return the mean and SD of the scores on a task at the steps where all runs evaluated it.

    Example:
        >>> from perdure.metrics import Stream
        >>> runs = [Stream({"a": ([1, 2], [0.5, score])}) for score in (0.5, 0.75)]
        >>> average_task(runs, 0).mean
        array([0.5  , 0.625])
    """
    curves = [s.tasks[s.names[task]] for s in streams if task < len(s.names)]
    return _average_shared([curve for curve in curves if len(curve[0])])


def average_after_switch(streams: Sequence[Stream], task: int, switch: int, most: int) -> MeanCurve:
    """Return the scores on a task up to `most` iterations after a switch, which is step 0.

    Runs that had not learned the task by then are left out, and so is everything after the next
    switch.

    Example:
        >>> from perdure.metrics import Stream
        >>> stream = Stream({"a": ([1, 2, 3, 4], [0.5, 0.75, 0.25, 0.5])}, [("a", 2), ("a", 4)])
        >>> curve = average_after_switch([stream], 0, 0, most=1)
        >>> curve.steps, curve.mean
        (array([0, 1]), array([0.75, 0.25]))
    """
    curves = []
    for stream in streams:
        if switch + 1 >= len(stream.spans) or task >= len(stream.names):
            continue
        name, start = stream.names[task], stream.spans[switch].last
        if name not in {span.task for span in stream.spans[: switch + 1]}:
            continue
        end = min(start + most, stream.spans[switch + 1].last)
        steps, scores = stream.tasks[name]
        inside = (steps >= start) & (steps <= end)
        if inside.any():
            curves.append((steps[inside] - start, scores[inside]))
    return _average_shared(curves)


def _average_shared(curves: list[Curve]) -> MeanCurve:
    average = average_curves(curves)
    if curves and not len(average.steps):
        raise InputError(
            "runs of one method were evaluated at different steps, expected the same steps; "
            "give each run its own name: NAME=PATH"
        )
    return average


def first_learned_step(streams: Sequence[Stream], task: int) -> float:
    """Return the first step at which a run had learned a task; infinity if none did.

    A control task counts from the start.

    Example:
        >>> from perdure.metrics import Stream
        >>> stream = Stream({"a": ([1, 2], [0.9, 0.25])}, spans=[("a", 2)])
        >>> first_learned_step([stream], 0), first_learned_step([stream], 1)
        (2, inf)
    """
    learned = [
        0
        if is_control(stream.names[task])
        else first_ends(stream)[1].get(stream.names[task], np.inf)
        for stream in streams
        if stream.spans and task < len(stream.names)
    ]
    return min(learned, default=np.inf)


def curves_since_learned(
    methods: Mapping[str, Sequence[Stream]], tasks: int
) -> list[dict[str, Curve]]:
    """Return per task the mean curve of each method since a run had learned it: all start alike.

    Example:
        >>> from perdure.metrics import Stream
        >>> stream = Stream({"a": ([1, 2, 3], [0.1, 0.9, 0.25])}, spans=[("a", 2), ("a", 3)])
        >>> curves_since_learned({"er": [stream]}, 1)[0]["er"][1]
        array([0.9 , 0.25])
    """
    panels: list[dict[str, Curve]] = []
    for task in range(tasks):
        curves: dict[str, Curve] = {}
        for name, streams in methods.items():
            curve = average_task(streams, task)
            since = curve.steps >= first_learned_step(streams, task)
            curves[name] = (curve.steps[since], curve.mean[since])
        panels.append(curves)
    return panels


def mean_worst_score(streams: Sequence[Stream], task: int) -> float:
    """Return the mean over runs of a task's worst score since it was learned; NaN if undefined.

    As in min-ACC, the task learned last is excluded, and so is the score at the end of learning.

    Example:
        >>> from perdure.metrics import Stream
        >>> stream = Stream({"a": ([1, 2, 3], [0.9, 0.25, 0.5]), "b": ([3], [0.5])},
        ...                 spans=[("a", 1), ("b", 3)])
        >>> mean_worst_score([stream], 0), mean_worst_score([stream], 1)
        (0.25, nan)
    """
    lows = []
    for stream in streams:
        name = stream.names[task] if task < len(stream.names) else ""
        last, ends = first_ends(stream) if stream.spans else ("", {})
        if name in ends and name != last:
            low = minimum_after(stream.tasks[name][0], stream.higher_is_better(name), ends[name])
            lows.append(float(stream.scale.higher_is_better(np.array(low))))
    defined = [low for low in lows if not np.isnan(low)]
    return float(np.mean(defined)) if defined else float("nan")


def scores_at_task_ends(
    runs: Sequence[ScoreInput], task: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the steps at which tasks ended and the score on one task then, averaged over runs.

    Example:
        >>> from perdure.metrics import ScoreMatrix, Stream
        >>> from perdure.record import ScoreInput
        >>> stream = Stream({"a": ([2, 4], [0.9, 0.5]), "b": ([4], [0.8])}, [("a", 2), ("b", 4)])
        >>> scores_at_task_ends([ScoreInput(ScoreMatrix([[0.9, 0.1], [0.5, 0.8]]), stream)], 0)
        (array([2., 4.]), array([0.9, 0.5]))
    """
    known = []
    for run in runs:
        if run.matrix is None or run.stream is None:
            continue
        ends, column = [visit.last for visit in run.stream.spans], task - len(run.stream.names)
        if task < len(run.matrix.tasks):
            known.append((ends, run.matrix.scores[:, task]))
        elif run.control is not None and 0 <= column < len(run.control.tasks):
            known.append((ends, run.control.scores[:, column]))
    if not known or len({len(steps) for steps, _ in known}) > 1:
        return np.empty(0), np.empty(0)  # unfinished next to finished runs share no row
    steps, scores = (np.mean(part, axis=0) for part in zip(*known, strict=True))
    tested = ~np.isnan(scores)
    return steps[tested], scores[tested]
