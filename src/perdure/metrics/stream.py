"""A judged stream of evaluations: every task's scores while the model goes on learning."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._html import curves
from .functional.value import UndefinedMetricError
from .score_matrix import ACCURACY, ScoreScale

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

__all__ = ["Stream", "TaskSpan"]


class TaskSpan(NamedTuple):
    """A stretch of training on one task, up to and including its `last` iteration."""

    task: str
    last: int


@dataclass(frozen=True, eq=False)
class Stream:
    """Scores of every evaluation task over the iterations of training.

    Args:
        tasks: for each task its steps (training iterations done, increasing) and its scores
            after them. Tasks may appear late. Put learned tasks in the order of learning.
        spans: the task being learned and the last iteration of each stretch of training, in
            order; empty for a stream without boundaries.
        before: score of each task just before its first update (`lca` needs it).
        sizes: how many examples each evaluation of a task used.
        scale: range and direction of the scores; accuracies by default.

    Example:
        >>> stream = Stream(
        ...     {"a": ([1, 2, 3, 4], [0.5, 0.9, 0.2, 0.7]), "b": ([3, 4], [0.6, 0.8])},
        ...     spans=[("a", 2), ("b", 4)],
        ... )
        >>> stream.names, stream.periodicity
        (('a', 'b'), 1)
    """

    tasks: Mapping[str, tuple[NDArray[np.int64], NDArray[np.float64]]]
    spans: tuple[TaskSpan, ...] = ()
    before: Mapping[str, float] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    scale: ScoreScale = ACCURACY

    if TYPE_CHECKING:  # what may be passed in is wider than what is kept

        def __init__(
            self,
            tasks: Mapping[str, tuple[ArrayLike, ArrayLike]],
            spans: Sequence[tuple[str, int]] = (),
            *,
            before: Mapping[str, float] | None = None,
            sizes: Mapping[str, int] | None = None,
            scale: ScoreScale = ACCURACY,
        ) -> None: ...

    def __post_init__(self) -> None:
        judged = {
            str(name): _judged(str(name), steps, scores, self.scale)
            for name, (steps, scores) in self.tasks.items()
        }
        spans = tuple(TaskSpan(str(task), int(last)) for task, last in self.spans)
        for task, _ in spans:
            if task not in judged:
                raise ValueError(f"task {task!r} is learned but never tested; tested: {[*judged]}")
        lasts = [last for _, last in spans]
        if any(b <= a for a, b in pairwise(lasts)):
            raise ValueError(f"last iterations of the spans must increase, got {lasts}")
        self._judge_extras(judged, lasts)
        learned = dict.fromkeys(task for task, _ in spans)
        order = [*learned, *(name for name in judged if name not in learned)]
        kept = MappingProxyType({name: judged[name] for name in order})
        object.__setattr__(self, "tasks", kept)
        object.__setattr__(self, "spans", spans)
        object.__setattr__(self, "before", dict(self.before or {}))
        object.__setattr__(self, "sizes", dict(self.sizes or {}))

    def _judge_extras(self, tasks: Mapping[str, tuple[Any, Any]], lasts: list[int]) -> None:
        if lasts and lasts[0] < 0:
            raise ValueError(f"last iterations of the spans must be 0 or more, got {lasts}")
        for task, (steps, _) in tasks.items():
            if lasts and len(steps) and steps[-1] > lasts[-1]:
                raise ValueError(
                    f"task {task!r} is tested at step {steps[-1]}, after the end, {lasts[-1]}"
                )
        for what, values in (("before", self.before), ("sizes", self.sizes)):
            for task, value in (values or {}).items():
                if task not in tasks:
                    raise ValueError(f"{what} names task {task!r}, which is never tested")
                if not np.isfinite(value) or (
                    what == "sizes" and (value < 1 or value != int(value))
                ):
                    raise ValueError(f"{what} of task {task!r} is {value}, expected a number")
        before = np.array(list((self.before or {}).values()), dtype=np.float64)
        self.scale.check(before, lambda k: f"before of task {[*self.before][k]!r}")

    def _repr_html_(self) -> str:
        ends = [span.last for span in self.spans[:-1]]
        low, high, name = self.scale.low, self.scale.high, self.scale.label
        return curves(self.tasks, switches=ends, low=low, high=high, name=name)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The tasks, learned ones first in the order of learning."""
        return tuple(self.tasks)

    @cached_property
    def positions(self) -> Mapping[str, int]:
        """Where each task is in `names`."""
        return {name: at for at, name in enumerate(self.names)}

    @cached_property
    def grid(self) -> NDArray[np.int64]:
        """Every step at which something was evaluated."""
        grid = np.empty(0, dtype=np.int64)
        new: list[NDArray[np.int64]] = []
        count = 0
        for steps, _ in self.tasks.values():
            at = np.searchsorted(grid, steps)
            inside = at < len(grid)
            if inside.all() and np.array_equal(grid[at], steps):
                continue
            new.append(steps)
            count += len(steps)
            if count >= len(grid):  # sooner would be a merge per task, quadratic in all
                grid, new, count = np.unique(np.concatenate([grid, *new])), [], 0
        return np.unique(np.concatenate([grid, *new])) if new else grid

    @property
    def periodicity(self) -> int | None:
        """Iterations between evaluations, the median; None for fewer than two."""
        return int(np.median(np.diff(self.grid))) if len(self.grid) > 1 else None

    def higher_is_better(self, task: str) -> NDArray[np.float64]:
        """Return the scores of `task`, negated if lower is better: what the formulas take."""
        return self.scale.higher_is_better(self.tasks[task][1])

    def until(self, step: int) -> Stream:
        """Return the stream as it was after `step` iterations.

        Example:
            >>> Stream({"a": ([1, 2, 3], [0.5, 0.9, 0.2])}).until(2).tasks["a"][1]
            array([0.5, 0.9])
        """
        cut = {}
        for name, (steps, scores) in self.tasks.items():
            end = int(np.searchsorted(steps, step, side="right"))
            cut[name] = (steps[:end], scores[:end])
        starts = [-1, *(span.last for span in self.spans)]
        spans = tuple(
            TaskSpan(task, min(last, step))
            for start, (task, last) in zip(starts, self.spans, strict=False)
            if start < step
        )
        return replace(self, tasks=cut, spans=spans)

    def subsample(self, every: int) -> Stream:
        """Return the stream with only every `every`-th evaluation, as a coarser run would be.

        Example:
            >>> Stream({"a": ([1, 2, 3, 4, 5], [0.5, 0.9, 0.2, 0.3, 0.4])}).subsample(2).grid
            array([2, 4])
        """
        kept = self.grid[check_thin(every) - 1 :: every]
        tasks = {}
        for name, (steps, scores) in self.tasks.items():
            keep = np.isin(steps, kept, assume_unique=True)
            tasks[name] = (steps[keep], scores[keep])
        return replace(self, tasks=tasks)

    def need_boundaries(self) -> None:
        """Raise UndefinedMetricError if the stream does not say which task was learned when."""
        if not self.spans:
            raise UndefinedMetricError("needs task boundaries; this stream has none")


def check_thin(every: int) -> int:
    """Return `every`, or raise if it is no number of evaluations to go on by."""
    if every < 1 or every != int(every):
        raise ValueError(f"thinning must be by a whole number of at least 1, got {every}")
    return every


def _judged(
    name: str, steps: ArrayLike, scores: ArrayLike, scale: ScoreScale
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    t = np.array(steps)
    a = np.array(scores, dtype=np.float64)
    if t.ndim != 1 or t.shape != a.shape:
        raise ValueError(
            f"task {name!r} has {t.shape} steps and {a.shape} scores, expected as many"
        )
    if len(t) and not np.issubdtype(t.dtype, np.integer):
        raise ValueError(f"steps of task {name!r} must be whole numbers, got {t.dtype}")
    t = t.astype(np.int64, copy=False)
    if len(t) and (t[0] < 0 or (np.diff(t) <= 0).any()):
        raise ValueError(f"steps of task {name!r} must increase from 0 on, each step once")
    if not np.isfinite(a).all():
        raise ValueError(f"scores of task {name!r} must be finite; leave out what was not measured")
    scale.check(a, lambda _: f"a score of task {name!r}")
    t.setflags(write=False)
    a.setflags(write=False)
    return t, a
