"""Intervals of a minimum and of a largest drop, from which examples were right when.

The lowest of many noisy accuracies lies below the lowest true one, and the largest drop above
the largest true one, the more so the more evaluations compete. The two ends of an interval are
therefore made differently:

- the end away from the bias (low end of a minimum, high end of a drop) takes the observed extreme
  as if its step had been named in advance, which can only put the end too far out;
- the end towards the bias resamples examples, the same resample at every step, and takes the
  extreme of the resampling errors over all steps within a few standard errors of the observed
  one (a directional bootstrap: Fang & Santos, 2019).

Over tasks, resampling errors add up as they are, half-widths in squares. `docs/intervals.md` has
the coverage, measured on streams with known truth.
"""

from __future__ import annotations

from math import log, sqrt
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...stats import clopper_pearson_interval, normal_quantile
from ..functional.windows import trailing_max

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from ..per_example import PerExample

__all__ = ["interval_of_drop", "interval_of_minimum"]

CELLS = 1 << 22  # entries of the largest temporary array
TIE = 1e-12


class _Ends(NamedTuple):
    """One task's part: its observed extreme, what lies beyond it, and its resampling errors."""

    value: float
    away: float  # half-width away from the bias
    extra: float  # added towards the bias where few hits make resampling too sure
    errors: NDArray[np.float64]


def interval_of_minimum(
    tasks: Sequence[PerExample], *, level: float = 0.95, resamples: int = 1000, seed: int = 0
) -> tuple[float, float]:
    """Return an interval of the mean over tasks of each one's lowest true accuracy.

    A task with a single evaluation stands for its accuracy, as the current task in wc_acc does.

    Example:
        >>> from perdure.metrics import PerExample
        >>> rng = np.random.default_rng(0)
        >>> results = PerExample.pack(range(50), rng.random((50, 400)) < 0.9)
        >>> low, high = interval_of_minimum([results])
        >>> low < 0.9 < high
        True
    """
    rng = np.random.default_rng(seed)
    parts = [_minimum(task, level, resamples, rng) for task in tasks]
    value = sum(part.value for part in parts) / len(parts)
    errors = sum(part.errors for part in parts) / len(parts)
    low = value - _norm([part.away for part in parts])
    high = value - np.quantile(errors, (1 - level) / 2) + _norm([part.extra for part in parts])
    return max(float(low), 0.0), min(float(high), 1.0)


