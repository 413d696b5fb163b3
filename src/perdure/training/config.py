"""The config of a run: every choice written down before it starts, given or by default."""

from __future__ import annotations

import hashlib
import inspect
import typing
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

import msgspec

from .._suggestions import suggest_names
from ..data.own import ReadOptions
from ..models.registry import check_integers
from ..record import InputError
from ..record.group_names import name_replicate
from ..scenarios import SCENARIOS, find_scenario, locate_own
from ..strategies import resolve_strategy
from .config_checks import check_config, check_names, outline_model, outline_strategy
from .hyperparameters import SCHEDULES, Hyperparameter, describe_types, parse_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..scenarios import ScenarioSpec

__all__ = [
    "CHECKPOINT_SECONDS",
    "OPTIMIZERS",
    "RunConfig",
    "count_tasks",
    "list_setting_names",
    "make_config",
]

CHECKPOINT_SECONDS = 120.0  # between two checkpoints of a run
# The hyperparameters of each optimizer with their defaults.
OPTIMIZERS: dict[str, dict[str, float]] = {
    "sgd": {"lr": 0.01, "momentum": 0.9, "weight_decay": 0.0},
    "adam": {"lr": 0.001, "weight_decay": 0.0},
    "adamw": {"lr": 0.001, "weight_decay": 0.01},
}

# Fields that do not change the name of a run's folder: always, or if they have this value.
NOT_HASHED: dict[str, object] = {
    "schedule": "constant", "schedule_options": {"warmup": 0}, "task_order": None,
    "num_tasks": None, "input": None, "precision": "default", "channels_last": False,
    "channels": None, "data_path": ..., "data_sha256": None, "evaluate_train": False,
}  # fmt: skip
# The same for options of strategies and models.
NOT_HASHED_OPTIONS: dict[str, object] = {
    "implementation": "perdure", "batch_norm_momentum": 0.1, "batch_norm_eps": 1e-5,
    "padding": "symmetric",
}  # fmt: skip
NOT_HASHED_INITIALIZATION = {"efficientnet-b1": "torchvision", "wide-vgg9": "pytorch"}


class RunConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Everything that determines what a run computes. Equal configs give the same bits."""

    scenario: str
    strategy: str
    model: str
    setting: Literal["class", "task", "domain"]
    seed: int = 0
    epochs: int  # per task
    iterations: int | None  # per task, instead of epochs
    batch: int
    optimizer: str
    optimizer_options: dict[str, float]
    schedule: Literal["constant", "cosine", "step"] = "constant"  # of the learning rate, per task
    schedule_options: dict[str, int | float]
    options: dict[str, Any]  # of the strategy
    model_options: dict[str, Any]
    mask_unseen: bool = False
    order: list[int] | int | None = None  # of the classes
    image_size: int | None = None
    boundaries: Literal["sharp", "blurred", "none"] = "sharp"
    blur: float = 0.1
    patience: int | None = None
    early_stopping_split: float = 0.1
    validation_split: float = 0.0  # evaluate on this fraction of the training data; 0: on test sets
    every: int | str = 1  # a share of the time as text: 10%
    subset: int | None = 1000
    resample: bool = False
    unseen: bool = False
    evaluate_train: bool = False  # also on training examples, which no metric uses
    per_example: bool = True
    gradients: int | None = None
    threads: int = 1
    device: str = "cpu"
    precision: Literal["default", "float32", "tf32", "bfloat16"] = "default"  # of training
    channels_last: bool = False  # how weights of convolutions are stored
    code: dict[str, str]  # SHA-256 of the files of the user's own strategy or network
    task_order: list[int] | None = None  # of the tasks; None: as published
    num_tasks: int | None = None  # that the classes are divided into; None: as published, or stated
    input: Literal["images", "features", "tokens"] | None = None  # of the user's own arrays
    channels: Literal["first", "last"] | None = None
    data_path: str | None = None  # of the user's own data, or module:function
    data_sha256: str | None = None

    @property
    def order_and_seed(self) -> tuple[tuple[int, ...] | None, int]:
        """The task order and the seed, over which metrics vary."""
        return None if self.task_order is None else tuple(self.task_order), self.seed

    @property
    def replicate(self) -> str:
        """What tells a run from the others of its method: the seed and, if stated, the order."""
        return name_replicate(self.seed, self.task_order)

    @property
    def folder(self) -> str:
        """The name of the run's folder in a store."""
        fields = msgspec.to_builtins(self)
        for name, default in NOT_HASHED.items():
            if default is ... or fields[name] == default:
                del fields[name]
        defaults = {**NOT_HASHED_OPTIONS}
        if self.model in NOT_HASHED_INITIALIZATION:
            defaults["initialization"] = NOT_HASHED_INITIALIZATION[self.model]
        for options in (fields["options"], fields["model_options"]):
            for name, default in defaults.items():
                if name in options and options[name] == default:
                    del options[name]
        digest = hashlib.sha256(msgspec.json.encode(fields, order="sorted")).hexdigest()[:8]
        strategy = self.strategy.replace(":", "-")
        return f"{self.scenario}-{strategy}-s{self.seed}-{digest}"


