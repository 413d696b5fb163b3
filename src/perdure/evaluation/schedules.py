"""When to test: every n steps, or densely after a switch and sparsely later."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, inf
from typing import Protocol

from ._arguments import check_whole

__all__ = ["Burst", "Every", "Schedule", "as_schedule", "burst", "every"]


class Schedule(Protocol):
    """Anything that says whether to test after `step` steps, `since` of them after a switch."""

    def due(self, step: int, since: int) -> bool:
        """Return whether the model is tested now."""
        ...


@dataclass(frozen=True)
class Every:
    """Test after every `n`-th step of the whole run.

    Example:
        >>> [step for step in range(1, 8) if Every(3).due(step, since=step)]
        [3, 6]
    """

    n: int

    def __post_init__(self) -> None:
        check_whole("every", self.n, 1)

    def due(self, step: int, since: int) -> bool:  # noqa: ARG002 - the contract
        """Return whether the model is tested now."""
        return step % self.n == 0


@dataclass(frozen=True)
class Burst:
    """Test after each of the `first` steps that follow a switch, then ever more rarely.

    Gaps grow by the factor `growth` until one test every `then` steps remains. Where scores fall
    and recover right after a switch, the minimum is kept at a fraction of the cost.

    Example:
        >>> [step for step in range(1, 40) if Burst(first=3, then=8).due(100 + step, since=step)]
        [1, 2, 3, 5, 9, 17, 25, 33]
    """

    first: int
    then: int
    growth: float = 2.0

    def __post_init__(self) -> None:
        check_whole("burst: first", self.first, 1)
        check_whole("burst: then", self.then, 1)
        if not 1 < self.growth < inf:
            raise ValueError(f"burst: growth is {self.growth!r}, expected a number above 1")
        marks, gap, j = [self.first], 1, 0
        while gap < self.then:
            j += 1
            gap = min(self.then, ceil(self.growth**j))
            marks.append(marks[-1] + gap)
        object.__setattr__(self, "_marks", frozenset(marks))
        object.__setattr__(self, "_last", marks[-1])

    def due(self, step: int, since: int) -> bool:  # noqa: ARG002 - the contract
        """Return whether the model is tested now."""
        last: int = self._last  # type: ignore[attr-defined]  # set above; the class is frozen
        if since > last:
            return (since - last) % self.then == 0
        return since <= self.first or since in self._marks  # type: ignore[attr-defined]


every = Every
burst = Burst


def as_schedule(given: int | Schedule) -> Schedule:
    """Return a schedule from a number of steps or from a schedule.

    Example:
        >>> as_schedule(10)
        Every(n=10)
    """
    if hasattr(given, "due") and not isinstance(given, type):
        return given
    if not isinstance(given, int):
        raise TypeError(f"every is {given!r}, expected a number of steps or perdure.burst(…)")
    return Every(given)
