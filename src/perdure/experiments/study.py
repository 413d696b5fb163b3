"""A study: scenarios x settings x models x strategies x grids x seeds, from one TOML file."""

from __future__ import annotations

import tomllib
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from .._names import near
from ..metrics import find_metric
from ..models._factory import factory_of
from ..record import BadInput
from ..scenarios import Setting, find_scenario
from ..strategies import find_strategy
from .description import OPTIMIZERS, Description, described, known_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["Cell", "Point", "Select", "Study", "read_study", "study_of"]

Point = dict[str, Any]  # one value for each thing that is searched
FACTORS = ("scenario", "setting", "model", "strategy", "variant")  # a later one overrides
NOT_OPTIONS = {
    "scenario", "strategy", "model", "setting", "seed", "optimizer_options", "options",
    "model_options", "code", "validate",
}  # fmt: skip
OPTIONS = [field for field in Description.__struct_fields__ if field not in NOT_OPTIONS]


class Select(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How the best point of a grid is chosen."""

    by: str = "acc"
    on: Literal["held-out", "test"] = "held-out"
    seeds: int | Literal["all"] = 1
    share: float = 0.1  # of the training data that is held out


class Cell(NamedTuple):
    """One line of a study's tables; its runs differ in their seeds and grid points only."""

    scenario: str
    setting: Setting
    model: str
    strategy: str
    variant: str = ""

    def __str__(self) -> str:
        return " ".join(part for part in self if part)


class Study(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, dict=True):
    """What a study runs. `study_of` makes one from plain data and judges it."""

    name: str
    scenarios: list[str]
    strategies: list[str]
    about: str = ""
    settings: list[Setting] = []
    models: list[str] = []
    seeds: int | list[int] = 5
    run: dict[str, Any] = {}
    grid: dict[str, list[Any]] = {}
    scenario: dict[str, dict[str, Any]] = {}
    setting: dict[str, dict[str, Any]] = {}
    model: dict[str, dict[str, Any]] = {}
    strategy: dict[str, dict[str, Any]] = {}
    variant: dict[str, dict[str, Any]] = {}
    select: Select = Select()

    @cached_property
    def cells(self) -> list[Cell]:
        """Every combination, in the order of the tables."""
        found = []
        for name in self.scenarios:
            named = find_scenario(name)
            for setting in self.settings or [named.setting]:
                models = self.models or [named.set_up_of(setting).model]
                variants = list(self.variant) or [""]
                found += [
                    Cell(name, setting, model, strategy, variant)
                    for model, strategy, variant in product(models, self.strategies, variants)
                ]
        return found

    @property
    def seed_list(self) -> list[int]:
        """The seeds of the runs that are reported."""
        return list(range(self.seeds)) if isinstance(self.seeds, int) else self.seeds

    @property
    def search_seeds(self) -> list[int]:
        """The seeds of the runs that a choice is made by."""
        seeds = self.seed_list
        return seeds if self.select.seeds == "all" else seeds[: self.select.seeds]

    def points(self, cell: Cell) -> list[Point]:
        """Return what is searched in a cell; one empty point where nothing is."""
        _, grid = self.values(cell)
        return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]

    def descriptions(self, cell: Cell, point: Point, *, search: bool = False) -> list[Description]:
        """Return a cell's runs at one point of its grid: to choose by, or to report."""
        seeds = self.search_seeds if search else self.seed_list
        first = self._first(cell, point, search=search)
        return [msgspec.structs.replace(first, seed=seed) for seed in seeds]

    def _first(self, cell: Cell, point: Point, *, search: bool) -> Description:
        """Return a cell's run with the first seed, described once."""
        key = (cell, msgspec.json.encode(point), search)
        if key in self._described:
            return self._described[key]
        fixed, _ = self.values(cell)
        given = {**fixed, **point}
        options = {name: given.pop(name) for name in OPTIONS if name in given}
        if options.get("subset") == "all":
            options["subset"] = None
        if search and self.select.on == "held-out":
            options["validate"] = self.select.share
        try:
            self._described[key] = described(
                cell.scenario, cell.strategy, settings=given, model=cell.model,
                setting=cell.setting, **options,
            )  # fmt: skip
        except BadInput as error:
            raise BadInput(f"study {self.name}, {cell}: {error}") from None
        return self._described[key]

    @cached_property
    def _described(self) -> dict[tuple[Cell, bytes, bool], Description]:
        return {}

    def values(self, cell: Cell) -> tuple[dict[str, Any], dict[str, list[Any]]]:
        """Return what is fixed in a cell and what is searched there."""
        fixed: dict[str, Any] = {}
        grid: dict[str, list[Any]] = {}
        for where, layer in self.layers(cell):
            searched = layer.get("grid", {})
            for name, value in layer.items():
                if name == "grid":
                    continue
                for other in _replaces(name):
                    fixed.pop(other, None)
                    grid.pop(other, None)
                fixed[name] = value
            for name, values in searched.items():
                if name in layer:
                    raise BadInput(f"study {self.name}: {where} both fixes and searches {name}")
                fixed.pop(name, None)
                grid[name] = values
        known = {*OPTIONS, *_known(cell, fixed)}
        own = self.strategy.get(cell.strategy, {})
        for name in [*own, *own.get("grid", {})]:
            if name not in known and name != "grid":
                raise BadInput(
                    f"study {self.name}: [strategy.{cell.strategy}] has {name!r:.40}, which is "
                    f"not known; {near(name, known)}it takes {', '.join(_known(cell, fixed))}"
                )
        return (
            {name: value for name, value in fixed.items() if name in known},
            {name: values for name, values in grid.items() if name in known},
        )

    def layers(self, cell: Cell) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield what applies to a cell, from the general to the special."""
        yield "[run]", {**self.run, "grid": self.grid}
        for factor in FACTORS:
            value = getattr(cell, factor)
            yield f"[{factor}.{value}]", getattr(self, factor).get(value, {})


def read_study(path: Path | str) -> Study:
    """Return the study of a TOML file, judged, or raise saying what is wrong with it."""
    path = Path(path)
    try:
        plain = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BadInput(f"{path}: no such file, expected a study in TOML") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadInput(f"{path}: cannot be read as TOML ({error})") from None
    return study_of(plain, path.stem)


def study_of(plain: Mapping[str, Any], name: str) -> Study:
    """Return the study of plain data, judged whole: every cell of it can be described.

    Example:
        >>> study = study_of({"scenarios": ["split-digits"], "strategies": ["naive", "ewc"],
        ...                   "strategy": {"ewc": {"grid": {"strength": [1, 10]}}}}, "small")
        >>> [(cell.strategy, len(study.points(cell))) for cell in study.cells]
        [('naive', 1), ('ewc', 2)]
    """
    _refuse_unknown(plain, Study, f"study {name}", {"name"})
    if isinstance(select := plain.get("select", {}), dict):
        _refuse_unknown(select, Select, f"study {name}: [select]")
    try:
        study = msgspec.convert({**plain, "name": name}, Study)
    except msgspec.ValidationError as error:
        raise BadInput(f"study {name}: {error}") from None
    _check(study)
    return study


def _refuse_unknown(
    given: Mapping[str, Any], kind: type[msgspec.Struct], where: str, hidden: set[str] | None = None
) -> None:
    known = [field for field in kind.__struct_fields__ if field not in (hidden or ())]
    for name in given:
        if name not in known:
            said = f"{where}: key {name!r:.40} is not known; {near(name, known)}"
            raise BadInput(f"{said}expected some of {', '.join(known)}")


def _check(study: Study) -> None:
    where = f"study {study.name}"
    for factor, values in (
        ("scenario", study.scenarios), ("strategy", study.strategies), ("model", study.models),
        ("setting", study.settings), ("seed", study.seed_list),
    ):  # fmt: skip
        if len(set(map(str, values))) < len(values):
            raise BadInput(f"{where}: a {factor} is listed twice, expected each once")
    if not (study.scenarios and study.strategies and study.seed_list):
        raise BadInput(f"{where}: needs at least one scenario, one strategy and one seed")
    for name in study.strategies:
        find_strategy(name)
    for name in study.models:
        factory_of(name)
    metric = find_metric(study.select.by)
    if metric.of in ("costs", "runs"):
        raise BadInput(f"{where}: [select] by is {study.select.by!r}, expected a metric of scores")
    if not 0 < study.select.share < 1:
        raise BadInput(f"{where}: [select] share is {study.select.share:g}, expected 0 to 1")
    if isinstance(study.select.seeds, int) and study.select.seeds < 1:
        raise BadInput(f"{where}: [select] seeds is {study.select.seeds}, expected 1 or more")
    if any(seed < 0 for seed in study.seed_list):
        raise BadInput(f"{where}: seeds are {study.seed_list}, expected 0 or more")
    _check_layers(study)
    for cell in study.cells:
        for point in study.points(cell):
            study.descriptions(cell, point)


def _check_layers(study: Study) -> None:
    """Raise for an override of nothing, and for a name that no cell knows."""
    cells = study.cells
    everywhere = {name for cell in cells for name in _known(cell, study.values(cell)[0])}
    for factor in FACTORS:
        there = {getattr(cell, factor) for cell in cells}
        for value in getattr(study, factor):
            if value not in there:
                said = f"study {study.name}: [{factor}.{value}] is about nothing here; "
                raise BadInput(said + near(value, there) + f"expected {', '.join(sorted(there))}")
    for where, layer in {w: each for cell in cells for w, each in study.layers(cell)}.items():
        grid = layer.get("grid", {})
        if not isinstance(grid, dict) or not all(isinstance(v, list) and v for v in grid.values()):
            raise BadInput(f"study {study.name}: the grid of {where} needs a list for each name")
        for name in [*layer, *grid]:
            if name != "grid" and name not in OPTIONS and name not in everywhere:
                known = [*OPTIONS, *sorted(everywhere)]
                raise BadInput(
                    f"study {study.name}: {where} has {name!r:.40}, which nothing here knows; "
                    f"{near(name, known)}expected an option or hyperparameter: {', '.join(known)}"
                )


def _known(cell: Cell, fixed: Mapping[str, Any]) -> Sequence[str]:
    """Return the hyperparameters that strategy, optimizer and model of a cell take."""
    set_up = find_scenario(cell.scenario).set_up_of(cell.setting)
    optimizer = fixed.get("optimizer", set_up.optimizer)
    return known_names(cell.strategy, cell.model, optimizer if optimizer in OPTIMIZERS else "sgd")


def _replaces(name: str) -> tuple[str, ...]:
    """Return what a name stands instead of: a length replaces any other length."""
    return ("epochs", "iterations") if name in ("epochs", "iterations") else (name,)
