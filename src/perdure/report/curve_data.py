"""What curves are made of: for each method the scores on a task, its switches and its lows.

Tasks are counted by when they were learned, so that seeds and scenarios whose tasks have other
names can be drawn together.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..metrics import minimum_after
from ..metrics.functional.worst_case import first_ends
from ..record import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from ..metrics import ScoreScale, Stream
    from ..record import ScoreInput

    Curve = tuple[NDArray[np.int64], NDArray[np.float64]]  # steps, scores

__all__ = [
    "MeanCurve",
    "average_after_switch",
    "average_curves",
    "average_task",
    "axis_label",
    "explain_missing_stream",
    "find_switches",
    "first_learned_step",
    "get_streams",
    "mean_worst_score",
    "merge_names",
    "merge_scales",
    "require_one_scale",
    "scores_at_task_ends",
    "task_names",
    "visit_names",
    "worst_label",
]


class MeanCurve(NamedTuple):
    """A curve over runs: mean and sample SD (zero for one run) at the steps all of them have."""

    steps: NDArray[np.int64]
    mean: NDArray[np.float64]
    sd: NDArray[np.float64]
    runs: int


def average_curves(curves: Sequence[Curve]) -> MeanCurve:
    """Return mean and SD of several curves, at the steps that all of them have.

    Example:
        >>> one, two = ([1, 2, 3], [0.5, 0.6, 0.7]), ([2, 3], [0.8, 0.9])
        >>> found = average_curves([tuple(map(np.array, one)), tuple(map(np.array, two))])
        >>> found.steps, found.mean.round(2)
        (array([2, 3]), array([0.7, 0.8]))
    """
    if not curves:
        return MeanCurve(np.empty(0, np.int64), np.empty(0), np.empty(0), 0)
    steps = reduce(np.intersect1d, [steps for steps, _ in curves])
    values = np.array([scores[np.searchsorted(mine, steps)] for mine, scores in curves])
    sd = values.std(axis=0, ddof=1) if len(curves) > 1 else np.zeros(len(steps))
    return MeanCurve(steps, values.mean(axis=0), sd, len(curves))


def get_streams(name: str, runs: Sequence[ScoreInput], thin: int = 1) -> list[Stream]:
    """Return the stream of each run with every `thin`-th evaluation, or raise InputError.

    Example:
        >>> from perdure.metrics import Stream
        >>> from perdure.record import ScoreInput
        >>> run = ScoreInput(stream=Stream({"a": ([1, 2, 3], [0.5, 0.9, 0.2])}))
        >>> get_streams("mine", [run], thin=2)[0].grid
        array([2])
    """
    found = []
    for run in runs:
        if run.stream is None:
            raise InputError(f"{name}: {explain_missing_stream(run)}")
        if thin == 1:
            found.append(run.stream)
        else:  # from points as `perdure score --subsample`: the tests of whole sets stay
            points = run.points
            found.append(points.stream(thin=thin) if points else run.stream.subsample(thin))
    return found


def explain_missing_stream(run: ScoreInput) -> str:
    """Return why a run has no curves, nothing where it has them."""
    if run.stream is not None:
        return ""
    return (
        "no stream of evaluations, expected runs or a points.csv; a score matrix holds task ends "
        "only"
    )


def require_one_scale(streams: Iterable[Stream]) -> ScoreScale:
    """Return the scale that all streams share; InputError where they cannot stand on one axis."""
    scales = [stream.scale for stream in streams]
    if len({scale.lower_is_better for scale in scales}) > 1:
        raise InputError(
            "some scores are better higher and some lower, expected one kind; draw two"
        )
    return merge_scales(scales)


def merge_scales(scales: Sequence[ScoreScale]) -> ScoreScale:
    """Return the first of several scales, called score where they have different names."""
    labels = {scale.label for scale in scales}
    return scales[0] if len(labels) == 1 else replace(scales[0], name="score")


def axis_label(scale: ScoreScale) -> str:
    """Return what an axis of such scores is called.

    Example:
        >>> from perdure.metrics import ScoreScale
        >>> loss = ScoreScale(0, 9, lower_is_better=True, name="loss")
        >>> axis_label(ScoreScale()), axis_label(loss), axis_label(ScoreScale(percent=True))
        ('accuracy', 'loss (lower is better)', 'accuracy (%)')
    """
    remarks = ["%"] if scale.percent else []
    remarks += ["lower is better"] if scale.lower_is_better else []
    return f"{scale.label} ({', '.join(remarks)})" if remarks else scale.label


def worst_label(scale: ScoreScale) -> str:
    """Return what the worst score since a task was learned is called in a legend.

    Example:
        >>> from perdure.metrics import ScoreScale
        >>> loss = ScoreScale(0, 9, lower_is_better=True, name="loss")
        >>> worst_label(ScoreScale()), worst_label(loss)
        ('min-ACC', 'highest loss since learned')
    """
    name = scale.label
    return "min-ACC" if name == "accuracy" else f"{scale.worst} {name} since learned"


def task_names(streams: Sequence[Stream]) -> list[str]:
    """Return a name for the first, second, … task: their own where all streams agree.

    Example:
        >>> from perdure.metrics import Stream
        >>> one, two = (Stream({"-90": ([1], [0.5]), b: ([1], [0.5])}) for b in ("-80", "-60"))
        >>> task_names([one, two])
        ['-90', 'task no. 2']
    """
    return merge_names([stream.names for stream in streams])


def visit_names(streams: Sequence[Stream]) -> list[str]:
    """Return what was learned first, second, …: the task's name where all streams agree.

    Example:
        >>> from perdure.metrics import Stream
        >>> visit_names([Stream({"a": ([1, 2], [0.5, 0.6])}, [("a", 1), ("a", 2)])])
        ['a', 'a']
    """
    return merge_names([[visit.task for visit in stream.spans] for stream in streams])


def merge_names(several: Sequence[Sequence[str]]) -> list[str]:
    """Return the name at each place of several lists, its number where they do not agree.

    Example:
        >>> merge_names([["a", "b"], ["a", "c", "d"]])
        ['a', 'task no. 2', 'd']
    """
    count = max(map(len, several), default=0)
    called = [{names[k] for names in several if k < len(names)} for k in range(count)]
    return [
        min(names) if len(names) == 1 else f"task no. {k}"
        for k, names in enumerate(called, start=1)
    ]


def find_switches(streams: Iterable[Stream]) -> list[int]:
    """Return the steps after which another task began, in any of the streams.

    Example:
        >>> from perdure.metrics import Stream
        >>> scores = {"a": ([1, 4], [0.5, 0.9]), "b": ([4], [0.2])}
        >>> find_switches([Stream(scores, [("a", 2), ("b", 4)]), Stream(scores)])
        [2]
    """
    return sorted({last for stream in streams for _, last in stream.spans[:-1]})


def average_task(streams: Sequence[Stream], task: int) -> MeanCurve:
    """Return mean and SD of the scores on a task, at the steps at which all runs tested it.

    Example:
        >>> from perdure.metrics import Stream
        >>> runs = [Stream({"a": ([1, 2], [0.5, score])}) for score in (0.5, 0.75)]
        >>> average_task(runs, 0).mean
        array([0.5  , 0.625])
    """
    curves = [s.tasks[s.names[task]] for s in streams if task < len(s.names)]
    return _shared([curve for curve in curves if len(curve[0])])


def average_after_switch(streams: Sequence[Stream], task: int, switch: int, most: int) -> MeanCurve:
    """Return the scores on a task up to `most` iterations after a switch, which is step 0.

    Nothing from runs that had not learned the task by then; nothing of the task after the next.

    Example:
        >>> from perdure.metrics import Stream
        >>> stream = Stream({"a": ([1, 2, 3, 4], [0.5, 0.75, 0.25, 0.5])}, [("a", 2), ("a", 4)])
        >>> found = average_after_switch([stream], 0, 0, most=1)
        >>> found.steps, found.mean
        (array([0, 1]), array([0.75, 0.25]))
    """
    curves = []
    for stream in streams:
        if switch + 1 >= len(stream.spans) or task >= len(stream.names):
            continue
        name, start = stream.names[task], stream.spans[switch].last
        if name not in {visit.task for visit in stream.spans[: switch + 1]}:
            continue
        end = min(start + most, stream.spans[switch + 1].last)
        steps, scores = stream.tasks[name]
        inside = (steps >= start) & (steps <= end)
        if inside.any():
            curves.append((steps[inside] - start, scores[inside]))
    return _shared(curves)


def _shared(curves: list[tuple[NDArray[np.int64], NDArray[np.float64]]]) -> MeanCurve:
    found = average_curves(curves)
    if curves and not len(found.steps):
        raise InputError(
            "runs of one method were tested at different steps, expected shared ones; "
            "name methods apart: NAME=PATH"
        )
    return found


def first_learned_step(streams: Sequence[Stream], task: int) -> float:
    """Return the first step at which a run had learned a task; infinity where none did.

    Example:
        >>> from perdure.metrics import Stream
        >>> stream = Stream({"a": ([1, 2], [0.9, 0.25])}, spans=[("a", 2)])
        >>> first_learned_step([stream], 0), first_learned_step([stream], 1)
        (2, inf)
    """
    learned = [
        first_ends(stream)[1].get(stream.names[task], np.inf)
        for stream in streams
        if stream.spans and task < len(stream.names)
    ]
    return min(learned, default=np.inf)


def mean_worst_score(streams: Sequence[Stream], task: int) -> float:
    """Return the mean over runs of a task's worst score since it was learned, NaN for none.

    As in min-ACC: the task learned last takes no part, and the score at its end does not count.

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
    found = [low for low in lows if not np.isnan(low)]
    return float(np.mean(found)) if found else float("nan")


def scores_at_task_ends(
    runs: Sequence[ScoreInput], task: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the steps at which tasks ended and the score on one of them then: the means over runs.

    Example:
        >>> from perdure.metrics import ScoreMatrix, Stream
        >>> from perdure.record import ScoreInput
        >>> stream = Stream({"a": ([2, 4], [0.9, 0.5]), "b": ([4], [0.8])}, [("a", 2), ("b", 4)])
        >>> scores_at_task_ends([ScoreInput(ScoreMatrix([[0.9, 0.1], [0.5, 0.8]]), stream)], 0)
        (array([2., 4.]), array([0.9, 0.5]))
    """
    known = [
        ([visit.last for visit in run.stream.spans], run.matrix.scores[:, task])
        for run in runs
        if run.matrix is not None and run.stream is not None and task < len(run.matrix.tasks)
    ]
    if not known or len({len(steps) for steps, _ in known}) > 1:
        return np.empty(0), np.empty(0)  # unfinished beside finished: no row is all runs'
    steps, scores = (np.mean(part, axis=0) for part in zip(*known, strict=True))
    tested = ~np.isnan(scores)
    return steps[tested], scores[tested]
