"""Intervals of the extremes of a stream from per-example results, or bounds on their bias.

The lowest of many noisy accuracies lies below the lowest true one, and the largest drop above
the largest true one; the more evaluations, the larger the bias. The two ends of an interval are
therefore computed differently:

- the end away from the bias (low end of a minimum, high end of a drop) treats the observed extreme
  as if its step had been fixed in advance, which can only make the interval wider;
- the end towards the bias resamples examples, the same resample at every step, and takes the
  extreme of the resampling errors over all steps within a few standard errors of the observed
  one (a directional bootstrap: Fang & Santos 2019).

Over tasks, resampling errors are added, and half-widths are added in squares. `docs/intervals.md`
has the coverage, measured on simulated streams.
"""

from __future__ import annotations

from functools import lru_cache
from math import log, sqrt
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..stats import clopper_pearson_interval, drop_bias, minimum_biases, normal_quantile
from .functional.common import UndefinedMetricError
from .functional.learning import trailing_max
from .functional.worst_case import first_ends
from .registry import parse_id

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from .stream import PerExample, Stream

__all__ = ["extreme_intervals", "interval_of_drop", "interval_of_minimum", "selection_bias"]

MAX_ENTRIES = 1 << 22  # of a temporary array
ACCURACY_TOLERANCE = 1e-12  # of equal accuracies


class _TaskExtreme(NamedTuple):
    """The extreme of one task, its half-widths and its resampling errors."""

    value: float
    away: float  # half-width on the side away from the bias
    extra: float  # added towards the bias, where few right answers make resampling too narrow
    errors: NDArray[np.float64]


def interval_of_minimum(
    tasks: Sequence[PerExample], *, level: float = 0.95, resamples: int = 1000, seed: int = 0
) -> tuple[float, float]:
    """Return an interval of the mean over tasks of their lowest true accuracy.

    A task with a single evaluation counts with its accuracy, as the current task in wc_acc.

    Example:
        >>> from perdure.metrics import PerExample
        >>> rng = np.random.default_rng(0)
        >>> results = PerExample.pack(range(50), rng.random((50, 400)) < 0.9)
        >>> low, high = interval_of_minimum([results])
        >>> low < 0.9 < high
        True
    """
    weights = _resample_weights([task.examples for task in tasks], resamples, seed)
    parts = [_task_minimum(task, level, own) for task, own in zip(tasks, weights, strict=True)]
    value = sum(part.value for part in parts) / len(parts)
    errors = sum(part.errors for part in parts) / len(parts)
    low = value - _mean_half_width([part.away for part in parts])
    high = (
        value
        - np.quantile(errors, (1 - level) / 2)
        + _mean_half_width([part.extra for part in parts])
    )
    return max(float(low), 0.0), min(float(high), 1.0)


