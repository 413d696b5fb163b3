"""Checks of a config: values out of range, and options that exclude each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..data import DATASETS
from ..models import MODELS
from ..models._check import check_options
from ..record import InputError
from ..scenarios import SCENARIOS, order_classes
from ..stats.schedules import parse_share
from ..strategies import STRATEGIES
from ..strategies.registry import check_ranges
from .schedules import LearningRateSchedule

if TYPE_CHECKING:
    from ..scenarios import ScenarioSpec
    from .config import RunConfig
    from .outlines import Outline

__all__ = ["check_config", "check_names"]

MAX_THREADS = 1024


def check_names(scenario: object, strategy: object) -> None:
    """Raise if the names of a scenario and a strategy are swapped."""
    if scenario in list(STRATEGIES) and strategy in list(SCENARIOS):
        raise InputError(
            f"scenario is {scenario!r}, which is a strategy, expected the scenario first: "
            f"perdure run {strategy} {scenario}"
        )


def check_config(config: RunConfig, strategy: Outline, scenario: ScenarioSpec) -> None:
    """Raise InputError unless the config describes a run that is possible and means something."""
    _check_numbers(config)
    check_ranges(config.strategy, config.options)
    if config.model in MODELS:
        check_options(config.model, config.model_options)
    if config.order is not None:
        order_classes(config.order, _count_classes(config, scenario, "order"))
    if config.num_tasks is not None:
        count = _count_classes(config, scenario, "num_tasks")
        if not 1 <= config.num_tasks <= count:
            raise InputError(
                f"num_tasks is {config.num_tasks} and {config.scenario} has {count} classes, "
                f"expected 1 to {count}"
            )
    tasks = config.num_tasks or scenario.tasks
    if config.task_order is not None and sorted(config.task_order) != list(range(tasks)):
        raise InputError(
            f"task_order is {config.task_order}, expected each task from 0 to {tasks - 1} once"
        )
    if scenario.own is None and (config.input or config.channels):
        raise InputError(f"{config.scenario} is not your own data; leave input and channels out")
    if config.image_size is not None and scenario.kind != "own" and "size" not in scenario.options:
        raise InputError(f"the image size of {config.scenario} is fixed; leave out `image_size=`")
    if config.boundaries != "sharp" and config.mask_unseen:
        raise InputError(
            "mask_unseen masks classes until their task starts, which needs sharp boundaries"
        )
    if config.boundaries == "none":
        _check_stream(config, strategy)
    if config.resample and config.subset is None:
        raise InputError("whole test sets leave no subset to resample; leave resample out")
    if config.patience is not None:
        _check_patience(config, strategy)
    if config.precision == "tf32" and not config.device.startswith("cuda"):
        raise InputError(f"precision is 'tf32', which {config.device} does not have; leave it out")
    schedule = LearningRateSchedule(config.schedule, **config.schedule_options)  # type: ignore[arg-type]
    schedule.check()
    if strategy.trains_at_task_end and not schedule.is_constant:
        raise InputError(
            f"{config.strategy} trains only at the end of a task; leave schedule and warmup out"
        )


def _count_classes(config: RunConfig, scenario: ScenarioSpec, option: str) -> int:
    """Return how many classes are divided into tasks; raise if the tasks are given."""
    if scenario.own is not None and not scenario.own.has_tasks:
        return scenario.own.classes
    if scenario.kind != "split":
        raise InputError(f"{config.scenario} is not split by class; leave {option} out")
    return sum(DATASETS[name].classes for name in scenario.data)


def _check_patience(config: RunConfig, strategy: Outline) -> None:
    if config.iterations is not None:
        raise InputError("patience and iterations both end a task; give one of them")
    if strategy.trains_on_all_tasks:
        raise InputError(f"{config.strategy} trains on all tasks at once; leave patience out")
    if strategy.trains_at_task_end:
        raise InputError(f"{config.strategy} trains only at the end of a task; leave patience out")


def _check_stream(config: RunConfig, strategy: Outline) -> None:
    if strategy.requires_boundaries:
        raise InputError(
            f"{config.strategy} requires task boundaries, and boundaries=none has none; choose "
            "boundaries=blurred, or naive, or replay with fill=reservoir"
        )
    if config.iterations or config.patience:
        raise InputError(
            "boundaries=none has no tasks, and iterations and patience count per task; leave them "
            "out"
        )
    if config.options.get("fill") == "end":
        raise InputError(
            f"{config.strategy} fills its memory at the end of each task, and boundaries=none has "
            "none; use `settings={'fill': 'reservoir'}`"
        )


def _check_share(every: str) -> None:
    try:
        parse_share(every)
    except ValueError as error:
        raise InputError(str(error)) from None


def _check_numbers(config: RunConfig) -> None:
    for name in (
        "epochs", "iterations", "batch", "every", "subset", "gradients", "threads", "patience",
    ):  # fmt: skip
        value = getattr(config, name)
        if isinstance(value, str):
            _check_share(value)
        elif value is not None and value < 1:
            raise InputError(f"{name} is {value}, expected a whole number of at least 1")
    if not 0 <= config.seed < 2**32:
        raise InputError(f"seed is {config.seed}, expected 0 or more, below 2**32")
    if config.threads > MAX_THREADS:
        raise InputError(f"threads is {config.threads}, expected at most {MAX_THREADS}")
    for name, in_range, expected in (
        ("early_stopping_split", 0 < config.early_stopping_split < 1, "above 0 and below 1"),
        ("validation_split", 0 <= config.validation_split < 1, "from 0 to below 1"),
        ("blur", 0 <= config.blur <= 1, "from 0 to 1"),
    ):
        if not in_range:
            raise InputError(f"{name} is {getattr(config, name):g}, expected a fraction {expected}")
    for name, value in config.optimizer_options.items():
        if value < 0:
            raise InputError(f"{name} is {value:g}, expected 0 or more")
