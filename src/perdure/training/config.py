"""What a run is: every choice written down before it starts, given or by default."""

from __future__ import annotations

import hashlib
import inspect
import typing
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from .._suggestions import suggest_names
from ..data import DATASETS
from ..models import find_factory
from ..record import InputError
from ..scenarios import find_scenario, order_classes
from ..strategies import find_strategy
from .hyperparameters import describe_types, list_hyperparameters, parse_value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..scenarios import ScenarioSpec
    from ..strategies import Strategy

__all__ = ["OPTIMIZERS", "RunConfig", "list_setting_names", "make_config"]

# What each optimizer takes, with defaults; lr comes from the scenario's set-up where it fits.
OPTIMIZERS: dict[str, dict[str, float]] = {
    "sgd": {"lr": 0.01, "momentum": 0.9, "weight_decay": 0.0},
    "adam": {"lr": 0.001, "weight_decay": 0.0},
}


class RunConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Everything that decides what a run computes. Two equal ones give the same bits."""

    scenario: str
    strategy: str
    model: str
    setting: Literal["class", "task", "domain"]
    seed: int
    epochs: int
    iterations: int | None
    batch: int
    optimizer: str
    optimizer_options: dict[str, float]
    options: dict[str, Any]  # of the strategy
    model_options: dict[str, Any]
    mask_unseen: bool
    order: list[int] | int | None
    image_size: int | None
    boundaries: Literal["sharp", "blurred", "none"]
    blur: float
    patience: int | None
    early_stopping_split: float
    validation_split: float  # this share of the training data is tested on; 0 is the test set
    every: int
    subset: int | None
    resample: bool
    unseen: bool
    per_example: bool
    gradients: int | None
    threads: int
    device: str
    code: dict[str, str]  # sha256 of the files of a strategy or network of the user's own

    @property
    def folder(self) -> str:
        """The name of the run's folder in a store."""
        said = msgspec.to_builtins(self)
        if not self.validation_split:
            del said["validation_split"]  # folders keep the names they had before it was there
        digest = hashlib.sha256(msgspec.json.encode(said, order="sorted")).hexdigest()[:8]
        strategy = self.strategy.replace(":", "-")
        return f"{self.scenario}-{strategy}-s{self.seed}-{digest}"


def make_config(
    scenario: str = "split-digits",
    strategy: str = "replay",
    *,
    settings: Mapping[str, Any] | None = None,
    model: str | None = None,
    optimizer: str | None = None,
    epochs: int | None = None,
    iterations: int | None = None,
    batch: int | None = None,
    setting: Literal["class", "task", "domain"] | None = None,
    **more: Any,
) -> RunConfig:
    """Return the config of a run: what is given, and the rest as the scenario's paper has it.

    Args:
        scenario: one of `perdure.scenarios.SCENARIOS`.
        strategy: one of `perdure.strategies.STRATEGIES`, or "module:Class".
        settings: hyperparameters of strategy, optimizer and model by name, as text or as they are.
        model: one of `perdure.models.MODELS`, or "module:factory".
        optimizer: sgd or adam.
        epochs: passes over each task.
        iterations: steps of each task, instead.
        batch: new examples in a step.
        setting: what is incremental.
        more: the other fields of `RunConfig`.

    Example:
        >>> run = make_config("split-mnist", "replay", settings={"alpha": "0.5"})
        >>> run.options["alpha"], run.options["memory"], run.optimizer_options["lr"], run.epochs
        (0.5, 2000, 0.01, 10)
    """
    named = find_scenario(scenario)
    set_up = named.defaults_for(setting)
    lengths = (epochs, iterations, more.get("patience"))
    if lengths == (None, None, None) and more.get("boundaries") != "none":
        iterations = set_up.iterations
    chosen = optimizer or set_up.optimizer
    if chosen not in [*OPTIMIZERS]:  # a study may give a list, which has no hash
        raise InputError(f"optimizer is {chosen!r:.40}, expected sgd or adam")
    network = model or set_up.model
    kind, factory = find_strategy(strategy), find_factory(network)
    rates = OPTIMIZERS[chosen] | ({"lr": set_up.lr} if chosen == set_up.optimizer else {})
    given = _given(
        settings or {},
        {strategy: list_hyperparameters(kind, skip=("seed",)),
         chosen: {name: (float, rate) for name, rate in rates.items()},
         network: list_hyperparameters(factory)},
        {strategy: set_up.strategies.get(strategy, {}),
         network: set_up.model_options if network == set_up.model else {}},
    )  # fmt: skip
    defaults: dict[str, Any] = {
        "seed": 0, "mask_unseen": False, "order": None, "image_size": None,
        "boundaries": "sharp", "blur": 0.1, "patience": None, "early_stopping_split": 0.1,
        "validation_split": 0.0, "every": 1,
        "subset": 1000, "resample": False, "unseen": False, "per_example": True, "gradients": None,
        "threads": 1, "device": "cpu",
    }  # fmt: skip
    rest = {**defaults, **more}
    rest["code"] = {
        name: _digest(made) for name, made in ((strategy, kind), (network, factory)) if ":" in name
    }
    found = _typed(
        scenario=scenario,
        strategy=strategy,
        model=network,
        setting=setting or named.setting,
        epochs=set_up.epochs if epochs is None else epochs,
        iterations=iterations,
        batch=set_up.batch if batch is None else batch,
        optimizer=chosen,
        optimizer_options=given[chosen],
        options=given[strategy],
        model_options=given[network],
        **rest,
    )
    _check(found, kind, named)
    return _without_unused(found)


