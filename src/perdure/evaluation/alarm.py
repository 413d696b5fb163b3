"""Alarms: conditions on the live metrics, met only beyond their statistical noise."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import isfinite, log, sqrt
from typing import TYPE_CHECKING, Literal

from .arguments import check_choice
from .live import metric_window

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..metrics import ScoreScale
    from .live import Live, LiveTask
    from .recorder import Recorder

    Condition = str | Callable[[Live], bool | str | None]

__all__ = ["Alarm", "AlarmMonitor", "AlarmTriggered", "as_alarm", "interval_end"]

RULE = re.compile(r"\s*([a-z_]+\d*)\s*([<>])\s*([-+.\deE]+)\s*")
CONFIDENCE = 0.95


class AlarmTriggered(RuntimeError):
    """Raised by an alarm whose action is to stop training."""


@dataclass(frozen=True)
class Alarm:
    """A condition on the live metrics, and what happens once it is met.

    Args:
        condition: a rule like `"min_acc < 0.6"` with any live metric and `<` or `>`; or a
            function of `evaluator.live` that returns whether to trigger, or the message.
        action: `"warn"`, or `"stop"` to raise `AlarmTriggered`.

    A rule triggers only if the whole confidence interval of the metric lies beyond the limit, so
    that a minimum over many evaluations of few examples does not trigger it by chance. A function
    decides by itself. An alarm triggers once, and again after its condition ceased to hold.

    Example:
        >>> Alarm("min_acc < 0.6").rule
        ('min_acc', '<', 0.6)
    """

    condition: Condition
    action: Literal["warn", "stop"] = "warn"

    def __post_init__(self) -> None:
        check_choice("action", self.action, ("warn", "stop"))
        self.rule  # noqa: B018 - raises for a rule that cannot be parsed

    @property
    def rule(self) -> tuple[str, str, float] | None:
        """The metric, the sign and the limit of a rule; None for a function."""
        return None if callable(self.condition) else _parse(self.condition)

    def prepare(self, live: Live) -> None:
        """Have `live` compute the metric of the rule, or raise if there is no such metric."""
        if self.rule is None:
            return
        metric = self.rule[0]
        if window := metric_window(metric):
            live.add_windows(window)
        try:
            live[metric]
        except KeyError as error:
            raise ValueError(f"alarm is {self.condition!r}: {error.args[0]}") from None
        _check_limit(self.rule, live.scale)

    def message(self, live: Live) -> str | None:
        """Return what to report if the condition is met, else None."""
        if callable(self.condition):
            result = _call(self.condition, live)
            if isinstance(result, str):
                return result or None
            return "its function returned true" if result else None
        metric, sign, limit = _parse(self.condition)
        value = live[metric]
        if value is None or not (value < limit if sign == "<" else value > limit):
            return None
        end = interval_end(live, metric, upper=sign == "<")
        if not (end < limit if sign == "<" else end > limit):
            return None
        rule = f"{metric} {sign} {limit:g}"
        if not live.scale.is_accuracy:
            return f"{metric} is {value:.4g}: {rule} (no interval for such scores)"
        bound = "at most" if sign == "<" else "at least"
        return f"{metric} is {value:.4g}, {bound} {end:.4g} by its interval: {rule}"


def _call(condition: Callable[[Live], bool | str | None], live: Live) -> bool | str | None:
    """Return what a function of `live` decides; explain the error if it compares a None."""
    try:
        return condition(live)
    except TypeError as error:
        if "NoneType" not in str(error):
            raise
        raise TypeError(
            f"the function of the alarm failed at step {live.step}: {error}; a live metric is None "
            "while it is undefined (min_acc during the first task), expected a function that "
            "allows for it: lambda live: live.min_acc is not None and live.min_acc < 0.6"
        ) from error


def as_alarm(alarm: Alarm | Condition | None) -> Alarm | None:
    """Return an alarm from its condition; an `Alarm` and None as they are."""
    return alarm if alarm is None or isinstance(alarm, Alarm) else Alarm(alarm)


class AlarmMonitor:
    """Remembers whether an alarm is active, so that it triggers once until its condition ends."""

    def __init__(self, alarm: Alarm) -> None:
        self.alarm, self.active = alarm, False

    def check(self, live: Live) -> str | None:
        """Return the message if the alarm triggers now, else None."""
        message = self.alarm.message(live)
        triggers, self.active = message is not None and not self.active, message is not None
        return message if triggers else None

    def report(self, step: int, recorder: Recorder) -> None:
        """Warn, or raise AlarmTriggered, if the alarm triggers now; the record says so."""
        if (reason := self.check(recorder.live)) is None:
            return
        message = f"alarm at step {step}: {reason}"
        if self.alarm.action == "warn":
            recorder.warn(message)
            return
        recorder.note(message)
        raise AlarmTriggered(message)


def interval_end(live: Live, metric: str, *, upper: bool) -> float:
    """Return the upper (or lower) end of a confidence interval that holds throughout a run.

    Each score involved has its exact (Clopper-Pearson) limit. The k-th evaluation of a task may
    err with probability .05 / (k (k + 1)), shared among the tasks: over a run of any length these
    sum to .05. Drops and rises have Hoeffding's limit in the same way. For scores that are not
    accuracies only the value itself is known.
    """
    value = live[metric]
    assert value is not None
    if not live.scale.is_accuracy:
        return value
    sign = 1.0 if upper else -1.0
    if (window := metric_window(metric)) is not None:
        evaluated = [task for task in live.tasks.values() if task.evaluations]
        noise = sum(_change_noise(task, window, len(evaluated)) for task in evaluated)
        return value + sign * noise / len(evaluated)
    current = live.tasks[live.task] if live.task in live.tasks and metric != "min_acc" else None
    older = live.older() if metric != "current" else []
    parts = len(older) + (current is not None)
    noise = sum(
        _noise(task.low, task.n, task.evaluations_since_end, parts, upper=upper) for task in older
    )
    if current is not None and current.score is not None:
        noise += _noise(current.score, current.n, current.evaluations, parts, upper=upper)
    return value + sign * noise / parts


def _noise(score: float, n: int, evaluations: int, parts: int, *, upper: bool) -> float:
    """Return how far beyond `score`, the extreme of many evaluations, the truth may lie."""
    from scipy.special import betaincinv  # imported here: only a rule that is close needs it

    error, correct = _error_probability(evaluations, parts), round(score * n)
    if upper:
        high = float(betaincinv(correct + 1, n - correct, 1 - error)) if correct < n else score
        return high - score
    return score - float(betaincinv(correct, n - correct + 1, error)) if correct else 0.0


def _change_noise(task: LiveTask, window: int, parts: int) -> float:
    """Return by how much a drop or rise between two evaluations of a window may be noise."""
    pairs = min(window, task.evaluations)
    return sqrt(2 * log(pairs / _error_probability(task.evaluations, parts)) / task.n)


def _error_probability(evaluations: int, parts: int) -> float:
    return (1 - CONFIDENCE) / (parts * evaluations * (evaluations + 1))


def _check_limit(rule: tuple[str, str, float], scale: ScoreScale) -> None:
    """Raise for a limit that no score can reach, such as 60 for an accuracy of 0.6."""
    metric, sign, limit = rule
    low, high = scale.low, scale.high
    if metric_window(metric):  # a drop or a rise
        low, high = 0.0, scale.high - scale.low
    if low <= limit <= high:
        return
    in_percent = scale.is_accuracy and 1 < limit <= 100
    advice = f"; write '{metric} {sign} {limit / 100:g}'" if in_percent else ""
    raise ValueError(
        f"alarm is '{metric} {sign} {limit:g}': {metric} lies between {low:g} and {high:g}, "
        f"expected a limit in that range{advice}"
    )


def _parse(rule: object) -> tuple[str, str, float]:
    match = RULE.fullmatch(rule) if isinstance(rule, str) else None
    try:
        limit = float(match[3]) if match else float("nan")
    except ValueError:
        limit = float("nan")
    if not match or not isfinite(limit):
        raise ValueError(
            f"alarm is {rule!r}, expected a rule like 'min_acc < 0.6' or 'wf50 > 0.2', or a "
            "function"
        )
    return match[1], match[2], limit
