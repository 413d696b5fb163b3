"""perdure measures what a model retains while it keeps learning.

- `score`, `score_groups` and `compare` compute metrics from arrays, files and recorded runs;
  `which` says which definitions give a number.
- `check` decides whether a run keeps requirements, against its own past or a baseline of `freeze`;
  `flips` lists the examples that were lost.
- `repeat` calls a function of yours with several seeds and computes metrics of what it returns.
- `Evaluator` evaluates every task while your own training loop runs, `evaluate` a model once;
  `Log` records evaluations that any other program makes.
- `run` trains a strategy on a scenario; `list_runs` and `open_run` read what was recorded.
- `import_results` turns the logs of other tools into recorded runs.
- `plan` predicts what an evaluation schedule costs and how precise it is.

PyTorch is imported only when something that needs it is used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from .metrics import (
    Costs,
    PerExample,
    RunsSummary,
    ScoreMatrix,
    ScoreScale,
    Stream,
    Summary,
    SummaryOptions,
    UndefinedMetricError,
    summary,
)
from .stats import EvaluationPlan, plan

if TYPE_CHECKING:  # the aliases tell type checkers and editors that these names are public
    from . import adapters as adapters
    from . import data as data
    from . import evaluation as evaluation
    from . import execution as execution
    from . import importers as importers
    from . import metrics as metrics
    from . import models as models
    from . import record as record
    from . import report as report
    from . import reproduction as reproduction
    from . import scenarios as scenarios
    from . import stats as stats
    from . import strategies as strategies
    from . import studies as studies
    from . import training as training
    from . import verdict as verdict
    from .api.checks import check as check
    from .api.checks import flips as flips
    from .api.checks import freeze as freeze
    from .api.comparison import compare as compare
    from .api.definitions import DefinitionMatch as DefinitionMatch
    from .api.definitions import DefinitionMatches as DefinitionMatches
    from .api.definitions import which as which
    from .api.evaluate import TaskScores as TaskScores
    from .api.evaluate import evaluate as evaluate
    from .api.grouped_scores import GroupedScores as GroupedScores
    from .api.grouped_scores import ScoreGroup as ScoreGroup
    from .api.grouped_scores import score_groups as score_groups
    from .api.options import ConfigOptions as ConfigOptions
    from .api.recorded_runs import import_results as import_results
    from .api.runs import RunResult as RunResult
    from .api.runs import run as run
    from .api.scores import RepeatError as RepeatError
    from .api.scores import repeat as repeat
    from .api.scores import score as score
    from .evaluation import Alarm as Alarm
    from .evaluation import AlarmTriggered as AlarmTriggered
    from .evaluation import Burst as Burst
    from .evaluation import EvalTask as EvalTask
    from .evaluation import EvaluationWarning as EvaluationWarning
    from .evaluation import Evaluator as Evaluator
    from .evaluation import Every as Every
    from .evaluation import Inline as Inline
    from .evaluation import Record as Record
    from .evaluation import Score as Score
    from .evaluation import Subset as Subset
    from .evaluation import Worker as Worker
    from .evaluation import burst as burst
    from .evaluation import every as every
    from .evaluation import gradient_norm as gradient_norm
    from .record import InputError as InputError
    from .record import InputOptions as InputOptions
    from .record import Log as Log
    from .record import RecordError as RecordError
    from .record import Run as Run
    from .record import RunFolder as RunFolder
    from .record import RunMetadata as RunMetadata
    from .record import RunStatus as RunStatus
    from .record import list_runs as list_runs
    from .record import open_run as open_run
    from .report.tables import ComparisonReport as ComparisonReport
    from .verdict import Flips as Flips
    from .verdict import Verdict as Verdict

__version__ = "0.1.0"

# Where each name that is imported on first use is defined.
_LIGHT = {
    "api.checks": ("check", "flips", "freeze"),
    "api.comparison": ("compare",),
    "api.definitions": ("DefinitionMatch", "DefinitionMatches", "which"),
    "api.grouped_scores": ("GroupedScores", "ScoreGroup", "score_groups"),
    "api.recorded_runs": ("import_results",),
    "record": (
        "InputError", "InputOptions", "Log", "RecordError", "Run", "RunFolder", "RunMetadata",
        "RunStatus", "list_runs", "open_run",
    ),
    "report.tables": ("ComparisonReport",),
    "verdict": ("Flips", "Verdict"),
    "api.options": ("ConfigOptions",),
    "api.runs": ("RunResult", "run"),
    "api.scores": ("RepeatError", "repeat", "score"),
}  # fmt: skip
_NEEDS_TORCH = {
    "api.evaluate": ("TaskScores", "evaluate"),
    "evaluation": (
        "Alarm", "AlarmTriggered", "Burst", "EvalTask", "EvaluationWarning", "Evaluator", "Every",
        "Inline", "Record", "Score", "Subset", "Worker", "burst", "every", "gradient_norm",
    ),
}  # fmt: skip
_SUBPACKAGES = (
    "adapters", "data", "evaluation", "execution", "importers", "metrics", "models", "record",
    "report", "reproduction", "scenarios", "stats", "strategies", "studies", "training",
    "verdict",
)  # fmt: skip
_MODULES = {name: module for module, names in (_LIGHT | _NEEDS_TORCH).items() for name in names}

# `from perdure import *` works without PyTorch; `dir(perdure)` lists everything.
__all__ = [
    "Costs",
    "EvaluationPlan",
    "PerExample",
    "RunsSummary",
    "ScoreMatrix",
    "ScoreScale",
    "Stream",
    "Summary",
    "SummaryOptions",
    "UndefinedMetricError",
    "__version__",
    "plan",
    "summary",
    *(name for names in _LIGHT.values() for name in names),
]


if not TYPE_CHECKING:  # a type checker would take any name for an attribute
    _import = import_module("._extras", __name__).import_on_use(__name__, _MODULES)

    def __getattr__(name: str) -> object:
        if name in _SUBPACKAGES:
            return import_module(f".{name}", __name__)
        value = _import(name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*__all__, *_MODULES, *_SUBPACKAGES})
