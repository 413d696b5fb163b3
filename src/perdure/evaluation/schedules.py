"""When to evaluate: every n steps, or densely after a task switch and sparsely later."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, inf
from typing import Protocol

from .arguments import check_integer

__all__ = ["Burst", "Every", "Schedule", "as_schedule", "burst", "every"]


class Schedule(Protocol):
    """Anything with a method `due`, which decides whether to evaluate after a step."""

    def due(self, step: int, task_step: int) -> bool:
        """Return whether to evaluate after `step` steps, `task_step` of them in this task."""
        ...


@dataclass(frozen=True)
class Every:
    """Evaluate every `n` training steps.

    Example:
        >>> [step for step in range(1, 8) if Every(3).due(step, task_step=step)]
        [3, 6]
    """

    n: int

    def __post_init__(self) -> None:
        check_integer("every", self.n, 1)

    def due(self, step: int, task_step: int) -> bool:  # noqa: ARG002 - the protocol
        """Return whether to evaluate after `step` steps, `task_step` of them in this task."""
        return step % self.n == 0


@dataclass(frozen=True)
class Burst:
    """Evaluate after each of the `first` steps of a task, then less and less often.

    The gaps grow by the factor `growth` up to `then` steps. Scores tend to drop and recover right
    after a task switch, so this finds most minima at a fraction of the cost.

    Example:
        >>> burst = Burst(first=3, then=8)
        >>> [step for step in range(1, 40) if burst.due(100 + step, task_step=step)]
        [1, 2, 3, 5, 9, 17, 25, 33]
    """

    first: int
    then: int
    growth: float = 2.0

    def __post_init__(self) -> None:
        check_integer("burst: first", self.first, 1)
        check_integer("burst: then", self.then, 1)
        if not 1 < self.growth < inf:
            raise ValueError(f"burst: growth is {self.growth!r}, expected a number above 1")
        marks, gap, j = [self.first], 1, 0
        while gap < self.then:
            j += 1
            gap = min(self.then, ceil(self.growth**j))
            marks.append(marks[-1] + gap)
        object.__setattr__(self, "_marks", frozenset(marks))
        object.__setattr__(self, "_last", marks[-1])

    def due(self, step: int, task_step: int) -> bool:  # noqa: ARG002 - the protocol
        """Return whether to evaluate after `step` steps, `task_step` of them in this task."""
        last: int = self._last  # type: ignore[attr-defined]  # set above; the class is frozen
        if task_step > last:
            return (task_step - last) % self.then == 0
        return task_step <= self.first or task_step in self._marks  # type: ignore[attr-defined]


every = Every
burst = Burst


def as_schedule(every: int | Schedule) -> Schedule:
    """Return a schedule from a number of steps or from a schedule.

    Example:
        >>> as_schedule(10)
        Every(n=10)
    """
    if hasattr(every, "due") and not isinstance(every, type):
        return every
    if not isinstance(every, int):
        raise TypeError(f"every is {every!r}, expected a number of steps or perdure.burst(…)")
    return Every(every)
