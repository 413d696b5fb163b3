"""How far the extremes of a stream can be trusted: intervals from hits, or a bound on the bias."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...stats import drop_bias, minimum_biases
from ..functional.value import UndefinedMetricError
from ..functional.worst_case import first_ends
from ..registry import parse_id
from .extremes import interval_of_drop, interval_of_minimum

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from ..per_example import PerExample
    from ..stream import Stream

__all__ = ["extreme_intervals", "selection_bias"]


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
            base, arguments = parse_id(id_)
            if base == "wf":
                tested = [
                    _hits(hits, task) for task, (steps, _) in stream.tasks.items() if len(steps)
                ]
                found[id_] = interval_of_drop(tested, arguments["window"], level=level)
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
        base, arguments = parse_id(id_)
        if base == "wf":
            each = [
                drop_bias(len(steps), stream.sizes.get(task), arguments["window"])
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
        found = minimum_biases(lows, n, [len(later) for later in each.values()])
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
