"""The types of arguments that are names or paths; a shell completes them.

The parser accepts any text for them: which names are known, aliases and a user's own `module:name`
are the command's business.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from cyclopts import Parameter

from ...data import DATASETS
from ...importers import READERS
from ...metrics import METRICS, TOOLS, select_metric_ids
from ...models import MODELS
from ...record import InputError
from ...scenarios import SCENARIOS
from ...strategies import STRATEGIES
from .._output import print_stderr

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = [
    "DatasetName",
    "MetricList",
    "MetricText",
    "ModelName",
    "PathText",
    "ReaderName",
    "ScenarioName",
    "StrategyName",
    "TermName",
    "ToolName",
    "name_type",
    "parse_metric_id",
    "parse_metric_ids",
]


def name_type(*names: str) -> object:
    """Return the type of an argument that is any text, of which a shell completes these."""
    return Annotated[Literal[names] | str, Parameter(show_choices=False)]


if TYPE_CHECKING:
    DatasetName: TypeAlias = str
    MetricText: TypeAlias = str
    ModelName: TypeAlias = str
    PathText: TypeAlias = str
    ReaderName: TypeAlias = str
    ScenarioName: TypeAlias = str
    StrategyName: TypeAlias = str
    TermName: TypeAlias = str
    ToolName: TypeAlias = str
else:
    DatasetName = name_type(*DATASETS)
    MetricText = name_type(*METRICS)
    ModelName = name_type(*MODELS)
    ReaderName = name_type("auto", *READERS)
    ScenarioName = name_type(*SCENARIOS)
    StrategyName = name_type(*STRATEGIES)
    ToolName = name_type(*TOOLS)
    TermName = name_type(*METRICS, *STRATEGIES, *TOOLS, *SCENARIOS, *MODELS)
    PathText = str | Path  # the first that fits: always text


class MetricList(list[str]):
    """Ids of metrics. `named` are those named one by one, the others match a pattern."""

    named: tuple[str, ...] = ()

    def missing(self, defined: Collection[str]) -> list[str]:
        """Return the named ids that are not defined, or all ids if none of them is."""
        missing = [id_ for id_ in self.named if id_ not in defined]
        return missing if any(id_ in defined for id_ in self) else list(self)


def parse_metric_ids(text: str, option: str) -> MetricList:
    """Return the ids of `aa,forgetting.*`; an alias is stated on standard error."""
    names = [part.strip() for part in text.split(",")] if text else []
    if not all(names):
        raise InputError(f"{option} is {text!r:.40}, expected ids like acc,bwt without spaces")
    try:
        selection = select_metric_ids(names)
    except ValueError as error:
        raise InputError(f"{option}: {error}") from None
    for note in selection.notes:
        print_stderr(f"note: {note}")
    ids = MetricList(selection.ids)
    ids.named = tuple(selection.named)
    return ids


def parse_metric_id(text: str, option: str) -> str:
    """Return the id of one metric."""
    ids = parse_metric_ids(text, option)
    if len(ids) != 1:
        raise InputError(f"{option} is {text!r:.40}, expected one metric such as acc")
    return ids[0]
