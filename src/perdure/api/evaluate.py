"""Evaluating a model once, on the whole set of every task."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from .._display import count_of, format_block, make_frame
from ..evaluation import EvalTask, Evaluator, Inline
from ..evaluation.arguments import named_tasks, task_name
from ..metrics import ACCURACY, ScoreScale
from ..stats import wilson_interval

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import torch
    from pandas import DataFrame

    from ..evaluation import Score
    from ..metrics import PerExample
    from ..record import Log, Run

__all__ = ["TaskScores", "evaluate"]


@dataclass(frozen=True, eq=False)
class TaskScores:
    """The scores of a model on several tasks; `print` shows them as aligned lines.

    `intervals` are those of accuracies over examples (Wilson). `per_example` says which examples
    were right, for scores that are right or wrong.
    """

    scores: dict[str, float]
    n: dict[str, int]
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)
    per_example: dict[str, PerExample] = field(default_factory=dict)
    scale: ScoreScale = ACCURACY
    level: float = 0.95

    def __repr__(self) -> str:
        rows = []
        for task, score in self.scores.items():
            ends = self.intervals.get(task)
            shown = "" if ends is None else f"{ends[0]:.4f} to {ends[1]:.4f}"
            rows.append([task, f"{score:.4f}", shown, count_of(self.n[task], "example")])
        if not self.intervals:
            rows = [[row[0], row[1], row[3]] for row in rows]
        interval = f" with {100 * self.level:g}% interval" if self.intervals else ""
        return format_block(f"{self.scale.label}{interval}", rows)

    def to_dict(self) -> dict[str, dict[str, float | int | None]]:
        """Return score, number of examples and interval of each task, ready for JSON."""
        return {
            task: {"score": score, "n": self.n[task], "low": ends[0], "high": ends[1]}
            for task, score in self.scores.items()
            for ends in [self.intervals.get(task, (None, None))]
        }

    def to_records(self) -> list[dict[str, object]]:
        """Return a row per task."""
        return [{"task": task, **values} for task, values in self.to_dict().items()]

    def to_pandas(self) -> DataFrame:
        """Return the scores as a pandas table with a row per task."""
        return make_frame(self.to_records(), ("task", "score", "n", "low", "high"), ["task"])


def evaluate(
    model: Callable[..., object],
    tasks: Mapping[str, object] | Mapping[int, object] | Sequence[object],
    *,
    score: Score | Callable[..., torch.Tensor] | None = None,
    forward: Callable[..., object] | None = None,
    modules: Iterable[torch.nn.Module] | None = None,
    batch_size: int | None = None,
    level: float = 0.95,
    log: Log | None = None,
    step: int = 0,
    trained: str | None = None,
    kind: Literal["initial", "probe", "full"] = "full",
) -> TaskScores:
    """Return the scores of a model on the whole set of every task.

    The model, its random generators and its mode are left as they were, as by an `Evaluator`.

    Args:
        model: the model.
        tasks: evaluation data by task name, as for `Evaluator`.
        score: what is measured, as for `Evaluator`; accuracy by default.
        forward: as for `Evaluator`.
        modules: as for `Evaluator`.
        batch_size: examples per forward pass; None chooses what suits the device.
        level: confidence level of the intervals.
        log: a `perdure.Log` to which the scores, and which examples were right, are added.
        step: for the log: training iterations so far.
        trained: for the log: the task that was trained last; None without task boundaries.
        kind: for the log: "initial" before any training, "full" at the end of a task.

    Example:
        >>> import torch
        >>> x, y = torch.eye(4), torch.tensor([0, 1, 2, 0])
        >>> evaluate(torch.nn.Identity(), {"unit vectors": (x, y)})
        accuracy with 95% interval
          unit vectors  0.7500  0.3006 to 0.9544  4 examples
    """
    plain = {
        task_name(name): replace(data, control=False, train=None)
        if isinstance(data, EvalTask)
        else data
        for name, data in named_tasks(tasks)
    }
    if not plain:
        raise ValueError("tasks is empty, expected evaluation data by name: {name: (x, y)}")
    with Evaluator(
        plain, subset=None, score=score, forward=forward, modules=modules, progress=False,
        executor=Inline(batch_size=batch_size), count_flops=False,
    ) as evaluator:  # fmt: skip
        result = _read_scores(evaluator.evaluate(model), level)
    if log is not None:
        add_scores(log, result, step=step, trained=trained, kind=kind)
    return result


def add_scores(
    log: Log,
    result: TaskScores,
    *,
    step: int,
    trained: str | None,
    kind: Literal["initial", "probe", "full"],
) -> None:
    """Add the scores of all tasks to a log, with which examples were right where that is known."""
    for task, score in result.scores.items():
        if task in result.per_example:
            mine = result.per_example[task]
            log.add(step, trained, task, correct=mine[0], ids=mine.ids, kind=kind)
        else:
            log.add(step, trained, task, score, result.n[task], kind=kind)


def _read_scores(run: Run, level: float) -> TaskScores:
    """Return the scores of the one evaluation in a record."""
    points = run.points
    assert points is not None
    order = points.tested.tolist()
    scores = {points.names[k]: float(points.score[row]) for row, k in enumerate(order)}
    n = {points.names[k]: int(points.n[row]) for row, k in enumerate(order)}
    # The record may be temporary: its files are not kept open.
    right = {
        task: replace(mine, packed=np.array(mine.packed)) for task, mine in run.per_example.items()
    }
    result = TaskScores(scores, n, per_example=right, scale=points.scale, level=level)
    if points.scale.is_accuracy:
        for task in result.per_example:
            low, high = wilson_interval(scores[task], n[task], level=level)
            result.intervals[task] = (float(low), float(high))
    return result
