"""A study: scenarios x settings x models x strategies x grids x seeds, from one TOML file."""

from __future__ import annotations

import re
import tomllib
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from .._suggestions import suggest_names
from ..record import InputError, check_depth, read_file
from ..scenarios import Setting, find_scenario
from ..training.config import RunConfig, make_config
from ..training.run import device_of
from .checks import FACTORS, OPTIONS, check_study, known_in, refuse_wrong, replaced_by

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["Cell", "Point", "Select", "Study", "make_study", "read_study"]

MAX_STUDY = 1 << 20  # bytes
# Python's parser takes time and memory with the square of a key's parts.
LONG_KEY = re.compile(rb"""(?<![\w"'-])(?:[\w"'-]+[ \t]*\.[ \t]*){64}""")
Point = dict[str, Any]  # one value for each thing that is searched


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
    """What a study runs. `make_study` makes one from plain data and judges it."""

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
                models = self.models or [named.defaults_for(setting).model]
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

    def configs(self, cell: Cell, point: Point, *, search: bool = False) -> list[RunConfig]:
        """Return a cell's runs at one point of its grid: to choose by, or to report."""
        seeds = self.search_seeds if search else self.seed_list
        first = self._first(cell, point, search=search)
        return [msgspec.structs.replace(first, seed=seed) for seed in seeds]

    def _first(self, cell: Cell, point: Point, *, search: bool) -> RunConfig:
        """Return a cell's run with the first seed, described once."""
        key = (cell, msgspec.json.encode(point), search)
        if key in self._configs:
            return self._configs[key]
        fixed, _ = self.values(cell)
        known = {*OPTIONS, *known_in(cell, {**fixed, **point})}  # an optimizer may be searched
        given = {name: each for name, each in {**fixed, **point}.items() if name in known}
        options = {name: given.pop(name) for name in OPTIONS if name in given}
        if options.get("subset") == "all":
            options["subset"] = None
        if options.get("device") == "auto":
            options["device"] = device_of("auto")  # a run is described by where it runs
        if search and self.select.on == "held-out":
            options["validation_split"] = self.select.share
        try:
            self._configs[key] = make_config(
                cell.scenario, cell.strategy, settings=given, model=cell.model,
                setting=cell.setting, **options,
            )  # fmt: skip
        except InputError as error:
            raise InputError(f"study {self.name}, {cell}: {error}") from None
        return self._configs[key]

    @cached_property
    def _configs(self) -> dict[tuple[Cell, bytes, bool], RunConfig]:
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
                for other in replaced_by(name):
                    fixed.pop(other, None)
                    grid.pop(other, None)
                fixed[name] = value
            for name, values in searched.items():
                if name in layer:
                    raise InputError(f"study {self.name}: {where} both fixes and searches {name}")
                for other in replaced_by(name):
                    fixed.pop(other, None)
                    grid.pop(other, None)
                grid[name] = values
        taken = known_in(cell, fixed, grid)
        known = {*OPTIONS, *taken}
        own = self.strategy.get(cell.strategy, {})
        for name in [*own, *own.get("grid", {})]:
            if name not in known and name != "grid":
                raise InputError(
                    f"study {self.name}: [strategy.{cell.strategy}] has {name!r:.40}, which is "
                    f"not known; {suggest_names(name, known)}it takes {', '.join(taken)}"
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
        data = read_file(path, MAX_STUDY)
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"{path}: no such file, expected a study in TOML") from None
    if LONG_KEY.search(data):
        raise InputError(f"{path}: a key of more than 64 parts, expected a.b = 1")
    try:
        plain = tomllib.loads(data.decode())
    except RecursionError:
        raise InputError(f"{path}: cannot be read as TOML (nested too deeply)") from None
    except ValueError as error:  # a number of 5000 digits is one too
        raise InputError(f"{path}: cannot be read as TOML ({error})") from None
    check_depth(plain, str(path))
    return make_study(plain, path.stem)


def make_study(plain: Mapping[str, Any], name: str) -> Study:
    """Return the study of plain data, judged whole: every cell of it can be described.

    Example:
        >>> study = make_study({"scenarios": ["split-digits"], "strategies": ["naive", "ewc"],
        ...                   "strategy": {"ewc": {"grid": {"strength": [1, 10]}}}}, "small")
        >>> [(cell.strategy, len(study.points(cell))) for cell in study.cells]
        [('naive', 1), ('ewc', 2)]
    """
    refuse_wrong(plain, Study, f"study {name}")
    if isinstance(select := plain.get("select", {}), dict):
        refuse_wrong(select, Select, f"study {name}: [select]")
    try:
        study = msgspec.convert({**plain, "name": name}, Study)
    except msgspec.ValidationError as error:
        raise InputError(f"study {name}: {error}") from None
    try:
        check_study(study)
    except ValueError as error:  # of a strategy, say, that knows of no study
        said = str(error)
        where = f"study {name}"
        raise InputError(said if said.startswith(where) else f"{where}: {said}") from None
    return study
