"""Validation of a study before any of its runs starts."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import TYPE_CHECKING

from .._suggestions import suggest_names
from ..data.own import ReadOptions
from ..metrics import METRICS, SummaryOptions, parse_id, resolve_metric
from ..record import InputError
from ..scenarios import SETTINGS, find_scenario
from ..strategies import resolve_strategy
from ..training.config import OPTIMIZERS, RunConfig, list_setting_names
from ..training.config_checks import outline_model, outline_strategy
from ..training.hyperparameters import SCHEDULES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import msgspec

    from .study import Cell, Grid, Study, Values

__all__ = [
    "FACTORS",
    "RUN_OPTIONS",
    "check_keys",
    "check_shapes",
    "check_study",
    "hyperparameters_of",
    "overridden",
    "resolve_aliases",
]

FACTORS = ("scenario", "setting", "model", "strategy", "variant")  # a later one overrides
NOT_RUN_OPTIONS = {
    "scenario", "strategy", "model", "setting", "seed", "optimizer_options",
    "schedule_options", "options", "model_options", "code", "validation_split",
    "data_path", "data_sha256",
}  # fmt: skip
RUN_OPTIONS = [field for field in RunConfig.__struct_fields__ if field not in NOT_RUN_OPTIONS]
LENGTHS = ("epochs", "iterations")
MAX_SEED = 2**32 - 1
MAX_RUNS = 100_000
MAX_ORDERS = 1000


def hyperparameters_of(cell: Cell, fixed: Values, grid: Grid | None = None) -> list[str]:
    """Return the names of the hyperparameters of a cell's strategy, optimizer and model."""
    spec = find_scenario(cell.scenario, ReadOptions.of(fixed))
    default = spec.defaults_for(cell.setting).optimizer
    optimizers = (grid or {}).get("optimizer", [fixed.get("optimizer", default)])
    schedules = (grid or {}).get("schedule", [fixed.get("schedule", "constant")])
    names: dict[str, None] = {}
    for optimizer, schedule in product(optimizers, schedules):
        # An unknown optimizer or schedule is rejected later, when the config is made.
        known = optimizer if isinstance(optimizer, str) and optimizer in OPTIMIZERS else "sgd"
        shape = schedule if isinstance(schedule, str) and schedule in SCHEDULES else "constant"
        names |= dict.fromkeys(list_setting_names(cell.strategy, cell.model, known, shape))
    return list(names)


def overridden(name: str) -> tuple[str, ...]:
    """Return the names whose earlier values a value of `name` replaces.

    Example:
        >>> overridden("lr"), overridden("epochs")
        (('lr',), ('epochs', 'iterations'))
    """
    return LENGTHS if name in LENGTHS else (name,)


def check_keys(plain: Mapping[str, object], kind: type[msgspec.Struct], where: str = "") -> None:
    """Raise for an unknown key, and for an unknown word under `on` or `settings`."""
    known = [field for field in kind.__struct_fields__ if field not in ("name", "notes")]
    for name in plain:
        if name not in known:
            raise InputError(
                f"{where}unknown key {name!r:.40}; {suggest_names(name, known)}"
                f"expected some of {', '.join(known)}"
            )
    for name, words in (("on", ("validation", "test")), ("settings", SETTINGS)):
        values = plain.get(name, [])
        for value in values if isinstance(values, list) else [values]:
            if name in known and isinstance(value, str) and value not in words:
                raise InputError(
                    f"{where}{name} has {value!r:.40}; {suggest_names(value, words)}"
                    f"expected {' or '.join(words)}"
                )


LISTS = {
    "scenario": "scenarios",
    "strategy": "strategies",
    "model": "models",
    "setting": "settings",
}


