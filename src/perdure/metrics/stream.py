"""A checked stream of evaluations: the scores of every task, and which examples were right."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .._display import format_block, render_curves
from .functional.common import UndefinedMetricError
from .score_matrix import ACCURACY, ScoreScale

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    Evaluations = tuple[NDArray[np.int64], NDArray[np.float64]]  # steps and scores

__all__ = ["PerExample", "Stream", "TaskSpan"]


@dataclass(frozen=True, eq=False)
class PerExample:
    """Which examples (columns) of one task were right at each evaluation (rows).

    Args:
        steps: training iterations before each evaluation, increasing.
        packed: one row per evaluation in the order of `numpy.packbits`; may be memory-mapped.
        examples: number of examples; the rest of the last byte is padding.
        ids: unique ids of the examples; None if only their order is known.
        data: fingerprint of the evaluation set they belong to; None if unknown.

    Example:
        >>> results = PerExample.pack([5, 6], [[True, False, True], [True, True, True]])
        >>> results.accuracy(), results[0]
        (array([0.66666667, 1.        ]), array([ True, False,  True]))
    """

    steps: NDArray[np.int64]
    packed: NDArray[np.uint8]
    examples: int
    ids: NDArray[np.int64] | None = None
    data: str | None = None

    def __repr__(self) -> str:
        ends = f", steps {self.steps[0]} to {self.steps[-1]}" if len(self.steps) else ""
        return f"PerExample: {len(self.steps)} evaluations of {self.examples} examples{ends}"

    def __post_init__(self) -> None:
        if self.examples < 1:
            raise ValueError(f"per-example results need at least 1 example, got {self.examples}")
        expected = (len(self.steps), -(-self.examples // 8))
        if self.packed.shape != expected:
            raise ValueError(f"packed results must have shape {expected}, got {self.packed.shape}")
        if (np.diff(self.steps) <= 0).any():
            raise ValueError("steps of per-example results must increase, each step once")
        if self.ids is not None and len(self.ids) != self.examples:
            raise ValueError(
                f"results of {self.examples} examples have {len(self.ids)} ids, expected one each"
            )

    @classmethod
    def pack(
        cls, steps: ArrayLike, right: ArrayLike, *, ids: ArrayLike | None = None
    ) -> PerExample:
        """Return results from steps and an (evaluations, examples) array of booleans."""
        table = np.asarray(right, dtype=bool)
        packed = np.packbits(table, axis=1)
        example_ids = None if ids is None else np.asarray(ids, dtype=np.int64)
        return cls(np.asarray(steps, dtype=np.int64), packed, table.shape[1], example_ids)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of evaluations and of examples."""
        return len(self.steps), self.examples

    def __len__(self) -> int:
        return len(self.steps)

    def __getitem__(self, rows: int | slice | NDArray[np.intp]) -> NDArray[np.bool_]:
        """Return the selected evaluations as booleans."""
        bits = np.unpackbits(self.packed[rows], axis=-1, count=self.examples)
        return bits.view(np.bool_)

    def accuracy(self) -> NDArray[np.float64]:
        """Return the fraction of right examples at each evaluation."""
        return self._fractions(np.uint8(0))

    def changed(self, row: int) -> NDArray[np.float64]:
        """Return the fraction of examples whose result differs from that in evaluation `row`."""
        return self._fractions(np.asarray(self.packed[row]))

    def _fractions(self, mask: NDArray[np.uint8] | np.uint8) -> NDArray[np.float64]:
        ones = np.empty(len(self), dtype=np.float64)
        used = np.packbits(np.ones(self.examples, dtype=bool))  # excludes the padding
        for start in range(0, len(self), 1 << 14):  # bounds the memory
            part = (self.packed[start : start + (1 << 14)] ^ mask) & used
            ones[start : start + len(part)] = np.bitwise_count(part).sum(axis=1, dtype=np.int64)
        return ones / self.examples

    def at(self, steps: NDArray[np.int64]) -> PerExample:
        """Return the evaluations at the given steps only."""
        keep = np.isin(self.steps, steps)
        return (
            self if keep.all() else replace(self, steps=self.steps[keep], packed=self.packed[keep])
        )

    def after(self, step: int) -> PerExample:
        """Return the evaluations strictly after `step`."""
        first = int(np.searchsorted(self.steps, step, side="right"))
        return replace(self, steps=self.steps[first:], packed=self.packed[first:])


