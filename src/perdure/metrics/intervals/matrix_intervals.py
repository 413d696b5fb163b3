"""Intervals of matrix metrics of one run, from which examples were right at which task end.

Examples of different tasks are independent; the same examples come back at every task end, so that
what a metric takes from one task is a mean over examples of paired results. Two kinds of metrics:

- **Linear ones** (acc, bwt, …): the variance is that of the per-example sums. An interval of plus
  or minus z standard errors fails where few answers change: it then has hardly any width. A score
  interval takes the variance at its own end instead, where more answers differ. Moving the
  value by d, through answers that move it by at most g each, adds g d to the variance;
  `d² = z² (variance + g d)` is solved for d at each end. For one accuracy near 0 or 1 that is the
  outer end of Wilson's interval, up to terms of the order of 1 / n.
- **Largest scores** (forgetting.best, .peak, .any): a maximum over few noisy scores lies above the
  true one. As for the extremes of a stream, the high end takes the observed maximum as if its
  task end had been named in advance, which can only put it too far out; the low end takes off the
  maximum of normal errors, with the covariance of the examples, over all task ends within a few
  standard errors of the observed one (Fang & Santos, 2019). Both are widened for few answers, as
  above.

`docs/intervals.md` has the coverage, measured with known truth.
"""

from __future__ import annotations

from math import log, sqrt
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...stats import normal_quantile, wilson_interval
from .matrix_weights import LARGEST, LINEAR, Weights

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from ..per_example import PerExample

    Floats = NDArray[np.float64]

__all__ = ["MatrixIntervals", "matrix_intervals"]

Interval = tuple[float, float]
DRAWS = 2000  # of normal errors
TIE = 1e-12
SIGNS = (1, -1)  # of two runs, whose difference it is


class MatrixIntervals(NamedTuple):
    """Value and interval of each metric, and of each task; None for one that takes no part."""

    values: dict[str, float]
    intervals: dict[str, Interval]
    per_task_values: dict[str, list[float | None]]
    per_task: dict[str, list[Interval | None]]


class EndStatistics(NamedTuple):
    """Per task (first axis): accuracy at each task end, its covariance, and how many examples.

    For a difference of two runs, the task ends of the second follow those of the first.
    """

    mean: Floats
    covariance: Floats
    n: Floats
    known: NDArray[np.bool_]
    runs: int

    def after(self, task: int) -> EndStatistics:
        """Return what holds of the end of one task alone."""
        at = slice(task, None, len(self.mean))
        return self._replace(mean=self.mean[:, at], covariance=self.covariance[:, at, at])

    def knows(self, used: NDArray[np.bool_]) -> bool:
        """Return whether every run has results where `used` (tasks, task ends) wants them."""
        return not (np.tile(used, self.runs) & ~self.known[: len(used)]).any()


def matrix_intervals(
    ends: Mapping[str, PerExample], tasks: Sequence[str], *, level: float = 0.95, seed: int = 0
) -> MatrixIntervals:
    """Return the interval of every matrix metric that the results at task ends support.

    Args:
        ends: for each task, which examples were right after learning which task: `steps` hold the
            number of that task in `tasks`, from 0.
        tasks: all tasks in the order of learning.
        level: confidence of each interval by itself.
        seed: of the normal errors that largest scores need.

    Example:
        >>> from perdure.metrics import PerExample
        >>> right = np.arange(400) < [[380], [300]]  # 80 of 400 examples are forgotten
        >>> ends = {"a": PerExample.pack([0, 1], right), "b": PerExample.pack([1], right[:1])}
        >>> found = matrix_intervals(ends, ["a", "b"])
        >>> [round(end, 3) for end in found.intervals["bwt"]]
        [-0.243, -0.155]
    """
    return intervals_of(statistics_of([ends], tasks), level=level, seed=seed)


