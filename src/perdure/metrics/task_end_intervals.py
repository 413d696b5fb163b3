"""Intervals of the matrix metrics of one run, from per-example results at task ends.

Examples of different tasks are independent. The same examples are evaluated at every task end, so
the part of a metric that comes from one task is a mean over examples of paired results. There are
two kinds of metrics:

- **Linear ones** (acc, bwt, …): the variance is that of the per-example sums. An interval of ± z
  standard errors fails where few answers change, because it is too narrow. A score interval
  uses the variance at its own end instead, where more answers differ. Moving the value by d,
  through answers that move it by at most g each, adds g d to the variance; `d² = z² (variance +
  g d)` is solved for d at each end. For one accuracy near 0 or 1 this is the outer end of Wilson's
  interval, up to terms of the order of 1 / n.
- **Largest scores** (forgetting.best, .peak, .any): the maximum of few noisy scores lies above the
  true one. As for the extremes of a stream, the high end treats the observed maximum as if its task
  end had been fixed in advance, which can only make the interval wider; the low end subtracts the
  maximum of normal errors, with the covariance of the examples, over all task ends within a few
  standard errors of the observed one (Fang & Santos 2019). Both are widened for few answers, as
  above.

`docs/intervals.md` has the coverage, measured in simulations.
"""

from __future__ import annotations

from math import log, sqrt
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..stats import normal_quantile, wilson_interval
from .matrix_weights import LARGEST, LINEAR, Weights
from .stream_extremes import ACCURACY_TOLERANCE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from .stream import PerExample

    Floats = NDArray[np.float64]

__all__ = ["MatrixIntervals", "matrix_intervals"]

Interval = tuple[float, float]
NORMAL_SAMPLES = 2000
RUN_SIGNS = (1, -1)  # of the two runs of a difference
Estimate = tuple[float, float, float]  # value, low, high


class EndStatistics(NamedTuple):
    """Per task (first axis): accuracy at each task end, covariance and number of examples.

    For the difference of two runs, the task ends of the second follow those of the first.
    """

    mean: Floats
    covariance: Floats
    n: Floats
    known: NDArray[np.bool_]
    runs: int

    def after(self, task: int) -> EndStatistics:
        """Return the statistics of the end of one task only."""
        ends = slice(task, None, len(self.mean))
        return self._replace(mean=self.mean[:, ends], covariance=self.covariance[:, ends, ends])

    def covers(self, used: NDArray[np.bool_]) -> bool:
        """Return whether every run has the results that `used` (tasks, task ends) asks for."""
        return not (np.tile(used, self.runs) & ~self.known[: len(used)]).any()


def end_statistics(
    runs: Sequence[Mapping[str, PerExample]],
    tasks: Sequence[str],
    ends: Sequence[int] | None = None,
) -> EndStatistics:
    """Return the accuracies at task ends and their covariances; runs must share their examples.

    `ends` are the steps of the results that count as task ends, by default one per task.
    """
    steps = np.arange(len(tasks)) if ends is None else np.array(ends)
    count, width = len(tasks), len(steps) * len(runs)
    statistics = EndStatistics(
        np.zeros((count, width)), np.zeros((count, width, width)), np.ones(count),
        np.zeros((count, width), dtype=bool), len(runs),
    )  # fmt: skip
    for j, task in enumerate(tasks):
        results = [(run[task], k * len(steps)) for k, run in enumerate(runs) if task in run]
        if not results:
            continue
        at = [np.searchsorted(steps, result.steps) + start for result, start in results]
        columns = np.concatenate(at)
        right = np.concatenate([result[:] for result, _ in results])
        mean, n = right.mean(axis=1), right.shape[1]
        table = right.astype(np.float32)  # counts up to 2**24 are exact
        statistics.mean[j, columns], statistics.known[j, columns] = mean, True
        statistics.n[j] = n
        both_right = (table @ table.T).astype(np.float64) / n
        statistics.covariance[j][np.ix_(columns, columns)] = (both_right - np.outer(mean, mean)) / n
    return statistics


class MatrixIntervals(NamedTuple):
    """Value and interval of each metric, in total and per task; None for tasks not part of it."""

    values: dict[str, float]
    intervals: dict[str, Interval]
    per_task_values: dict[str, list[float | None]]
    per_task: dict[str, list[Interval | None]]


