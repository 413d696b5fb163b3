"""Published tables and figures that can be reproduced: one TOML file each in tables/."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Literal

import msgspec

from .._suggestions import suggest_names
from ..data import locate
from ..metrics import criteria_weights, find_metric
from ..record import InputError
from ..scenarios import find_scenario

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "CELL_FACTORS",
    "CellFilter",
    "PublishedFigure",
    "PublishedResult",
    "PublishedRow",
    "find_missing_data",
    "find_published_result",
    "load_published_results",
]

OVERRIDES = {"scenario": "scenarios", "setting": "settings", "strategy": "strategies"}
CELL_FACTORS = ("scenario", "setting", "model", "strategy", "variant")


class CellFilter(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The cells of a study that agree with every factor that is set."""

    scenario: str | None = None
    setting: str | None = None
    model: str | None = None
    strategy: str | None = None
    variant: str | None = None

    @property
    def factors(self) -> dict[str, str]:
        """The factors that are set, by name."""
        values = {name: getattr(self, name) for name in CELL_FACTORS}
        return {name: value for name, value in values.items() if value is not None}


class PublishedRow(CellFilter, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A row of a published table: per metric id a mean, or mean and SD."""

    table: str
    values: dict[str, float | tuple[float, float]]
    subsample: int = 1  # every how many evaluations are counted
    on: Literal["test", "train"] = "test"  # which examples were evaluated
    weights: str | None = None  # of CLscore, by their name in the file
    rank: int | None = None

    def mean_and_sd(self, id_: str) -> tuple[float, float | None]:
        """Return a published mean, and its SD if one is printed."""
        value = self.values[id_]
        return value if isinstance(value, tuple) else (value, None)


class PublishedFigure(CellFilter, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A published figure, whose data is written as CSV."""

    figure: str
    kind: Literal["scores", "gradients", "forgetting", "tasks", "matrix"]
    tasks: int | None = None  # number of evaluation tasks shown, counted from the first
    ids: list[str] = []  # the curves after each task


class PublishedResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Published tables and figures, the study that reproduces them, and a quick version of it.

    Args:
        name: Name of the TOML file.
        about: What the study runs.
        paper: The publication.
        tables: The tables and figures that are reproduced.
        hours: Estimated duration on two processor cores.
        gpu_hours: Estimated duration on one large GPU.
        unit: Unit of the published numbers.
        counting: Whose way of counting evaluations the published numbers follow.
        epsilon: The epsilon of CE.
        weights: Weights of CLscore by name; an empty table stands for equal weights.
        extra_metrics: Metrics to measure in addition to the published ones.
        deviations: Known differences from the published set-up, and how open choices were made.
        own_settings: By the setting that the paper's code runs, the one that the paper names: the
            numbers by our definition are those of the latter.
        variant_of: Name of the result whose numbers this one is compared with; it repeats some of
            its cells with other options.
        quick_about: What the quick version runs.
        figures: The figures whose data is written.
        published: The rows of the published tables; those of `variant_of` if there is one.
        study: The study in the form that `make_study` takes.
        quick: The keys that replace those of `study` in the quick version.
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
    extra_metrics: list[str] = []
    deviations: list[str]
    own_settings: dict[str, str] = {}
    variant_of: str | None = None
    quick_about: str
    figures: list[PublishedFigure] = []
    published: list[PublishedRow] = []
    study: dict[str, object]
    quick: dict[str, object]

    @property
    def authors(self) -> str:
        """Authors and year of the publication."""
        return self.paper.partition(",")[0]

    @property
    def digits(self) -> int:
        """The number of decimals of the published numbers."""
        means = [row.mean_and_sd(id_)[0] for row in self.published for id_ in row.values]
        return max([len(str(mean).partition(".")[2]) for mean in means], default=1)

    @property
    def ids(self) -> list[str]:
        """The ids of every metric that is shown, in the order of the tables."""
        published = [id_ for row in self.published for id_ in row.values]
        return list(dict.fromkeys([*published, *self.extra_metrics]))

    def scenarios(self, *, quick: bool = False) -> list[str]:
        """Return the scenarios of the study or of its quick version."""
        plain = {**self.study, **(self.quick if quick else {})}
        return msgspec.convert(plain["scenarios"], list[str])

    @property
    def strategies(self) -> list[str]:
        """The strategies of the study."""
        return msgspec.convert(self.study["strategies"], list[str])

    def study_dict(
        self,
        *,
        quick: bool = False,
        without: Sequence[str] = (),
        run: Mapping[str, object] | None = None,
    ) -> dict[str, object]:
        """Return the study as `make_study` takes it.

        Args:
            quick: Return the quick version, in which `run` is merged and other keys replaced.
            without: Scenarios to leave out.
            run: Further options of every run.

        Example:
            >>> find_published_result("delange-speech").study_dict(quick=True)["scenarios"]
            ['split-fashion-mnist']
        """
        plain = {**self.study, **(self.quick if quick else {})}
        plain["scenarios"] = [n for n in self.scenarios(quick=quick) if n not in without]
        options = _table(self.study, "run") | (_table(self.quick, "run") if quick else {})
        options |= run or {}
        if "iterations" in options:
            options.pop("epochs", None)
        plain["run"] = options
        for table, factor in OVERRIDES.items():
            names = plain.get(factor)
            if table in plain and isinstance(names, list):
                # An override of what is not run would be rejected.
                overrides = _table(plain, table).items()
                plain[table] = {name: values for name, values in overrides if name in names}
        return {key: value for key, value in plain.items() if value != {}}


def _table(plain: dict[str, object], key: str) -> dict[str, object]:
    return msgspec.convert(plain.get(key, {}), dict[str, object])


@cache
def load_published_results() -> dict[str, PublishedResult]:
    """Return every published result by name.

    Example:
        >>> load_published_results()["delange-rotated"].tables
        'Table 2, Figure 3'
    """
    folder = files("perdure.reproduction") / "tables"
    paths = sorted((path for path in folder.iterdir() if path.name.endswith(".toml")), key=str)
    parsed = (_parse(path.name.removesuffix(".toml"), path.read_text("utf-8")) for path in paths)
    results = {result.name: result for result in parsed}
    for name, result in results.items():
        if result.variant_of is not None:
            rows = _select_rows(results[result.variant_of], result)
            results[name] = msgspec.structs.replace(result, published=rows)
    return results


def _select_rows(original: PublishedResult, variant: PublishedResult) -> list[PublishedRow]:
    """Return the rows of a result that a variant of it measures again, without ranks."""
    names: list[str | None] = [*_table(variant.study, "variant")] or [None]
    factors = {
        name: msgspec.convert(variant.study[key], list[str])
        for name, key in OVERRIDES.items()
        if key in variant.study
    }
    return [
        msgspec.structs.replace(row, variant=name, rank=None)
        for row in original.published
        if all(getattr(row, name) in (None, *values) for name, values in factors.items())
        for name in names
    ]


def find_published_result(name: str) -> PublishedResult:
    """Return a published result by name, or raise with similar names.

    Example:
        >>> len(find_published_result("faber-vgg9").published)
        44
    """
    results = load_published_results()
    if name not in results:
        raise InputError(
            f"unknown published result {name!r:.60}; {suggest_names(name, results)}"
            "`perdure reproduce` lists them"
        )
    return results[name]


def find_missing_data(scenarios: Sequence[str]) -> dict[str, list[str]]:
    """Return the datasets that are not available locally, by scenario; nothing is downloaded.

    Example:
        >>> find_missing_data(["split-digits"])
        {}
    """
    missing = {
        name: [data for data in find_scenario(name).data if not _is_local(data)]
        for name in scenarios
    }
    return {name: data for name, data in missing.items() if data}


def _is_local(dataset: str) -> bool:
    return locate(dataset, hashed=False).source in ("bundled", "cache", "mirror")


def _parse(name: str, text: str) -> PublishedResult:
    """Return the published result of a file, or raise: a mistake there is ours."""
    result = msgspec.convert({"name": name, **tomllib.loads(text)}, PublishedResult)
    for id_ in result.ids:
        find_metric(id_)
    for weights in result.weights.values():
        criteria_weights(weights or None)
    for row in result.published:
        if row.weights is not None and row.weights not in result.weights:
            raise ValueError(
                f"{name}: weights {row.weights!r}, expected one of {[*result.weights]}"
            )
    return result
