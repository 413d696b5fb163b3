"""The scores of control tasks: evaluated before training and at the end of each task."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from .._display import format_block
from .score_matrix import ACCURACY, ScoreScale

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from .per_example import PerExample

__all__ = ["ControlScores"]


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
