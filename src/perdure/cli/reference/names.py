"""The types of arguments that are names or paths; a shell completes them.

The parser accepts any text for them: which names are known, aliases and a user's own `module:name`
are the command's business.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from cyclopts import Parameter

from ...data import DATASETS
from ...metrics import METRICS, TOOLS
from ...models import MODELS
from ...scenarios import SCENARIOS
from ...strategies import STRATEGIES

__all__ = [
    "DatasetName",
    "MetricName",
    "ModelName",
    "PathText",
    "ScenarioName",
    "StrategyName",
    "TermName",
    "ToolName",
    "name_type",
]


def name_type(*names: str) -> object:
    """Return the type of an argument that is any text, of which a shell completes these."""
    return Annotated[Literal[names] | str, Parameter(show_choices=False)]


if TYPE_CHECKING:
    DatasetName: TypeAlias = str
    MetricName: TypeAlias = str
    ModelName: TypeAlias = str
    PathText: TypeAlias = str
    ScenarioName: TypeAlias = str
    StrategyName: TypeAlias = str
    TermName: TypeAlias = str
    ToolName: TypeAlias = str
else:
    DatasetName = name_type(*DATASETS)
    MetricName = name_type(*METRICS)
    ModelName = name_type(*MODELS)
    ScenarioName = name_type(*SCENARIOS)
    StrategyName = name_type(*STRATEGIES)
    ToolName = name_type(*TOOLS)
    TermName = name_type(*METRICS, *STRATEGIES, *TOOLS)
    PathText = str | Path  # the first that fits: always text
