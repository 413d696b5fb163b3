"""The named random streams: which generator draws what, and how it is seeded."""

from __future__ import annotations

from typing import Final

import numpy as np

__all__ = ["RANDOM_STREAMS", "random_stream"]

# Name -> salt. A stream's numbers follow from the run's seed, its salt and where it is used (a
# task, an epoch), so no stream depends on how much another one has drawn. Changing a salt changes
# results. `gdumb_order` and `validation_split` share a salt, and therefore their first numbers. Not
# in the table: weights come from PyTorch's global generator seeded with the run's seed, and the
# evaluation subset of a task is salted with the checksum of the task's name.
RANDOM_STREAMS: Final = {
    "batch_order": 0,  # the order of a task's examples in an epoch
    "blur": 1,  # the examples that tasks exchange
    "drift": 2,  # the order of a stream without boundaries
    "memory_draws": 3,  # the examples replayed in a step
    "memory_priority": 4,  # the examples that a memory keeps
    "guesses": 5,  # the hash function of the strategy `random`
    "early_stopping_split": 6,  # the examples held out for early stopping
    "fisher_labels": 7,  # the labels sampled for EWC's Fisher matrix
    "gdumb_order": 8,  # the order in which GDumb trains on its memory
    "validation_split": 8,  # the examples held out for validation
    "class_order": 9,  # the order of the classes
    "task_order": 10,  # the task orders of `--orders`, one after the other
    "own_test_split": 11,  # the test set of your own data that has none
    "pixel_permutations": 784,  # the permutations of permuted-mnist
}


def random_stream(name: str, seed: int, *position: int) -> np.random.Generator:
    """Return the generator of a named stream.

    Args:
        name: one of `RANDOM_STREAMS`.
        seed: the seed of the run.
        position: where in the run it draws, such as the task and the epoch.

    Example:
        >>> random_stream("batch_order", 0, 2, 1).permutation(4)
        array([1, 3, 0, 2])
    """
    return np.random.default_rng([seed, RANDOM_STREAMS[name], *position])