def interval_of_drop(
    tasks: Sequence[PerExample],
    window: int | None,
    *,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> tuple[float, float]:
    """Return an interval of the mean over tasks of their largest true drop in a window.

    Example:
        >>> from perdure.metrics import PerExample
        >>> rng = np.random.default_rng(0)
        >>> results = PerExample.pack(range(50), rng.random((50, 400)) < 0.9)
        >>> interval_of_drop([results], window=10)[0]
        0.0
    """
    weights = _resample_weights([task.examples for task in tasks], resamples, seed)
    parts = [_task_drop(task, window, level, own) for task, own in zip(tasks, weights, strict=True)]
    value = sum(part.value for part in parts) / len(parts)
    errors = sum(part.errors for part in parts) / len(parts)
    bias = float(np.mean(errors))
    spread = float(np.quantile(errors, (1 + level) / 2)) - bias
    low = value - bias - sqrt(spread**2 + _mean_half_width([part.extra for part in parts]) ** 2)
    high = value + _mean_half_width([part.away for part in parts])
    return max(low, 0.0), min(high, 1.0)


def _task_minimum(task: PerExample, level: float, excess: NDArray[np.float32]) -> _TaskExtreme:
    steps, n = task.shape
    accuracy = task.accuracy()
    lowest_row = int(accuracy.argmin())
    value = float(accuracy[lowest_row])
    slack = sqrt(2 * log(steps)) * _paired_errors(task, accuracy, lowest_row)
    near = np.flatnonzero(accuracy - slack <= value + ACCURACY_TOLERANCE)
    errors = np.full(excess.shape[1], np.inf, dtype=np.float32)
    for rows in _blocks(near, n + excess.shape[1]):
        np.minimum(errors, (task[rows].astype(np.float32) @ excess).min(axis=0), out=errors)
    normal = normal_quantile(level) * sqrt(value * (1 - value) / n)
    low, high = clopper_pearson_interval(round(value * n), n, level=level)
    away = max(value - low, normal)
    return _TaskExtreme(value, away, max(high - value - normal, 0.0), errors.astype(np.float64))


def _task_drop(
    task: PerExample, window: int | None, level: float, excess: NDArray[np.float32]
) -> _TaskExtreme:
    steps, n = task.shape
    accuracy = task.accuracy()
    drops = trailing_max(accuracy, window) - accuracy
    end = int(drops.argmax())
    first = 0 if window is None else max(0, end - window + 1)
    start = first + int(accuracy[first : end + 1].argmax())
    value = float(drops[end])
    # A pair is near if both its steps are within the slack, hence the smaller factor.
    slack = 0.8 * sqrt(log(steps))
    highest = accuracy + slack * _paired_errors(task, accuracy, start)
    lowest = accuracy - slack * _paired_errors(task, accuracy, end)
    ends = trailing_max(highest, window) - lowest >= value - ACCURACY_TOLERANCE
    starts = highest + trailing_max(-lowest[::-1], window)[::-1] >= value - ACCURACY_TOLERANCE
    errors = _largest_drops(task, starts, ends, window, excess)
    z = normal_quantile(level)
    variance = float(task.changed(start)[end]) - value**2
    away = z * sqrt(max(variance, 0.0) / n + (z / n) ** 2)
    return _TaskExtreme(value, away, z * z / n, errors)


def _largest_drops(
    task: PerExample,
    starts: NDArray[np.bool_],
    ends: NDArray[np.bool_],
    window: int | None,
    excess: NDArray[np.float32],
) -> NDArray[np.float64]:
    """Return for each resample the largest drop of the error from `starts` to `ends`."""
    rows = np.flatnonzero(starts | ends)
    largest = []
    width = max(1, MAX_ENTRIES // len(task))  # resamples at a time
    for first in range(0, excess.shape[1], width):
        columns = excess[:, first : first + width]
        errors = np.concatenate(
            [task[part].astype(np.float32) @ columns for part in _blocks(rows, task.examples)]
        )
        peaks = np.full((len(task), columns.shape[1]), -np.inf, dtype=np.float32)
        peaks[rows[starts[rows]]] = errors[starts[rows]]
        reached = trailing_max(peaks, window, axis=0)[rows[ends[rows]]]
        largest.append((reached - errors[ends[rows]]).max(axis=0))
    return np.concatenate(largest).astype(np.float64)


def _paired_errors(
    task: PerExample, accuracy: NDArray[np.float64], row: int
) -> NDArray[np.float64]:
    """Return the standard errors of the accuracies minus that of evaluation `row`."""
    variance = task.changed(row) - (accuracy - accuracy[row]) ** 2
    errors: NDArray[np.float64] = np.sqrt(np.maximum(variance, 0.0) / task.examples)
    return errors


def _resample_weights(
    sizes: Sequence[int], resamples: int, seed: int
) -> Iterator[NDArray[np.float32]]:
    """Yield for tasks of these sizes what each resample adds to the weight 1 / n of an example.

    Rows are examples, columns resamples.
    """
    for k, n in enumerate(sizes, 1):
        counts, _ = _resample(tuple(sizes[:k]), resamples, seed)
        yield ((counts.astype(np.float64) - 1) / n).astype(np.float32)


@lru_cache(maxsize=16)  # the same for every metric, and for all runs with as many examples
def _resample(
    sizes: tuple[int, ...], resamples: int, seed: int
) -> tuple[NDArray[np.uint16], Mapping[str, object]]:
    """Return how often each resample draws each example of the last task, and the random state.

    The tasks before are drawn before.
    """
    *before, n = sizes
    rng = np.random.default_rng(seed)
    if before:
        rng.bit_generator.state = _resample(tuple(before), resamples, seed)[1]
    counts = np.empty((n, resamples), dtype=np.uint16)
    probabilities = np.full(n, 1 / n)
    for first in range(0, resamples, 100):  # bounds the memory
        columns = counts[:, first : first + 100]
        columns[:] = rng.multinomial(n, probabilities, size=columns.shape[1]).T
    return counts, rng.bit_generator.state


def _blocks(rows: NDArray[np.intp], width: int) -> Iterator[NDArray[np.intp]]:
    size = max(1, MAX_ENTRIES // width)
    return (rows[first : first + size] for first in range(0, len(rows), size))


def _mean_half_width(values: Sequence[float]) -> float:
    """Return the half-width of a mean over independent tasks."""
    return float(np.linalg.norm(values)) / len(values)


def extreme_intervals(
    stream: Stream,
    per_example: Mapping[str, PerExample],
    ids: Sequence[str],
    *,
    level: float = 0.95,
) -> tuple[dict[str, tuple[float, float]], str | None]:
    """Return intervals of min_acc, wc_acc and wf among `ids`, and why one of them has none.

    An interval needs per-example results of every task that is part of the metric.

    Example:
        >>> from perdure.metrics import PerExample, Stream
        >>> results = PerExample.pack([1, 2], [[True] * 8, [True] * 4 + [False] * 4])
        >>> stream = Stream({"a": (results.steps, results.accuracy())})
        >>> intervals, _ = extreme_intervals(stream, {"a": results}, ["wf10"])
        >>> [round(end, 2) for end in intervals["wf10"]]
        [0.0, 1.0]
    """
    intervals: dict[str, tuple[float, float]] = {}
    reason = None
    for id_ in ids:
        base, arguments = parse_id(id_)
        try:
            if base == "wf":
                names = [task for task, (steps, _) in stream.tasks.items() if len(steps)]
                tasks = [_results_of(task, per_example) for task in names]
                intervals[id_] = interval_of_drop(tasks, arguments["window"], level=level)
            else:
                tasks = _results_after_learning(stream, per_example)
                if base == "wc_acc":
                    current = _results_of(stream.spans[-1].task, per_example)
                    tasks.append(current.after(int(current.steps[-1]) - 1))
                intervals[id_] = interval_of_minimum(tasks, level=level)
        except UndefinedMetricError as undefined:
            reason = str(undefined)
    return intervals, reason


def selection_bias(stream: Stream, ids: Sequence[str]) -> dict[str, float]:
    """Return a bound on the bias of each extreme in `ids`, from the numbers of examples.

    See `minimum_bias` and `drop_bias`. A metric with a task whose number of examples is unknown has
    none.

    Example:
        >>> from perdure.metrics import Stream
        >>> stream = Stream({"a": ([1, 2], [0.5, 0.5])}, sizes={"a": 100})
        >>> round(selection_bias(stream, ["wf10"])["wf10"], 3)
        0.083
    """
    bounds = {}
    minima = _minimum_biases(stream) if {"min_acc", "wc_acc"} & set(ids) else []
    for id_ in ids:
        base, arguments = parse_id(id_)
        biases, share = minima, 1.0
        if base == "wf":
            biases = [
                drop_bias(len(steps), stream.sizes.get(task), arguments["window"])
                for task, (steps, _) in stream.tasks.items()
                if len(steps)
            ]
        elif base == "wc_acc":
            share = len(minima) / (len(minima) + 1)
        known = [bias for bias in biases if bias is not None]
        if known and len(known) == len(biases):
            bounds[id_] = share * sum(known) / len(known)
    return bounds


def _minimum_biases(stream: Stream) -> list[float | None]:
    """Return `minimum_bias` of each task left behind, None where its size is unknown."""
    older = _tasks_left_behind(stream)
    biases: dict[str, float | None] = {task: None for task, _ in older}
    by_size: dict[int, dict[str, NDArray[np.float64]]] = {}
    for task, end in older:
        if task in stream.sizes:
            steps, scores = stream.tasks[task]
            later = scores[np.searchsorted(steps, end, side="right") :]
            by_size.setdefault(stream.sizes[task], {})[task] = later
    for n, tasks in by_size.items():
        lows = [float(later.min()) for later in tasks.values()]
        bounds = minimum_biases(lows, n, [len(later) for later in tasks.values()])
        biases |= dict(zip(tasks, bounds, strict=True))
    return list(biases.values())


def _tasks_left_behind(stream: Stream) -> list[tuple[str, int]]:
    """Return the tasks that are no longer learned, with the end of their first span."""
    current, ends = first_ends(stream)
    return [(task, end) for task, end in ends.items() if task != current]


def _results_after_learning(
    stream: Stream, per_example: Mapping[str, PerExample]
) -> list[PerExample]:
    tasks = [_results_of(task, per_example).after(end) for task, end in _tasks_left_behind(stream)]
    if not all(map(len, tasks)):
        raise UndefinedMetricError("no per-example results after a task was learned")
    return tasks


def _results_of(task: str, per_example: Mapping[str, PerExample]) -> PerExample:
    if task not in per_example:
        raise UndefinedMetricError(f"no per-example results of task {task!r}")
    return per_example[task]