@cache
def list_setting_names(strategy: str, model: str, optimizer: str) -> tuple[str, ...]:
    """Return the hyperparameters that `make_config` takes as settings.

    Example:
        >>> list_setting_names("ewc", "mlp", "adam")
        ('strength', 'mode', 'decay', 'labels', 'lr', 'weight_decay', 'hidden')
    """
    mine = list_hyperparameters(find_strategy(strategy), skip=("seed",))
    return (*mine, *OPTIMIZERS[optimizer], *list_hyperparameters(find_factory(model)))


def _given(
    settings: Mapping[str, Any],
    known: Mapping[str, Mapping[str, tuple[Any, Any]]],
    published: Mapping[str, Mapping[str, Any]],
) -> dict[str, dict[str, Any]]:
    """Return the hyperparameters of each owner: as given, else as published, else by default.

    Args:
        settings: what is given; the first owner that knows a name takes it.
        known: type and default of each, by owner.
        published: what the scenario's paper has, by owner.
    """
    found = {
        owner: {**{name: kind[1] for name, kind in mine.items()}, **published.get(owner, {})}
        for owner, mine in known.items()
    }
    for name, value in settings.items():
        owner = next((owner for owner, mine in known.items() if name in mine), None)
        if owner is None:
            raise _unknown(name, known)
        found[owner][name] = parse_value(name, value, known[owner][name][0])
    for name, value in (item for mine in found.values() for item in mine.items()):
        if value is inspect.Parameter.empty:
            raise InputError(f"{name} has no default; give it: --set {name}=…")
    return found


def _without_unused(found: RunConfig) -> RunConfig:
    """Return a config in which what changes nothing does not change the folder either."""
    if found.boundaries == "sharp":
        found = msgspec.structs.replace(found, blur=0.0)
    return found if found.patience else msgspec.structs.replace(found, early_stopping_split=0.0)


def _digest(made: Callable[..., Any]) -> str:
    """Return the sha256 of the file that a strategy or factory of the user's own is in."""
    try:
        return hashlib.sha256(Path(inspect.getfile(made)).read_bytes()).hexdigest()
    except (TypeError, OSError):
        return "unknown"


