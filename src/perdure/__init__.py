"""perdure measures what a model keeps while it goes on learning."""

from typing import TYPE_CHECKING, Any

from .metrics import (
    Costs,
    Hits,
    Options,
    ScoreMatrix,
    ScoreScale,
    Stream,
    Summary,
    Undefined,
    plan,
    summary,
)

if TYPE_CHECKING:
    from .evaluation import AlarmRang, EvaluationWarning, Evaluator, burst, gradient_norm
    from .record import RecordError, open_run, open_runs

__all__ = [
    "AlarmRang",
    "Costs",
    "EvaluationWarning",
    "Evaluator",
    "Hits",
    "Options",
    "RecordError",
    "ScoreMatrix",
    "ScoreScale",
    "Stream",
    "Summary",
    "Undefined",
    "__version__",
    "burst",
    "gradient_norm",
    "open_run",
    "open_runs",
    "plan",
    "summary",
]
__version__ = "0.1.0"

_LATER = {  # imported when they are first used: scoring needs no PyTorch
    "record": ("RecordError", "open_run", "open_runs"),
    "evaluation": ("AlarmRang", "EvaluationWarning", "Evaluator", "burst", "gradient_norm"),
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
