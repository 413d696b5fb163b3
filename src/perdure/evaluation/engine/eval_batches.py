"""What goes through the model at an evaluation, made ready once."""

from __future__ import annotations

from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from ..state.trees import mapped, moved, taken

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ..tasks import EvaluationTask
    from .scoring import Rows, Scorer

__all__ = ["EvalBatches", "all_state_of", "device_of", "state_of"]


class EvalBatches:
    """The subsets of some tasks on a device: fixed ones, or drawn anew at every step."""

    def __init__(
        self,
        tasks: Sequence[EvaluationTask],
        scorer: Scorer,
        device: torch.device,
        *,
        redraw: bool = False,
    ) -> None:
        self.tasks, self.scorer, self.device, self.redraw = tuple(tasks), scorer, device, redraw
        ends = np.cumsum([len(task.indices()) for task in tasks]).tolist()
        self._places = [slice(*at) for at in zip([0, *ends[:-1]], ends, strict=True)]

    @cached_property
    def _fixed(self) -> list[Rows]:
        rows = [(task.name, *task.subset()) for task in self.tasks]
        return self.scorer.together(rows, self.device)

    @cached_property
    def _whole(self) -> list[Any]:
        everything = (task.rows(np.arange(task.size)) for task in self.tasks)
        return [mapped(lambda a: moved(a, self.device), rows) for rows in everything]

    def at(self, step: int) -> list[Rows]:
        """Return the rows to test after `step` steps, in the order of the tasks."""
        if not self.redraw:
            return self._fixed
        rows = [
            (task.name, *taken(pair, torch.as_tensor(task.indices(step))))
            for task, pair in zip(self.tasks, self._whole, strict=True)
        ]
        return self.scorer.together(rows, self.device)

    def split(self, values: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Return each task's values from those of all rows."""
        parts = zip(self.tasks, self._places, strict=True)
        return {task.name: values[at] for task, at in parts}


def device_of(model: object) -> torch.device:
    """Return where a model's first parameter is; the CPU for anything without one."""
    if isinstance(model, nn.Module):
        for tensor in chain(model.parameters(), model.buffers()):  # the first is found at once
            return tensor.device
    return torch.device("cpu")


def state_of(model: nn.Module) -> list[torch.Tensor]:
    """Return every parameter and buffer once; tied ones are one."""
    return list({id(tensor): tensor for tensor in all_state_of(model)}.values())


def all_state_of(model: nn.Module) -> list[torch.Tensor]:
    """Return every parameter and buffer, tied ones as often as they are tied.

    Read from the modules themselves, which takes half the time of `parameters()`.
    """
    return [
        tensor
        for module in model.modules()
        for tensor in (*module._parameters.values(), *module._buffers.values())  # noqa: SLF001
        if tensor is not None
    ]
