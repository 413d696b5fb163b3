"""A network in two parts, body and head, with one head or one for each task."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..record import InputError
from ._check import whole

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["HIDDEN", "Network"]

# The score of a class that may not be named. A power of two, so exact in every float format, and
# finite: softmax gives it 0, and a loss stays a number even where every class is hidden.
HIDDEN = -32768.0


class Network(nn.Module):
    """Scores of all classes for each example: `head(body(x))`, some of them hidden.

    `head` is a layer over all classes, or an `nn.ModuleList` with an `nn.Linear` for each task:
    then the columns of task 0 come first, those of task 1 follow, and so on. With `mask_unseen`
    the classes that were not yet opened are hidden, whatever the head.

    Example:
        >>> heads = nn.ModuleList([nn.Linear(4, 2), nn.Linear(4, 1)])
        >>> network = Network(nn.Flatten(), heads, outputs=3)
        >>> network(torch.zeros(5, 1, 2, 2), 1)[0, :2]
        tensor([-32768., -32768.], grad_fn=<SliceBackward0>)
    """

    body: nn.Module
    head: nn.Module
    unseen: Tensor | None  # of each class: True until it is opened
    opened: Tensor | None  # of each task with a head: True once it is opened
    task_of: Tensor | None  # of each class: the task whose head gives its score

    def __init__(
        self, body: nn.Module, head: nn.Module, outputs: int, *, mask_unseen: bool = False
    ) -> None:
        super().__init__()
        self.body, self.head, self.outputs = body, head, outputs
        sizes = [part.out_features for part in _heads(head)]
        assert not sizes or sum(sizes) == outputs
        self._ends = list(accumulate(sizes))
        self._open: list[int] = []  # the tasks in `opened`, read without waiting for a device
        unseen = torch.ones(outputs, dtype=torch.bool) if mask_unseen else None
        opened = torch.zeros(len(sizes), dtype=torch.bool) if sizes else None
        tasks = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes)) if sizes else None
        self.register_buffer("unseen", unseen)
        self.register_buffer("opened", opened)
        self.register_buffer("task_of", tasks, persistent=False)

    def forward(self, x: Tensor, task: int | Tensor | None = None) -> Tensor:
        """Return a score for each example and class; `task` matters to heads of their own only.

        A number computes the head of that task alone: the others get no gradient, not even zero.
        A tensor with the task of each example computes every head for all of them and hides the
        columns of other tasks, without waiting for a device. Where gradients are recorded these
        are the heads opened so far; a row of a task that was not opened is then hidden throughout.
        """
        return self.classify(self.body(x), task)

    def classify(self, features: Tensor, task: int | Tensor | None = None) -> Tensor:
        """Return the scores of features that the body gave: several heads, one pass of the body."""
        scores: Tensor
        if self.task_of is None:
            scores = self.head(features)
        elif isinstance(task, Tensor):
            scores = self._of_rows(features, task)
        else:
            scores = self._of_task(features, task)
        return scores if self.unseen is None else scores.masked_fill(self.unseen, HIDDEN)

    def open(self, task: int, classes: Sequence[int]) -> None:
        """Allow the classes of a task that begins; again changes nothing."""
        task, named = whole("open: task", task, 0), [whole("open: a class", c, 0) for c in classes]
        allowed = range(self.outputs)
        if self.opened is not None:
            allowed = self.columns(task)
        if wrong := [c for c in named if c not in allowed]:
            raise InputError(
                f"open: task {task} has class {wrong[0]}, expected classes from {allowed.start}"
                f" to {allowed.stop - 1}: number them in the order of the tasks"
            )
        if self.unseen is not None:
            self.unseen[named] = False
        if self.opened is not None:
            self.opened[task] = True
            self._open = sorted({*self._open, task})

    def columns(self, task: int) -> range:
        """Return the classes of a task with a head of its own."""
        if not 0 <= task < len(self._ends):
            raise InputError(
                f"task is {task}, expected 0 to {len(self._ends) - 1}: one for each head"
            )
        return range(self._ends[task - 1] if task else 0, self._ends[task])

    def _of_task(self, features: Tensor, task: int | None) -> Tensor:
        """Return scores where every example is of one task."""
        if task is None:
            raise InputError(
                "task is None, expected the task of the examples: each task has a head of its own"
            )
        columns = self.columns(task)
        scores: Tensor = _heads(self.head)[task](features)
        around = (columns.start, self.outputs - columns.stop)
        return functional.pad(scores, around, value=HIDDEN)

    def _of_rows(self, features: Tensor, tasks: Tensor) -> Tensor:
        """Return scores where each example has its own task."""
        if tasks.shape != features.shape[:1]:
            raise InputError(
                f"task has shape {tuple(tasks.shape)}, expected one task for each of"
                f" {len(features)} examples"
            )
        # Without gradients all heads: copies of a network get its tensors, not its `_open`.
        wanted = self._open if torch.is_grad_enabled() else range(len(self._ends))
        if not wanted:
            raise InputError("no task is open, expected open(task, classes) before training begins")
        heads = _heads(self.head)
        found = {task: heads[task](features) for task in wanted}
        like = found[wanted[0]]  # its type may not be that of the features: autocast
        scores = [
            found[task] if task in found else like.new_full((len(like), head.out_features), HIDDEN)
            for task, head in enumerate(heads)
        ]
        assert self.task_of is not None
        return torch.cat(scores, 1).masked_fill(self.task_of.ne(tasks.unsqueeze(1)), HIDDEN)

    def _load_from_state_dict(self, *args: Any, **options: Any) -> None:
        super()._load_from_state_dict(*args, **options)
        if self.opened is not None:
            self._open = [task for task, is_open in enumerate(self.opened.tolist()) if is_open]


def _heads(head: nn.Module) -> list[nn.Linear]:
    """Return the heads of the tasks, none where one head is for all."""
    return list(head) if isinstance(head, nn.ModuleList) else []  # type: ignore[arg-type]