def make_config(
    scenario: str = "split-digits",
    strategy: str = "replay",
    *,
    settings: Mapping[str, object] | None = None,
    model: str | None = None,
    optimizer: str | None = None,
    schedule: str = "constant",
    epochs: int | None = None,
    iterations: int | None = None,
    batch: int | None = None,
    setting: Literal["class", "task", "domain"] | None = None,
    **options: object,
) -> RunConfig:
    """Return the config of a run.

    Options that you do not set default to the values published for the scenario.

    Args:
        scenario: One of `perdure.scenarios.SCENARIOS`, the path of your own data, or
            "module:function".
        strategy: One of `perdure.strategies.STRATEGIES`, or "module:Class".
        settings: Hyperparameters of strategy, optimizer, schedule and model by name; values may be
            text.
        model: One of `perdure.models.MODELS`, or "module:factory".
        optimizer: "sgd", "adam" or "adamw".
        schedule: How the learning rate changes in each task: "constant", "cosine" or "step".
        epochs: Passes over the training data per task.
        iterations: Iterations per task, instead of epochs.
        batch: New examples per iteration.
        setting: What is incremental.
        options: The other fields of `RunConfig`.

    Example:
        >>> run = make_config("split-mnist", "replay", settings={"alpha": "0.5"})
        >>> run.options["alpha"], run.options["memory"], run.optimizer_options["lr"], run.epochs
        (0.5, 2000, 0.01, 10)
    """
    check_names(scenario, strategy)
    spec = find_scenario(scenario, ReadOptions.of(options))
    strategy = resolve_strategy(strategy)
    defaults = spec.defaults_for(setting)
    lengths = (epochs, iterations, options.get("patience"))
    if lengths == (None, None, None) and options.get("boundaries") != "none":
        iterations = defaults.iterations
    model, optimizer = model or defaults.model, optimizer or defaults.optimizer
    if optimizer not in list(OPTIMIZERS):  # a study may contain a list, which has no hash
        raise InputError(f"optimizer is {optimizer!r:.40}, expected sgd, adam or adamw")
    if schedule not in list(SCHEDULES):
        raise InputError(f"schedule is {schedule!r:.40}, expected constant, cosine or step")
    of_strategy, of_model = outline_strategy(strategy), outline_model(model)
    strategy_options, optimizer_options, schedule_options, model_options = _resolve_settings(
        settings or {},
        [
            _Owner(strategy, of_strategy.hyperparameters,
                   defaults.strategies.get(strategy, {})),
            _Owner(optimizer, _list_optimizer_hyperparameters(optimizer),
                   {"lr": defaults.lr} if optimizer == defaults.optimizer else {}),
            _Owner(f"schedule {schedule}", SCHEDULES[schedule], {}),
            _Owner(model, of_model.hyperparameters,
                   defaults.model_options if model == defaults.model else {}),
        ],
    )  # fmt: skip
    named = ((strategy, of_strategy), (model, of_model))
    config = _convert(
        {
            **options,
            **_describe_source(scenario, spec),
            "strategy": strategy,
            "model": model,
            "setting": setting or spec.setting,
            "epochs": defaults.epochs if epochs is None else epochs,
            "iterations": iterations,
            "batch": defaults.batch if batch is None else batch,
            "optimizer": optimizer,
            "optimizer_options": optimizer_options,
            "schedule": schedule,
            "schedule_options": schedule_options,
            "options": strategy_options,
            "model_options": model_options,
            "code": {name: outline.code for name, outline in named if ":" in name},
        }
    )
    check_config(config, of_strategy, spec)
    return _drop_unused(config)