def matrix_intervals(
    ends: Mapping[str, PerExample], tasks: Sequence[str], *, level: float = 0.95, seed: int = 0
) -> MatrixIntervals:
    """Return the interval of every matrix metric that the results at task ends support.

    Args:
        ends: per-example results of each task; `steps` are positions in `tasks`, the tasks after
            which the examples were evaluated.
        tasks: all tasks in the order of learning.
        level: confidence level of each interval by itself.
        seed: seed of the normal errors that largest scores need.

    Example:
        >>> from perdure.metrics import PerExample
        >>> right = np.arange(400) < [[380], [300]]  # 80 of 400 examples are forgotten
        >>> ends = {"a": PerExample.pack([0, 1], right), "b": PerExample.pack([1], right[:1])}
        >>> result = matrix_intervals(ends, ["a", "b"])
        >>> [round(end, 3) for end in result.intervals["bwt"]]
        [-0.243, -0.155]
    """
    return compute_intervals(end_statistics([ends], tasks), level=level, seed=seed)


def compute_intervals(statistics: EndStatistics, *, level: float, seed: int) -> MatrixIntervals:
    """Return the intervals of one run, or of the first of two runs minus the second."""
    result = MatrixIntervals({}, {}, {}, {})
    count = len(statistics.mean)
    z = normal_quantile(level)
    linear = {id_: make(count) for id_, make in LINEAR.items()}
    linear["acc.pooled"] = linear["acc"]._replace(shares=statistics.n / statistics.n.sum())
    for id_, weights in linear.items():
        if weights.shares.any() and statistics.covers(weights.parts.T != 0):
            _add(result, id_, *_linear(weights, statistics, z, level))
    for id_, parts in _largest_scores(statistics, np.random.default_rng(seed)).items():
        per_task = [*(_combine([part], z, level) for part in parts), None]
        _add(result, id_, _combine(parts, z, level), per_task)
    return result


def _add(
    result: MatrixIntervals, id_: str, total: Estimate, per_task: Sequence[Estimate | None]
) -> None:
    result.values[id_], result.intervals[id_] = total[0], total[1:]
    result.per_task_values[id_] = [None if one is None else one[0] for one in per_task]
    result.per_task[id_] = [None if one is None else one[1:] for one in per_task]


class PairedTerms(NamedTuple):
    """Per task: value, variance, and how far one example can move it down and up."""

    value: Floats
    variance: Floats
    down: Floats
    up: Floats

    def of(self, task: int) -> PairedTerms:
        """Return the terms of one task alone."""
        return PairedTerms(*(term[task : task + 1] for term in self))

    def shared(self, shares: Floats) -> PairedTerms:
        """Return the terms of a sum in which each task has a share."""
        value, variance, down, up = self
        return PairedTerms(value * shares, variance * shares**2, down * shares, up * shares)


def _linear(
    weights: Weights, statistics: EndStatistics, z: float, level: float
) -> tuple[Estimate, Sequence[Estimate | None]]:
    """Return the estimate of the metric, and that of each task."""
    parts, shares = weights.parts, weights.shares
    tasks = range(len(shares))
    if weights.by_row:
        rows = [paired_terms(parts[k : k + 1].T, statistics.after(k)) for k in tasks]
        total = paired_terms((parts * shares[:, None]).T, statistics)
        return estimate(total, z), [estimate(row, z) for row in rows]
    terms = paired_terms(parts.T, statistics)
    per_task = [
        (_single_accuracy(statistics, j, parts[:, j], level) or estimate(terms.of(j), z))
        if shares[j]
        else None
        for j in tasks
    ]
    return estimate(terms.shared(shares), z), per_task


def paired_terms(weights: Floats, statistics: EndStatistics) -> PairedTerms:
    """Return the terms that the weights (tasks, task ends) of one run give for all runs."""
    signed = np.concatenate([weights, -weights][: statistics.runs], axis=1)
    value = (signed * statistics.mean).sum(axis=1)
    variance = (signed[:, None] @ statistics.covariance @ signed[:, :, None]).ravel()
    down = (value - np.minimum(signed, 0).sum(axis=1)) / statistics.n
    up = (np.maximum(signed, 0).sum(axis=1) - value) / statistics.n
    return PairedTerms(value, variance, down, up)


def estimate(terms: PairedTerms, z: float) -> Estimate:
    """Return the sum over tasks with its interval."""
    total = float(terms.value.sum())
    spread = z * sqrt(max(float(terms.variance.sum()), 0.0))
    low, high = (_half_width(spread, float(jumps.max()), z) for jumps in (terms.down, terms.up))
    return total, total - low, total + high


def _half_width(spread: float, jump: float, z: float) -> float:
    """Return the d of `d² = spread² + z² jump d`: wider where few answers move the value."""
    half = z * z * jump / 2
    return half + sqrt(spread**2 + half**2)


