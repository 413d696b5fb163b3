"""How long a run will take here, from a few of its steps."""

from __future__ import annotations

import tempfile
import time
import warnings
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

import msgspec
import torch

from .loop import DivergedError, count_steps, list_phases, train
from .run import build_evaluator, build_learner, load_scenario, prepare_scenario

if TYPE_CHECKING:
    from .config import RunConfig

__all__ = ["estimate_seconds", "make_duration_key"]

STEPS = 8  # of each task; the first three are slower, their operations are counted
LIMIT = 3.0  # seconds after which later tasks are taken to be like the last one seen


def make_duration_key(config: RunConfig) -> bytes:
    """Return what a run's time depends on: equal for runs that take about equally long.

    Example:
        >>> from perdure.training import make_config
        >>> slow, fast = (make_config("split-digits", "naive", settings={"lr": r}) for r in (1, 2))
        >>> make_duration_key(slow) == make_duration_key(fast)
        True
    """
    said = msgspec.to_builtins(config)
    for name in ("seed", "validation_split", "optimizer_options"):
        del said[name]
    options = config.options.items()
    said["options"] = {name: value for name, value in options if not isinstance(value, float)}
    return msgspec.json.encode(said, order="sorted")


def estimate_seconds(config: RunConfig) -> float:
    """Return about how many seconds a run takes, testing included, on a machine like this one.

    A few steps of each task are done and thrown away; what a strategy does at a task's end is done
    in full.

    Example:
        >>> from perdure.training import make_config
        >>> 0 < estimate_seconds(make_config("split-digits", "naive", epochs=1)) < 1000
        True
    """
    began = time.perf_counter()
    try:
        return _measured(config)
    except DivergedError:  # and so will the run, about here
        return time.perf_counter() - began


def _measured(config: RunConfig) -> float:
    torch.set_num_threads(config.threads)
    scenario = prepare_scenario(config, load_scenario(config))
    strategy, plan = build_learner(config, scenario)
    short = plan._replace(iterations=STEPS, patience=None)
    count = len(list_phases(scenario, plan))
    began, total = time.perf_counter(), 0.0
    with (
        tempfile.TemporaryDirectory() as folder,
        warnings.catch_warnings(action="ignore"),
        build_evaluator(config, scenario, folder, strategy) as evaluator,
    ):
        start, ticks, phase, steps = began, list[float](), 0, 0
        for at in train(scenario, strategy, short, evaluator, gradients=config.gradients):
            now = time.perf_counter()
            if at.phase != phase:  # the one before has ended, its end included
                total += now - start + steps * _step(ticks)
                if now - began > LIMIT:
                    share = total / at.phase
                    return total + share * (count - at.phase)
                start, ticks, phase = now, [], at.phase
            ticks.append(now)
            steps = max(0, count_steps(at.rows, plan) - STEPS) if at.rows is not None else 0
    return total + time.perf_counter() - start + steps * _step(ticks)


def _step(ticks: list[float]) -> float:
    """Return the seconds of a step, from the times after each."""
    apart = [after - before for before, after in pairwise(ticks[3:])]
    return median(apart) if apart else 0.0
