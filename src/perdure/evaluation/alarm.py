"""A bell that rings when a live number crosses a limit by more than noise."""

from __future__ import annotations

import re
from math import isfinite, log, sqrt
from typing import TYPE_CHECKING

from ..metrics import wilson

if TYPE_CHECKING:
    from collections.abc import Callable

    from .live import Live, LiveTask

__all__ = ["Alarm", "AlarmRang", "sure_side"]

RULE = re.compile(r"\s*([a-z_]+\d*)\s*([<>])\s*([-+.\deE]+)\s*")
LEVEL = 0.95


class AlarmRang(RuntimeError):
    """Raised by an alarm that stops training."""


class Alarm:
    """Rings when a rule begins to hold, once until it no longer holds.

    Args:
        rule: `"min_acc < 0.6"` with any live number, `<` or `>`; or a function of the live numbers
            that returns whether to ring, or what to say.

    A rule rings only if the interval of the number lies beyond the limit as a whole: what a
    minimum over so many evaluations of so few examples does by chance is no alarm. A function
    decides by itself.

    Example:
        >>> Alarm("min_acc < 0.6").rule
        ('min_acc', '<', 0.6)
    """

    def __init__(self, rule: str | Callable[[Live], bool | str | None]) -> None:
        self._ringing = False
        self.function = None if isinstance(rule, str) else rule
        self.rule = _parsed(rule) if isinstance(rule, str) else None

    def heard(self, live: Live) -> str | None:
        """Return what to say if the bell rings now, else None."""
        message = self._message(live)
        rings, self._ringing = message is not None and not self._ringing, message is not None
        return message if rings else None

    def _message(self, live: Live) -> str | None:
        if self.function is not None:
            said = self.function(live)
            return (said if isinstance(said, str) else "its function said so") if said else None
        assert self.rule is not None
        id_, sign, limit = self.rule
        value = live[id_]
        if value is None or not (value < limit if sign == "<" else value > limit):
            return None
        end = sure_side(live, id_, above=sign == "<")
        if not (end < limit if sign == "<" else end > limit):
            return None
        word = "at most" if sign == "<" else "at least"
        return f"{id_} is {value:.4g}, {word} {end:.4g} by its interval: {id_} {sign} {limit:g}"


def sure_side(live: Live, id_: str, *, above: bool) -> float:
    """Return the upper (or lower) end of an interval of a live number: 95 % for all steps at once.

    Wilson's interval of each score that takes part, at a level that allows for all the
    evaluations among which a minimum or a drop was the most extreme (Bonferroni). Of scores that
    are not accuracies only the value itself is known.
    """
    value = live[id_]
    assert value is not None
    if not live.scale.is_accuracy:
        return value
    sign = 1.0 if above else -1.0
    if id_[:2] in ("wf", "wp"):
        window = int(id_[2:])
        tested = [mine for mine in live.tasks.values() if mine.tests]
        return value + sign * sum(_drop_noise(m, window, len(tested)) for m in tested) / len(tested)
    current = live.tasks[live.task] if live.task in live.tasks and id_ != "min_acc" else None
    older = live.older() if id_ != "current" else []
    parts = len(older) + (current is not None)
    noise = sum(_noise(m.low, m.n, m.tests_since * parts, above=above) for m in older)
    if current is not None and current.score is not None:
        noise += _noise(current.score, current.n, parts, above=above)
    return value + sign * noise / parts


def _noise(score: float, n: int, competing: int, *, above: bool) -> float:
    """Return how far beyond `score` the truth may lie, if it is the extreme of so many."""
    level = 1 - 2 * (1 - LEVEL) / max(competing, 1)  # one side only
    low, high = wilson(score, n, level=level)
    return float(high) - score if above else score - float(low)


def _drop_noise(mine: LiveTask, window: int, parts: int) -> float:
    """Return by how much a drop of accuracy between two tests of a window may be noise.

    Two means over n examples differ from the truth by at most so much (Hoeffding's inequality
    for their difference), for all pairs at once.
    """
    pairs = max(mine.tests, 1) * min(window, max(mine.tests, 1))
    return sqrt(2 * log(pairs * parts / (1 - LEVEL)) / mine.n)


def _parsed(rule: str) -> tuple[str, str, float]:
    found = RULE.fullmatch(rule)
    try:
        limit = float(found[3]) if found else float("nan")
    except ValueError:
        limit = float("nan")
    if not found or not isfinite(limit):
        raise ValueError(f"alarm is {rule!r}, expected a rule like 'min_acc < 0.6' or a function")
    return found[1], found[2], limit
