"""A study: scenarios x settings x models x strategies x grids x seeds, from one TOML file."""

from __future__ import annotations

import os
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from .._devices import resolve_device
from ..data.own import ReadOptions
from ..record import InputError
from ..record.io.files import read_toml
from ..scenarios import SCENARIOS, Setting, draw_task_orders, find_scenario, is_own, locate_own
from ..training.config import RunConfig, count_tasks, make_config
from .checks import (
    FACTORS,
    RUN_OPTIONS,
    check_keys,
    check_shapes,
    check_study,
    hyperparameters_of,
    overridden,
    resolve_aliases,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = [
    "Cell",
    "Grid",
    "GridPoint",
    "SelectionRule",
    "Study",
    "Values",
    "make_study",
    "read_study",
]

Values = dict[str, object]  # options and hyperparameters by name
Grid = dict[str, list[object]]  # the values to search, by name
GridPoint = dict[str, object]  # one value per name of a grid


class SelectionRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How the best point of a grid is selected: the table [select] of a study.

    Args:
        metric: Id of the metric to compare grid points by.
        on: Evaluate grid points on validation data, which is held out of the training data, or on
            the test set.
        seeds: Number of seeds of the search, or `all`.
        validation_split: Fraction of the training data that is held out.
    """

    metric: str = "acc"
    on: Literal["validation", "test"] = "validation"
    seeds: int | Literal["all"] = 1
    validation_split: float = 0.1


class Cell(NamedTuple):
    """One row of a study's tables; its runs differ only in seed and grid point."""

    scenario: str
    setting: Setting
    model: str
    strategy: str
    variant: str = ""

    def __str__(self) -> str:
        return " ".join(part for part in self if part)


class Study(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, dict=True):
    """The content of a study file. `make_study` makes one from plain data and checks it."""

    name: str
    scenarios: list[str]
    strategies: list[str]
    about: str = ""
    settings: list[Setting] = []
    models: list[str] = []
    seeds: int | list[int] = 5
    orders: int | None = None  # task orders, each run with every seed
    run: Values = {}
    grid: Grid = {}
    scenario: dict[str, Values] = {}
    setting: dict[str, Values] = {}
    model: dict[str, Values] = {}
    strategy: dict[str, Values] = {}
    variant: dict[str, Values] = {}
    select: SelectionRule = SelectionRule()
    notes: list[str] = []  # on aliases in the file

    @cached_property
    def cells(self) -> list[Cell]:
        """Every combination, in the order of the tables."""
        cells = []
        for name in self.scenarios:
            scenario = find_scenario(name, ReadOptions.of(self.run | self.scenario.get(name, {})))
            for setting in self.settings or [scenario.setting]:
                models = self.models or [scenario.defaults_for(setting).model]
                variants = list(self.variant) or [""]
                cells += [
                    Cell(name, setting, model, strategy, variant)
                    for model, strategy, variant in product(models, self.strategies, variants)
                ]
        return cells

    @property
    def seed_list(self) -> list[int]:
        """The seeds of the reported runs."""
        return list(range(self.seeds)) if isinstance(self.seeds, int) else self.seeds

    @property
    def search_seeds(self) -> list[int]:
        """The seeds of the runs that a grid point is selected by."""
        seeds = self.seed_list
        return seeds if self.select.seeds == "all" else seeds[: self.select.seeds]

    def grid_points(self, cell: Cell) -> list[GridPoint]:
        """Return the points of a cell's grid; one empty point if nothing is searched."""
        _, grid = self.resolve(cell)
        return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]

    def make_configs(
        self, cell: Cell, point: GridPoint, *, search: bool = False
    ) -> list[RunConfig]:
        """Return the configs of a cell's runs at one grid point, one per seed and task order.

        Args:
            cell: A cell of this study.
            point: A point of the cell's grid.
            search: Return the runs of the search instead of those that are reported.
        """
        seeds = self.search_seeds if search else self.seed_list
        key = (cell, msgspec.json.encode(point), search)
        if key not in self._configs:
            self._configs[key] = self._make_config(cell, point, search=search)
        config = self._configs[key]
        orders: list[list[int] | None] = [config.task_order]
        if self.orders is not None:
            orders = draw_task_orders(count_tasks(config), 1 if search else self.orders)
        return [
            msgspec.structs.replace(config, seed=seed, task_order=order)
            for order in orders
            for seed in seeds
        ]

    @cached_property
    def _configs(self) -> dict[tuple[Cell, bytes, bool], RunConfig]:
        return {}

    def _make_config(self, cell: Cell, point: GridPoint, *, search: bool) -> RunConfig:
        fixed, _ = self.resolve(cell)
        values = {**fixed, **point}
        known = {*RUN_OPTIONS, *hyperparameters_of(cell, values)}  # an optimizer may be searched
        settings = {name: value for name, value in values.items() if name in known}
        options: dict[str, Any] = {
            name: settings.pop(name) for name in RUN_OPTIONS if name in settings
        }
        if options.get("subset") == "all":
            options["subset"] = None
        if options.get("device") == "auto":
            options["device"] = resolve_device("auto")  # a config names the device that is used
        if search and self.select.on == "validation":
            options["validation_split"] = self.select.validation_split
        try:
            return make_config(
                cell.scenario, cell.strategy, settings=settings, model=cell.model,
                setting=cell.setting, **options,
            )  # fmt: skip
        except InputError as error:
            raise InputError(f"{cell}: {error}") from None

    def resolve(self, cell: Cell) -> tuple[Values, Grid]:
        """Return the fixed values and the grid of a cell, restricted to names its runs take."""
        fixed: Values = {}
        grid: Grid = {}
        for where, layer in self.layers(cell):
            searched = self.grid_of(layer)
            for name in (*layer, *searched):
                for other in () if name == "grid" else overridden(name):
                    fixed.pop(other, None)
                    grid.pop(other, None)
            for name in searched:
                if name in layer:
                    raise InputError(f"{where} both fixes and searches {name}")
            fixed |= {name: value for name, value in layer.items() if name != "grid"}
            grid |= searched
        known = {*RUN_OPTIONS, *hyperparameters_of(cell, fixed, grid)}
        return (
            {name: value for name, value in fixed.items() if name in known},
            {name: values for name, values in grid.items() if name in known},
        )

    def layers(self, cell: Cell) -> Iterator[tuple[str, Values]]:
        """Yield the tables that apply to a cell, from the general to the specific."""
        yield "[run]", {**self.run, "grid": self.grid}
        for factor in FACTORS:
            value = getattr(cell, factor)
            yield f"[{factor}.{value}]", self.overrides(factor).get(value, {})

    def overrides(self, factor: str) -> dict[str, Values]:
        """Return the tables [factor.NAME] by name."""
        tables: dict[str, Values] = getattr(self, factor)
        return tables

    @staticmethod
    def grid_of(layer: Values) -> Grid:
        """Return the grid of a table, empty if it has none."""
        grid = layer.get("grid", {})
        assert isinstance(grid, dict)  # checked by `make_study` before anything is resolved
        return grid


