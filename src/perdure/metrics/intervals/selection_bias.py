"""How far the extremes of a stream can be trusted: intervals from hits, or a bound on the bias."""

from __future__ import annotations

from math import log, log1p, sqrt
from typing import TYPE_CHECKING

import numpy as np

from ..functional._value import UndefinedMetricError
from ..functional.worst_case import first_ends
from .extremes import interval_of_drop, interval_of_minimum

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from ..per_example import PerExample
    from ..stream import Stream

__all__ = [
    "drop_bias",
    "drop_bias_at",
    "extreme_intervals",
    "minimum_bias",
    "minimum_bias_at",
    "selection_bias",
]


def extreme_intervals(
    stream: Stream, hits: Mapping[str, PerExample], ids: Sequence[str], *, level: float = 0.95
) -> tuple[dict[str, tuple[float, float]], str | None]:
    """Return an interval for each of min_acc, wc_acc and wf… in `ids`, and what stood in the way.

    Needs the hits of every task that takes part.

    Example:
        >>> from perdure.metrics import PerExample, Stream
        >>> hits = {"a": PerExample.pack([1, 2], [[True] * 8, [True] * 4 + [False] * 4])}
        >>> stream = Stream({"a": (hits["a"].steps, hits["a"].accuracy())})
        >>> intervals, _ = extreme_intervals(stream, hits, ["wf10"])
        >>> [round(end, 2) for end in intervals["wf10"]]
        [0.0, 1.0]
    """
    found: dict[str, tuple[float, float]] = {}
    reason = None
    for id_ in ids:
        try:
            if id_.startswith("wf"):
                window = None if id_ == "wfall" else int(id_.removeprefix("wf"))
                tested = [
                    _hits(hits, task) for task, (steps, _) in stream.tasks.items() if len(steps)
                ]
                found[id_] = interval_of_drop(tested, window, level=level)
            else:
                parts = _older(stream, hits)
                if id_ == "wc_acc":
                    parts.append(_last(hits, stream.spans[-1].task))
                found[id_] = interval_of_minimum(parts, level=level)
        except UndefinedMetricError as undefined:
            reason = str(undefined)
    return found, reason


def selection_bias(stream: Stream, ids: Sequence[str]) -> dict[str, float]:
    """Return for each extreme in `ids` how far noise alone can have moved it, from n and counts.

    A bound on the expected bias, see `minimum_bias` and `drop_bias`; nothing for tasks whose
    number of examples is not known.

    Example:
        >>> from perdure.metrics import Stream
        >>> stream = Stream({"a": ([1, 2], [0.5, 0.5])}, sizes={"a": 100})
        >>> round(selection_bias(stream, ["wf10"])["wf10"], 3)
        0.083
    """
    bounds = {}
    minima = _minimum_biases_of(stream) if {"min_acc", "wc_acc"} & set(ids) else []
    for id_ in ids:
        if id_.startswith("wf"):
            window = None if id_ == "wfall" else int(id_.removeprefix("wf"))
            each = [
                drop_bias(len(steps), stream.sizes.get(task), window)
                for task, (steps, _) in stream.tasks.items()
                if len(steps)
            ]
            share = 1.0
        else:
            each = minima
            share = 1.0 if id_ == "min_acc" else len(each) / (len(each) + 1)
        if each and all(bound is not None for bound in each):
            bounds[id_] = share * sum(bound for bound in each if bound is not None) / len(each)
    return bounds


def minimum_bias(low: float, n: int, evaluations: int) -> float:
    r"""Return a bound on how far the expected minimum lies below the lowest true accuracy.

    `low` is the minimum that was observed; the p that explains it by $p - b(p)$, see
    `minimum_bias_at`, is solved for, so the true minimum is expected to lie within `low` and `low`
    plus the result.

    Example:
        >>> round(minimum_bias(0.868, 1000, 1000), 3)  # a constant .9 reads about .868
        0.036
    """
    return _minimum_biases([low], n, [evaluations])[0]


def _minimum_biases(lows: Sequence[float], n: int, evaluations: Sequence[int]) -> list[float]:
    """Return `minimum_bias` of many tasks that have `n` examples each."""
    low, logs = np.array(lows), np.array([log(count) for count in evaluations])
    below, above = low, np.ones(len(low))
    for _ in range(50):  # p - b(p) grows with p
        p = (below + above) / 2
        fits = p - _bounds(p, n, logs) <= low
        below, above = np.where(fits, p, below), np.where(fits, above, p)
    biases: list[float] = np.where(logs > 0, above - low, 0.0).tolist()
    return biases


