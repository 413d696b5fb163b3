"""What a config needs to know of a strategy and a model, and checks of its values and options.

Strategies and models import PyTorch, which takes seconds. Ours are therefore outlined from their
source, which is parsed and never executed; a user's own, `module:name`, has to be imported.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from ..data import DATASETS
from ..models import MODELS
from ..models.registry import check_options, unknown_model
from ..record import InputError
from ..scenarios import SCENARIOS, order_classes
from ..stats.schedules import parse_share
from ..strategies import STRATEGIES, find_strategy
from ..strategies.registry import check_ranges
from .hyperparameters import (
    Hyperparameter,
    LearningRateSchedule,
    list_hyperparameters,
    make_hyperparameter,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..scenarios import ScenarioSpec
    from .config import RunConfig

__all__ = ["Outline", "check_config", "check_names", "outline_model", "outline_strategy"]

PACKAGE = Path(__file__).parents[1]
FLAGS = ("requires_boundaries", "trains_on_all_tasks", "trains_at_task_end")
MAX_THREADS = 1024


class Outline(NamedTuple):
    """What is known about a strategy or a model without building it."""

    hyperparameters: Mapping[str, Hyperparameter]
    requires_boundaries: bool = False
    trains_on_all_tasks: bool = False
    trains_at_task_end: bool = False
    code: str = ""  # SHA-256 of the file of the user's own


def outline_strategy(name: str) -> Outline:
    """Return the outline of a strategy by its name, or of your own for "module:Class".

    Example:
        >>> list(outline_strategy("gem").hyperparameters), outline_strategy("gem").code
        (['memory', 'strength', 'implementation'], '')
    """
    if name in STRATEGIES:
        info = STRATEGIES[name]
        return _read_class(PACKAGE / "strategies" / f"{info.module}.py", info.class_name)
    own = find_strategy(name)
    flags = {flag: getattr(own, flag) for flag in FLAGS}
    return Outline(list_hyperparameters(own, skip=("seed",)), **flags, code=_hash_source(own))


def outline_model(name: str) -> Outline:
    """Return the outline of a model by its name, or of your own for "module:factory".

    Example:
        >>> outline_model("resnet18-slim").hyperparameters["filters"].default
        20
    """
    if name in MODELS:
        module, _, function = MODELS[name].partition(":")
        path = PACKAGE / "models" / f"{module.rpartition('.')[2]}.py"
        return Outline(_read_parameters(_read_definitions(path)[function]))
    if ":" not in name:
        raise unknown_model(name)
    from ..models import find_factory

    factory = find_factory(name)
    return Outline(list_hyperparameters(factory), code=_hash_source(factory))


def _read_class(path: Path, name: str) -> Outline:
    """Return the outline of a class in a file of ours; what it lacks comes from its base class."""
    definitions = _read_definitions(path)
    if name not in definitions:
        path = PACKAGE / "strategies" / "_base.py"
        definitions = _read_definitions(path)
    body = definitions[name]
    assert isinstance(body, ast.ClassDef)
    base = next((b.id for b in body.bases if isinstance(b, ast.Name) and b.id != "ABC"), None)
    outline = Outline({}) if base is None else _read_class(path, base)
    flags = {
        node.target.id: ast.literal_eval(node.value)
        for node in body.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
        if node.target.id in FLAGS and node.value is not None
    }
    for node in body.body:
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            outline = outline._replace(hyperparameters=_read_parameters(node))
    return outline._replace(**flags)


@cache
def _read_definitions(path: Path) -> dict[str, ast.ClassDef | ast.FunctionDef]:
    """Return the classes and functions of a module by name."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {
        node.name: node for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)
    }


def _read_parameters(function: ast.ClassDef | ast.FunctionDef) -> dict[str, Hyperparameter]:
    """Return the keyword-only parameters of a function in a file of ours."""
    assert isinstance(function, ast.FunctionDef)
    found = {}
    for argument, default in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True):
        assert argument.annotation is not None
        if argument.arg != "seed":
            value = inspect.Parameter.empty if default is None else ast.literal_eval(default)
            annotation = ast.unparse(argument.annotation)
            found[argument.arg] = make_hyperparameter(annotation, value, {"Literal": Literal})
    return found


def _hash_source(value: Callable[..., object]) -> str:
    """Return the SHA-256 of the file in which the user's own strategy or factory is defined."""
    try:
        return hashlib.sha256(Path(inspect.getfile(value)).read_bytes()).hexdigest()
    except (TypeError, OSError):
        return "unknown"


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


def _check_numbers(config: RunConfig) -> None:
    for name in (
        "epochs", "iterations", "batch", "every", "subset", "gradients", "threads", "patience",
    ):  # fmt: skip
        value = getattr(config, name)
        if isinstance(value, str):
            try:
                parse_share(value)
            except ValueError as error:
                raise InputError(str(error)) from None
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
