"""What a study may say, and what is wrong with one that says something else."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from .._suggestions import suggest_names
from ..metrics import SummaryOptions, find_metric
from ..models import find_factory
from ..record import InputError
from ..scenarios import SETTINGS, find_scenario
from ..strategies import find_strategy
from ..training.config import OPTIMIZERS, RunConfig, known_names

if TYPE_CHECKING:
    from collections.abc import Mapping

    import msgspec

    from .study import Cell, Study

__all__ = ["FACTORS", "OPTIONS", "check_study", "known_in", "refuse_wrong", "replaced_by"]

FACTORS = ("scenario", "setting", "model", "strategy", "variant")  # a later one overrides
NOT_OPTIONS = {
    "scenario", "strategy", "model", "setting", "seed", "optimizer_options", "options",
    "model_options", "code", "validation_split",
}  # fmt: skip
OPTIONS = [field for field in RunConfig.__struct_fields__ if field not in NOT_OPTIONS]
LENGTHS = ("epochs", "iterations")
SEEDS = 2**32  # below this
MAX_RUNS = 100_000


def known_in(
    cell: Cell, fixed: Mapping[str, Any], grid: Mapping[str, list[Any]] | None = None
) -> list[str]:
    """Return the hyperparameters that strategy, optimizer and model of a cell take."""
    usual = find_scenario(cell.scenario).defaults_for(cell.setting).optimizer
    found: dict[str, None] = {}
    for optimizer in (grid or {}).get("optimizer", [fixed.get("optimizer", usual)]):
        fits = isinstance(optimizer, str) and optimizer in OPTIMIZERS  # else it is refused later
        found |= dict.fromkeys(known_names(cell.strategy, cell.model, optimizer if fits else "sgd"))
    return list(found)


def replaced_by(name: str) -> tuple[str, ...]:
    """Return what a name stands instead of: a length replaces any other length."""
    return LENGTHS if name in LENGTHS else (name,)


def refuse_wrong(given: Mapping[str, Any], kind: type[msgspec.Struct], where: str) -> None:
    """Raise for a key that is not known, and for a word that is none of those expected."""
    known = [field for field in kind.__struct_fields__ if field != "name"]
    for name in given:
        if name not in known:
            said = f"{where}: key {name!r:.40} is not known; {suggest_names(name, known)}"
            raise InputError(f"{said}expected some of {', '.join(known)}")
    for name, words in (("on", ("held-out", "test")), ("settings", SETTINGS)):
        values = given.get(name, [])
        for value in values if isinstance(values, list) else [values]:
            if name in known and isinstance(value, str) and value not in words:
                said = f"{where}: {name} has {value!r:.40}; {suggest_names(value, words)}"
                raise InputError(f"{said}expected {' or '.join(words)}")


def check_study(study: Study) -> None:
    """Raise unless every cell of a study can be described."""
    where = f"study {study.name}"
    _check_count(
        study,
        len(study.settings or [0])
        * len(study.models or [0])
        * len(study.scenarios)
        * len(study.strategies)
        * len(study.variant or [0]),
    )
    _check_seeds(study)
    for factor, values in (
        ("scenario", study.scenarios), ("strategy", study.strategies), ("model", study.models),
        ("setting", study.settings),
    ):  # fmt: skip
        if len(set(values)) < len(values):
            raise InputError(f"{where}: a {factor} is listed twice, expected each once")
    if not (study.scenarios and study.strategies):
        raise InputError(f"{where}: needs at least one scenario, one strategy and one seed")
    for name in study.strategies:
        find_strategy(name)
    for name in study.models:
        find_factory(name)
    _check_select(study)
    _check_shapes(study)
    _check_names(study)
    grids = [study.values(cell)[1] for cell in study.cells]
    _check_count(study, sum(prod(map(len, grid.values())) for grid in grids))
    for cell in study.cells:
        for point in study.points(cell):
            study.configs(cell, point)


def _check_count(study: Study, points: int) -> None:
    """Raise for a study of more runs than anybody runs, before any of them is listed."""
    seeds = study.seeds if isinstance(study.seeds, int) else len(study.seeds)
    if points * seeds > MAX_RUNS:
        raise InputError(
            f"study {study.name}: {points} combinations with {seeds} seeds, expected at most "
            f"{MAX_RUNS} runs; make several studies of it"
        )


def _check_seeds(study: Study) -> None:
    where = f"study {study.name}"
    if not study.seed_list:
        raise InputError(f"{where}: needs at least one scenario, one strategy and one seed")
    if isinstance(study.seeds, int):
        return
    if len(set(study.seeds)) < len(study.seeds):
        raise InputError(f"{where}: a seed is listed twice, expected each once")
    for seed in study.seeds:
        if not 0 <= seed < SEEDS:
            raise InputError(f"{where}: a seed is {seed}, expected 0 or more, below 2**32")


def _check_select(study: Study) -> None:
    where, select = f"study {study.name}: [select]", study.select
    metric, usual = find_metric(select.by), SummaryOptions()
    if metric.of in ("costs", "runs"):
        raise InputError(f"{where} by is {select.by!r}, expected a metric of scores")
    ends = {**dict.fromkeys(("wf", "wp"), usual.windows), "lca": (usual.beta,)}
    computed = [f"{base}{end or 'all'}" for base in ends for end in ends[base]]
    if metric in [find_metric(id_) for id_ in computed] and select.by not in computed:
        near_ones = ", ".join(id_ for id_ in computed if id_[:2] == select.by[:2])
        raise InputError(
            f"{where} by is {select.by!r}, which is not computed; expected {near_ones}"
        )
    if not 0 < select.share < 1:
        raise InputError(f"{where} share is {select.share:g}, expected 0 to 1")
    if isinstance(select.seeds, int) and select.seeds < 1:
        raise InputError(f"{where} seeds is {select.seeds}, expected 1 or more, or all")


def _check_shapes(study: Study) -> None:
    """Raise where a grid is no table of lists, and where one layer says a thing twice."""
    if "grid" in study.run:
        raise InputError(
            f"study {study.name}: [run] has a grid; write [grid], which is for every run"
        )
    layers: list[tuple[str, Mapping[str, Any]]] = [("[run]", {**study.run, "grid": study.grid})]
    layers += [
        (f"[{factor}.{name}]", layer)
        for factor in FACTORS
        for name, layer in getattr(study, factor).items()
    ]
    for where, layer in layers:
        grid = layer.get("grid", {})
        if not isinstance(grid, dict) or not all(isinstance(v, list) and v for v in grid.values()):
            raise InputError(f"study {study.name}: the grid of {where} needs a list for each name")
        if all(length in layer or length in grid for length in LENGTHS):
            said = (
                f"study {study.name}: {where} has epochs and iterations, and one replaces the other"
            )
            raise InputError(f"{said}; leave one out")


def _check_names(study: Study) -> None:
    """Raise for an override of nothing, and for a name that no cell it is about knows."""
    known: dict[str, set[str]] = {}
    layers: dict[str, Mapping[str, Any]] = {}
    for cell in study.cells:
        taken = known_in(cell, *study.values(cell))
        for where, layer in study.layers(cell):
            layers[where] = layer
            known.setdefault(where, set()).update(taken)
    for factor in FACTORS:
        there = {getattr(cell, factor) for cell in study.cells}
        for value in getattr(study, factor):
            if value not in there:
                said = f"study {study.name}: [{factor}.{value}] is about nothing here; "
                raise InputError(
                    said + suggest_names(value, there) + f"expected {', '.join(sorted(there))}"
                )
    for where, layer in layers.items():
        for name in [*layer, *layer.get("grid", {})]:
            if name != "grid" and name not in OPTIONS and name not in known[where]:
                every = [*OPTIONS, *sorted(known[where])]
                raise InputError(
                    f"study {study.name}: {where} has {name!r:.40}, which nothing here knows; "
                    f"{suggest_names(name, every)}expected an option or hyperparameter: "
                    f"{', '.join(every)}"
                )