def read_study(path: Path | str) -> Study:
    """Return the study of a TOML file, or raise with the first mistake in it."""
    path = Path(path)
    plain = read_toml(path, "a study in TOML like examples/study.toml")
    return make_study(locate_scenarios(plain, path.parent), path.stem)


def make_study(plain: Mapping[str, object], name: str) -> Study:
    """Return the study of plain data, checked: a config can be made for each of its runs.

    Example:
        >>> study = make_study({"scenarios": ["split-digits"], "strategies": ["naive", "ewc"],
        ...                     "strategy": {"ewc": {"grid": {"strength": [1, 10]}}}}, "small")
        >>> [(cell.strategy, len(study.grid_points(cell))) for cell in study.cells]
        [('naive', 1), ('ewc', 2)]
    """
    try:
        check_keys(plain, Study)
        check_shapes(plain)
        if isinstance(select := plain.get("select", {}), dict):
            check_keys(select, SelectionRule, "[select]: ")
        canonical, notes = resolve_aliases(plain)
        study = msgspec.convert({**canonical, "name": name, "notes": notes}, Study)
        check_study(study)
        study.notes.extend(describe_own_scenarios(study))
    except ValueError as error:
        raise InputError(f"study {name}: {error}") from None
    return study


def locate_scenarios(plain: Mapping[str, object], folder: Path) -> dict[str, object]:
    """Return the content of a study file in `folder`, its paths relative to the current one."""
    located = dict(plain)
    if isinstance(names := plain.get("scenarios"), list):
        located["scenarios"] = [_locate(name, folder) for name in names]
    if isinstance(tables := plain.get("scenario"), dict):
        located["scenario"] = {_locate(name, folder): table for name, table in tables.items()}
    return located


def describe_own_scenarios(study: Study) -> list[str]:
    """Return notes on the user's own data in a study."""
    notes = []
    for name in study.scenarios:
        if is_own(name, SCENARIOS):
            values = study.run | study.scenario.get(name, {})
            own = find_scenario(name, ReadOptions.of(values)).own
            notes += [f"{name}: {note}" for note in own.notes] if own is not None else []
    return notes


def _locate(name: object, folder: Path) -> object:
    if not isinstance(name, str) or not is_own(name, SCENARIOS):
        return name
    if locate_own(name) == name:  # absolute, or module:function
        return name
    path = os.path.relpath(folder / Path(name).expanduser())
    return path if os.sep in path else os.path.join(".", path)  # noqa: PTH118 - Path drops the dot