def check_shapes(plain: Mapping[str, object]) -> None:
    """Raise unless the lists of a study are lists and its tables are tables."""
    for table in ("run", "grid", "select", "variant", *LISTS):
        nested = table in LISTS or table == "variant"
        value = plain.get(table, {})
        if not isinstance(value, dict):
            hint = f"did you mean {LISTS[table]}? " if table in LISTS else ""
            title = f"{table}.NAME" if nested else table
            raise InputError(f"{table} is {value!r:.40}; {hint}expected a table [{title}]")
        for name, item in value.items():
            if nested and not isinstance(item, dict):
                raise InputError(f"[{table}] {name!s:.40} is {item!r:.40}, expected a table "
                                 f"[{table}.NAME]")  # fmt: skip
            if table == "grid" and not isinstance(item, list):
                raise InputError(f"[grid] {name!s:.40} is {item!r:.40}, expected a list of values")
    for name in LISTS.values():
        if name in ("scenarios", "strategies") and name not in plain:
            raise InputError(f'{name} are missing, expected a list: {name} = ["…"]')
        value = plain.get(name, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise InputError(f'{name} is {value!r:.40}, expected a list of names: {name} = ["…"]')
    seeds = plain.get("seeds", 1)
    if not all(type(seed) is int for seed in (seeds if isinstance(seeds, list) else [seeds])):
        raise InputError(f"seeds is {seeds!r:.40}, expected a number of seeds or a list of seeds")


def resolve_aliases(plain: Mapping[str, object]) -> tuple[dict[str, object], list[str]]:
    """Return a study with the names of its strategies and metrics, and a note per alias.

    Example:
        >>> resolve_aliases({"strategies": ["er"], "strategy": {"er": {"memory": 50}}})
        ({'strategies': ['replay'], 'strategy': {'replay': {'memory': 50}}}, ['er means replay'])
    """
    study = dict(plain)
    notes: dict[str, str] = {}
    if isinstance(names := plain.get("strategies"), list):
        taken = {name: resolve_strategy(name) for name in names if isinstance(name, str)}
        notes |= taken
        study["strategies"] = [taken.get(name, name) for name in names]
    if isinstance(tables := plain.get("strategy"), dict):
        study["strategy"] = {resolve_strategy(name): table for name, table in tables.items()}
        notes |= {name: resolve_strategy(name) for name in tables}
        if len(tables) > len({resolve_strategy(name) for name in tables}):
            raise InputError("two tables [strategy.NAME] are of one strategy, expected one")
    select = plain.get("select")
    if isinstance(select, dict) and isinstance(metric := select.get("metric"), str):
        try:
            notes[metric] = resolve_metric(metric)
        except ValueError as error:
            raise InputError(f"[select] metric: {error}") from None
        study["select"] = {**select, "metric": notes[metric]}
    return study, [f"{name} means {taken}" for name, taken in notes.items() if taken != name]


def check_study(study: Study) -> None:
    """Raise unless a config can be made for every run of a study."""
    factors: dict[str, Sequence[object]] = {
        "scenario": study.scenarios, "strategy": study.strategies, "model": study.models,
        "setting": study.settings, "variant": list(study.variant),
    }  # fmt: skip
    _check_count(study, prod(len(values) or 1 for values in factors.values()))
    _check_seeds(study)
    if not (study.scenarios and study.strategies):
        raise InputError("expected at least one scenario and one strategy")
    for factor, names in factors.items():
        _check_unique(factor, names)
    for name in study.strategies:
        outline_strategy(name)
    for name in study.models:
        outline_model(name)
    _check_select(study)
    _check_layers(study)
    _check_names(study)
    grids = [study.resolve(cell)[1] for cell in study.cells]
    _check_count(study, sum(prod(map(len, grid.values())) for grid in grids))
    for cell in study.cells:
        for point in study.grid_points(cell):
            study.make_configs(cell, point)


def _check_count(study: Study, combinations: int) -> None:
    """Raise for a study of too many runs, before any of them is listed."""
    seeds = study.seeds if isinstance(study.seeds, int) else len(study.seeds)
    if study.orders is not None and not 1 <= study.orders <= MAX_ORDERS:
        raise InputError(f"orders is {study.orders}, expected 1 to {MAX_ORDERS}")
    seeds *= study.orders or 1
    if combinations * seeds > MAX_RUNS:
        raise InputError(
            f"{combinations} combinations with {seeds} seeds, expected at most "
            f"{MAX_RUNS} runs; split it into several studies"
        )


def _check_seeds(study: Study) -> None:
    if not study.seed_list:
        raise InputError("expected at least one seed")
    if isinstance(study.seeds, int):
        return
    _check_unique("seed", study.seeds)
    for seed in study.seeds:
        if not 0 <= seed <= MAX_SEED:
            raise InputError(f"a seed is {seed}, expected 0 or more, below 2**32")


def _check_unique(factor: str, values: Sequence[object]) -> None:
    if len(set(values)) < len(values):
        raise InputError(f"a {factor} is listed twice, expected each once")


def _check_select(study: Study) -> None:
    where, select = "[select]", study.select
    base = parse_id(select.metric).base
    if METRICS[base].input in ("costs", "runs"):
        raise InputError(f"{where} metric is {select.metric!r}, expected a metric of scores")
    computed = SummaryOptions().ids_of(base)
    if select.metric not in computed:
        raise InputError(
            f"{where} metric is {select.metric!r}, which is not computed; expected "
            f"{', '.join(computed)}"
        )
    if not 0 < select.validation_split < 1:
        raise InputError(
            f"{where} validation_split is {select.validation_split:g}, "
            "expected a number between 0 and 1"
        )
    if isinstance(select.seeds, int) and select.seeds < 1:
        raise InputError(f"{where} seeds is {select.seeds}, expected 1 or more, or all")


def _check_layers(study: Study) -> None:
    """Raise where a grid is not a table of lists, and where one layer sets two lengths."""
    if "grid" in study.run:
        raise InputError("[run] has a grid; write [grid], which applies to every run")
    layers: list[tuple[str, Values]] = [("[run]", {**study.run, "grid": study.grid})]
    layers += [
        (f"[{factor}.{name}]", layer)
        for factor in FACTORS
        for name, layer in study.overrides(factor).items()
    ]
    for where, layer in layers:
        grid = layer.get("grid", {})
        if not isinstance(grid, dict) or not all(isinstance(v, list) and v for v in grid.values()):
            raise InputError(f"the grid of {where} needs a list for each name")
        if all(length in layer or length in grid for length in LENGTHS):
            raise InputError(
                f"{where} sets epochs and iterations, which replace each other; leave one out"
            )


def _check_names(study: Study) -> None:
    """Raise for an override that matches no cell, and for a name that no matching cell takes."""
    known: dict[str, set[str]] = {}
    layers: dict[str, Values] = {}
    for cell in study.cells:
        hyperparameters = hyperparameters_of(cell, *study.resolve(cell))
        for where, layer in study.layers(cell):
            layers[where] = layer
            known.setdefault(where, set()).update(hyperparameters)
    for factor in FACTORS:
        present = {str(getattr(cell, factor)) for cell in study.cells}
        for value in study.overrides(factor):
            if value not in present:
                raise InputError(
                    f"[{factor}.{value}] matches no run; "
                    f"{suggest_names(value, present)}expected {', '.join(sorted(present))}"
                )
    for where, layer in layers.items():
        for name in [*layer, *study.grid_of(layer)]:
            if name != "grid" and name not in RUN_OPTIONS and name not in known[where]:
                every = [*RUN_OPTIONS, *sorted(known[where])]
                raise InputError(
                    f"{where} has {name!r:.40}, which no run here takes; "
                    f"{suggest_names(name, every)}"
                    f"expected an option or hyperparameter: {', '.join(every)}"
                )
