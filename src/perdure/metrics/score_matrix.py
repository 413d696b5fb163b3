"""Checked scores at task ends: the matrix of learned tasks, those of control tasks, their scale."""

from __future__ import annotations

from dataclasses import InitVar, dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from .._display import format_block, render_heatmap
from .functional.common import class_counts, counts, square, vector
from .functional.rescaled import Setting

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from .stream import PerExample

__all__ = ["ACCURACY", "ControlScores", "ScoreMatrix", "ScoreScale"]

ZERO_UPPER = (
    "the upper triangle is all zeros, which usually means that unseen tasks were never evaluated; "
    "if these zeros were measured, use `upper='measured'`"
)
MAX_PRINTED_TASKS = 10
MAX_NAME_LENGTH = 60  # characters of a score's name


@dataclass(frozen=True)
class ScoreScale:
    """The meaning of a score: its range, its direction and its name.

    Scales of the same range and direction are equal whatever their name, and whether figures and
    pages show them in percent.

    Example:
        >>> ScoreScale(0, 100, lower_is_better=True).is_accuracy
        False
        >>> ScoreScale(0, 100, name="perplexity").label, ScoreScale().label
        ('perplexity', 'accuracy')
    """

    low: float = 0.0
    high: float = 1.0
    lower_is_better: bool = False
    name: str = field(default="", compare=False)
    percent: bool = field(default=False, compare=False)

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise ValueError(
                f"range of scores must go from lower to higher, got {self.low} to {self.high}"
            )

    @property
    def is_accuracy(self) -> bool:
        """Whether scores lie within 0 and 1 and higher is better."""
        return self.low >= 0 and self.high <= 1 and not self.lower_is_better

    @property
    def label(self) -> str:
        """The name of the score; without a name, accuracy or score."""
        return self.name or ("accuracy" if self.is_accuracy else "score")

    @property
    def worst(self) -> str:
        """The worst value of several, as a word: highest or lowest."""
        return "highest" if self.lower_is_better else "lowest"

    def check(self, scores: NDArray[np.float64], describe: Callable[[int], str]) -> None:
        """Raise if a measured score lies outside the range; `describe` names an entry."""
        bad = (scores < self.low) | (scores > self.high)  # NaN, not measured, is neither
        if not bad.any():
            return
        first = int(np.argmax(bad))
        value = scores.flat[first]
        hint = _suggest_scale(scores, bad) if self == ScoreScale() else ""
        raise ValueError(
            f"{describe(first)} is {value:g}, expected {self.low:g} to {self.high:g}{hint}"
        )

    def higher_is_better(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return `scores`, negated if lower is better, so that higher is better."""
        return -scores if self.lower_is_better else scores


def _suggest_scale(scores: NDArray[np.float64], outside: NDArray[np.bool_]) -> str:
    """Return what scores that lie outside of 0 and 1 may be, and what to do."""
    inside = int(np.sum((scores >= 0) & (scores <= 1)))
    low, high = scores[outside].min(), scores[outside].max()
    if low < 0 or high > 100:
        return "; other scores need their `range=`"
    if high <= 10 and inside > outside.sum():  # a misplaced decimal point
        return (
            f" like the {inside} others; correct it, or pass `percent=True` for percentages, "
            "`lower_is_better=True` and `range=` for losses and other scores"
        )
    return (
        "; for percentages use `percent=True` or divide by 100, "
        "for losses and other scores use `lower_is_better=True` and `range=`"
    )


ACCURACY = ScoreScale()
# Scores of other models, one per task.
REFERENCES: tuple[Literal["initial", "joint", "single", "offline"], ...] = (
    "initial", "joint", "single", "offline",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class ScoreMatrix:
    """The score on every task after learning each task: `scores[i, j]`, task j after task i.

    Args:
        scores: (T, T) scores; NaN where not measured, never on the diagonal.
        tasks: names of the tasks; `task 0`, `task 1`, … by default.
        transposed: whether the rows of `scores` are evaluation tasks and its columns learned ones.
        initial: score of the untrained model on each task.
        joint: score on each task of a model trained on all tasks at once.
        single: score on each task of a model trained on that task alone.
        offline: mean score on the tasks so far of a model trained offline on them, per task.
        classes: number of classes of each task.
        sizes: number of test examples of each task.
        learned_sizes: number of test examples when each task was learned, where it differs.
        setting: `class`, `task` or `domain` (incremental); None if unknown.
        scale: range and direction of the scores; accuracies by default.
        upper: `measured` if zeros above the diagonal are scores. By default an upper triangle of
            zeros only counts as never measured.
        notes: notes about the origin of the scores, which summaries repeat.

    Example:
        >>> matrix = ScoreMatrix([[0.9, 0.1], [0.6, 0.8]], classes=[2, 2])
        >>> matrix.tasks, matrix.scores[1, 0]
        (('task 0', 'task 1'), np.float64(0.6))
        >>> ScoreMatrix([[0.9, 0.1], [float("nan"), 1.5]])  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ValueError: score on task 1 after task 1 is 1.5, expected 0 to 1 like ...
    """

    scores: NDArray[np.float64]
    tasks: tuple[str, ...] = ()
    transposed: InitVar[bool] = False
    initial: NDArray[np.float64] | None = None
    joint: NDArray[np.float64] | None = None
    single: NDArray[np.float64] | None = None
    offline: NDArray[np.float64] | None = None
    classes: NDArray[np.float64] | None = None
    sizes: NDArray[np.float64] | None = None
    learned_sizes: NDArray[np.float64] | None = None
    setting: Setting | None = None
    scale: ScoreScale = ACCURACY
    upper: Literal["measured", "zeros"] | None = None
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        title = f"ScoreMatrix of {len(self.tasks)} tasks, {self.scale.label} after learning each"
        names = [*self.tasks[:MAX_PRINTED_TASKS], *["…"] * (len(self.tasks) > MAX_PRINTED_TASKS)]
        rows = [
            [name, *("-" if np.isnan(v) else f"{v:.3f}" for v in row[:MAX_PRINTED_TASKS])]
            for name, row in zip(names, self.scores, strict=False)
        ]
        stated = (*REFERENCES, "classes", "sizes", "setting")
        given = [name for name in stated if getattr(self, name) is not None]
        return format_block(title, rows, [f"also {', '.join(given)}"] if given else [])

    def _repr_html_(self) -> str:
        scale = self.scale
        return render_heatmap(
            self.scores, self.tasks, low=scale.low, high=scale.high, name=scale.label,
            lower_is_better=scale.lower_is_better,
        )  # fmt: skip

    if TYPE_CHECKING:  # arguments are converted: their types are wider than those of the fields

        def __init__(
            self,
            scores: ArrayLike,
            tasks: Sequence[str] = (),
            *,
            transposed: bool = False,
            initial: ArrayLike | None = None,
            joint: ArrayLike | None = None,
            single: ArrayLike | None = None,
            offline: ArrayLike | None = None,
            classes: ArrayLike | None = None,
            sizes: ArrayLike | None = None,
            learned_sizes: ArrayLike | None = None,
            setting: Setting | None = None,
            scale: ScoreScale = ACCURACY,
            upper: Literal["measured", "zeros"] | None = None,
            notes: Sequence[str] = (),
        ) -> None: ...

    def __post_init__(self, transposed: bool) -> None:
        r = square(self.scores)
        r = r.T if transposed else r
        tasks = len(r)
        names = self.tasks if len(set(self.tasks)) == tasks else _check_names((), tasks)
        missing = np.flatnonzero(np.isnan(r.diagonal()))
        if len(missing):
            name = names[missing[0]]
            raise ValueError(
                f"score on {name} after {name} is missing, expected a number: every task must be "
                "evaluated after it is learned"
            )
        self.scale.check(r, lambda k: f"score on {names[k % tasks]} after {names[k // tasks]}")
        above = (r[k, k + 1 :] for k in range(tasks))
        if self.upper is None and tasks > 1 and not any(row.any() for row in above):
            r = np.where(np.tri(tasks, dtype=bool), r, np.nan)
            self._set("upper", "zeros")
        elif r.flags.writeable or not r.flags.owndata:  # the caller may still write to it
            r = r.copy()
        self._set("scores", r)
        self._set("notes", tuple(self.notes))
        self._set("tasks", _check_names(self.tasks, tasks))
        for reference in REFERENCES:
            self._set_vector(reference)
        if self.classes is not None:
            self._set("classes", class_counts(self.classes, len(r)))
        for name in ("sizes", "learned_sizes"):
            if getattr(self, name) is not None:
                self._set(name, counts(getattr(self, name), len(r), "test-set size"))
        if self.setting is not None and self.setting not in get_args(Setting):
            raise ValueError(f"setting is {self.setting!r}, expected class, task or domain")

    def _set(self, field: str, value: object) -> None:
        if isinstance(value, np.ndarray):
            value.setflags(write=False)
        object.__setattr__(self, field, value)

    def _set_vector(self, field: str) -> None:
        if getattr(self, field) is None:
            return
        values = np.array(getattr(self, field), dtype=np.float64)
        measured = np.where(np.isnan(values), 0.0, values)
        vector(measured, len(self.scores), f"{field} score")
        self.scale.check(values, lambda k: f"{field} score of task {k}")
        self._set(field, values)

    @property
    def higher_is_better(self) -> NDArray[np.float64]:
        """The scores, negated if lower is better: the input of the formulas."""
        return self.scale.higher_is_better(self.scores)


def _check_names(tasks: Sequence[str], count: int) -> tuple[str, ...]:
    if not len(tasks):
        return tuple(f"task {k}" for k in range(count))
    names = tuple(str(name) for name in tasks)
    if len(names) != count or len(set(names)) != count:
        raise ValueError(f"task names must be {count} unique names, got {list(names)}")
    return names


@dataclass(frozen=True, eq=False)
class ControlScores:
    """Scores of the tasks that are evaluated but never trained.

    Args:
        tasks: their names.
        initial: the score on each of them before training; NaN where not measured.
        scores: a row per task that was trained, or one row for a stream without boundaries, with
            the score on each control task at its end; NaN where not measured.
        per_example: which examples of a task were right, where that is known. Step 0 is the
            evaluation before training, step k + 1 the one of row k, on the same examples.
        scale: range and direction of the scores; accuracies by default.

    Example:
        >>> control = ControlScores(["mmlu"], initial=[0.5], scores=[[0.4], [0.45]])
        >>> control.scores[-1] - control.initial
        array([-0.05])
    """

    tasks: tuple[str, ...]
    initial: NDArray[np.float64]
    scores: NDArray[np.float64]
    per_example: Mapping[str, PerExample] = field(default_factory=dict)
    scale: ScoreScale = ACCURACY

    if TYPE_CHECKING:  # arguments are converted: their types are wider than those of the fields

        def __init__(
            self,
            tasks: Sequence[str],
            initial: ArrayLike,
            scores: ArrayLike,
            per_example: Mapping[str, PerExample] | None = None,
            scale: ScoreScale = ACCURACY,
        ) -> None: ...

    def __post_init__(self) -> None:
        tasks = tuple(str(task) for task in self.tasks)
        initial = np.array(self.initial, dtype=np.float64)
        scores = np.array(self.scores, dtype=np.float64)
        if not tasks or len(set(tasks)) < len(tasks):
            raise ValueError(f"control tasks are {list(tasks)}, expected one or more unique names")
        shape = (len(scores), len(tasks))
        if initial.shape != shape[1:] or scores.shape != shape or not len(scores):
            raise ValueError(
                f"{len(tasks)} control tasks have initial scores of shape {initial.shape} and "
                f"scores of shape {scores.shape}, expected {shape[1:]} and (ends, {len(tasks)})"
            )
        self.scale.check(initial, lambda k: f"initial score of task {tasks[k]!r}")
        self.scale.check(scores, lambda k: f"score of task {tasks[k % len(tasks)]!r}")
        for name, value in (("tasks", tasks), ("initial", initial), ("scores", scores)):
            if isinstance(value, np.ndarray):
                value.setflags(write=False)
            object.__setattr__(self, name, value)
        object.__setattr__(self, "per_example", dict(self.per_example or {}))

    def __repr__(self) -> str:
        title = f"ControlScores of {len(self.tasks)} tasks, {self.scale.label}"
        rows = [
            [task, f"initial {first:.3f}", f"final {last:.3f}"]
            for task, first, last in zip(self.tasks, self.initial, self.scores[-1], strict=True)
        ]
        return format_block(title, rows)
