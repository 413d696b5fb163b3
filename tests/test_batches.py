"""Batches that are taken at once equal those taken one by one, and are joined without a copy."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from perdure.data.examples import Examples, concatenate


@pytest.mark.parametrize("heads", [False, True])
@pytest.mark.parametrize("task", [None, 1])
def test_batches_taken_at_once(heads: bool, task: int | None) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (9, 1, 2, 2), dtype=np.uint8)
    y, tasks = np.arange(9), np.array([1] * 5 + [0] * 4)
    examples = Examples(x, y, tasks, mean=[(0.1,), (0.2,)], std=[(0.3,), (0.4,)], heads=heads)
    parts = [np.array([4, 0, 2]), np.array([8, 5])]
    chosen = torch.from_numpy(np.concatenate(parts))
    batches = examples.take_batches(chosen, [3, 2], task)
    expected = [examples.take(parts[0], task), examples.take(parts[1])]
    for ours, other in zip(batches, expected, strict=True):
        assert torch.equal(ours.x, other.x)
        assert torch.equal(ours.y, other.y)
        assert str(ours.task) == str(other.task)  # a number, a tensor or None
    joined, copied = concatenate(*batches), concatenate(*expected)
    assert torch.equal(joined.x, copied.x)
    assert torch.equal(joined.y, copied.y)
    assert joined.x.data_ptr() == batches[0].x.data_ptr()
    assert copied.x.data_ptr() != expected[0].x.data_ptr()
