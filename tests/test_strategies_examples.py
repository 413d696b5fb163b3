"""Batches against arithmetic in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from perdure.data.examples import Batch, Examples, concatenate


def examples(tasks: int = 3, channels: int = 3, *, each: bool = True, heads: bool = False) -> Any:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (60, channels, 4, 5), dtype=np.uint8)
    y, task = rng.integers(0, 7, 60), rng.integers(0, tasks, 60)
    count = tasks if each else 1
    mean, std = rng.random((count, channels)), 0.1 + rng.random((count, channels))
    for array in (x, y, task):
        array.setflags(write=False)
    found = Examples(x, y, task, mean=mean.tolist(), std=std.tolist(), heads=heads)
    return found, x, y, task, mean, std


@pytest.mark.parametrize("each", [True, False])
def test_images_are_normalised_by_their_channel_and_their_task(each: bool) -> None:
    found, x, y, task, mean, std = examples(each=each)
    rows = np.array([5, 59, 0, 5, 31])
    batch = found.take(rows)
    assert batch.x.dtype == torch.float32
    for place, row in enumerate(rows):
        own = task[row] if each else 0
        for channel in range(3):
            wanted = (x[row, channel] / 255 - mean[own, channel]) / std[own, channel]
            np.testing.assert_allclose(batch.x[place, channel].numpy(), wanted, atol=2e-6)
    assert batch.y.tolist() == y[rows].tolist()


def test_a_row_is_the_same_in_every_batch() -> None:
    found, *_ = examples()
    whole = found.take(np.arange(60)).x
    for rows in (np.array([7]), np.array([9, 7, 3]), np.arange(59, -1, -1)):
        assert torch.equal(found.take(rows).x, whole[torch.tensor(rows)])


def test_a_batch_is_a_copy() -> None:
    found, x, *_ = examples()
    before = found.take(np.arange(60))
    batch = found.take(np.arange(60))
    batch.x.zero_()
    batch.y.zero_()
    after = found.take(np.arange(60))
    assert torch.equal(before.x, after.x)
    assert torch.equal(before.y, after.y)
    assert x.any()


def test_tasks_are_told_where_heads_need_them() -> None:
    found, _, _, task, *_ = examples(heads=True)
    one = np.flatnonzero(task == 2)
    assert found.take(one, 2).task == 2
    alike = found.take(one).task  # whether rows happen to be of one task changes no program
    assert isinstance(alike, torch.Tensor)
    assert alike.tolist() == [2] * len(one)
    mixed = found.take(np.arange(10)).task
    assert isinstance(mixed, torch.Tensor)
    assert mixed.tolist() == task[:10].tolist()
    assert examples()[0].take(one).task is None


def test_bytes_are_those_of_pixels_and_label() -> None:
    assert examples()[0].bytes_each == 3 * 4 * 5 + 8
    assert examples(channels=1)[0].bytes_each == 4 * 5 + 8


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (None, None, None),
        (1, 1, 1),
        (1, 0, [1, 1, 0]),
        (torch.tensor([2, 0]), 1, [2, 0, 1]),
        (0, torch.tensor([2]), [0, 0, 2]),
        (torch.tensor([1, 1]), torch.tensor([1]), [1, 1, 1]),
    ],
)
def test_joined_batches_keep_order_and_tasks(first: Any, second: Any, expected: Any) -> None:
    a = Batch(torch.tensor([[1.0], [2.0]]), torch.tensor([5, 6]), first)
    b = Batch(torch.tensor([[3.0]]), torch.tensor([7]), second)
    both = concatenate(a, b)
    assert both.x.flatten().tolist() == [1.0, 2.0, 3.0]
    assert both.y.tolist() == [5, 6, 7]
    task = both.task.tolist() if isinstance(both.task, torch.Tensor) else both.task
    assert task == expected
