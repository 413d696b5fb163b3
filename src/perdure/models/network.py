"""A network in two parts, body and head, with a shared head or one head per task."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..record import InputError
from ._check import check_integer

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["HIDDEN", "Network"]

# The score of a hidden class. A power of two is exact in every float format. It is finite, so that
# its softmax is 0 but the loss stays a number even if every class is hidden.
HIDDEN = -32768.0


class Network(nn.Module):
    """Returns scores of all classes per example: `head(body(x))`, some of them hidden.

    Args:
        body: the layers before the head.
        head: a layer over all classes, or an `nn.ModuleList` with one `nn.Linear` per task, whose
            outputs are concatenated in the order of the tasks.
        outputs: the number of classes.
        mask_unseen: hide the classes that were not opened yet.

    Example:
        >>> heads = nn.ModuleList([nn.Linear(4, 2), nn.Linear(4, 1)])
        >>> network = Network(nn.Flatten(), heads, outputs=3)
        >>> network(torch.zeros(5, 1, 2, 2), 1)[0, :2]
        tensor([-32768., -32768.], grad_fn=<SliceBackward0>)
    """

    body: nn.Module
    head: nn.Module
    unseen: Tensor | None  # per class: True until it is opened
    opened: Tensor | None  # per task with its own head: True once it is opened
    task_of: Tensor | None  # per class: the task whose head computes its score

    def __init__(
        self, body: nn.Module, head: nn.Module, outputs: int, *, mask_unseen: bool = False
    ) -> None:
        super().__init__()
        self.body, self.head, self.outputs = body, head, outputs
        sizes = [part.out_features for part in _heads(head)]
        assert not sizes or sum(sizes) == outputs
        self._ends = list(accumulate(sizes))
        self._open: list[int] = []  # the tasks in `opened`, without waiting for the device
        unseen = torch.ones(outputs, dtype=torch.bool) if mask_unseen else None
        opened = torch.zeros(len(sizes), dtype=torch.bool) if sizes else None
        tasks = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes)) if sizes else None
        self.register_buffer("unseen", unseen)
        self.register_buffer("opened", opened)
        self.register_buffer("task_of", tasks, persistent=False)
        self.register_load_state_dict_post_hook(Network._restore_open_tasks)  # type: ignore[no-untyped-call]

    def forward(self, x: Tensor, task: int | Tensor | None = None) -> Tensor:
        """Return one score per example and class.

        Args:
            x: the images.
            task: used only with one head per task. A number computes the head of that task alone;
                the others get no gradient, not even zero. A tensor with the task of each example
                computes all heads for all examples and hides the classes of other tasks, without
                waiting for the device. If gradients are recorded, only heads opened so far are
                computed, and an example of another task gets hidden scores throughout.
        """
        return self.classify(self.body(x), task)

    def classify(self, features: Tensor, task: int | Tensor | None = None) -> Tensor:
        """Return the scores for features of the body, so that several heads share one pass."""
        scores: Tensor
        if self.task_of is None:
            scores = self.head(features)
        elif isinstance(task, Tensor):
            scores = self._classify_each(features, task)
        else:
            scores = self._classify_task(features, task)
        return scores if self.unseen is None else scores.masked_fill(self.unseen, HIDDEN)

    def open(self, task: int, classes: Sequence[int]) -> None:
        """Make the classes of a task available; repeating it changes nothing."""
        task = check_integer("open: task", task, 0)
        named = [check_integer("open: a class", number, 0) for number in classes]
        allowed = range(self.outputs) if self.opened is None else self.columns(task)
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
        """Return the classes of a task that has its own head."""
        if not 0 <= task < len(self._ends):
            raise InputError(f"task is {task}, expected 0 to {len(self._ends) - 1}, one per head")
        return range(self._ends[task - 1] if task else 0, self._ends[task])

    def _classify_task(self, features: Tensor, task: int | None) -> Tensor:
        """Return scores if all examples belong to one task."""
        if task is None:
            raise InputError(
                "task is None, expected the task of the examples: each task has its own head"
            )
        columns = self.columns(task)
        scores: Tensor = _heads(self.head)[task](features)
        around = (columns.start, self.outputs - columns.stop)
        return functional.pad(scores, around, value=HIDDEN)

    def _classify_each(self, features: Tensor, tasks: Tensor) -> Tensor:
        """Return scores if each example has its own task."""
        if tasks.shape != features.shape[:1]:
            raise InputError(
                f"task has shape {tuple(tasks.shape)}, expected one task for each of"
                f" {len(features)} examples"
            )
        # All heads without gradients: copies for evaluation share the tensors, but not `_open`.
        tasks_to_compute = self._open if torch.is_grad_enabled() else range(len(self._ends))
        if not tasks_to_compute:
            raise InputError("no task is open, expected open(task, classes) before training")
        heads = _heads(self.head)
        computed = {task: heads[task](features) for task in tasks_to_compute}
        like = computed[tasks_to_compute[0]]  # with autocast its type differs from the features'
        scores = [
            computed[task]
            if task in computed
            else like.new_full((len(like), head.out_features), HIDDEN)
            for task, head in enumerate(heads)
        ]
        assert self.task_of is not None
        return torch.cat(scores, 1).masked_fill(self.task_of.ne(tasks.unsqueeze(1)), HIDDEN)

    def _restore_open_tasks(self, _incompatible_keys: object) -> None:
        """Update the open tasks after `load_state_dict`, which calls this as a hook."""
        if self.opened is not None:
            self._open = [task for task, is_open in enumerate(self.opened.tolist()) if is_open]


def _heads(head: nn.Module) -> list[nn.Linear]:
    """Return the heads of the tasks; empty if there is a shared head."""
    return list(head) if isinstance(head, nn.ModuleList) else []  # type: ignore[arg-type]
