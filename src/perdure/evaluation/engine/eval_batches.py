"""The examples that pass through the model at an evaluation, prepared once."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from ..state.tensors import map_tree, move_leaf, take_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..eval_set import EvalSet
    from .scoring import Rows, Scorer

__all__ = ["EvalBatches", "EvalResult", "Predictions", "Values"]

Values = NDArray[np.generic]  # per example: correct or not, a score, or a sum and its tokens
Predictions = NDArray[np.generic]  # (2, examples): labels, and the classes that were predicted


class EvalBatches:
    """The subsets of some tasks on a device, fixed or resampled at every step."""

    def __init__(self, tasks: Sequence[EvalSet], scorer: Scorer, device: torch.device) -> None:
        self.tasks, self.scorer, self.device = tuple(tasks), scorer, device
        self.resample = any(task.resample for task in tasks)
        ends = np.cumsum([len(task.indices()) for task in tasks]).tolist()
        self._slices = [slice(*at) for at in zip([0, *ends[:-1]], ends, strict=True)]

    @cached_property
    def _fixed(self) -> list[Rows]:
        rows = [(task.name, *part) for task in self.tasks for part in self._parts_of(task)]
        return self.scorer.group(rows, self.device)

    def _parts_of(self, task: EvalSet) -> list[tuple[object, object]]:
        return task.fixed_rows(self.scorer.part_size(task))

    @cached_property
    def _whole_sets(self) -> dict[str, tuple[object, object]]:
        whole = {task.name: task.rows(np.arange(task.size)) for task in self.tasks if task.resample}
        return {
            name: map_tree(lambda a: move_leaf(a, self.device), rows)
            for name, rows in whole.items()
        }

    def at(self, step: int) -> list[Rows]:
        """Return the rows to evaluate after `step` steps, in the order of the tasks."""
        if not self.resample:
            return self._fixed
        rows = [(task.name, *part) for task in self.tasks for part in self._parts_at(task, step)]
        return self.scorer.group(rows, self.device)

    def _parts_at(self, task: EvalSet, step: int) -> list[tuple[object, object]]:
        if not task.resample:
            return self._parts_of(task)
        return [take_rows(self._whole_sets[task.name], torch.as_tensor(task.indices(step)))]

    def shape(self, values: Values) -> Values:
        """Return flat values with a row per example, where examples have several."""
        rows = self._slices[-1].stop
        return values if len(values) == rows else values.reshape(rows, -1)

    def split(self, values: Values) -> dict[str, Values]:
        """Return the values of each task from those of all rows, at one evaluation or more."""
        parts = zip(self.tasks, self._slices, strict=True)
        return {task.name: values[:, at] for task, at in parts}


class EvalResult(NamedTuple):
    """A completed evaluation: the values of all rows, in the order of the tasks."""

    step: int
    batches: EvalBatches
    values: Values
    seconds: float
