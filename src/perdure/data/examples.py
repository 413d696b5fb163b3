"""Training examples on a device: stored as they are, normalized when a batch is taken."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ._load import Inputs

__all__ = ["Batch", "Examples", "concatenate"]


class Batch(NamedTuple):
    """One minibatch on the device of the model.

    `task` is a number if all examples belong to one task, a tensor if they do not, and None if the
    model does not have one head per task. `rows` are the row numbers of the examples.
    """

    x: Tensor
    y: Tensor
    task: int | Tensor | None = None
    rows: Tensor | None = None


class Examples:
    """The examples of a scenario, identified by their row numbers.

    Args:
        x: images (N, C, H, W) as bytes or float32, features (N, F) as float32, or tokens (N, L)
            as int64, which are not normalized.
        y: the correct output of each example.
        task: the task of each example.
        mean: what is subtracted from x (bytes: x / 255) per channel or feature: one row for all
            tasks, or one per task.
        std: what the difference is divided by, likewise.
        heads: whether the model has one head per task, so that batches carry their tasks.
        device: where the examples are stored.

    Example:
        >>> x = np.full((3, 1, 2, 2), 255, dtype=np.uint8)
        >>> y, task = np.array([0, 1, 1]), np.zeros(3, dtype=np.int64)
        >>> examples = Examples(x, y, task, mean=[(0.5,)], std=[(0.25,)])
        >>> batch = examples.take(np.array([2, 0]))
        >>> batch.x.shape, round(batch.x.max().item(), 6), batch.y
        (torch.Size([2, 1, 2, 2]), 2.0, tensor([1, 0]))
    """

    def __init__(
        self,
        x: Inputs,
        y: NDArray[np.int64],
        task: NDArray[np.int64],
        *,
        mean: Sequence[Sequence[float]],
        std: Sequence[Sequence[float]],
        heads: bool = False,
        device: torch.device | str = "cpu",
    ) -> None:
        self.labels, self.tasks = y, task  # on the CPU, where rows are selected
        self.shape: tuple[int, ...] = x.shape[1:]
        self.device = torch.device(device)
        self._x = torch.tensor(x, device=self.device)
        self._y = torch.tensor(y, device=self.device)
        self._task = torch.tensor(task, device=self.device)
        self._heads = heads
        std_ = torch.tensor(std, dtype=torch.float64)
        mean_ = torch.tensor(mean, dtype=torch.float64)
        # (x / 255 - mean) / std in one multiplication and one addition
        unit = 255 if x.dtype == np.uint8 else 1
        size = (*std_.shape, *[1] * (len(self.shape) - 1))
        self._gain = (1 / (unit * std_)).float().view(size).to(self.device)
        self._bias = (-mean_ / std_).float().view(size).to(self.device)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def bytes_each(self) -> int:
        """The bytes needed to store one example and its label."""
        return int(np.prod(self.shape)) * self._x.itemsize + self.labels.itemsize

    @property
    def dtype(self) -> torch.dtype:
        """The type in which the examples are stored."""
        return self._x.dtype

    def take(self, rows: NDArray[np.int64], task: int | None = None) -> Batch:
        """Return the normalized examples at `rows`, as a copy that may be written to.

        Args:
            rows: the row numbers.
            task: the task of all these examples, so that only its head has to be computed.
        """
        return self.take_on_device(self.rows_on_device(rows), task)

    def rows_on_device(self, rows: NDArray[np.int64]) -> Tensor:
        """Return row numbers as a tensor next to the examples."""
        writeable = rows if rows.flags.writeable else rows.copy()  # required by PyTorch
        return torch.from_numpy(writeable).to(self.device, non_blocking=True)

    def take_on_device(self, chosen: Tensor, task: int | None = None) -> Batch:
        """Return what `take` does for row numbers that are next to the examples."""
        gain, bias = self._gain, self._bias
        if len(gain) > 1:
            tasks = self._task[chosen]
            gain, bias = gain[tasks], bias[tasks]
        # Selecting flat rows and normalizing in place is four times as fast on a CPU.
        x = self._x.flatten(1).index_select(0, chosen).view(-1, *self.shape)
        if self.dtype is not torch.int64:  # tokens
            x = x.float().mul_(gain).add_(bias)
        tasks_of_rows = self._task[chosen] if self._heads and task is None else task
        return Batch(x, self._y[chosen], tasks_of_rows if self._heads else None, chosen)

    def take_batches(
        self, chosen: Tensor, sizes: Sequence[int], task: int | None = None
    ) -> list[Batch]:
        """Return the examples at `chosen` in batches of these sizes, taken at once.

        Args:
            chosen: row numbers, next to the examples.
            sizes: the number of examples in each batch.
            task: the task of all examples of the first batch.
        """
        whole = self.take_on_device(chosen)
        tasks: Sequence[int | Tensor | None] = [None] * len(sizes)
        if isinstance(whole.task, Tensor):
            tasks = whole.task.split(list(sizes))
            tasks = [tasks[0] if task is None else task, *tasks[1:]]
        x, y, rows = (part.split(list(sizes)) for part in (whole.x, whole.y, chosen))
        return [Batch(*part) for part in zip(x, y, tasks, rows, strict=True)]


def concatenate(first: Batch, second: Batch) -> Batch:
    """Return two batches as a single one; nothing is copied if they were taken at once.

    Example:
        >>> a = Batch(torch.zeros(2, 1), torch.tensor([0, 0]), 0)
        >>> b = Batch(torch.ones(1, 1), torch.tensor([3]), 1)
        >>> concatenate(a, b).task
        tensor([0, 0, 1])
    """
    task: int | Tensor | None = first.task
    if task is not None and second.task is not None:
        is_same = isinstance(task, int) and isinstance(second.task, int) and task == second.task
        task = task if is_same else torch.cat([_expand_task(first), _expand_task(second)])
    rows = None if first.rows is None or second.rows is None else _join(first.rows, second.rows)
    return Batch(_join(first.x, second.x), _join(first.y, second.y), task, rows)


def _join(first: Tensor, second: Tensor) -> Tensor:
    """Return two tensors as one: a view of both if the second follows the first in memory."""
    follows = (
        first.is_contiguous()
        and second.is_contiguous()
        and first.dtype == second.dtype
        and first.shape[1:] == second.shape[1:]
        and first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr()
        and first.storage_offset() + first.numel() == second.storage_offset()
    )
    if follows and not (first.requires_grad or second.requires_grad):
        return first.as_strided((len(first) + len(second), *first.shape[1:]), first.stride())
    return torch.cat([first, second])


def _expand_task(batch: Batch) -> Tensor:
    if isinstance(batch.task, Tensor):
        return batch.task
    assert batch.task is not None
    return torch.full_like(batch.y, batch.task)
