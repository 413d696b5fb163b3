"""perdure measures what a model keeps while it goes on learning."""

from typing import TYPE_CHECKING, Any

from .metrics import (
    Costs,
    PerExample,
    ScoreMatrix,
    ScoreScale,
    Stream,
    Summary,
    SummaryOptions,
    UndefinedMetricError,
    summary,
)
from .stats import plan

if TYPE_CHECKING:
    from .evaluation import Alarm as Alarm
    from .evaluation import AlarmTriggered as AlarmTriggered
    from .evaluation import EvalTask as EvalTask
    from .evaluation import EvaluationWarning as EvaluationWarning
    from .evaluation import Evaluator as Evaluator
    from .evaluation import Inline as Inline
    from .evaluation import Record as Record
    from .evaluation import Score as Score
    from .evaluation import Subset as Subset
    from .evaluation import Worker as Worker
    from .evaluation import burst as burst
    from .evaluation import gradient_norm as gradient_norm
    from .record import RecordError, open_run

# What needs PyTorch is not listed: `from perdure import *` works without it.
__all__ = [
    "Costs",
    "PerExample",
    "RecordError",
    "ScoreMatrix",
    "ScoreScale",
    "Stream",
    "Summary",
    "SummaryOptions",
    "UndefinedMetricError",
    "__version__",
    "open_run",
    "plan",
    "summary",
]
__version__ = "0.1.0"

_LATER = {  # imported when they are first used: scoring needs no PyTorch
    "record": ("RecordError", "open_run"),
    "evaluation": (
        "Alarm",
        "AlarmTriggered",
        "EvalTask",
        "EvaluationWarning",
        "Evaluator",
        "Inline",
        "Record",
        "Score",
        "Subset",
        "Worker",
        "burst",
        "gradient_norm",
    ),
}


def __getattr__(name: str) -> Any:
    for room, names in _LATER.items():
        if name in names:
            from importlib import import_module

            try:
                return getattr(import_module(f".{room}", __name__), name)
            except ModuleNotFoundError as error:
                if error.name != "torch":
                    raise
                raise ModuleNotFoundError(
                    f"perdure.{name} needs PyTorch: pip install 'perdure[train]'", name="torch"
                ) from None
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for names in _LATER.values() for name in names)})