@cache
def list_setting_names(
    strategy: str, model: str, optimizer: str, schedule: str = "constant"
) -> tuple[str, ...]:
    """Return the hyperparameters that `make_config` accepts as settings.

    Example:
        >>> list_setting_names("replay", "mlp", "sgd")[-4:]
        ('momentum', 'weight_decay', 'warmup', 'hidden')
    """
    own, of_model = outline_strategy(strategy), outline_model(model)
    trained_with = (*OPTIMIZERS[optimizer], *SCHEDULES[schedule])
    return (*own.hyperparameters, *trained_with, *of_model.hyperparameters)


class _Owner(NamedTuple):
    """A strategy, an optimizer or a model, and its hyperparameters."""

    name: str
    known: Mapping[str, Hyperparameter]
    published: Mapping[str, object]  # values for the scenario


def _list_optimizer_hyperparameters(optimizer: str) -> dict[str, Hyperparameter]:
    return {name: Hyperparameter((float,), rate) for name, rate in OPTIMIZERS[optimizer].items()}


def _resolve_settings(
    settings: Mapping[str, object], owners: Sequence[_Owner]
) -> list[dict[str, object]]:
    """Return the hyperparameters of each owner: as given, else as published, else by default.

    The first owner that knows a name takes its value.
    """
    resolved = [
        {name: kind.default for name, kind in owner.known.items()} | dict(owner.published)
        for owner in owners
    ]
    for name, value in settings.items():
        index = next((k for k, owner in enumerate(owners) if name in owner.known), None)
        if index is None:
            raise _unknown_setting(name, owners)
        known = owners[index].known[name]
        if isinstance(known.default, list | tuple):  # 400,400 makes the config of [400, 400]
            sizes = cast("int | str | Sequence[int]", value)
            resolved[index][name] = list(check_integers(name, sizes))
        else:
            resolved[index][name] = parse_value(name, value, known.types)
    for name, value in (item for values in resolved for item in values.items()):
        if value is inspect.Parameter.empty:
            raise InputError(f"{name} has no default; set it with `settings={{'{name}': …}}`")
    return resolved


def _unknown_setting(name: str, owners: Sequence[_Owner]) -> InputError:
    names = [known for owner in owners for known in owner.known]
    lists = "; ".join(f"{owner.name} has {', '.join(owner.known) or 'none'}" for owner in owners)
    return InputError(
        f"hyperparameter {name!r:.40} is not known; {suggest_names(name, names)}{lists}"
    )


def count_tasks(config: RunConfig) -> int:
    """Return the number of tasks of a config."""
    if config.num_tasks is not None:
        return config.num_tasks
    options = ReadOptions(config.input, config.channels, config.image_size)
    return find_scenario(config.data_path or config.scenario, options).tasks


def _describe_source(scenario: str, spec: ScenarioSpec) -> dict[str, object]:
    """Return the fields of a config that name the data."""
    if spec.own is None:
        return {"scenario": scenario}
    name = spec.own.name
    return {
        "scenario": f"own-{name}" if name in SCENARIOS else name,
        "data_path": locate_own(scenario),
        "data_sha256": spec.own.digest,
    }


def _drop_unused(config: RunConfig) -> RunConfig:
    """Return a config in which fields without an effect have no effect on the folder either."""
    if config.task_order == sorted(config.task_order or ()):  # the order that is published
        config = msgspec.structs.replace(config, task_order=None)
    if config.boundaries == "sharp":
        config = msgspec.structs.replace(config, blur=0.0)
    return config if config.patience else msgspec.structs.replace(config, early_stopping_split=0.0)


def _convert(fields: Mapping[str, object]) -> RunConfig:
    """Return a config whose fields have their types: 0 becomes 0.0 where it is a float."""
    known = RunConfig.__struct_fields__
    if unknown := [name for name in fields if name not in known]:
        hint = suggest_names(unknown[0], known) or "`perdure run --help` lists them; "
        raise InputError(
            f"there is no option {unknown[0]!r:.40}; {hint}hyperparameters are in `settings=`"
        )
    try:
        return msgspec.convert(fields, RunConfig)
    except msgspec.ValidationError as error:
        reason, _, path = str(error).partition(" - at `$.")
        name = path.strip("`")
        kind = {field.name: field.type for field in msgspec.structs.fields(RunConfig)}.get(name)
        if typing.get_origin(kind) is Literal:
            reason = f"expected {describe_types((kind,))}"
        start = f"{name} is {fields[name]!r:.40}, " if name in fields else ""
        raise InputError(start + reason[0].lower() + reason[1:]) from None