def interval_of_drop(
    tasks: Sequence[PerExample],
    window: int | None,
    *,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> tuple[float, float]:
    """Return an interval of the mean over tasks of each one's largest true drop in a window.

    Example:
        >>> from perdure.metrics import PerExample
        >>> rng = np.random.default_rng(0)
        >>> hits = PerExample.pack(range(50), rng.random((50, 400)) < 0.9)
        >>> interval_of_drop([hits], window=10)[0]
        0.0
    """
    rng = np.random.default_rng(seed)
    parts = [_drop(task, window, level, resamples, rng) for task in tasks]
    value = sum(part.value for part in parts) / len(parts)
    errors = sum(part.errors for part in parts) / len(parts)
    bias = float(np.mean(errors))
    spread = float(np.quantile(errors, (1 + level) / 2)) - bias
    low = value - bias - sqrt(spread**2 + _norm([part.extra for part in parts]) ** 2)
    high = value + _norm([part.away for part in parts])
    return max(low, 0.0), min(high, 1.0)


def _minimum(task: PerExample, level: float, resamples: int, rng: np.random.Generator) -> _Ends:
    steps, n = task.shape
    accuracy = task.accuracy()
    at = int(accuracy.argmin())
    value = float(accuracy[at])
    slack = sqrt(2 * log(steps)) * _paired_errors(task, accuracy, at)
    near = np.flatnonzero(accuracy - slack <= value + TIE)
    lowest = np.full(resamples, np.inf, dtype=np.float32)
    excess = _excess(n, resamples, rng)
    for rows in _blocks(near, n + resamples):
        np.minimum(lowest, (task[rows].astype(np.float32) @ excess).min(axis=0), out=lowest)
    normal = normal_quantile(level) * sqrt(value * (1 - value) / n)
    low, high = clopper_pearson_interval(round(value * n), n, level=level)
    away = max(value - low, normal)
    return _Ends(value, away, max(high - value - normal, 0.0), lowest.astype(np.float64))


def _drop(
    task: PerExample, window: int | None, level: float, resamples: int, rng: np.random.Generator
) -> _Ends:
    steps, n = task.shape
    accuracy = task.accuracy()
    fall = trailing_max(accuracy, window) - accuracy
    end = int(fall.argmax())
    first = 0 if window is None else max(0, end - window + 1)
    start = first + int(accuracy[first : end + 1].argmax())
    value = float(fall[end])
    # A pair is near if it is within the slack of both its steps, hence the smaller factor.
    slack = 0.8 * sqrt(log(steps))
    highest = accuracy + slack * _paired_errors(task, accuracy, start)
    lowest = accuracy - slack * _paired_errors(task, accuracy, end)
    ends = trailing_max(highest, window) - lowest >= value - TIE
    starts = highest + trailing_max(-lowest[::-1], window)[::-1] >= value - TIE
    errors = _largest_drops(task, starts, ends, window, _excess(n, resamples, rng))
    z = normal_quantile(level)
    variance = float(task.changed(start)[end]) - value**2
    away = z * sqrt(max(variance, 0.0) / n + (z / n) ** 2)
    return _Ends(value, away, z * z / n, errors)


def _largest_drops(
    task: PerExample,
    starts: NDArray[np.bool_],
    ends: NDArray[np.bool_],
    window: int | None,
    excess: NDArray[np.float32],
) -> NDArray[np.float64]:
    """Return each resample's largest drop of the error from one of `starts` to one of `ends`."""
    rows = np.flatnonzero(starts | ends)
    largest = []
    width = max(1, CELLS // len(task))  # resamples at a time
    for first in range(0, excess.shape[1], width):
        some = excess[:, first : first + width]
        errors = np.concatenate(
            [task[part].astype(np.float32) @ some for part in _blocks(rows, task.examples)]
        )
        peaks = np.full((len(task), some.shape[1]), -np.inf, dtype=np.float32)
        peaks[rows[starts[rows]]] = errors[starts[rows]]
        reached = trailing_max(peaks, window, axis=0)[rows[ends[rows]]]
        largest.append((reached - errors[ends[rows]]).max(axis=0))
    return np.concatenate(largest).astype(np.float64)


def _paired_errors(task: PerExample, accuracy: NDArray[np.float64], at: int) -> NDArray[np.float64]:
    """Return the standard error of each evaluation's accuracy minus that of evaluation `at`."""
    variance = task.changed(at) - (accuracy - accuracy[at]) ** 2
    errors: NDArray[np.float64] = np.sqrt(np.maximum(variance, 0.0) / task.examples)
    return errors


def _excess(n: int, resamples: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Return what each resample (columns) adds to each example's weight of 1 / n."""
    excess = np.empty((n, resamples), dtype=np.float32)
    share = np.full(n, 1 / n)
    for first in range(0, resamples, 100):  # bounds the memory of the counts
        some = excess[:, first : first + 100]
        some[:] = (rng.multinomial(n, share, size=some.shape[1]).T - 1) / n
    return excess


def _blocks(rows: NDArray[np.intp], width: int) -> Iterator[NDArray[np.intp]]:
    size = max(1, CELLS // width)
    return (rows[first : first + size] for first in range(0, len(rows), size))


def _norm(values: Sequence[float]) -> float:
    """Return the half-width of a mean over independent tasks."""
    return float(np.linalg.norm(values)) / len(values)
