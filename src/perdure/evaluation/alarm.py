"""A bell that rings when a live number crosses a limit by more than noise."""

from __future__ import annotations

import re
from math import isfinite, log, sqrt
from typing import TYPE_CHECKING

from ..metrics import parse_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from .live import Live, LiveTask

__all__ = ["Alarm", "AlarmTriggered", "sure_side"]

RULE = re.compile(r"\s*([a-z_]+\d*)\s*([<>])\s*([-+.\deE]+)\s*")
LEVEL = 0.95


class AlarmTriggered(RuntimeError):
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
        self.ringing = False
        self.function = rule if callable(rule) else None
        self.rule = None if callable(rule) else _parsed(rule)

    def heard(self, live: Live) -> str | None:
        """Return what to say if the bell rings now, else None."""
        message = self._message(live)
        rings, self.ringing = message is not None and not self.ringing, message is not None
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
        if not live.scale.is_accuracy:
            return f"{id_} is {value:.4g}: {id_} {sign} {limit:g} (no interval for such scores)"
        word = "at most" if sign == "<" else "at least"
        return f"{id_} is {value:.4g}, {word} {end:.4g} by its interval: {id_} {sign} {limit:g}"


def sure_side(live: Live, id_: str, *, above: bool) -> float:
    """Return the upper (or lower) end of an interval of a live number, for all tests of a run.

    Each score that takes part has its exact (Clopper-Pearson) limit. The k-th test of a task may
    err with probability .05 / (k (k + 1)), shared among the tasks: over a run of any length these
    add up to .05. Drops and rises have Hoeffding's limit in the same way. Of scores that are not
    accuracies only the value itself is known.
    """
    value = live[id_]
    assert value is not None
    if not live.scale.is_accuracy:
        return value
    sign = 1.0 if above else -1.0
    if (window := parse_id(id_).arguments.get("window")) is not None:
        tested = [mine for mine in live.tasks.values() if mine.tests]
        noise = sum(_change_noise(mine, window, len(tested)) for mine in tested)
        return value + sign * noise / len(tested)
    current = live.tasks[live.task] if live.task in live.tasks and id_ != "min_acc" else None
    older = live.older() if id_ != "current" else []
    parts = len(older) + (current is not None)
    noise = sum(_noise(m.low, m.n, m.tests_since, parts, above=above) for m in older)
    if current is not None and current.score is not None:
        noise += _noise(current.score, current.n, current.tests, parts, above=above)
    return value + sign * noise / parts


def _noise(score: float, n: int, tests: int, parts: int, *, above: bool) -> float:
    """Return how far beyond `score`, the extreme of so many tests, the truth may lie."""
    from scipy.special import betaincinv  # imported here: only a rule that may ring needs it

    share, right = _share(tests, parts), round(score * n)
    if above:
        return float(betaincinv(right + 1, n - right, 1 - share)) - score if right < n else 0.0
    return score - float(betaincinv(right, n - right + 1, share)) if right else 0.0


def _change_noise(mine: LiveTask, window: int, parts: int) -> float:
    """Return by how much a drop or rise between two tests of a window may be noise."""
    pairs = min(window, mine.tests)
    return sqrt(2 * log(pairs / _share(mine.tests, parts)) / mine.n)


def _share(tests: int, parts: int) -> float:
    return (1 - LEVEL) / (parts * tests * (tests + 1))


def _parsed(rule: object) -> tuple[str, str, float]:
    found = RULE.fullmatch(rule) if isinstance(rule, str) else None
    try:
        limit = float(found[3]) if found else float("nan")
    except ValueError:
        limit = float("nan")
    if not found or not isfinite(limit):
        raise ValueError(f"alarm is {rule!r}, expected a rule like 'min_acc < 0.6' or a function")
    return found[1], found[2], limit
