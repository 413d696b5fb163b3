"""What a config stands for: its data, scenario, learner and evaluator."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec
import torch

from ..data.examples import Examples
from ..data.own import ReadOptions
from ..evaluation import EvalTask, Evaluator, Record, Subset
from ..models import build
from ..record import InputError
from ..scenarios import (
    blur_boundaries,
    find_scenario,
    hold_out_validation,
    make_scenario,
    reorder_tasks,
)
from ..strategies import find_strategy
from .hyperparameters import LearningRateSchedule
from .loop import TrainingPlan
from .optimizers import build_optimizer

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping

    from torch import Tensor

    from ..models import Network
    from ..scenarios import Scenario, Setting, Task
    from ..strategies import Rows, Strategy
    from .config import RunConfig

__all__ = [
    "build_evaluator",
    "build_learner",
    "load_scenario",
    "make_scenario_key",
    "prepare_scenario",
]


def load_scenario(config: RunConfig) -> Scenario:
    """Return the scenario of a run; the one before is kept, for the next seed."""
    scenario = _load_scenario(make_scenario_key(config))
    return scenario if config.task_order is None else reorder_tasks(scenario, config.task_order)


class ScenarioKey(NamedTuple):
    """What a scenario depends on."""

    name: str
    setting: Setting
    order: tuple[int, ...] | int | None
    size: int | None
    tasks: int | None
    options: ReadOptions
    sha256: str | None


def make_scenario_key(config: RunConfig) -> ScenarioKey:
    """Return what the scenario of a config depends on: equal for equal scenarios."""
    return ScenarioKey(
        config.data_path or config.scenario,
        config.setting,
        tuple(config.order) if isinstance(config.order, list) else config.order,
        config.image_size,
        config.num_tasks,
        ReadOptions(config.input, config.channels, config.image_size),
        config.data_sha256,
    )


@lru_cache(maxsize=1)  # images take memory
def _load_scenario(key: ScenarioKey) -> Scenario:
    name, setting, order, size, tasks, options, sha256 = key
    if sha256 is not None:
        own = find_scenario(name, options).own
        if own is None or own.digest != sha256:
            raise InputError(f"{name}: the data has changed since the run was planned; try again")
        setting_ = None if own.classes == 0 and setting == own.setting else setting
        return make_scenario(
            name, setting=setting_, order=order, size=size, tasks=tasks, options=options
        )
    return make_scenario(name, setting=setting, order=order, size=size, tasks=tasks)


def prepare_scenario(config: RunConfig, scenario: Scenario) -> Scenario:
    """Return a scenario with the validation split and the blurred boundaries of a config."""
    if config.validation_split:
        scenario = hold_out_validation(scenario, config.validation_split, config.seed)
    if config.boundaries == "blurred":
        scenario = blur_boundaries(scenario, config.blur, config.seed)
    return scenario


def build_learner(config: RunConfig, scenario: Scenario) -> tuple[Strategy, TrainingPlan]:
    """Return the strategy with its network before the first step, and how to train it."""
    plan = TrainingPlan(
        batch=config.batch,
        epochs=config.epochs,
        iterations=config.iterations,
        seed=config.seed,
        patience=config.patience,
        early_stopping_split=config.early_stopping_split,
        boundaries=config.boundaries != "none",
        blur=config.blur,
        schedule=LearningRateSchedule(config.schedule, **config.schedule_options),  # type: ignore[arg-type]
        precision=config.precision,
    )
    torch.manual_seed(config.seed)
    network = build(
        config.model,
        scenario.shape,
        scenario.outputs,
        heads=scenario.heads,
        mask_unseen=config.mask_unseen,
        tokens=scenario.tokens,
        **config.model_options,
    ).to(config.device)
    if config.channels_last:
        network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    examples = Examples(
        *scenario.train,
        mean=scenario.mean,
        std=scenario.std,
        heads=scenario.heads is not None,
        device=config.device,
    )
    optimizer = build_optimizer(config, network)
    strategy_class = find_strategy(config.strategy)
    strategy = strategy_class(network, optimizer, examples, seed=config.seed, **config.options)
    return strategy, plan


def build_evaluator(
    config: RunConfig,
    scenario: Scenario,
    folder: str | os.PathLike[str],
    strategy: Strategy,
    *,
    overwrite: bool | Literal["unfinished"] = False,
    resume: Mapping[str, object] | None = None,
) -> Evaluator:
    """Return the evaluator of every task of the scenario."""
    heads = scenario.heads is not None
    test = Examples(*scenario.test, mean=scenario.mean, std=scenario.std, device=config.device)
    names = [task.name for task in scenario.tasks]

    def forward(model: Network, x: Tensor, task: str) -> Tensor:
        scores: Tensor = model(x, names.index(task))
        return scores

    def data(examples: Examples, rows: Rows) -> Callable[[], tuple[Tensor, Tensor]]:
        return lambda: examples.take(rows)[:2]

    def make_task(task: Task) -> EvalTask:
        train = data(strategy.examples, task.train) if config.evaluate_train else None
        classes = task.classes if heads else None
        return EvalTask(data(test, task.test), classes=classes, train=train)

    return Evaluator(
        {task.name: make_task(task) for task in scenario.tasks},
        every=config.every,
        subset=Subset(config.subset, seed=config.seed, resample=config.resample),
        unseen=config.unseen,
        initial="all" if config.unseen else "entered",
        forward=forward if heads else None,
        record=Record(folder, overwrite=overwrite, resume=resume, per_example=config.per_example),
        # Without weights, as in the strategy `random`, there are no operations to count.
        count_flops=any(True for _ in strategy.model.parameters()),
        progress=False,
        config={
            **msgspec.to_builtins(config),
            "scenario": config.scenario if config.data_path else scenario.name,
            "setting": scenario.setting,
            "tasks": names,
            "task_classes": {task.name: list(task.classes) for task in scenario.tasks},
            "class_names": list(scenario.class_names),
            "examples": {task.name: [len(task.train), len(task.test)] for task in scenario.tasks},
            "normalised_by": {"mean": scenario.mean, "std": scenario.std},
            "data": scenario.data,
            "deviations": list(scenario.deviations),
        },
    )
