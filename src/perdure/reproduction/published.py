"""The published tables and figures that can be run again: one TOML file each in tables/."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from .._suggestions import suggest_names
from ..data import locate
from ..metrics import criteria_weights, find_metric
from ..record import InputError
from ..scenarios import find_scenario

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "CELL",
    "PublishedFigure",
    "PublishedResult",
    "PublishedRow",
    "find_missing_data",
    "find_published_result",
    "published_results",
]

FACTORS = {"scenario": "scenarios", "setting": "settings", "strategy": "strategies"}
CELL = ("scenario", "setting", "model", "strategy", "variant")  # what names a cell of a study


class CellFilter(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which cells of a study are meant: all that agree with what is given."""

    scenario: str | None = None
    setting: str | None = None
    model: str | None = None
    strategy: str | None = None
    variant: str | None = None

    @property
    def given(self) -> dict[str, str]:
        """What is given, by name."""
        return {name: getattr(self, name) for name in CELL if getattr(self, name) is not None}


class PublishedRow(CellFilter, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A line of a published table: a mean, or mean and SD, by metric id."""

    table: str
    values: dict[str, float | tuple[float, float]]
    thin: int = 1  # every so many evaluations are counted
    weights: str | None = None  # of CLscore, by their name in the entry
    rank: int | None = None
    missing: str | None = None  # why this line is not measured

    def mean_and_sd(self, id_: str) -> tuple[float, float | None]:
        """Return a published number, and its SD where one is printed."""
        value = self.values[id_]
        return value if isinstance(value, tuple) else (value, None)


class PublishedFigure(CellFilter, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The data behind a figure, written as CSV."""

    figure: str
    of: Literal["scores", "gradients", "forgetting", "tasks", "matrix"]
    tasks: int | None = None  # evaluation tasks shown, the first ones
    ids: list[str] = []  # of curves after tasks


class PublishedResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A published table or figure, the study that runs it again, and a small version of it.

    Args:
        name: of its file.
        about: what it is.
        paper: where it is from.
        tables: which tables and figures of it.
        hours: on two processor cores.
        gpu_hours: on one large GPU.
        unit: of the published numbers.
        counting: whose counting of evaluations the published numbers follow.
        epsilon: of CE.
        weights: of CLscore, by name; empty for equal ones.
        also: metrics measured beside the published ones.
        deviations: known ones of the set-up.
        stand_in: what the small version is.
        figures: data to write.
        published: lines of the tables.
        study: as `make_study` takes it.
        quick: what replaces it in the small version.
    """

    name: str
    about: str
    paper: str
    tables: str
    hours: float
    gpu_hours: float | None = None
    unit: Literal["percent", "share"]
    counting: Literal["perdure", "De Lange"] = "perdure"
    epsilon: float = 1.0
    weights: dict[str, dict[str, float]] = {}
    also: list[str] = []
    deviations: list[str]
    stand_in: str
    figures: list[PublishedFigure] = []
    published: list[PublishedRow]
    study: dict[str, Any]
    quick: dict[str, Any]

    @property
    def authors(self) -> str:
        """The paper in few words."""
        return self.paper.partition(",")[0]

    @property
    def digits(self) -> int:
        """How many digits after the point the published numbers have."""
        means = [row.mean_and_sd(id_)[0] for row in self.published for id_ in row.values]
        return max([len(str(mean).partition(".")[2]) for mean in means], default=1)

    @property
    def ids(self) -> list[str]:
        """Every metric that is shown, in the order of the tables."""
        shown = [id_ for row in self.published for id_ in row.values]
        return list(dict.fromkeys([*shown, *self.also]))

    def mapping(self, *, quick: bool = False, without: Sequence[str] = ()) -> dict[str, Any]:
        """Return the study as `make_study` takes it, without some scenarios.

        The small one has `quick`'s keys in place of its own, and `run` merged.

        Example:
            >>> find_published_result("delange-speech").mapping(quick=True)["scenarios"]
            ['split-fashion-mnist']
        """
        both = {**self.study, **(self.quick if quick else {})}
        both["run"] = {**self.study.get("run", {}), **(self.quick.get("run", {}) if quick else {})}
        if "iterations" in both["run"]:
            both["run"].pop("epochs", None)
        both["scenarios"] = [name for name in both["scenarios"] if name not in without]
        for table, factor in FACTORS.items():
            if table in both and factor in both:
                # An override of what is not run would be refused.
                both[table] = {k: v for k, v in both[table].items() if k in both[factor]}
        return {key: value for key, value in both.items() if value != {}}


@cache
def published_results() -> dict[str, PublishedResult]:
    """Return every entry by name.

    Example:
        >>> published_results()["delange-rotated"].tables
        'Table 2, Figure 3'
    """
    folder = files("perdure.reproduction") / "tables"
    paths = sorted((each for each in folder.iterdir() if each.name.endswith(".toml")), key=str)
    return {path.name[:-5]: _entry(path.name[:-5], path.read_text("utf-8")) for path in paths}


def find_published_result(name: str) -> PublishedResult:
    """Return an entry, or raise naming the near ones.

    Example:
        >>> len(find_published_result("faber-vgg9").published)
        44
    """
    if name not in published_results():
        raise InputError(
            f"entry {name!r:.60} is not known; {suggest_names(name, published_results())}"
            "`perdure reproduce` lists them"
        )
    return published_results()[name]


def find_missing_data(scenarios: Sequence[str]) -> dict[str, list[str]]:
    """Return which datasets of each scenario are not at hand; nothing is fetched.

    Example:
        >>> find_missing_data(["split-digits"])
        {}
    """
    lacking = {
        name: [data for data in find_scenario(name).data if not _at_hand(data)]
        for name in scenarios
    }
    return {name: data for name, data in lacking.items() if data}


def _at_hand(dataset: str) -> bool:
    return locate(dataset, hashed=False).source in ("bundled", "cache", "mirror")


def _entry(name: str, text: str) -> PublishedResult:
    """Return the entry of a file, or raise: a mistake there is ours."""
    made = msgspec.convert({"name": name, **tomllib.loads(text)}, PublishedResult)
    for id_ in made.ids:
        find_metric(id_)
    for weights in made.weights.values():
        criteria_weights(weights or None)
    for row in made.published:
        if row.weights is not None and row.weights not in made.weights:
            raise ValueError(f"{name}: weights {row.weights!r}, expected one of {[*made.weights]}")
    return made
