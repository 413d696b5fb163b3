"""How long a run will take on this machine, estimated from a few of its steps."""

from __future__ import annotations

import tempfile
import time
import warnings
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

import msgspec
import torch

from .loop import count_steps, list_phases, train
from .monitoring import DivergedError
from .setup import build_evaluator, build_learner, load_scenario, prepare_scenario

if TYPE_CHECKING:
    from .config import RunConfig

__all__ = ["estimate_seconds", "make_duration_key"]

STEPS = 8  # per task
SLOW_STEPS = 3  # the first ones, whose operations are counted
MAX_SECONDS = 3.0  # after which later tasks are assumed to take as long as those before


def make_duration_key(config: RunConfig) -> bytes:
    """Return a key that is equal for runs that take about equally long.

    Example:
        >>> from perdure.training import make_config
        >>> slow, fast = (make_config("split-digits", "naive", settings={"lr": r}) for r in (1, 2))
        >>> make_duration_key(slow) == make_duration_key(fast)
        True
    """
    fields = msgspec.to_builtins(config)
    for name in ("seed", "validation_split", "optimizer_options", "schedule_options"):
        del fields[name]
    options = config.options.items()
    fields["options"] = {name: value for name, value in options if not isinstance(value, float)}
    return msgspec.json.encode(fields, order="sorted")


def estimate_seconds(config: RunConfig) -> float:
    """Return about how many seconds a run takes on a machine like this one, with evaluation.

    A few steps per task are done and discarded; what a strategy does at the end of a task is done
    completely.

    Example:
        >>> from perdure.training import make_config
        >>> 0 < estimate_seconds(make_config("split-digits", "naive", epochs=1)) < 1000
        True
    """
    start = time.perf_counter()
    try:
        return _measure(config)
    except DivergedError:  # as the run itself will, about here
        return time.perf_counter() - start


def _measure(config: RunConfig) -> float:
    torch.set_num_threads(config.threads)
    scenario = prepare_scenario(config, load_scenario(config))
    strategy, plan = build_learner(config, scenario)
    short = plan._replace(iterations=STEPS, patience=None)
    phases = len(list_phases(scenario, plan))
    start, total = time.perf_counter(), 0.0
    with (
        tempfile.TemporaryDirectory() as folder,
        warnings.catch_warnings(action="ignore"),
        build_evaluator(config, scenario, folder, strategy) as evaluator,
    ):
        phase_start, ticks, phase, left = start, list[float](), 0, 0
        for position in train(scenario, strategy, short, evaluator, gradients=config.gradients):
            now = time.perf_counter()
            if position.phase != phase:  # the one before has ended, and so has its end_task
                total += now - phase_start + left * _seconds_per_step(ticks)
                if now - start > MAX_SECONDS:
                    return total + total / position.phase * (phases - position.phase)
                phase_start, ticks, phase = now, [], position.phase
            ticks.append(now)
            if position.rows is not None:
                left = max(0, count_steps(position.rows, plan) - STEPS)
    return total + time.perf_counter() - phase_start + left * _seconds_per_step(ticks)


def _seconds_per_step(ticks: list[float]) -> float:
    """Return the median time of a step, from the times after each."""
    seconds = [after - before for before, after in pairwise(ticks[SLOW_STEPS:])]
    return median(seconds) if seconds else 0.0