def _typed(**fields: Any) -> RunConfig:
    """Return a config whose fields have their types: 0 and 0.0 are one number there."""
    try:
        return msgspec.convert(fields, RunConfig)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$.")
        name = where.strip("`")
        kind = typing.get_type_hints(RunConfig).get(name)
        what = f"expected {describe_types((kind,))}" if typing.get_origin(kind) is Literal else what
        start = f"{name} is {fields[name]!r:.40}, " if name in fields else ""
        raise InputError(start + what[0].lower() + what[1:]) from None


def _unknown(name: str, known: Mapping[str, Mapping[str, Any]]) -> InputError:
    every = [each for names in known.values() for each in names]
    has = "; ".join(f"{owner} has {', '.join(names) or 'none'}" for owner, names in known.items())
    return InputError(
        f"hyperparameter {name!r:.40} is not known; {suggest_names(name, every)}{has}"
    )


def _check(found: RunConfig, kind: type[Strategy], named: ScenarioSpec) -> None:
    _check_numbers(found)
    if found.order is not None:
        if named.kind != "split":
            raise InputError(f"{found.scenario} is not split by class; leave order out")
        order_classes(found.order, DATASETS[named.data[0]].classes)
    if found.image_size is not None and named.kind != "sequence":
        raise InputError(f"{found.scenario} keeps the size of its images; leave image_size out")
    if found.boundaries != "sharp" and found.mask_unseen:
        raise InputError("mask hides classes until their task begins, which needs sharp boundaries")
    if found.boundaries == "none":
        _check_stream(found, kind)
    if found.patience is not None and found.iterations is not None:
        raise InputError("patience counts epochs and iterations stop before; give one of them")
    if found.resample and found.subset is None:
        raise InputError(
            "all examples are tested, so there is no subset to resample; leave resample out"
        )
    if found.patience is not None and kind.trains_on_all_tasks:
        raise InputError(f"{found.strategy} learns all tasks at once; leave patience out")
    if found.patience is not None and kind.trains_at_task_end:
        raise InputError(
            f"{found.strategy} does not learn while a task streams by; leave patience out"
        )


def _check_stream(found: RunConfig, kind: type[Strategy]) -> None:
    if kind.requires_boundaries:
        raise InputError(
            f"{found.strategy} has to be told where tasks end, and boundaries=none tells nobody; "
            "take boundaries=blurred, or naive, or replay with fill=reservoir"
        )
    if found.iterations or found.patience:
        raise InputError(
            "a stream without boundaries has no tasks to count iterations of or to stop; leave "
            "iterations and patience out"
        )
    if found.options.get("fill") == "end":
        raise InputError(
            f"{found.strategy} fills its memory at task ends, and a stream without boundaries has "
            "none; give --set fill=reservoir"
        )


def _check_numbers(found: RunConfig) -> None:
    for name in ("epochs", "iterations", "batch", "every", "subset", "gradients", "threads"):
        value = getattr(found, name)
        if value is not None and value < 1:
            raise InputError(f"{name} is {value}, expected a whole number of at least 1")
    if not 0 <= found.seed < 2**32:
        raise InputError(f"seed is {found.seed}, expected 0 or more, below 2**32")
    if found.threads > 1024:
        raise InputError(f"threads is {found.threads}, expected at most 1024")
    if found.patience is not None and found.patience < 1:
        raise InputError(f"patience is {found.patience}, expected at least 1 epoch")
    if not 0 < found.early_stopping_split < 1:
        raise InputError(
            f"early_stopping_split is {found.early_stopping_split:g}, "
            "expected a share between 0 and 1"
        )
    if not 0 <= found.validation_split < 1:
        raise InputError(
            f"validation_split is {found.validation_split:g}, expected a share from 0 to below 1"
        )
    if not 0 <= found.blur <= 1:
        raise InputError(f"blur is {found.blur:g}, expected a share from 0 to 1")
    for name, value in found.optimizer_options.items():
        if value < 0:
            raise InputError(f"{name} is {value:g}, expected 0 or more")