def _single_accuracy(
    statistics: EndStatistics, j: int, weights: Floats, level: float
) -> Estimate | None:
    """Return a single accuracy with Wilson's interval, which is more accurate for it."""
    used = np.flatnonzero(weights)
    if statistics.runs > 1 or len(used) != 1 or weights[used[0]] != 1:
        return None
    value = float(statistics.mean[j, used[0]])
    low, high = wilson_interval(value, statistics.n[j], level=level)
    return value, float(low), float(high)


class _LargestScore(NamedTuple):
    """The largest score of a task minus its last: value, variance and errors of both ends.

    Errors are normal where no other score is close to the largest one.
    """

    value: float
    variance: float
    errors: tuple[NDArray[np.float32], NDArray[np.float32]]
    normal: tuple[bool, bool]
    jumps: tuple[float, float]  # how far one example can move it down, up


def _largest_scores(
    statistics: EndStatistics, rng: np.random.Generator
) -> dict[str, list[_LargestScore]]:
    """Return the terms of every metric of largest scores that the results support."""
    count = len(statistics.mean)
    last = np.eye(count, dtype=bool)[-1]
    used = {id_: candidates(count).T[:-1] for id_, candidates in LARGEST.items()}
    parts: dict[str, list[_LargestScore]] = {
        id_: [] for id_, ends in used.items() if count > 1 and statistics.covers(ends | last)
    }
    samples = NORMAL_SAMPLES if count <= 20 else NORMAL_SAMPLES // 2
    for j in range(count - 1 if parts else 0):
        normal = rng.standard_normal((samples, len(statistics.mean[j])), dtype=np.float32)
        errors = normal @ _matrix_root(statistics.covariance[j]).T.astype(np.float32)
        for id_, terms in parts.items():
            terms.append(_largest_score(statistics, j, used[id_][j], errors))
    return parts


def _largest_score(
    statistics: EndStatistics, j: int, used: NDArray[np.bool_], errors: NDArray[np.float32]
) -> _LargestScore:
    """Return the term of task j, where `used` marks the task ends among which it is largest."""
    mean, covariance = statistics.mean[j], statistics.covariance[j]
    value, best = 0.0, np.zeros(len(mean))
    highest, fixed, alone = [], [], []
    for run in range(statistics.runs):
        end = (run + 1) * len(used) - 1
        contrasts = np.eye(len(mean))[np.flatnonzero(used) + run * len(used)]
        contrasts[:, end] -= 1
        gaps = contrasts @ mean
        top = int(gaps.argmax())
        apart = contrasts - contrasts[top]
        error = np.sqrt(np.maximum(((apart @ covariance) * apart).sum(axis=1), 0.0))
        near = contrasts[
            gaps + sqrt(2 * log(max(len(gaps), 2))) * error >= gaps[top] - ACCURACY_TOLERANCE
        ]
        highest.append((errors @ near.T.astype(np.float32)).max(axis=1))
        fixed.append(errors @ contrasts[top].astype(np.float32))
        alone.append(len(near) == 1)
        value, best = (
            value + RUN_SIGNS[run] * float(gaps[top]),
            best + RUN_SIGNS[run] * contrasts[top],
        )
    variance = float(best @ covariance @ best)
    jumps = (
        (statistics.runs + value) / statistics.n[j],
        (statistics.runs - value) / statistics.n[j],
    )
    if statistics.runs == 1:
        return _LargestScore(value, variance, (highest[0], fixed[0]), (alone[0], True), jumps)
    both = (highest[0] - fixed[1], fixed[0] - highest[1])
    return _LargestScore(value, variance, both, (alone[0], alone[1]), jumps)


def _combine(parts: Sequence[_LargestScore], z: float, level: float) -> Estimate:
    """Return the mean over tasks with its interval."""
    value = sum(part.value for part in parts) / len(parts)
    ends = []
    for side, sign in enumerate((-1, 1)):
        if all(part.normal[side] for part in parts):
            bias, spread = 0.0, z * sqrt(max(sum(part.variance for part in parts), 0.0))
        else:
            errors = np.sum([part.errors[side] for part in parts], axis=0)
            bias = float(errors.mean())
            spread = abs(float(np.quantile(errors, (1 - sign * level) / 2)) - bias)
        jump = max(part.jumps[side] for part in parts)
        ends.append(value + (sign * _half_width(spread, jump, z) - bias) / len(parts))
    return value, ends[0], ends[1]


def _matrix_root(covariance: Floats) -> Floats:
    """Return A with A Aᵀ = covariance, which may be singular."""
    values, vectors = np.linalg.eigh(covariance)
    root: Floats = vectors * np.sqrt(np.maximum(values, 0.0))
    return root