def _bounds(p: NDArray[np.float64], n: int, logs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return b(p) of `minimum_bias_at` for many p, each with the log of its evaluations."""
    scale = np.geomspace(sqrt(n) / 100, 1e4 * n, 400)  # every one gives a bound
    shrunk = np.expm1(-scale / n)
    bounds = np.zeros(len(p))  # where nothing competes, or nothing varies
    varies = np.flatnonzero((logs > 0) & (p > 0) & (p < 1))
    for start in range(0, len(varies), 256):  # in pieces that fit the cache
        some = varies[start : start + 256]
        each = p[some, None]
        log_mean = n * np.log1p(each * shrunk)
        found = (logs[some, None] + log_mean + scale * each) / scale
        bounds[some] = np.minimum(found.min(axis=1), p[some])
    return bounds


def drop_bias(evaluations: int, n: int | None, window: int | None) -> float | None:
    r"""Return a bound on the expected largest drop where the true accuracy never falls.

    $\sqrt{\log(1 + \text{pairs}) / n}$, from the sub-Gaussian maximal inequality over all pairs in
    a window: for evaluations that are independent or vary together.

    Example:
        >>> round(drop_bias(1000, 1000, 10), 3)
        0.095
    """
    if n is None:
        return None
    return sqrt(log1p(_pairs(evaluations, window)) / n)  # 1 more: the drop is at least 0


def minimum_bias_at(
    accuracy: float, n: int, evaluations: int, *, changed: float | None = None
) -> float:
    r"""Return a bound on how far the expected minimum lies below a known lowest true accuracy p.

    For any dependence between evaluations, and true accuracies of at least p, the expected
    minimum of N accuracies over n examples is at least $p - b(p)$ with
    $b(p) = \min_\lambda (\log N + n \log(1 - p + p e^{-\lambda/n}) + \lambda p) / \lambda$
    (a Chernoff bound). It covers subsets that are fixed and subsets drawn afresh.

    `changed` makes it smaller for a fixed subset: the share of examples, at most, whose answer
    turns from right to wrong or back between two evaluations. One that never turns adds no bias.

    Example:
        >>> round(minimum_bias_at(0.9, 1000, 1000), 3)
        0.037
        >>> round(minimum_bias_at(0.9, 1000, 1000, changed=0.02), 3)
        0.017
    """
    if evaluations < 2:
        return 0.0
    bound = float(_bounds(np.array([accuracy]), n, np.array([log(evaluations)]))[0])
    # The others against the lowest one, whose own error is 0 on average.
    return bound if changed is None else min(bound, _largest(changed / 2, n, evaluations - 1))


def drop_bias_at(
    accuracy: float,
    n: int,
    evaluations: int,
    window: int | None,
    *,
    changed: float | None = None,
) -> float:
    r"""Return a bound on the expected largest drop where the true accuracy stays at `accuracy`.

    $\min_\lambda \log(1 + \text{pairs} (1 + 2 q (\cosh(\lambda/n) - 1))^n) / \lambda$ over the
    pairs in a window, where q is the chance that an example right at one of them is wrong at the
    other: $p (1 - p)$ for subsets drawn afresh, and no more than that for a fixed subset, as long
    as an answer right once is no less likely right again. `changed`, 2 q at most, makes it
    smaller, as in `minimum_bias_at`.

    Example:
        >>> round(drop_bias_at(0.9, 1000, 1000, 10), 3)
        0.057
    """
    q = accuracy * (1 - accuracy)
    if changed is not None:
        q = min(q, changed / 2)
    return _largest(q, n, _pairs(evaluations, window))


def _largest(q: float, n: int, pairs: float) -> float:
    """Return a bound on the expected largest of so many differences of two accuracies, and 0.

    Over n examples, each of which rises with chance q, falls with chance q, and else stays.
    """
    if pairs < 1 or q <= 0:
        return 0.0
    scale = np.geomspace(sqrt(n) / 100, 50 * n, 400)  # every one gives a bound
    log_mean = n * np.log1p(4 * q * np.sinh(scale / (2 * n)) ** 2)  # 2 cosh x - 2 = 4 sinh² x/2
    return min(float((np.logaddexp(0, log(pairs) + log_mean) / scale).min()), 1.0)


def _pairs(evaluations: int, window: int | None) -> float:
    """Return how many pairs of evaluations lie within a window."""
    width = min(window or evaluations, evaluations)
    return evaluations * (width - 1) - width * (width - 1) / 2


def _minimum_biases_of(stream: Stream) -> list[float | None]:
    """Return `minimum_bias` of each task left behind, None where its size is not known."""
    older = _left_behind(stream)
    biases: dict[str, float | None] = {task: None for task, _ in older}
    by_size: dict[int, dict[str, NDArray[np.float64]]] = {}
    for task, end in older:
        if task in stream.sizes:
            steps, scores = stream.tasks[task]
            later = scores[np.searchsorted(steps, end, side="right") :]
            by_size.setdefault(stream.sizes[task], {})[task] = later
    for n, each in by_size.items():
        lows = [float(later.min()) for later in each.values()]
        found = _minimum_biases(lows, n, [len(later) for later in each.values()])
        biases |= dict(zip(each, found, strict=True))
    return list(biases.values())


def _left_behind(stream: Stream) -> list[tuple[str, int]]:
    current, ends = first_ends(stream)
    return [(task, end) for task, end in ends.items() if task != current]


def _older(stream: Stream, hits: Mapping[str, PerExample]) -> list[PerExample]:
    parts = [_hits(hits, task).after(end) for task, end in _left_behind(stream)]
    if any(not len(part) for part in parts):
        raise UndefinedMetricError("no hits after a task was learned")
    return parts


def _last(hits: Mapping[str, PerExample], task: str) -> PerExample:
    mine = _hits(hits, task)
    return mine.after(int(mine.steps[-1]) - 1)


def _hits(hits: Mapping[str, PerExample], task: str) -> PerExample:
    if task not in hits:
        raise UndefinedMetricError(f"no hits of task {task!r}")
    return hits[task]