class TaskSpan(NamedTuple):
    """A period of training on one task, up to and including its `last` iteration."""

    task: str
    last: int


@dataclass(frozen=True, eq=False)
class Stream:
    """Scores of every evaluation task over the iterations of training.

    Args:
        tasks: for each task the steps of its evaluations (training iterations, increasing) and its
            scores. Evaluations of a task may start late.
        spans: the task being learned and the last iteration of each period of training, in order;
            empty for a stream without task boundaries.
        before: score on each task just before its first update, which `lca` needs.
        sizes: number of examples in each evaluation of a task.
        scale: range and direction of the scores; accuracies by default.

    Example:
        >>> stream = Stream(
        ...     {"a": ([1, 2, 3, 4], [0.5, 0.9, 0.2, 0.7]), "b": ([3, 4], [0.6, 0.8])},
        ...     spans=[("a", 2), ("b", 4)],
        ... )
        >>> stream.names, stream.periodicity
        (('a', 'b'), 1)
    """

    tasks: Mapping[str, Evaluations]
    spans: tuple[TaskSpan, ...] = ()
    before: Mapping[str, float] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    scale: ScoreScale = ACCURACY

    if TYPE_CHECKING:  # arguments are converted: their types are wider than those of the fields

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
        tasks = {
            str(name): _check_scores(str(name), steps, scores, self.scale)
            for name, (steps, scores) in self.tasks.items()
        }
        spans = tuple(TaskSpan(str(task), int(last)) for task, last in self.spans)
        for task, _ in spans:
            if task not in tasks:
                raise ValueError(
                    f"task {task!r} is learned but never evaluated; evaluated: {[*tasks]}"
                )
        lasts = [last for _, last in spans]
        if any(b <= a for a, b in pairwise(lasts)):
            raise ValueError(f"last iterations of the spans must increase, got {lasts}")
        self._check_steps(tasks, lasts)
        self._check_extras(tasks)
        learned = dict.fromkeys(task for task, _ in spans)
        order = [*learned, *(name for name in tasks if name not in learned)]
        ordered = MappingProxyType({name: tasks[name] for name in order})
        object.__setattr__(self, "tasks", ordered)
        object.__setattr__(self, "spans", spans)
        object.__setattr__(self, "before", dict(self.before or {}))
        object.__setattr__(self, "sizes", dict(self.sizes or {}))

    @staticmethod
    def _check_steps(tasks: Mapping[str, Evaluations], lasts: list[int]) -> None:
        if lasts and lasts[0] < 0:
            raise ValueError(f"last iterations of the spans must be 0 or more, got {lasts}")
        for task, (steps, _) in tasks.items():
            if lasts and len(steps) and steps[-1] > lasts[-1]:
                raise ValueError(
                    f"task {task!r} is evaluated at step {steps[-1]}, after the end, {lasts[-1]}"
                )

    def _check_extras(self, tasks: Mapping[str, Evaluations]) -> None:
        for name, values in (("before", self.before), ("sizes", self.sizes)):
            for task, value in (values or {}).items():
                if task not in tasks:
                    raise ValueError(f"{name} names task {task!r}, which is never evaluated")
                if not np.isfinite(value) or (
                    name == "sizes" and (value < 1 or value != int(value))
                ):
                    raise ValueError(f"{name} of task {task!r} is {value}, expected a number")
        before = np.array(list((self.before or {}).values()), dtype=np.float64)
        self.scale.check(before, lambda k: f"before of task {[*self.before][k]!r}")

    def __repr__(self) -> str:
        last = max((int(steps[-1]) for steps, _ in self.tasks.values() if len(steps)), default=0)
        title = f"Stream of {len(self.tasks)} tasks, {last} iterations"
        rows = [
            [name, f"{len(steps)} evaluations", *(f"last {score:.3f}" for score in scores[-1:])]
            for name, (steps, scores) in self.tasks.items()
        ]
        return format_block(title, rows)

    def _repr_html_(self) -> str:
        switches = [span.last for span in self.spans[:-1]]
        low, high, name = self.scale.low, self.scale.high, self.scale.label
        return render_curves(self.tasks, switches=switches, low=low, high=high, name=name)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the tasks, learned tasks first in the order of learning."""
        return tuple(self.tasks)

    @cached_property
    def positions(self) -> Mapping[str, int]:
        """The position of each task in `names`."""
        return {name: position for position, name in enumerate(self.names)}

    @cached_property
    def grid(self) -> NDArray[np.int64]:
        """All steps at which any task was evaluated."""
        grid = np.empty(0, dtype=np.int64)
        pending: list[NDArray[np.int64]] = []
        count = 0
        for steps, _ in self.tasks.values():
            if not len(grid) and not pending:
                grid = steps  # they increase
                continue
            rows = np.searchsorted(grid, steps)
            if (rows < len(grid)).all() and np.array_equal(grid[rows], steps):
                continue
            pending.append(steps)
            count += len(steps)
            if count >= len(grid):  # merging once per task would take quadratic time
                grid, pending, count = np.unique(np.concatenate([grid, *pending])), [], 0
        return np.unique(np.concatenate([grid, *pending])) if pending else grid

    @property
    def periodicity(self) -> int | None:
        """The median number of iterations between evaluations; None for fewer than two."""
        return int(np.median(np.diff(self.grid))) if len(self.grid) > 1 else None

    def describe_spacing(self) -> str:
        """Return how many iterations lie between evaluations, of which there are two or more."""
        gaps = np.diff(self.grid)
        if gaps.min() < gaps.max():
            middle = f"median {np.median(gaps):g}"
            return f"{gaps.min()} to {gaps.max()} iterations apart ({middle})"
        return f"one every {gaps[0]} iterations" if gaps[0] > 1 else "one per iteration"

    def higher_is_better(self, task: str) -> NDArray[np.float64]:
        """Return the scores of `task`, negated if lower is better: the input of the formulas."""
        return self.scale.higher_is_better(self.tasks[task][1])

    def until(self, step: int) -> Stream:
        """Return the stream as it was after `step` iterations.

        Example:
            >>> Stream({"a": ([1, 2, 3], [0.5, 0.9, 0.2])}).until(2).tasks["a"][1]
            array([0.5, 0.9])
        """
        tasks = {}
        for name, (steps, scores) in self.tasks.items():
            end = int(np.searchsorted(steps, step, side="right"))
            tasks[name] = (steps[:end], scores[:end])
        starts = [-1, *(span.last for span in self.spans)]
        spans = tuple(
            TaskSpan(task, min(last, step))
            for start, (task, last) in zip(starts, self.spans, strict=False)
            if start < step
        )
        return replace(self, tasks=tasks, spans=spans)

    def subsample(self, every: int) -> Stream:
        """Return the stream with every `every`-th evaluation only, as a run evaluated less often.

        Example:
            >>> Stream({"a": ([1, 2, 3, 4, 5], [0.5, 0.9, 0.2, 0.3, 0.4])}).subsample(2).grid
            array([2, 4])
        """
        grid = self.grid[check_subsample(every) - 1 :: every]
        tasks = {}
        for name, (steps, scores) in self.tasks.items():
            rows = np.isin(steps, grid, assume_unique=True)
            tasks[name] = (steps[rows], scores[rows])
        return replace(self, tasks=tasks)

    def require_boundaries(self) -> None:
        """Raise UndefinedMetricError if the stream has no task boundaries."""
        if not self.spans:
            raise UndefinedMetricError("needs task boundaries; this stream has none")


def check_subsample(every: int) -> int:
    """Return `every`, or raise if it is not a whole number of at least 1."""
    if every < 1 or every != int(every):
        raise ValueError(f"subsample must be a whole number of at least 1, got {every}")
    return every


def _check_scores(name: str, steps: ArrayLike, scores: ArrayLike, scale: ScoreScale) -> Evaluations:
    """Return the steps and scores of a task as read-only arrays, or raise."""
    t = np.array(steps)
    a = np.array(scores, dtype=np.float64)
    if t.ndim != 1 or t.shape != a.shape:
        raise ValueError(
            f"task {name!r} has {t.shape} steps and {a.shape} scores, expected the same number"
        )
    if len(t) and not np.issubdtype(t.dtype, np.integer):
        raise ValueError(f"steps of task {name!r} must be whole numbers, got {t.dtype}")
    t = t.astype(np.int64, copy=False)
    if len(t) and (t[0] < 0 or (np.diff(t) <= 0).any()):
        raise ValueError(f"steps of task {name!r} must start at 0 or later and increase")
    if not np.isfinite(a).all():
        raise ValueError(f"scores of task {name!r} must be finite; omit what was not measured")
    scale.check(a, lambda _: f"a score of task {name!r}")
    t.setflags(write=False)
    a.setflags(write=False)
    return t, a
