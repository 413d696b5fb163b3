"""All tasks at once: what the network could reach without a stream. The upper bound."""

from __future__ import annotations

from typing import ClassVar

from .naive import Naive

__all__ = ["Joint"]


class Joint(Naive):
    """Learns the examples of all tasks shuffled into one, for as many passes as the stream makes.

    The loop gives it one task with everything in it and multiplies the epochs by the number of
    tasks, as the guide of seed 4 does.
    """

    all_at_once: ClassVar[bool] = True