def statistics_of(runs: Sequence[Mapping[str, PerExample]], tasks: Sequence[str]) -> EndStatistics:
    """Return accuracies at task ends with their covariances; runs must be of the same examples."""
    count, width = len(tasks), len(tasks) * len(runs)
    found = EndStatistics(
        np.zeros((count, width)), np.zeros((count, width, width)), np.ones(count),
        np.zeros((count, width), dtype=bool), len(runs),
    )  # fmt: skip
    for j, task in enumerate(tasks):
        mine = [(run[task], first * count) for first, run in enumerate(runs) if task in run]
        if not mine:
            continue
        at = np.concatenate([hits.steps + start for hits, start in mine])
        right = np.concatenate([hits[:] for hits, _ in mine])
        mean, n = right.mean(axis=1), right.shape[1]
        table = right.astype(np.float32)  # counts up to 2**24 are exact
        found.mean[j, at], found.known[j, at], found.n[j] = mean, True, n
        together = (table @ table.T).astype(np.float64) / n
        found.covariance[j][np.ix_(at, at)] = (together - np.outer(mean, mean)) / n
    return found


def intervals_of(found: EndStatistics, *, level: float, seed: int) -> MatrixIntervals:
    """Return the intervals of one run, or of the first of two runs minus the second."""
    result = MatrixIntervals({}, {}, {}, {})
    count = len(found.mean)
    z = normal_quantile(level)
    linear = {id_: make(count) for id_, make in LINEAR.items()}
    linear["acc.pooled"] = linear["acc"]._replace(shares=found.n / found.n.sum())
    for id_, weights in linear.items():
        if weights.shares.any() and found.knows(weights.parts.T != 0):
            _add(result, id_, *_linear(weights, found, z, level))
    for id_, parts in _largest_scores(found, np.random.default_rng(seed)).items():
        each = [*(_combined([part], z, level) for part in parts), None]
        _add(result, id_, _combined(parts, z, level), each)
    return result


Ends = tuple[float, float, float]  # value, low, high


def _add(result: MatrixIntervals, id_: str, whole: Ends, each: Sequence[Ends | None]) -> None:
    result.values[id_], result.intervals[id_] = whole[0], whole[1:]
    result.per_task_values[id_] = [None if one is None else one[0] for one in each]
    result.per_task[id_] = [None if one is None else one[1:] for one in each]


class _Terms(NamedTuple):
    """Each task's value, its variance, and how far one example can move it down and up."""

    value: Floats
    variance: Floats
    down: Floats
    up: Floats

    def of(self, task: int) -> _Terms:
        """Return the terms of one task alone."""
        return _Terms(*(term[task : task + 1] for term in self))

    def shared(self, shares: Floats) -> _Terms:
        """Return the terms of a sum in which each task has a share."""
        value, variance, down, up = self
        return _Terms(value * shares, variance * shares**2, down * shares, up * shares)


def _linear(
    weights: Weights, found: EndStatistics, z: float, level: float
) -> tuple[Ends, Sequence[Ends | None]]:
    """Return the metric, and the value of each task, with their intervals."""
    parts, shares = weights.parts, weights.shares
    tasks = range(len(shares))
    if weights.by_row:
        rows = [_terms(parts[k : k + 1].T, found.after(k)) for k in tasks]
        whole = _terms((parts * shares[:, None]).T, found)
        return _ends(whole, z), [_ends(row, z) for row in rows]
    terms = _terms(parts.T, found)
    each = [_single(found, j, parts[:, j], level) or _ends(terms.of(j), z) for j in tasks]
    takes_part = [ends if shares[j] else None for j, ends in enumerate(each)]
    return _ends(terms.shared(shares), z), takes_part


def _terms(weights: Floats, found: EndStatistics) -> _Terms:
    """Return what the weights (tasks, task ends) of one run make of the results of all."""
    signed = np.concatenate([weights, -weights][: found.runs], axis=1)
    value = (signed * found.mean).sum(axis=1)
    variance = (signed[:, None] @ found.covariance @ signed[:, :, None]).ravel()
    down = (value - np.minimum(signed, 0).sum(axis=1)) / found.n
    up = (np.maximum(signed, 0).sum(axis=1) - value) / found.n
    return _Terms(value, variance, down, up)


def _ends(terms: _Terms, z: float) -> Ends:
    """Return the sum over tasks with its interval."""
    total = float(terms.value.sum())
    spread = z * sqrt(max(float(terms.variance.sum()), 0.0))
    low, high = (_reach(spread, float(jumps.max()), z) for jumps in (terms.down, terms.up))
    return total, total - low, total + high


def _reach(spread: float, jump: float, z: float) -> float:
    """Return the d of `d² = spread² + z² jump d`: wider where few answers move the value."""
    half = z * z * jump / 2
    return half + sqrt(spread**2 + half**2)


def _single(found: EndStatistics, j: int, weights: Floats, level: float) -> Ends | None:
    """Return a single accuracy with Wilson's interval, which is the better one for it."""
    at = np.flatnonzero(weights)
    if found.runs > 1 or len(at) != 1 or weights[at[0]] != 1:
        return None
    value = float(found.mean[j, at[0]])
    low, high = wilson_interval(value, found.n[j], level=level)
    return value, float(low), float(high)


class _Largest(NamedTuple):
    """A task's largest score minus its last: value, variance, and errors for the low and high end.

    Errors are normal where nothing competes with the largest score.
    """

    value: float
    variance: float
    errors: tuple[NDArray[np.float32], NDArray[np.float32]]
    normal: tuple[bool, bool]
    jumps: tuple[float, float]  # how far one example can move it down, up


def _largest_scores(found: EndStatistics, rng: np.random.Generator) -> dict[str, list[_Largest]]:
    """Return the parts of every metric of largest scores that the results support."""
    count = len(found.mean)
    last = np.eye(count, dtype=bool)[-1]
    used = {id_: choose(count).T[:-1] for id_, choose in LARGEST.items()}
    parts: dict[str, list[_Largest]] = {
        id_: [] for id_, mine in used.items() if count > 1 and found.knows(mine | last)
    }
    draws = DRAWS if count <= 20 else DRAWS // 2
    for j in range(count - 1 if parts else 0):
        normal = rng.standard_normal((draws, len(found.mean[j])), dtype=np.float32)
        errors = normal @ _root(found.covariance[j]).T.astype(np.float32)
        for id_, mine in parts.items():
            mine.append(_largest(found, j, used[id_][j], errors))
    return parts


def _largest(
    found: EndStatistics, j: int, used: NDArray[np.bool_], errors: NDArray[np.float32]
) -> _Largest:
    """Return the part of task j, where `used` says which task ends compete."""
    mean, covariance = found.mean[j], found.covariance[j]
    value, best = 0.0, np.zeros(len(mean))
    highest, named, alone = [], [], []
    for run in range(found.runs):
        end = (run + 1) * len(used) - 1
        contrasts = np.eye(len(mean))[np.flatnonzero(used) + run * len(used)]
        contrasts[:, end] -= 1
        gaps = contrasts @ mean
        top = int(gaps.argmax())
        apart = contrasts - contrasts[top]
        error = np.sqrt(np.maximum(((apart @ covariance) * apart).sum(axis=1), 0.0))
        near = contrasts[gaps + sqrt(2 * log(max(len(gaps), 2))) * error >= gaps[top] - TIE]
        highest.append((errors @ near.T.astype(np.float32)).max(axis=1))
        named.append(errors @ contrasts[top].astype(np.float32))
        alone.append(len(near) == 1)
        value, best = value + SIGNS[run] * float(gaps[top]), best + SIGNS[run] * contrasts[top]
    variance = float(best @ covariance @ best)
    jumps = ((found.runs + value) / found.n[j], (found.runs - value) / found.n[j])
    if found.runs == 1:
        return _Largest(value, variance, (highest[0], named[0]), (alone[0], True), jumps)
    both = (highest[0] - named[1], named[0] - highest[1])
    return _Largest(value, variance, both, (alone[0], alone[1]), jumps)


def _combined(parts: Sequence[_Largest], z: float, level: float) -> Ends:
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
        ends.append(value + (sign * _reach(spread, jump, z) - bias) / len(parts))
    return value, ends[0], ends[1]


def _root(covariance: Floats) -> Floats:
    """Return A with A Aᵀ = covariance, which may be singular."""
    values, vectors = np.linalg.eigh(covariance)
    root: Floats = vectors * np.sqrt(np.maximum(values, 0.0))
    return root
